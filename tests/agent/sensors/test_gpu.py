"""The GPU sensor with its real child and a fake NVML library: cards that are well, odd ones, and none at all."""

import os
import signal
import sys
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from agent.clock import SystemClock
from agent.sensors.gpu import MISSING_RECHECK_S, RECYCLE_S, GpuSensor, Problem
from tests.agent.sensors.fake_nvml.library import FakeNvml, uuid_of
from tests.agent.sensors.gpu_rig import Rig, by_uuid, fresh, kinds, states
from tests.agent.virtual_time import VirtualClock, eventually
from wire.readings import GpuProcess, GpuReading, GpuState

pytestmark = pytest.mark.compiler

MIB = 1024 * 1024


# --- healthy --------------------------------------------------------------------------------------------------------


async def test_healthy_cards_give_every_reading(rig: Rig, nvml: FakeNvml) -> None:
    nvml.set("* fan 30", "0 processes 2")
    report = await rig.round()
    assert (report.problem, report.detail, report.events) == (Problem.NONE, "", [])
    assert len(report.gpus) == 8
    assert report.gpus[0] == GpuReading(
        uuid=uuid_of(0),
        name="NVIDIA H200",
        memory_total_bytes=143771 * MIB,
        memory_used_bytes=1000 * MIB,
        index=0,
        pci_bus_id="00000000:10:00.0",
        driver_version="580.65.06",
        cuda_version="13.0",
        vbios_version="96.00.BC.00.01",
        persistence_mode=True,
        mig_mode=False,
        utilization_ratio=0.57,
        memory_utilization_ratio=0.31,
        encoder_utilization_ratio=0.0,
        decoder_utilization_ratio=0.0,
        memory_free_bytes=142171 * MIB,
        memory_reserved_bytes=600 * MIB,
        sm_clock_mhz=1980,
        memory_clock_mhz=3201,
        temperature_c=41,
        memory_temperature_c=48,
        power_draw_mw=312_000,
        power_limit_mw=700_000,
        energy_mj=123_457_000_000,
        fan_ratio=0.3,
        pcie_generation=5,
        pcie_width=16,
        pcie_rx_bytes_per_s=5 * MIB,
        pcie_tx_bytes_per_s=7 * MIB,
        pcie_replays=2,
        nvlinks_active=18,
        throttle_reasons=0,
        ecc_corrected_volatile=0,
        ecc_uncorrected_volatile=0,
        ecc_corrected_aggregate=0,
        ecc_uncorrected_aggregate=0,
        remapped_rows_corrected=0,
        remapped_rows_uncorrected=0,
        remapped_rows_pending=False,
        remapped_rows_failed=False,
        retired_pages=0,
        xid_count=0,
        processes=(GpuProcess(1000, 100 * MIB, 0.44), GpuProcess(1001, 200 * MIB, None)),
    )


async def test_one_child_serves_many_rounds_and_is_recycled_after_its_time(rig: Rig) -> None:
    await rig.round()
    first = rig.sensor.child_pid
    for _ in range(3):
        await rig.round()
    assert rig.sensor.child_pid == first
    await rig.clock.advance(RECYCLE_S)
    assert len((await rig.round()).gpus) == 8
    assert rig.sensor.child_pid not in (first, None)
    assert first is not None
    assert not psutil.pid_exists(first)


async def test_the_child_is_small(rig: Rig) -> None:
    await rig.round()
    child = psutil.Process(rig.sensor.child_pid)
    assert child.memory_info().rss < 40 * MIB, "the interpreter, msgspec and pynvml take about 20 MiB"
    loaded = " ".join(each.path for each in child.memory_maps())
    assert "msgspec/_core" in loaded
    assert "_ssl" not in loaded
    assert "_asyncio" not in loaded


async def test_the_childs_end_follows_the_agents(rig: Rig) -> None:
    await rig.round()
    pid = rig.sensor.child_pid
    assert pid is not None
    child = rig.sensor._child
    assert child is not None
    child._talk.close()  # as the kernel does when the agent is killed
    await eventually(lambda: child.gone, "the child's end")


# --- other cards ----------------------------------------------------------------------------------------------------


async def test_mig_is_shown_with_its_instances_and_without_utilisation(rig: Rig, nvml: FakeNvml) -> None:
    nvml.set("1 mig 3")
    card = by_uuid(await rig.round())[uuid_of(1)]
    assert card.mig_mode is True
    assert card.mig_instances == tuple(f"MIG-00000001-0000-0000-0000-{number:012d}" for number in range(3))
    assert (card.utilization_ratio, card.state) == (None, GpuState.OK)


