"""Every reading of a card: its NVML functions, how often it is taken, and how it is cleaned and rounded.

Each stands alone: one that cannot be read is None and hides no other. Readings are rounded here, at their source, so
that noise costs no bytes on the way.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

import pynvml

from wire.limits import GPU_PROCESSES_MAX, MIG_INSTANCES_MAX, NAME_CHARS_MAX
from wire.readings import GpuProcess

MIB = 1024 * 1024
NUMBER_MAX = 2**62
"""NVML and DCGM mark what they cannot read with numbers near the ends of their type: 9223372036854775794, 2**64 - 1."""
SENTINELS_32 = (range(0x7FFF_FFF0, 0x8000_0000), range(0xFFFF_FFF0, 0x1_0000_0000))
"""The same for 32 bits: 2147483632 to ...647, 4294967280 to ...295."""
TEMPERATURES_C = range(1, 151)
"""No card that answers is colder or hotter; 0 and -1 are what some drivers say for "not available"."""
POWER_STEP_MW = 1000
ENERGY_STEP_MJ = 1_000_000
LINKS_MAX = 36


class Often(Enum):
    """How often a reading is taken."""

    ONCE = "once a child"
    """It does not change while the driver runs; a child lives an hour."""
    SLOW = "once a minute"
    """It changes seldom, or takes many calls."""
    ROUND = "each round"


class Seen(NamedTuple):
    """What a reader may look at beside the card's handle."""

    now_s: float
    memo: dict[str, Any]
    """The reader's own, kept from round to round for this card."""


class Reading(NamedTuple):
    """One call, or a few that belong together, and the fields they fill."""

    fields: tuple[str, ...]
    functions: str
    often: Often
    read: Callable[[Any, Seen], Mapping[str, Any]]


def count(value: int) -> int | None:
    """A number, unless it is one of those that mean "not available"."""
    if not 0 <= value < NUMBER_MAX or any(value in sentinels for sentinels in SENTINELS_32):
        return None
    return value


def stepped(value: int | None, step: int) -> int | None:
    """``value`` in whole steps."""
    number = None if value is None else count(value)
    return None if number is None else (number + step // 2) // step * step


def percent(value: int) -> float | None:
    """A ratio from NVML's per cent; a fan may be driven above its rating."""
    return min(value, 100) / 100 if 0 <= value <= 200 else None  # noqa: PLR2004 - twice the whole is no reading


def celsius(value: int) -> int | None:
    """A temperature that can be one."""
    return value if value in TEMPERATURES_C else None


def text(value: str | bytes) -> str | None:
    """A name, bounded; None for an empty one."""
    decoded = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return decoded[:NAME_CHARS_MAX] or None


def one(field: str, function: str, often: Often, clean: Callable[[Any], Any], *arguments: Any) -> Reading:
    """A reading that is one function's one value."""

    def read(handle: Any, _: Seen) -> Mapping[str, Any]:
        return {field: clean(getattr(pynvml, function)(handle, *arguments))}

    return Reading((field,), function, often, read)


# --- readings of more than one value --------------------------------------------------------------------------------


def _versions(_handle: Any, _: Seen) -> Mapping[str, Any]:
    cuda = count(pynvml.nvmlSystemGetCudaDriverVersion_v2())
    return {
        "driver_version": text(pynvml.nvmlSystemGetDriverVersion()),
        "cuda_version": f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
    }


def _memory(handle: Any, _: Seen) -> Mapping[str, Any]:
    try:
        info = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
        reserved = stepped(info.reserved, MIB)
    except pynvml.NVMLError as error:
        if error.value in (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_UNKNOWN):
            raise
        info, reserved = pynvml.nvmlDeviceGetMemoryInfo(handle), None
    return {
        "memory_total_bytes": stepped(info.total, MIB),
        "memory_used_bytes": stepped(info.used, MIB),
        "memory_free_bytes": stepped(info.free, MIB),
        "memory_reserved_bytes": reserved,
    }


def _utilization(handle: Any, _: Seen) -> Mapping[str, Any]:
    rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
    return {"utilization_ratio": percent(rates.gpu), "memory_utilization_ratio": percent(rates.memory)}


def _temperature(handle: Any, _: Seen) -> Mapping[str, Any]:
    try:
        value = pynvml.nvmlDeviceGetTemperatureV(handle, pynvml.NVML_TEMPERATURE_GPU)
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
            raise
        value = pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)
    return {"temperature_c": celsius(value)}


def _memory_temperature(handle: Any, _: Seen) -> Mapping[str, Any]:
    (value,) = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_MEMORY_TEMP])
    if value.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(value.nvmlReturn)
    return {"memory_temperature_c": celsius(value.value.uiVal)}


