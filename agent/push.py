"""When the status is pushed. Pure: pictures and times in, yes or no out.

A change of state goes at once, changed readings as often as the hub wants them, and a heartbeat or a request of the hub
whatever has changed. States that change faster than ``STATE_EVERY_S`` are pushed together.
"""

from enum import IntEnum
from typing import TypeVar

import msgspec
from msgspec import UNSET

from wire.status import NodeStatus

STATE_EVERY_S = 0.5
"""Between two pushes, whatever changes."""
T = TypeVar("T")


class Change(IntEnum):
    """How much two pictures differ."""

    NONE = 0
    """Not at all, or in what nobody waits for: counters that always run, which go along with the next push."""
    READINGS = 1
    STATE = 2


def change_between(before: NodeStatus, now: NodeStatus) -> Change:
    """What has changed."""
    if _states(before) != _states(now):
        return Change.STATE
    return Change.NONE if _watched(before) == _watched(now) else Change.READINGS


def _states(picture: NodeStatus) -> tuple[object, ...]:
    """What an operator wants to know at once."""
    return (
        picture.hostname,
        picture.draining,
        [(gpu.uuid, gpu.state, gpu.detail, gpu.xid_count) for gpu in _list(picture.gpus)],
        picture.workers,
        [(job.job, job.attempt, job.phase) for job in _list(picture.jobs)],
        [
            (engine.engine, engine.state, engine.detail, [(job.id, job.state) for job in engine.jobs])
            for engine in _list(picture.engines)
        ],
    )


def _watched(picture: NodeStatus) -> tuple[object, ...]:
    """Readings without the counters and times that move by themselves."""
    host = picture.host
    if host is not UNSET:
        host = msgspec.structs.replace(host, uptime_s=None, network_rx_bytes=None, network_tx_bytes=None)
    return (
        host,
        [msgspec.structs.replace(gpu, energy_mj=None) for gpu in _list(picture.gpus)],
        picture.jobs,
        [msgspec.structs.replace(engine, answered_at_ms=None) for engine in _list(picture.engines)],
    )


def _list(items: list[T] | msgspec.UnsetType) -> list[T]:
    return [] if items is UNSET else items


class Pusher:
    """Decides for one session."""

    def __init__(self, readings_s: float) -> None:
        self._readings_s = readings_s
        self._last: NodeStatus | None = None
        self._last_s = float("-inf")
        self._wanted = True
        self._due_s: float | None = None
        """When to look at the picture; None while nothing may have changed."""

    def touch(self) -> None:
        """Something may have changed: look at once."""
        self._due_s = float("-inf")

    def want(self) -> None:
        """Push now, whatever has changed: a heartbeat, or the hub asked."""
        self._wanted = True

    def due_s(self) -> float | None:
        """When to ask `decide` again."""
        return float("-inf") if self._wanted else self._due_s

    def decide(self, picture: NodeStatus, now_s: float) -> bool:
        """Whether to push ``picture`` now; if so it counts as pushed."""
        if not self._wanted:
            if self._due_s is None or now_s < self._due_s:
                return False
            change = Change.STATE if self._last is None else change_between(self._last, picture)
            if change is Change.NONE:
                self._due_s = None
                return False
            wait_s = STATE_EVERY_S if change is Change.STATE else max(self._readings_s, STATE_EVERY_S)
            if now_s < self._last_s + wait_s:
                self._due_s = self._last_s + wait_s
                return False
        self._wanted, self._due_s = False, None
        self._last, self._last_s = picture, now_s
        return True
