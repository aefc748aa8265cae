"""Statements about the ways in to nodes and the attempts to go them."""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, func, insert, select

from hub.ids import least
from hub.ssh.reach import Reach
from hub.ssh.record import Record
from hub.ssh.streams import shortened
from hub.store.base import PAGE_MAX
from hub.store.records import HubEvent
from hub.store.rows import from_row, to_row
from hub.store.schema import SSH_ATTEMPTS, SSH_TARGETS
from hub.store.sql_these import one_of_these, these
from hub.store.sql_work import add_hub_event

KEPT_OF_A_NODE = 200
"""Attempts; the oldest go first."""
BYTES_OF_A_NODE = 32 * 1024**2
"""Of their output: a node that floods every attempt takes no more than this."""
STDOUT_BYTES_MAX = 256 * 1024
"""Of one attempt's standard output. Of its stderr everything is kept that the record has."""
STDERR_LISTED_BYTES = 16 * 1024
"""Of each attempt in a listing: the first of them."""
ROW_BYTES = 512
"""Counted for what is not output."""


_BULK = {"stdout": 0, "before": 0, "verbose": STDERR_LISTED_BYTES, "stderr": STDERR_LISTED_BYTES}
_NOTHING: dict[str, bytes | str] = {"stdout": b"", "before": b"", "verbose": "", "stderr": b""}
_LISTED = [
    # SQLite makes NULL of a part of nothing.
    func.coalesce(
        func.substr(column, 1, _BULK[column.name], type_=column.type), _NOTHING[column.name], type_=column.type
    ).label(column.name)
    if column.name in _BULK
    else column
    for column in SSH_ATTEMPTS.c
]


def targets(connection: Connection) -> list[Reach]:
    """Every node's way in."""
    rows = connection.execute(select(SSH_TARGETS).order_by(SSH_TARGETS.c.node_id))
    return [from_row(Reach, row) for row in rows.mappings()]


def save_target(connection: Connection, reach: Reach, event: HubEvent | None) -> None:
    """Write down a way in, and who changed it."""
    connection.execute(delete(SSH_TARGETS).where(SSH_TARGETS.c.node_id == reach.node_id))
    connection.execute(insert(SSH_TARGETS), to_row(reach))
    if event is not None:
        add_hub_event(connection, event)


def add_attempts(
    connection: Connection, records: Sequence[Record], reach: Reach | None, event: HubEvent | None
) -> None:
    """Keep the tries of one attempt and what it says of the way; of the node's older ones as many as may stay."""
    if reach is not None:
        save_target(connection, reach, event)
    for record in records:
        row = to_row(record)
        row["stdout"] = shortened(record.stdout, STDOUT_BYTES_MAX)
        size_bytes = sum(len(row[name]) for name in ("stdout", "stderr", "before", "verbose", "argv")) + ROW_BYTES
        connection.execute(insert(SSH_ATTEMPTS), row | {"size_bytes": size_bytes})
    for node_id in {record.node_id for record in records}:
        _hold_to_quota(connection, node_id)


def _hold_to_quota(connection: Connection, node_id: str) -> None:
    """Delete a node's oldest attempts beyond the quota; the newest always stays."""
    rows = connection.execute(
        select(SSH_ATTEMPTS.c.id, SSH_ATTEMPTS.c.size_bytes)
        .where(SSH_ATTEMPTS.c.node_id == node_id)
        .order_by(SSH_ATTEMPTS.c.id.desc())
    ).all()
    total_bytes, gone = 0, []
    for number, row in enumerate(rows):
        total_bytes += row.size_bytes
        if number and (number >= KEPT_OF_A_NODE or total_bytes > BYTES_OF_A_NODE):
            gone.append(row.id)
    if gone:
        connection.execute(delete(SSH_ATTEMPTS).where(one_of_these(SSH_ATTEMPTS.c.id)), these(gone))


def attempt(connection: Connection, attempt_id: str) -> Record | None:
    """One attempt, whole."""
    row = connection.execute(select(SSH_ATTEMPTS).where(SSH_ATTEMPTS.c.id == attempt_id)).mappings().one_or_none()
    return None if row is None else from_row(Record, row)


def attempts(connection: Connection, node_id: str, before: str, limit: int) -> list[Record]:
    """A node's attempts, newest first, older than the id ``before`` if given; without the bulk of their output."""
    query = select(*_LISTED).where(SSH_ATTEMPTS.c.node_id == node_id)
    if before:
        query = query.where(SSH_ATTEMPTS.c.id < before)
    rows = connection.execute(query.order_by(SSH_ATTEMPTS.c.id.desc()).limit(min(limit, PAGE_MAX)))
    return [from_row(Record, row) for row in rows.mappings()]


def expire_attempts(connection: Connection, before_ms: int, limit: int) -> int:
    """Give up some of the attempts begun before; how many."""
    ids = list(
        connection.scalars(
            select(SSH_ATTEMPTS.c.id)
            .where(SSH_ATTEMPTS.c.id < least(before_ms))
            .order_by(SSH_ATTEMPTS.c.id)
            .limit(limit)
        )
    )
    if ids:
        connection.execute(delete(SSH_ATTEMPTS).where(one_of_these(SSH_ATTEMPTS.c.id)), these(ids))
    return len(ids)


def attempt_volume(connection: Connection) -> tuple[int, int]:
    """Rows and bytes of attempts."""
    rows, size_bytes = connection.execute(
        select(func.count(), func.coalesce(func.sum(SSH_ATTEMPTS.c.size_bytes), 0)).select_from(SSH_ATTEMPTS)
    ).one()
    return int(rows), int(size_bytes)
