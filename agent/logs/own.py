"""The agent's own records, handed over from any thread: never waiting, never raising, never about their own shipping.

A handler beside the one that writes to stderr, so that it sees what structlog and the libraries say alike.
"""

import asyncio
import logging
import sys
import traceback
from collections import deque
from collections.abc import Mapping
from typing import Any

from agent.logs.records import FIELD_BYTES_MAX, Line
from wire.frames import Level

WAITING_MAX = 2000
"""Records that wait for the disk; further ones are left out, and counted."""
TRACE_CHARS_MAX = 4096
NOT_SHIPPED = ("agent.logs", "agent.outbox")
"""Who speaks of shipping and of the outbox: a record of theirs that is shipped makes the next one."""
NO_FIELDS = frozenset({"event", "level", "timestamp", "exc_info", "stack_info"})


class OwnLog(logging.Handler):
    """Takes copies while it is installed; `take` gives them to the shipper."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: deque[Line] = deque()
        self._left_out = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()

    def install(self) -> None:
        """Listen from now on, for the running loop."""
        self._loop = asyncio.get_running_loop()
        logging.getLogger().addHandler(self)

    def remove(self) -> None:
        """Listen no more."""
        logging.getLogger().removeHandler(self)
        self._loop = None

    def emit(self, record: logging.LogRecord) -> None:
        """Take a copy. Called under the handler's lock, which is held for no longer than that takes."""
        if record.name.startswith(NOT_SHIPPED):
            return
        if len(self._waiting) >= WAITING_MAX:
            self._left_out += 1
            return
        try:
            self._waiting.append(line_of(record))
            if self._loop is not None and not self._wake.is_set():
                self._loop.call_soon_threadsafe(self._wake.set)
        except Exception:  # noqa: BLE001 - whoever logs must not fail by it, whatever its values do when they are shown
            self._left_out += 1

    async def wait(self) -> None:
        """Return once there is something to take."""
        await self._wake.wait()
        self._wake.clear()

    def take(self, count_max: int) -> tuple[list[Line], int]:
        """The oldest records that wait, and how many were left out since the last time."""
        lines = [self._waiting.popleft() for _ in range(min(count_max, len(self._waiting)))]
        left_out, self._left_out = self._left_out, 0
        if self._waiting:
            self._wake.set()
        return lines, left_out


def line_of(record: logging.LogRecord) -> Line:
    """What a record says, copied: the values may change afterwards."""
    told: Mapping[str, Any] = record.msg if isinstance(record.msg, dict) else {}
    text = str(told["event"]) if "event" in told else record.getMessage()
    fields: dict[str, Any] = {"logger": record.name}
    fields |= {str(key): _copied(value) for key, value in told.items() if key not in NO_FIELDS}
    trace = _trace(told.get("exc_info") or record.exc_info)
    return Line(f"{text}\n{trace}" if trace else text, _level(record.levelno), int(record.created * 1000), fields)


def _copied(value: object) -> str | int | float | None:
    if value is None or isinstance(value, int | float):
        return value
    return (repr(value) if isinstance(value, BaseException) else str(value))[:FIELD_BYTES_MAX]


def _trace(exc_info: object) -> str:
    """The traceback's end, which names the error; without the values of variables."""
    if exc_info is True:
        exc_info = sys.exc_info()
    error = exc_info[1] if isinstance(exc_info, tuple) else exc_info
    if not isinstance(error, BaseException):
        return ""
    return "".join(traceback.format_exception(error))[-TRACE_CHARS_MAX:].rstrip()


def _level(number: int) -> Level:
    if number >= logging.ERROR:
        return Level.ERROR
    if number >= logging.WARNING:
        return Level.WARNING
    return Level.INFO if number >= logging.INFO else Level.DEBUG
