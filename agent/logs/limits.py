"""How much of each log is shipped: so many records a second, so many bytes a day, and what was left out. Pure.

Each source has a bucket of records. A source that can be made to wait (a file, the journal) waits for a while before
anything of it is left out; the agent's own log cannot. What is left out is counted in windows, one for each source and
reason, and each window that ends is told. The count of the day and the open windows survive a restart.
"""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum

import msgspec
from msgspec import Struct

from wire.frames import Level, NodeEvent

RECORDS_PER_S = 100.0
BURST = 1000
BYTES_PER_DAY = 50 * 1024 * 1024
DAY_MS = 24 * 3600 * 1000
PAUSE_S = 0.5
"""A source that waits, waits this long: for many records, not for each."""
PATIENCE_S = 60.0
"""A source that never catches up is made to wait no longer than this in all."""
WINDOW_S = 10.0
WINDOW_GROWTH = 4.0
WINDOW_S_MAX = 3600.0
"""A window that follows another at once is longer, so that a flood of a day is not a flood of events."""


class Reason(StrEnum):
    """Why records were left out."""

    RATE = "rate"
    DAY = "day"
    """The bytes of the day were used up."""
    BACKLOG = "backlog"
    """They came faster than the disk took them."""
    UNREADABLE = "unreadable"
    """No record could be made of it."""


SENTENCES = {
    Reason.RATE: "came faster than the limit of records a second",
    Reason.DAY: "came after the bytes of the day were used up",
    Reason.BACKLOG: "came faster than they could be stored",
    Reason.UNREADABLE: "could not be read as records",
}


class Rates(Struct, frozen=True):
    """The limits, as set."""

    records_per_s: float = RECORDS_PER_S
    burst: int = BURST
    bytes_per_day: int = BYTES_PER_DAY


class Window(Struct):
    """What was left out of one source for one reason, since ``first_ms``."""

    source: str
    reason: Reason
    first_ms: int
    last_ms: int
    count: int = 0
    size_bytes: int = 0


class Kept(Struct):
    """What survives a restart."""

    day: int = 0
    day_bytes: int = 0
    windows: list[Window] = []


class _Bucket:
    def __init__(self, tokens: float, now_s: float) -> None:
        self.tokens = tokens
        self.at_s = now_s
        self.waited_s = 0.0


class Limits:
    """Says of each record whether it is shipped, and of what was not, how much it was."""

    def __init__(self, rates: Rates, now_s: float, kept: bytes | None = None) -> None:
        self._rates = rates
        self._buckets: dict[str, _Bucket] = {}
        self._ends_s: dict[tuple[str, Reason], float] = {}
        self._lengths_s: dict[tuple[str, Reason], float] = {}
        self._kept = _read(kept)
        for window in self._kept.windows:  # left open by the run before: told at once
            self._ends_s[window.source, window.reason] = now_s
        self.suppressed: Counter[tuple[str, Reason]] = Counter()
        """Records left out since the start, by source and reason."""

    def kept(self) -> bytes:
        """What to store with the next records."""
        return msgspec.json.encode(self._kept)

    @property
    def bytes_today(self) -> int:
        """Shipped on the day of the last record."""
        return self._kept.day_bytes

    def pause_s(self, source: str, now_s: float) -> float:
        """How long a source that can wait should, before its next record; 0 when it need not, or has waited enough."""
        bucket = self._bucket(source, now_s)
        if bucket.tokens >= 1.0 or bucket.waited_s >= PATIENCE_S:
            return 0.0
        bucket.waited_s += PAUSE_S
        return PAUSE_S

    def admits(self, source: str, size_bytes: int, *, now_s: float, now_ms: int) -> bool:
        """Whether a record is shipped; one that is not has been counted."""
        bucket = self._bucket(source, now_s)
        if bucket.tokens < 1.0:
            self.left_out(source, Reason.RATE, 1, size_bytes, now_s=now_s, now_ms=now_ms)
            return False
        day = now_ms // DAY_MS
        if day != self._kept.day:
            self._kept.day, self._kept.day_bytes = day, 0
        if self._kept.day_bytes + size_bytes > self._rates.bytes_per_day:
            self.left_out(source, Reason.DAY, 1, size_bytes, now_s=now_s, now_ms=now_ms)
            return False
        bucket.tokens -= 1.0
        self._kept.day_bytes += size_bytes
        return True

    def left_out(self, source: str, reason: Reason, count: int, size_bytes: int, *, now_s: float, now_ms: int) -> None:
        """Count what is not shipped."""
        self.suppressed[source, reason] += count
        key = (source, reason)
        window = next((one for one in self._kept.windows if (one.source, one.reason) == key), None)
        if window is None:
            window = Window(source, reason, first_ms=now_ms, last_ms=now_ms)
            self._kept.windows.append(window)
            ended_s, length_s = self._ends_s.get(key), self._lengths_s.get(key, WINDOW_S / WINDOW_GROWTH)
            follows = ended_s is not None and now_s - ended_s < length_s
            length_s = min(length_s * WINDOW_GROWTH, WINDOW_S_MAX) if follows or ended_s is None else WINDOW_S
            self._lengths_s[key], self._ends_s[key] = length_s, now_s + length_s
        window.last_ms = now_ms
        window.count += count
        window.size_bytes += size_bytes

    def due_s(self) -> float | None:
        """When the next window ends."""
        return min((self._ends_s[one.source, one.reason] for one in self._kept.windows), default=None)

    def take_due(self, now_s: float) -> list[NodeEvent]:
        """The events of the windows that have ended; each is told once."""
        due = [one for one in self._kept.windows if self._ends_s[one.source, one.reason] <= now_s]
        self._kept.windows = [one for one in self._kept.windows if one not in due]
        return [event_of(window) for window in due]

    def _bucket(self, source: str, now_s: float) -> _Bucket:
        burst = float(self._rates.burst)
        bucket = self._buckets.setdefault(source, _Bucket(burst, now_s))
        bucket.tokens = min(burst, bucket.tokens + (now_s - bucket.at_s) * self._rates.records_per_s)
        bucket.at_s = now_s
        if bucket.tokens >= burst:
            bucket.waited_s = 0.0
        return bucket


def event_of(window: Window) -> NodeEvent:
    """What is told of a window."""
    records = "record" if window.count == 1 else "records"
    return NodeEvent(
        kind="log.suppressed",
        detail=f"{window.count} {records} of {window.source} {SENTENCES[window.reason]} and were not shipped",
        level=Level.WARNING,
        fields={
            "source": window.source,
            "reason": window.reason.value,
            "count": window.count,
            "bytes": window.size_bytes,
            "first_ms": window.first_ms,
            "last_ms": window.last_ms,
        },
    )


def _read(kept: bytes | None) -> Kept:
    if kept is None:
        return Kept()
    try:
        return msgspec.json.decode(kept, type=Kept)
    except msgspec.MsgspecError:
        return Kept()


def by_kind(suppressed: Counter[tuple[str, Reason]]) -> Iterator[tuple[str, Reason, int]]:
    """Counts by the kind of source (``file`` of ``file:NAME``) and reason, for the metrics."""
    grouped: Counter[tuple[str, Reason]] = Counter()
    for (source, reason), count in suppressed.items():
        grouped[source.partition(":")[0], reason] += count
    for (kind, reason), count in grouped.items():
        yield kind, reason, count
