"""The node's cards, read by NVML in a child process that may be thrown away.

NVML can hang for ever inside the driver, or crash its process: so it never runs in ours. A child that misses its
deadline is killed and not waited for; until it is gone no other is started, and its cards count as hung.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct

from agent import processes
from agent.clock import Clock
from wire.limits import GPUS_MAX
from wire.readings import GpuReading, GpuState

DEADLINE_S = 10.0
OUTPUT_BYTES_MAX = 256 * 1024
LOG_BYTES = 500


class Problem(StrEnum):
    """Why there are no readings."""

    NONE = "none"
    MISSING = "missing"
    """No NVML library, or no driver: this node has no NVIDIA card."""
    MISMATCH = "mismatch"
    """Library and driver are of different versions: reboot after the upgrade."""
    HUNG = "hung"
    """The child did not answer in time."""
    FAILED = "failed"
    """It answered with an error, or died."""


class Report(Struct, frozen=True):
    """What the child writes, as JSON."""

    problem: Problem = Problem.NONE
    detail: str = ""
    gpus: list[GpuReading] = []


class GpuSensor:
    """Starts a child per reading; holds at most one that hangs.

    Args:
        folder: where the child writes its report and its complaints.
        environ: the child's environment.
        clock: for the wait where the kernel cannot tell of a process's end.
        argv: the child's command line; the report's path is appended.
        deadline_s: for one reading.
    """

    def __init__(
        self,
        folder: Path,
        *,
        environ: Mapping[str, str],
        clock: Clock,
        argv: Sequence[str] = (sys.executable, "-m", "agent.sensors.nvml_child"),
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._report_path = folder / "gpu.json"
        self._log_path = folder / "gpu.log"
        self._environ = environ
        self._clock = clock
        self._argv = argv
        self._deadline_s = deadline_s
        self._child: asyncio.Task[str] | None = None
        self._last: list[GpuReading] = []

    async def read(self) -> Report:
        """One reading, within the deadline. Never raises."""
        if self._child is not None and not self._child.done():
            return self._all_hung("the last NVML process still hangs in the driver")
        try:
            pid = await asyncio.to_thread(self._start)
        except OSError as error:
            return Report(problem=Problem.FAILED, detail=f"the NVML process cannot be started: {error}")
        self._child = asyncio.create_task(processes.wait_exit(pid, self._clock))
        done, _ = await asyncio.wait({self._child}, timeout=self._deadline_s)
        if not done:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            return self._all_hung(f"NVML did not answer within {self._deadline_s:g} s")
        report = await asyncio.to_thread(self._parsed, self._child.result())
        if report.problem is Problem.NONE:
            self._last = report.gpus
        return report

    def _start(self) -> int:
        self._report_path.unlink(missing_ok=True)
        self._log_path.unlink(missing_ok=True)
        argv = [*self._argv, str(self._report_path)]
        return processes.start_detached(argv, environ=self._environ, log_path=self._log_path)

    def _all_hung(self, detail: str) -> Report:
        hung = [msgspec.structs.replace(gpu, memory_used_bytes=None, state=GpuState.DRIVER_HUNG) for gpu in self._last]
        return Report(problem=Problem.HUNG, detail=detail, gpus=hung)

    def _parsed(self, how: str) -> Report:
        if how != processes.describe(0):
            said = processes.log_tail(self._log_path, LOG_BYTES)
            return Report(problem=Problem.FAILED, detail=f"the NVML process ended with {how}: {said}")
        try:
            with self._report_path.open("rb") as file:
                report = msgspec.json.decode(file.read(OUTPUT_BYTES_MAX), type=Report)
        except (OSError, ValueError) as error:
            return Report(problem=Problem.FAILED, detail=f"the NVML process left no report: {error}")
        return msgspec.structs.replace(report, gpus=report.gpus[:GPUS_MAX])

    async def close(self) -> None:
        """Stop waiting for a hung child; it cannot be made to end."""
        if self._child is not None:
            self._child.cancel()
            await asyncio.gather(self._child, return_exceptions=True)
