"""Statements about the history: what was measured, how it is rolled up, and what of it is read."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection, bindparam, delete, func, insert, select

from hub.faults import FAULTS
from hub.rollups import (
    TIERS,
    Rolled,
    Sample,
    Tier,
    combined,
    of_sample,
    of_samples,
    pack_rolled,
    unpack_rolled,
    unpack_sample,
)
from hub.store.records import HistoryRow, Source, Volume
from hub.store.schema import HISTORY_SOURCES, ROLLUPS, ROLLUPS_DUE, SAMPLES, VOLUMES
from hub.store.sql_samples import grow, mark_due
from hub.store.sql_these import one_of_these, these

log = structlog.get_logger(__name__)

ROLLUP_ROW_BYTES = 130
"""What a row of ``rollups`` takes beside its packed values, as `sql_intake.EVENT_ROW_BYTES` for events."""
_SAMPLES_MAX = 100_000
"""Rows that one rollup is made from, at most. A node's rate is limited long before."""

Row = TypeVar("Row")


def sources(connection: Connection, agent_id: str) -> list[Source]:
    """What a node has series of, by number."""
    rows = connection.execute(
        select(HISTORY_SOURCES).where(HISTORY_SOURCES.c.agent_id == agent_id).order_by(HISTORY_SOURCES.c.number)
    )
    return [Source(number=row.number, name=row.name, fields=row.fields, seen_at_ms=row.seen_at_ms) for row in rows]


def volumes(connection: Connection) -> dict[Tier, Volume]:
    """How much there is of each tier, and since when."""
    return {
        Tier(row.tier_s): Volume(rows=row.rows, size_bytes=row.bytes, horizon_ms=row.horizon_ms)
        for row in connection.execute(select(VOLUMES))
    }


def history(
    connection: Connection, agent_id: str, tier: Tier, from_ms: int, to_ms: int, limit: int
) -> list[HistoryRow]:
    """A node's rows of a tier that begin within a time, oldest first."""
    if tier is Tier.RAW:
        samples = _samples(connection, agent_id, from_ms, to_ms, limit)
        return [HistoryRow(time_ms, of_sample(sample)) for time_ms, sample in samples]
    return [HistoryRow(*row) for row in _rollups(connection, agent_id, tier, from_ms, to_ms, limit)]


def _samples(
    connection: Connection, agent_id: str, from_ms: int, to_ms: int, limit: int
) -> Iterator[tuple[int, Sample]]:
    found = connection.execute(
        select(SAMPLES.c.time_ms, SAMPLES.c.packed)
        .where(SAMPLES.c.agent_id == agent_id, SAMPLES.c.time_ms >= from_ms, SAMPLES.c.time_ms < to_ms)
        .order_by(SAMPLES.c.time_ms)
        .limit(limit)
    )
    # Samples of one moment in the order of their bytes, so that the order of their arrival makes no difference.
    return _unpacked(sorted(tuple(row) for row in found), unpack_sample)


def _rollups(
    connection: Connection, agent_id: str, tier: Tier, from_ms: int, to_ms: int, limit: int
) -> Iterator[tuple[int, Rolled]]:
    found = connection.execute(
        select(ROLLUPS.c.start_ms, ROLLUPS.c.packed)
        .where(
            ROLLUPS.c.tier_s == tier,
            ROLLUPS.c.agent_id == agent_id,
            ROLLUPS.c.start_ms >= from_ms,
            ROLLUPS.c.start_ms < to_ms,
        )
        .order_by(ROLLUPS.c.start_ms)
        .limit(limit)
    )
    return _unpacked(found, unpack_rolled)


def _unpacked(rows: Iterable[Any], unpack: Callable[[bytes], Row]) -> Iterator[tuple[int, Row]]:
    """A row that cannot be read is a gap: a damaged page must not stop the rest."""
    for time_ms, packed in rows:
        try:
            yield time_ms, unpack(packed)
        except (ValueError, TypeError, zlib.error) as error:  # msgspec's are ValueErrors
            FAULTS.count("store")
            log.error("a row of the history cannot be read", time_ms=time_ms, error=str(error))  # noqa: TRY400


