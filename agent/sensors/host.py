"""The machine under the agent, by psutil. Every reading stands alone: one that fails hides no other.

Readings are rounded here, at their source, so that noise costs no bytes on the way.
"""

import os
import platform
import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import psutil

from agent import identity
from agent.sensors import cgroup
from agent.sensors.container import container
from wire.limits import NAME_CHARS_MAX
from wire.readings import HostReading

T = TypeVar("T")

MIB = 1024 * 1024
NETWORK_STEP_BYTES = 64 * 1024
INODE_STEP = 1024
UPTIME_STEP_S = 60
NOT_COUNTED = ("lo", "veth")
"""Loopback, and the host's ends of containers' links: their traffic is counted at the bridge or the card."""
PROCESSOR_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal", "x86_pkg_temp")
BOARD_SENSORS = ("acpitz", "soc_thermal", "thermal_zone", "pch")
"""Used where no processor tells. Chips of many unconnected inputs, and other parts' sensors, are left out."""
TEMPERATURES_C = range(1, 126)
"""What is outside is an input without a sensor."""


class Processor:
    """How busy the processors are. psutil's own share is since the last call of the same thread; we have several."""

    def __init__(self) -> None:
        self._ratio = 0.0
        self._idle_s, self._total_s = _or_none(_processor_times) or (0.0, 0.0)

    def used_ratio(self) -> float:
        """The share of all processors' time since the last call that was not idle."""
        idle_s, total_s = _processor_times()
        passed_s = total_s - self._total_s
        if passed_s > 0.0:  # the kernel counts in hundredths of a second
            self._ratio = round(min(1.0, max(0.0, 1.0 - (idle_s - self._idle_s) / passed_s)), 2)
            self._idle_s, self._total_s = idle_s, total_s
        return self._ratio


def _processor_times() -> tuple[float, float]:
    times = psutil.cpu_times()._asdict()
    # A guest's time is counted in user's, too (proc_stat(5)).
    total_s = sum(times.values()) - times.get("guest", 0.0) - times.get("guest_nice", 0.0)
    return times["idle"] + times.get("iowait", 0.0), total_s


class HostSensor:
    """Reads the host. Not for the event loop: a dead network file system can block it."""

    def __init__(self, data_dir: Path, environ: Mapping[str, str] | None = None) -> None:
        self._data_dir = data_dir
        self._process = psutil.Process()
        self._boot_id = _or_none(identity.boot_id)
        self._container = _or_none(lambda: container(environ or {}))
        self._kernel = _or_none(lambda: platform.release()[:NAME_CHARS_MAX]) or None
        self._processor = Processor()

    def read(self) -> HostReading:
        """One reading; the processor's share is since the last one."""
        memory, swap = _or_none(psutil.virtual_memory), _or_none(psutil.swap_memory)
        data, root = _or_none(lambda: os.statvfs(self._data_dir)), _or_none(lambda: os.statvfs("/"))
        allowed = _or_none(cgroup.limits) or cgroup.Limits()
        rx, tx, errors = _or_none(_network) or (None, None, None)
        return HostReading(
            cpu_count=_or_none(psutil.cpu_count),
            cpu_used_ratio=_or_none(self._processor.used_ratio),
            load_1min=_or_none(lambda: round(max(0.0, psutil.getloadavg()[0]), 1)),
            memory_total_bytes=None if memory is None else memory.total,
            memory_used_bytes=None if memory is None else _stepped(memory.total - memory.available, MIB),
            disk_total_bytes=None if data is None else data.f_blocks * data.f_frsize,
            disk_free_bytes=None if data is None else _stepped(data.f_bavail * data.f_frsize, MIB),
            uptime_s=_or_none(lambda: _stepped(int(time.clock_gettime(time.CLOCK_BOOTTIME)), UPTIME_STEP_S)),
            cpu_limit_cores=_or_none(lambda: _cores(allowed.cpu_cores)),
            memory_limit_bytes=allowed.memory_bytes,
            memory_limit_used_bytes=allowed.memory_used_bytes,
            swap_total_bytes=None if swap is None else swap.total,
            swap_used_bytes=None if swap is None else _stepped(swap.used, MIB),
            root_disk_total_bytes=None if root is None else root.f_blocks * root.f_frsize,
            root_disk_free_bytes=None if root is None else _stepped(root.f_bavail * root.f_frsize, MIB),
            # Some file systems have no fixed number of inodes, and say 0 of 0.
            disk_inodes_free=None if data is None or data.f_files == 0 else _stepped(data.f_favail, INODE_STEP),
            network_rx_bytes=rx,
            network_tx_bytes=tx,
            network_errors=errors,
            temperature_c=_or_none(_temperature),
            boot_id=self._boot_id,
            container=self._container,
            kernel=self._kernel,
            open_files_used=_or_none(self._process.num_fds),
            open_files_limit=_or_none(_open_files_limit),
        )


def _cores(quota: float | None) -> float | None:
    """The cores one may use: by the groups' quota, or by the set of processors one is bound to."""
    bound, all_ = len(os.sched_getaffinity(0)), psutil.cpu_count()
    if all_ is None or bound >= all_:
        return quota
    return float(bound) if quota is None else min(quota, float(bound))


def _network() -> tuple[int, int, int]:
    # Without psutil's own memory of wrapped counters: these have 64 bits, and the memory grows with each new link.
    counted = [
        each
        for name, each in psutil.net_io_counters(pernic=True, nowrap=False).items()
        if not name.startswith(NOT_COUNTED)
    ]
    return (
        _stepped(sum(each.bytes_recv for each in counted), NETWORK_STEP_BYTES),
        _stepped(sum(each.bytes_sent for each in counted), NETWORK_STEP_BYTES),
        sum(each.errin + each.errout for each in counted),
    )


def _temperature() -> int | None:
    """The hottest of the processor's sensors; of the board's where there is none."""
    chips = psutil.sensors_temperatures()
    for names in (PROCESSOR_SENSORS, BOARD_SENSORS):
        read = [round(each.current) for chip, all_ in chips.items() if chip.startswith(names) for each in all_]
        if hottest := max((value for value in read if value in TEMPERATURES_C), default=None):
            return hottest
    return None


def _open_files_limit() -> int | None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def _stepped(value: int, step: int) -> int:
    return max(0, value) // step * step


def _or_none(read: Callable[[], T]) -> T | None:
    """A reading, or None where this machine has no such thing, does not let us see it, or says nonsense."""
    try:
        return read()
    except (OSError, psutil.Error, NotImplementedError, RuntimeError, ValueError, LookupError, ArithmeticError):
        return None
    except (AttributeError, TypeError):  # psutil leaves out functions, and fields, that a system does not have
        return None
