"""Statements about artifacts, circuits, jobs and events."""

from collections.abc import Iterable, Sequence

import msgspec
from sqlalchemy import Connection, Select, func, insert, select, tuple_, update

from hub.store.base import (
    PAGE_MAX,
    IdempotencyConflict,
    KeyTaken,
    NameTaken,
    Step,
)
from hub.store.records import (
    Artifact,
    Attempt,
    Circuit,
    HubEvent,
    Job,
    JobPicture,
    StoredEvent,
    StreamHead,
)
from hub.store.rows import from_row, to_row
from hub.store.schema import ARTIFACTS, ATTEMPTS, CIRCUITS, EVENTS, HUB_EVENTS, JOBS, STREAM_HEADS
from hub.store.sql_these import one_of_these, these
from wire.frames import EventBody, Stream, UnknownBody
from wire.jobs import ENDED, JobState

_BULK = {"proof", "public", "outputs"}


def add_artifact(connection: Connection, artifact: Artifact) -> Artifact:
    """Note a file; the first entry stands."""
    known = artifact_of(connection, artifact.sha256)
    if known is not None:
        return known
    connection.execute(insert(ARTIFACTS), to_row(artifact))
    return artifact


def artifact_of(connection: Connection, sha256: str) -> Artifact | None:
    """One artifact."""
    row = connection.execute(select(ARTIFACTS).where(ARTIFACTS.c.sha256 == sha256)).mappings().one_or_none()
    return None if row is None else from_row(Artifact, row)


def artifacts(connection: Connection, after: str, limit: int) -> list[Artifact]:
    """Artifacts by digest."""
    query = select(ARTIFACTS).where(ARTIFACTS.c.sha256 > after).order_by(ARTIFACTS.c.sha256)
    return [from_row(Artifact, row) for row in connection.execute(query.limit(min(limit, PAGE_MAX))).mappings()]


def add_circuit(connection: Connection, circuit: Circuit) -> tuple[Circuit, bool]:
    """Register a circuit."""
    same = (CIRCUITS.c.id == circuit.id) | (CIRCUITS.c.name == circuit.name)
    known = [from_row(Circuit, row) for row in connection.execute(select(CIRCUITS).where(same)).mappings()]
    for other in known:
        if other.id != circuit.id:
            raise NameTaken(f"the name {circuit.name!r} belongs to the circuit {other.id}")
        if other.name != circuit.name:
            raise KeyTaken(f"the circuit {circuit.id} is registered as {other.name!r}")
    if known:
        return known[0], False
    connection.execute(insert(CIRCUITS), to_row(circuit))
    return circuit, True


def circuit(connection: Connection, id_or_name: str) -> Circuit | None:
    """One circuit, by id, else by name."""
    for column in (CIRCUITS.c.id, CIRCUITS.c.name):
        row = connection.execute(select(CIRCUITS).where(column == id_or_name)).mappings().one_or_none()
        if row is not None:
            return from_row(Circuit, row)
    return None


def circuits(connection: Connection, after: str, limit: int) -> list[Circuit]:
    """Circuits by id."""
    rows = connection.execute(
        select(CIRCUITS).where(CIRCUITS.c.id > after).order_by(CIRCUITS.c.id).limit(min(limit, PAGE_MAX))
    )
    return [from_row(Circuit, row) for row in rows.mappings()]


def set_circuit_labels(connection: Connection, circuit_id: str, node_labels: dict[str, str]) -> Circuit | None:
    """Which nodes a circuit's jobs may go to."""
    known = circuit(connection, circuit_id)
    if known is None:
        return None
    changed = msgspec.structs.replace(known, node_labels=node_labels)
    labels = to_row(changed)["node_labels"]
    connection.execute(update(CIRCUITS).where(CIRCUITS.c.id == known.id).values(node_labels=labels))
    return changed


# --- jobs


def add_job(connection: Connection, job: Job) -> tuple[Job, bool]:
    """Persist a job, once for each idempotency key."""
    if job.idempotency_key is not None:
        row = (
            connection.execute(select(JOBS).where(JOBS.c.idempotency_key == job.idempotency_key))
            .mappings()
            .one_or_none()
        )
        if row is not None:
            known = from_row(Job, row)
            if known.request_sha256 != job.request_sha256:
                raise IdempotencyConflict(
                    f"the idempotency key was used for another request, the one of job {known.id}"
                )
            return known, False
    connection.execute(insert(JOBS), to_row(job))
    return job, True


def job(connection: Connection, job_id: str) -> JobPicture | None:
    """One job with its attempts, whole."""
    found = _pictures(connection, select(JOBS).where(JOBS.c.id == job_id))
    return found[0] if found else None


