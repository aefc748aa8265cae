"""The GPU sensor with its real child and a fake NVML library.

Each fault is told within two rounds, by the card it is at, while the other cards go on being read and the event loop is
never held up.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
import pytest

from agent.clock import SystemClock
from agent.sensors.gpu import MISSING_RECHECK_S, RECYCLE_LOST_S, RECYCLE_S, GpuSensor, Problem, Report
from tests.agent.sensors.fake_nvml.library import FakeNvml, uuid_of
from tests.agent.virtual_time import VirtualClock, eventually
from wire.events import Level, NodeEvent
from wire.readings import GpuProcess, GpuReading, GpuState

pytestmark = pytest.mark.compiler

MIB = 1024 * 1024
TICK_S = 0.005
LAG_MAX_S = 0.05


class LoopWatch:
    """A ticker: how late it woke at worst, and how much of the processor the loop used between two of its ticks.

    Wall time also counts other processes of a busy machine; processor time is the loop's own.
    """

    def __init__(self) -> None:
        self.worst_lag_s = 0.0
        self.worst_busy_s = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _tick(self) -> None:
        while True:
            due_s, busy_s = time.monotonic() + TICK_S, time.thread_time()
            await asyncio.sleep(TICK_S)
            self.worst_lag_s = max(self.worst_lag_s, time.monotonic() - due_s)
            self.worst_busy_s = max(self.worst_busy_s, time.thread_time() - busy_s)


class Rig:
    """A sensor on a folder of its own."""

    def __init__(self, folder: Path, nvml: FakeNvml, silence_s: float) -> None:
        self.clock = VirtualClock()
        self.unkillable = False
        self.kernel_log = folder / "kmsg"
        self.kernel_log.write_text("6,1,1,-;NVRM: Xid (PCI:0000:10:00): 31, pid=1, name=old\n")
        self.dev = folder / "dev"
        self.dev.mkdir()
        self.proc = folder / "proc"
        self.sysfs = folder / "sys"
        self.sensor = GpuSensor(
            folder,
            environ=nvml.environ,
            clock=self.clock,
            silence_s=silence_s,
            kernel_log=self.kernel_log,
            proc=self.proc,
            sysfs=self.sysfs,
            dev=self.dev,
        )

    async def round(self) -> Report:
        """One more cycle of the agent's, which takes long enough for a killed child to be gone."""
        abandoned = self.sensor._abandoned
        if abandoned is not None and not self.unkillable:
            await eventually(lambda: abandoned.gone, "the killed child's end")
        await self.clock.advance(5.0)
        return await self.sensor.read()


@pytest.fixture
async def rig(tmp_path: Path, nvml: FakeNvml) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path, nvml, silence_s=20.0)
    yield rig
    await rig.sensor.close()


@pytest.fixture
async def hasty(tmp_path: Path, nvml: FakeNvml) -> AsyncIterator[Rig]:
    """For what hangs: a deadline that a started child keeps easily."""
    rig = Rig(tmp_path, nvml, silence_s=3.0)
    yield rig
    await rig.sensor.close()


def by_uuid(report: Report) -> dict[str, GpuReading]:
    return {gpu.uuid: gpu for gpu in report.gpus}


def states(report: Report) -> dict[int, GpuState]:
    """The state of each card that is not well, by its number."""
    return {int(gpu.uuid[4:12]): gpu.state for gpu in report.gpus if gpu.state is not GpuState.OK}


def fresh(report: Report) -> set[int]:
    """Numbers of the cards that were read in this round."""
    return {int(gpu.uuid[4:12]) for gpu in report.gpus if gpu.age_s is None and gpu.temperature_c is not None}


def kinds(report: Report) -> list[str]:
    return [event.kind for event in report.events]


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


# --- the seven faults -----------------------------------------------------------------------------------------------


async def test_a_lost_card_is_lost_and_hides_no_other(rig: Rig, nvml: FakeNvml) -> None:
    await rig.round()
    nvml.set("3 lost 1")
    report = await rig.round()
    assert states(report) == {3: GpuState.LOST}
    assert fresh(report) == {0, 1, 2, 4, 5, 6, 7}
    lost = by_uuid(report)[uuid_of(3)]
    assert (lost.temperature_c, lost.memory_used_bytes, lost.index, lost.age_s) == (None, None, 3, 5.0)
    assert "fallen off the bus" in lost.detail
    assert kinds(report) == ["gpu.lost"]
    assert report.events[0].level is Level.ERROR
    assert report.events[0].fields["uuid"] == uuid_of(3)
    assert kinds(await rig.round()) == []
    nvml.set("3 lost 0")
    report = await rig.round()
    assert (states(report), kinds(report), len(fresh(report))) == ({}, ["gpu.returned"], 8)


