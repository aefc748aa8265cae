"""Statements that give up what is kept too long, or is too much, in bounded pieces; each tells how much it did.

Zero means that nothing is left to do. Whoever calls them calls again, with everyone else's writes in between.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, func, select, update

from hub.ids import least
from hub.rollups import Tier
from hub.store.schema import (
    EVENTS,
    HISTORY_SOURCES,
    HUB_EVENTS,
    JOBS,
    NOTHING_MS,
    ROLLUPS,
    ROLLUPS_DUE,
    SAMPLES,
    SESSIONS,
    STREAM_HEADS,
    SUPPRESSIONS,
    VOLUMES,
)
from hub.store.sql_history import ROLLUP_ROW_BYTES
from hub.store.sql_intake import EVENT_ROW_BYTES
from hub.store.sql_samples import SAMPLE_ROW_BYTES, grow
from hub.store.sql_these import one_of_these, these
from wire.codec import decode_event
from wire.errors import RemoteProtocolError
from wire.frames import JobFailed, JobStarted, JobStopped, JobSucceeded, Stream
from wire.jobs import ENDED


def expire_tier(connection: Connection, tier: Tier, before_ms: int, bytes_max: int, limit: int) -> int:
    """Give up some of the oldest rows of a tier, at most ``limit``: those that begin before, or are too much.

    The tier's horizon moves first, in whole rows of the tier above: below it nothing is taken in and nothing is made
    any more, so that no rollup is ever made from a part of its time. What is not rolled up yet is not given up.
    """
    time, size, table, own = _of_tier(tier)
    volume = connection.execute(select(VOLUMES).where(VOLUMES.c.tier_s == tier)).one()
    if volume.bytes > bytes_max:
        oldest = connection.scalar(select(time).where(*own).order_by(time).offset(limit - 1).limit(1))
        newest = connection.scalar(select(func.max(time)).where(*own))
        before_ms = max(before_ms, (newest if oldest is None else oldest) or 0)
    above = tier.above
    if above is not None:
        due_ms = connection.scalar(select(func.min(ROLLUPS_DUE.c.start_ms)).where(ROLLUPS_DUE.c.tier_s == above))
        before_ms = above.start_of(before_ms if due_ms is None else min(before_ms, due_ms))
    if before_ms > volume.horizon_ms:
        connection.execute(update(VOLUMES).where(VOLUMES.c.tier_s == tier).values(horizon_ms=before_ms))
    rows = connection.execute(
        select(table.c.id, func.length(table.c.packed)).where(*own, time < before_ms).order_by(time).limit(limit)
    ).all()
    if rows:
        connection.execute(delete(table).where(one_of_these(table.c.id)), these(row.id for row in rows))
        grow(connection, tier, -len(rows), -sum(length + size for _, length in rows))
    return len(rows)


def _of_tier(tier: Tier) -> tuple[Any, int, Any, tuple[Any, ...]]:
    if tier is Tier.RAW:
        return SAMPLES.c.time_ms, SAMPLE_ROW_BYTES, SAMPLES, ()
    return ROLLUPS.c.start_ms, ROLLUP_ROW_BYTES, ROLLUPS, (ROLLUPS.c.tier_s == tier,)


def expire_sources(connection: Connection, before_ms: int, limit: int) -> int:
    """Give up sources that nothing was heard of since: every row with their number is given up by then."""
    rows = connection.execute(
        select(HISTORY_SOURCES.c.agent_id, HISTORY_SOURCES.c.number)
        .where(HISTORY_SOURCES.c.seen_at_ms < before_ms)
        .limit(limit)
    ).all()
    if rows:
        known = one_of_these(HISTORY_SOURCES.c.agent_id, HISTORY_SOURCES.c.number)
        connection.execute(delete(HISTORY_SOURCES).where(known), these(tuple(row) for row in rows))
    return len(rows)


# --- events


def expire_events(connection: Connection, before_ms: int, bytes_max: int, limit: int) -> int:
    """Give up some events of one stream, the oldest first: received before, or of the node that has most of too much.

    An event of a job that has not ended is kept.
    """
    head, excess_bytes = _stalest(connection, before_ms), 0
    if head is None:
        before_ms = NOTHING_MS
        excess_bytes = event_volume(connection)[1] - bytes_max
        head = _of_the_fullest(connection) if excess_bytes > 0 else None
    if head is None:
        return 0
    here = (EVENTS.c.agent_id == head.agent_id, EVENTS.c.epoch == head.epoch, EVENTS.c.stream == head.stream)
    rows = connection.execute(
        select(EVENTS.c.seq, EVENTS.c.received_at_ms, EVENTS.c.packed)
        .where(*here, EVENTS.c.received_at_ms >= head.oldest_at_ms, EVENTS.c.received_at_ms < before_ms)
        .order_by(EVENTS.c.seq)
        .limit(limit)
    ).all()
    if excess_bytes:
        sizes = accumulate(len(row.packed) + EVENT_ROW_BYTES for row in rows)
        rows = rows[: 1 + sum(size_bytes < excess_bytes for size_bytes in sizes)]
    kept = _needed(connection, rows) if head.stream == Stream.JOBS else set()
    gone = [row for row in rows if row.seq not in kept]
    if gone:
        connection.execute(delete(EVENTS).where(*here, one_of_these(EVENTS.c.seq)), these(row.seq for row in gone))
    looked_at = EVENTS.c.seq > rows[-1].seq if rows else EVENTS.c.received_at_ms >= before_ms
    oldest_ms = connection.scalar(select(func.min(EVENTS.c.received_at_ms)).where(*here, looked_at))
    if oldest_ms is not None and rows and not gone:
        oldest_ms = max(oldest_ms, rows[-1].received_at_ms + 1)  # what is kept is not looked at again in this round
    less = {
        "of_agent": head.agent_id,
        "of_epoch": head.epoch,
        "of_stream": head.stream,
        "fewer_rows": len(gone),
        "fewer_bytes": sum(len(row.packed) + EVENT_ROW_BYTES for row in gone),
        "oldest_ms": NOTHING_MS if oldest_ms is None else oldest_ms,
    }
    connection.execute(_SHORTEN, less)
    return max(1, len(gone))


_SHORTEN = (  # made once, as in `hub.store.sql_these`
    update(STREAM_HEADS)
    .where(
        STREAM_HEADS.c.agent_id == bindparam("of_agent"),
        STREAM_HEADS.c.epoch == bindparam("of_epoch"),
        STREAM_HEADS.c.stream == bindparam("of_stream"),
    )
    .values(
        rows=STREAM_HEADS.c.rows - bindparam("fewer_rows"),
        bytes=STREAM_HEADS.c.bytes - bindparam("fewer_bytes"),
        oldest_at_ms=bindparam("oldest_ms"),
    )
)


def _stalest(connection: Connection, before_ms: int) -> Any:
    """The stream with the oldest event that has to go."""
    return connection.execute(
        select(STREAM_HEADS)
        .where(STREAM_HEADS.c.oldest_at_ms < before_ms)
        .order_by(STREAM_HEADS.c.oldest_at_ms)
        .limit(1)
    ).one_or_none()


def _of_the_fullest(connection: Connection) -> Any:
    """The oldest stream of the node that keeps most: no node takes another's place."""
    by_node: Select[Any] = (
        select(STREAM_HEADS.c.agent_id)
        .where(STREAM_HEADS.c.oldest_at_ms < NOTHING_MS)
        .group_by(STREAM_HEADS.c.agent_id)
        .order_by(func.sum(STREAM_HEADS.c.bytes).desc())
        .limit(1)
    )
    return connection.execute(
        select(STREAM_HEADS)
        .where(STREAM_HEADS.c.agent_id == by_node.scalar_subquery(), STREAM_HEADS.c.oldest_at_ms < NOTHING_MS)
        .order_by(STREAM_HEADS.c.oldest_at_ms)
        .limit(1)
    ).one_or_none()


