"""Events into the store: many batches of many agents in few statements.

The only writer of stream heads, events and samples. A statement costs as much for one row as for fifty, so whatever
batches wait in the writer's queue are taken together: the heads read once, the rows of each table written by one
statement. Each batch is judged by itself, and one that does not fit its stream touches nothing.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Dialect, Select, bindparam, case, insert, select, tuple_, update

from hub.ids import uuid7
from hub.store import sql_work
from hub.store.base import Applies, Conflict, ForeignReference, HoleInStream, IngestResult
from hub.store.records import JobPicture
from hub.store.schema import (
    EVENTS,
    HUB_EVENTS,
    STREAM_HEADS,
    SUPPRESSIONS,
)
from hub.store.sql_logs import LogBatch, LogIntake
from hub.store.sql_samples import SampledAt, SampleIntake, store_samples
from wire.codec import encode_event
from wire.frames import Event, EventBody, Gap, Readings, Stream, UnknownBody
from wire.limits import EVENT_BYTES_MAX

EVENT_ROW_BYTES = 230
"""What a row of ``events`` takes beside its packed event: ids and numbers, twice more in the indices."""
WINDOW_MS = 3600 * 1000
"""What is left out within an hour is told once."""
HEADS_PER_QUERY = 200

_Key = tuple[str, str, str]
"""Of a stream's head."""
_encode = msgspec.msgpack.Encoder().encode


class Batch(Struct, frozen=True, kw_only=True, eq=False):
    """What `hub.store.base.Store.ingest` is given."""

    agent_id: str
    epoch: str
    stream: Stream
    events: Sequence[Event]
    received_at_ms: int
    applies: Applies
    sampled_at: SampledAt | None = None
    left_out: str = ""


def nothing_to_apply(_body: EventBody) -> None:
    """What events do to jobs that do not come in their stream."""


class _Head(Struct):
    """A stream's head, and what this run adds to it."""

    seq: int
    known: bool
    rows: int = 0
    size_bytes: int = 0
    received_at_ms: int = 0


class _EventRow(NamedTuple):
    """A row of `EVENTS`, its columns in their order."""

    agent_id: str
    epoch: str
    stream: str
    seq: int
    time_ms: int
    received_at_ms: int
    kind: str
    packed: bytes


class _Run:
    """Rows of one run, table by table."""

    def __init__(self) -> None:
        self.events: list[_EventRow] = []
        self.samples: list[dict[str, Any]] = []
        self.logs: list[LogBatch] = []


class Intake:
    """Takes batches in. Runs on the writer's thread only."""

    def __init__(self) -> None:
        self.samples = SampleIntake()
        self._logs = LogIntake()

    def forget(self) -> None:
        """What is remembered may not be so any more: a transaction was undone, or rows were given up."""
        self.samples.forget()
        self._logs.forget()

    def take(self, connection: Connection, batches: Sequence[Batch]) -> list[IngestResult | Conflict]:
        """Store what is new in each, move the heads, apply job events; for each what it did, or why nothing."""
        heads = _heads(connection, batches)
        _make_heads(connection, heads)
        run = _Run()
        results = [self._take(connection, run, heads[_key(batch)], batch) for batch in batches]
        if run.events:
            _insert_events(connection, run.events)
        if run.samples:
            store_samples(connection, run.samples)
        if run.logs:
            self._logs.insert(connection, run.logs)
        _move_heads(connection, heads)
        return results

    def _take(self, connection: Connection, run: _Run, head: "_Head", batch: Batch) -> IngestResult | Conflict:
        new = [event for event in batch.events if event.seq > head.seq]
        if not new:
            return IngestResult(head=head.seq, stored=0)
        first_seq = _first_seq(new[0])
        if first_seq > head.seq + 1:
            return HoleInStream(
                f"stream {batch.stream} of epoch {batch.epoch}: event {first_seq} does not follow event {head.seq}"
            )
        head.seq, head.received_at_ms = new[-1].seq, batch.received_at_ms
        pictures: tuple[JobPicture, ...] = ()
        foreign: tuple[str, ...] = ()
        if batch.left_out:
            _leave_out(connection, batch, new)
        elif batch.stream is Stream.LOGS:
            run.logs.append(LogBatch(batch.agent_id, batch.epoch, new, batch.received_at_ms))
        elif batch.stream is Stream.READINGS:
            run.samples += self.samples.rows(connection, batch.agent_id, new, batch.received_at_ms, batch.sampled_at)
            run.events += _rows(batch, head, [event for event in new if not isinstance(event.body, Readings)])
        else:
            run.events += _rows(batch, head, new)
            if batch.stream is Stream.JOBS:
                pictures, foreign = _apply_all(connection, batch, new)
        return IngestResult(head=head.seq, stored=len(new), pictures=pictures, foreign=foreign)


