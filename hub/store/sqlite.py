"""The store in one SQLite file: WAL, every commit fsynced, foreign keys on.

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
CACHE_KIB = 16 * 1024
FILE_MODE = 0o600


@asynccontextmanager
async def open_sqlite(path: Path) -> AsyncIterator[SqlStore]:
    """The store in ``path``, made or migrated if need be; closed at the end of the block.

    Raises:
        StoreUnavailable: the file cannot be opened or is no SQLite database.
        StoreVersionError: a newer version made it.
    """
    writing, reading = await asyncio.to_thread(_prepare, path)
    store = SqlStore(writing, reading)
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
        connect_args={"timeout": BUSY_S, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        if read_only:
            connection.execute("PRAGMA query_only = ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine
