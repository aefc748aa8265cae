"""The outbox's tables of jobs: those taken on and not ended, and those known to have ended. Inside its transactions."""

import sqlite3

from msgspec import Struct

from wire import codec
from wire.errors import RemoteProtocolError
from wire.frames import AssignJob, Stream
from wire.limits import JOBS_HELD_MAX

ENDED_KEPT = 4096
"""Jobs remembered as ended, so that a result said twice is stored once."""


class JobRecord(Struct, frozen=True):
    """A job taken on and not ended; ``device`` and ``pid`` from when a worker was given it."""

    assignment: AssignJob
    device: str | None = None
    pid: int | None = None


def hold(database: sqlite3.Connection, record: JobRecord) -> None:
    """Remember a job, or which worker it was given to."""
    assignment = record.assignment
    database.execute(
        "INSERT OR REPLACE INTO jobs (job, attempt, assignment, device, pid) VALUES (?, ?, ?, ?, ?)",
        (assignment.job, assignment.attempt, codec.encode(assignment), record.device, record.pid),
    )


def held(database: sqlite3.Connection) -> list[JobRecord]:
    """The jobs taken on and not ended, oldest first."""
    records = []
    for packed, device, pid in database.execute("SELECT assignment, device, pid FROM jobs ORDER BY rowid"):
        try:
            assignment = codec.decode_hub(packed)
        except RemoteProtocolError:
            continue  # of another version: its lease runs out at the hub
        if isinstance(assignment, AssignJob):
            records.append(JobRecord(assignment=assignment, device=device, pid=pid))
    return records


def let_go(database: sqlite3.Connection, job: str, attempt: int) -> None:
    """Forget that an attempt is held."""
    database.execute("DELETE FROM jobs WHERE job = ? AND attempt = ?", (job, attempt))


def is_ended(database: sqlite3.Connection, job: str, attempt: int) -> bool:
    """Whether the end of an attempt was stored before."""
    row = database.execute("SELECT 1 FROM ended WHERE job = ? AND attempt = ?", (job, attempt)).fetchone()
    return row is not None


def note_end(database: sqlite3.Connection, job: str, attempt: int, epoch: str, seq: int) -> None:
    """Remember that the end of an attempt is event ``seq`` of stream ``jobs``."""
    database.execute("INSERT INTO ended (job, attempt, epoch, seq) VALUES (?, ?, ?, ?)", (job, attempt, epoch, seq))
    database.execute("DELETE FROM ended WHERE ordinal <= (SELECT max(ordinal) FROM ended) - ?", (ENDED_KEPT,))


def ended(database: sqlite3.Connection) -> list[tuple[str, int]]:
    """The (job, attempt) pairs known to have ended, oldest first."""
    return database.execute("SELECT job, attempt FROM ended ORDER BY ordinal").fetchall()


def unacknowledged(database: sqlite3.Connection) -> list[tuple[str, int]]:
    """Those whose end is not acknowledged yet, newest first, at most ``JOBS_HELD_MAX``."""
    query = (
        "SELECT job, attempt FROM ended JOIN heads ON heads.epoch = ended.epoch AND heads.stream = ?"
        " WHERE ended.seq > heads.acked ORDER BY ordinal DESC LIMIT ?"
    )
    return database.execute(query, (Stream.JOBS.value, JOBS_HELD_MAX)).fetchall()
