"""Why there was no session, the last times: kept in memory for the local view, and in a small file across restarts."""

from collections import deque
from pathlib import Path

import msgspec
from msgspec import Struct

from agent.backoff import Fault
from agent.durable import write_file

KEPT = 20
FILE_BYTES_MAX = 1024 * 1024


class PastReason(Struct, frozen=True):
    """One reason, and how often it came in a row."""

    at_ms: int
    """The last time, Unix milliseconds."""
    name: str
    detail: str
    code: int | None = None
    """The numbered reason of the wire, where there is one."""
    times: int = 1
    open_s: float | None = None
    """How long the session had been open; None if there was none."""


class Reasons:
    """The last reasons, newest last. The same one again is counted and not added."""

    def __init__(self, past: list[PastReason] | None = None) -> None:
        self._past: deque[PastReason] = deque(past or [], maxlen=KEPT)

    def note(self, fault: Fault, at_ms: int, open_s: float | None) -> bool:
        """Remember ``fault``; whether it is another one than the last."""
        last = self._past[-1] if self._past else None
        again = last is not None and (last.name, last.code, last.detail) == (fault.name, fault.code, fault.detail)
        times = 1 if last is None or not again else last.times + 1
        if again:
            self._past.pop()
        open_s = None if open_s is None else round(open_s, 1)
        self._past.append(
            PastReason(at_ms=at_ms, name=fault.name, detail=fault.detail, code=fault.code, times=times, open_s=open_s)
        )
        return not again

    def newest_first(self) -> list[PastReason]:
        """For the local view."""
        return list(reversed(self._past))

    def save(self, path: Path) -> None:
        """Write them down.

        Raises:
            OSError: the disk refused it; the file is as before.
        """
        write_file(path, msgspec.json.encode(list(self._past)))


def load_reasons(path: Path) -> Reasons:
    """Those of earlier runs; none where the file cannot be used, since nothing depends on it."""
    try:
        with path.open("rb") as file:
            return Reasons(msgspec.json.decode(file.read(FILE_BYTES_MAX), type=list[PastReason]))
    except (OSError, msgspec.DecodeError):
        return Reasons()
