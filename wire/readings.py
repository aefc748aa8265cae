"""What a node's sensors read: the host and its cards. What cannot be read is ``None``, never 0.

The same structs travel in a status (the node now) and in a `wire.events.Readings` event (its history).
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from wire.jobs import Count, Name
from wire.limits import FLOAT_MAX, GPU_PROCESSES_MAX, MIG_INSTANCES_MAX
from wire.text import Text

Ratio = Annotated[float, Meta(ge=0.0, le=1.0)]
Amount = Annotated[float, Meta(ge=0.0, le=FLOAT_MAX)]
Celsius = Annotated[int, Meta(ge=-273, le=1_000)]
"""Whole degrees: what the sensors mean, and one byte on the wire."""


class GpuState(StrEnum):
    """How a card is."""

    OK = "ok"
    DEGRADED = "degraded"
    """It works, with faults an operator should know: see ``detail``."""
    LOST = "lost"
    """It fell off the bus; only a reset or a reboot brings it back."""
    DRIVER_HUNG = "driver_hung"
    """The driver did not answer within the deadline; readings are null."""
    DRIVER_MISMATCH = "driver_mismatch"
    """Library and kernel module are of different versions: reboot after the upgrade."""
    ABSENT = "absent"
    """It was there and is not listed any more."""


class GpuProcess(
    Struct, frozen=True, omit_defaults=True, rename={"pid": "p", "memory_used_bytes": "mu", "sm_ratio": "sm"}
):
    """One process that computes on a card."""

    pid: Count
    memory_used_bytes: Count | None = None
    sm_ratio: Ratio | None = None


class GpuReading(
    Struct,
    frozen=True,
    omit_defaults=True,
    rename={
        "memory_total_bytes": "mt",
        "memory_used_bytes": "mu",
        "state": "st",
        "name": "nm",
        "detail": "txt",
        "index": "ix",
        "pci_bus_id": "pci",
        "driver_version": "drv",
        "cuda_version": "cuda",
        "vbios_version": "vb",
        "persistence_mode": "pm",
        "mig_mode": "mig",
        "mig_instances": "migi",
        "utilization_ratio": "u",
        "memory_utilization_ratio": "um",
        "encoder_utilization_ratio": "ue",
        "decoder_utilization_ratio": "ud",
        "memory_free_bytes": "mf",
        "memory_reserved_bytes": "mr",
        "sm_clock_mhz": "cs",
        "memory_clock_mhz": "cm",
        "temperature_c": "t",
        "memory_temperature_c": "tm",
        "power_draw_mw": "p",
        "power_limit_mw": "pl",
        "energy_mj": "e",
        "fan_ratio": "fan",
        "pcie_generation": "pg",
        "pcie_width": "pw",
        "pcie_rx_bytes_per_s": "rx",
        "pcie_tx_bytes_per_s": "tx",
        "pcie_replays": "pr",
        "nvlinks_active": "nvl",
        "throttle_reasons": "th",
        "ecc_corrected_volatile": "ecv",
        "ecc_uncorrected_volatile": "euv",
        "ecc_corrected_aggregate": "eca",
        "ecc_uncorrected_aggregate": "eua",
        "remapped_rows_corrected": "rrc",
        "remapped_rows_uncorrected": "rru",
        "remapped_rows_pending": "rrp",
        "remapped_rows_failed": "rrf",
        "retired_pages": "rp",
        "xid_count": "xn",
        "xid_last": "xl",
        "xid_last_time_ms": "xt",
        "processes": "ps",
        "age_s": "age",
    },
):
    """One card, keyed by its UUID (an index moves when a card is lost)."""

    uuid: Name
    name: Name | None = None
    memory_total_bytes: Count | None = None
    memory_used_bytes: Count | None = None
    state: GpuState = GpuState.OK
    detail: Text = ""
    """Why it is not ``ok``, in one sentence."""
    index: Count | None = None
    pci_bus_id: Name | None = None
    driver_version: Name | None = None
    cuda_version: Name | None = None
    """The newest CUDA the driver supports, ``13.0``."""
    vbios_version: Name | None = None
    persistence_mode: bool | None = None
    mig_mode: bool | None = None
    mig_instances: Annotated[tuple[Name, ...], Meta(max_length=MIG_INSTANCES_MAX)] = ()
    """UUIDs of the card's MIG devices."""
    utilization_ratio: Ratio | None = None
    memory_utilization_ratio: Ratio | None = None
    encoder_utilization_ratio: Ratio | None = None
    decoder_utilization_ratio: Ratio | None = None
    memory_free_bytes: Count | None = None
    memory_reserved_bytes: Count | None = None
    sm_clock_mhz: Count | None = None
    memory_clock_mhz: Count | None = None
    temperature_c: Celsius | None = None
    memory_temperature_c: Celsius | None = None
    power_draw_mw: Count | None = None
    power_limit_mw: Count | None = None
    energy_mj: Count | None = None
    """Since the driver was loaded."""
    fan_ratio: Ratio | None = None
    pcie_generation: Count | None = None
    pcie_width: Count | None = None
    pcie_rx_bytes_per_s: Count | None = None
    pcie_tx_bytes_per_s: Count | None = None
    pcie_replays: Count | None = None
    nvlinks_active: Count | None = None
    throttle_reasons: Count | None = None
    """Bits of nvmlClocksEventReasons: 1 idle, 2 application clocks, 4 software power cap, 8 hardware slowdown,
    0x10 sync boost, 0x20 software thermal, 0x40 hardware thermal, 0x80 power brake, 0x100 display."""
    ecc_corrected_volatile: Count | None = None
    ecc_uncorrected_volatile: Count | None = None
    ecc_corrected_aggregate: Count | None = None
    ecc_uncorrected_aggregate: Count | None = None
    remapped_rows_corrected: Count | None = None
    remapped_rows_uncorrected: Count | None = None
    remapped_rows_pending: bool | None = None
    remapped_rows_failed: bool | None = None
    retired_pages: Count | None = None
    xid_count: Count | None = None
    """Since this agent began to watch; a repeated XID counts again."""
    xid_last: Count | None = None
    xid_last_time_ms: Count | None = None
    processes: Annotated[tuple[GpuProcess, ...], Meta(max_length=GPU_PROCESSES_MAX)] | None = None
    """Those that compute on it; None where they cannot be listed."""
    age_s: Amount | None = None
    """How old these readings are, where they are not of this round: shown, never a stale value as a fresh one."""


