"""The live stream: the whole picture, then each change, in numbers without holes."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hub import ports
from hub.api import feed
from hub.api.viewer import VIEWER_BYTES_MAX
from hub.bus import QUEUE_MESSAGES_MAX, NodeChanged, NodeGone
from hub.store.base import StoreUnavailable
from hub.store.records import JobPicture
from tests.hub.api.conftest import Web
from wire.inputs import Heard, JobAssigned
from wire.readings import GpuReading, GpuState, HostReading
from wire.status import JobProgress, NodeStatus

WAIT_S = 20.0


class Stream:
    """The events of one open stream."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self._buffer = b""
        self.seq = 0
        self.latest: dict[tuple[str, str], Any] = {}

    async def next(self) -> tuple[str, Any]:
        """The next event; None for the data at the stream's end."""
        async with asyncio.timeout(WAIT_S):
            while True:
                block, end, rest = self._buffer.partition(b"\n\n")
                if not end:
                    chunk = await self._answer.content.readany()
                    if not chunk:
                        return "", None
                    self._buffer += chunk
                    continue
                self._buffer = rest
                lines = dict(line.split(b": ", 1) for line in block.splitlines())
                if b"data" in lines:
                    data = json.loads(lines[b"data"])
                    assert data["seq"] == self.seq + 1
                    self.seq = data["seq"]
                    subject = data.get("id") or data.get("job", {}).get("id", "")
                    self.latest[lines[b"event"].decode(), subject] = data
                    return lines[b"event"].decode(), data

    async def until(self, event: str, **fields: Any) -> Any:
        """The next event of that name; with fields the latest of a subject, or a later one, that has them."""

        def fits(data: Any) -> bool:
            subject = data.get(event) or {}
            return all(subject.get(key) == value for key, value in fields.items())

        for (name, _), data in self.latest.items() if fields else ():
            if name == event and fits(data):
                return data
        async with asyncio.timeout(WAIT_S):
            while True:
                name, data = await self.next()
                assert data is not None, f"the stream ended before {event} {fields}"
                if name == event and fits(data):
                    return data


@asynccontextmanager
async def live(web: Web, headers: dict[str, str] | None = None) -> AsyncIterator[Stream]:
    async with web.client.get("/api/v1/live", headers=web.admin if headers is None else headers) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        yield Stream(answer)


async def test_the_whole_picture_comes_first_then_what_changes(web: Web) -> None:
    await web.register()
    job = (await web.submit())["id"]
    peer = await web.hub.enroll("node-a")
    async with live(web) as stream:
        name, first = await stream.next()
        assert name == "snapshot"
        assert [one["name"] for one in first["nodes"]] == ["node-a"]
        assert [(one["id"], one["state"]) for one in first["jobs"]] == [(job, "queued")]
        assert first["hub"]["lost_after_s"] == 45.0
        async with peer.connect(name="node-a") as connection:
            await stream.until("node", state="online")
            assigned = (await connection.until(JobAssigned)).frame
            await stream.until("job", id=job, state="leased", node_name="node-a")
            progress = JobProgress(job=job, attempt=assigned.attempt, phase="msm_a", done=3, total=8)
            await connection.status(NodeStatus(jobs=[progress]))
            await connection.until(Heard)
            seen = (await stream.until("job", id=job, phase="msm_a"))["job"]
            assert (seen["done"], seen["total"]) == (3, 8)
        await stream.until("node", state="reconnecting")
        await web.ask("DELETE", f"/api/v1/nodes/{peer.id}")
        gone = await stream.until("node")
        while gone["node"] is not None:
            gone = await stream.until("node")
        assert gone["id"] == peer.id


async def test_a_beat_says_when_nodes_were_heard(web: Web) -> None:
    peer = await web.hub.enroll("node-a")
    async with peer.connect(), live(web) as stream:
        assert (await stream.next())[0] == "snapshot"
        web.app[feed.FEED].beat()
        while True:
            name, data = await stream.next()
            if name == "beat":
                break
        assert set(data["heard"]) == {peer.id}


