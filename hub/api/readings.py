"""Bodies for what a node's sensors and engines say: the wire's readings in long names, with units, unknown as null.

`hub.api.models` has the node around them. A node's picture goes to every viewer whenever it changes; so texts are
shortened, and the longest lists stand only where one node is asked for.
"""

from typing import Annotated, Any, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from wire.engines import EngineJob, EngineReading
from wire.readings import GpuReading, HostReading
from wire.text import clipped

DETAIL_CHARS_MAX = 512
"""Shown of why something is not as it should be; the node's events have all of it."""
THROTTLE_REASONS = {
    0x1: "idle",
    0x2: "application_clocks",
    0x4: "software_power_cap",
    0x8: "hardware_slowdown",
    0x10: "sync_boost",
    0x20: "software_thermal",
    0x40: "hardware_thermal",
    0x80: "power_brake",
    0x100: "display_clocks",
}
"""Names of NVML's bits for why a card's clocks are below their maximum."""
NodeMs = Annotated[int, Meta(description="Unix time in milliseconds, by the node's clock")]
View = TypeVar("View", bound=Struct)


class HostView(Struct, frozen=True, kw_only=True):
    """The machine under the agent."""

    cpu_count: int | None
    cpu_used_ratio: float | None
    load_1min: float | None
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    disk_total_bytes: Annotated[int | None, Meta(description="of the data directory's file system")]
    disk_free_bytes: int | None
    uptime_s: int | None
    cpu_limit_cores: Annotated[float | None, Meta(description="what the cgroup allows; null for no limit")]
    memory_limit_bytes: Annotated[int | None, Meta(description="of the cgroup; null for no limit")]
    memory_limit_used_bytes: int | None
    swap_total_bytes: int | None
    swap_used_bytes: int | None
    root_disk_total_bytes: int | None
    root_disk_free_bytes: int | None
    disk_inodes_free: int | None
    network_rx_bytes: Annotated[int | None, Meta(description="since boot")]
    network_tx_bytes: Annotated[int | None, Meta(description="since boot")]
    network_errors: Annotated[int | None, Meta(description="since boot")]
    temperature_c: float | None
    boot_id: str | None
    container: Annotated[str | None, Meta(description="none outside of one")]
    kernel: str | None
    open_files_used: Annotated[int | None, Meta(description="of the agent")]
    open_files_limit: int | None


class GpuProcessView(Struct, frozen=True, kw_only=True):
    """A process that computes on a card."""

    pid: int
    memory_used_bytes: int | None
    sm_ratio: float | None


class GpuView(Struct, frozen=True, kw_only=True):
    """One card."""

    uuid: str
    name: str | None
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    state: Annotated[str, Meta(description="ok, degraded, lost, driver_hung, driver_mismatch, absent")]
    detail: Annotated[str, Meta(description="why it is not ok")]
    index: int | None
    pci_bus_id: str | None
    driver_version: str | None
    cuda_version: str | None
    vbios_version: str | None
    persistence_mode: bool | None
    mig_mode: bool | None
    mig_instances: list[str]
    utilization_ratio: float | None
    memory_utilization_ratio: float | None
    encoder_utilization_ratio: float | None
    decoder_utilization_ratio: float | None
    memory_free_bytes: int | None
    memory_reserved_bytes: int | None
    sm_clock_mhz: int | None
    memory_clock_mhz: int | None
    temperature_c: float | None
    memory_temperature_c: float | None
    power_draw_mw: int | None
    power_limit_mw: int | None
    energy_mj: Annotated[int | None, Meta(description="since the driver was loaded")]
    fan_ratio: float | None
    pcie_generation: int | None
    pcie_width: int | None
    pcie_rx_bytes_per_s: int | None
    pcie_tx_bytes_per_s: int | None
    pcie_replays: int | None
    nvlinks_active: int | None
    throttle_reasons: Annotated[
        list[str] | None,
        Meta(description=f"why its clocks are not at their maximum: {', '.join(THROTTLE_REASONS.values())}"),
    ]
    throttle_reason_bits: Annotated[int | None, Meta(description="the same as NVML's bits")]
    ecc_corrected_volatile: Annotated[int | None, Meta(description="since the driver was loaded")]
    ecc_uncorrected_volatile: int | None
    ecc_corrected_aggregate: Annotated[int | None, Meta(description="in the card's life")]
    ecc_uncorrected_aggregate: int | None
    remapped_rows_corrected: int | None
    remapped_rows_uncorrected: int | None
    remapped_rows_pending: bool | None
    remapped_rows_failed: bool | None
    retired_pages: int | None
    xid_count: Annotated[int | None, Meta(description="since the agent began to watch")]
    xid_last: int | None
    xid_last_time_ms: NodeMs | None
    processes: Annotated[list[GpuProcessView] | None, Meta(description="null where they cannot be listed")]
    age_s: Annotated[float | None, Meta(description="how old these readings are, where they are not of now")]


