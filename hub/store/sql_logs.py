"""Statements about the nodes' log records: stored in the order they came, read by key, given up by age and by size.

``id`` grows with every record stored, and a node's records come in the order of their (epoch, seq), so that one number
orders them and is a reader's place. ``received_at_ms`` never goes back within a node, whatever the hub's clock does,
so that a range of time is a range of ids.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, bindparam, delete, func, select, update
from sqlalchemy import insert as insert_into

from hub.store.log_records import LogFilter, LogPage, StoredLog
from hub.store.schema import LOG_USAGE, LOGS
from hub.store.sql_these import one_of_these, these
from wire.codec import encode_event
from wire.frames import Event, Gap, Level, LogRecord

PAGE_MAX = 1000
"""Records of one page."""
SCAN_MAX = 20_000
"""Records looked at for one page: a filter that nothing passes must not keep a reader busy."""
ROW_BYTES = 64
"""What a record costs beside its texts: numbers, and its place in the indices."""
GAP_SOURCE = "provewire"
"""The source that stands at records which the node itself gave up, or this version cannot read."""


class Severity(IntEnum):
    """`Level` as a number that can be compared."""

    DEBUG = 0
    INFO = 1
    WARNING = 2
    ERROR = 3

    @classmethod
    def of(cls, level: Level) -> "Severity":
        """The number of a level."""
        return cls[level.name]

    @property
    def level(self) -> Level:
        """The level of a number."""
        return Level[self.name]


# --- writing


class LogBatch(NamedTuple):
    """What is new of one node's stream ``logs``."""

    agent_id: str
    epoch: str
    events: Sequence[Event]
    received_at_ms: int


class LogIntake:
    """Stores records, those of many nodes by the same statements. Runs on the writer's thread only."""

    def __init__(self) -> None:
        self._newest_ms: dict[str, int] = {}
        """When the newest record of a node was received; its row of `LOG_USAGE` is there."""

    def forget(self) -> None:
        """What is remembered may have been undone."""
        self._newest_ms.clear()

    def insert(self, connection: Connection, batches: Sequence[LogBatch]) -> None:
        """Store the records, in the order of the batches. Within the transaction that moves the heads."""
        rows: list[dict[str, Any]] = []
        more: dict[str, dict[str, Any]] = {}
        for agent_id, epoch, events, received_at_ms in batches:
            newest_ms = self._newest_ms.get(agent_id)
            if newest_ms is None:
                newest_ms = self._look_up(connection, agent_id)
            received_at_ms = self._newest_ms[agent_id] = max(received_at_ms, newest_ms)  # noqa: PLW2901 - never goes back
            count = more.setdefault(agent_id, {"of_agent": agent_id, "more_records": 0, "more_bytes": 0})
            for event in events:
                row = _row(event) | {"agent_id": agent_id, "epoch": epoch, "received_at_ms": received_at_ms}
                rows.append(row)
                count["more_records"] += 1
                count["more_bytes"] += row["bytes"]
        if rows:
            connection.execute(insert_into(LOGS), rows)
            connection.execute(_COUNT, list(more.values()))

    @staticmethod
    def _look_up(connection: Connection, agent_id: str) -> int:
        """When a node's newest record was received, 0 without one; its usage is counted from now on."""
        if connection.scalar(select(LOG_USAGE.c.agent_id).where(LOG_USAGE.c.agent_id == agent_id)) is None:
            connection.execute(insert_into(LOG_USAGE), {"agent_id": agent_id, "records": 0, "bytes": 0})
        return (
            connection.scalar(
                select(LOGS.c.received_at_ms).where(LOGS.c.agent_id == agent_id).order_by(LOGS.c.id.desc()).limit(1)
            )
            or 0
        )


_COUNT = (
    update(LOG_USAGE)
    .where(LOG_USAGE.c.agent_id == bindparam("of_agent"))
    .values(records=LOG_USAGE.c.records + bindparam("more_records"), bytes=LOG_USAGE.c.bytes + bindparam("more_bytes"))
)


def _row(event: Event) -> dict[str, Any]:
    body, gap = event.body, None
    match body:
        case LogRecord(source=source, text=text, level=level):
            fields = msgspec.json.encode(body.fields).decode() if body.fields else "{}"
        case Gap():
            source, level, gap = GAP_SOURCE, Level.WARNING, body.count
            text, fields = f"{body.count} records were given up by the node: {body.reason}", "{}"
        case _:
            # A newer agent's kind of record: kept whole, so that a newer hub can still read it.
            source, level, text = GAP_SOURCE, Level.INFO, "a record of a kind that this version of the hub cannot read"
            fields = msgspec.json.encode({"packed": encode_event(event)}).decode()
    return {
        "seq": event.seq,
        "time_ms": event.time_ms,
        "severity": Severity.of(level).value,
        "source": source,
        "text": text,
        "fields": fields,
        "gap": gap,
        "bytes": ROW_BYTES + len(source) + len(text.encode()) + len(fields.encode()),
    }


# --- reading


