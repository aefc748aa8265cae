"""What other proving engines on a node say of themselves, after the agent has mended what they are known to say wrong.

Times are given as beginnings (``_at_ms``, Unix milliseconds of the node's clock) and not as ages, so that a picture in
which nothing happened stays the same picture and costs no bytes.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from wire.jobs import Count, Name
from wire.limits import (
    ENGINE_JOBS_MAX,
    ENGINE_KEYS_MAX,
    ENGINE_KINDS_MAX,
    ENGINE_PARTITIONS_MAX,
    ENGINE_WORKERS_MAX,
    NAME_CHARS_MAX,
)
from wire.text import Text

Short = Annotated[str, Meta(max_length=NAME_CHARS_MAX)]


class EngineState(StrEnum):
    """Whether an engine's status can be read."""

    OK = "ok"
    DOWN = "down"
    """Nobody listens: the daemon does not run."""
    STATUS_DISABLED = "status_disabled"
    """The daemon runs (its gRPC answers) and its HTTP status is off; gRPC says less."""
    WRONG_SERVICE = "wrong_service"
    """Something else answers on its port."""
    BAD_ANSWER = "bad_answer"
    """It answered with what is no status: bad JSON, a missing field, too much, an error of its own."""
    SILENT = "silent"
    """It takes the connection and does not answer within the deadline."""


class PartitionState(StrEnum):
    """Where one partition of an engine's job is."""

    PENDING = "pending"
    SYNTHESIZING = "synthesizing"
    SYNTHESIZED = "synthesized"
    GPU = "gpu"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """The engine said something this version does not know."""


class EngineJobState(StrEnum):
    """Where an engine's job is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    """It failed, or does not move any more although the engine still lists it."""


class EnginePartition(
    Struct,
    frozen=True,
    omit_defaults=True,
    rename={"index": "i", "state": "st", "synthesis_ms": "sy", "gpu_ms": "g"},
):
    """One partition."""

    index: Count
    state: PartitionState
    synthesis_ms: Count | None = None
    """Once that part is over; None while it runs."""
    gpu_ms: Count | None = None


class EngineJob(
    Struct,
    frozen=True,
    omit_defaults=True,
    rename={
        "kind": "kd",
        "state": "st",
        "started_at_ms": "sa",
        "partitions_total": "n",
        "partitions_done": "d",
        "partitions": "p",
        "detail": "txt",
    },
):
    """One job of an engine."""

    id: Name
    kind: Name
    state: EngineJobState = EngineJobState.RUNNING
    started_at_ms: Count | None = None
    partitions_total: Count = 0
    partitions_done: Count = 0
    partitions: Annotated[tuple[EnginePartition, ...], Meta(max_length=ENGINE_PARTITIONS_MAX)] = ()
    detail: Text = ""


class EngineWorker(
    Struct,
    frozen=True,
    omit_defaults=True,
    rename={"gpu_ordinal": "g", "proving": "pr", "job": "j", "partition": "p", "since_ms": "sa"},
):
    """One worker of an engine; several may share a card."""

    id: Count
    gpu_ordinal: Count
    proving: bool = False
    job: Name | None = None
    partition: Count | None = None
    since_ms: Count | None = None


class EngineKey(
    Struct,
    frozen=True,
    omit_defaults=True,
    rename={"kind": "kd", "bytes_": "b", "evictable": "ev", "last_used_at_ms": "lu"},
):
    """A key the engine keeps in memory."""

    id: Name
    kind: Name
    """``srs`` or ``pce``."""
    bytes_: Count
    evictable: bool = False
    last_used_at_ms: Count | None = None


class EngineReading(
    Struct,
    frozen=True,
    omit_defaults=True,
    rename={
        "engine": "en",
        "state": "st",
        "detail": "txt",
        "source": "src",
        "answered_at_ms": "aa",
        "started_at_ms": "sa",
        "memory_total_bytes": "mt",
        "memory_used_bytes": "mu",
        "synthesis_active": "sy",
        "synthesis_max": "sm",
        "queued": "q",
        "completed": "c",
        "failed": "f",
        "completed_by_kind": "ck",
        "failed_by_kind": "fk",
        "jobs": "j",
        "jobs_left_out": "jl",
        "workers": "w",
        "keys": "k",
        "in_flight": "fl",
        "limits": "lm",
    },
):
    """One engine beside our own workers."""

    engine: Name
    """``cuzk``."""
    state: EngineState
    detail: Text = ""
    """Why it is not ``ok`` and what to do, in one or two sentences; what the engine itself said included."""
    source: Short = ""
    """``http`` or ``grpc``: where the rest comes from. Empty before the first good answer."""
    answered_at_ms: Count | None = None
    """When the rest was true: the last good answer, kept while the engine cannot be read. None for never."""
    started_at_ms: Count | None = None
    memory_total_bytes: Count | None = None
    """The engine's own budget of host memory, neither resident size nor the card's."""
    memory_used_bytes: Count | None = None
    synthesis_active: Count | None = None
    synthesis_max: Count | None = None
    queued: Count | None = None
    """Pending partitions of all jobs, which is the real queue."""
    completed: Count | None = None
    failed: Count | None = None
    """Failures the engine counts, and those it forgets to count."""
    completed_by_kind: Annotated[dict[Name, Count], Meta(max_length=ENGINE_KINDS_MAX)] = {}
    failed_by_kind: Annotated[dict[Name, Count], Meta(max_length=ENGINE_KINDS_MAX)] = {}
    jobs: Annotated[tuple[EngineJob, ...], Meta(max_length=ENGINE_JOBS_MAX)] = ()
    jobs_left_out: Count = 0
    """Jobs beyond what a frame may carry."""
    workers: Annotated[tuple[EngineWorker, ...], Meta(max_length=ENGINE_WORKERS_MAX)] = ()
    keys: Annotated[tuple[EngineKey, ...], Meta(max_length=ENGINE_KEYS_MAX)] = ()
    in_flight: Annotated[dict[Name, Count], Meta(max_length=ENGINE_KINDS_MAX)] = {}
    """Buffers in flight by name; a counter that is known to be wrong is left out."""
    limits: Annotated[tuple[Name, ...], Meta(max_length=ENGINE_KINDS_MAX)] = ()
    """What this source cannot tell, as short names: ``post_jobs`` for jobs the HTTP status never lists."""
