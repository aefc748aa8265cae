"""Records and the registry's nodes as REST bodies: the one place where the two meet."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec
from aiohttp import web
from msgspec import UNSET

from hub import ports
from hub.api import models, node_models, readings
from hub.api.ailments import told_of
from hub.api.fallback import fallback_view
from hub.registry import Node
from hub.store.records import (
    Attempt,
    AttemptState,
    Circuit,
    EnrollToken,
    HubEvent,
    Job,
    JobPicture,
    SessionRow,
    StoredEvent,
)
from wire import codec
from wire.errors import WireError
from wire.frames import (
    Event,
    Gap,
    JobFailed,
    JobStarted,
    JobStopped,
    JobSucceeded,
    LogRecord,
    NodeEvent,
    UnknownBody,
)
from wire.jobs import JobState
from wire.reasons import Reason
from wire.status import JobProgress, NodeStatus, WorkerReading
from wire.text import clipped

NAMES_MAX = 10_000
"""Circuit and node names kept in memory; they never change."""
RUNNING = frozenset({JobState.LEASED, JobState.RUNNING})
GOES_ON = frozenset({AttemptState.ASSIGNED, AttemptState.ACCEPTED, AttemptState.RUNNING, AttemptState.RESULT})
CAME_TO_NOTHING = frozenset(
    {AttemptState.FAILED, AttemptState.REFUSED, AttemptState.DECLINED, AttemptState.EXPIRED, AttemptState.LOST}
)
KINDS: dict[type, str] = {
    JobStarted: "job.started",
    JobSucceeded: "job.succeeded",
    JobFailed: "job.failed",
    JobStopped: "job.stopped",
    LogRecord: "log",
    Gap: "gap",
}
"""Long names of the wire's short tags; a `NodeEvent` brings its own."""


class Names:
    """Names of circuits and nodes by id, read from the store once each."""

    def __init__(self, app: web.Application) -> None:
        self._app = app
        self._circuits: dict[str, str] = {}
        self._nodes: dict[str, str] = {}

    async def circuit(self, circuit_id: str) -> str:
        """A circuit's name."""
        if circuit_id not in self._circuits:
            circuit = await self._app[ports.STORE].circuit(circuit_id)
            _keep(self._circuits, circuit_id, circuit.name if circuit is not None else circuit_id)
        return self._circuits[circuit_id]

    async def node(self, agent_id: str) -> str:
        """A node's name: as it says now, else as the store has it (revoked nodes too)."""
        if (node := self._app[ports.REGISTRY].node(agent_id)) is not None:
            return node.name
        if agent_id not in self._nodes:
            agent = await self._app[ports.STORE].agent(agent_id)
            _keep(self._nodes, agent_id, agent.name if agent is not None else agent_id)
        return self._nodes[agent_id]


def _keep(names: dict[str, str], key: str, name: str) -> None:
    if len(names) >= NAMES_MAX:
        names.clear()
    names[key] = name


NAMES = web.AppKey("NAMES", Names)


# --- nodes --------------------------------------------------------------------------------------------------------


def node_view(app: web.Application, node: Node, *, whole: bool = False) -> node_models.NodeView:
    """A node as it is now; ``whole`` with the longest lists."""
    age_s = app[ports.REGISTRY].frame_age_s(node)
    sentence, lights = told_of(app, node)
    return node_models.NodeView(
        id=node.id,
        name=node.name,
        state=node.state.value,
        last_frame_age_s=None if age_s is None else round(age_s, 3),
        last_heard_at_ms=node.last_heard_at_ms,
        status=None if node.status_at_ms is None else status_view(node.status, whole=whole),
        session=node.session,
        session_opened_at_ms=node.session_opened_at_ms,
        remote=node.remote,
        clock_skew_ms=node.clock_skew_ms,
        last_reason=None
        if node.last_reason_code is None
        else node_models.ReasonView(
            code=node.last_reason_code,
            name=reason_name(node.last_reason_code),
            detail=node.last_reason_detail,
            at_ms=node.last_reason_at_ms,
        ),
        capabilities=[str(item) for item in node.capabilities],
        version=node.version,
        boot_id=node.boot_id,
        epoch=node.epoch,
        labels=node.labels,
        enrolled_at_ms=node.created_at_ms,
        fallback=fallback_view(app, node),
        sentence=sentence,
        lights=lights,
    )


