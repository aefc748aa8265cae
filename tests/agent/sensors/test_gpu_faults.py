"""The GPU sensor with its real child and a fake NVML library: what goes wrong with cards and drivers.

Each fault is told within two rounds, by the card it is at, while the other cards go on being read and the event loop is
never held up.
"""

import asyncio
import os
from collections.abc import Callable

import psutil
import pytest
from msgspec.structs import fields

from agent.config import Config
from agent.sensors.gpu import RECYCLE_LOST_S, SILENCE_S, Problem
from tests.agent.sensors.fake_nvml.library import FakeNvml, uuid_of
from tests.agent.sensors.gpu_rig import HASTY_S, PATIENT_S, LoopWatch, Rig, by_uuid, fresh, kinds, states
from tests.agent.virtual_time import eventually, turns
from wire.events import Level, NodeEvent
from wire.readings import GpuProcess, GpuState

pytestmark = pytest.mark.compiler

LAG_MAX_S = 0.05
LONG_S = 3.0
"""A deadline so long that waiting for it on the loop is no noise of a busy machine."""


# --- the seven faults -----------------------------------------------------------------------------------------------


async def test_a_lost_card_is_lost_and_hides_no_other(rig: Rig, nvml: FakeNvml) -> None:
    await rig.round()
    nvml.set("3 lost 1")
    report = await rig.round()
    assert states(report) == {3: GpuState.LOST}
    assert fresh(report) == {0, 1, 2, 4, 5, 6, 7}
    lost = by_uuid(report)[uuid_of(3)]
    assert (lost.temperature_c, lost.memory_used_bytes, lost.index, lost.age_s) == (None, None, 3, None)
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


async def test_a_card_that_hangs_is_named_and_the_others_go_on(rig: Rig, nvml: FakeNvml) -> None:
    await rig.round()
    nvml.set("3 hang 1")
    first = await rig.round(HASTY_S)
    assert states(first) == {3: GpuState.DRIVER_HUNG}
    assert fresh(first) == {0, 1, 2}
    assert [by_uuid(first)[uuid_of(number)].age_s for number in (4, 7)] == [5.0, 5.0], "old ones are shown as old"
    assert kinds(first) == ["gpu.hung"]
    second = await rig.round()
    assert states(second) == {3: GpuState.DRIVER_HUNG}
    assert fresh(second) == {0, 1, 2, 4, 5, 6, 7}
    assert by_uuid(second)[uuid_of(3)].temperature_c is None
    nvml.set("3 hang 0")
    await rig.clock.advance(30.0)
    third = await rig.round()
    assert (states(third), kinds(third), len(fresh(third))) == ({}, ["gpu.returned"], 8)


async def test_a_childs_first_round_may_take_longer_and_a_later_hang_is_told_within_two_rounds(
    rig: Rig, nvml: FakeNvml
) -> None:
    rig.sensor._first_silence_s = PATIENT_S
    assert states(await rig.round(0.0)) == {}, "no answer is there at once, but the first round waits"
    nvml.set("3 hang 1")
    assert states(await rig.round(HASTY_S)) == {3: GpuState.DRIVER_HUNG}
    (every_s,) = (field.default for field in fields(Config) if field.name == "gpu_readings_s")
    assert every_s > SILENCE_S, "a hang right after a round is told before the one after the next"


async def test_a_driver_that_hangs_before_any_card_hangs_them_all(rig: Rig, nvml: FakeNvml) -> None:
    await rig.round()
    nvml.set("* hang.count 1")
    report = await rig.round(HASTY_S)
    assert report.problem is Problem.HUNG
    assert set(states(report).values()) == {GpuState.DRIVER_HUNG}
    assert kinds(report) == ["gpu.hung"] * 8
    nvml.set("* hang.count 0")
    report = await rig.round()
    assert kinds(report) == ["gpu.returned"] * 8 + ["gpu.readable"]


async def test_an_agent_that_was_stopped_itself_does_not_call_the_driver_hung(
    rig: Rig, nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.round()
    pid = rig.sensor.child_pid
    nvml.set("3 hang 1")
    reading = asyncio.create_task(rig.round())
    await eventually(lambda: nvml.hanging, "the call that hangs")
    await turns()
    loop = asyncio.get_running_loop()
    true_time = loop.time
    monkeypatch.setattr(loop, "time", lambda: true_time() + 1000.0)  # as after a SIGSTOP, or a machine that slept
    await turns()  # the late timer's among them
    assert not reading.done()
    nvml.set("3 hang 0")
    report = await reading
    assert (states(report), len(fresh(report)), rig.sensor.child_pid) == ({}, 8, pid)


async def test_a_hung_child_that_cannot_be_killed_is_never_waited_for_and_has_no_successor(
    rig: Rig, nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.round()
    pid = rig.sensor.child_pid
    assert pid is not None
    nvml.set("3 hang 1")
    rig.unkillable = True
    monkeypatch.setattr(os, "kill", lambda *_: None)  # in the driver no signal arrives
    await rig.round(HASTY_S)
    for _ in range(2):
        report = await rig.round()
        assert report.problem is Problem.HUNG
        assert "still hangs" in report.detail
        assert set(states(report).values()) == {GpuState.DRIVER_HUNG}
        assert rig.sensor.child_pid is None
    monkeypatch.undo()
    nvml.set("3 hang 0")
    await eventually(lambda: not psutil.pid_exists(pid), "the end of the hung child")
    report = await rig.round()
    assert fresh(report) == {0, 1, 2, 4, 5, 6, 7}
    await rig.clock.advance(30.0)
    assert states(await rig.round()) == {}


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
    rig: Rig, nvml: FakeNvml, fault: str
) -> None:
    await rig.round()
    nvml.set("3 xid 79", f"0 {fault} 1")
    report = await rig.round(HASTY_S if fault == "hang" else PATIENT_S)
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
    rig: Rig, nvml: FakeNvml, lines: list[str], record_property: Callable[[str, object], None]
) -> None:
    await rig.round()
    async with LoopWatch() as watch:
        nvml.set(*lines)
        await rig.round(LONG_S if "hang 1" in lines[0] else PATIENT_S)
        (rig.dev / "nvidia8").touch()  # the child is started anew, which shows a mismatch
        for _ in range(3):
            await rig.round()
    record_property("worst_lag_ms", round(watch.worst_lag_s * 1000, 1))
    record_property("worst_busy_ms", round(watch.worst_busy_s * 1000, 1))
    print(f"loop: worst lag {watch.worst_lag_s * 1000:.1f} ms, worst own {watch.worst_busy_s * 1000:.1f} ms")  # noqa: T201 - for the report, with -rP
    assert watch.worst_busy_s < LAG_MAX_S
    assert watch.worst_lag_s < LONG_S / 2, "a sensor that waits on the loop is late by a whole deadline"
