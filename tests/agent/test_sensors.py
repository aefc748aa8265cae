import asyncio
import os
import random
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from agent.board import GPU_MISSING_RECHECK_S, Board, read_gpus, read_host
from agent.clock import SystemClock
from agent.outbox import Outbox, open_outbox
from agent.outbox_bounds import Bounds
from agent.sensors.gpu import GpuSensor, Problem
from agent.sensors.host import HostSensor
from agent.sensors.nvml_child import report
from tests.agent.samples import EPOCHS
from tests.agent.virtual_time import VirtualClock, eventually
from wire.frames import NodeEvent, Stream
from wire.readings import GpuReading, GpuState, HostReading
from wire.status import NodeStatus, OutboxReading

GOOD = '{"problem":"none","detail":"","gpus":[{"uuid":"GPU-1","nm":"H200","mt":150000000000,"mu":1000}]}'


def child(script: str) -> list[str]:
    """A child that runs ``script``; ``out`` is where its report belongs."""
    return [sys.executable, "-c", f"import os, sys, time; out = open(sys.argv[1], 'w')\n{script}"]


def writing(text: str) -> list[str]:
    return child(f"out.write({text!r})")


def sensor_of(folder: Path, argv: list[str], deadline_s: float = 10.0) -> GpuSensor:
    return GpuSensor(folder, environ=os.environ, clock=SystemClock(), argv=argv, deadline_s=deadline_s)


@pytest.fixture
async def outbox(tmp_path: Path) -> AsyncIterator[Outbox]:
    opened = await open_outbox(tmp_path / "outbox.sqlite", EPOCHS[0], VirtualClock(), Bounds(bytes_max=1 << 20))
    yield opened
    await opened.close()


# --- the host -------------------------------------------------------------------------------------------------------


def test_the_host_is_read(tmp_path: Path) -> None:
    reading = HostSensor(tmp_path).read()
    assert reading.cpu_count == psutil.cpu_count()
    assert reading.cpu_used_ratio is not None
    assert 0.0 <= reading.cpu_used_ratio <= 1.0
    assert reading.memory_total_bytes == psutil.virtual_memory().total
    assert reading.memory_used_bytes is not None
    assert reading.disk_free_bytes is not None
    assert reading.uptime_s is not None


def test_what_cannot_be_read_is_none_and_hides_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> object:
        raise OSError("no such thing here")

    sensor = HostSensor(tmp_path / "not there")
    monkeypatch.setattr(psutil, "getloadavg", refuse)
    monkeypatch.setattr(psutil, "virtual_memory", refuse)
    reading = sensor.read()
    assert (reading.load_1min, reading.memory_total_bytes, reading.memory_used_bytes) == (None, None, None)
    assert (reading.disk_total_bytes, reading.disk_free_bytes) == (None, None)
    assert reading.cpu_count is not None


async def test_the_hosts_readings_are_kept_fresh(tmp_path: Path) -> None:
    board, clock = Board(), VirtualClock()
    task = asyncio.create_task(read_host(board, HostSensor(tmp_path), clock=clock, every_s=5.0))
    await eventually(lambda: board.host is not None, "a reading")
    board.host = None
    await clock.advance(5.0)
    await eventually(lambda: board.host is not None, "another reading")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


# --- the cards ------------------------------------------------------------------------------------------------------


async def test_cards_are_read_by_a_child(tmp_path: Path) -> None:
    sensor = sensor_of(tmp_path, writing(GOOD))
    read = await sensor.read()
    assert read.problem is Problem.NONE
    assert read.gpus == [
        GpuReading(uuid="GPU-1", name="H200", memory_total_bytes=150_000_000_000, memory_used_bytes=1000)
    ]
    await sensor.close()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (child("os.kill(os.getpid(), 11)"), "signal 11"),
        (child("raise SystemExit('driver trouble')"), "exit 1: driver trouble"),
        (writing("no json"), "left no report"),
        (writing('{"gpus":[{"uuid":5}]}'), "left no report"),
        (child("out.write('[' * 300000)"), "left no report"),
        (child("os.unlink(sys.argv[1])"), "left no report"),
        (["/does/not/exist"], "cannot be started"),
    ],
    ids=["crash", "error", "no json", "wrong json", "flood", "no report", "no program"],
)
async def test_a_child_that_fails_is_told_and_harmless(tmp_path: Path, argv: list[str], says: str) -> None:
    read = await sensor_of(tmp_path, argv).read()
    assert read.problem is Problem.FAILED
    assert says in read.detail
    assert read.gpus == []