# --- heads


def _key(batch: Batch) -> _Key:
    return batch.agent_id, batch.epoch, batch.stream.value


_HEAD = tuple_(STREAM_HEADS.c.agent_id, STREAM_HEADS.c.epoch, STREAM_HEADS.c.stream)
_SELECT_HEADS: Select[Any] = select(
    STREAM_HEADS.c.agent_id, STREAM_HEADS.c.epoch, STREAM_HEADS.c.stream, STREAM_HEADS.c.seq
).where(_HEAD.in_(bindparam("keys", expanding=True)))
_MOVE_HEAD = (
    update(STREAM_HEADS)
    .where(
        STREAM_HEADS.c.agent_id == bindparam("of_agent"),
        STREAM_HEADS.c.epoch == bindparam("of_epoch"),
        STREAM_HEADS.c.stream == bindparam("of_stream"),
    )
    .values(
        seq=bindparam("to_seq"),
        rows=STREAM_HEADS.c.rows + bindparam("more_rows"),
        bytes=STREAM_HEADS.c.bytes + bindparam("more_bytes"),
        oldest_at_ms=case(
            (bindparam("more_rows") == 0, STREAM_HEADS.c.oldest_at_ms),
            (STREAM_HEADS.c.oldest_at_ms < bindparam("at_ms"), STREAM_HEADS.c.oldest_at_ms),
            else_=bindparam("at_ms"),
        ),
    )
)


def _heads(connection: Connection, batches: Sequence[Batch]) -> dict[_Key, _Head]:
    keys = list({_key(batch): None for batch in batches})
    heads = {key: _Head(0, known=False) for key in keys}
    for start in range(0, len(keys), HEADS_PER_QUERY):
        for agent_id, epoch, stream, seq in connection.execute(
            _SELECT_HEADS, {"keys": keys[start : start + HEADS_PER_QUERY]}
        ):
            heads[agent_id, epoch, stream] = _Head(seq, known=True)
    return heads


def _make_heads(connection: Connection, heads: dict[_Key, _Head]) -> None:
    """Rows of streams that are new: events refer to them."""
    rows = [
        {"agent_id": agent_id, "epoch": epoch, "stream": stream, "seq": 0}
        for (agent_id, epoch, stream), head in heads.items()
        if not head.known
    ]
    if rows:
        connection.execute(insert(STREAM_HEADS), rows)


def _move_heads(connection: Connection, heads: dict[_Key, _Head]) -> None:
    rows = [
        {
            "of_agent": agent_id,
            "of_epoch": epoch,
            "of_stream": stream,
            "to_seq": head.seq,
            "more_rows": head.rows,
            "more_bytes": head.size_bytes,
            "at_ms": head.received_at_ms,
        }
        for (agent_id, epoch, stream), head in heads.items()
        if head.received_at_ms
    ]
    if rows:
        connection.execute(_MOVE_HEAD, rows)


def _first_seq(event: Event) -> int:
    return event.body.first if isinstance(event.body, Gap) else event.seq


# --- events


def _rows(batch: Batch, head: _Head, events: Sequence[Event]) -> list[_EventRow]:
    """Rows of `EVENTS`, counted at their head."""
    agent_id, epoch, stream = _key(batch)
    at_ms, kind_of = batch.received_at_ms, sql_work.kind_of
    rows = [
        _EventRow(agent_id, epoch, stream, event.seq, event.time_ms, at_ms, kind_of(event.body), _packed(event))
        for event in events
    ]
    head.rows += len(rows)
    head.size_bytes += sum(len(row.packed) for row in rows) + len(rows) * EVENT_ROW_BYTES
    return rows


