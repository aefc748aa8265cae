"""Events into the store: many batches of many agents in few statements.

The only writer of stream heads, events and samples. A statement costs as much for one row as for fifty, so whatever
batches wait in the writer's queue are taken together: the heads read once, the rows of each table written by one
statement. Each batch is judged by itself, and one that does not fit its stream touches nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Select, bindparam, case, exists, insert, select, tuple_, update

from hub.ids import uuid7
from hub.rollups import Sample, Tier, mask_of, pack_sample
from hub.series import Values, values_of
from hub.store import sql_logs, sql_work
from hub.store.base import Applies, Conflict, ForeignReference, HoleInStream, IngestResult
from hub.store.records import JobPicture
from hub.store.schema import (
    EVENTS,
    HISTORY_SOURCES,
    HUB_EVENTS,
    ROLLUPS_DUE,
    SAMPLES,
    STREAM_HEADS,
    SUPPRESSIONS,
    VOLUMES,
)
from wire.codec import encode_event
from wire.frames import Event, Gap, Readings, Stream, UnknownBody
from wire.limits import EVENT_BYTES_MAX

EVENT_ROW_BYTES = 230
"""What a row of ``events`` takes beside its packed event: ids and numbers, twice more in the indices."""
SAMPLE_ROW_BYTES = 130
SOURCES_PER_NODE_MAX = 256
"""Sources a node may have series of: its host, and every card it had since `HISTORY_SOURCES` forgets."""
SEEN_EVERY_MS = 24 * 3600 * 1000
"""A source's last day is noted, not its last second."""
WINDOW_MS = 3600 * 1000
"""What is left out within an hour is told once."""
HEADS_PER_QUERY = 200

SampledAt = Callable[[Event], int]
"""When an event happened, in Unix milliseconds of the hub's clock."""

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


class _Head(Struct):
    """A stream's head, and what this run adds to it."""

    seq: int
    known: bool
    rows: int = 0
    size_bytes: int = 0
    received_at_ms: int = 0


class _Source(Struct):
    """A row of `HISTORY_SOURCES`, as remembered."""

    number: int
    fields: int
    seen_at_ms: int


class Intake:
    """Takes batches in; remembers what is asked for again and again. Runs on the writer's thread only."""

    def __init__(self) -> None:
        self._sources: dict[str, dict[str, _Source]] = {}
        self._horizon_ms: int | None = None
        self.late_total = 0
        """For the metrics: samples older than what is kept, ..."""
        self.sources_refused_total = 0
        """... and sources beyond the limit, counted at each sample."""

    def forget(self) -> None:
        """What is remembered may not be so any more: a transaction was undone, or rows were given up."""
        self._sources.clear()
        self._horizon_ms = None

    def horizon_moved(self) -> None:
        """Old samples were given up."""
        self._horizon_ms = None

    def take(self, connection: Connection, batches: Sequence[Batch]) -> list[IngestResult | Conflict]:
        """Store what is new in each, move the heads, apply job events; for each what it did, or why nothing."""
        heads = _heads(connection, batches)
        results: list[IngestResult | Conflict] = []
        events: list[dict[str, Any]] = []
        samples: list[dict[str, Any]] = []
        _make_heads(connection, heads)
        for batch in batches:
            head = heads[_key(batch)]
            new = [event for event in batch.events if event.seq > head.seq]
            if not new:
                results.append(IngestResult(head=head.seq, stored=0))
                continue
            first_seq = _first_seq(new[0])
            if first_seq > head.seq + 1:
                results.append(HoleInStream(f"{_of(batch)}: event {first_seq} does not follow event {head.seq}"))
                continue
            head.seq, head.received_at_ms = new[-1].seq, batch.received_at_ms
            pictures: tuple[JobPicture, ...] = ()
            foreign: tuple[str, ...] = ()
            if batch.left_out:
                _leave_out(connection, batch, new)
            elif batch.stream is Stream.LOGS:
                sql_logs.insert(connection, batch.agent_id, batch.epoch, new, batch.received_at_ms)
            elif batch.stream is Stream.READINGS:
                rest = [event for event in new if not isinstance(event.body, Readings)]
                samples += self._samples(connection, batch, new)
                events += _rows(batch, head, rest)
            else:
                events += _rows(batch, head, new)
                if batch.stream is Stream.JOBS:
                    pictures, foreign = _apply_all(connection, batch, new)
            results.append(IngestResult(head=head.seq, stored=len(new), pictures=pictures, foreign=foreign))
        if events:
            connection.execute(insert(EVENTS), events)
        if samples:
            _store_samples(connection, samples)
        _move_heads(connection, heads)
        return results

    def _samples(self, connection: Connection, batch: Batch, events: Iterable[Event]) -> Iterable[dict[str, Any]]:
        """Rows of the readings among the events."""
        horizon_ms = self._horizon(connection)
        for event in events:
            if not isinstance(event.body, Readings):
                continue
            time_ms = min(event.time_ms, batch.received_at_ms) if batch.sampled_at is None else batch.sampled_at(event)
            if time_ms < horizon_ms:
                self.late_total += 1
                continue
            sample = self._numbered(connection, batch.agent_id, values_of(event.body), batch.received_at_ms)
            if sample:
                yield {"agent_id": batch.agent_id, "time_ms": time_ms, "packed": pack_sample(sample)}

    def _horizon(self, connection: Connection) -> int:
        """Before this nothing is taken any more: it would be given up at once, and its rollups are made."""
        if self._horizon_ms is None:
            self._horizon_ms = connection.scalar(select(VOLUMES.c.horizon_ms).where(VOLUMES.c.tier_s == Tier.RAW)) or 0
        return self._horizon_ms

    def _numbered(self, connection: Connection, agent_id: str, found: dict[str, Values], now_ms: int) -> Sample:
        """The values by the number of their source; new sources and fields are written down."""
        known = self._sources.get(agent_id)
        if known is None:
            known = self._sources[agent_id] = _load_sources(connection, agent_id)
        sample: Sample = {}
        for name, values in found.items():
            mask = mask_of(values)
            source = known.get(name)
            if source is None:
                if len(known) >= SOURCES_PER_NODE_MAX:
                    self.sources_refused_total += 1
                    continue
                number = 1 + max((item.number for item in known.values()), default=0)
                source = known[name] = _Source(number, mask, now_ms)
                row = {"agent_id": agent_id, "name": name} | msgspec.structs.asdict(source)
                connection.execute(insert(HISTORY_SOURCES), row)
            elif mask | source.fields != source.fields or now_ms - source.seen_at_ms > SEEN_EVERY_MS:
                source.fields |= mask
                source.seen_at_ms = max(now_ms, source.seen_at_ms)
                connection.execute(
                    update(HISTORY_SOURCES)
                    .where(HISTORY_SOURCES.c.agent_id == agent_id, HISTORY_SOURCES.c.number == source.number)
                    .values(fields=source.fields, seen_at_ms=source.seen_at_ms)
                )
            sample[source.number] = values
        return sample