async def test_a_card_that_is_not_listed_any_more_stays_listed_here(rig: Rig, nvml: FakeNvml) -> None:
    await rig.round()
    nvml.set("3 unlisted 1")
    report = await rig.round()
    assert states(report) == {3: GpuState.ABSENT}
    assert kinds(report) == ["gpu.lost"]
    assert by_uuid(report)[uuid_of(4)].index == 3, "indices move"
    await rig.clock.advance(RECYCLE_LOST_S[0])
    nvml.set("3 unlisted 0")
    report = await rig.round()
    assert (states(report), kinds(report), len(fresh(report))) == ({}, ["gpu.returned"], 8)


async def test_a_card_that_stays_away_is_looked_for_ever_less_often(rig: Rig, nvml: FakeNvml) -> None:
    nvml.set("3 lost 1")
    await rig.round()
    lives: list[float] = []
    for _ in range(5):
        pid, since_s = rig.sensor.child_pid, rig.clock.monotonic()
        while rig.sensor.child_pid == pid:
            await rig.clock.advance(25.0)
            await rig.round()
        lives.append(rig.clock.monotonic() - since_s)
    assert lives == [30.0, 60.0, 300.0, 600.0, 600.0]


async def test_a_lost_card_that_its_next_driver_does_not_list_is_no_news(rig: Rig, nvml: FakeNvml) -> None:
    await rig.round()
    nvml.set("3 lost 1")
    await rig.round()
    nvml.set("3 unlisted 1")
    report = await rig.round()
    assert (states(report), kinds(report)) == ({3: GpuState.ABSENT}, [])


async def test_a_card_that_hangs_is_named_and_the_others_go_on(hasty: Rig, nvml: FakeNvml) -> None:
    await hasty.round()
    nvml.set("3 hang 1")
    first = await hasty.round()
    assert states(first) == {3: GpuState.DRIVER_HUNG}
    assert fresh(first) == {0, 1, 2}
    assert [by_uuid(first)[uuid_of(number)].age_s for number in (4, 7)] == [5.0, 5.0], "old ones are shown as old"
    assert kinds(first) == ["gpu.hung"]
    second = await hasty.round()
    assert states(second) == {3: GpuState.DRIVER_HUNG}
    assert fresh(second) == {0, 1, 2, 4, 5, 6, 7}
    assert by_uuid(second)[uuid_of(3)].temperature_c is None
    nvml.set("3 hang 0")
    await hasty.clock.advance(30.0)
    third = await hasty.round()
    assert (states(third), kinds(third), len(fresh(third))) == ({}, ["gpu.returned"], 8)


async def test_a_driver_that_hangs_before_any_card_hangs_them_all(hasty: Rig, nvml: FakeNvml) -> None:
    await hasty.round()
    nvml.set("* hang.count 1")
    report = await hasty.round()
    assert report.problem is Problem.HUNG
    assert set(states(report).values()) == {GpuState.DRIVER_HUNG}
    assert kinds(report) == ["gpu.hung"] * 8
    nvml.set("* hang.count 0")
    report = await hasty.round()
    assert kinds(report) == ["gpu.returned"] * 8 + ["gpu.readable"]