async def test_a_hung_driver_holds_nobody_up_and_its_cards_are_shown_hung(tmp_path: Path) -> None:
    once = str(tmp_path / "once")
    script = f"time.sleep(1000 * os.path.exists({once!r}))\nopen({once!r}, 'w'); out.write({GOOD!r})"
    sensor = sensor_of(tmp_path, child(script))
    assert (await sensor.read()).gpus
    sensor._deadline_s = 0.05
    read = await sensor.read()
    assert (read.problem, read.gpus[0].state, read.gpus[0].memory_used_bytes) == (
        Problem.HUNG,
        GpuState.DRIVER_HUNG,
        None,
    )
    await sensor.close()


async def test_while_a_child_hangs_no_other_is_started(tmp_path: Path) -> None:
    sensor = sensor_of(tmp_path, child("time.sleep(1000)"), deadline_s=0.01)
    assert (await sensor.read()).problem is Problem.HUNG
    assert sensor._child is not None
    await sensor._child  # killed, and gone: so a stand-in hangs in its place, as one in the driver would
    sensor._child = asyncio.create_task(asyncio.sleep(1000, ""))
    assert "still hangs" in (await sensor.read()).detail
    await sensor.close()


async def test_the_child_itself_reports_what_this_machine_has(tmp_path: Path) -> None:
    read = report()
    sensor = GpuSensor(tmp_path, environ={**os.environ, "PYTHONPATH": "."}, clock=SystemClock())
    by_child = await sensor.read()
    assert (by_child.problem, len(by_child.gpus)) == (read.problem, len(read.gpus))
    assert read.problem in (Problem.NONE, Problem.MISSING, Problem.MISMATCH)
    if read.problem is Problem.MISSING:
        assert read.gpus == []
        assert read.detail


async def test_missing_cards_are_said_once_and_seldom_looked_for(outbox: Outbox, tmp_path: Path) -> None:
    board, clock = Board(), VirtualClock()
    sensor = sensor_of(tmp_path, writing('{"problem":"missing","detail":"NVML Shared Library Not Found"}'))
    task = asyncio.create_task(read_gpus(board, sensor, outbox=outbox, clock=clock, every_s=5.0))
    await eventually(lambda: clock.sleeping, "the first look")
    assert clock.sleeping == [clock.now_s + GPU_MISSING_RECHECK_S]
    assert (board.gpus, board.gpu_problem) == ([], "NVML Shared Library Not Found")
    assert await outbox.read(EPOCHS[0], Stream.EVENTS, 0, 10, 1 << 20) == []
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_problem_is_an_event_when_it_begins_and_ends(outbox: Outbox, tmp_path: Path) -> None:
    flag = tmp_path / "bad"
    flag.touch()
    script = f"sys.exit('broken') if os.path.exists({str(flag)!r}) else out.write({GOOD!r})"
    board, clock = Board(), VirtualClock()
    changes: list[int] = []
    board.on_change = lambda: changes.append(1)
    task = asyncio.create_task(
        read_gpus(board, sensor_of(tmp_path, child(script)), outbox=outbox, clock=clock, every_s=5.0)
    )
    await eventually(lambda: clock.sleeping, "the first reading")
    await clock.advance(5.0)
    await eventually(lambda: clock.sleeping, "the second reading")
    flag.unlink()
    await clock.advance(5.0)
    await eventually(lambda: board.gpus, "the cards")
    await eventually(lambda: len(changes) == 2, "the change")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    events = [each.body for each in await outbox.read(EPOCHS[0], Stream.EVENTS, 0, 10, 1 << 20)]
    assert [body.kind for body in events if isinstance(body, NodeEvent)] == ["gpu.unreadable", "gpu.readable"]


# --- the board ------------------------------------------------------------------------------------------------------


def test_the_picture_holds_everything() -> None:
    board = Board()
    assert isinstance(board.picture(), NodeStatus)
    board.host = HostReading(cpu_count=random.Random(0).randint(1, 9))
    board.outbox = lambda: OutboxReading(events_held=3, bytes_held=4)
    picture = board.picture()
    assert picture.host == board.host
    assert picture.outbox == OutboxReading(events_held=3, bytes_held=4)
    assert picture.draining is False
