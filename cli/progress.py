"""One line on a terminal that says how far long work has come; nothing where nobody watches, or where it is quick."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TextIO

QUICK_S: Final = 1.0
"""What takes less than this needs no line."""
REFRESH_S: Final = 0.1
"""The line is not written more often."""
_CLEAR_LINE: Final = "\r\x1b[K"


class ProgressLine:
    """A context manager that is called with what is done, how much of it, and how much there is.

    The line is cleared at the end: what a command says follows where it stood.
    """

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._watched = self._stream.isatty()
        self._next_s = clock() + QUICK_S
        self._is_written = False

    def __call__(self, what: str, done: int, total: int) -> None:
        """Write the line, where its time has come; a terminal that is gone is no reason to stop."""
        now = self._clock()
        if not self._watched or now < self._next_s:
            return
        self._next_s = now + REFRESH_S
        percent = 100 * done // total if total else 100
        self._write(f"{_CLEAR_LINE}{percent:3} %  {what}")
        self._is_written = True

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._watched = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_written and self._watched:
            self._write(_CLEAR_LINE)