async def test_a_hung_child_that_cannot_be_killed_is_never_waited_for_and_has_no_successor(
    hasty: Rig, nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hasty.round()
    pid = hasty.sensor.child_pid
    assert pid is not None
    nvml.set("3 hang 1")
    hasty.unkillable = True
    monkeypatch.setattr(os, "kill", lambda *_: None)  # in the driver no signal arrives
    await hasty.round()
    for _ in range(2):
        report = await hasty.round()
        assert report.problem is Problem.HUNG
        assert "still hangs" in report.detail
        assert set(states(report).values()) == {GpuState.DRIVER_HUNG}
        assert hasty.sensor.child_pid is None
    monkeypatch.undo()
    nvml.set("3 hang 0")
    await eventually(lambda: not psutil.pid_exists(pid), "the end of the hung child")
    report = await hasty.round()
    assert fresh(report) == {0, 1, 2, 4, 5, 6, 7}
    await hasty.clock.advance(30.0)
    assert states(await hasty.round()) == {}


async def test_a_crash_inside_nvml_is_named_and_the_others_go_on(rig: Rig, nvml: FakeNvml) -> None:
    await rig.round()
    nvml.set("3 crash 1")
    first = await rig.round()
    assert states(first) == {3: GpuState.DEGRADED}
    detail = by_uuid(first)[uuid_of(3)].detail
    assert "signal 11, Segmentation fault" in detail
    assert uuid_of(3) in detail
    assert "nvml_fields.py" in detail, "its last words are told"
    assert kinds(first) == ["gpu.unreadable"]
    second = await rig.round()
    assert fresh(second) == {0, 1, 2, 4, 5, 6, 7}
    assert states(second) == {3: GpuState.DEGRADED}
    assert kinds(second) == []
    nvml.set("3 crash 0")
    await rig.clock.advance(30.0)
    third = await rig.round()
    assert (states(third), kinds(third)) == ({}, ["gpu.readable"])


async def test_a_card_that_crashes_again_is_left_alone_for_longer(rig: Rig, nvml: FakeNvml) -> None:
    await rig.round()
    nvml.set("3 crash 1")
    await rig.round()
    await rig.clock.advance(30.0)
    again = await rig.round()
    assert fresh(again) == {0, 1, 2, 4, 5, 6, 7}, "it is tried last"
    await rig.clock.advance(30.0)
    pid = (await rig.round(), rig.sensor.child_pid)[1]
    await rig.round()
    assert rig.sensor.child_pid == pid, "its second time of grace is longer"


async def test_a_driver_of_another_version_is_told_with_both_and_by_every_card(rig: Rig, nvml: FakeNvml) -> None:
    await rig.round()
    version = rig.proc / "driver" / "nvidia" / "version"
    version.parent.mkdir(parents=True)
    version.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  575.57.08  Sat May 24 07:19:15 UTC 2025\n")
    nvml.set("* init 18")
    report = await rig.round()
    assert report.problem is Problem.MISMATCH
    assert set(states(report).values()) == {GpuState.DRIVER_MISMATCH}
    assert "library 13.580.65.06, kernel module 575.57.08" in report.detail
    assert "reboot" in report.gpus[0].detail
    assert kinds(report) == ["gpu.mismatch"] * 8
    assert kinds(await rig.round()) == []
    nvml.set("* init 0")
    await rig.clock.advance(60.0)
    report = await rig.round()
    assert (states(report), kinds(report)) == ({}, ["gpu.returned"] * 8 + ["gpu.readable"])


async def test_after_a_mismatched_start_the_kernels_own_list_names_the_cards(rig: Rig, nvml: FakeNvml) -> None:
    for bus in (0x10, 0x11):
        folder = rig.proc / "driver" / "nvidia" / "gpus" / f"0000:{bus:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(
            f"Model: \t\t H200\nGPU UUID: \t {uuid_of(bus - 0x10)}\nDevice Minor: \t 0\n"
        )
    nvml.set("* init 18")
    report = await rig.round()
    assert states(report) == {0: GpuState.DRIVER_MISMATCH, 1: GpuState.DRIVER_MISMATCH}
    assert kinds(report) == ["gpu.mismatch"] * 2


async def test_sentinels_are_no_readings(rig: Rig, nvml: FakeNvml) -> None:
    nvml.set("3 sentinels 1", "4 sentinels 1", "3 fan 1", "4 fan 1", "3 pcie_counters 1")
    await rig.round()
    report = await rig.round()
    assert len(report.gpus) == 8
    for number in (3, 4):
        bad = by_uuid(report)[uuid_of(number)]
        left = {name for name in bad.__struct_fields__ if getattr(bad, name) is not None}
        assert left <= {
            "uuid", "name", "state", "detail", "index", "pci_bus_id", "driver_version", "cuda_version",
            "vbios_version", "mig_instances", "nvlinks_active", "retired_pages", "xid_count", "processes",
        }  # fmt: skip
        assert bad.processes == (GpuProcess(1000, None, None),)
    assert by_uuid(report)[uuid_of(5)].temperature_c == 41


