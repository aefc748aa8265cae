"""Bodies about nodes: their status, sessions and events; `hub.api.readings` has what their sensors and engines say."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from hub.api.fallback import FallbackView
from hub.api.models import UnixMs
from hub.api.readings import EngineView, GpuView, HostView
from hub.api.sentences import LightsView, SentenceView
from wire.jobs import Uuid


class WorkerView(Struct, frozen=True):
    """One worker process."""

    device: str
    state: str
    pid: int | None
    detail: str
    on_host: Annotated[
        str, Meta(description="of a card's worker that proves on the CPU instead of its card: why; else empty")
    ]


class ProgressView(Struct, frozen=True):
    """How far a job is on the node."""

    job: Uuid
    attempt: int
    phase: str
    done: int
    total: int
    elapsed_s: float


class OutboxView(Struct, frozen=True):
    """What the node still holds unacknowledged."""

    events_held: int
    bytes_held: int
    dropped: int


class StatusView(Struct, frozen=True):
    """What the node last said of itself; null where it said nothing."""

    hostname: str | None
    host: HostView | None
    gpus: list[GpuView]
    workers: list[WorkerView]
    jobs: list[ProgressView]
    outbox: OutboxView | None
    draining: bool
    engines: list[EngineView]


class ReasonView(Struct, frozen=True):
    """Why the last session ended or was refused."""

    code: int
    name: str
    detail: str
    at_ms: UnixMs | None


class SessionView(Struct, frozen=True, kw_only=True):
    """One session of a node, or one that was refused: then it closed when it opened."""

    id: Uuid
    opened_at_ms: UnixMs
    closed_at_ms: Annotated[UnixMs | None, Meta(description="null while it is open")]
    remote: Annotated[str, Meta(description="address its socket came from")]
    boot_id: str
    epoch: str
    reason: Annotated[ReasonView | None, Meta(description="why it ended or was refused")]


class Sessions(Struct, frozen=True):
    """One page of a node's sessions, newest first."""

    sessions: list[SessionView]
    next: str | None


class NodeView(Struct, frozen=True, kw_only=True):
    """A node."""

    id: Uuid
    name: str
    state: Annotated[str, Meta(description="never, online, stale, lost, reconnecting")]
    last_frame_age_s: Annotated[float | None, Meta(description="seconds since the hub heard it; null for never")]
    last_heard_at_ms: UnixMs | None
    status: StatusView | None
    session: Annotated[Uuid | None, Meta(description="id of the open session")]
    session_opened_at_ms: UnixMs | None
    remote: Annotated[str, Meta(description="address its socket came from")]
    clock_skew_ms: Annotated[int | None, Meta(description="the node's wall clock minus the hub's")]
    last_reason: ReasonView | None
    capabilities: list[str]
    version: str
    boot_id: str
    epoch: str
    labels: dict[str, str]
    enrolled_at_ms: UnixMs
    fallback: FallbackView
    sentence: SentenceView
    lights: LightsView


class NodeEventView(Struct, frozen=True, kw_only=True):
    """Something that happened at a node, or that the hub saw about it."""

    source: Annotated[str, Meta(description="node or hub")]
    kind: Annotated[str, Meta(description="job.started, job.succeeded, job.failed, job.stopped, log, gap, or its own")]
    level: str
    detail: str
    time_ms: Annotated[int, Meta(description="by the clock of its source")]
    received_at_ms: UnixMs
    body: Annotated[dict[str, Any], Meta(description="what the kind carries")]
    epoch: str | None
    stream: str | None
    seq: int | None


class Nodes(Struct, frozen=True):
    """One page of nodes; ``next`` is the next page's ``after``, null on the last."""

    nodes: list[NodeView]
    next: str | None


class NodeEvents(Struct, frozen=True):
    """One page of a node's events, newest first."""

    events: list[NodeEventView]
    next: str | None
