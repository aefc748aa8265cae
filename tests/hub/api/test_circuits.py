"""A circuit is an uploaded key that was looked at before it was believed."""

import json
import os

import pytest

from hub import ports
from hub.verify import Limits
from tests.hub.api.conftest import CIRCUITS, Web


async def test_a_circuit_is_registered_once_under_its_name(web: Web) -> None:
    made = await web.register()
    assert (made["name"], made["curve"], made["n_public"], made["domain_size"]) == ("merkle8", "bn128", 2, 2048)
    assert (made["contributions"], made["node_labels"]) == (1, {})
    again = await web.ask("POST", "/api/v1/circuits", json={"name": "merkle8", "zkey": made["id"]})
    assert (again.status, again.json) == (200, made)
    for name in (made["id"], "merkle8"):
        assert (await web.ask("GET", f"/api/v1/circuits/{name}")).json == made
    assert (await web.ask("GET", "/api/v1/circuits")).json == {"circuits": [made], "next": None}


async def test_jobs_take_over_where_their_circuit_may_go_when_they_are_handed_in(web: Web) -> None:
    made = await web.register()
    before = await web.submit(headers={"Idempotency-Key": "k"})
    changed = await web.ask("PATCH", "/api/v1/circuits/merkle8", json={"node_labels": {"owner": "us"}})
    assert (changed.status, changed.json) == (200, made | {"node_labels": {"owner": "us"}})
    assert (await web.ask("GET", f"/api/v1/circuits/{made['id']}")).json == changed.json
    after = await web.submit()
    assert (before["node_labels"], after["node_labels"]) == ({}, {"owner": "us"})
    assert (await web.submit(headers={"Idempotency-Key": "k"}))["id"] == before["id"]
    for labels in ({"owner": ""}, {"": "us"}, {str(number): "x" for number in range(17)}, {"owner": 1}):
        refused = await web.ask("PATCH", "/api/v1/circuits/merkle8", json={"node_labels": labels})
        assert (refused.status, refused.code) == (422, "invalid"), labels
    unknown = await web.ask("PATCH", "/api/v1/circuits/nothing", json={"node_labels": {}})
    assert (unknown.status, unknown.code) == (404, "not_found")


async def test_its_verification_key_is_what_snarkjs_exports(web: Web) -> None:
    await web.register()
    got = await web.ask("GET", "/api/v1/circuits/merkle8/verification-key")
    assert got.json == json.loads((CIRCUITS / "merkle8_verification_key.json").read_text())
    assert (await web.ask("GET", "/api/v1/circuits/nothing/verification-key")).code == "not_found"


async def test_a_name_belongs_to_one_key(web: Web) -> None:
    await web.register("one")
    zkey = bytearray((CIRCUITS / "merkle8.zkey").read_bytes())
    assert zkey[-9:] == b"provewire"  # the name of the contribution, in the last section: not read
    zkey[-1:] = b"E"
    other = await web.upload(bytes(zkey))
    taken = await web.ask("POST", "/api/v1/circuits", json={"name": "one", "zkey": other})
    assert (taken.status, taken.code) == (409, "name_taken")


@pytest.mark.parametrize("kind", ["random", "truncated", "empty", "witness"])
async def test_a_file_that_is_no_key_is_refused_with_its_sentence(web: Web, kind: str) -> None:
    data = {
        "random": os.urandom(4000),
        "truncated": (CIRCUITS / "merkle8.zkey").read_bytes()[:4000],
        "empty": b"",
        "witness": (CIRCUITS / "merkle8.wtns").read_bytes(),
    }[kind]
    digest = await web.upload(data)
    refused = await web.ask("POST", "/api/v1/circuits", json={"name": "x", "zkey": digest})
    assert (refused.status, refused.code) == (422, 2)
    assert refused.json["detail"].startswith(f"{digest}.zkey: ")
    assert refused.json["type"] == "urn:provewire:problem:malformed-file"


async def test_what_the_hub_itself_fails_at_is_no_fault_of_the_file(web: Web) -> None:
    zkey = await web.upload((CIRCUITS / "merkle8.zkey").read_bytes())
    web.app[ports.VERIFIER].limits = Limits(deadline_s=0.01)
    failed = await web.ask("POST", "/api/v1/circuits", json={"name": "x", "zkey": zkey})
    assert (failed.status, failed.code, failed.headers["Retry-After"]) == (503, "check_failed", "30")
    assert "deadline of 0.01 s" in failed.json["detail"]


async def test_a_key_must_be_uploaded_first(web: Web) -> None:
    refused = await web.ask("POST", "/api/v1/circuits", json={"name": "x", "zkey": "a" * 64})
    assert (refused.status, refused.code) == (422, "artifact_missing")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "x"},
        {"name": "", "zkey": "a" * 64},
        {"name": "<b>", "zkey": "a" * 64},
        {"name": "../x", "zkey": "a" * 64},
        {"name": "x", "zkey": "../../etc/passwd"},
        {"name": "x", "zkey": "a" * 64, "extra": 1},
        [],
    ],
)
async def test_a_body_of_another_shape_is_refused(web: Web, body: object) -> None:
    refused = await web.ask("POST", "/api/v1/circuits", json=body)
    assert (refused.status, refused.code) == (422, "invalid")


async def test_listings_are_paged_by_key(web: Web) -> None:
    made = sorted([(await web.register(f"c{number}", variant=number))["id"] for number in range(5)])
    seen: list[str] = []
    after = ""
    while True:
        page = (await web.ask("GET", f"/api/v1/circuits?limit=2&after={after}")).json
        assert len(page["circuits"]) <= 2
        seen += [one["id"] for one in page["circuits"]]
        if page["next"] is None:
            break
        after = page["next"]
    assert seen == made


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "limit=x", "limit=-1", "limit=1e3", "after=%00", f"after={'x' * 999}"]
)
async def test_an_impossible_page_is_refused(web: Web, query: str) -> None:
    refused = await web.ask("GET", f"/api/v1/circuits?{query}")
    assert (refused.status, refused.code) == (422, "invalid")
