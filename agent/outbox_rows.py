"""Rows of the outbox's tables, and where each stream stands."""

from wire import codec
from wire.errors import RemoteProtocolError
from wire.frames import Event, EventBody, Gap, LogRecord, NodeEvent, Readings, Stream, UnknownBody

INSERT_EVENT = (
    "INSERT INTO events (epoch, stream, seq, first, packed, time_ms, monotonic_ns) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
EventRow = tuple[str, str, int, int, bytes, int, int]
DAMAGED = b"\x81\xa1k\xa7damaged"
"""The body of a garbled event of a job: no version knows it, and every hub stores it."""
PUT_MARK = "INSERT INTO marks (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"


class Head:
    """One stream of one epoch. ``rows`` counts what is held, gaps included."""

    def __init__(self, last: int = 0, acked: int = 0) -> None:
        self.last = last
        self.acked = acked
        self.rows = 0
        self.size_bytes = 0

    def count_in(self, row: EventRow) -> None:
        """One more row is held."""
        self.rows += 1
        self.size_bytes += len(row[4])


def stream_of(body: EventBody) -> Stream:
    """The stream a body belongs to."""
    match body:
        case NodeEvent():
            return Stream.EVENTS
        case Readings():
            return Stream.READINGS
        case LogRecord():
            return Stream.LOGS
        case _:
            return Stream.JOBS


def row_of(epoch: str, stream: Stream, event: Event) -> EventRow:
    """What `INSERT_EVENT` takes."""
    first = event.body.first if isinstance(event.body, Gap) else event.seq
    return (epoch, stream.value, event.seq, first, codec.encode_event(event), event.time_ms, event.monotonic_ns)


def gap_event(first: int, last: int, time_ms: int, monotonic_ns: int, reason: str) -> Event:
    """A gap in the place of ``first`` to ``last``."""
    body = Gap(first=first, last=last, count=last - first + 1, reason=reason)
    return Event(seq=last, time_ms=time_ms, monotonic_ns=monotonic_ns, body=body)


def is_gap(packed: bytes) -> bool:
    """Whether a row's event is a gap."""
    event = decoded(packed)
    return event is not None and isinstance(event.body, Gap)


def decoded(packed: bytes) -> Event | None:
    """A row's event; None for what no event can be read from."""
    try:
        return codec.decode_event(packed)
    except RemoteProtocolError:
        return None


def event_of(
    stream: Stream, seq: int, first: int, time_ms: int, monotonic_ns: int, packed: bytes, *, reason: str
) -> Event:
    """The event of a row. One that is garbled becomes a gap, or in ``jobs``, which has none, an unknown body."""
    event = decoded(packed)
    if event is not None and event.seq == seq:
        return event
    if stream is not Stream.JOBS:
        return gap_event(first, seq, time_ms, monotonic_ns, reason)
    return Event(seq=seq, time_ms=time_ms, monotonic_ns=monotonic_ns, body=UnknownBody(kind="damaged", packed=DAMAGED))
