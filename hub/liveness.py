"""Pure: how a node is, from what was heard of it and when. The hub's own troubles never become a node's state.

::

    never ──first session──> online ──silence──> stale ──silence──> lost
                               │  ^                                  ^
                     socket closed └──new session── reconnecting ────┘ after lost_after_s

While the hub has just started, or its own event loop lagged, silence proves nothing: the agents found nobody, and come
back each in its own time. Nobody becomes lost before the hub has listened, without a hitch, for as long as that may
take (`Limits.return_s`), and ``lost_after_s`` more; but for those that came back since, and fell silent then. When a
good part of the fleet drops at once, it is the network or a proxy and not so many machines: they get the same time.
"""

from collections import deque
from enum import StrEnum

from msgspec import Struct

from wire.limits import OPEN_S, RECONNECT_CAP_S

MASS_RATIO = 0.2
"""More than this part of the connected fleet, ..."""
MASS_NODES_MIN = 3
"""... and at least so many nodes, ..."""
MASS_WINDOW_S = 30.0
"""... that drop within this time are a mass drop."""
MASS_REMEMBERED = 32
"""So many of them lie a quarter of an hour apart, at least: nobody who dropped in an earlier one is still spared."""


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
    queue_s: float = 0.0
    """How long the whole fleet takes to come in, when it comes at once."""

    @property
    def return_s(self) -> float:
        """How long an agent that lives may stay away from a hub that was away.

        Its last dial may still fail, it waits as long as agents ever do, and then it may be told to queue.
        """
        return OPEN_S + max(RECONNECT_CAP_S, self.reconnect_spread_s) + self.queue_s


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
        self._mass: deque[tuple[float, float]] = deque(maxlen=MASS_REMEMBERED)
        """The first and the last drop of each mass drop."""
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
            if self.under_way(now_s):
                self._mass[-1] = (self._mass[-1][0], now_s)
            else:
                self._mass.append((self._recent[0][0], now_s))
                self.mass_drops += 1

    def under_way(self, now_s: float) -> bool:
        """Whether a mass drop goes on, or was just now."""
        return bool(self._mass) and now_s - self._mass[-1][1] <= MASS_WINDOW_S

    def spares(self, dropped_s: float) -> bool:
        """Whether a node that dropped then was part of a mass drop."""
        return any(since_s <= dropped_s <= last_s for since_s, last_s in self._mass)


def judge(
    *,
    ever_seen: bool,
    connected: bool,
    last_frame_s: float | None,
    now_s: float,
    listening: Listening,
    limits: Limits,
    return_s: float,
    opened_s: float | None = None,
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
        return_s: how long the fleet of now may take to return; `Limits.return_s` of the largest that matters.
        opened_s: when its last session of this run of the hub opened; None for none yet.
        mass_drop_s: when it dropped, if that was in a mass drop.
    """
    if not ever_seen:
        return NodeState.NEVER
    heard_s = listening.since_s if last_frame_s is None else max(last_frame_s, listening.since_s)
    silent_s = now_s - heard_s
    lost = silent_s >= limits.lost_after_s
    if lost and not _returned(last_frame_s, opened_s, listening):
        lost = now_s - listening.since_s >= limits.lost_after_s + return_s
    if lost and mass_drop_s is not None:
        lost = now_s - mass_drop_s >= limits.lost_after_s + return_s
    if lost:
        return NodeState.LOST
    if not connected:
        return NodeState.RECONNECTING
    return NodeState.STALE if silent_s >= limits.stale_after_s else NodeState.ONLINE


def _returned(last_frame_s: float | None, opened_s: float | None, listening: Listening) -> bool:
    """Whether a node came back since the hub listens, and was heard then.

    A frame alone shows nothing: after a hitch it may have waited in the socket of a session long given up. Nor does a
    session: its hello may have waited likewise.
    """
    return opened_s is not None and last_frame_s is not None and listening.since_s < opened_s < last_frame_s