def session_view(row: SessionRow) -> node_models.SessionView:
    """A session as it was written down."""
    code, at_ms = row.reason_code, row.closed_at_ms
    return node_models.SessionView(
        id=row.id,
        opened_at_ms=row.opened_at_ms,
        closed_at_ms=at_ms,
        remote=row.remote,
        boot_id=row.boot_id,
        epoch=row.epoch,
        reason=None if code is None else node_models.ReasonView(code, reason_name(code), row.reason_detail, at_ms),
    )


def reason_name(code: int) -> str:
    """A reason's name; a newer side may use numbers we do not know."""
    with suppress(ValueError):
        return Reason(code).name
    return f"REASON_{code}"


def status_view(status: NodeStatus, *, whole: bool) -> node_models.StatusView:
    """What a node said of itself."""
    return node_models.StatusView(
        hostname=None if status.hostname is UNSET else status.hostname,
        host=None if status.host is UNSET else readings.host_view(status.host),
        gpus=[readings.gpu_view(item) for item in _list(status.gpus)],
        workers=[_worker_view(item) for item in _list(status.workers)],
        jobs=[readings.like(node_models.ProgressView, item) for item in _list(status.jobs)],
        outbox=None if status.outbox is UNSET else readings.like(node_models.OutboxView, status.outbox),
        draining=status.draining is True,
        engines=[readings.engine_view(item, whole=whole) for item in _list(status.engines)],
    )


def _worker_view(worker: WorkerReading) -> node_models.WorkerView:
    """A worker with one sentence, not a page: a node's picture goes to every viewer whenever it changes."""
    detail, on_host = (clipped(text, readings.DETAIL_CHARS_MAX) for text in (worker.detail, worker.on_host))
    return readings.like(node_models.WorkerView, worker, detail=detail, on_host=on_host)


def _list(items: Any) -> Iterable[Any]:
    return () if items is UNSET else items


def event_view(event: StoredEvent) -> node_models.NodeEventView:
    """A stored event with its body in long names."""
    kind, level, detail, body = event.kind, "info", "", dict[str, Any]()
    with suppress(WireError):
        kind, level, detail, body = _told(codec.decode_event(event.packed))
    return node_models.NodeEventView(
        source="node",
        kind=kind,
        level=level,
        detail=detail,
        time_ms=event.time_ms,
        received_at_ms=event.received_at_ms,
        body=body,
        epoch=event.epoch,
        stream=event.stream,
        seq=event.seq,
    )


def _told(event: Event) -> tuple[str, str, str, dict[str, Any]]:
    """Kind, level, sentence and the rest of an event."""
    body = event.body
    kind = KINDS.get(type(body), "")
    told: tuple[str, str, str, dict[str, Any]] = (kind, "info", "", {})
    match body:
        case NodeEvent():
            told = (body.kind, body.level.value, body.detail, dict(body.fields))
        case LogRecord():
            told = (kind, body.level.value, body.text, {"source": body.source, **body.fields})
        case Gap():
            told = (kind, "warning", body.reason, {"first": body.first, "last": body.last, "count": body.count})
        case JobStarted() | JobStopped():
            told = (kind, "info", "", msgspec.structs.asdict(body))
        case JobFailed():
            told = (kind, "error", body.detail, {"job": body.job, "attempt": body.attempt, "code": body.code})
        case JobSucceeded():
            outputs = [{"role": item.role, "sha256": item.sha256, "bytes": item.bytes_} for item in body.outputs]
            rest = {"job": body.job, "attempt": body.attempt, "outputs": outputs, "timings_ms": body.timings_ms}
            told = (kind, "info", "", rest)
        case UnknownBody():
            told = (body.kind, "info", "an event of a newer version, kept as it came", {})
    return told


def hub_event_view(event: HubEvent) -> node_models.NodeEventView:
    """Something the hub itself saw."""
    return node_models.NodeEventView(
        source="hub",
        kind=event.kind,
        level=event.level,
        detail=event.detail,
        time_ms=event.time_ms,
        received_at_ms=event.time_ms,
        body={},
        epoch=None,
        stream=None,
        seq=None,
    )


# --- jobs, circuits, tokens ---------------------------------------------------------------------------------------