class HostReading(
    Struct,
    frozen=True,
    omit_defaults=True,
    rename={
        "cpu_count": "cpus",
        "cpu_used_ratio": "cpu",
        "load_1min": "ld",
        "memory_total_bytes": "mt",
        "memory_used_bytes": "mu",
        "disk_total_bytes": "dt",
        "disk_free_bytes": "df",
        "uptime_s": "up",
        "cpu_limit_cores": "cl",
        "memory_limit_bytes": "ml",
        "memory_limit_used_bytes": "mlu",
        "swap_total_bytes": "swt",
        "swap_used_bytes": "swu",
        "root_disk_total_bytes": "rdt",
        "root_disk_free_bytes": "rdf",
        "disk_inodes_free": "dif",
        "network_rx_bytes": "rx",
        "network_tx_bytes": "tx",
        "network_errors": "ne",
        "temperature_c": "t",
        "boot_id": "bid",
        "container": "ct",
        "kernel": "kn",
        "open_files_used": "ofu",
        "open_files_limit": "ofl",
    },
):
    """The machine under the agent."""

    cpu_count: Count | None = None
    cpu_used_ratio: Ratio | None = None
    load_1min: Amount | None = None
    memory_total_bytes: Count | None = None
    memory_used_bytes: Count | None = None
    disk_total_bytes: Count | None = None
    """Of the file system that holds the data directory."""
    disk_free_bytes: Count | None = None
    uptime_s: Count | None = None
    cpu_limit_cores: Amount | None = None
    """What the cgroup (v1 or v2) allows; None for no limit."""
    memory_limit_bytes: Count | None = None
    """The tightest limit of the cgroup and those above it; None for no limit."""
    memory_limit_used_bytes: Count | None = None
    """What counts against ``memory_limit_bytes``, without what can be dropped at once (inactive file cache)."""
    swap_total_bytes: Count | None = None
    swap_used_bytes: Count | None = None
    root_disk_total_bytes: Count | None = None
    root_disk_free_bytes: Count | None = None
    disk_inodes_free: Count | None = None
    """Of the data directory's file system."""
    network_rx_bytes: Count | None = None
    """All interfaces but loopback, since boot."""
    network_tx_bytes: Count | None = None
    network_errors: Count | None = None
    temperature_c: Celsius | None = None
    """The hottest sensor of processor or board."""
    boot_id: Name | None = None
    container: Name | None = None
    """``docker``, ``podman``, ``lxc``, ``systemd-nspawn``, ``kubernetes`` or ``container``; ``none`` outside of one."""
    kernel: Name | None = None
    open_files_used: Count | None = None
    """Of the agent's own process."""
    open_files_limit: Count | None = None