def page(
    connection: Connection, agent_id: str, wanted: LogFilter, *, after: int | None, newest_first: bool, limit: int
) -> LogPage:
    """At most ``limit`` records of a node beyond the id ``after``, in the order asked for; `SCAN_MAX` are looked at."""
    limit = min(limit, PAGE_MAX)
    order = LOGS.c.id.desc() if newest_first else LOGS.c.id.asc()
    reach = [LOGS.c.agent_id == agent_id]
    if after is not None:
        reach.append(LOGS.c.id < after if newest_first else LOGS.c.id > after)
    if wanted.since_ms is not None:
        first = _first_since(connection, agent_id, wanted.since_ms)
        if first is None:
            return LogPage((), None, reached=newest_id(connection, agent_id))
        reach.append(LOGS.c.id >= first)
    if wanted.until_ms is not None and (end := _first_since(connection, agent_id, wanted.until_ms)) is not None:
        reach.append(LOGS.c.id < end)
    border = None
    query: Select[Any] = select(LOGS).where(*reach)
    if wanted.selective:
        border = connection.scalar(select(LOGS.c.id).where(*reach).order_by(order).offset(SCAN_MAX - 1).limit(1))
        query = query.where(*_passing(wanted))
        if border is not None:
            query = query.where(LOGS.c.id >= border if newest_first else LOGS.c.id <= border)
    found = [_stored(row) for row in connection.execute(query.order_by(order).limit(limit + 1)).mappings()]
    if len(found) > limit:
        return LogPage(found[:limit], found[limit - 1].id, reached=found[limit - 1].id)
    if newest_first:
        return LogPage(found, border)
    newest = connection.scalar(select(func.max(LOGS.c.id)).where(*reach)) if border is None else border
    return LogPage(found, border, reached=newest or after or 0)


def _first_since(connection: Connection, agent_id: str, time_ms: int) -> int | None:
    """The id of a node's first record received at or after a time."""
    return connection.scalar(
        select(LOGS.c.id)
        .where(LOGS.c.agent_id == agent_id, LOGS.c.received_at_ms >= time_ms)
        .order_by(LOGS.c.received_at_ms, LOGS.c.id)
        .limit(1)
    )


def _passing(wanted: LogFilter) -> Iterable[ColumnElement[bool]]:
    if wanted.level is not Level.DEBUG:
        yield (LOGS.c.severity >= Severity.of(wanted.level).value) | LOGS.c.gap.is_not(None)
    if wanted.source:
        of_kind = LOGS.c.source.startswith(wanted.source + ":", autoescape=True)
        yield (LOGS.c.source == wanted.source) | of_kind | LOGS.c.gap.is_not(None)
    if wanted.contains:
        yield LOGS.c.text.icontains(wanted.contains, autoescape=True)


def _stored(row: Any) -> StoredLog:
    values = {name: row[name] for name in StoredLog.__struct_fields__ if name != "level"}
    return StoredLog(level=Severity(row["severity"]).level, **values)


def newest_id(connection: Connection, agent_id: str) -> int:
    """The id of a node's newest record; 0 without one."""
    return connection.scalar(select(func.max(LOGS.c.id)).where(LOGS.c.agent_id == agent_id)) or 0


def behind(connection: Connection, agent_id: str, after: int, count_max: int) -> int:
    """How many records of a node there are after an id, counted up to ``count_max``."""
    some = select(LOGS.c.id).where(LOGS.c.agent_id == agent_id, LOGS.c.id > after).limit(count_max).subquery()
    return connection.scalar(select(func.count()).select_from(some)) or 0


def usage(connection: Connection) -> tuple[int, int]:
    """Records and bytes kept, of all nodes."""
    records, size_bytes = connection.execute(
        select(func.coalesce(func.sum(LOG_USAGE.c.records), 0), func.coalesce(func.sum(LOG_USAGE.c.bytes), 0))
    ).one()
    return int(records), int(size_bytes)


# --- giving up


def expire(connection: Connection, before_ms: int, bytes_max: int, limit: int) -> int:
    """Delete some of what is too old or too much, at most ``limit`` records; how many. Zero: nothing is left to do.

    Too old: the oldest first. Too much: of the node that keeps most, so that a talkative one takes no other's place.
    """
    oldest = select(LOGS.c.id, LOGS.c.agent_id, LOGS.c.bytes, LOGS.c.received_at_ms).order_by(LOGS.c.id)
    rows = [row for row in connection.execute(oldest.limit(limit)) if row.received_at_ms < before_ms]
    if not rows:
        excess_bytes = usage(connection)[1] - bytes_max
        if excess_bytes <= 0:
            return 0
        fullest = connection.scalar(select(LOG_USAGE.c.agent_id).order_by(LOG_USAGE.c.bytes.desc()).limit(1))
        for row in connection.execute(oldest.where(LOGS.c.agent_id == fullest).limit(limit)):
            rows.append(row)
            excess_bytes -= row.bytes
            if excess_bytes <= 0:
                break
    records, size_bytes = Counter[str](), Counter[str]()
    for row in rows:
        records[row.agent_id] += 1
        size_bytes[row.agent_id] += row.bytes
    connection.execute(delete(LOGS).where(one_of_these(LOGS.c.id)), these(row.id for row in rows))
    if rows:
        less = [
            {"of_agent": agent_id, "more_records": -count, "more_bytes": -size_bytes[agent_id]}
            for agent_id, count in records.items()
        ]
        connection.execute(_COUNT, less)
    return len(rows)