def _pcie_traffic(handle: Any, seen: Seen) -> Mapping[str, Any]:
    """From the card's byte counters; where it has none, by NVML's own sample, which takes 20 ms each way."""
    ids = [pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES]
    values = pynvml.nvmlDeviceGetFieldValues(handle, ids)
    if any(value.nvmlReturn != pynvml.NVML_SUCCESS for value in values):
        rx = pynvml.nvmlDeviceGetPcieThroughput(handle, pynvml.NVML_PCIE_UTIL_RX_BYTES)
        tx = pynvml.nvmlDeviceGetPcieThroughput(handle, pynvml.NVML_PCIE_UTIL_TX_BYTES)
        rates = [value if value is None else value * 1000 for value in (count(rx), count(tx))]
        return {"pcie_rx_bytes_per_s": stepped(rates[0], MIB), "pcie_tx_bytes_per_s": stepped(rates[1], MIB)}
    now = (seen.now_s, count(values[0].value.ullVal), count(values[1].value.ullVal))
    before = seen.memo.get("pcie", now)
    seen.memo["pcie"] = now
    passed_s = now[0] - before[0]

    def rate(which: int) -> int | None:
        new, old = now[which], before[which]
        if new is None or old is None or passed_s <= 0 or new < old:
            return None
        return stepped(int((new - old) / passed_s), MIB)

    return {"pcie_rx_bytes_per_s": rate(1), "pcie_tx_bytes_per_s": rate(2)}


def _links(handle: Any, _: Seen) -> Mapping[str, Any]:
    active = 0
    for link in range(LINKS_MAX):
        try:
            active += pynvml.nvmlDeviceGetNvLinkState(handle, link) == pynvml.NVML_FEATURE_ENABLED
        except pynvml.NVMLError as error:
            if link == 0 or error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
                raise
            break
    return {"nvlinks_active": active}


def _throttling(handle: Any, _: Seen) -> Mapping[str, Any]:
    try:
        bits = pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    except pynvml.NVMLError as error:
        if error.value != pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        bits = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return {"throttle_reasons": count(bits)}


def _remapped(handle: Any, _: Seen) -> Mapping[str, Any]:
    corrected, uncorrected, pending, failed = pynvml.nvmlDeviceGetRemappedRows(handle)
    return {
        "remapped_rows_corrected": count(corrected),
        "remapped_rows_uncorrected": count(uncorrected),
        "remapped_rows_pending": _flag(pending),
        "remapped_rows_failed": _flag(failed),
    }


def _retired(handle: Any, _: Seen) -> Mapping[str, Any]:
    causes = (
        pynvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
        pynvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
    )
    return {"retired_pages": sum(len(pynvml.nvmlDeviceGetRetiredPages(handle, cause)) for cause in causes)}


def _mig(handle: Any, _: Seen) -> Mapping[str, Any]:
    mode = _flag(pynvml.nvmlDeviceGetMigMode(handle)[0])
    instances: list[str] = []
    if mode:
        for index in range(min(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle), MIG_INSTANCES_MAX)):
            try:
                instance = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
                instances.append(text(pynvml.nvmlDeviceGetUUID(instance)) or f"mig-{index}")
            except pynvml.NVMLError as error:
                if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
                    raise
    return {"mig_mode": mode, "mig_instances": tuple(instances)}


def _processes(handle: Any, seen: Seen) -> Mapping[str, Any]:
    try:
        listed = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
    except pynvml.NVMLError as error:
        if error.value != pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        listed = pynvml.nvmlDeviceGetComputeRunningProcesses_v2(handle)
    used = {each.pid: _process_bytes(each.usedGpuMemory) for each in listed}
    shares = _process_shares(handle, seen) if used else {}
    largest = sorted(used, key=lambda pid: (-(used[pid] or 0), pid))[:GPU_PROCESSES_MAX]
    return {"processes": tuple(GpuProcess(pid, used[pid], shares.get(pid)) for pid in sorted(largest))}


def _process_bytes(value: int | None) -> int | None:
    return stepped(value, MIB)


def _process_shares(handle: Any, seen: Seen) -> dict[int, float | None]:
    """Each process's share of the SMs, from the newest of the driver's samples since the last round."""
    since = seen.memo.get("shares", 0)
    try:
        samples = pynvml.nvmlDeviceGetProcessUtilization(handle, since)
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
            raise
        return {}
    seen.memo["shares"] = max((sample.timeStamp for sample in samples), default=since)
    return {sample.pid: percent(sample.smUtil) for sample in sorted(samples, key=lambda each: each.timeStamp)}


def _flag(value: int) -> bool | None:
    return bool(value) if value in (0, 1) else None


# --- the table ------------------------------------------------------------------------------------------------------

