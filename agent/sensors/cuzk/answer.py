"""The daemon's HTTP status as it is defined: types, bounds, nothing mended yet.

Fields nothing is made of are left out, so that a newer daemon may drop or change them.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from agent.sensors.cuzk.trouble import Unreadable
from wire.engines import EngineState

PIPELINES_MAX = 4096
"""Failed jobs stay in the list for ever, so that it grows with the daemon's age."""
PARTITIONS_MAX = 256
WORKERS_MAX = 256
ALLOCATIONS_MAX = 256
KINDS_MAX = 64


class Memory(Struct, frozen=True):
    """The budget of host memory."""

    total_bytes: int
    used_bytes: int


class Partition(Struct, frozen=True):
    """One partition of a pipeline; times run while it is open."""

    index: int
    state: str
    synth_ms: int | None = None
    gpu_ms: int | None = None


class Pipeline(Struct, frozen=True):
    """One job."""

    job_id: str
    proof_kind: str
    started_secs_ago: float
    total_partitions: int
    partitions_done: int
    partitions: Annotated[list[Partition], Meta(max_length=PARTITIONS_MAX)]


class GpuWorker(Struct, frozen=True):
    """One worker thread; two a card is the rule."""

    worker_id: int
    gpu_ordinal: int
    state: str
    current_job: str | None = None
    current_partition: int | None = None
    busy_secs: float | None = None


class Allocation(Struct, frozen=True):
    """One key in memory."""

    circuit_id: str
    bytes_: int = msgspec.field(name="bytes")
    last_used_secs_ago: float
    evictable: bool


class Allocations(Struct, frozen=True):
    """All keys in memory."""

    srs: Annotated[list[Allocation], Meta(max_length=ALLOCATIONS_MAX)]
    pce: Annotated[list[Allocation], Meta(max_length=ALLOCATIONS_MAX)]


class Counters(Struct, frozen=True):
    """Since the daemon's start."""

    total_completed: int
    total_failed: int
    completed_by_kind: Annotated[dict[str, int], Meta(max_length=KINDS_MAX)]
    failed_by_kind: Annotated[dict[str, int], Meta(max_length=KINDS_MAX)]


class Answer(Struct, frozen=True):
    """One status."""

    uptime_secs: float
    memory: Memory
    pipelines: Annotated[list[Pipeline], Meta(max_length=PIPELINES_MAX)]
    gpu_workers: Annotated[list[GpuWorker], Meta(max_length=WORKERS_MAX)]
    allocations: Allocations
    counters: Counters
    buffers: Annotated[dict[str, int], Meta(max_length=KINDS_MAX)]


def parse(raw: bytes) -> Answer:
    """The status in ``raw``.

    Raises:
        Unreadable: it is no JSON, or JSON of another shape; the sentence names the field.
    """
    try:
        return msgspec.json.decode(raw, type=Answer)
    except msgspec.ValidationError as problem:
        raise _bad(f"answered with JSON that is no status of a cuzk-daemon this agent knows: {problem}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as problem:
        raise _bad(f"answered with what is no valid JSON: {str(problem) or type(problem).__name__}") from None


def _bad(what: str) -> Unreadable:
    remedy = "if this lasts, compare the daemon's version with the agent's, and see what listens there"
    return Unreadable(EngineState.BAD_ANSWER, f"the status port {what}; {remedy}")