async def test_a_card_one_may_not_look_at_is_listed_and_no_fault(rig: Rig, nvml: FakeNvml) -> None:
    nvml.set("1 denied 1")
    report = await rig.round()
    assert (states(report), report.events) == ({}, [])
    assert by_uuid(report)[uuid_of(1)].temperature_c is None
    assert len(fresh(report)) == 7
    nvml.set("2 error.GetHandleByIndex 4")
    rig.sensor._stale = True
    report = await rig.round()
    assert (states(report), report.events, len(fresh(report))) == ({}, [], 6)
    assert "does not let the agent look" in by_uuid(report)[uuid_of(2)].detail


@pytest.mark.parametrize("error", [3, 4, 13, 999], ids=["unsupported", "forbidden", "no function", "unknown"])
@pytest.mark.parametrize(
    ("function", "fields"),
    [
        ("GetUtilizationRates", {"utilization_ratio", "memory_utilization_ratio"}),
        ("GetPowerUsage", {"power_draw_mw"}),
        (
            "GetTotalEccErrors",
            {f"ecc_{kind}_{span}" for kind in ("corrected", "uncorrected") for span in ("volatile", "aggregate")},
        ),
        ("GetComputeRunningProcesses", {"processes"}),
    ],
    ids=["utilisation", "power", "ecc", "processes"],
)
async def test_one_value_that_cannot_be_read_hides_no_other(
    rig: Rig, nvml: FakeNvml, function: str, fields: set[str], error: int
) -> None:
    nvml.set(f"1 error.{function} {error}")
    report = await rig.round()
    bad, good = by_uuid(report)[uuid_of(1)], by_uuid(report)[uuid_of(2)]
    missing = {name for name in bad.__struct_fields__ if getattr(bad, name) is None and getattr(good, name) is not None}
    assert missing == fields
    degraded = function == "GetPowerUsage" and error == 999
    assert bad.state is (GpuState.DEGRADED if degraded else GpuState.OK)


async def test_pcie_traffic_is_the_difference_of_the_cards_counters(rig: Rig, nvml: FakeNvml) -> None:
    nvml.set("1 pcie_counters 1", "1 pcie_rx_bytes 1000000000", "1 pcie_tx_bytes 0")
    card = by_uuid(await rig.round())[uuid_of(1)]
    assert card.pcie_rx_bytes_per_s is None, "one reading of a counter is no rate"
    nvml.set("1 pcie_rx_bytes 9000000000")
    card = by_uuid(await rig.round())[uuid_of(1)]
    assert card.pcie_rx_bytes_per_s is not None
    assert card.pcie_rx_bytes_per_s > 0
    assert card.pcie_tx_bytes_per_s == 0
    nvml.set("1 pcie_rx_bytes 5")
    assert by_uuid(await rig.round())[uuid_of(1)].pcie_rx_bytes_per_s is None, "a counter that began anew"


async def test_a_suspended_card_is_not_woken(rig: Rig, nvml: FakeNvml) -> None:
    status = rig.sysfs / "bus/pci/devices/0000:11:00.0/power/runtime_status"
    status.parent.mkdir(parents=True)
    status.write_text("active\n")
    assert len(fresh(await rig.round())) == 8
    status.write_text("suspended\n")
    nvml.set("1 hang 1")  # any call would show
    report = await rig.round()
    card = by_uuid(report)[uuid_of(1)]
    assert (card.state, card.temperature_c, card.name) == (GpuState.OK, None, "NVIDIA H200")
    assert "asleep" in card.detail
    assert len(fresh(report)) == 7


async def test_new_cards_are_seen(rig: Rig, nvml: FakeNvml) -> None:
    nvml.set("* cards 2")
    assert len((await rig.round()).gpus) == 2
    nvml.set("* cards 3")
    await rig.round()
    report = await rig.round()
    assert len(fresh(report)) == 3
    assert report.events == []


# --- no child, no cards ---------------------------------------------------------------------------------------------


