"""Pure: which numbers of a `Readings` body become series, what each is called, and what it counts.

A series is named ``<source>.<field>``: ``host.cpu_used_ratio``, ``gpu.<uuid>.temperature_c``. In the store a node's
sources have small numbers, given as they turn up, and the fields of a kind of source have fixed ones: numbers below are
never changed or used again, only added.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any

from msgspec import Struct

from wire.events import Readings
from wire.readings import GpuReading, GpuState, HostReading

Number = int | float
Values = dict[int, Number]
"""By the field's number."""

FIELDS_MAX = 63
"""Fields of one kind of source: which of them a row holds is one signed 64-bit number."""
HOST = "host"
GPU_PREFIX = "gpu."


class Kind(StrEnum):
    """What the numbers of a series mean."""

    GAUGE = "gauge"
    """A level: its average says something."""
    COUNTER = "counter"
    """It only grows, until it begins anew: the difference of two last values says something."""


class Field(Struct, frozen=True):
    """One number of a kind of source."""

    number: int
    name: str
    unit: str
    kind: Kind = Kind.GAUGE


GPU_STATES = {
    GpuState.OK: 0,
    GpuState.DEGRADED: 1,
    GpuState.LOST: 2,
    GpuState.DRIVER_HUNG: 3,
    GpuState.DRIVER_MISMATCH: 4,
    GpuState.ABSENT: 5,
}
"""A card's state as a number: the maximum of a time says whether anything was wrong in it."""
THROTTLE_POWER = 0x4 | 0x80
THROTTLE_THERMAL = 0x20 | 0x40
THROTTLE_HARDWARE = 0x8
"""Bits of `GpuReading.throttle_reasons`; idle and clocks that were asked for are no throttling."""

HOST_FIELDS: tuple[Field, ...] = (
    Field(0, "cpu_used_ratio", "ratio"),
    Field(1, "load_1min", "1"),
    Field(2, "memory_total_bytes", "bytes"),
    Field(3, "memory_used_bytes", "bytes"),
    Field(4, "disk_total_bytes", "bytes"),
    Field(5, "disk_free_bytes", "bytes"),
    Field(6, "uptime_s", "s", Kind.COUNTER),
    Field(7, "cpu_limit_cores", "cores"),
    Field(8, "memory_limit_bytes", "bytes"),
    Field(9, "memory_limit_used_bytes", "bytes"),
    Field(10, "swap_total_bytes", "bytes"),
    Field(11, "swap_used_bytes", "bytes"),
    Field(12, "root_disk_total_bytes", "bytes"),
    Field(13, "root_disk_free_bytes", "bytes"),
    Field(14, "disk_inodes_free", "1"),
    Field(15, "network_rx_bytes", "bytes", Kind.COUNTER),
    Field(16, "network_tx_bytes", "bytes", Kind.COUNTER),
    Field(17, "network_errors", "1", Kind.COUNTER),
    Field(18, "temperature_c", "celsius"),
    Field(19, "open_files_used", "1"),
    Field(20, "open_files_limit", "1"),
    Field(21, "cpu_count", "1"),
)
GPU_FIELDS: tuple[Field, ...] = (
    Field(0, "state", "state"),
    Field(1, "utilization_ratio", "ratio"),
    Field(2, "memory_utilization_ratio", "ratio"),
    Field(3, "encoder_utilization_ratio", "ratio"),
    Field(4, "decoder_utilization_ratio", "ratio"),
    Field(5, "memory_total_bytes", "bytes"),
    Field(6, "memory_used_bytes", "bytes"),
    Field(7, "memory_free_bytes", "bytes"),
    Field(8, "memory_reserved_bytes", "bytes"),
    Field(9, "sm_clock_mhz", "mhz"),
    Field(10, "memory_clock_mhz", "mhz"),
    Field(11, "temperature_c", "celsius"),
    Field(12, "memory_temperature_c", "celsius"),
    Field(13, "power_draw_mw", "mw"),
    Field(14, "power_limit_mw", "mw"),
    Field(15, "energy_mj", "mj", Kind.COUNTER),
    Field(16, "fan_ratio", "ratio"),
    Field(17, "pcie_generation", "1"),
    Field(18, "pcie_width", "lanes"),
    Field(19, "pcie_rx_bytes_per_s", "bytes_per_s"),
    Field(20, "pcie_tx_bytes_per_s", "bytes_per_s"),
    Field(21, "pcie_replays", "1", Kind.COUNTER),
    Field(22, "nvlinks_active", "1"),
    Field(23, "ecc_corrected_volatile", "1", Kind.COUNTER),
    Field(24, "ecc_uncorrected_volatile", "1", Kind.COUNTER),
    Field(25, "ecc_corrected_aggregate", "1", Kind.COUNTER),
    Field(26, "ecc_uncorrected_aggregate", "1", Kind.COUNTER),
    Field(27, "remapped_rows_corrected", "1", Kind.COUNTER),
    Field(28, "remapped_rows_uncorrected", "1", Kind.COUNTER),
    Field(29, "remapped_rows_pending", "bool"),
    Field(30, "remapped_rows_failed", "bool"),
    Field(31, "retired_pages", "1", Kind.COUNTER),
    Field(32, "xid_count", "1", Kind.COUNTER),
    Field(33, "throttled_power", "bool"),
    Field(34, "throttled_thermal", "bool"),
    Field(35, "throttled_hardware", "bool"),
    Field(36, "processes", "1"),
)

