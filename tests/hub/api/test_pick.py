"""Beginnings of ids stand for whole ones; where several begin so, they are listed."""

import pytest

from hub import ports
from hub.api.errors import Problem
from hub.api.pick import pick, pick_stored
from hub.ids import uuid7
from hub.store.base import Listed
from hub.store.records import Artifact, SessionRow
from tests.hub.api.conftest import Web
from wire.reasons import Reason

KNOWN = [("aaaa1111", "one"), ("aaaa2222", "two"), ("bbbb3333", "two")]


@pytest.mark.parametrize("wanted", ["aaaa1111", "aaaa1", "AAAA1", "one"])
def test_what_only_one_goes_by_is_enough(wanted: str) -> None:
    assert pick("thing", wanted, KNOWN) == "aaaa1111"


@pytest.mark.parametrize(("wanted", "status"), [("aaaa", 409), ("two", 409), ("aaa", 404), ("", 404), ("cccc", 404)])
def test_what_several_or_nobody_goes_by_is_refused(wanted: str, status: int) -> None:
    with pytest.raises(Problem) as refused:
        pick("thing", wanted, KNOWN)
    assert refused.value.status == status
    assert bool(refused.value.candidates) == (status == 409)


async def test_jobs_and_circuits_are_found_by_a_beginning(web: Web) -> None:
    circuit = await web.register()
    jobs = [await web.submit() for _ in range(2)]
    job = jobs[0]["id"]
    assert (await web.ask("GET", f"/api/v1/jobs/{job[:30]}")).json["id"] == job
    several = await web.ask("GET", f"/api/v1/jobs/{job[:6]}")
    assert (several.status, several.code) == (409, "ambiguous")
    assert {one["id"] for one in several.json["candidates"]} == {one["id"] for one in jobs}
    assert (await web.ask("POST", f"/api/v1/jobs/{job[:30]}/cancel")).json["state"] == "cancelled"
    for missing in ("ffff", "%5f%5f%5f%5f", "%25%25%25%25", job[:3], "01900000-0000-7000-8000-000000000000"):
        assert (await web.ask("GET", f"/api/v1/jobs/{missing}")).status == 404, missing
    found = await web.ask("GET", f"/api/v1/circuits/{circuit['id'][:10]}")
    assert found.json["name"] == "merkle8"
    key = await web.ask("GET", f"/api/v1/circuits/{circuit['id'][:10]}/verification-key")
    assert key.status == 200


async def test_more_than_are_shown_are_said_to_be_more(web: Web) -> None:
    store = web.app[ports.STORE]
    for number in range(10):
        await store.add_artifact(Artifact(sha256=f"abcd{number:060x}", bytes_=1, created_at_ms=1))
    with pytest.raises(Problem) as refused:
        await pick_stored(store, Listed.ARTIFACTS, "artifact", "abcd")
    assert len(refused.value.candidates) == 8
    assert "and more" in refused.value.detail
    listed = (await web.ask("GET", "/api/v1/artifacts?limit=4")).json
    assert len(listed["artifacts"]) == 4
    rest = (await web.ask("GET", f"/api/v1/artifacts?after={listed['next']}")).json
    assert (len(rest["artifacts"]), rest["next"]) == (6, None)


async def test_lists_that_seldom_change_are_sent_once(web: Web) -> None:
    for path in ("/api/v1/circuits", "/api/v1/openapi.json"):
        first = await web.ask("GET", path)
        again = await web.ask("GET", path, headers={"If-None-Match": first.headers["ETag"]})
        assert (again.status, again.body) == (304, b"")
    await web.register()
    assert (await web.ask("GET", "/api/v1/circuits", headers={"If-None-Match": first.headers["ETag"]})).status == 200


async def test_a_nodes_sessions_and_what_the_hub_saw_are_paged(web: Web) -> None:
    peer = await web.hub.enroll()
    now_ms = web.app[ports.CLOCK].time_ms()  # sessions of long ago are forgotten, see hub.retention
    for number in range(3):
        row = SessionRow(
            id=uuid7(now_ms + number),
            agent_id=peer.id,
            opened_at_ms=now_ms + number,
            generation=1,
            remote="192.0.2.1",
            boot_id="b",
            epoch="e",
            closed_at_ms=now_ms + number,
            reason_code=int(Reason.DUPLICATE_IDENTITY),
        )
        await web.app[ports.STORE].refused_session(row)
    path = f"/api/v1/nodes/{peer.id}/sessions"
    everything = (await web.ask("GET", path)).json
    assert (len(everything["sessions"]), everything["next"]) == (3, None)
    first = (await web.ask("GET", f"{path}?limit=2")).json
    rest = (await web.ask("GET", f"{path}?limit=2&after={first['next']}")).json
    assert first["sessions"] + rest["sessions"] == everything["sessions"]