# --- rolling up


def roll(connection: Connection, ended_before_ms: int, limit: int) -> int:
    """Make at most ``limit`` rollups that are due and whose time ended before; how many were looked at.

    The finest tier first, so that the one above is made once from all of it.
    """
    done = 0
    for tier in TIERS[1:]:
        found = connection.execute(
            select(ROLLUPS_DUE.c.start_ms, ROLLUPS_DUE.c.agent_id)
            .where(ROLLUPS_DUE.c.tier_s == tier, ROLLUPS_DUE.c.start_ms <= ended_before_ms - tier.width_ms)
            .order_by(ROLLUPS_DUE.c.start_ms)
            .limit(limit - done)
        )
        due = [(row.start_ms, row.agent_id) for row in found]
        if due:
            _make(connection, tier, due)
            done += len(due)
        if done >= limit:
            break
    return done


def due_count(connection: Connection) -> int:
    """Rollups that are to be made, those whose time is not over yet included."""
    return connection.scalar(select(func.count()).select_from(ROLLUPS_DUE)) or 0


def _make(connection: Connection, tier: Tier, due: Sequence[tuple[int, str]]) -> None:
    """Make these rollups from the tier below, mark the ones above, and settle the marks."""
    horizon_ms = connection.scalar(select(VOLUMES.c.horizon_ms).where(VOLUMES.c.tier_s == tier.below)) or 0
    made: list[dict[str, Any]] = []
    for start_ms, agent_id in due:
        if start_ms < horizon_ms:
            continue  # a part of what it was made from is given up already: as it was made then, it stays
        rolled = _from_below(connection, tier, agent_id, start_ms)
        if rolled:
            made.append({"tier_s": tier, "agent_id": agent_id, "start_ms": start_ms, "packed": pack_rolled(rolled)})
    if made:
        before = [
            one for row in made for one in connection.execute(_ROLLED, _place(tier, row["agent_id"], row["start_ms"]))
        ]
        if before:
            connection.execute(delete(ROLLUPS).where(one_of_these(ROLLUPS.c.id)), these(row.id for row in before))
        connection.execute(insert(ROLLUPS), made)
        size_bytes = sum(len(row["packed"]) + ROLLUP_ROW_BYTES for row in made)
        size_bytes -= sum(length + ROLLUP_ROW_BYTES for _, length in before)
        grow(connection, tier, len(made) - len(before), size_bytes)
        if tier.above is not None:
            mark_due(connection, tier.above, {(tier.above.start_of(row["start_ms"]), row["agent_id"]) for row in made})
    connection.execute(_SETTLE, [_place(tier, agent_id, start_ms) for start_ms, agent_id in due])


def _place(tier: Tier, agent_id: str, start_ms: int) -> dict[str, Any]:
    return {"in_tier": tier, "of_agent": agent_id, "from_ms": start_ms}


# One row at a time: for several at once SQLite would read the whole tier, or be given a new statement for each number.
_ROLLED = select(ROLLUPS.c.id, func.length(ROLLUPS.c.packed)).where(
    ROLLUPS.c.tier_s == bindparam("in_tier"),
    ROLLUPS.c.agent_id == bindparam("of_agent"),
    ROLLUPS.c.start_ms == bindparam("from_ms"),
)
_SETTLE = delete(ROLLUPS_DUE).where(
    ROLLUPS_DUE.c.tier_s == bindparam("in_tier"),
    ROLLUPS_DUE.c.agent_id == bindparam("of_agent"),
    ROLLUPS_DUE.c.start_ms == bindparam("from_ms"),
)


def _from_below(connection: Connection, tier: Tier, agent_id: str, start_ms: int) -> Rolled:
    end_ms = start_ms + tier.width_ms
    if tier.below is Tier.RAW:
        return of_samples(row for _, row in _samples(connection, agent_id, start_ms, end_ms, _SAMPLES_MAX))
    return combined(row for _, row in _rollups(connection, agent_id, tier.below, start_ms, end_ms, _SAMPLES_MAX))
