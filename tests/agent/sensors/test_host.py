import asyncio
import os
import resource
from collections import namedtuple
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from agent.board import Board, read_host
from agent.sensors.host import HostSensor
from tests.agent.virtual_time import VirtualClock, eventually
from wire.events import Event, Readings
from wire.readings import HostReading

MIB = 1024 * 1024
Sensor = namedtuple("Sensor", "label current high critical")  # noqa: PYI024 - as psutil's own
Traffic = namedtuple("Traffic", "bytes_sent bytes_recv packets_sent packets_recv errin errout dropin dropout")  # noqa: PYI024


def test_how_busy_the_processors_are_is_since_the_last_reading_whichever_thread_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent_s = {"user": 100.0, "nice": 0.0, "system": 0.0, "idle": 100.0, "iowait": 0.0, "guest": 50.0}
    Times = namedtuple("Times", list(spent_s))  # type: ignore[misc]  # noqa: PYI024 - as psutil's own
    monkeypatch.setattr(psutil, "cpu_times", lambda: Times(**spent_s))
    sensor = HostSensor(tmp_path)
    for user_s, idle_s, ratio in [(3.0, 1.0, 0.75), (0.0, 0.0, 0.75), (0.0, 2.0, 0.0), (2.0, -1.0, 1.0)]:
        spent_s["user"] += user_s
        spent_s["idle"] += idle_s
        with ThreadPoolExecutor(1) as anew:
            assert anew.submit(sensor.read).result().cpu_used_ratio == ratio


def test_the_host_is_read(tmp_path: Path) -> None:
    reading = HostSensor(tmp_path).read()
    assert reading.cpu_count == psutil.cpu_count()
    assert reading.cpu_used_ratio is not None
    assert 0.0 <= reading.cpu_used_ratio <= 1.0
    assert reading.memory_total_bytes == psutil.virtual_memory().total
    assert reading.memory_used_bytes is not None
    assert reading.uptime_s is not None
    assert reading.disk_total_bytes == psutil.disk_usage(str(tmp_path)).total
    assert reading.root_disk_total_bytes == psutil.disk_usage("/").total
    assert reading.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert reading.kernel == os.uname().release
    assert reading.container
    assert reading.open_files_limit == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert reading.open_files_used is not None
    assert 3 <= reading.open_files_used <= reading.open_files_limit
    assert reading.network_rx_bytes is not None
    assert reading.swap_total_bytes == psutil.swap_memory().total


def test_readings_are_rounded_where_they_are_taken(tmp_path: Path) -> None:
    reading = HostSensor(tmp_path).read()
    assert (reading.memory_used_bytes or 0) % MIB == 0
    assert (reading.disk_free_bytes or 0) % MIB == 0
    assert (reading.network_rx_bytes or 0) % (64 * 1024) == 0
    assert (reading.uptime_s or 0) % 60 == 0
    assert reading.load_1min == round(reading.load_1min or 0.0, 1)


def test_a_whole_reading_fits_its_frame(tmp_path: Path) -> None:
    Event(1, 0, 0, Readings(host=HostSensor(tmp_path).read()))


Refusal = Callable[..., object]


@pytest.mark.parametrize(
    "error",
    [
        OSError("no such thing here"),
        ValueError("nonsense in /proc"),
        IndexError("a line too short"),
        KeyError("MemTotal:"),
    ],
    ids=["missing", "nonsense", "short", "unknown"],
)
@pytest.mark.parametrize(
    ("function", "fields"),
    [
        ("cpu_count", {"cpu_count"}),
        ("cpu_times", {"cpu_used_ratio"}),
        ("getloadavg", {"load_1min"}),
        ("virtual_memory", {"memory_total_bytes", "memory_used_bytes"}),
        ("swap_memory", {"swap_total_bytes", "swap_used_bytes"}),
        ("net_io_counters", {"network_rx_bytes", "network_tx_bytes", "network_errors"}),
    ],
)
def test_what_cannot_be_read_is_none_and_hides_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, fields: set[str], error: Exception
) -> None:
    def refuse(*_: object, **__: object) -> object:
        raise error

    sensor = HostSensor(tmp_path)
    whole = sensor.read()
    monkeypatch.setattr(psutil, function, refuse)
    reading = sensor.read()
    missing = {
        name
        for name in HostReading.__struct_fields__
        if getattr(reading, name) is None and getattr(whole, name) is not None
    }
    assert missing - {"cpu_limit_cores"} == fields


def test_a_data_directory_that_is_gone_hides_its_own_disk_only(tmp_path: Path) -> None:
    reading = HostSensor(tmp_path / "not there").read()
    assert (reading.disk_total_bytes, reading.disk_free_bytes, reading.disk_inodes_free) == (None, None, None)
    assert reading.root_disk_total_bytes is not None


def test_loopback_and_the_ends_of_containers_links_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counters(*, pernic: bool, nowrap: bool) -> dict[str, Traffic]:
        assert pernic
        assert not nowrap
        one = Traffic(3 * MIB, 5 * MIB, 1, 1, 2, 1, 9, 9)
        return {"lo": one, "veth12ab": one, "eth0": one, "ib0": one}

    monkeypatch.setattr(psutil, "net_io_counters", counters)
    reading = HostSensor(tmp_path).read()
    assert (reading.network_tx_bytes, reading.network_rx_bytes, reading.network_errors) == (6 * MIB, 10 * MIB, 6)


@pytest.mark.parametrize(
    ("chips", "hottest"),
    [
        ({"coretemp": [44.0, 71.4], "nvme": [88.0], "acpitz": [90.0]}, 71),
        ({"k10temp": [0.0, 255.0, 61.6]}, 62),
        ({"acpitz": [27.8, 55.0]}, 55),
        ({"nct6775": [127.0], "nvme": [50.0]}, None),
        ({"coretemp": [-128.0], "acpitz": [40.0]}, 40),
        ({}, None),
    ],
    ids=["processor", "impossible", "board", "others", "processor without a sensor", "none"],
)
def test_the_hottest_sensor_of_processor_or_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chips: dict[str, list[float]], hottest: int | None
) -> None:
    read = {chip: [Sensor("", value, None, None) for value in values] for chip, values in chips.items()}
    monkeypatch.setattr(psutil, "sensors_temperatures", lambda: read)
    assert HostSensor(tmp_path).read().temperature_c == hottest


def test_a_process_bound_to_fewer_processors_is_limited_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "cpu_count", lambda: 10_000)
    limit = HostSensor(tmp_path).read().cpu_limit_cores
    assert limit is not None
    assert limit <= len(os.sched_getaffinity(0))


async def test_the_hosts_readings_are_kept_fresh(tmp_path: Path) -> None:
    board, clock = Board(), VirtualClock()
    task = asyncio.create_task(read_host(board, HostSensor(tmp_path), clock=clock, every_s=5.0))
    await eventually(lambda: board.host is not None, "a reading")
    board.host = None
    await clock.advance(5.0)
    await eventually(lambda: board.host is not None, "another reading")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
