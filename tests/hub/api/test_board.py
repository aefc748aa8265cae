"""What the page is told live: rows of all nodes, readings of those in view, one node whole, jobs when asked for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp.web import Application

from hub import ports
from hub.api import board, feed, views
from hub.store.records import JobPicture
from tests.hub.api.conftest import Web
from tests.hub.api.test_live import Stream, live
from wire.engines import (
    EngineJob,
    EngineJobState,
    EnginePartition,
    EngineReading,
    EngineState,
    PartitionState,
)
from wire.inputs import Heard, JobAssigned
from wire.readings import GpuReading, GpuState, HostReading
from wire.status import JobProgress, NodeStatus, WorkerReading, WorkerState

HOST = HostReading(cpu_used_ratio=0.5, memory_total_bytes=2**33, memory_used_bytes=2**32)
CARDS = [
    GpuReading("GPU-1", "H200", 2**37, 2**36, utilization_ratio=0.9, temperature_c=71, power_draw_mw=600_000),
    GpuReading("GPU-2", "H200", 2**37, 0, utilization_ratio=0.1, temperature_c=40, power_draw_mw=100_000),
    GpuReading("GPU-3", "H200", state=GpuState.LOST, detail="it fell off the bus"),
]


@asynccontextmanager
async def board_of(web: Web) -> AsyncIterator[tuple[Stream, dict[str, Any]]]:
    """The page's stream, and its first picture."""
    async with web.client.get("/api/v1/live?board=1", headers=web.admin) as answer:
        stream = Stream(answer)
        name, first = await stream.next()
        assert name == "snapshot"
        yield stream, first


async def shows(web: Web, first: dict[str, Any], **view: Any) -> int:
    """Say what is in view; the answer's status."""
    return (await web.ask("POST", f"/api/v1/live/{first['stream']}/view", json=view)).status


async def test_rows_come_first_and_change_with_the_state_and_not_with_readings(web: Web) -> None:
    peer = await web.hub.enroll("node-a")
    async with board_of(web) as (stream, first), peer.connect(name="node-a") as connection:
        (row,) = first["rows"]
        assert (row["name"], row["state"], row["lights"]["heard"]["state"]) == ("node-a", "never", "never")
        assert "nodes" not in first
        await stream.until("row", id=peer.id)
        workers = [WorkerReading("host", WorkerState.IDLE, 1)]
        await connection.status(NodeStatus(hostname="a.example", host=HOST, gpus=CARDS, workers=workers))
        await connection.until(Heard)
        row = (await stream.until("row", gpus=3))["row"]
        assert (row["gpus"], row["gpus_bad"], row["gpu_name"], row["hostname"]) == (3, 1, "H200", "a.example")
        assert row["lights"]["proving"]["state"] == "idle"
        assert row["sentence"]["severity"] == "bad"
        await web.ask("DELETE", f"/api/v1/nodes/{peer.id}")
        while (await stream.until("row"))["row"] is not None:
            pass


async def test_readings_come_of_the_rows_in_view_and_of_no_other(web: Web) -> None:
    near, far = await web.hub.enroll("near"), await web.hub.enroll("far")
    async with (
        board_of(web) as (stream, first),
        near.connect(name="near") as one,
        far.connect(name="far") as two,
    ):
        assert await shows(web, first, nodes=[near.id]) == 204
        for connection in (two, one):
            await connection.status(NodeStatus(host=HOST, gpus=CARDS))
            await connection.until(Heard)
        while (said := (await stream.next())[1]).get("readings", {}).get("cpu_used_ratio") is None:
            assert said.get("readings", {}).get("id") in {None, near.id}
        readings = said["readings"]
        assert readings["id"] == near.id
        assert readings["memory_used_ratio"] == 0.5
        assert readings["gpu_utilization_ratio"] == 0.5
        assert (readings["gpu_temperature_c"], readings["gpu_power_mw"]) == (71, 700_000)
        assert await shows(web, first, nodes=[far.id]) == 204  # scrolled: what is known of it comes at once
        while (said := (await stream.next())[1]).get("readings", {}).get("id") != far.id:
            pass
        assert said["readings"]["cpu_used_ratio"] == 0.5


