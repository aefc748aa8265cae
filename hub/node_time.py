"""Pure: when something happened at a node, on the hub's clock.

A node's wall clock may be wrong, and jump. Its monotonic clock is neither, but counts from an unknown moment: the
offset between it and the hub's clock is seen at each status of the running epoch, as ``time of receipt - monotonic time
at sending``. That is too large by the time the frame was under way, so the smallest of the last while is the best.
What an earlier epoch wrote down has no such offset; there the node's wall clock is all there is.

These times place samples on a chart. They never order anything: that is done by (epoch, stream, seq).
"""

from wire.events import Event

WINDOW_MS = 10 * 60 * 1000
"""How long the smallest offset is believed. Clocks drift apart by some milliseconds in it."""
JUMP_MS = 60_000
"""No frame is under way for so long (its session would be lost by then): a node that was suspended, or a hub whose own
clock was set. The new offset holds at once."""
NS_PER_MS = 1_000_000


class NodeClock:
    """The clock of one epoch of a node."""

    __slots__ = ("_offset_ms", "_smallest_ms", "_window_ends_ms", "epoch")

    def __init__(self, epoch: str) -> None:
        self.epoch = epoch
        self._offset_ms: int | None = None
        self._smallest_ms: int | None = None
        """Of the window under way."""
        self._window_ends_ms = 0

    def heard(self, monotonic_ns: int, now_ms: int) -> None:
        """A live frame that was sent at that monotonic time has just come."""
        seen_ms = now_ms - monotonic_ns // NS_PER_MS
        smallest_ms = seen_ms if self._smallest_ms is None else min(self._smallest_ms, seen_ms)
        if self._offset_ms is None or not 0 <= seen_ms - self._offset_ms <= JUMP_MS:
            self._offset_ms = smallest_ms = seen_ms
            self._window_ends_ms = now_ms + WINDOW_MS
        elif not 0 <= self._window_ends_ms - now_ms <= WINDOW_MS:
            self._offset_ms, smallest_ms = smallest_ms, seen_ms
            self._window_ends_ms = now_ms + WINDOW_MS
        self._smallest_ms = smallest_ms

    def time_ms(self, epoch: str, event: Event, now_ms: int) -> int:
        """When the event happened, never later than ``now_ms``, when it came."""
        if epoch == self.epoch and self._offset_ms is not None:
            at_ms = event.monotonic_ns // NS_PER_MS + self._offset_ms
        else:
            at_ms = event.time_ms
        return max(0, min(at_ms, now_ms))


class NodeClocks:
    """One clock for each node, of its running epoch."""

    def __init__(self) -> None:
        self._clocks: dict[str, NodeClock] = {}

    def of(self, agent_id: str, running_epoch: str) -> NodeClock:
        """The clock of a node; a new one when it runs a new epoch."""
        clock = self._clocks.get(agent_id)
        if clock is None or clock.epoch != running_epoch:
            clock = self._clocks[agent_id] = NodeClock(running_epoch)
        return clock

    def forget(self, agent_id: str) -> None:
        """The node is gone."""
        self._clocks.pop(agent_id, None)
