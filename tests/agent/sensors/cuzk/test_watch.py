"""The daemon on the board, and its events in the outbox."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp.test_utils import unused_port

from agent.board import Board
from agent.config import CuzkAddresses
from agent.outbox import Outbox, open_outbox
from agent.outbox_bounds import Bounds
from agent.sensors.cuzk import CuzkSensor, read_engines
from agent.sensors.cuzk.mend import Mender
from agent.sensors.cuzk.watch import ABSENT_RECHECK_S
from tests.agent.samples import EPOCHS
from tests.agent.sensors.cuzk.fake_daemon import daemon
from tests.agent.sensors.cuzk.fake_engine import FakeEngine
from tests.agent.virtual_time import VirtualClock, eventually
from wire.engines import EngineState
from wire.frames import NodeEvent, Stream


@pytest.fixture
async def outbox(tmp_path: Path) -> AsyncIterator[Outbox]:
    opened = await open_outbox(tmp_path / "outbox.sqlite", EPOCHS[0], VirtualClock(), Bounds())
    yield opened
    await opened.close()


async def kinds(outbox: Outbox) -> list[str]:
    events = await outbox.read(EPOCHS[0], Stream.EVENTS, 0, 100, 1 << 20)
    return [event.body.kind for event in events if isinstance(event.body, NodeEvent)]


async def test_what_the_daemon_says_is_on_the_board_and_what_happens_in_the_outbox(outbox: Outbox) -> None:
    engine, board, clock = FakeEngine(time.monotonic), Board(), VirtualClock()
    changes: list[int] = []
    board.on_change = lambda: changes.append(1)
    with daemon(engine.status) as fake:
        sensor = CuzkSensor(CuzkAddresses(http=("127.0.0.1", fake.port), asked=True), clock=clock)
        task = asyncio.create_task(read_engines(board, sensor, outbox=outbox, clock=clock, every_s=1.0))
        await eventually(lambda: board.engines, "the daemon on the board")
        assert board.engines[0].state is EngineState.OK
        assert board.picture().engines == board.engines
        await eventually(lambda: clock.sleeping, "the watch to rest")
        changes.clear()
        await clock.advance(1.0)
        await eventually(lambda: clock.sleeping, "the watch to rest again")
        assert changes == []  # nothing happened
        engine.submit("a")
        engine.fail_partition("a", 0)
        await eventually(lambda: board.engines[0].failed == 1, "the failure", clock=clock)
        assert changes
        fake.stop()
        await eventually(lambda: board.engines[0].state is EngineState.DOWN, "the end", clock=clock)
        await clock.advance(2.0)
        await eventually(lambda: clock.sleeping, "the watch to rest at last")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert await kinds(outbox) == ["engine.state", "engine.job_failed", "engine.state"]


async def test_where_no_daemon_is_it_is_looked_for_seldom_and_not_shown(outbox: Outbox) -> None:
    board, clock = Board(), VirtualClock()
    sensor = CuzkSensor(CuzkAddresses(http=("127.0.0.1", unused_port())), clock=clock)
    task = asyncio.create_task(read_engines(board, sensor, outbox=outbox, clock=clock, every_s=1.0))
    await eventually(lambda: clock.sleeping, "the watch to rest")
    assert clock.sleeping == [clock.now_s + ABSENT_RECHECK_S]
    assert board.engines == []
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await kinds(outbox) == []


async def test_a_fault_of_the_sensor_ends_nothing_and_is_said(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, board, clock = FakeEngine(time.monotonic), Board(), VirtualClock()
    with daemon(engine.status) as fake:
        sensor = CuzkSensor(CuzkAddresses(http=("127.0.0.1", fake.port), asked=True), clock=clock)
        task = asyncio.create_task(read_engines(board, sensor, outbox=outbox, clock=clock, every_s=1.0))
        await eventually(lambda: board.engines, "the daemon on the board")

        def broken(self: Mender, *_: object) -> None:
            del self
            raise ZeroDivisionError("a fault of ours")

        with monkeypatch.context() as patch:
            patch.setattr(Mender, "take", broken)
            await eventually(lambda: board.engines[0].state is EngineState.BAD_ANSWER, "the fault", clock=clock)
        assert "a fault of ours" in board.engines[0].detail
        await eventually(lambda: board.engines[0].state is EngineState.OK, "the daemon again", clock=clock)
        assert board.sensors.by_name["cuzk"].failures >= 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