async def test_the_node_that_is_shown_comes_with_its_longest_lists_and_programs_are_spared_them(web: Web) -> None:
    peer = await web.hub.enroll("node-a")
    job = EngineJob(
        id="j",
        kind="porep-c2",
        state=EngineJobState.RUNNING,
        partitions=(EnginePartition(index=0, state=PartitionState.GPU, synthesis_ms=5, gpu_ms=7),),
    )

    async def engine_in(stream: Stream) -> Any:
        while not (engines := ((await stream.until("node"))["node"]["status"] or {}).get("engines")):
            pass
        return engines[0]

    async with board_of(web) as (page, first), live(web) as program, peer.connect(name="node-a") as connection:
        assert await shows(web, first, node=peer.id) == 204
        await connection.status(NodeStatus(engines=[EngineReading("cuzk", EngineState.OK, jobs=(job,))]))
        await connection.until(Heard)
        assert (await engine_in(page))["jobs"][0]["partitions"][0]["gpu_ms"] == 7
        assert "partitions" not in (await engine_in(program))["jobs"][0]


async def test_a_node_whole_and_jobs_come_once_they_are_shown(web: Web) -> None:
    await web.register()
    job = (await web.submit())["id"]
    peer = await web.hub.enroll("node-a")
    async with board_of(web) as (stream, first):
        assert await shows(web, first, node=peer.id, jobs=True) == 204
        assert (await stream.until("node", name="node-a"))["node"]["id"] == peer.id
        assert [one["id"] for one in (await stream.until("jobs"))["jobs"]] == [job]
        async with peer.connect(name="node-a") as connection:
            assigned = (await connection.until(JobAssigned)).frame
            await stream.until("job", id=job, state="leased")
            await connection.status(NodeStatus(jobs=[JobProgress(job, assigned.attempt, "msm_a", 1, 4, 0.5)]))
            await connection.until(Heard)
            await stream.until("job", id=job, phase="msm_a")
            await stream.until("node", state="online")
        assert await shows(web, first) == 204


async def test_a_job_that_changes_while_the_list_is_made_is_not_overtaken_by_its_older_self(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    await web.register()
    job = (await web.submit())["id"]
    drawn, go_on, draw = asyncio.Event(), asyncio.Event(), views.job_view

    async def held(app: Application, picture: JobPicture, **more: Any) -> Any:
        made = await draw(app, picture, **more)
        task = asyncio.current_task()
        telling = task is not None and "Feed._flush" in repr(task.get_coro())  # goes on while the list is made
        if not telling and not drawn.is_set():
            drawn.set()
            await go_on.wait()
        return made

    async with board_of(web) as (stream, first):
        monkeypatch.setattr(views, "job_view", held)
        shown = asyncio.create_task(shows(web, first, jobs=True))
        await drawn.wait()
        assert (await web.ask("POST", f"/api/v1/jobs/{job}/cancel", json={"reason": "a test"})).status == 200
        await stream.until("job", id=job, state="cancelled")
        go_on.set()
        assert await shown == 204
        assert [one["state"] for one in (await stream.until("jobs"))["jobs"]] == ["queued"]
        await stream.until("job", id=job, state="cancelled")


async def test_nobody_wants_readings_while_no_row_is_in_view(web: Web) -> None:
    peer = await web.hub.enroll("node-a")
    async with board_of(web) as (_, first):
        bus = web.app[ports.BUS]
        assert not bus.readings_wanted
        await shows(web, first, nodes=[peer.id])
        assert bus.readings_wanted
        await shows(web, first, nodes=[])
        assert not bus.readings_wanted


async def test_a_page_that_falls_behind_begins_anew_with_what_it_shows(web: Web) -> None:
    peer = await web.hub.enroll("node-a")
    async with board_of(web) as (stream, first), peer.connect(name="node-a") as connection:
        await connection.status(NodeStatus(host=HOST))
        await connection.until(Heard)
        assert await shows(web, first, nodes=[peer.id]) == 204
        viewer = web.app[feed.FEED].viewer_of(first["stream"])
        assert viewer is not None
        viewer.put("much", ("row", b'"x":"' + b"x" * (viewer.bytes_max + 1) + b'"}'))
        assert viewer.dropped == 1
        async with asyncio.timeout(20):
            while (await stream.next())[0] != "snapshot":
                pass
            while (said := (await stream.next())[1]).get("readings") is None:
                pass
        assert said["readings"]["id"] == peer.id
        assert stream.seq > 1  # numbered without a hole, see `Stream`


async def test_a_view_that_cannot_be_is_refused(web: Web) -> None:
    async with board_of(web) as (_, first):
        assert await shows(web, first, nodes=["not an id"]) == 422
        many = ["00000000-0000-7000-8000-000000000000"] * (board.NODES_IN_VIEW_MAX + 1)
        assert await shows(web, first, nodes=many) == 422
        assert await shows(web, first, nodes=many[1:]) == 204  # nodes that are not there show nothing
        assert await shows(web, {"stream": "0" * 32}) == 404
    async with board_of(web) as (_, again):
        assert await shows(web, first) == 404
        assert again["stream"] != first["stream"]
