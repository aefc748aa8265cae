"""The hub's two clocks, in one place so that tests can hold them."""

import time
from typing import Protocol


class Clock(Protocol):
    """Time, as everything in the hub asks for it."""

    def monotonic(self) -> float:
        """Seconds that never go back: for durations and deadlines."""

    def time_ms(self) -> int:
        """Unix milliseconds: for what is stored and shown."""


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()

    def time_ms(self) -> int:
        """Unix milliseconds of the wall clock."""
        return time.time_ns() // 1_000_000
