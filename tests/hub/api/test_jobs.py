"""A job is checked, then stored, then accepted; its proof is told only once the hub has verified it."""

import asyncio
import hashlib
import json
import os
from typing import Any

import pytest

from hub import ports
from hub.api.jobs import PAIRS_MAX, CheckedPairs
from hub.store.records import Job
from tests.hub.api.conftest import CIRCUITS, PROOF, Start, Web
from wire.frames import JobFailed, JobStarted, JobSucceeded, Stream
from wire.inputs import JobAssigned
from wire.jobs import Output

DONE = {"done", "failed", "cancelled"}


async def ended(web: Web, job: str) -> dict[str, Any]:
    """The job once it has ended, as the bus tells it."""
    with web.app[ports.BUS].subscribe() as changes:
        async with asyncio.timeout(20):
            while (seen := (await web.ask("GET", f"/api/v1/jobs/{job}")).json)["state"] not in DONE:
                await anext(changes)
    found: dict[str, Any] = seen
    return found


def result(job: str, attempt: int, proof: bytes) -> JobSucceeded:
    digest = hashlib.sha256(proof).hexdigest()
    return JobSucceeded(job, attempt, [Output("proof", digest, len(proof), proof)], {"msm": 12.5})


async def test_a_job_goes_all_the_way(web: Web) -> None:
    circuit = await web.register()
    job = await web.submit()
    assert (job["state"], job["circuit"], job["circuit_id"]) == ("queued", "merkle8", circuit["id"])
    assert (await web.ask("GET", f"/api/v1/jobs/{job['id']}/proof")).code == "not_done"
    peer = await web.hub.enroll("node-a")
    async with peer.connect() as connection:
        assigned = (await connection.until(JobAssigned)).frame
        await connection.events(
            Stream.JOBS,
            JobStarted(job["id"], assigned.attempt, "host", 77),
            result(job["id"], assigned.attempt, json.dumps(json.loads(PROOF)).encode()),
        )
        told = await ended(web, job["id"])
    assert (told["state"], told["attempt"], told["node"], told["error"]) == ("done", 1, peer.id, None)
    (attempt,) = told["attempts"]
    assert (attempt["outcome"], attempt["device"], attempt["node"]) == ("done", "host", peer.id)
    assert told["timings_ms"] == {"msm": 12.5}
    assert told["elapsed_s"] >= 0
    proof = await web.ask("GET", f"/api/v1/jobs/{job['id']}/proof")
    assert proof.body == PROOF
    assert proof.headers["Content-Type"] == "application/json"
    assert 'filename="proof.json"' in proof.headers["Content-Disposition"]
    public = (await web.ask("GET", f"/api/v1/jobs/{job['id']}/public")).json
    assert len(public) == circuit["n_public"]
    assert all(value.isdigit() for value in public)


async def test_a_failure_is_told_with_its_whole_text(start: Start) -> None:
    web = await start(attempts_max=1)
    await web.register()
    job = await web.submit()
    detail = "the card fell off the bus\n<b>Xid 79</b>"
    peer = await web.hub.enroll("node-a")
    async with peer.connect() as connection:
        assigned = (await connection.until(JobAssigned)).frame
        await connection.events(Stream.JOBS, JobFailed(job["id"], assigned.attempt, 5, detail))
        told = await ended(web, job["id"])
    assert told["state"] == "failed"
    assert told["error"]["code"] == 5
    assert detail in told["error"]["detail"]
    assert (told["last_failure"]["detail"], told["last_failure"]["outcome"]) == (detail, "failed")
    refused = await web.ask("GET", f"/api/v1/jobs/{job['id']}/proof")
    assert (refused.status, refused.code) == (409, "not_done")


