"""Nodes as they are, what happened at them, and sending one away."""

import asyncio
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from hub import ports
from hub.api import nodes
from hub.ids import uuid7
from hub.store.records import Agent, HubEvent
from tests.hub.api.conftest import Web
from tests.hub.rig import Peer
from wire.frames import Gap, JobStarted, LogRecord, NodeEvent, Stream
from wire.inputs import Acknowledged, Heard, RefusedByHub
from wire.readings import GpuReading, GpuState, HostReading
from wire.reasons import Reason
from wire.status import NodeStatus, WorkerReading, WorkerState

PICTURE = NodeStatus(
    hostname="gpu-7",
    host=HostReading(cpu_count=64, cpu_used_ratio=0.25, memory_total_bytes=2**38),
    gpus=[GpuReading("GPU-1", "H200", 2**37, None, GpuState.LOST)],
    workers=[WorkerReading("cuda:0", WorkerState.IDLE, 4711)],
    jobs=[],
)


async def test_a_node_is_shown_as_it_said_and_unknown_values_are_null(web: Web) -> None:
    peer = await web.hub.enroll("node-a")
    never = (await web.ask("GET", f"/api/v1/nodes/{peer.id}")).json
    assert (never["state"], never["status"], never["last_frame_age_s"]) == ("never", None, None)
    async with peer.connect(name="node-a") as connection:
        await connection.status(PICTURE)
        await connection.until(Heard)
        node = (await web.ask("GET", f"/api/v1/nodes/{peer.id}")).json
    assert (node["name"], node["state"], node["version"]) == ("node-a", "online", "0.1.0")
    assert node["last_frame_age_s"] < 30
    assert node["session"]
    assert node["capabilities"] == ["groth16.host"]
    status = node["status"]
    assert status["hostname"] == "gpu-7"
    assert status["host"]["cpu_used_ratio"] == 0.25
    assert status["host"]["memory_used_bytes"] is None
    (gpu,) = status["gpus"]
    assert (gpu["uuid"], gpu["name"], gpu["memory_total_bytes"]) == ("GPU-1", "H200", 2**37)
    assert (gpu["memory_used_bytes"], gpu["state"]) == (None, "lost")
    assert status["workers"] == [{"device": "cuda:0", "state": "idle", "pid": 4711, "detail": "", "on_host": ""}]
    assert status["outbox"] is None
    assert status["draining"] is False


async def test_a_node_that_says_too_much_of_its_workers_burdens_no_viewer(web: Web) -> None:
    peer = await web.hub.enroll("node-a")
    workers = [WorkerReading(f"cuda:{number}", WorkerState.DOWN, detail="why " + "x" * 7000) for number in range(32)]
    async with peer.connect() as connection:
        await connection.status(NodeStatus(workers=workers))
        await connection.until(Heard)
        reply = await web.ask("GET", f"/api/v1/nodes/{peer.id}")
    assert len(reply.body) < 32 * 1024
    assert all(worker["detail"].startswith("why x") for worker in reply.json["status"]["workers"])


async def test_a_node_goes_by_id_name_or_the_beginning_of_its_id(web: Web) -> None:
    one, two = await web.hub.enroll("one"), await web.hub.enroll("two")
    await web.hub.enroll("two")
    for name in (one.id, "one", one.id[:30]):
        assert (await web.ask("GET", f"/api/v1/nodes/{name}")).json["id"] == one.id
    for name in ("two", one.id[:8]):
        ambiguous = await web.ask("GET", f"/api/v1/nodes/{name}")
        assert (ambiguous.status, ambiguous.code) == (409, "ambiguous")
    assert (await web.ask("GET", f"/api/v1/nodes/{two.id}")).json["name"] == "two"
    for name in ("three", "01", "%3Cscript%3E", "x" * 5000):
        assert (await web.ask("GET", f"/api/v1/nodes/{name}")).code == "not_found"


async def test_nodes_are_paged(web: Web) -> None:
    made = [(await web.hub.enroll(f"n{number}")).id for number in range(5)]
    first = (await web.ask("GET", "/api/v1/nodes?limit=3")).json
    rest = (await web.ask("GET", f"/api/v1/nodes?limit=3&after={first['next']}")).json
    assert [one["id"] for one in first["nodes"] + rest["nodes"]] == made
    assert rest["next"] is None


async def test_a_revoked_node_is_sent_away_at_once_and_stays_away(web: Web) -> None:
    peer = await web.hub.enroll("node-a")
    async with peer.connect() as connection:
        assert (await web.ask("DELETE", f"/api/v1/nodes/{peer.id}")).status == 204
        assert await connection.closed() == Reason.REVOKED.close_code
    assert (await web.ask("GET", "/api/v1/nodes")).json["nodes"] == []
    assert (await web.ask("GET", f"/api/v1/nodes/{peer.id}")).code == "not_found"
    assert (await web.ask("DELETE", f"/api/v1/nodes/{peer.id}")).code == "not_found"
    async with peer.connect(await_welcome=False) as connection:
        assert (await connection.until(RefusedByHub)).reason_code == Reason.REVOKED


async def test_a_node_is_sent_away_though_its_revocation_was_given_up_on(web: Web) -> None:
    """The request's deadline may pass while the store is slow; a revoked node with an open session would be worse."""
    peer = await web.hub.enroll("node-a")
    async with peer.connect() as connection:
        request = make_mocked_request("DELETE", "/", match_info={"id": peer.id}, app=web.app)
        asked = asyncio.create_task(nodes.revoke_node(request))
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert await connection.closed() == Reason.REVOKED.close_code


