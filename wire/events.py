"""What happened: events, their bodies and streams.

The tag of a body is ``k``. See `wire.frames` for the rules of keys, defaults and growth.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from wire.jobs import Attempt, Count, FiniteFloat, Name, Output, TimingsMs, Uuid
from wire.limits import FIELDS_MAX, GPUS_MAX, INTEGER_MAX, INTEGER_MIN
from wire.readings import GpuReading, HostReading
from wire.text import Text

Seq = Annotated[int, Meta(ge=1, le=2**63 - 1)]
UnixMs = Annotated[int, Meta(ge=0, le=2**53)]
MonotonicNs = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Integer = Annotated[int, Meta(ge=INTEGER_MIN, le=INTEGER_MAX)]
Fields = Annotated[dict[Name, Text | Integer | FiniteFloat | bool | None], Meta(max_length=FIELDS_MAX)]
"""Free fields of an event or log record."""


class Stream(StrEnum):
    """The event streams, in the order of their replay."""

    JOBS = "jobs"
    EVENTS = "events"
    READINGS = "readings"
    """What the sensors read, kept for the history; since minor version 1."""
    LOGS = "logs"


def streams_of(minor: int) -> tuple[Stream, ...]:
    """The streams that both sides of a session of this minor version know, in the order of their replay."""
    return tuple(stream for stream in Stream if minor >= 1 or stream is not Stream.READINGS)


class Level(StrEnum):
    """Severity of a node event or log record."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class JobStarted(
    Struct, frozen=True, omit_defaults=True, tag_field="k", tag="js", rename={"attempt": "a", "device": "dev"}
):
    """A worker began (or a restarted agent found its worker still at it). Stream ``jobs``."""

    job: Uuid
    attempt: Attempt
    device: Name
    pid: Count


class JobSucceeded(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="k",
    tag="jr",
    rename={"attempt": "a", "outputs": "o", "timings_ms": "tm"},
):
    """A worker's result. Stream ``jobs``."""

    job: Uuid
    attempt: Attempt
    outputs: Annotated[list[Output], Meta(max_length=8)]
    timings_ms: TimingsMs = field(default_factory=dict)


class JobFailed(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="k",
    tag="jf",
    rename={"attempt": "a", "code": "c", "detail": "txt"},
):
    """An attempt came to nothing on this node. Stream ``jobs``."""

    job: Uuid
    attempt: Attempt
    code: Annotated[int, Meta(ge=1, le=255)]
    """As the exit codes: 2 malformed file, 3 mismatch, 4 proof does not verify, 5 device, 6 internal or worker died."""
    detail: Text


class JobStopped(Struct, frozen=True, omit_defaults=True, tag_field="k", tag="jx", rename={"attempt": "a"}):
    """A cancelled attempt has really stopped. Stream ``jobs``."""

    job: Uuid
    attempt: Attempt


class NodeEvent(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="k",
    tag="ev",
    rename={"kind": "kd", "level": "lv", "detail": "txt", "fields": "f"},
):
    """Something an operator wants to know later. Stream ``events``."""

    kind: Name
    """Dotted, for example ``worker.died``, ``gpu.lost``, ``session.ended``."""
    detail: Text
    level: Level = Level.INFO
    fields: Fields = field(default_factory=dict)


class LogRecord(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="k",
    tag="lg",
    rename={"source": "src", "level": "lv", "text": "txt", "fields": "f"},
):
    """One record of a log. Stream ``logs``."""

    source: Name
    text: Text
    level: Level = Level.INFO
    fields: Fields = field(default_factory=dict)


class Readings(Struct, frozen=True, omit_defaults=True, tag_field="k", tag="rd", rename={"host": "h", "gpus": "g"}):
    """What the sensors read at one moment: numbers only; the rest is status. Stream ``readings``."""

    host: HostReading | None = None
    gpus: Annotated[tuple[GpuReading, ...], Meta(max_length=GPUS_MAX)] = ()


class Gap(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="k",
    tag="gap",
    rename={"first": "a", "last": "z", "count": "n", "reason": "txt"},
):
    """A deliberate drop, in the place of what was dropped: its own ``seq`` is ``last``. Never in ``jobs``.

    Raises:
        ValueError: the range is empty, or ``count`` is not its length.
    """

    first: Seq
    last: Seq
    count: Count
    reason: Text

    def __post_init__(self) -> None:
        if self.last < self.first or self.count != self.last - self.first + 1:
            raise ValueError(f"a gap of {self.count} events does not cover {self.first}..{self.last}")


class UnknownBody(
    Struct, frozen=True, omit_defaults=True, tag_field="k", tag="?", rename={"kind": "kd", "packed": "b"}
):
    """A body this version does not know, kept whole so that nothing is lost. Made by the codec, never sent."""

    kind: Name
    packed: bytes


EventBody = JobStarted | JobSucceeded | JobFailed | JobStopped | NodeEvent | LogRecord | Readings | Gap | UnknownBody

STREAMS_OF: dict[type[Struct], frozenset[Stream]] = {
    JobStarted: frozenset({Stream.JOBS}),
    JobSucceeded: frozenset({Stream.JOBS}),
    JobFailed: frozenset({Stream.JOBS}),
    JobStopped: frozenset({Stream.JOBS}),
    NodeEvent: frozenset({Stream.EVENTS}),
    LogRecord: frozenset({Stream.LOGS}),
    Readings: frozenset({Stream.READINGS}),
    Gap: frozenset({Stream.EVENTS, Stream.READINGS, Stream.LOGS}),
    UnknownBody: frozenset(Stream),
}
"""Where each body may stand."""


class Event(
    Struct, frozen=True, omit_defaults=True, rename={"seq": "s", "time_ms": "w", "monotonic_ns": "m", "body": "b"}
):
    """One event; numbered by ``(epoch, stream, seq)``, seq from 1 without holes.

    Raises:
        ValueError: a gap stands elsewhere than at its last number.
    """

    seq: Seq
    time_ms: UnixMs
    monotonic_ns: MonotonicNs
    body: EventBody

    def __post_init__(self) -> None:
        if isinstance(self.body, Gap) and self.body.last != self.seq:
            raise ValueError(f"event {self.seq} is a gap that ends at {self.body.last}")
