"""Acknowledgements of what was stored: at once while the hub has little to read, else in company.

Sending one costs the hub as much as reading a frame. While frames come by the thousand, an acknowledgement waits for
those that follow it, as answers to statuses do, and for no longer than these (`hub.outlet`). When the rush is over, all
that wait go out with the next look.
"""

import asyncio
from typing import Protocol

from hub.clock import Clock
from hub.traffic import Traffic

WINDOW_S = 0.05
"""Over which frames are counted, and between two looks while somebody waits."""
RUSH_FRAMES_PER_S = 2000.0
"""Some thousand agents that push their readings each second: a tenth of what one core reads."""
FLUSHED_MAX = 500
"""Connections that are written to in one look: some milliseconds of the event loop."""


class Waiting(Protocol):
    """One connection's outlet."""

    def flush(self) -> None:
        """Send what there is."""


class Company:
    """Of all sessions together."""

    def __init__(self, clock: Clock, traffic: Traffic) -> None:
        self._clock = clock
        self._traffic = traffic
        self._since_s = clock.monotonic()
        self._frames_then = traffic.frames
        self._rush = False
        self._waiting: dict[Waiting, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def rush(self) -> bool:
        """Whether frames come so fast that acknowledgements should wait."""
        now_s = self._clock.monotonic()
        passed_s = now_s - self._since_s
        if passed_s >= WINDOW_S:
            self._rush = self._traffic.frames - self._frames_then >= RUSH_FRAMES_PER_S * passed_s
            self._since_s, self._frames_then = now_s, self._traffic.frames
        return self._rush

    def wait(self, outlet: Waiting) -> None:
        """Have it flushed when the rush is over; until then it sees to its own deadline."""
        self._waiting[outlet] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WINDOW_S, self._look)

    def leave(self, outlet: Waiting) -> None:
        """It was flushed, or is gone."""
        self._waiting.pop(outlet, None)

    def _look(self) -> None:
        self._timer = None
        if not self.rush:
            for outlet in list(self._waiting)[:FLUSHED_MAX]:
                outlet.flush()
        if self._waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WINDOW_S, self._look)