async def test_a_burst_of_xids_is_counted_and_told_once_a_round(rig: Rig, nvml: FakeNvml) -> None:
    nvml.set("2 xid 31")
    assert kinds(await rig.round()) == [], "what was before is not told"
    nvml.set(*["2 xid 31"] * 100, *["3 xid 79"] * 3, "5 xid 48")
    report = await rig.round()
    told = {(event.fields["uuid"], event.fields["xid"]): event for event in report.events if event.kind == "gpu.xid"}
    assert {key: event.fields["count"] for key, event in told.items()} == {
        (uuid_of(2), 31): 100,
        (uuid_of(3), 79): 3,
        (uuid_of(5), 48): 1,
    }
    assert told[uuid_of(2), 31].fields["severity"] == "application"
    assert told[uuid_of(3), 79].level is Level.ERROR
    assert "reboot the node" in told[uuid_of(3), 79].detail
    assert states(report) == {3: GpuState.DEGRADED, 5: GpuState.DEGRADED}
    assert len(fresh(report)) == 8
    counted = by_uuid(report)[uuid_of(2)]
    assert (counted.xid_count, counted.xid_last, counted.xid_last_time_ms) == (100, 31, rig.clock.unix_ms())
    nvml.set("2 xid 31")
    report = await rig.round()
    assert [(event.fields["count"], event.fields["total"]) for event in report.events] == [(1, 101)]
    await rig.clock.advance(3600.0)
    assert states(await rig.round()) == {}


@pytest.mark.parametrize("fault", ["hang", "crash"])
async def test_an_xid_is_not_lost_with_the_child_that_the_same_fault_kills(
    hasty: Rig, nvml: FakeNvml, fault: str
) -> None:
    await hasty.round()
    nvml.set("3 xid 79", f"0 {fault} 1")
    report = await hasty.round()
    assert "gpu.xid" in kinds(report)
    assert by_uuid(report)[uuid_of(3)].xid_last == 79


async def test_the_kernels_log_and_nvml_together_count_each_xid_once(rig: Rig, nvml: FakeNvml) -> None:
    await rig.round()
    nvml.set("2 xid 31")
    with rig.kernel_log.open("a") as log:
        log.write("6,2,2,-;NVRM: Xid (PCI:0000:12:00): 31, pid=77, name=prover, Ch 0000001e\n")
        log.write("6,3,3,-;NVRM: Xid (PCI:0000:14:00): 13, pid=78, name=prover\n")
    report = await rig.round()
    told = {event.fields["uuid"]: event for event in report.events}
    assert told[uuid_of(2)].fields["count"] == 1
    assert "pid=77" in told[uuid_of(2)].detail
    assert told[uuid_of(4)].fields["xid"] == 13
    for event in report.events:
        NodeEvent(kind=event.kind, detail=event.detail, level=event.level, fields=event.fields)


# --- the loop -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        ["* cards 16"],
        ["3 lost 1"],
        ["3 hang 1"],
        ["3 crash 1"],
        ["* init 18"],
        ["* sentinels 1"],
        [f"{number % 8} xid {xid}" for number in range(40) for xid in (13, 31, 48, 79, 95)],
    ],
    ids=["healthy", "lost", "hang", "crash", "mismatch", "sentinels", "xids"],
)
async def test_the_event_loop_is_never_held_up(
    hasty: Rig, nvml: FakeNvml, lines: list[str], record_property: Callable[[str, object], None]
) -> None:
    await hasty.round()
    async with LoopWatch() as watch:
        nvml.set(*lines)
        for _ in range(4):
            await hasty.round()
    record_property("worst_lag_ms", round(watch.worst_lag_s * 1000, 1))
    record_property("worst_busy_ms", round(watch.worst_busy_s * 1000, 1))
    print(f"loop: worst lag {watch.worst_lag_s * 1000:.1f} ms, worst own {watch.worst_busy_s * 1000:.1f} ms")  # noqa: T201 - for the report, with -rP
    assert watch.worst_busy_s < LAG_MAX_S
    assert watch.worst_lag_s < hasty.sensor._silence_s / 2, (
        "a sensor that waits on the loop is late by a whole deadline"
    )


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
