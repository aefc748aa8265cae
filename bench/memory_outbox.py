"""An agent's outbox without a disk: numbered events of several epochs, kept until the hub has acknowledged them."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from wire.frames import Event, EventBody, HeldRange, Stream
from wire.limits import HELD_RANGES_MAX
from wire.status import OutboxReading
from wire.streams import Want


@dataclass(slots=True)
class _Lane:
    """One stream of one epoch."""

    emitted: int = 0
    acknowledged: int = 0
    events: deque[tuple[Event, int]] = field(default_factory=deque)
    """Not yet acknowledged, each with its packed size."""


class Counts(msgspec.Struct, frozen=True):
    """How far one stream of one epoch is."""

    emitted: int
    """Numbers 1 to this were given out."""
    acknowledged: int
    """The hub has said that it keeps everything up to this."""


class MemoryOutbox:
    """Events of one agent. When it holds ``events_max`` it takes no more until some are acknowledged."""

    def __init__(self, epoch: str, *, events_max: int, on_held: Callable[[int], None]) -> None:
        self.epoch = epoch
        self.events_held = 0
        self.bytes_held = 0
        self.refused = 0
        """Events that were not emitted for want of room; they never had a number."""
        self._events_max = events_max
        self._on_held = on_held
        self._lanes: dict[tuple[str, Stream], _Lane] = {}

    def begin(self, epoch: str) -> None:
        """The agent was restarted: numbers begin anew, what is held of older epochs stays."""
        self.epoch = epoch

    def append(self, stream: Stream, body: Callable[[int], EventBody], time_ms: int, monotonic_ns: int) -> bool:
        """Give the next number to ``body(number)`` and keep it; False when there is no room."""
        if self.events_held >= self._events_max:
            self.refused += 1
            return False
        lane = self._lanes.setdefault((self.epoch, stream), _Lane())
        lane.emitted += 1
        event = Event(seq=lane.emitted, time_ms=time_ms, monotonic_ns=monotonic_ns, body=body(lane.emitted))
        size_bytes = len(msgspec.msgpack.encode(event))
        lane.events.append((event, size_bytes))
        self._held(1, size_bytes)
        return True

    def read(self, want: Want) -> list[Event]:
        """Events that follow ``want.after_seq``, as many as it asks for."""
        lane = self._lanes.get((want.epoch, want.stream))
        if lane is None or not lane.events:
            return []
        found: list[Event] = []
        size_bytes = 0
        skip = want.after_seq + 1 - lane.events[0][0].seq
        for at in range(max(0, skip), min(len(lane.events), skip + want.count_max)):
            event, event_bytes = lane.events[at]
            size_bytes += event_bytes
            if found and size_bytes > want.bytes_max:
                break
            found.append(event)
        return found

    def acknowledge(self, epoch: str, stream: Stream, seq: int) -> None:
        """Forget everything up to ``seq``."""
        lane = self._lanes.get((epoch, stream))
        if lane is None:
            return
        events = size_bytes = 0
        while lane.events and lane.events[0][0].seq <= seq:
            size_bytes += lane.events.popleft()[1]
            events += 1
        lane.acknowledged = max(lane.acknowledged, seq)
        if events:
            self._held(-events, -size_bytes)

    def held(self) -> list[HeldRange]:
        """What a hello lists: the oldest ranges first, as many as it may."""
        ranges = [
            HeldRange(epoch=epoch, stream=stream, first=lane.events[0][0].seq, last=lane.emitted)
            for (epoch, stream), lane in self._lanes.items()
            if lane.events
        ]
        return ranges[:HELD_RANGES_MAX]

    def older_epochs(self) -> set[str]:
        """Epochs before the running one of which something is held."""
        return {epoch for (epoch, _), lane in self._lanes.items() if lane.events} - {self.epoch}

    def reading(self) -> OutboxReading:
        """What the status says of it."""
        return OutboxReading(events_held=self.events_held, bytes_held=self.bytes_held, dropped=self.refused)

    def counts(self) -> dict[str, dict[Stream, Counts]]:
        """By epoch and stream, how far each is."""
        found: dict[str, dict[Stream, Counts]] = {}
        for (epoch, stream), lane in self._lanes.items():
            found.setdefault(epoch, {})[stream] = Counts(emitted=lane.emitted, acknowledged=lane.acknowledged)
        return found

    def _held(self, events: int, size_bytes: int) -> None:
        self.events_held += events
        self.bytes_held += size_bytes
        self._on_held(events)