async def test_a_proof_of_something_else_never_leaves_the_hub(start: Start) -> None:
    web = await start(attempts_max=1)
    await web.register()
    witness = await web.upload((CIRCUITS / "merkle8_other.wtns").read_bytes())
    job = (await web.ask("POST", "/api/v1/jobs", json={"circuit": "merkle8", "witness": witness})).json
    peer = await web.hub.enroll("liar")
    async with peer.connect() as connection:
        assigned = (await connection.until(JobAssigned)).frame
        await connection.events(Stream.JOBS, result(job["id"], assigned.attempt, PROOF))
        told = await ended(web, job["id"])
    assert told["state"] == "failed"
    assert told["attempts"][0]["outcome"] == "refused"
    assert "does not verify" in told["error"]["detail"]
    assert (await web.ask("GET", f"/api/v1/jobs/{job['id']}/proof")).status == 409


async def test_the_same_idempotency_key_makes_one_job(web: Web) -> None:
    await web.register()
    key = {"Idempotency-Key": "order-17"}
    first = await web.submit(headers=key)
    assert (await web.submit(headers=key))["id"] == first["id"]
    witness = hashlib.sha256((CIRCUITS / "merkle8.wtns").read_bytes()).hexdigest()
    body = {"circuit": "merkle8", "witness": witness, "priority": 5}
    other = await web.ask("POST", "/api/v1/jobs", json=body, headers=key)
    assert (other.status, other.code) == (422, "idempotency_conflict")
    assert (await web.ask("POST", "/api/v1/jobs", json=body | {"priority": 0, "label": "x"}, headers=key)).status == 422
    assert len((await web.ask("GET", "/api/v1/jobs")).json["jobs"]) == 1
    for wrong in ("", "x" * 256):
        refused = await web.ask("POST", "/api/v1/jobs", json=body, headers={"Idempotency-Key": wrong})
        assert refused.code == "invalid"


async def test_a_label_is_kept_as_it_was_given(web: Web) -> None:
    await web.register()
    witness = await web.upload((CIRCUITS / "merkle8.wtns").read_bytes())
    label = "<b>block 17\x1b[2J</b> \u202e"
    body = {"circuit": "merkle8", "witness": witness, "label": label}
    made = await web.ask("POST", "/api/v1/jobs", json=body)
    assert made.json["label"] == label
    assert (await web.ask("GET", f"/api/v1/jobs/{made.json['id']}")).json["label"] == label
    refused = await web.ask("POST", "/api/v1/jobs", json=body | {"label": "x" * 129})
    assert (refused.status, refused.code) == (422, "invalid")


@pytest.mark.parametrize("kind", ["random", "truncated", "empty", "key"])
async def test_a_file_that_is_no_witness_is_refused_before_it_is_a_job(web: Web, kind: str) -> None:
    await web.register()
    data = {
        "random": os.urandom(4000),
        "truncated": (CIRCUITS / "merkle8.wtns").read_bytes()[:4000],
        "empty": b"",
        "key": (CIRCUITS / "merkle8.zkey").read_bytes(),
    }[kind]
    digest = await web.upload(data)
    refused = await web.ask("POST", "/api/v1/jobs", json={"circuit": "merkle8", "witness": digest})
    assert (refused.status, refused.code) == (422, 2)
    assert digest in refused.json["detail"]
    assert (await web.ask("GET", "/api/v1/jobs")).json["jobs"] == []


async def test_a_witness_of_another_circuit_is_refused(web: Web) -> None:
    await web.register()
    shorter = bytearray((CIRCUITS / "merkle8.wtns").read_bytes()[: -32 * 10])
    n_witness = int.from_bytes(shorter[60:64], "little") - 10
    shorter[60:64] = n_witness.to_bytes(4, "little")
    shorter[68:76] = (n_witness * 32).to_bytes(8, "little")
    digest = await web.upload(bytes(shorter))
    refused = await web.ask("POST", "/api/v1/jobs", json={"circuit": "merkle8", "witness": digest})
    assert (refused.status, refused.code) == (422, 3)
    assert refused.json["type"] == "urn:provewire:problem:mismatch"