# --- heads


def _of(batch: Batch) -> str:
    return f"stream {batch.stream} of epoch {batch.epoch}"


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


def _rows(batch: Batch, head: _Head, events: Sequence[Event]) -> list[dict[str, Any]]:
    """Rows of `EVENTS`, counted at their head."""
    rows: list[dict[str, Any]] = [
        {
            "agent_id": batch.agent_id,
            "epoch": batch.epoch,
            "stream": batch.stream.value,
            "seq": event.seq,
            "time_ms": event.time_ms,
            "received_at_ms": batch.received_at_ms,
            "kind": sql_work.kind_of(event.body),
            "packed": _packed(event),
        }
        for event in events
    ]
    head.rows += len(rows)
    head.size_bytes += sum(len(row["packed"]) for row in rows) + len(rows) * EVENT_ROW_BYTES
    return rows


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


# --- samples

_MARK_DUE = insert(ROLLUPS_DUE).from_select(
    ["tier_s", "start_ms", "agent_id"],
    select(bindparam("in_tier"), bindparam("from_ms"), bindparam("of_agent")).where(
        ~exists().where(
            ROLLUPS_DUE.c.tier_s == bindparam("in_tier"),
            ROLLUPS_DUE.c.start_ms == bindparam("from_ms"),
            ROLLUPS_DUE.c.agent_id == bindparam("of_agent"),
        )
    ),
)
_GROW = (
    update(VOLUMES)
    .where(VOLUMES.c.tier_s == bindparam("in_tier"))
    .values(rows=VOLUMES.c.rows + bindparam("more_rows"), bytes=VOLUMES.c.bytes + bindparam("more_bytes"))
)


def _load_sources(connection: Connection, agent_id: str) -> dict[str, _Source]:
    rows = connection.execute(select(HISTORY_SOURCES).where(HISTORY_SOURCES.c.agent_id == agent_id))
    return {row.name: _Source(row.number, row.fields, row.seen_at_ms) for row in rows}


def _store_samples(connection: Connection, samples: Sequence[dict[str, Any]]) -> None:
    connection.execute(insert(SAMPLES), samples)
    mark_due(connection, Tier.MINUTE, {(Tier.MINUTE.start_of(row["time_ms"]), row["agent_id"]) for row in samples})
    grow(connection, Tier.RAW, len(samples), sum(len(row["packed"]) + SAMPLE_ROW_BYTES for row in samples))


def mark_due(connection: Connection, tier: Tier, buckets: Iterable[tuple[int, str]]) -> None:
    """Rollups of a tier, by start and agent, are to be made anew."""
    connection.execute(
        _MARK_DUE,
        [{"in_tier": tier, "from_ms": start_ms, "of_agent": agent_id} for start_ms, agent_id in sorted(buckets)],
    )


def grow(connection: Connection, tier: Tier, rows: int, size_bytes: int) -> None:
    """Count rows that were added to a tier, or taken from it."""
    connection.execute(_GROW, {"in_tier": tier, "more_rows": rows, "more_bytes": size_bytes})


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
