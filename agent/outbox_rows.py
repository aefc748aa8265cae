"""Rows of the outbox's tables, and where each stream stands."""

from wire import codec
from wire.frames import Event, EventBody, Gap, LogRecord, NodeEvent, Readings, Stream

INSERT_EVENT = (
    "INSERT INTO events (epoch, stream, seq, first, packed, time_ms, monotonic_ns) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
EventRow = tuple[str, str, int, int, bytes, int, int]
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
