"""The machine under the agent, by psutil. Every reading stands alone: one that fails hides no other."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil

from wire.readings import HostReading

T = TypeVar("T")


class HostSensor:
    """Reads the host. Not for the event loop: a dead network file system can block it."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        psutil.cpu_percent(interval=None)  # the first call only marks the beginning of the interval

    def read(self) -> HostReading:
        """One reading; the processor's share is since the last one."""
        memory = _or_none(psutil.virtual_memory)
        disk = _or_none(lambda: psutil.disk_usage(str(self._data_dir)))
        load = _or_none(psutil.getloadavg)
        busy_percent = _or_none(lambda: psutil.cpu_percent(interval=None))
        started_s = _or_none(psutil.boot_time)
        return HostReading(
            cpu_count=_or_none(psutil.cpu_count),
            cpu_used_ratio=None if busy_percent is None else min(1.0, max(0.0, busy_percent / 100.0)),
            load_1min=None if load is None else max(0.0, load[0]),
            memory_total_bytes=None if memory is None else memory.total,
            memory_used_bytes=None if memory is None else max(0, memory.total - memory.available),
            disk_total_bytes=None if disk is None else disk.total,
            disk_free_bytes=None if disk is None else disk.free,
            uptime_s=None if started_s is None else max(0, int(time.time() - started_s)),
        )


def _or_none(read: Callable[[], T]) -> T | None:
    """A reading, or None where this machine has no such thing or does not let us see it."""
    try:
        return read()
    except (OSError, psutil.Error, NotImplementedError, RuntimeError):
        return None
