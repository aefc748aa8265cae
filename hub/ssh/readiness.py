"""When the way in to a node is to be proved anew by a real login; pure.

At once when it was never tried as it is now: a first target, another address, user or host key, another key of the
hub's. Daily then, so that it is known to be broken before it is needed. A broken one is tried again soon, and ever more
seldom. All times come from what is stored of the way itself, so that a restart of the hub forgets nothing.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from hub.ssh.reach import Reach, State

SETTLE_MS = 2000
"""After a change, before it is tried: target and host keys are two changes."""
JITTER = 0.1
"""More or less of each wait, so that a fleet proved together is not proved together for ever."""
RETRY_MIN_MS = 60_000
RETRY_MAX_MS = 3_600_000
"""Between two tries of a broken way."""
RETURNED_MS = 10_000
"""The same for a node that has come back since, however often it comes and goes."""
NOBODY: Mapping[str, int] = MappingProxyType({})


class Rehearsals:
    """Which ways are due.

    Args:
        every_s: between two logins at a way that works.
    """

    def __init__(self, every_s: float) -> None:
        self._every_ms = every_s * 1000
        self._fingerprints: frozenset[str] | None = None
        self._identity_changed_ms = 0

    def identities(self, fingerprints: Sequence[str], now_ms: int) -> bool:
        """The keys the hub has to offer now; whether they changed since it was last told."""
        found = frozenset(fingerprints)
        changed = self._fingerprints is not None and found != self._fingerprints
        if changed:
            self._identity_changed_ms = now_ms
        self._fingerprints = found
        return changed

    def due(self, reaches: Iterable[Reach], now_ms: int, opened_ms: Mapping[str, int] = NOBODY) -> list[str]:
        """The nodes to log in at now, the longest due first; ``opened_ms``: since when their sessions are open."""
        found = [
            (due_ms, reach.node_id)
            for reach in reaches
            if (due_ms := self.due_ms(reach, opened_ms.get(reach.node_id, 0))) is not None
        ]
        return [node_id for due_ms, node_id in sorted(found) if due_ms <= now_ms]

    def due_ms(self, reach: Reach, opened_ms: int = 0) -> int | None:
        """When the way is to be tried next, in Unix milliseconds; None for no way.

        At once where the node has come back since a failure: what kept it away may have kept the hub out.
        """
        changed_ms, tried_ms = self.changed_ms(reach), reach.tried_at_ms
        if changed_ms is not None or tried_ms is None or reach.target is None:
            return changed_ms
        if reach.state is State.BROKEN and tried_ms < opened_ms:
            return max(opened_ms + SETTLE_MS, tried_ms + RETURNED_MS)
        if reach.state is State.BROKEN:
            lasted_ms = tried_ms - (tried_ms if reach.broken_since_ms is None else reach.broken_since_ms)
            longest_ms = max(RETRY_MIN_MS, min(RETRY_MAX_MS, self._every_ms))
            return tried_ms + round(min(max(RETRY_MIN_MS, lasted_ms), longest_ms) * _jitter(reach.node_id, tried_ms))
        return tried_ms + round(self._every_ms * _jitter(reach.node_id, tried_ms))

    def changed_ms(self, reach: Reach) -> int | None:
        """When the way, or the hub's key, became another than it was last tried with; None if it is the same."""
        tried_ms = reach.tried_at_ms
        if reach.target is None:
            return None
        if tried_ms is None or tried_ms < reach.changed_at_ms or reach.state is State.UNPROVED:
            return reach.changed_at_ms + SETTLE_MS
        if tried_ms < self._identity_changed_ms:
            return self._identity_changed_ms
        return tried_ms if reach.state is State.PROVED and self._other_keys(reach) else None

    def _other_keys(self, reach: Reach) -> bool:
        """Whether it was proved with other keys than the hub has now: it restarted with them, or was told so."""
        if self._fingerprints is None or reach.basis is None:
            return False
        return frozenset(reach.basis.fingerprints) != self._fingerprints


def _jitter(node_id: str, tried_ms: int) -> float:
    """0.9 to 1.1: the same for the same try, however often it is asked."""
    share = zlib.crc32(f"{node_id} {tried_ms}".encode()) / 0xFFFFFFFF
    return 1.0 + JITTER * (2.0 * share - 1.0)
