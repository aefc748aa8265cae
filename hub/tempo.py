"""Pure: how often a fleet of some size speaks, and how long its silence may last. Told to each agent in its welcome.

Up to `AGENTS_AT_FULL_TEMPO` everything is as configured. Beyond that the beat slows down so that all agents together
send about `FRAMES_PER_S`, up to a minute each; the limits of silence are stretched in the same proportion, so that
nobody is called late for being slow on command.
"""

from msgspec import Struct

from hub.config import Config
from hub.liveness import Limits

AGENTS_AT_FULL_TEMPO = 2000
FRAMES_PER_S = 200.0
"""Heartbeats, and likewise samples for the history, of all agents together, in a fleet beyond that."""
READINGS_PER_S = 500.0
"""Pushes of changed readings of all agents together."""
INTERVAL_MAX_S = 60.0
"""Proxies cut sockets that are silent for longer, and nobody should look at older readings."""
RECONNECTS_PER_S = 50.0
"""Agents back per second after a restart; the spread grows with the fleet."""
RECONNECT_SPREAD_MAX_S = 120.0
QUEUE_STRETCH = 1.25
"""Whoever is told to come again later adds a tenth, and hints are whole seconds."""


class Tempo(Struct, frozen=True, kw_only=True):
    """The intervals of one welcome, in seconds."""

    heartbeat_s: float
    stale_after_s: float
    lost_after_s: float
    reconnect_spread_s: float
    readings_s: float
    sample_s: float


def tempo(config: Config, agents: int) -> Tempo:
    """What a fleet of so many agents is told."""
    slow_s = min(agents / FRAMES_PER_S, INTERVAL_MAX_S) if agents > AGENTS_AT_FULL_TEMPO else 0.0
    heartbeat_s = max(config.heartbeat_s, slow_s)
    stretch = heartbeat_s / config.heartbeat_s
    return Tempo(
        heartbeat_s=heartbeat_s,
        stale_after_s=config.stale_after_s * stretch,
        lost_after_s=config.lost_after_s * stretch,
        reconnect_spread_s=min(
            max(config.reconnect_spread_s, agents / RECONNECTS_PER_S),
            max(config.reconnect_spread_s, RECONNECT_SPREAD_MAX_S),
        ),
        readings_s=max(config.readings_s, min(agents / READINGS_PER_S, INTERVAL_MAX_S)),
        sample_s=max(config.sample_s, slow_s),
    )


def limits_of(config: Config, told: Tempo, agents: int) -> Limits:
    """How nodes are judged that were told so much, in a fleet of so many."""
    return Limits(
        stale_after_s=told.stale_after_s,
        lost_after_s=told.lost_after_s,
        reconnect_spread_s=told.reconnect_spread_s,
        lag_tolerated_s=config.lag_tolerated_s,
        queue_s=QUEUE_STRETCH * agents / config.accept_per_s,
    )
