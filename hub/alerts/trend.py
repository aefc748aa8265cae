"""Whether a node's outbox empties; pure but for the clock."""

from collections import deque
from collections.abc import Collection

from hub.clock import Clock

WINDOW_S = 120.0
POINTS_MAX = 32


class Trend:
    """The last while of each node that holds something."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._points: dict[str, deque[tuple[float, int]]] = {}

    def falls(self, node_id: str, held: int | None) -> bool:
        """Take a new value; whether it is less than it was."""
        if not held:
            self._points.pop(node_id, None)
            return bool(held == 0)
        now_s = self._clock.monotonic()
        points = self._points.setdefault(node_id, deque(maxlen=POINTS_MAX))
        while points and now_s - points[0][0] > WINDOW_S:
            points.popleft()
        points.append((now_s, held))
        return held < points[0][1]

    def keep(self, node_ids: Collection[str]) -> None:
        """Forget the others."""
        for node_id in self._points.keys() - set(node_ids):
            del self._points[node_id]