class EnginePartitionView(Struct, frozen=True, kw_only=True):
    """One partition of an engine's job."""

    index: int
    state: Annotated[str, Meta(description="pending, synthesizing, synthesized, gpu, done, failed, unknown")]
    synthesis_ms: int | None
    gpu_ms: int | None


class EngineJobView(Struct, frozen=True, kw_only=True):
    """One job of an engine. ``partitions`` stands only where one node is asked for."""

    id: str
    kind: str
    state: Annotated[str, Meta(description="running, done, failed")]
    started_at_ms: NodeMs | None
    partitions_total: int
    partitions_done: int
    detail: str
    partitions: list[EnginePartitionView] | UnsetType = UNSET


class EngineWorkerView(Struct, frozen=True, kw_only=True):
    """One worker of an engine."""

    id: int
    gpu_ordinal: int
    proving: bool
    job: str | None
    partition: int | None
    since_ms: NodeMs | None


class EngineKeyView(Struct, frozen=True, kw_only=True):
    """A key an engine keeps in memory."""

    id: str
    kind: Annotated[str, Meta(description="srs or pce")]
    bytes: int
    evictable: bool
    last_used_at_ms: NodeMs | None


class EngineView(Struct, frozen=True, kw_only=True):
    """An engine beside our own workers. ``keys`` stands only where one node is asked for."""

    engine: str
    state: Annotated[str, Meta(description="ok, down, status_disabled, wrong_service, bad_answer, silent")]
    detail: Annotated[str, Meta(description="why it is not ok, and what to do")]
    source: Annotated[str, Meta(description="http or grpc; empty before the first good answer")]
    answered_at_ms: Annotated[
        int | None, Meta(description="when the rest was true, by the node's clock; null for never")
    ]
    started_at_ms: NodeMs | None
    memory_total_bytes: Annotated[int | None, Meta(description="the engine's own budget of host memory")]
    memory_used_bytes: int | None
    synthesis_active: int | None
    synthesis_max: int | None
    queued: Annotated[int | None, Meta(description="pending partitions of all jobs")]
    completed: int | None
    failed: int | None
    completed_by_kind: dict[str, int]
    failed_by_kind: dict[str, int]
    jobs: list[EngineJobView]
    jobs_left_out: int
    workers: list[EngineWorkerView]
    in_flight: dict[str, int]
    limits: Annotated[list[str], Meta(description="what this source cannot tell")]
    keys: list[EngineKeyView] | UnsetType = UNSET


def like(view: type[View], reading: Struct, **instead: Any) -> View:
    """The same fields in the view's own type, some of them given instead; a new field shows once the view has it."""
    same = {name: getattr(reading, name) for name in view.__struct_fields__ if name not in instead}
    return view(**same, **instead)


def host_view(host: HostReading) -> HostView:
    """The machine."""
    return like(HostView, host)


def gpu_view(gpu: GpuReading) -> GpuView:
    """A card."""
    bits = gpu.throttle_reasons
    return like(
        GpuView,
        gpu,
        detail=clipped(gpu.detail, DETAIL_CHARS_MAX),
        mig_instances=list(gpu.mig_instances),
        throttle_reasons=None if bits is None else [name for bit, name in THROTTLE_REASONS.items() if bits & bit],
        throttle_reason_bits=bits,
        processes=None if gpu.processes is None else [like(GpuProcessView, item) for item in gpu.processes],
    )


def engine_view(engine: EngineReading, *, whole: bool) -> EngineView:
    """An engine."""
    return like(
        EngineView,
        engine,
        detail=clipped(engine.detail, DETAIL_CHARS_MAX),
        jobs=[_job_view(job, whole=whole) for job in engine.jobs],
        workers=[like(EngineWorkerView, worker) for worker in engine.workers],
        limits=list(engine.limits),
        keys=[like(EngineKeyView, key, bytes=key.bytes_) for key in engine.keys] if whole else UNSET,
    )


def _job_view(job: EngineJob, *, whole: bool) -> EngineJobView:
    partitions = [like(EnginePartitionView, item) for item in job.partitions] if whole else UNSET
    return like(EngineJobView, job, detail=clipped(job.detail, DETAIL_CHARS_MAX), partitions=partitions)