def job_pictures(connection: Connection, before: str, limit: int, state: JobState | None) -> list[JobPicture]:
    """A page of jobs, newest first, without the bulk."""
    query = select(*(column for column in JOBS.c if column.name not in _BULK))
    if before:
        query = query.where(JOBS.c.id < before)
    if state is not None:
        query = query.where(JOBS.c.state == state)
    query = query.order_by(JOBS.c.id.desc()).limit(min(limit, PAGE_MAX))
    return _pictures(connection, query, bulk=False)


def job_counts(connection: Connection) -> dict[JobState, int]:
    """How many jobs are in each state."""
    rows = connection.execute(select(JOBS.c.state, func.count()).group_by(JOBS.c.state)).all()
    return dict.fromkeys(JobState, 0) | {JobState(state): count for state, count in rows}


def open_jobs(connection: Connection) -> list[JobPicture]:
    """Every job that has not ended, oldest first."""
    query = select(JOBS).where(JOBS.c.state.not_in([state.value for state in ENDED])).order_by(JOBS.c.id)
    return _pictures(connection, query)


def change_job(connection: Connection, job_id: str, step: Step) -> JobPicture | None:
    """Apply a step to the stored picture."""
    before = job(connection, job_id)
    after = None if before is None else step(before)
    if before is None or after is None:
        return None
    row = to_row(after.job)
    connection.execute(update(JOBS).where(JOBS.c.id == job_id).values(row))
    for attempt in after.attempts:
        known = before.attempt(attempt.attempt)
        if known is None:
            connection.execute(insert(ATTEMPTS), to_row(attempt))
        elif known != attempt:
            connection.execute(
                update(ATTEMPTS)
                .where(ATTEMPTS.c.job_id == job_id, ATTEMPTS.c.attempt == attempt.attempt)
                .values(to_row(attempt))
            )
    return after


def _pictures(connection: Connection, query: Select[tuple[object, ...]], *, bulk: bool = True) -> list[JobPicture]:
    jobs = [from_row(Job, row) for row in connection.execute(query).mappings()]
    attempts: dict[str, list[Attempt]] = {item.id: [] for item in jobs}
    columns = [column for column in ATTEMPTS.c if bulk or column.name not in _BULK]
    for some in _slices(list(attempts)):
        rows = connection.execute(
            select(*columns).where(one_of_these(ATTEMPTS.c.job_id)).order_by(ATTEMPTS.c.job_id, ATTEMPTS.c.attempt),
            these(some),
        )
        for row in rows.mappings():
            attempts[row["job_id"]].append(from_row(Attempt, row))
    return [JobPicture(job=item, attempts=tuple(attempts[item.id])) for item in jobs]


def _slices(items: Sequence[str], size: int = 500) -> Iterable[Sequence[str]]:
    """Short enough for the parameters of one statement."""
    return (items[start : start + size] for start in range(0, len(items), size))


# --- events


def heads(connection: Connection, agent_id: str, epochs: Sequence[str]) -> list[StreamHead]:
    """Committed heads."""
    rows = connection.execute(
        select(STREAM_HEADS).where(STREAM_HEADS.c.agent_id == agent_id, one_of_these(STREAM_HEADS.c.epoch)),
        these(epochs),
    )
    return [from_row(StreamHead, row) for row in rows.mappings()]


def kind_of(body: EventBody) -> str:
    """The tag of an event's body."""
    return body.kind if isinstance(body, UnknownBody) else str(body.__struct_config__.tag)


def node_events(
    connection: Connection, agent_id: str, stream: Stream | None, before: tuple[int, str, str, int] | None, limit: int
) -> list[StoredEvent]:
    """A node's events, newest received first; ``before`` is the key of the last one of the page before."""
    key = (EVENTS.c.received_at_ms, EVENTS.c.epoch, EVENTS.c.stream, EVENTS.c.seq)
    query = select(EVENTS).where(EVENTS.c.agent_id == agent_id)
    if stream is not None:
        query = query.where(EVENTS.c.stream == stream.value)
    if before is not None:
        query = query.where(tuple_(*key) < tuple_(*before))
    query = query.order_by(*(column.desc() for column in key))
    rows = connection.execute(query.limit(min(limit, PAGE_MAX)))
    return [from_row(StoredEvent, row) for row in rows.mappings()]


def add_hub_event(connection: Connection, event: HubEvent) -> None:
    """Keep something the hub saw about a node."""
    connection.execute(insert(HUB_EVENTS), to_row(event))


def hub_events(connection: Connection, agent_id: str, before: str, limit: int) -> list[HubEvent]:
    """What the hub saw about a node, newest first."""
    query = select(HUB_EVENTS).where(HUB_EVENTS.c.agent_id == agent_id)
    if before:
        query = query.where(HUB_EVENTS.c.id < before)
    rows = connection.execute(query.order_by(HUB_EVENTS.c.id.desc()).limit(min(limit, PAGE_MAX)))
    return [from_row(HubEvent, row) for row in rows.mappings()]
