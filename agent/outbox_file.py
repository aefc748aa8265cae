"""The outbox's one SQLite file, synchronous: every call is one transaction, fsynced when it returns.

Holds events until they are acknowledged, the jobs taken on and not ended, and which ones have ended. Numbers of a
stream have no holes: what is dropped on purpose stays as a `Gap` in its place. Used from one thread at a time.
The tables are in `agent.outbox_schema`, what is dropped in `agent.outbox_bounds`, and what becomes of a damaged file in
`agent.outbox_salvage`.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from agent import outbox_jobs
from agent.clock import Clock
from agent.errors import AgentError, ConfigFault, DiskFault
from agent.outbox_bounds import (
    BY_AGE,
    BY_SIZE,
    EXPIRE_EVERY_S,
    Bounds,
    Counts,
    DropReason,
    Row,
    StreamHeld,
    Times,
    oldest_bytes,
    outlived,
)
from agent.outbox_jobs import JobRecord
from agent.outbox_owner import Owner, begin_anew, leave_behind, note_owner, owner_of
from agent.outbox_rows import INSERT_EVENT, PUT_MARK, Head, event_of, gap_event, is_gap, row_of, stream_of
from agent.outbox_salvage import Salvaged, restored, salvage, write_salvaged
from agent.outbox_schema import is_damage, is_passing, opened, put_aside, put_back
from wire.frames import Event, EventBody, HeldRange, Stream
from wire.limits import HELD_RANGES_MAX
from wire.status import OutboxReading

FORGET_DELIVERED = (
    "DELETE FROM heads WHERE epoch != ? AND epoch NOT IN (SELECT epoch FROM events)",
    "DELETE FROM epochs WHERE epoch != ? AND epoch NOT IN (SELECT epoch FROM events)",
)


class OutboxRefused(AgentError):
    """The disk did not take it: full, or failing. Nothing was changed; it can be tried again."""


class OutboxFile:
    """See the module. ``damage`` says what was wrong with a file that had to be put aside, else None."""

    def __init__(self, path: Path, epoch: str, bounds: Bounds, clock: Clock) -> None:
        self.path = path
        self.epoch = epoch
        self.damage: str | None = None
        self._bounds = bounds
        self._clock = clock
        self._opened_ns = clock.monotonic_ns()
        self._expired_s = -EXPIRE_EVERY_S
        self._heads: dict[tuple[str, Stream], Head] = {}
        self._epochs: list[str] = []
        self._dropped: Counter[tuple[Stream, DropReason]] = Counter()
        damaged: Path | None = None
        try:
            self._database = opened(path)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                kind = DiskFault if is_passing(error) else ConfigFault
                raise kind(f"the outbox {path} cannot be opened: {error}") from None
            damaged = put_aside(path)
            self.damage = f"the outbox was damaged ({error}) and was kept as {damaged}"
            self._database = opened(path)
        try:
            self._begin(damaged)
        except OutboxRefused:
            self._database.close()
            if damaged is not None:
                put_back(path, damaged)
            raise

    def _begin(self, damaged: Path | None) -> None:
        """Put what can be saved out of a damaged file into the new one, forget what is delivered, begin an epoch."""
        found = salvage(damaged) if damaged is not None else Salvaged()
        saved = restored(found, self._bounds)
        with self._transaction() as database:
            write_salvaged(database, found, saved)
            # Epochs that ended with everything acknowledged have nothing more to say.
            for statement in FORGET_DELIVERED:
                database.execute(statement, (self.epoch,))
            database.execute("INSERT OR IGNORE INTO epochs (epoch) VALUES (?)", (self.epoch,))
            self._load()
            # Salvaged events that lost their place get a new one.
            now_ns = self._clock.monotonic_ns()
            self._insert(database, [(event.body, event.time_ms, now_ns) for event in saved.renumbered])
        self._dropped.update({(stream, DropReason.DAMAGE): count for stream, count in saved.lost.items() if count})
        if damaged is not None:
            kept = sum(len(events) for events in saved.streams.values()) + len(saved.renumbered)
            lost = ", ".join(f"{count} of {stream}" for stream, count in saved.lost.items() if count)
            self.damage = f"{self.damage}; {kept} records were saved" + (f", known to be lost: {lost}" if lost else "")

    def belongs_to(self, owner: Owner) -> Counter[Stream]:
        """Learn whose events are to be told, before the first session; what had to be left behind, by stream.

        A node that was enrolled anew tells what it holds under new numbers, or, to another hub than before, not at all.

        Raises:
            OutboxRefused: nothing was changed.
        """
        before = owner_of(self._database)
        if before == owner:
            return Counter()
        left = Counter[Stream]()
        with self._transaction() as database:
            if before is not None and before.hub_id != owner.hub_id:
                left = leave_behind(database, self.epoch)
            if before is not None:
                begin_anew(database, self._bounds.sentence(DropReason.DAMAGE))
            note_owner(database, owner)
        self._heads.clear()
        self._load()
        self._dropped.update({(stream, DropReason.OTHER_HUB): count for stream, count in left.items()})
        return left

    def _times(self) -> Times:
        return Times(self._clock.unix_ms(), self._clock.monotonic_ns(), self._opened_ns)

    def _load(self) -> None:
        rows = self._database.execute("SELECT epoch FROM epochs ORDER BY ordinal").fetchall()
        self._epochs = [epoch for (epoch,) in rows]
        for epoch, stream, last, acked in self._database.execute("SELECT epoch, stream, last, acked FROM heads"):
            self._heads[epoch, Stream(stream)] = Head(last, acked)
        grouped = "SELECT epoch, stream, count(*), sum(length(packed)) FROM events GROUP BY epoch, stream"
        for epoch, stream, count, size_bytes in self._database.execute(grouped):
            head = self._heads[epoch, Stream(stream)]
            head.rows, head.size_bytes = count, size_bytes

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        database = self._database
        try:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:  # a full disk makes SQLite roll back by itself
                    database.execute("ROLLBACK")
                raise
        except sqlite3.OperationalError as error:
            raise OutboxRefused(f"the outbox {self.path} did not take a record: {error}") from error

    # --- events ---------------------------------------------------------------------------------------------------

    def append(
        self, bodies: Sequence[tuple[EventBody, int, int]], marks: Mapping[str, bytes] | None = None
    ) -> list[int]:
        """Store events, each (body, unix ms, monotonic ns); their numbers, in order. One transaction, one fsync.

        ``marks`` are kept by name with them: how far whoever made the events has got.

        Raises:
            OutboxRefused: none of them was stored.
        """
        with self._rewinding(), self._transaction() as database:
            database.executemany(PUT_MARK, (marks or {}).items())
            return self._insert(database, bodies)

    def marks(self) -> dict[str, bytes]:
        """All marks, as last stored."""
        return dict(self._database.execute("SELECT name, value FROM marks").fetchall())

    @contextmanager
    def _rewinding(self) -> Iterator[None]:
        """Put the counters back when the transaction inside does not commit."""
        before = {key: (head.last, head.acked, head.rows, head.size_bytes) for key, head in self._heads.items()}
        dropped, expired_s = self._dropped.copy(), self._expired_s
        try:
            yield
        except BaseException:
            for key in [key for key in self._heads if key not in before]:
                del self._heads[key]
            for key, (last, acked, rows, size_bytes) in before.items():
                head = self._heads[key]
                head.last, head.acked, head.rows, head.size_bytes = last, acked, rows, size_bytes
            self._dropped, self._expired_s = dropped, expired_s
            raise

    def _insert(self, database: sqlite3.Connection, bodies: Iterable[tuple[EventBody, int, int]]) -> list[int]:
        numbers, rows = [], []
        for body, unix_ms, monotonic_ns in bodies:
            stream = stream_of(body)
            head = self._heads.setdefault((self.epoch, stream), Head())
            head.last += 1
            event = Event(seq=head.last, time_ms=unix_ms, monotonic_ns=monotonic_ns, body=body)
            row = row_of(self.epoch, stream, event)
            head.count_in(row)
            rows.append(row)
            numbers.append(head.last)
        database.executemany(INSERT_EVENT, rows)
        database.executemany(
            "INSERT INTO heads (epoch, stream, last, acked) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (epoch, stream) DO UPDATE SET last = excluded.last",
            [
                (self.epoch, stream, self._heads[self.epoch, Stream(stream)].last, 0)
                for stream in {stream for _, stream, *_ in rows}
            ],
        )
        self._make_room(database)
        return numbers

    # --- the bounds -----------------------------------------------------------------------------------------------

    def _make_room(self, database: sqlite3.Connection) -> None:
        """Drop what is too old, and the oldest of what is too much. Jobs are never dropped."""
        times = self._times()
        if times.monotonic_ns / 1e9 >= self._expired_s + EXPIRE_EVERY_S:
            self._expired_s = times.monotonic_ns / 1e9
            for stream in BY_AGE:
                for epoch in self._epochs:
                    rows = outlived(
                        self._rows(database, (epoch, stream)), times, self._bounds.age_s_max, own=epoch == self.epoch
                    )
                    self._drop(database, (epoch, stream), rows, DropReason.AGE)
        if self.bytes_held <= self._bounds.bytes_max:
            return
        excess_bytes = self.bytes_held - self._bounds.goal_bytes
        for stream in BY_SIZE:
            for epoch in self._epochs:
                if excess_bytes <= 0:
                    return
                rows = oldest_bytes(self._rows(database, (epoch, stream)), excess_bytes)
                excess_bytes -= self._drop(database, (epoch, stream), rows, DropReason.SIZE)

    def _rows(self, database: sqlite3.Connection, key: tuple[str, Stream]) -> Iterator[Row]:
        head = self._heads.get(key)
        if head is None or not head.rows:
            return
        query = (
            "SELECT seq, first, length(packed), time_ms, monotonic_ns FROM events"
            " WHERE epoch = ? AND stream = ? ORDER BY seq"
        )
        for row in database.execute(query, (key[0], key[1].value)):
            yield Row(*row)

    def _drop(self, database: sqlite3.Connection, key: tuple[str, Stream], rows: list[Row], reason: DropReason) -> int:
        """Replace these rows, the oldest of their stream, by one gap; the bytes that are freed.

        One alone stays where room is wanted, since a gap would be no smaller.
        """
        if not rows or (len(rows) == 1 and reason is DropReason.SIZE):
            return 0
        epoch, stream = key
        where = (epoch, stream.value, rows[-1].seq)
        # Only the oldest can be a gap already: it was counted when it was made.
        (packed,) = database.execute(
            "SELECT packed FROM events WHERE epoch = ? AND stream = ? AND seq = ?", (*where[:2], rows[0].seq)
        ).fetchone()
        oldest, newest = rows[0], rows[-1]
        was_gap = is_gap(packed)
        if was_gap and oldest is newest:
            return 0
        head = self._heads[key]
        before_bytes = head.size_bytes
        database.execute("DELETE FROM events WHERE epoch = ? AND stream = ? AND seq <= ?", where)
        head.rows -= len(rows)
        head.size_bytes -= sum(row.size_bytes for row in rows)
        self._dropped[stream, reason] += len(rows) - was_gap
        gap = gap_event(oldest.first, newest.seq, newest.time_ms, newest.monotonic_ns, self._bounds.sentence(reason))
        row = row_of(epoch, stream, gap)
        database.execute(INSERT_EVENT, row)
        head.count_in(row)
        return before_bytes - head.size_bytes

    def read(self, epoch: str, stream: Stream, after_seq: int, count_max: int, bytes_max: int) -> list[Event]:
        """Held events after ``after_seq``, ascending, at most ``count_max``; at least one if any, whatever its size.

        A gap may begin at or before ``after_seq``; the session cuts it to what is new. What the disk has garbled is
        replaced by something that keeps its number, so that it stops nothing.

        Raises:
            OutboxRefused: the disk did not give them now.
        """
        events: list[Event] = []
        size_bytes = 0
        query = (
            "SELECT seq, first, time_ms, monotonic_ns, packed FROM events"
            " WHERE epoch = ? AND stream = ? AND seq > ? ORDER BY seq LIMIT ?"  # bounded
        )
        try:
            for row in self._database.execute(query, (epoch, stream.value, after_seq, count_max)):
                size_bytes += len(row[-1])
                if events and size_bytes > bytes_max:
                    break
                events.append(event_of(stream, *row, reason=self._bounds.sentence(DropReason.DAMAGE)))
        except sqlite3.OperationalError as error:
            raise OutboxRefused(f"the outbox {self.path} cannot be read: {error}") from error
        return events

    def acknowledge(self, epoch: str, stream: Stream, seq: int) -> None:
        """Forget everything up to ``seq``: the hub has it. Numbers never given are ignored.

        Raises:
            OutboxRefused: nothing was forgotten; the next acknowledgement covers it.
        """
        head = self._heads.get((epoch, stream))
        if head is None or seq <= head.acked:
            return
        seq = min(seq, head.last)
        with self._transaction() as database:
            where = "WHERE epoch = ? AND stream = ? AND seq <= ?"
            rows, size_bytes = database.execute(
                f"SELECT count(*), coalesce(sum(length(packed)), 0) FROM events {where}",  # noqa: S608 - a constant
                (epoch, stream.value, seq),
            ).fetchone()
            database.execute(f"DELETE FROM events {where}", (epoch, stream.value, seq))  # noqa: S608 - a constant
            database.execute("UPDATE heads SET acked = ? WHERE epoch = ? AND stream = ?", (seq, epoch, stream.value))
            gone = epoch != self.epoch and head.rows == rows and not self._others_held(epoch, stream)
            if gone:
                database.execute("DELETE FROM heads WHERE epoch = ?", (epoch,))
                database.execute("DELETE FROM epochs WHERE epoch = ?", (epoch,))
        head.acked = seq
        head.rows -= rows
        head.size_bytes -= size_bytes
        if gone:
            self._epochs.remove(epoch)
            for each in Stream:
                self._heads.pop((epoch, each), None)

    def _others_held(self, epoch: str, stream: Stream) -> bool:
        heads = (self._heads.get((epoch, each)) for each in Stream if each is not stream)
        return any(head is not None and head.rows for head in heads)

    # --- what is held ---------------------------------------------------------------------------------------------

    @property
    def bytes_held(self) -> int:
        """Bytes of packed events held."""
        return sum(head.size_bytes for head in self._heads.values())

    def reading(self) -> OutboxReading:
        """The gauge."""
        held = sum(head.rows for head in self._heads.values())
        return OutboxReading(events_held=held, bytes_held=self.bytes_held, dropped=self._dropped.total())

    def counts(self) -> Counts:
        """The same by stream, and drops by reason."""
        held = {
            stream: StreamHeld(
                events=sum(head.rows for (_, which), head in self._heads.items() if which is stream),
                bytes_=sum(head.size_bytes for (_, which), head in self._heads.items() if which is stream),
            )
            for stream in Stream
        }
        return Counts(held=held, dropped=dict(self._dropped))

    def held(self) -> list[HeldRange]:
        """Every range held: the present epoch's, and before them older ones in replay order, oldest first.

        At most ``HELD_RANGES_MAX``: epochs that find no room wait for the next session.
        """
        present: list[HeldRange] = []
        older: list[HeldRange] = []
        for stream in Stream:
            for epoch in self._epochs:
                head = self._heads.get((epoch, stream))
                if head is not None and head.rows:
                    held = HeldRange(epoch=epoch, stream=stream, first=head.acked + 1, last=head.last)
                    (present if epoch == self.epoch else older).append(held)
        return older[: HELD_RANGES_MAX - len(present)] + present

    # --- jobs -----------------------------------------------------------------------------------------------------

    def hold_job(self, record: JobRecord) -> None:
        """Remember a job taken on, or which worker it was given to.

        Raises:
            OutboxRefused: it is not remembered.
        """
        with self._transaction() as database:
            outbox_jobs.hold(database, record)

    def end_job(self, job: str, attempt: int, body: EventBody, unix_ms: int, monotonic_ns: int) -> bool:
        """Store how an attempt ended and forget that it is held, as one; False if its end was stored before.

        Raises:
            OutboxRefused: nothing was stored.
        """
        with self._rewinding(), self._transaction() as database:
            known = outbox_jobs.is_ended(database, job, attempt)
            if not known:
                (seq,) = self._insert(database, [(body, unix_ms, monotonic_ns)])
                outbox_jobs.note_end(database, job, attempt, self.epoch, seq)
            outbox_jobs.let_go(database, job, attempt)
            return not known

    def jobs_held(self) -> list[JobRecord]:
        """The jobs taken on and not ended, oldest first."""
        return outbox_jobs.held(self._database)

    def jobs_ended(self) -> list[tuple[str, int]]:
        """The (job, attempt) pairs known to have ended, oldest first."""
        return outbox_jobs.ended(self._database)

    def results_held(self) -> list[tuple[str, int]]:
        """Those whose end is not acknowledged yet, newest first, at most ``JOBS_HELD_MAX``."""
        return outbox_jobs.unacknowledged(self._database)