_OPEN = JOBS.c.state.not_in([state.value for state in ENDED])


def _needed(connection: Connection, rows: Sequence[Any]) -> set[int]:
    """Numbers of the events whose job has not ended."""
    by_job: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        try:
            body = decode_event(row.packed).body
        except RemoteProtocolError:
            continue  # nobody can read it any more, so nobody needs it
        if isinstance(body, JobStarted | JobSucceeded | JobFailed | JobStopped):
            by_job[body.job].append(row.seq)
    open_ = connection.scalars(select(JOBS.c.id).where(one_of_these(JOBS.c.id), _OPEN), these(by_job))
    return {seq for job_id in open_ for seq in by_job[job_id]}


# --- what the hub wrote down itself


def expire_records(connection: Connection, before_ms: int, rows_max: int, limit: int) -> int:
    """Give up some sessions that are over and some of what the hub saw: begun before, or more than ``rows_max``."""
    done = 0
    for table, over in ((SESSIONS, SESSIONS.c.closed_at_ms.is_not(None)), (HUB_EVENTS, HUB_EVENTS.c.id != "")):
        ids = list(
            connection.scalars(
                select(table.c.id).where(table.c.id < least(before_ms), over).order_by(table.c.id).limit(limit)
            )
        )
        if not ids:
            excess = (connection.scalar(select(func.count()).select_from(table)) or 0) - rows_max
            if excess > 0:
                oldest = select(table.c.id).where(over).order_by(table.c.id).limit(min(limit, excess))
                ids = list(connection.scalars(oldest))
        if ids:
            connection.execute(delete(table).where(one_of_these(table.c.id)), these(ids))
        done += len(ids)
    return done + _expire_suppressions(connection, before_ms, limit)


def _expire_suppressions(connection: Connection, before_ms: int, limit: int) -> int:
    """Nobody adds to an hour that is over: its row has done its work."""
    columns = (SUPPRESSIONS.c.agent_id, SUPPRESSIONS.c.epoch, SUPPRESSIONS.c.stream, SUPPRESSIONS.c.window_ms)
    rows = connection.execute(select(*columns).where(SUPPRESSIONS.c.window_ms < before_ms).limit(limit)).all()
    if rows:
        connection.execute(delete(SUPPRESSIONS).where(one_of_these(*columns)), these(tuple(row) for row in rows))
    return len(rows)


def event_volume(connection: Connection) -> tuple[int, int]:
    """Rows and bytes of events."""
    rows, size_bytes = connection.execute(
        select(func.coalesce(func.sum(STREAM_HEADS.c.rows), 0), func.coalesce(func.sum(STREAM_HEADS.c.bytes), 0))
    ).one()
    return int(rows), int(size_bytes)
