"""When many nodes fail alike, one incident; pure.

Sixty red nodes with one cause are one fact, and most often the cause is on this side. A failure is compared by its
cause, not by its words, which name hosts and ports. What the hub found out about itself stands beside the count, and
only as that: two things at the same time, never one as the certain reason of the other.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from hub.ssh.cause import REMEDIES, Cause

NODES_MIN = 3
FLEET_SHARE = 0.2
WINDOW_S = 60.0
OURS = frozenset(
    {
        Cause.NAME_RESOLUTION,
        Cause.NETWORK_UNREACHABLE,
        Cause.NO_IDENTITY,
        Cause.TOO_MANY_FAILURES,
        Cause.AGENT_REFUSED,
        Cause.KEY_MISSING,
        Cause.KEY_UNREADABLE,
        Cause.KEY_UNPROTECTED,
        Cause.KEY_DAMAGED,
        Cause.KEY_PASSPHRASE,
        Cause.BAD_CONFIGURATION,
        Cause.CONFIG_FILE,
        Cause.UNSUPPORTED_OPTION,
        Cause.CONTROL_PATH_TOO_LONG,
        Cause.CONTROL_PATH_UNUSABLE,
        Cause.SSH_MISSING,
        Cause.NO_USER,
        Cause.SSH_KILLED,
        Cause.OUT_OF_DESCRIPTORS,
    }
)
"""Causes that lie on the hub's side by their nature."""


OWN_REMEDIES = {
    Cause.IDENTITY_REFUSED: (
        "Put the old key back; or, if it was replaced on purpose, install the new one at the nodes: "
        "`provewire ssh-key install --all`."
    ),
    Cause.HOST_KEY_UNKNOWN: (
        "The file is the hub's alone, written from what is pinned: find out what else removes or changes it, and "
        "whether the hub's user may write there."
    ),
}
"""Where the hub itself found the cause, and something else than at a node is to be done."""


class Failure(Struct, frozen=True):
    """The way to one node failed."""

    node_id: str
    cause: Cause
    at_ms: int
    """Unix milliseconds: when it first failed like this without a success since."""


class Problem(Struct, frozen=True):
    """What the hub found wrong with itself."""

    cause: Cause
    sentence: str
    since_ms: int
    over_ms: int | None = None
    """When it was last found, once it is made good; None while it lasts."""

    def explains(self, at_ms: int) -> bool:
        """Whether something that began then may come of it: nothing that began after it was over does."""
        return self.over_ms is None or at_ms <= self.over_ms

    @property
    def remedy(self) -> str:
        """What to do on this side."""
        return OWN_REMEDIES.get(self.cause) or REMEDIES[self.cause]


class Incident(Struct, frozen=True, kw_only=True):
    """Many nodes, one cause."""

    cause: Cause
    nodes: tuple[str, ...]
    fleet: int
    """How many nodes there are that have a way in."""
    since_ms: int
    ours: bool
    """The cause lies on this side by its nature."""
    problems: tuple[Problem, ...]
    """What the hub found wrong with itself, the newest first."""

    @property
    def headline(self) -> str:
        """``58 of 60 nodes: key refused``: how many, and why."""
        return f"{len(self.nodes)} of {self.fleet} nodes, one cause: {self.cause.value.replace('_', ' ')}"

    @property
    def remedy(self) -> str:
        """What to do about the cause at the nodes; each problem of this side has a remedy of its own."""
        return REMEDIES[self.cause]


def incidents(failures: Iterable[Failure], fleet: int, problems: Sequence[Problem] = ()) -> list[Incident]:
    """The incidents that these present failures make; the largest first.

    A group counts from the first minute in which enough nodes began to fail alike; nodes that follow belong to it.
    """
    enough = max(NODES_MIN, fleet * FLEET_SHARE)
    groups: dict[Cause, list[Failure]] = {}
    for failure in failures:
        groups.setdefault(failure.cause, []).append(failure)
    found = []
    for cause, group in groups.items():
        group.sort(key=lambda failure: failure.at_ms)
        begin = _begin(group, enough)
        if begin is None:
            continue
        found.append(
            Incident(
                cause=cause,
                nodes=tuple(sorted(failure.node_id for failure in group)),
                fleet=fleet,
                since_ms=begin.at_ms,
                ours=cause in OURS,
                problems=tuple(sorted(problems, key=lambda problem: -problem.since_ms)),
            )
        )
    return sorted(found, key=lambda incident: (-len(incident.nodes), incident.cause))


def _begin(group: Sequence[Failure], enough: float) -> Failure | None:
    """The first failure of a minute in which enough nodes began to fail; ``group`` is in the order of time."""
    alike = Counter[str]()
    last = 0
    for first in group:
        while last < len(group) and group[last].at_ms - first.at_ms <= WINDOW_S * 1000:
            alike[group[last].node_id] += 1
            last += 1
        if len(alike) >= enough:
            return first
        alike[first.node_id] -= 1
        if not alike[first.node_id]:
            del alike[first.node_id]
    return None
