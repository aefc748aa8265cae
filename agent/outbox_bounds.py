"""What the outbox gives up when it holds too much or too long. Pure: rows in, the range to give up out.

By size: logs, then readings, then events, the oldest first; by age: logs and readings. Jobs never.
"""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from wire.frames import Stream

BYTES_MAX = 64 * 1024 * 1024
AGE_S_MAX = 24 * 3600.0
DROP_RATIO = 16
"""When the bound is reached, this part of it is freed at once: not one gap per append."""
EXPIRE_EVERY_S = 60.0
BY_SIZE = (Stream.LOGS, Stream.READINGS, Stream.EVENTS)
BY_AGE = (Stream.LOGS, Stream.READINGS)
PLAUSIBLE_MS = 1_672_531_200_000
"""2023: an earlier time is that of a clock nobody had set yet, and says nothing about age."""


class DropReason(StrEnum):
    """Why events were given up."""

    SIZE = "size"
    AGE = "age"
    DAMAGE = "damage"
    """The file could not be read whole."""
    OTHER_HUB = "other_hub"
    """The node was enrolled at another hub meanwhile."""


class Bounds(Struct, frozen=True):
    """How much, and how long, the outbox holds."""

    bytes_max: int = BYTES_MAX
    """Of packed events."""
    age_s_max: float = AGE_S_MAX

    @property
    def goal_bytes(self) -> int:
        """What is left after dropping."""
        return self.bytes_max - self.bytes_max // DROP_RATIO

    def sentence(self, reason: DropReason) -> str:
        """What a gap says."""
        match reason:
            case DropReason.SIZE:
                return f"the outbox held {self.bytes_max} bytes"
            case DropReason.AGE:
                return f"older than {self.age_s_max:g} s"
            case DropReason.DAMAGE:
                return "the outbox file was damaged"
            case DropReason.OTHER_HUB:
                return "the node was enrolled at another hub"


class Row(Struct, frozen=True):
    """One stored event, or gap, without its content."""

    seq: int
    first: int
    size_bytes: int
    time_ms: int
    monotonic_ns: int


class Times(Struct, frozen=True):
    """Now, and when the outbox was opened."""

    unix_ms: int
    monotonic_ns: int
    opened_ns: int

    def age_s(self, row: Row, *, own: bool) -> float:
        """How long ``row`` has been held.

        Rows of the running epoch (``own``) age by the monotonic clock; those of older ones by the wall clock, unless
        that makes no sense: then since the outbox was opened.
        """
        if own:
            return (self.monotonic_ns - row.monotonic_ns) / 1e9
        if PLAUSIBLE_MS <= row.time_ms <= self.unix_ms:
            return (self.unix_ms - row.time_ms) / 1e3
        return (self.monotonic_ns - self.opened_ns) / 1e9


def oldest_bytes(rows: Iterable[Row], free_bytes: int) -> list[Row]:
    """The oldest rows that together hold ``free_bytes``, or all."""
    taken: list[Row] = []
    freed_bytes = 0
    for row in rows:
        taken.append(row)
        freed_bytes += row.size_bytes
        if freed_bytes >= free_bytes:
            break
    return taken


def outlived(rows: Iterable[Row], times: Times, age_s_max: float, *, own: bool) -> list[Row]:
    """The oldest rows that are older than ``age_s_max``."""
    taken: list[Row] = []
    for row in rows:
        if times.age_s(row, own=own) <= age_s_max:
            break
        taken.append(row)
    return taken


class StreamHeld(Struct, frozen=True):
    """What is held of one stream, all epochs together."""

    events: int = 0
    bytes_: int = 0


class Counts(Struct, frozen=True):
    """The outbox's gauges and counters. ``dropped`` and ``refused`` count since this agent started."""

    held: dict[Stream, StreamHeld]
    dropped: dict[tuple[Stream, DropReason], int]
    """Events given up, each covered by a gap except in what another hub is not told of at all."""
    refused: dict[Stream, int] = {}
    """Events that were never stored, because the disk took nothing."""