async def job_view(app: web.Application, picture: JobPicture, *, whole: bool = False) -> models.JobView:
    """A job as it is now; ``whole`` with its attempts."""
    job = picture.job
    holder = picture.live or _prover(picture)
    agent_id = None if holder is None else holder.agent_id
    progress: JobProgress | None = None
    if job.state in RUNNING:
        progress = app[ports.REGISTRY].progress(agent_id, job.id, job.attempt)
    return models.JobView(
        id=job.id,
        circuit=await app[NAMES].circuit(job.circuit_id),
        circuit_id=job.circuit_id,
        state=job.state.value,
        priority=job.priority,
        label=job.label,
        node_labels=job.node_labels,
        attempt=job.attempt,
        node=agent_id,
        node_name=None if agent_id is None else await app[NAMES].node(agent_id),
        phase=None if progress is None else progress.phase,
        done=0 if progress is None else progress.done,
        total=0 if progress is None else progress.total,
        elapsed_s=_elapsed_s(job, app[ports.CLOCK].time_ms()),
        error=_error(job),
        last_failure=await _last_failure(app, picture),
        created_at_ms=job.created_at_ms,
        started_at_ms=job.started_at_ms,
        ended_at_ms=job.ended_at_ms,
        timings_ms=job.timings_ms,
        attempts=[await _attempt_view(app, item) for item in picture.attempts] if whole else UNSET,
        waits_for=app[ports.JOBS].why_waits(job) if whole else UNSET,
    )


def _prover(picture: JobPicture) -> Attempt | None:
    """Of an ended job the attempt that won, else the last; of a waiting one nobody."""
    if picture.job.state in {JobState.QUEUED, JobState.CANCELLED} or not picture.attempts:
        return None
    won = next((item for item in picture.attempts if item.state in {AttemptState.DONE, AttemptState.RESULT}), None)
    return won or picture.attempts[-1]


def _elapsed_s(job: Job, now_ms: int) -> float | None:
    if job.started_at_ms is None:
        return None
    return max(0, (job.ended_at_ms or now_ms) - job.started_at_ms) / 1000


def _error(job: Job) -> models.ErrorView | None:
    if job.state is not JobState.FAILED and job.error_code is None and not job.error_detail:
        return None
    return models.ErrorView(job.error_code, job.error_detail)


async def _last_failure(app: web.Application, picture: JobPicture) -> models.FailureView | None:
    attempt = next((item for item in reversed(picture.attempts) if item.state in CAME_TO_NOTHING), None)
    if attempt is None:
        return None
    return models.FailureView(
        attempt=attempt.attempt,
        node=attempt.agent_id,
        node_name=await app[NAMES].node(attempt.agent_id),
        outcome=attempt.state.value,
        code=attempt.code,
        detail=attempt.detail,
    )


async def _attempt_view(app: web.Application, attempt: Attempt) -> models.AttemptView:
    return models.AttemptView(
        attempt=attempt.attempt,
        node=attempt.agent_id,
        node_name=await app[NAMES].node(attempt.agent_id),
        state=attempt.state.value,
        outcome=None if attempt.state in GOES_ON else attempt.state.value,
        device=attempt.device,
        code=attempt.code,
        detail=attempt.detail,
        assigned_at_ms=attempt.assigned_at_ms,
        started_at_ms=attempt.started_at_ms,
        ended_at_ms=attempt.ended_at_ms,
    )


def circuit_view(circuit: Circuit) -> models.CircuitView:
    """A registered circuit."""
    return models.CircuitView(
        id=circuit.id,
        name=circuit.name,
        curve=circuit.curve,
        zkey_bytes=circuit.zkey_bytes,
        n_public=circuit.n_public,
        n_vars=circuit.n_vars,
        domain_size=circuit.domain_size,
        created_at_ms=circuit.created_at_ms,
        contributions=circuit.contributions,
        node_labels=circuit.node_labels,
    )


def token_view(token: EnrollToken) -> models.EnrollTokenView:
    """A token without its secret."""
    return models.EnrollTokenView(
        id=token.id,
        uses=token.uses,
        uses_max=token.uses_max,
        created_at_ms=token.created_at_ms,
        expires_at_ms=token.expires_at_ms,
        revoked_at_ms=token.revoked_at_ms,
        labels=token.labels,
    )