async def test_a_reader_that_falls_behind_gets_the_whole_picture_again(web: Web) -> None:
    peers = [await web.hub.enroll("n" * 128) for _ in range(400)]
    async with live(web) as stream:
        assert (await stream.next())[0] == "snapshot"
        # Nothing yields to the viewer in here: all of it waits, and it is more than may wait.
        (viewer,) = web.app[feed.FEED]._viewers
        assert viewer.bytes_max >= VIEWER_BYTES_MAX
        for peer in peers:
            viewer.put(peer.id, ("node", b'"filler":"' + b"x" * (viewer.bytes_max // 399) + b'"}'))
        assert viewer.dropped == 1
        name, data = await stream.next()
        assert (name, len(data["nodes"])) == ("snapshot", 400)


async def test_a_flood_on_the_bus_is_a_new_snapshot_not_a_loss(web: Web) -> None:
    async with live(web) as stream:
        assert (await stream.next())[0] == "snapshot"
        for number in range(QUEUE_MESSAGES_MAX + 1):
            web.app[ports.BUS].publish(NodeGone(str(number)))
        while (await stream.next())[0] != "snapshot":
            pass


async def test_a_flood_of_one_nodes_changes_is_one_picture(web: Web) -> None:
    peer = await web.hub.enroll("node-a")
    node = web.app[ports.REGISTRY].node(peer.id)
    assert node is not None
    async with live(web) as stream:
        assert (await stream.next())[0] == "snapshot"
        for _ in range(5000):
            web.app[ports.BUS].publish(NodeChanged(node))
        assert (await stream.next())[0] == "node"
        web.app[feed.FEED].beat()
        assert (await stream.next())[0] == "beat"


async def test_readings_are_told_too_and_a_change_of_state_does_not_wait_for_them(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "READINGS_S", 1e9)  # this far into the future no reading is told
    peer = await web.hub.enroll("node-a")
    async with live(web) as stream, peer.connect() as connection:
        assert (await stream.next())[0] == "snapshot"
        await connection.status(NodeStatus(host=HostReading(cpu_used_ratio=0.5), gpus=[GpuReading("GPU-1")]))
        while not ((await stream.until("node"))["node"]["status"] or {}).get("gpus"):
            pass
        await connection.until(Heard)
        await connection.status(NodeStatus(host=HostReading(cpu_used_ratio=0.75), gpus=[GpuReading("GPU-1")]))
        await connection.until(Heard)
        lost = GpuReading("GPU-1", state=GpuState.LOST)
        await connection.status(NodeStatus(host=HostReading(cpu_used_ratio=0.75), gpus=[lost]))
        told = (await stream.until("node"))["node"]["status"]
        assert (told["gpus"][0]["state"], told["host"]["cpu_used_ratio"]) == ("lost", 0.75)
        monkeypatch.setattr(feed, "READINGS_S", 0.0)
        await connection.status(NodeStatus(host=HostReading(cpu_used_ratio=0.25), gpus=[lost]))
        while (await stream.until("node"))["node"]["status"]["host"]["cpu_used_ratio"] != 0.25:
            pass


async def test_a_change_the_store_would_not_give_is_told_once_it_does(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    await web.register()
    store, refused = web.app[ports.STORE], asyncio.Event()
    read = store.job

    async def job(job_id: str) -> JobPicture | None:
        if not refused.is_set():
            refused.set()
            raise StoreUnavailable("the disk is full")
        return await read(job_id)

    async with live(web) as stream:
        assert (await stream.next())[0] == "snapshot"
        monkeypatch.setattr(store, "job", job)
        made = (await web.submit())["id"]
        await stream.until("job", id=made, state="queued")
    assert refused.is_set()


async def test_the_stream_ends_when_the_hub_stops(web: Web) -> None:
    async with live(web) as stream:
        assert (await stream.next())[0] == "snapshot"
        web.app[feed.FEED].close()
        assert await stream.next() == ("", None)


async def test_a_browser_that_goes_leaves_its_place(web: Web) -> None:
    async with live(web) as stream:
        assert (await stream.next())[0] == "snapshot"
        assert web.app[feed.FEED].viewers == 1
    async with asyncio.timeout(WAIT_S):
        while web.app[feed.FEED].viewers:
            web.app[feed.FEED].beat()  # writing is how the hub finds out
            await web.ask("GET", "/healthz")
