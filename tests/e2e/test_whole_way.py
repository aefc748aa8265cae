"""The main job: an agent dials out, a worker proves, the hub verifies, and other people's verifier accepts it."""

import json
from collections.abc import Callable
from pathlib import Path

from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey
from tests.e2e.rig import CIRCUITS, Rig


def take(hub_call: Callable[[str, str], object], job: str, circuit: str, folder: Path) -> None:
    for name, path in (
        ("proof.json", f"jobs/{job}/proof"),
        ("public.json", f"jobs/{job}/public"),
        ("verification_key.json", f"circuits/{circuit}/verification-key"),
    ):
        answer = hub_call("GET", path)
        (folder / name).write_text(json.dumps(answer))


def public_of_the_witness() -> list[str]:
    with Witness.open(CIRCUITS / "merkle8.wtns") as witness, ZKey.open(CIRCUITS / "merkle8.zkey") as zkey:
        return [str(value) for value in witness.public(zkey.n_public)]


def test_a_job_comes_back_as_a_proof_that_snarkjs_accepts(
    rig: Rig, tmp_path: Path, snarkjs_accepts: Callable[[Path], bool]
) -> None:
    hub = rig.hub()
    agent = rig.agent().join(hub)
    circuit = hub.register()
    job = hub.submit(circuit)
    states = [seen["state"] for seen in hub.watch_to_end(job)]
    ended = hub.job(job)
    assert ended["state"] == "done", ended
    # A proof may be shorter than the live stream's step, so that one of them is not seen; their order is kept.
    assert states == sorted(states, key=["queued", "leased", "running", "verifying", "done"].index)
    assert ended["created_at_ms"] <= ended["started_at_ms"] <= ended["ended_at_ms"]
    assert ended["attempt"] == 1
    take(hub.call, job, circuit, tmp_path)
    assert snarkjs_accepts(tmp_path)
    # public.json is written from the submitted witness, and the key is the one snarkjs exports.
    assert json.loads((tmp_path / "public.json").read_text()) == public_of_the_witness()
    exported = json.loads((CIRCUITS / "merkle8_verification_key.json").read_text())
    assert json.loads((tmp_path / "verification_key.json").read_text()) == exported

    # The picture on the way: the node's own view and the hub's agree.
    local = agent.status()
    assert local is not None
    node = hub.nodes()["node-a"]
    assert node["id"] == local["agent_id"]
    assert node["status"]["host"]["memory_total_bytes"] == local["host"]["memory_total_bytes"] > 0
    assert local["hub"]["last_ack_age_s"] < 30


def test_metrics_show_the_job_and_want_a_credential(rig: Rig) -> None:
    hub = rig.hub()
    rig.agent().join(hub)
    hub.register()
    assert hub.wait_job(hub.submit())["state"] == "done"
    assert hub.request("GET", "/metrics").status == 401
    text = hub.request("GET", "/metrics", headers=hub.admin).body.decode()
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    assert samples['provewire_jobs{state="done"}'] == "1.0"
    assert samples['provewire_nodes{state="online"}'] == "1.0"


def test_an_enrolment_token_is_good_for_one_node_and_for_its_time(rig: Rig) -> None:
    hub = rig.hub()
    token = hub.enroll_token(rig.folder)
    first = rig.agent("node-a").start(hub, "--token-file", str(token))
    hub.wait_node("node-a")
    second = rig.agent("node-b").start(hub, "--token-file", str(token))
    second.wait_log("used up")
    assert set(hub.nodes()) == {"node-a"}
    # The first one is enrolled for good: it comes back without a token.
    first.kill()
    first.start(hub)
    hub.wait_node("node-a")

    expired = hub.enroll_token(rig.folder, ttl_s=1)
    third = rig.agent("node-c")
    hub.wait_expired(expired)
    third.start(hub, "--token-file", str(expired))
    third.wait_log("expired")
    assert set(hub.nodes()) == {"node-a"}


def test_nothing_is_told_without_a_credential(rig: Rig) -> None:
    hub = rig.hub()
    for path in ("/", "/metrics", "/api/v1/nodes", "/api/v1/jobs", "/api/v1/live", "/api/v1/circuits"):
        assert hub.request("GET", path).status in {302, 303, 401}, path
