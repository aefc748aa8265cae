"""The outbox's one SQLite file, synchronous: every call is one transaction, fsynced when it returns.

Holds events until they are acknowledged, the jobs taken on and not ended, and which ones have ended. Numbers of a
stream have no holes: what is dropped on purpose stays as a `Gap` in its place. Used from one thread at a time.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from agent.errors import AgentError, ConfigFault, DiskFault
from wire import codec
from wire.errors import RemoteProtocolError
from wire.frames import AssignJob, Event, EventBody, Gap, HeldRange, LogRecord, NodeEvent, Stream
from wire.limits import HELD_RANGES_MAX, JOBS_HELD_MAX
from wire.status import OutboxReading

SCHEMA_VERSION = 1
ENDED_KEPT = 4096
"""Jobs remembered as ended, so that a result said twice is stored once."""
DROP_RATIO = 16
"""When the file is full, this part of the bound is freed at once: not one gap per append."""
BUSY_S = 10.0
JOURNAL_BYTES_MAX = 8 * 1024 * 1024
CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
PASSING = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})
"""A disk that is full or fails."""
PRIMARY_CODE = 0xFF
"""Of SQLite's extended result codes, which say more in the higher bits."""

SCHEMA = """
CREATE TABLE epochs (ordinal INTEGER PRIMARY KEY AUTOINCREMENT, epoch TEXT NOT NULL UNIQUE);
CREATE TABLE heads (
    epoch TEXT NOT NULL, stream TEXT NOT NULL, last INTEGER NOT NULL, acked INTEGER NOT NULL,
    PRIMARY KEY (epoch, stream)
);
CREATE TABLE events (
    epoch TEXT NOT NULL, stream TEXT NOT NULL, seq INTEGER NOT NULL, first INTEGER NOT NULL, packed BLOB NOT NULL,
    PRIMARY KEY (epoch, stream, seq)
);
CREATE TABLE jobs (
    job TEXT NOT NULL, attempt INTEGER NOT NULL, assignment BLOB NOT NULL, device TEXT, pid INTEGER,
    PRIMARY KEY (job, attempt)
);
CREATE TABLE ended (
    ordinal INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL, attempt INTEGER NOT NULL,
    epoch TEXT NOT NULL, seq INTEGER NOT NULL, UNIQUE (job, attempt)
);
"""

FORGET_DELIVERED = (
    "DELETE FROM heads WHERE epoch != ? AND epoch NOT IN (SELECT epoch FROM events)",
    "DELETE FROM epochs WHERE epoch != ? AND epoch NOT IN (SELECT epoch FROM events)",
)


class OutboxRefused(AgentError):
    """The disk did not take it: full, or failing. Nothing was changed; it can be tried again."""


class JobRecord(Struct, frozen=True):
    """A job taken on and not ended; ``device`` and ``pid`` from when a worker was given it."""

    assignment: AssignJob
    device: str | None = None
    pid: int | None = None


class _Head:
    """One stream of one epoch. ``rows`` counts what is held, gaps included."""

    def __init__(self, last: int = 0, acked: int = 0) -> None:
        self.last = last
        self.acked = acked
        self.rows = 0
        self.size_bytes = 0


