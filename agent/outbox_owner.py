"""Whose events the outbox holds, and what becomes of them when the node is enrolled anew. Inside its transactions.

The hub numbers what it has by agent, so a new identity begins every held epoch at 1, as if nothing of it had ever been
delivered: what the old identity delivered is told already. A new hub is another's, and is told nothing of it.
"""

import sqlite3
from collections import Counter

import msgspec
from msgspec import Struct

from agent.outbox_rows import INSERT_EVENT, PUT_MARK, event_of, row_of
from wire.frames import Event, Gap, Stream

MARK = "owner"


class Owner(Struct, frozen=True):
    """The identity whose events these are."""

    hub_id: str
    agent_id: str


def owner_of(database: sqlite3.Connection) -> Owner | None:
    """The identity noted last; None if none was, or if no sense can be made of it."""
    row = database.execute("SELECT value FROM marks WHERE name = ?", (MARK,)).fetchone()
    try:
        return msgspec.msgpack.decode(row[0], type=Owner) if row is not None else None
    except msgspec.DecodeError:
        return None


def note_owner(database: sqlite3.Connection, owner: Owner) -> None:
    """From now on the events are those of ``owner``."""
    database.execute(PUT_MARK, (MARK, msgspec.msgpack.encode(owner)))


def begin_anew(database: sqlite3.Connection, reason: str) -> None:
    """Number every stream as if nothing of it had been delivered.

    Args:
        database: inside a transaction.
        reason: what a gap says that stands for a garbled event.
    """
    delivered = database.execute("SELECT epoch, stream, acked FROM heads WHERE acked > 0").fetchall()
    for epoch, stream, acked in delivered:
        numbers = database.execute(
            "SELECT seq FROM events WHERE epoch = ? AND stream = ? ORDER BY seq", (epoch, stream)
        ).fetchall()
        for (seq,) in numbers:  # ascending: each moves to a number that is free by then
            where = (epoch, stream, seq)
            first, time_ms, monotonic_ns, packed = database.execute(
                "SELECT first, time_ms, monotonic_ns, packed FROM events WHERE epoch = ? AND stream = ? AND seq = ?",
                where,
            ).fetchone()
            event = event_of(Stream(stream), seq, first, time_ms, monotonic_ns, packed, reason=reason)
            database.execute("DELETE FROM events WHERE epoch = ? AND stream = ? AND seq = ?", where)
            database.execute(INSERT_EVENT, row_of(epoch, Stream(stream), _earlier(event, acked)))
        if stream == Stream.JOBS:
            database.execute("UPDATE ended SET seq = seq - ? WHERE epoch = ?", (acked, epoch))
        database.execute(
            "UPDATE heads SET last = last - acked, acked = 0 WHERE epoch = ? AND stream = ?", (epoch, stream)
        )


def _earlier(event: Event, by: int) -> Event:
    """The event with a number smaller ``by`` so many."""
    seq, body = event.seq - by, event.body
    if isinstance(body, Gap):
        first = max(body.first - by, 1)
        body = Gap(first=first, last=seq, count=seq - first + 1, reason=body.reason)
    return msgspec.structs.replace(event, seq=seq, body=body)


def leave_behind(database: sqlite3.Connection, epoch: str) -> Counter[Stream]:
    """Forget what older epochs hold; how many events that were, by stream.

    Args:
        database: inside a transaction.
        epoch: the running one, which stays.
    """
    counted = database.execute("SELECT stream, count(*) FROM events WHERE epoch != ? GROUP BY stream", (epoch,))
    lost = Counter({Stream(stream): count for stream, count in counted})
    for table in ("events", "heads", "epochs"):
        database.execute(f"DELETE FROM {table} WHERE epoch != ?", (epoch,))  # noqa: S608 - one of three constants
    return lost