def _insert_events(connection: Connection, rows: Sequence[_EventRow]) -> None:
    """Core's work for each row would be a good part of the cost, so the driver is given the rows as they are."""
    statement, positional = _event_insert(connection.dialect)
    if positional:
        connection.exec_driver_sql(statement, rows)
    else:
        connection.exec_driver_sql(statement, [row._asdict() for row in rows])


@functools.cache
def _event_insert(dialect: Dialect) -> tuple[str, bool]:
    """The statement as the database's driver takes it, and whether its values go by place."""
    compiled = insert(EVENTS).compile(dialect=dialect)
    return str(compiled), bool(compiled.positional)


def _packed(event: Event) -> bytes:
    """As `wire.codec.encode_event` packs it, without checking again what decoding has checked."""
    packed = _encode(event)
    if isinstance(event.body, UnknownBody) or len(packed) > EVENT_BYTES_MAX:
        return encode_event(event)
    return packed


def _apply_all(
    connection: Connection, batch: Batch, events: Sequence[Event]
) -> tuple[tuple[JobPicture, ...], tuple[str, ...]]:
    """Apply job events to their jobs; the jobs as they are now, and a sentence for each event about a foreign one."""
    pictures: dict[str, JobPicture] = {}
    foreign = []
    for event in events:
        said = batch.applies(event.body)
        if said is None:
            continue
        job_id, step = said
        try:
            if sql_work.job(connection, job_id) is None:
                raise ForeignReference(f"there is no job {job_id}")  # noqa: TRY301 - told like any other
            changed = sql_work.change_job(connection, job_id, step)
        except ForeignReference as error:
            foreign.append(str(error))
        else:
            if changed is not None:
                pictures[job_id] = changed
    return tuple(pictures.values()), tuple(foreign)


# --- what is left out


def _leave_out(connection: Connection, batch: Batch, events: Sequence[Event]) -> None:
    """Count events that are not stored, and say so among what the hub saw: one row an hour and stream."""
    window_ms = batch.received_at_ms - batch.received_at_ms % WINDOW_MS
    here = (
        SUPPRESSIONS.c.agent_id == batch.agent_id,
        SUPPRESSIONS.c.epoch == batch.epoch,
        SUPPRESSIONS.c.stream == batch.stream.value,
        SUPPRESSIONS.c.window_ms == window_ms,
    )
    last_seq = events[-1].seq
    count = last_seq - _first_seq(events[0]) + 1
    row = connection.execute(select(SUPPRESSIONS).where(*here)).one_or_none()
    if row is None:
        first_seq, total, hub_event_id = _first_seq(events[0]), count, uuid7(batch.received_at_ms)
    else:
        first_seq, total, hub_event_id = row.first_seq, row.events + count, row.hub_event_id
    detail = f"{batch.stream}: events {first_seq} to {last_seq} were left out, {total} of them: {batch.left_out}"
    if row is not None:
        connection.execute(update(SUPPRESSIONS).where(*here).values(last_seq=last_seq, events=total))
        connection.execute(update(HUB_EVENTS).where(HUB_EVENTS.c.id == hub_event_id).values(detail=detail))
        return
    connection.execute(
        insert(HUB_EVENTS),
        {
            "id": hub_event_id,
            "agent_id": batch.agent_id,
            "time_ms": batch.received_at_ms,
            "kind": "quota.exceeded",
            "level": "warning",
            "detail": detail,
        },
    )
    connection.execute(
        insert(SUPPRESSIONS),
        {
            "agent_id": batch.agent_id,
            "epoch": batch.epoch,
            "stream": batch.stream.value,
            "window_ms": window_ms,
            "first_seq": first_seq,
            "last_seq": last_seq,
            "events": total,
            "hub_event_id": hub_event_id,
        },
    )
