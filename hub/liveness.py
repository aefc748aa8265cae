"""Pure: how a node is, from what was heard of it and when. The hub's own troubles never become a node's state.

::

    never ──first session──> online ──silence──> stale ──silence──> lost
                               │  ^                                  ^
                     socket closed └──new session── reconnecting ────┘ after lost_after_s

While the hub has just started, or its own event loop lagged, silence proves nothing: nobody becomes lost before the
hub has listened, without a hitch, for a reconnect spread and ``lost_after_s``. When a good part of the fleet drops at
once, it is the network or a proxy and not so many machines: nobody of them becomes lost before the time they are told
to come back in, and a grace.
"""

from collections import deque
from enum import StrEnum

from msgspec import Struct

MASS_RATIO = 0.2
"""More than this part of the connected fleet, ..."""
MASS_NODES_MIN = 3
"""... and at least so many nodes, ..."""
MASS_WINDOW_S = 30.0
"""... that drop within this time are a mass drop."""
MASS_GRACE_S = 30.0
"""How long, after the reconnect spread, the nodes of a mass drop may still take."""


class NodeState(StrEnum):
    """How a node is, as far as the hub can know."""

    NEVER = "never"
    """Enrolled, and never seen since."""
    ONLINE = "online"
    STALE = "stale"
    """Its session is open, but nothing came for ``stale_after_s``."""
    RECONNECTING = "reconnecting"
    """No session now, and too early to call it lost."""
    LOST = "lost"


class Limits(Struct, frozen=True, kw_only=True):
    """The times that decide, in seconds."""

    stale_after_s: float
    lost_after_s: float
    reconnect_spread_s: float
    lag_tolerated_s: float
    """A later wake-up than this of the hub's own loop is a hitch."""


class Listening(Struct, frozen=True):
    """Since when the hub has listened without a hitch, in monotonic seconds."""

    since_s: float

    def after_tick(self, *, due_s: float, now_s: float, limits: Limits) -> "Listening":
        """What holds after a periodic tick that was due at ``due_s`` and ran at ``now_s``."""
        return Listening(now_s) if now_s - due_s > limits.lag_tolerated_s else self


class Drops:
    """Who dropped lately, by socket or by silence, and whether so many at once that it is a mass drop."""

    def __init__(self) -> None:
        self._recent: deque[tuple[float, str, int]] = deque()
        """When, who, and how many were connected before: those within the window."""
        self._latest: dict[str, float] = {}
        """The latest drop of each of them: one that comes and goes counts once."""
        self._since_s: float | None = None
        self._last_s = 0.0
        self.mass_drops = 0
        """Mass drops so far."""

    def dropped(self, agent_id: str, now_s: float, *, connected_before: int) -> None:
        """A node's socket closed, or it went silent; ``connected_before``: open sessions, its own included."""
        self._latest[agent_id] = now_s
        self._recent.append((now_s, agent_id, connected_before))
        while now_s - self._recent[0][0] > MASS_WINDOW_S or self._latest[self._recent[0][1]] != self._recent[0][0]:
            at_s, gone, _ = self._recent.popleft()
            if self._latest[gone] == at_s:
                del self._latest[gone]
        fleet = max(self._recent[0][2], connected_before)
        if len(self._latest) >= MASS_NODES_MIN and len(self._latest) > MASS_RATIO * fleet:
            if not self.under_way(now_s):
                self._since_s = self._recent[0][0]
                self.mass_drops += 1
            self._last_s = now_s

    def under_way(self, now_s: float) -> bool:
        """Whether a mass drop goes on, or was just now."""
        return self._since_s is not None and now_s - self._last_s <= MASS_WINDOW_S

    def spares(self, dropped_s: float) -> bool:
        """Whether a node that dropped then was part of the latest mass drop."""
        return self._since_s is not None and self._since_s <= dropped_s <= self._last_s


def judge(
    *,
    ever_seen: bool,
    connected: bool,
    last_frame_s: float | None,
    now_s: float,
    listening: Listening,
    limits: Limits,
    mass_drop_s: float | None = None,
) -> NodeState:
    """The state of one node.

    Args:
        ever_seen: a session of it was open at some time, in this run of the hub or an earlier one.
        connected: its session is open.
        last_frame_s: monotonic seconds of the last frame in this run of the hub; None for none yet.
        now_s: monotonic seconds.
        listening: since when silence means something.
        limits: the times that decide.
        mass_drop_s: when it dropped, if that was in a mass drop.
    """
    if not ever_seen:
        return NodeState.NEVER
    heard_s = listening.since_s if last_frame_s is None else max(last_frame_s, listening.since_s)
    silent_s = now_s - heard_s
    spared = mass_drop_s is not None and now_s - mass_drop_s < limits.reconnect_spread_s + MASS_GRACE_S
    if connected:
        if silent_s >= limits.lost_after_s and not spared:
            return NodeState.LOST
        return NodeState.STALE if silent_s >= limits.stale_after_s else NodeState.ONLINE
    grace_s = limits.reconnect_spread_s if last_frame_s is None or last_frame_s < listening.since_s else 0.0
    lost = silent_s >= limits.lost_after_s + grace_s and not spared
    return NodeState.LOST if lost else NodeState.RECONNECTING
