"""Cards on the board, and what happens to them in the outbox."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.board import Board, read_gpus
from agent.outbox import Outbox, open_outbox
from agent.outbox_bounds import Bounds
from agent.sensors.gpu import GpuSensor
from tests.agent.samples import EPOCHS
from tests.agent.sensors.fake_nvml.library import FakeNvml, uuid_of
from tests.agent.virtual_time import VirtualClock, eventually
from wire.events import NodeEvent, Stream
from wire.readings import GpuState

pytestmark = pytest.mark.compiler


@pytest.fixture
async def outbox(tmp_path: Path) -> AsyncIterator[Outbox]:
    opened = await open_outbox(tmp_path / "outbox.sqlite", EPOCHS[0], VirtualClock(), Bounds(1 << 20))
    yield opened
    await opened.close()


async def test_readings_are_on_the_board_and_events_in_the_outbox(
    outbox: Outbox, tmp_path: Path, nvml: FakeNvml
) -> None:
    board, clock = Board(), VirtualClock()
    changes: list[int] = []
    board.on_change = lambda: changes.append(1)
    sensor = GpuSensor(tmp_path, environ=nvml.environ, clock=clock, kernel_log=tmp_path / "none", proc=tmp_path)
    task = asyncio.create_task(read_gpus(board, sensor, outbox=outbox, clock=clock, every_s=5.0))
    await eventually(lambda: len(board.gpus) == 8 and clock.sleeping, "the first reading")
    nvml.set("3 lost 1", "2 xid 79")
    await clock.advance(5.0)
    await eventually(lambda: len(changes) == 2, "the second reading")
    assert {gpu.uuid for gpu in board.gpus if gpu.state is GpuState.LOST} == {uuid_of(3)}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await sensor.close()
    events = [each.body for each in await outbox.read(EPOCHS[0], Stream.EVENTS, 0, 10, 1 << 20)]
    said = {body.kind: body for body in events if isinstance(body, NodeEvent)}
    assert set(said) == {"gpu.lost", "gpu.xid"}
    assert said["gpu.xid"].fields["xid"] == 79


async def test_a_node_without_cards_says_nothing_in_the_outbox(outbox: Outbox, tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").touch()  # found before any real one, and no library
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "LD_LIBRARY_PATH": str(tmp_path)}
    board, clock = Board(), VirtualClock()
    sensor = GpuSensor(tmp_path, environ=environ, clock=clock, kernel_log=tmp_path / "none")
    task = asyncio.create_task(read_gpus(board, sensor, outbox=outbox, clock=clock, every_s=5.0))
    await eventually(lambda: board.gpu_problem, "the first look")
    assert board.gpus == []
    await eventually(lambda: clock.sleeping, "the wait for the next")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await sensor.close()
    assert await outbox.read(EPOCHS[0], Stream.EVENTS, 0, 10, 1 << 20) == []
