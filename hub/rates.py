"""How often something may happen: a bucket of tokens that fills at a rate up to a burst."""

from hub.clock import Clock


class TokenBucket:
    """So many a second, and so many at once after a quiet time."""

    __slots__ = ("_at_s", "_burst", "_clock", "_per_s", "_tokens")

    def __init__(self, clock: Clock, per_s: float, burst: float) -> None:
        self._clock = clock
        self._per_s = per_s
        self._burst = burst
        self._tokens = float(burst)
        self._at_s = clock.monotonic()

    @property
    def tokens(self) -> float:
        """How many there are."""
        self._fill()
        return self._tokens

    def take(self) -> float:
        """Take one; 0.0 if there was one, else the seconds until there is, and nothing was taken."""
        self._fill()
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self._per_s

    def pay(self, tokens: float, now_s: float | None = None) -> float:
        """Take so many for what has happened already, on credit if need be; seconds to wait before the next.

        ``now_s``: the clock's monotonic time, where the caller has just asked.
        """
        if now_s is None:
            now_s = self._clock.monotonic()
        filled = self._tokens + (now_s - self._at_s) * self._per_s
        left = min(self._burst, filled) - tokens
        self._tokens, self._at_s = left, now_s
        return 0.0 if left >= 0.0 else -left / self._per_s

    def _fill(self) -> None:
        now_s = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
