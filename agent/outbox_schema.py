"""The outbox's SQLite file: its tables, how it is opened, brought to the present version, put aside when damaged."""

import sqlite3
from pathlib import Path

from agent.errors import ConfigFault

SCHEMA_VERSION = 2
SIDE_FILES = ("-wal", "-shm")
BUSY_S = 10.0
CACHE_KIB = 512
"""Of pages kept in memory; the outbox is read once, in order."""
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
    time_ms INTEGER NOT NULL DEFAULT 0, monotonic_ns INTEGER NOT NULL DEFAULT 0,
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
CREATE TABLE marks (name TEXT PRIMARY KEY, value BLOB NOT NULL);
"""

UPGRADES = {
    # The times by which events age. Of those stored by version 1 they are not known: 0.
    1: """
ALTER TABLE events ADD COLUMN time_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN monotonic_ns INTEGER NOT NULL DEFAULT 0;
CREATE TABLE marks (name TEXT PRIMARY KEY, value BLOB NOT NULL);
""",
}
"""From each older version to the next."""


def opened(path: Path) -> sqlite3.Connection:
    """The file's connection, durable, at the present version.

    Raises:
        sqlite3.DatabaseError: it cannot be opened, or is damaged; `is_damage` tells the two apart.
        ConfigFault: a newer version wrote it.
    """
    database = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        path.chmod(0o600)
        database.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute(f"PRAGMA journal_size_limit={JOURNAL_BYTES_MAX}")
        _check(database, path)
    except BaseException:
        database.close()
        raise
    return database


def _check(database: sqlite3.Connection, path: Path) -> None:
    (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise ConfigFault(f"the outbox {path} was written by a newer version; upgrade this agent again")
    if version == 0:
        database.executescript(f"BEGIN;{SCHEMA}PRAGMA user_version={SCHEMA_VERSION};COMMIT;")
    for older in range(max(version, 1), SCHEMA_VERSION if version else 1):
        database.executescript(f"BEGIN;{UPGRADES[older]}PRAGMA user_version={older + 1};COMMIT;")


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether ``error`` speaks of the file's content, and not of the way to it."""
    return not isinstance(error, sqlite3.OperationalError) or _code(error) in CORRUPT


def is_passing(error: sqlite3.DatabaseError) -> bool:
    """Whether the disk is full or fails, which may be over at the next try."""
    return (_code(error) or 0) & PRIMARY_CODE in PASSING


def _code(error: sqlite3.Error) -> int | None:
    return getattr(error, "sqlite_errorcode", None)


def put_aside(path: Path) -> Path:
    """Keep a damaged file as evidence and make room for a new one; where it is now."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    _move(path, aside)
    return aside


def put_back(path: Path, aside: Path) -> None:
    """Undo `put_aside`: the next start tries again to save what is in it."""
    for suffix in ("", *SIDE_FILES):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    _move(aside, path)


def _move(path: Path, to: Path) -> None:
    path.rename(to)
    for suffix in SIDE_FILES:
        extra = path.with_name(path.name + suffix)
        if extra.exists():
            extra.rename(to.with_name(to.name + suffix))
