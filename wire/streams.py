"""Positions in the event streams: what was sent, received and acknowledged, and how much may be in flight.

One `SentStream` (agent) faces one `ReceivedStream` (hub) for each stream of each epoch. Numbers run from 1 without
holes; only a `Gap` may stand for a range. Both sides count what is in flight by the same frames, so that an agent that
keeps to its window never meets the hub's limit.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from wire.codec import encode_event, encode_events
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.frames import Event, Gap, Stream
from wire.limits import (
    EVENTS_BYTES_PER_FRAME,
    EVENTS_IN_FLIGHT_BYTES_MAX,
    EVENTS_IN_FLIGHT_MAX,
    EVENTS_PER_FRAME_MAX,
    FRAME_BYTES_MAX,
)
from wire.reasons import Reason

PRESSING = 8
"""Of a window: with so great a part in flight an acknowledgement is not kept back. A frame of a backlog is more."""


@dataclass(frozen=True, slots=True)
class Want:
    """A place in an outbox from which a session can take events now."""

    epoch: str
    stream: Stream
    after_seq: int
    count_max: int
    bytes_max: int
    """Of packed events; the first may be larger by itself."""


@dataclass(slots=True)
class Window:
    """Frames of events in flight: sent, or received, and not yet acknowledged."""

    count: int = 0
    size_bytes: int = 0
    _frames: deque[tuple[int, int, int]] | None = None
    """(last seq, number of events, bytes) of each, oldest first; an empty deque would have 760 bytes"""

    def add(self, last_seq: int, count: int, size_bytes: int) -> None:
        """One more frame is in flight."""
        if self._frames is None:
            self._frames = deque()
        self._frames.append((last_seq, count, size_bytes))
        self.count += count
        self.size_bytes += size_bytes

    def settle(self, seq: int) -> None:
        """Everything up to ``seq`` is acknowledged; a frame acknowledged in part still counts whole."""
        while self._frames and self._frames[0][0] <= seq:
            _, count, size_bytes = self._frames.popleft()
            self.count -= count
            self.size_bytes -= size_bytes
        if not self._frames:
            self._frames = None

    def holds(self, count: int, size_bytes: int) -> bool:
        """Whether this much more may be in flight."""
        return self.count + count <= EVENTS_IN_FLIGHT_MAX and self.size_bytes + size_bytes <= EVENTS_IN_FLIGHT_BYTES_MAX


class SentStream:
    """The agent's side of one stream of one epoch, in one session.

    ``last_seq`` ends the range an older epoch holds; None for the running epoch, which still grows.
    """

    def __init__(self, epoch: str, stream: Stream, *, stored_seq: int, last_seq: int | None) -> None:
        self.epoch = epoch
        self.stream = stream
        self.acknowledged_seq = stored_seq
        self.sent_seq = stored_seq
        self._last_seq = last_seq
        self._window = Window()

    def want(self) -> Want | None:
        """What may be sent next; None when the range is sent, or the window is full.

        Room for two of the largest frames is asked for, since events of ``bytes_max`` may need two.
        """
        if self._last_seq is not None and self.sent_seq >= self._last_seq:
            return None
        if not self._window.holds(1, 2 * FRAME_BYTES_MAX):
            return None
        return Want(
            epoch=self.epoch,
            stream=self.stream,
            after_seq=self.sent_seq,
            count_max=min(EVENTS_PER_FRAME_MAX, EVENTS_IN_FLIGHT_MAX - self._window.count),
            bytes_max=EVENTS_BYTES_PER_FRAME,
        )

    def take(self, events: Sequence[Event]) -> list[bytes]:
        """Frames of these events, and the position moved behind them.

        Raises:
            LocalProtocolError: they do not follow what was sent, or the window is too small; nothing was taken.
        """
        frames: list[tuple[int, int, bytes]] = []
        group: list[bytes] = []
        position = self.sent_seq
        for event in events:
            packed = encode_event(_after(event, position))
            if group and not _fits(group, packed):
                frames.append((position, len(group), encode_events(self.epoch, self.stream, group)))
                group = []
            group.append(packed)
            position = event.seq
        if group:
            frames.append((position, len(group), encode_events(self.epoch, self.stream, group)))
        if not self._window.holds(len(events), sum(len(frame) for _, _, frame in frames)):
            raise LocalProtocolError(f"{len(events)} events of stream {self.stream} exceed the window in flight")
        for last_seq, count, frame in frames:
            self._window.add(last_seq, count, len(frame))
        self.sent_seq = position
        return [frame for _, _, frame in frames]

    def acknowledge(self, seq: int) -> bool:
        """The hub has everything up to ``seq``; whether that is news.

        Raises:
            RemoteProtocolError: more than was sent.
        """
        if seq > self.sent_seq:
            raise RemoteProtocolError(
                Reason.OUT_OF_ORDER, f"stream {self.stream}: {seq} acknowledged, only {self.sent_seq} sent"
            )
        if seq <= self.acknowledged_seq:
            return False
        self.acknowledged_seq = seq
        self._window.settle(seq)
        return True


class ReceivedStream:
    """The hub's side of one stream of one epoch, in one session."""

    def __init__(self, stream: Stream, *, stored_seq: int) -> None:
        self.stream = stream
        self.received_seq = stored_seq
        self.acknowledged_seq = stored_seq
        self._window = Window()

    @property
    def presses(self) -> bool:
        """Whether so much was received since the last acknowledgement that the agent may soon have to wait for one."""
        window = self._window
        return (
            window.count >= EVENTS_IN_FLIGHT_MAX // PRESSING
            or window.size_bytes >= EVENTS_IN_FLIGHT_BYTES_MAX // PRESSING
        )

    def take(self, events: Sequence[Event], frame_bytes: int) -> None:
        """The events of one frame of ``frame_bytes`` were received.

        Raises:
            RemoteProtocolError: REPLAYED for a number that was received before, OUT_OF_ORDER for a hole or a gap event
                that covers what was received, QUOTA for more than may be in flight. Nothing was taken.
        """
        position = self.received_seq
        for event in events:
            first = _first_seq(event)
            if event.seq <= position:
                raise RemoteProtocolError(
                    Reason.REPLAYED, f"stream {self.stream}: event {event.seq} came after event {position}"
                )
            if first != position + 1:
                raise RemoteProtocolError(
                    Reason.OUT_OF_ORDER, f"stream {self.stream}: event {first} came where {position + 1} was due"
                )
            position = event.seq
        if not self._window.holds(len(events), frame_bytes):
            raise RemoteProtocolError(Reason.QUOTA, f"stream {self.stream}: too many events not yet acknowledged")
        self._window.add(position, len(events), frame_bytes)
        self.received_seq = position

    def acknowledge(self, seq: int) -> bool:
        """Everything up to ``seq`` is in the store; whether that is news.

        Raises:
            LocalProtocolError: more than was received.
        """
        if seq > self.received_seq:
            raise LocalProtocolError(f"stream {self.stream}: {seq} cannot be stored, only {self.received_seq} came")
        if seq <= self.acknowledged_seq:
            return False
        self.acknowledged_seq = seq
        self._window.settle(seq)
        return True


def _fits(group: Sequence[bytes], packed: bytes) -> bool:
    """Whether one more event goes into the frame of ``group``."""
    return len(group) < EVENTS_PER_FRAME_MAX and sum(map(len, group)) + len(packed) <= EVENTS_BYTES_PER_FRAME


def _first_seq(event: Event) -> int:
    return event.body.first if isinstance(event.body, Gap) else event.seq


def _after(event: Event, position: int) -> Event:
    """``event`` as it follows ``position``: a gap is cut to what is not yet sent.

    The hub may have stored the first events of a range before the rest of it was dropped.

    Raises:
        LocalProtocolError: it does not follow.
    """
    body = event.body
    if isinstance(body, Gap) and body.first <= position < body.last:
        rest = msgspec.structs.replace(body, first=position + 1, count=body.last - position)
        return msgspec.structs.replace(event, body=rest)
    if _first_seq(event) != position + 1:
        raise LocalProtocolError(f"event {_first_seq(event)} does not follow {position}")
    return event
