"""The store in one SQLite file: WAL, every commit fsynced, foreign keys on.

Deleted rows leave free pages, which later rows use first; so the file stops growing once retention holds. Files made
by this version can also shrink (``auto_vacuum = INCREMENTAL``, a few pages at a time); an older file does so once
``PRAGMA auto_vacuum = INCREMENTAL; VACUUM;`` was run on it while the hub was stopped.

Python's driver is told to leave transactions alone (``isolation_level = None``) and SQLAlchemy begins them: the
writer's at once (``BEGIN IMMEDIATE``), so that nothing fails half-way for want of the lock.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool

from hub.store.base import StoreUnavailable
from hub.store.migrate import upgrade
from hub.store.sql import READERS, SqlStore
from hub.store.writer import complaint

BUSY_S = 10.0
"""Waiting for a lock another process holds, for example a backup's."""
WRITER_CACHE_KIB, READER_CACHE_KIB = 8 * 1024, 1024
"""SQLite's own caches of pages. The readers' are small: each fills up over hours, and the system caches the file."""
FILE_MODE = 0o600


@asynccontextmanager
async def open_sqlite(path: Path) -> AsyncIterator[SqlStore]:
    """The store in ``path``, made or migrated if need be; closed at the end of the block.

    Raises:
        StoreUnavailable: the file cannot be opened or is no SQLite database.
        StoreVersionError: a newer version made it.
    """
    writing, reading = await asyncio.to_thread(_prepare, path)
    store = SqlStore(writing, reading, SqliteSpace())
    try:
        yield store
    finally:
        await store.close()


def _prepare(path: Path) -> tuple[Engine, Engine]:
    path.touch(FILE_MODE)  # before SQLite makes it with the process's default mode
    writing = _engine(path, begin="BEGIN IMMEDIATE", connections=1, read_only=False)
    reading = _engine(path, begin="BEGIN", connections=READERS, read_only=True)
    try:
        with writing.begin() as connection:
            upgrade(connection)
    except SQLAlchemyError as error:
        writing.dispose()
        reading.dispose()
        raise StoreUnavailable(f"{path}: cannot be opened as the hub's store: {complaint(error)}") from error
    except BaseException:
        writing.dispose()
        reading.dispose()
        raise
    return writing, reading


def _engine(path: Path, *, begin: str, connections: int, read_only: bool) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        poolclass=QueuePool,
        pool_size=connections,
        max_overflow=0,
        pool_use_lifo=True,  # few readers are busy, and only their caches fill
        connect_args={"timeout": BUSY_S, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of a new file; another one keeps what it has
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute(f"PRAGMA cache_size = -{READER_CACHE_KIB if read_only else WRITER_CACHE_KIB}")
        if read_only:
            connection.execute("PRAGMA query_only = ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


class SqliteSpace:
    """The pages of the file."""

    def measure(self, connection: Connection) -> tuple[int, int]:
        """Bytes of the file, and of its free pages."""
        page_bytes, pages, free = (
            int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
            for name in ("page_size", "page_count", "freelist_count")
        )
        return page_bytes * pages, page_bytes * free

    def reclaim(self, connection: Connection, bytes_max: int) -> int:
        """Move the last pages into free ones and cut the file."""
        page_bytes = int(connection.exec_driver_sql("PRAGMA page_size").scalar_one())
        _, before = self.measure(connection)
        for _ in range(min(bytes_max, before) // page_bytes):
            connection.exec_driver_sql("PRAGMA incremental_vacuum(1)")  # the driver takes one step, so one page, a call
        return before - self.measure(connection)[1]