async def test_why_a_nodes_sessions_ended_is_kept_newest_first_and_the_open_one_has_no_reason(web: Web) -> None:
    peer = await web.hub.enroll("node-a")
    for number in range(nodes.SESSIONS_SHOWN + 2):
        async with peer.connect() as connection:
            connection.session.say_bye(Reason.GOODBYE, f"maintenance {number}")
            await connection.flush()
            assert await connection.closed() == Reason.GOODBYE.close_code
    async with peer.connect():
        twin = Peer(web.hub, await stored(web, peer), peer.key)
        async with twin.connect(boot_id="another", await_welcome=False) as refused:
            assert (await refused.until(RefusedByHub)).reason_code == Reason.DUPLICATE_IDENTITY
        told = (await web.ask("GET", "/api/v1/nodes/node/sessions")).json["sessions"]
    assert len(told) == nodes.SESSIONS_SHOWN
    refusal, current, *ended = told
    assert (refusal["reason"]["code"], refusal["reason"]["name"]) == (10, "DUPLICATE_IDENTITY")
    assert refusal["closed_at_ms"] == refusal["reason"]["at_ms"]
    assert (current["reason"], current["closed_at_ms"], current["remote"]) == (None, None, "127.0.0.1")
    last = nodes.SESSIONS_SHOWN + 1
    said = [one["reason"]["detail"] for one in ended]
    assert said == [f"maintenance {number}" for number in range(last, last - len(ended), -1)]
    assert all(one["reason"]["name"] == "GOODBYE" for one in ended)
    assert (await web.ask("GET", "/api/v1/nodes/nobody/sessions")).code == "not_found"


async def stored(web: Web, peer: Peer) -> Agent:
    agent = await web.hub.store.agent(peer.id)
    assert agent is not None
    return agent


async def events_of(web: Web, peer: Peer, query: str = "") -> Any:
    reply = await web.ask("GET", f"/api/v1/nodes/{peer.id}/events{query}")
    assert reply.status == 200, reply.body
    return reply.json


async def test_events_are_told_in_long_names_newest_first(web: Web) -> None:
    await web.register()
    job = (await web.submit())["id"]
    peer = await web.hub.enroll("node-a")
    async with peer.connect() as connection:
        await connection.events(Stream.EVENTS, NodeEvent("worker.died", "signal 9, Killed", fields={"pid": 7}))
        await connection.events(Stream.EVENTS, Gap(2, 5, 4, "the disk is full"), first=5)
        while (await connection.until(Acknowledged)).seq != 5:
            pass
        await connection.events(Stream.LOGS, LogRecord("agent", "<img src=x onerror=alert(1)>"))
        await connection.until(Acknowledged)
        await connection.events(Stream.JOBS, JobStarted(job, 1, "host", 77))
        await connection.until(Acknowledged)
    told = (await events_of(web, peer))["events"]
    by_kind = {one["kind"]: one for one in told}
    assert by_kind["worker.died"]["detail"] == "signal 9, Killed"
    assert by_kind["worker.died"]["body"] == {"pid": 7}
    assert by_kind["gap"]["body"] == {"first": 2, "last": 5, "count": 4}
    assert "log" not in by_kind, "log records are listed by themselves"
    assert by_kind["job.started"]["body"] == {"job": job, "attempt": 1, "device": "host", "pid": 77}
    received = [one["received_at_ms"] for one in told]
    assert received == sorted(received, reverse=True)
    only = (await events_of(web, peer, "?stream=jobs"))["events"]
    assert [one["kind"] for one in only] == ["job.started"]
    assert (await web.ask("GET", f"/api/v1/nodes/{peer.id}/events?stream=other")).code == "invalid"
    for cursor in ("x", "1.2.3", "a.b.c.d"):
        assert (await web.ask("GET", f"/api/v1/nodes/{peer.id}/events?after={cursor}")).code == "invalid"


async def test_events_are_paged_without_loss_though_they_came_together(web: Web) -> None:
    peer = await web.hub.enroll("node-a")
    async with peer.connect() as connection:
        await connection.events(Stream.EVENTS, *(NodeEvent("n", str(number)) for number in range(20)))
        await connection.until(Acknowledged)
    before_ms = web.clock.time_ms() - 60_000  # old enough to be the last, and young enough for retention
    await web.app[ports.STORE].add_hub_event(
        HubEvent(
            id=uuid7(before_ms),
            agent_id=peer.id,
            time_ms=before_ms,
            kind="result.refused",
            level="warning",
            detail="seen by the hub",
        )
    )
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = await events_of(web, peer, f"?limit=7&after={after}")
        seen += [one["detail"] for one in page["events"] if one["kind"] in {"n", "result.refused"}]
        after = page["next"]
    assert seen == [str(number) for number in reversed(range(20))] + ["seen by the hub"]
    hub_only = (await events_of(web, peer, "?stream=hub"))["events"]
    assert {one["source"] for one in hub_only} == {"hub"}


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "' OR 1=1 --", "\u202egnp.exe", "a\x00b", "\U0001f600"])
async def test_a_nodes_own_strings_are_data(web: Web, name: str) -> None:
    peer = await web.hub.enroll("node-a")
    async with asyncio.timeout(20), peer.connect(name=name) as connection:
        await connection.status(NodeStatus(hostname=name))
        await connection.until(Heard)
        node = (await web.ask("GET", f"/api/v1/nodes/{peer.id}")).json
    assert node["name"] == node["status"]["hostname"] == name
