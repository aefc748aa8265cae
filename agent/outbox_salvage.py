"""What can still be read in a damaged outbox file. No row is trusted: each is checked as if it were hostile.

Rows are read in the order of their place in the file; where a page is unreadable, the reader jumps over it.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

from agent.outbox_bounds import Bounds, DropReason
from agent.outbox_rows import INSERT_EVENT, PUT_MARK, decoded, gap_event, row_of
from wire import codec
from wire.errors import RemoteProtocolError
from wire.frames import AssignJob, Event, Gap, Stream

FAILURES_MAX = 512
"""Jumps over unreadable pages; each costs one page read."""
Key = tuple[str, Stream]
Job = tuple[str, int, bytes, str | None, int | None]
End = tuple[str, int, str, int]
"""Rows of the tables ``jobs`` and ``ended``."""


class Salvaged(Struct):
    """What was read. ``heads`` is (last, acked) by stream."""

    epochs: list[str] = field(default_factory=list)
    heads: dict[Key, tuple[int, int]] = field(default_factory=dict)
    events: dict[Key, list[Event]] = field(default_factory=dict)
    jobs: list[Job] = field(default_factory=list)
    ended: list[End] = field(default_factory=list)
    marks: dict[str, bytes] = field(default_factory=dict)


class Restored(Struct):
    """What goes into the new file: streams whose numbers are known whole, and events that need a new number."""

    streams: dict[Key, list[Event]] = field(default_factory=dict)
    """Without holes from the acknowledged number to the last."""
    renumbered: list[Event] = field(default_factory=list)
    lost: dict[Stream, int] = field(default_factory=dict)
    """Numbers that are covered by a gap, or were of no use."""


def salvage(path: Path) -> Salvaged:
    """Read what can be read; the file is not changed."""
    found = Salvaged()
    try:
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
    except sqlite3.DatabaseError:
        return found
    try:
        # Only a flag, and the file is opened to be read: with it a file that was cut off is read as far as it goes.
        database.execute("PRAGMA writable_schema=ON")
        found.epochs = [str(epoch) for (epoch,) in _rows(database, "epochs", "epoch") if _is_id(epoch)]
        for epoch, stream, last, acked in _rows(database, "heads", "epoch, stream, last, acked"):
            key = _key(epoch, stream)
            if key is not None and isinstance(last, int) and isinstance(acked, int) and 0 <= acked <= last:
                found.heads[key] = (last, acked)
        for epoch, stream, seq, packed in _rows(database, "events", "epoch, stream, seq, packed"):
            key, event = _key(epoch, stream), _event(seq, packed)
            if key is not None and event is not None:
                found.events.setdefault(key, []).append(event)
        jobs = _rows(database, "jobs", "job, attempt, assignment, device, pid")
        found.jobs = [job for row in jobs if (job := _job(row)) is not None]
        ended = _rows(database, "ended", "job, attempt, epoch, seq")
        found.ended = [end for row in ended if (end := _end(row)) is not None]
        for name, value in _rows(database, "marks", "name, value"):
            if isinstance(name, str) and isinstance(value, bytes):
                found.marks[name] = value
    finally:
        database.close()
    known = set(found.epochs)
    found.epochs += sorted({epoch for epoch, _ in (*found.heads, *found.events)} - known)
    return found


def _rows(database: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[object, ...]]:
    """Rows by their place, over unreadable ones in steps that double."""
    query = f"SELECT rowid, {columns} FROM {table} NOT INDEXED WHERE rowid > ? ORDER BY rowid"  # noqa: S608 - constants
    place, step = -1, 1
    for _ in range(FAILURES_MAX):
        try:
            for rowid, *row in database.execute(query, (place,)):
                place, step = rowid, 1
                yield tuple(row)
        except sqlite3.DatabaseError:
            place, step = place + step, min(step * 2, 1 << 40)
            if place >= 1 << 62:
                return
        else:
            return


def _is_id(epoch: object) -> bool:
    return isinstance(epoch, str) and len(epoch) == 36  # noqa: PLR2004 - a UUID's text


def _key(epoch: object, stream: object) -> Key | None:
    if not isinstance(epoch, str) or not _is_id(epoch) or stream not in {each.value for each in Stream}:
        return None
    return epoch, Stream(stream)


def _event(seq: object, packed: object) -> Event | None:
    if not isinstance(packed, bytes):
        return None
    event = decoded(packed)
    return event if event is not None and event.seq == seq else None


def _job(row: tuple[object, ...]) -> Job | None:
    job, attempt, assignment, device, pid = row
    if not isinstance(assignment, bytes) or not isinstance(device, str | None) or not isinstance(pid, int | None):
        return None
    try:
        frame = codec.decode_hub(assignment)
    except RemoteProtocolError:
        return None
    if not isinstance(frame, AssignJob) or (frame.job, frame.attempt) != (job, attempt):
        return None
    return frame.job, frame.attempt, assignment, device, pid


def _end(row: tuple[object, ...]) -> End | None:
    job, attempt, epoch, seq = row
    if isinstance(job, str) and isinstance(attempt, int) and isinstance(epoch, str) and isinstance(seq, int):
        return job, attempt, epoch, seq
    return None


def restored(found: Salvaged, bounds: Bounds) -> Restored:
    """Put together what was read.

    A stream whose head was read keeps its numbers: holes become gaps, so that the hub can still tell what it has from
    what it lacks. Jobs have no gaps, and without a head nobody knows which numbers the hub has seen: ends of jobs and
    node events of such streams get new numbers, which at worst says something twice. Readings and logs are given up.
    """
    made = Restored()
    for key in {**found.heads, **found.events}:
        stream = key[1]
        events = sorted(found.events.get(key, []), key=lambda event: event.seq)
        head = found.heads.get(key)
        if head is not None:
            whole = _without_holes(events, *head, bounds.sentence(DropReason.DAMAGE))
            gaps = sum(each.body.count for each in whole if isinstance(each.body, Gap) and each not in events)
            if stream is not Stream.JOBS or not gaps:
                made.streams[key] = whole
                made.lost[stream] = made.lost.get(stream, 0) + gaps
                continue
            made.lost[stream] = made.lost.get(stream, 0) + gaps
        if stream in (Stream.JOBS, Stream.EVENTS):
            made.renumbered += [each for each in events if not isinstance(each.body, Gap)]
        else:
            made.lost[stream] = made.lost.get(stream, 0) + len(events)
    return made


def _without_holes(events: list[Event], last: int, acked: int, reason: str) -> list[Event]:
    """Events behind ``acked`` up to ``last``, gaps in place of what is missing."""
    whole: list[Event] = []
    position = acked
    for event in events:
        first = event.body.first if isinstance(event.body, Gap) else event.seq
        if event.seq <= position or event.seq > last:
            continue
        if first > position + 1:
            whole.append(_gap(position + 1, first - 1, event, reason))
        whole.append(event)
        position = event.seq
    if position < last:
        whole.append(_gap(position + 1, last, whole[-1] if whole else None, reason))
    return whole


def _gap(first: int, last: int, beside: Event | None, reason: str) -> Event:
    """A gap that takes its time from the event beside it."""
    time_ms, monotonic_ns = (beside.time_ms, beside.monotonic_ns) if beside is not None else (0, 0)
    return gap_event(first, last, time_ms, monotonic_ns, reason)


def write_salvaged(database: sqlite3.Connection, found: Salvaged, saved: Restored) -> None:
    """Put what was read out of a damaged file into the new one."""
    database.executemany("INSERT OR IGNORE INTO epochs (epoch) VALUES (?)", [(epoch,) for epoch in found.epochs])
    for (epoch, stream), events in saved.streams.items():
        last, acked = found.heads[epoch, stream]
        database.execute("INSERT INTO heads VALUES (?, ?, ?, ?)", (epoch, stream.value, last, acked))
        database.executemany(INSERT_EVENT, [row_of(epoch, stream, event) for event in events])
    database.executemany("INSERT OR IGNORE INTO jobs VALUES (?, ?, ?, ?, ?)", found.jobs)
    database.executemany("INSERT OR IGNORE INTO ended (job, attempt, epoch, seq) VALUES (?, ?, ?, ?)", found.ended)
    database.executemany(PUT_MARK, found.marks.items())