async def test_what_a_job_speaks_of_must_be_there(web: Web) -> None:
    unknown = await web.ask("POST", "/api/v1/jobs", json={"circuit": "nothing", "witness": "a" * 64})
    assert (unknown.status, unknown.code) == (422, "circuit_unknown")
    await web.register()
    missing = await web.ask("POST", "/api/v1/jobs", json={"circuit": "merkle8", "witness": "a" * 64})
    assert (missing.status, missing.code) == (422, "artifact_missing")
    for path in ("", "/proof", "/public"):
        assert (await web.ask("GET", f"/api/v1/jobs/nothing{path}")).code == "not_found"
    assert (await web.ask("POST", "/api/v1/jobs/nothing/cancel")).code == "not_found"


async def test_a_full_queue_says_so(start: Start) -> None:
    web = await start(jobs_open_max=1)
    await web.register()
    await web.submit()
    witness = hashlib.sha256((CIRCUITS / "merkle8.wtns").read_bytes()).hexdigest()
    refused = await web.ask("POST", "/api/v1/jobs", json={"circuit": "merkle8", "witness": witness})
    assert (refused.status, refused.code) == (503, "queue_full")
    assert refused.headers["Retry-After"]


async def test_a_job_can_be_called_off_once(web: Web) -> None:
    await web.register()
    job = await web.submit()
    called = await web.ask("POST", f"/api/v1/jobs/{job['id']}/cancel")
    assert (called.status, called.json["state"]) == (200, "cancelled")
    again = await web.ask("POST", f"/api/v1/jobs/{job['id']}/cancel")
    assert again.json["state"] == "cancelled"


async def test_jobs_are_listed_newest_first_and_by_state(web: Web) -> None:
    await web.register()
    made = [(await web.submit())["id"] for _ in range(5)]
    await web.ask("POST", f"/api/v1/jobs/{made[0]}/cancel")
    first = (await web.ask("GET", "/api/v1/jobs?limit=3")).json
    rest = (await web.ask("GET", f"/api/v1/jobs?limit=3&after={first['next']}")).json
    assert [one["id"] for one in first["jobs"] + rest["jobs"]] == made[::-1]
    assert rest["next"] is None
    cancelled = (await web.ask("GET", "/api/v1/jobs?state=cancelled")).json["jobs"]
    assert [one["id"] for one in cancelled] == made[:1]
    assert (await web.ask("GET", "/api/v1/jobs?state=lost")).code == "invalid"


@pytest.mark.parametrize(
    ("data", "media", "status", "code"),
    [
        (b"{", "application/json", 400, "malformed_json"),
        (b"\xff\xfe", "application/json", 400, "malformed_json"),
        (b"[" * 60_000, "application/json", 422, "invalid"),
        (b"null", "application/json", 422, "invalid"),
        (b'{"circuit": "x"}', "text/plain", 415, "not_json"),
        (b" " * 70_000, "application/json", 413, "body_too_large"),
    ],
)
async def test_bodies_that_are_no_request(web: Web, data: bytes, media: str, status: int, code: str) -> None:
    refused = await web.ask("POST", "/api/v1/jobs", data=data, headers={"Content-Type": media})
    assert (refused.status, refused.code) == (status, code)


async def test_a_job_is_in_the_store_before_it_is_accepted(web: Web) -> None:
    await web.register()
    job = await web.submit()
    stored = await web.app[ports.STORE].job(job["id"])
    assert stored is not None
    assert isinstance(stored.job, Job)
    assert [item.role for item in stored.job.inputs] == ["zkey", "wtns"]


def test_checked_pairs_are_bounded() -> None:
    pairs = CheckedPairs()
    for number in range(PAIRS_MAX + 10):
        pairs.add(("key", str(number)))
    assert ("key", "0") not in pairs
    assert ("key", str(PAIRS_MAX + 9)) in pairs
