"""The program of the NVML child: reads every card once, writes one JSON report, ends. May hang or die; see `gpu`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pynvml

from agent.sensors.gpu import Problem, Report
from wire.limits import GPUS_MAX, NAME_CHARS_MAX
from wire.readings import GpuReading, GpuState

T = TypeVar("T")

NUMBER_MAX = 2**62
"""NVML marks what it cannot read with numbers near the ends of their type."""


def report() -> Report:
    """Read every card; one that fails hides no other."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Report(problem=_problem(error), detail=str(error))
    try:
        count = min(pynvml.nvmlDeviceGetCount(), GPUS_MAX)
        return Report(gpus=[card(index) for index in range(count)])
    except pynvml.NVMLError as error:
        return Report(problem=Problem.FAILED, detail=str(error))
    finally:
        pynvml.nvmlShutdown()


def card(index: int) -> GpuReading:
    """One card, keyed by its UUID; by its index where even that cannot be read."""
    state = GpuState.OK
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError as error:
        return GpuReading(uuid=f"index-{index}", state=_state(error))
    uuid = _or_none(lambda: _text(pynvml.nvmlDeviceGetUUID(handle)))
    try:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        total, used = _number(memory.total), _number(memory.used)
    except pynvml.NVMLError as error:
        total = used = None
        state = _state(error)
    return GpuReading(
        uuid=uuid or f"index-{index}",
        name=_or_none(lambda: _text(pynvml.nvmlDeviceGetName(handle))) or None,
        memory_total_bytes=total,
        memory_used_bytes=used,
        state=state,
    )


def _problem(error: Any) -> Problem:
    if error.value in (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED):
        return Problem.MISSING
    if error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return Problem.MISMATCH
    return Problem.FAILED


def _state(error: Any) -> GpuState:
    """A card's state, from an error about it: lost for good, or only one reading that is not there."""
    if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
        return GpuState.LOST
    if error.value in (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION):
        return GpuState.OK
    return GpuState.DEGRADED


def _or_none(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except pynvml.NVMLError:
        return None


def _text(value: str | bytes) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return text[:NAME_CHARS_MAX]


def _number(value: int) -> int | None:
    return value if 0 <= value < NUMBER_MAX else None


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(msgspec.json.encode(report()))
