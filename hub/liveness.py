"""Pure: how a node is, from what was heard of it and when. The hub's own troubles never become a node's state.

::

    never ──first session──> online ──silence──> stale ──silence──> lost
                               │  ^                                  ^
                     socket closed └──new session── reconnecting ────┘ after lost_after_s

While the hub has just started, or its own event loop lagged, silence proves nothing: nobody becomes lost before the
hub has listened, without a hitch, for a reconnect spread and ``lost_after_s``.
"""

from enum import StrEnum

from msgspec import Struct


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


def judge(
    *, ever_seen: bool, connected: bool, last_frame_s: float | None, now_s: float, listening: Listening, limits: Limits
) -> NodeState:
    """The state of one node.

    Args:
        ever_seen: a session of it was open at some time, in this run of the hub or an earlier one.
        connected: its session is open.
        last_frame_s: monotonic seconds of the last frame in this run of the hub; None for none yet.
        now_s: monotonic seconds.
        listening: since when silence means something.
        limits: the times that decide.
    """
    if not ever_seen:
        return NodeState.NEVER
    heard_s = listening.since_s if last_frame_s is None else max(last_frame_s, listening.since_s)
    silent_s = now_s - heard_s
    if connected:
        if silent_s >= limits.lost_after_s:
            return NodeState.LOST
        return NodeState.STALE if silent_s >= limits.stale_after_s else NodeState.ONLINE
    grace_s = limits.reconnect_spread_s if last_frame_s is None or last_frame_s < listening.since_s else 0.0
    return NodeState.LOST if silent_s >= limits.lost_after_s + grace_s else NodeState.RECONNECTING
