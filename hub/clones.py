"""Pure: two processes with one node's key and one boot id, found by how they replace each other.

Another machine is told apart by its boot id. Two containers of one host, or a copied virtual machine, may have the same
one; then each takes the session over from the other, for ever, and jobs are lost in between. An agent that was started
anew never comes back under its earlier epoch: so when two change places again and again, both are alive.
"""

from collections import deque
from typing import NamedTuple

WINDOW_S = 120.0
TAKEOVERS_MAX = 3
"""Between the same two within the window; one more, and they are two."""


class Identity(NamedTuple):
    """What tells one process of a node from another."""

    epoch: str
    remote: str


class Flapping(NamedTuple):
    """Two processes with one key."""

    stays: Identity
    """Who was there first."""
    goes: Identity


class _Record:
    """The recent takeovers of one node."""

    __slots__ = ("first_seen_s", "takeovers")

    def __init__(self) -> None:
        self.takeovers: deque[tuple[float, frozenset[Identity]]] = deque()
        self.first_seen_s: dict[Identity, float] = {}


class Clones:
    """What is known of nodes whose sessions are taken over; a node at peace costs nothing."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}
        self._banned: dict[str, Flapping] = {}

    def takes_over(
        self, agent_id: str, *, old: Identity, old_since_s: float, new: Identity, now_s: float
    ) -> Flapping | None:
        """A newcomer is about to replace an open session; the verdict if that is one time too many."""
        if old == new:
            return None  # one process, on a new connection
        record = self._records.setdefault(agent_id, _Record())
        while record.takeovers and now_s - record.takeovers[0][0] > WINDOW_S:
            record.takeovers.popleft()
        if not record.takeovers:
            record.first_seen_s.clear()
        record.first_seen_s.setdefault(old, old_since_s)
        record.first_seen_s.setdefault(new, now_s)
        pair = frozenset({old, new})
        record.takeovers.append((now_s, pair))
        if sum(one == pair for _, one in record.takeovers) <= TAKEOVERS_MAX:
            return None
        stays, goes = sorted(pair, key=lambda one: (record.first_seen_s[one], one))
        del self._records[agent_id]
        self._banned[agent_id] = Flapping(stays, goes)
        return self._banned[agent_id]

    def banned(self, agent_id: str, newcomer: Identity) -> bool:
        """Whether this is the one that has to go while the other is alive."""
        verdict = self._banned.get(agent_id)
        if verdict is None:
            return False
        same_place = newcomer.remote == verdict.goes.remote != verdict.stays.remote
        return newcomer.epoch == verdict.goes.epoch != verdict.stays.epoch or same_place

    def forget(self, agent_id: str) -> None:
        """The other one is gone, or the node."""
        self._banned.pop(agent_id, None)
        self._records.pop(agent_id, None)

    def forget_old(self, now_s: float) -> None:
        """Drop what no verdict can come of any more."""
        for agent_id in [
            agent_id for agent_id, record in self._records.items() if now_s - record.takeovers[-1][0] > WINDOW_S
        ]:
            del self._records[agent_id]
