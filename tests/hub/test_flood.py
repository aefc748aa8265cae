"""A node that floods every stream, beside one that does not: it fills nothing and starves nobody."""

import asyncio
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hub import ports
from hub.rollups import Tier
from tests.hub.rig import WAIT_S, Connection, Peer, RunningHub, running_hub
from wire.frames import Event, EventBody, LogRecord, NodeEvent, Readings, Stream
from wire.readings import GpuReading, HostReading
from wire.status import NodeStatus

QUOTAS: dict[str, Any] = {
    "node_log_bytes_per_day": 60_000,
    "node_reading_bytes_per_day": 60_000,
    "node_event_bytes_per_day": 60_000,
    "frames_per_s": 10_000.0,
    "frames_burst": 100_000,
}
BATCH_BYTES_MAX = 1024 * 1024
"""What may be in flight: the most that is stored beyond a quota."""
CARDS = tuple(GpuReading(f"GPU-{number}", temperature_c=number, energy_mj=2**40 + number) for number in range(64))


async def flood(connection: Connection, stream: Stream, body: EventBody, rounds: int) -> int:
    """Send as much as the protocol lets it; the last number that was acknowledged."""
    sent = 0
    for _ in range(rounds):
        await connection.events(stream, *[body] * 60, first=sent + 1)
        sent += 60
        await connection.acknowledged(stream, sent)
    return sent


async def test_logs_and_readings_beyond_the_quota_are_acknowledged_counted_and_not_kept(tmp_path: Path) -> None:
    async with running_hub(tmp_path, **QUOTAS) as hub:
        bad, good = await hub.enroll("bad"), await hub.enroll("good")
        async with bad.connect() as connection, good.connect() as other:
            logs = await flood(connection, Stream.LOGS, LogRecord("s", "x" * 2_000), 20)
            readings = await flood(connection, Stream.READINGS, Readings(HostReading(load_1min=1.0), CARDS), 20)
            await flood(other, Stream.LOGS, LogRecord("s", "mine"), 2)
            await flood(other, Stream.READINGS, Readings(HostReading(load_1min=1.0)), 2)
        usage = await hub.store.usage()
        assert usage.volumes["logs"].size_bytes < logs * 2_000 / 4
        assert usage.volumes["logs"].size_bytes < 60_000 + BATCH_BYTES_MAX
        assert usage.volumes["raw"].rows < readings / 4
        heads = {head.stream: head.seq for head in await hub.store.heads(bad.id, [bad.epoch])}
        assert (heads["logs"], heads["readings"]) == (logs, readings)
        told = {event.detail.partition(":")[0]: event for event in await hub.store.hub_events(bad.id)}
        assert set(told) == {"logs", "readings"}
        for stream, event in told.items():
            assert event.kind == "quota.exceeded"
            assert f"to {heads[stream]} were left out" in event.detail
            assert "60000 bytes a day" in event.detail
        assert await hub.store.hub_events(good.id) == []
        left_out = hub.app[ports.KEEPERS].quotas.left_out_total
        assert left_out[Stream.LOGS] > logs / 2
        assert left_out[Stream.READINGS] > readings / 2


async def test_events_beyond_the_quota_wait_at_their_node_and_at_no_other(tmp_path: Path) -> None:
    async with running_hub(tmp_path, **QUOTAS, shutdown_s=1.0) as hub:
        bad, good = await hub.enroll("bad"), await hub.enroll("good")
        async with bad.connect() as connection, good.connect() as other:
            assert await flood(connection, Stream.EVENTS, NodeEvent("k", "x" * 2_000), 1) == 60
            stuck = asyncio.create_task(flood_on(connection))
            await until_told(hub, bad, "quota.slowed")
            assert await flood(other, Stream.EVENTS, NodeEvent("k", "mine"), 5) == 300
            kept = await hub.store.heads(bad.id, [bad.epoch])
            stuck.cancel()
            await asyncio.gather(stuck, return_exceptions=True)
        assert [head.seq for head in kept] == [60], "what it sends on waits"
        assert len(await hub.store.node_events(good.id)) == 300


async def until_told(hub: RunningHub, peer: Peer, kind: str) -> None:
    """Until the hub has written down something of this kind about a node."""
    async with asyncio.timeout(WAIT_S):
        while kind not in {event.kind for event in await hub.store.hub_events(peer.id)}:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


async def flood_on(connection: Connection) -> None:
    """As `flood`, without waiting for what is acknowledged."""
    for number in range(1, 6):
        await connection.events(Stream.EVENTS, *[NodeEvent("k", "x" * 2_000)] * 60, first=60 * number + 1)


async def test_a_jump_of_the_nodes_clock_does_not_bend_its_series(tmp_path: Path) -> None:
    """The status tells how the clocks stand; each sample is then placed by the node's monotonic clock."""
    async with running_hub(tmp_path) as hub:
        peer: Peer = await hub.enroll("node")
        async with peer.connect() as connection:
            await connection.status(NodeStatus(hostname="h"))
            began_ns, now_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
            body = Readings(HostReading(load_1min=1.0))
            events = [
                Event(
                    seq=number + 1,
                    time_ms=now_ms - 60_000 + number * 1_000 - (3_600_000 if number % 2 else 0),
                    monotonic_ns=began_ns - (60 - number) * 1_000_000_000,
                    body=body,
                )
                for number in range(60)
            ]
            connection.session.send_events(peer.epoch, Stream.READINGS, events)
            await connection.flush()
            await connection.acknowledged(Stream.READINGS, 60)
        rows = await hub.store.history(peer.id, Tier.RAW, 0, 2**62)
        steps = [after.time_ms - before.time_ms for before, after in pairwise(rows)]
        assert len(rows) == 60
        assert set(steps) <= {999, 1000, 1001}
        assert rows[-1].time_ms == pytest.approx(now_ms - 1_000, abs=5_000)
