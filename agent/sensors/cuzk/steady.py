"""Beginnings out of ages: what is said as "n seconds ago" each time becomes one moment that stays put.

Ages jitter with the answer's way. A moment is kept until the age disagrees by more than a tolerance, so that a picture
in which nothing happened stays the same.
"""

from collections.abc import Hashable

from msgspec import Struct

TOLERANCE_S = 5.0
"""More than an answer may be late (2 s), and less than anything that matters lasts."""
SECONDS_MAX = 1e9
"""Thirty years: an age beyond that is no age."""


class Moment(Struct, frozen=True):
    """One moment on both clocks of the node."""

    monotonic_s: float
    unix_ms: int


def before(now: Moment, seconds_ago: float) -> Moment | None:
    """``seconds_ago`` before ``now``; None where that is no age."""
    if not 0.0 <= seconds_ago <= SECONDS_MAX:
        return None
    return Moment(now.monotonic_s - seconds_ago, max(0, now.unix_ms - round(seconds_ago * 1000)))


class Beginnings:
    """Remembers the beginning of each thing of one answer, until an answer does not name it."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Moment] = {}
        self._named: dict[Hashable, Moment] = {}

    def of(self, thing: Hashable, now: Moment, seconds_ago: float | None) -> int | None:
        """When ``thing`` began, Unix milliseconds; None for what is no age."""
        fresh = None if seconds_ago is None else before(now, seconds_ago)
        if fresh is None:
            return None
        kept = self._kept.get(thing)
        same = kept is not None and abs(kept.monotonic_s - fresh.monotonic_s) <= TOLERANCE_S
        self._named[thing] = kept if kept is not None and same else fresh
        return self._named[thing].unix_ms

    def answer_ends(self) -> None:
        """Forget what the answer did not name."""
        self._kept, self._named = self._named, {}
