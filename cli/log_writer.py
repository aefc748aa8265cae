"""A daemon's log lines, written by a thread of their own: who logs never waits for who reads.

A reader that hangs (a pager, a full pipe, a journal that is being restarted) would otherwise hold up the first thread
that logs, which is the one with the loop, and with it every node. Lines wait in a bounded queue; what does not fit is
left out and counted, and the log says so once it is read again.
"""

import contextlib
import logging
import os
import select
import threading
import time
from collections import deque
from typing import Final

WAITING_BYTES_MAX: Final = 4 << 20
"""Of lines that wait to be written: some ten thousand."""
LINE_OVERHEAD_BYTES: Final = 64
"""Of each, in memory."""
WRITE_BYTES_MAX: Final = 64 << 10
"""Of lines that are written together: what a pipe holds."""
FLUSH_S: Final = 2.0
"""For what still waits at the end of the process. Who does not read by then does not read."""
BUSY_S: Final = 0.05
"""Between attempts where the file does not block and is full."""


class LogWriter(logging.Handler):
    """Formats in the thread that logs, and writes in its own."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._left_out = 0
        self._writing = False
        self._changed = threading.Condition()
        self._closed = False
        # Now and not with the first line, which may come while the interpreter ends and starts no thread any more.
        threading.Thread(target=self._run, name="log writer", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record's line; never waits."""
        try:
            line = f"{self.format(record)}\n".encode(errors="backslashreplace")
        except Exception:  # noqa: BLE001 - whoever logs must not fail by it, as with every handler
            self.handleError(record)
            return
        if self._closed:
            self._last_words(line)
            return
        size = len(line) + LINE_OVERHEAD_BYTES
        with self._changed:
            if self._waiting_bytes + size > WAITING_BYTES_MAX:
                self._left_out += 1
                return
            self._lines.append(line)
            self._waiting_bytes += size
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until everything is written, within `FLUSH_S`. Called at the end of the process."""
        with self._changed:
            self._changed.wait_for(lambda: not self._lines and not self._writing, FLUSH_S)

    def close(self) -> None:
        """The process ends, and with it the thread: what is said from now on is written at once, or not at all."""
        self._closed = True
        super().close()

    def _last_words(self, line: bytes) -> None:
        with contextlib.suppress(OSError, ValueError):
            if select.select([], [self._descriptor], [], 0)[1]:
                os.write(self._descriptor, line)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._lines)
                self._writing = True
                batch = self._take()
                left_out = 0
                if not self._lines:
                    left_out, self._left_out = self._left_out, 0
            self._write(batch)
            if left_out:
                self._tell(left_out)

    def _take(self) -> bytes:
        """The oldest lines, as many as go together."""
        batch = bytearray(self._lines.popleft())
        self._waiting_bytes -= len(batch) + LINE_OVERHEAD_BYTES
        while self._lines and len(batch) + len(self._lines[0]) <= WRITE_BYTES_MAX:
            line = self._lines.popleft()
            self._waiting_bytes -= len(line) + LINE_OVERHEAD_BYTES
            batch += line
        return bytes(batch)

    def _write(self, data: bytes) -> None:
        # Not by `sys.stderr`: its lock, held in a write that never ends, would stop the process from ending.
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                time.sleep(BUSY_S)
            except OSError:
                return  # the reader is gone: there is nobody left to tell

    def _tell(self, lines: int) -> None:
        """Say in the log itself, and to whoever else listens to it, that something is missing here."""
        import structlog  # noqa: PLC0415 - loaded by then, with what it was told to load

        log = structlog.get_logger(__name__)
        log.warning("log.left_out", lines=lines, reason="nobody read standard error")
