"""How fast old readings and logs are replayed, so that what is new never waits behind them. Pure.

One frame of the backlog is under way at a time, and after it was acknowledged the next waits four times as long as it
took the link: a fifth of what the link takes, whatever link it is. What an acknowledgement takes by itself (there,
back, and the hub's own delay) is seen from statuses, which have no size to speak of, and taken off. Frames grow on a
fast link and shrink on a slow one, so that the one in the way is gone in a moment.
"""

from wire.frames import Stream
from wire.limits import EVENTS_BYTES_PER_FRAME

PACED = frozenset({Stream.READINGS, Stream.LOGS})
FRAMES_PER_S_MAX = 50.0
LINK_RATIO = 0.2
PAUSE_S_MAX = 30.0
FRAME_BYTES_FIRST = 16 * 1024
FRAME_BYTES_MIN = 4 * 1024
FAST_S = 0.2
"""A frame that took the link no longer: the next may be larger."""
SLOW_S = 0.5
LATENCY_WEIGHT = 0.25
"""Of a new sample in the running mean."""


class Pace:
    """The pace of one session's backlog. It begins when the first status is acknowledged."""

    def __init__(self) -> None:
        self.bytes_max = FRAME_BYTES_FIRST
        """Of the next frame."""
        self._latency_s: float | None = None
        self._status: tuple[int, float] | None = None
        """A status under way, and when it was sent, while nothing of the backlog is in its way."""
        self._under_way: tuple[str, Stream, int] | None = None
        self._sent_s = 0.0
        self._next_s = float("-inf")

    def next_s(self) -> float | None:
        """When the next frame of the backlog may go; None while one, or the first status, is not acknowledged."""
        return None if self._under_way is not None or self._latency_s is None else self._next_s

    def status_sent(self, status_seq: int, now_s: float) -> None:
        """A status was handed over."""
        if self._under_way is None:
            self._status = (status_seq, now_s)

    def status_heard(self, status_seq: int, now_s: float) -> None:
        """The hub has this status."""
        if self._status is None or status_seq < self._status[0]:
            return
        took_s = now_s - self._status[1]
        self._status = None
        known_s = took_s if self._latency_s is None else self._latency_s
        self._latency_s = known_s + LATENCY_WEIGHT * (took_s - known_s)

    def sent(self, epoch: str, stream: Stream, last_seq: int, now_s: float) -> None:
        """A frame of the backlog that ends with ``last_seq`` was handed over."""
        self._under_way = (epoch, stream, last_seq)
        self._sent_s = now_s
        self._status = None

    def acknowledged(self, epoch: str, stream: Stream, seq: int, now_s: float) -> None:
        """The hub has everything of this stream up to ``seq``."""
        if self._under_way is None or self._under_way[:2] != (epoch, stream) or seq < self._under_way[2]:
            return
        self._under_way = None
        link_s = max(0.0, now_s - self._sent_s - (self._latency_s or 0.0))
        pause_s = min(link_s * (1 / LINK_RATIO - 1), PAUSE_S_MAX)
        self._next_s = max(now_s + pause_s, self._sent_s + 1 / FRAMES_PER_S_MAX)
        if link_s <= FAST_S:
            self.bytes_max = min(self.bytes_max * 2, EVENTS_BYTES_PER_FRAME)
        elif link_s > SLOW_S:
            self.bytes_max = max(self.bytes_max // 2, FRAME_BYTES_MIN)