_COMPUTED: dict[str, Callable[[GpuReading], Number | None]] = {
    "state": lambda gpu: GPU_STATES[gpu.state],
    "throttled_power": lambda gpu: _any_bit(gpu.throttle_reasons, THROTTLE_POWER),
    "throttled_thermal": lambda gpu: _any_bit(gpu.throttle_reasons, THROTTLE_THERMAL),
    "throttled_hardware": lambda gpu: _any_bit(gpu.throttle_reasons, THROTTLE_HARDWARE),
    "processes": lambda gpu: None if gpu.processes is None else len(gpu.processes),
}
_HOST_NAMES = tuple((field.number, field.name) for field in HOST_FIELDS)
_GPU_NAMES = tuple((field.number, field.name) for field in GPU_FIELDS if field.name not in _COMPUTED)
_GPU_COMPUTED = tuple((field.number, _COMPUTED[field.name]) for field in GPU_FIELDS if field.name in _COMPUTED)


def values_of(readings: Readings) -> dict[str, Values]:
    """The numbers of a body, by source and field. What could not be read has none.

    Readings of a card that are not of this round are left out, its state aside: a stale value is a gap, not a level.
    """
    found: dict[str, Values] = {}
    if readings.host is not None:
        found[HOST] = _read(readings.host, _HOST_NAMES)
    for gpu in readings.gpus:
        values = _read(gpu, _GPU_NAMES) if gpu.age_s is None else {}
        for number, compute in _GPU_COMPUTED if gpu.age_s is None else _GPU_COMPUTED[:1]:
            value = compute(gpu)
            if value is not None:
                values[number] = value
        found[GPU_PREFIX + gpu.uuid] = values
    return {source: values for source, values in found.items() if values}


def _read(reading: HostReading | GpuReading, names: Iterable[tuple[int, str]]) -> Values:
    """Truth values become 0 and 1."""
    found: Values = {}
    for number, name in names:
        value: Any = getattr(reading, name)
        if value is not None:
            found[number] = int(value) if value is True or value is False else value
    return found


def _any_bit(bits: int | None, wanted: int) -> int | None:
    return None if bits is None else int(bool(bits & wanted))


def fields_of(source: str) -> tuple[Field, ...]:
    """The fields a source may have."""
    return HOST_FIELDS if source == HOST else GPU_FIELDS


def named(source: str, mask: int) -> Iterator[tuple[str, Field]]:
    """Name and field of each series of a source, of those fields whose bit is set in ``mask``."""
    for field in fields_of(source):
        if mask >> field.number & 1:
            yield f"{source}.{field.name}", field
