"""How fast old readings and logs are replayed, so that what is new never waits behind them. Pure.

One frame of the backlog is under way at a time, and after it was acknowledged the next waits four times as long as that
took: a fifth of what the link takes, whatever link it is. Frames grow on a fast link and shrink on a slow one, so that
the one in the way is gone in a moment.
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
"""A frame acknowledged within this: the next may be larger."""
SLOW_S = 0.5


class Pace:
    """The pace of one session's backlog."""

    def __init__(self) -> None:
        self.bytes_max = FRAME_BYTES_FIRST
        """Of the next frame."""
        self._under_way: tuple[str, Stream, int] | None = None
        self._sent_s = 0.0
        self._next_s = float("-inf")

    def next_s(self) -> float | None:
        """When the next frame of the backlog may go; None while one is not acknowledged."""
        return None if self._under_way is not None else self._next_s

    def sent(self, epoch: str, stream: Stream, last_seq: int, now_s: float) -> None:
        """A frame that ends with ``last_seq`` was handed over."""
        self._under_way = (epoch, stream, last_seq)
        self._sent_s = now_s

    def acknowledged(self, epoch: str, stream: Stream, seq: int, now_s: float) -> None:
        """The hub has everything of this stream up to ``seq``."""
        if self._under_way is None or self._under_way[:2] != (epoch, stream) or seq < self._under_way[2]:
            return
        self._under_way = None
        took_s = now_s - self._sent_s
        pause_s = min(took_s * (1 / LINK_RATIO - 1), PAUSE_S_MAX)
        self._next_s = max(now_s + pause_s, self._sent_s + 1 / FRAMES_PER_S_MAX)
        if took_s <= FAST_S:
            self.bytes_max = min(self.bytes_max * 2, EVENTS_BYTES_PER_FRAME)
        elif took_s > SLOW_S:
            self.bytes_max = max(self.bytes_max // 2, FRAME_BYTES_MIN)
