"""A GPU sensor with its real child, on a fake NVML library and a folder of its own; and how to look at its reports."""

import asyncio
import gc
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from agent.sensors.gpu import GpuSensor, Report
from tests.agent.sensors.fake_nvml.library import FakeNvml
from tests.agent.virtual_time import VirtualClock, eventually
from wire.readings import GpuReading, GpuState

TICK_S = 0.005
PATIENT_S = 60.0
"""A deadline that nothing misses, a child that starts on a busy machine neither."""
HASTY_S = 1.0
"""For the round that hangs: the cards before the hanging one answer in milliseconds."""


class LoopWatch:
    """A ticker: how late it woke at worst, and how much of the processor the loop used between two of its ticks.

    Wall time also counts other processes of a busy machine; processor time is the loop's own. What other tests left in
    memory is kept out of collections meanwhile, which would look through it for longer than the loop may take.
    """

    def __init__(self) -> None:
        self.worst_lag_s = 0.0
        self.worst_busy_s = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        gc.collect()
        gc.freeze()
        self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        gc.unfreeze()

    async def _tick(self) -> None:
        while True:
            due_s, busy_s = time.monotonic() + TICK_S, time.thread_time()
            await asyncio.sleep(TICK_S)
            self.worst_lag_s = max(self.worst_lag_s, time.monotonic() - due_s)
            self.worst_busy_s = max(self.worst_busy_s, time.thread_time() - busy_s)


class Rig:
    """A sensor on a folder of its own."""

    def __init__(self, folder: Path, nvml: FakeNvml) -> None:
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
            silence_s=PATIENT_S,
            first_silence_s=0.0,
            kernel_log=self.kernel_log,
            proc=self.proc,
            sysfs=self.sysfs,
            dev=self.dev,
        )

    async def round(self, silence_s: float = PATIENT_S) -> Report:
        """One more cycle of the agent's, which takes long enough for a killed child to be gone."""
        self.sensor._silence_s = silence_s
        abandoned = self.sensor._abandoned
        if abandoned is not None and not self.unkillable:
            await eventually(lambda: abandoned.gone, "the killed child's end")
        await self.clock.advance(5.0)
        return await self.sensor.read()


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
