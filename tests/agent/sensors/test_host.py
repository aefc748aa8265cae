import asyncio
from pathlib import Path

import psutil
import pytest

from agent.board import Board, read_host
from agent.sensors.host import HostSensor
from tests.agent.virtual_time import VirtualClock, eventually


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