class OutboxFile:
    """See the module. ``damage`` says what was wrong with a file that had to be put aside, else None."""

    def __init__(self, path: Path, epoch: str, bytes_max: int) -> None:
        self.path = path
        self.epoch = epoch
        self.damage: str | None = None
        self._bytes_max = bytes_max
        self._heads: dict[tuple[str, Stream], _Head] = {}
        self._epochs: list[str] = []
        self._dropped = 0
        try:
            self._database = self._opened()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and _code(error) not in CORRUPT:
                kind = DiskFault if (_code(error) or 0) & PRIMARY_CODE in PASSING else ConfigFault
                raise kind(f"the outbox {path} cannot be opened: {error}") from None
            self.damage = self._put_aside(error)
            self._database = self._opened()
        with self._transaction() as database:
            # Epochs that ended with everything acknowledged have nothing more to say.
            for statement in FORGET_DELIVERED:
                database.execute(statement, (epoch,))
            database.execute("INSERT OR IGNORE INTO epochs (epoch) VALUES (?)", (epoch,))
        self._load()

    # --- opening --------------------------------------------------------------------------------------------------

    def _opened(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            self.path.chmod(0o600)
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=FULL")
            database.execute(f"PRAGMA journal_size_limit={JOURNAL_BYTES_MAX}")
            self._check(database)
        except BaseException:
            database.close()
            raise
        return database

    def _check(self, database: sqlite3.Connection) -> None:
        (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise ConfigFault(f"the outbox {self.path} was written by a newer version; upgrade this agent again")
        if version == 0:
            database.executescript(f"BEGIN;{SCHEMA}PRAGMA user_version={SCHEMA_VERSION};COMMIT;")

    def _put_aside(self, error: sqlite3.DatabaseError) -> str:
        """Keep a damaged file as evidence and make room for a new one; the sentence about it."""
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
            number += 1
        self.path.rename(aside)
        for suffix in ("-wal", "-shm"):
            extra = self.path.with_name(self.path.name + suffix)
            if extra.exists():
                extra.rename(aside.with_name(aside.name + suffix))
        return f"the outbox was damaged ({error}) and was kept as {aside}; what it held is not delivered"

    def _load(self) -> None:
        rows = self._database.execute("SELECT epoch FROM epochs ORDER BY ordinal").fetchall()
        self._epochs = [epoch for (epoch,) in rows]
        for epoch, stream, last, acked in self._database.execute("SELECT epoch, stream, last, acked FROM heads"):
            self._heads[epoch, Stream(stream)] = _Head(last, acked)
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

    def append(self, bodies: Iterable[tuple[EventBody, int, int]]) -> list[int]:
        """Store events, each (body, unix ms, monotonic ns); their numbers, in order.

        Raises:
            OutboxRefused: none of them was stored.
        """
        with self._rewinding(), self._transaction() as database:
            return [self._insert(database, *body) for body in bodies]

    @contextmanager
    def _rewinding(self) -> Iterator[None]:
        """Put the counters back when the transaction inside does not commit."""
        before = {key: (head.last, head.acked, head.rows, head.size_bytes) for key, head in self._heads.items()}
        dropped = self._dropped
        try:
            yield
        except BaseException:
            for key in [key for key in self._heads if key not in before]:
                del self._heads[key]
            for key, (last, acked, rows, size_bytes) in before.items():
                head = self._heads[key]
                head.last, head.acked, head.rows, head.size_bytes = last, acked, rows, size_bytes
            self._dropped = dropped
            raise

    def _insert(self, database: sqlite3.Connection, body: EventBody, unix_ms: int, monotonic_ns: int) -> int:
        stream = stream_of(body)
        head = self._heads.setdefault((self.epoch, stream), _Head())
        seq = head.last + 1
        packed = codec.encode_event(Event(seq=seq, time_ms=unix_ms, monotonic_ns=monotonic_ns, body=body))
        self._put(database, (self.epoch, stream), seq, seq, packed)
        head.last = seq
        database.execute(
            "INSERT INTO heads (epoch, stream, last, acked) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (epoch, stream) DO UPDATE SET last = excluded.last",
            (self.epoch, stream.value, seq, head.acked),
        )
        self._make_room(database, unix_ms, monotonic_ns)
        return seq

    def _put(self, database: sqlite3.Connection, key: tuple[str, Stream], first: int, seq: int, packed: bytes) -> None:
        database.execute(
            "INSERT INTO events (epoch, stream, seq, first, packed) VALUES (?, ?, ?, ?, ?)",
            (key[0], key[1].value, seq, first, packed),
        )
        self._heads[key].rows += 1
        self._heads[key].size_bytes += len(packed)

    def _make_room(self, database: sqlite3.Connection, unix_ms: int, monotonic_ns: int) -> None:
        """Drop the oldest logs, then the oldest events, until the bound holds. Jobs are never dropped."""
        if self.bytes_held <= self._bytes_max:
            return
        goal_bytes = self._bytes_max - self._bytes_max // DROP_RATIO
        for stream in (Stream.LOGS, Stream.EVENTS):
            for epoch in self._epochs:
                head = self._heads.get((epoch, stream))
                if head is not None and head.rows > 1:
                    self._drop(database, (epoch, stream), self.bytes_held - goal_bytes, unix_ms, monotonic_ns)
                if self.bytes_held <= goal_bytes:
                    return

    def _drop(
        self, database: sqlite3.Connection, key: tuple[str, Stream], free_bytes: int, unix_ms: int, monotonic_ns: int
    ) -> None:
        """Replace the oldest rows of one stream by one gap, until ``free_bytes`` are freed or all are gone."""
        epoch, stream = key[0], key[1].value
        first = last = freed_bytes = rows = 0
        query = "SELECT seq, first, length(packed) FROM events WHERE epoch = ? AND stream = ? ORDER BY seq"
        for seq, row_first, size_bytes in database.execute(query, (epoch, stream)):
            first = first or row_first
            last, freed_bytes, rows = seq, freed_bytes + size_bytes, rows + 1
            if freed_bytes >= free_bytes:
                break
        database.execute("DELETE FROM events WHERE epoch = ? AND stream = ? AND seq <= ?", (epoch, stream, last))
        head = self._heads[key]
        head.rows -= rows
        head.size_bytes -= freed_bytes
        self._dropped += rows
        gap = Gap(first=first, last=last, count=last - first + 1, reason=f"the outbox held {self._bytes_max} bytes")
        packed = codec.encode_event(Event(seq=last, time_ms=unix_ms, monotonic_ns=monotonic_ns, body=gap))
        self._put(database, key, first, last, packed)

    def read(self, epoch: str, stream: Stream, after_seq: int, count_max: int, bytes_max: int) -> list[Event]:
        """Held events after ``after_seq``, ascending, at most ``count_max``; at least one if any, whatever its size.

        A gap may begin at or before ``after_seq``; the session cuts it to what is new.

        Raises:
            OutboxRefused: the disk did not give them now.
        """
        events: list[Event] = []
        size_bytes = 0
        query = "SELECT packed FROM events WHERE epoch = ? AND stream = ? AND seq > ? ORDER BY seq LIMIT ?"  # bounded
        try:
            for (packed,) in self._database.execute(query, (epoch, stream.value, after_seq, count_max)):
                size_bytes += len(packed)
                if events and size_bytes > bytes_max:
                    break
                events.append(codec.decode_event(packed))
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
        return OutboxReading(events_held=held, bytes_held=self.bytes_held, dropped=self._dropped)

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
        assignment = record.assignment
        with self._transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO jobs (job, attempt, assignment, device, pid) VALUES (?, ?, ?, ?, ?)",
                (assignment.job, assignment.attempt, codec.encode(assignment), record.device, record.pid),
            )

    def jobs_held(self) -> list[JobRecord]:
        """The jobs taken on and not ended, oldest first."""
        records = []
        for packed, device, pid in self._database.execute("SELECT assignment, device, pid FROM jobs ORDER BY rowid"):
            try:
                assignment = codec.decode_hub(packed)
            except RemoteProtocolError:
                continue  # of another version: its lease runs out at the hub
            if isinstance(assignment, AssignJob):
                records.append(JobRecord(assignment=assignment, device=device, pid=pid))
        return records

    def end_job(self, job: str, attempt: int, body: EventBody, unix_ms: int, monotonic_ns: int) -> bool:
        """Store how an attempt ended and forget that it is held, as one; False if its end was stored before.

        Raises:
            OutboxRefused: nothing was stored.
        """
        with self._rewinding(), self._transaction() as database:
            known = database.execute("SELECT 1 FROM ended WHERE job = ? AND attempt = ?", (job, attempt)).fetchone()
            if known is None:
                seq = self._insert(database, body, unix_ms, monotonic_ns)
                database.execute(
                    "INSERT INTO ended (job, attempt, epoch, seq) VALUES (?, ?, ?, ?)", (job, attempt, self.epoch, seq)
                )
                database.execute(
                    "DELETE FROM ended WHERE ordinal <= (SELECT max(ordinal) FROM ended) - ?", (ENDED_KEPT,)
                )
            database.execute("DELETE FROM jobs WHERE job = ? AND attempt = ?", (job, attempt))
            return known is None

    def jobs_ended(self) -> list[tuple[str, int]]:
        """The (job, attempt) pairs known to have ended, oldest first."""
        return self._database.execute("SELECT job, attempt FROM ended ORDER BY ordinal").fetchall()

    def results_held(self) -> list[tuple[str, int]]:
        """Those whose end is not acknowledged yet, newest first, at most ``JOBS_HELD_MAX``."""
        query = (
            "SELECT job, attempt FROM ended JOIN heads ON heads.epoch = ended.epoch AND heads.stream = ?"
            " WHERE ended.seq > heads.acked ORDER BY ordinal DESC LIMIT ?"
        )
        return self._database.execute(query, (Stream.JOBS.value, JOBS_HELD_MAX)).fetchall()


def stream_of(body: EventBody) -> Stream:
    """The stream a body belongs to."""
    if isinstance(body, NodeEvent):
        return Stream.EVENTS
    return Stream.LOGS if isinstance(body, LogRecord) else Stream.JOBS


def _code(error: sqlite3.Error) -> int | None:
    return getattr(error, "sqlite_errorcode", None)