ECC = "nvmlDeviceGetTotalEccErrors"
READINGS: tuple[Reading, ...] = (
    one("name", "nvmlDeviceGetName", Often.ONCE, text),
    one("pci_bus_id", "nvmlDeviceGetPciInfo", Often.ONCE, lambda info: text(info.busId)),
    Reading(
        ("driver_version", "cuda_version"),
        "nvmlSystemGetDriverVersion, nvmlSystemGetCudaDriverVersion_v2",
        Often.ONCE,
        _versions,
    ),
    one("vbios_version", "nvmlDeviceGetVbiosVersion", Often.ONCE, text),
    Reading(
        ("memory_total_bytes", "memory_used_bytes", "memory_free_bytes", "memory_reserved_bytes"),
        "nvmlDeviceGetMemoryInfo_v2, else nvmlDeviceGetMemoryInfo",
        Often.ROUND,
        _memory,
    ),
    one("persistence_mode", "nvmlDeviceGetPersistenceMode", Often.SLOW, _flag),
    Reading(
        ("mig_mode", "mig_instances"),
        "nvmlDeviceGetMigMode, nvmlDeviceGetMigDeviceHandleByIndex, nvmlDeviceGetUUID",
        Often.SLOW,
        _mig,
    ),
    Reading(
        ("utilization_ratio", "memory_utilization_ratio"), "nvmlDeviceGetUtilizationRates", Often.ROUND, _utilization
    ),
    one("encoder_utilization_ratio", "nvmlDeviceGetEncoderUtilization", Often.ROUND, lambda pair: percent(pair[0])),
    one("decoder_utilization_ratio", "nvmlDeviceGetDecoderUtilization", Often.ROUND, lambda pair: percent(pair[0])),
    one("sm_clock_mhz", "nvmlDeviceGetClockInfo", Often.ROUND, count, pynvml.NVML_CLOCK_SM),
    one("memory_clock_mhz", "nvmlDeviceGetClockInfo", Often.ROUND, count, pynvml.NVML_CLOCK_MEM),
    Reading(("temperature_c",), "nvmlDeviceGetTemperatureV, else nvmlDeviceGetTemperature", Often.ROUND, _temperature),
    Reading(
        ("memory_temperature_c",),
        "nvmlDeviceGetFieldValues (NVML_FI_DEV_MEMORY_TEMP)",
        Often.ROUND,
        _memory_temperature,
    ),
    one("power_draw_mw", "nvmlDeviceGetPowerUsage", Often.ROUND, lambda value: stepped(value, POWER_STEP_MW)),
    one("power_limit_mw", "nvmlDeviceGetEnforcedPowerLimit", Often.SLOW, lambda value: stepped(value, POWER_STEP_MW)),
    one("energy_mj", "nvmlDeviceGetTotalEnergyConsumption", Often.ROUND, lambda value: stepped(value, ENERGY_STEP_MJ)),
    one("fan_ratio", "nvmlDeviceGetFanSpeed", Often.ROUND, percent),
    one("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration", Often.ROUND, count),
    one("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", Often.ROUND, count),
    Reading(
        ("pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s"),
        "nvmlDeviceGetFieldValues (NVML_FI_DEV_PCIE_COUNT_RX_BYTES, ..._TX_BYTES), else nvmlDeviceGetPcieThroughput",
        Often.ROUND,
        _pcie_traffic,
    ),
    one("pcie_replays", "nvmlDeviceGetPcieReplayCounter", Often.ROUND, count),
    Reading(("nvlinks_active",), "nvmlDeviceGetNvLinkState", Often.SLOW, _links),
    Reading(
        ("throttle_reasons",),
        "nvmlDeviceGetCurrentClocksEventReasons, else nvmlDeviceGetCurrentClocksThrottleReasons",
        Often.ROUND,
        _throttling,
    ),
    *(
        one(f"ecc_{kind}_{span}", ECC, Often.ROUND, count, number_of_kind, number_of_span)
        for span, number_of_span in (("volatile", pynvml.NVML_VOLATILE_ECC), ("aggregate", pynvml.NVML_AGGREGATE_ECC))
        for kind, number_of_kind in (
            ("corrected", pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
            ("uncorrected", pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
        )
    ),
    Reading(
        (
            "remapped_rows_corrected",
            "remapped_rows_uncorrected",
            "remapped_rows_pending",
            "remapped_rows_failed",
        ),
        "nvmlDeviceGetRemappedRows",
        Often.ROUND,
        _remapped,
    ),
    Reading(("retired_pages",), "nvmlDeviceGetRetiredPages", Often.SLOW, _retired),
    Reading(
        ("processes",),
        "nvmlDeviceGetComputeRunningProcesses_v3, else ..._v2; nvmlDeviceGetProcessUtilization",
        Often.ROUND,
        _processes,
    ),
)