async def test_a_node_without_cards_is_asked_seldom_until_a_driver_appears(tmp_path: Path) -> None:
    clock = VirtualClock()
    dev = tmp_path / "dev"
    dev.mkdir()
    environ = {**os.environ, "PYTHONPATH": str(Path.cwd()), "LD_LIBRARY_PATH": str(tmp_path)}
    (tmp_path / "libnvidia-ml.so.1").touch()  # found before any real one, and no library
    sensor = GpuSensor(tmp_path, environ=environ, clock=clock, kernel_log=tmp_path / "none", dev=dev, proc=tmp_path)
    report = await sensor.read()
    assert (report.problem, report.gpus, report.events) == (Problem.MISSING, [], [])
    assert report.detail
    starts = [sensor._start_s]
    await clock.advance(5.0)
    assert (await sensor.read()).problem is Problem.MISSING
    starts.append(sensor._start_s)
    await clock.advance(MISSING_RECHECK_S)
    await sensor.read()
    starts.append(sensor._start_s)
    (dev / "nvidia0").touch()
    await clock.advance(5.0)
    await sensor.read()
    starts.append(sensor._start_s)
    assert [late - early for early, late in pairwise(starts)] == [
        0.0,
        MISSING_RECHECK_S + 5.0,
        5.0,
    ]
    await sensor.close()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["/does/not/exist"], "cannot be started"),
        (["/bin/sh", "-c", "echo no driver today >&2; exit 3"], "exit 3: no driver today"),
        (["/bin/sh", "-c", "kill -SEGV $$"], "signal 11"),
    ],
    ids=["no program", "error", "crash"],
)
async def test_a_child_that_cannot_serve_is_told_and_started_anew_ever_later(
    tmp_path: Path, argv: list[str], says: str
) -> None:
    clock = VirtualClock()
    sensor = GpuSensor(tmp_path, environ=os.environ, clock=clock, argv=argv, kernel_log=tmp_path / "none")
    report = await sensor.read()
    assert report.problem is Problem.FAILED
    assert says in report.detail
    assert kinds(report) == ["gpu.unreadable"]
    waits = []
    for _ in range(5):
        await clock.advance(max(0.0, sensor._start_s - clock.monotonic()))
        assert kinds(await sensor.read()) == []
        waits.append(sensor._start_s - clock.monotonic())
    assert waits == [5.0, 15.0, 60.0, 300.0, 300.0]
    await sensor.close()


def talking(*lines: str) -> list[str]:
    """A child that does these things with its socket, once it was asked."""
    script = ["import socket, signal", "talk = socket.socket(fileno=0)", "talk.recv(65536)", *lines, "signal.pause()"]
    return [sys.executable, "-c", "\n".join(script)]


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (talking("talk.send(b'nonsense')"), "cannot be understood"),
        (talking("""talk.send(b'{"type":"end","problem":"fine"}')"""), "cannot be understood"),
        (talking("""talk.send(b'{"type":"begin","index":-1}')"""), "cannot be understood"),
        (talking("""talk.send(b'[' * 100000)"""), "cannot be understood"),
        (talking("""talk.send(b'{"type":"begin","index":2}')""", "talk.send(b'nonsense')"), "at GPU 2"),
        (talking("""for _ in range(500): talk.send(b'{"type":"begin","index":2}')"""), "did not end"),
        (talking("talk.close()"), "did not end"),
    ],
    ids=["no json", "no such problem", "no such index", "oversize", "at a card", "flood", "closed"],
)
async def test_a_child_that_talks_nonsense_is_told_and_ended(tmp_path: Path, argv: list[str], says: str) -> None:
    sensor = GpuSensor(tmp_path, environ=os.environ, clock=VirtualClock(), argv=argv, kernel_log=tmp_path / "none")
    report = await sensor.read()
    assert says in " ".join([report.detail, *(gpu.detail for gpu in report.gpus)])
    assert kinds(report) == ["gpu.unreadable"]
    assert sensor.child_pid is None
    child = sensor._abandoned
    assert child is not None
    await eventually(lambda: child.gone, "the child's end")
    await sensor.close()


async def test_cards_of_a_child_that_cannot_serve_any_more_are_withdrawn(rig: Rig) -> None:
    await rig.round()
    assert rig.sensor.child_pid is not None
    os.kill(rig.sensor.child_pid, signal.SIGKILL)
    rig.sensor._argv = ["/does/not/exist"]
    first = await rig.round()
    assert {gpu.age_s for gpu in first.gpus} == {5.0}
    assert states(first) == {}
    await rig.clock.advance(30.0)
    later = await rig.round()
    assert set(states(later).values()) == {GpuState.DEGRADED}
    assert {gpu.temperature_c for gpu in later.gpus} == {None}


async def test_this_machines_own_driver_or_the_lack_of_one_is_told(tmp_path: Path) -> None:
    sensor = GpuSensor(tmp_path, environ={**os.environ, "PYTHONPATH": str(Path.cwd())}, clock=SystemClock())
    report = await sensor.read()
    assert report.problem in (Problem.NONE, Problem.MISSING, Problem.MISMATCH)
    assert bool(report.gpus) or report.problem is not Problem.NONE
    await sensor.close()
