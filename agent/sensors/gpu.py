"""The node's cards, read by NVML in a child process that may be thrown away.

NVML can hang for ever inside the driver, or crash its process: so it never runs in ours. A child that misses its
deadline is killed and not waited for; until it is gone no other is started, and its cards count as hung.
"""

import asyncio
import contextlib
import sys
from enum import StrEnum

import msgspec
from msgspec import Struct

from wire.limits import GPUS_MAX
from wire.status import GpuReading, GpuState

DEADLINE_S = 10.0
OUTPUT_BYTES_MAX = 256 * 1024


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
    """What the child prints, as JSON."""

    problem: Problem = Problem.NONE
    detail: str = ""
    gpus: list[GpuReading] = []


class GpuSensor:
    """Starts a child per reading; holds at most one that hangs."""

    def __init__(self, *, argv: list[str] | None = None, deadline_s: float = DEADLINE_S) -> None:
        self._argv = argv or [sys.executable, "-m", "agent.sensors.nvml_child"]
        self._deadline_s = deadline_s
        self._hung: asyncio.Task[int] | None = None
        self._last: list[GpuReading] = []

    async def read(self) -> Report:
        """One reading, within the deadline. Never raises."""
        if self._hung is not None and not self._hung.done():
            return self._all_hung("the last NVML process still hangs in the driver")
        self._hung = None
        try:
            child = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            return Report(problem=Problem.FAILED, detail=f"the NVML process cannot be started: {error}")
        try:
            async with asyncio.timeout(self._deadline_s):
                out, err = await child.communicate()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            self._hung = asyncio.create_task(child.wait())
            return self._all_hung(f"NVML did not answer within {self._deadline_s:g} s")
        report = _parsed(out, err, child.returncode)
        if report.problem is Problem.NONE:
            self._last = report.gpus
        return report

    def _all_hung(self, detail: str) -> Report:
        hung = [msgspec.structs.replace(gpu, memory_used_bytes=None, state=GpuState.DRIVER_HUNG) for gpu in self._last]
        return Report(problem=Problem.HUNG, detail=detail, gpus=hung)

    async def close(self) -> None:
        """Stop waiting for a hung child; it cannot be made to end."""
        if self._hung is not None:
            self._hung.cancel()
            await asyncio.gather(self._hung, return_exceptions=True)


def _parsed(out: bytes, err: bytes, code: int | None) -> Report:
    if code != 0 or len(out) > OUTPUT_BYTES_MAX:
        said = err.decode("utf-8", "replace").strip()[-500:]
        return Report(problem=Problem.FAILED, detail=f"the NVML process ended with {code}: {said}")
    try:
        report = msgspec.json.decode(out, type=Report)
    except ValueError as error:
        return Report(problem=Problem.FAILED, detail=f"the NVML process said something else: {error}")
    return msgspec.structs.replace(report, gpus=report.gpus[:GPUS_MAX])
