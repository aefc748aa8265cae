"""When the hub looks after a lost node by SSH; pure.

First a while after it was lost, then ever more seldom, each time with some jitter; at once forgotten when the node is
lost no more. While the hub is in trouble itself nothing is due: what it would find out is about itself.
"""

import random
from collections.abc import Collection

from msgspec import Struct

DELAYS_S = (15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
"""Between two looks at one node; the last one goes on."""
JITTER = 0.1


class _Look(Struct):
    due_s: float
    made: int = 0


class Probes:
    """Whose turn it is.

    Args:
        after_s: for how long a node is lost before the first look.
        rng: for the jitter.
    """

    def __init__(self, after_s: float, rng: random.Random) -> None:
        self._after_s = after_s
        self._rng = rng
        self._looks: dict[str, _Look] = {}

    def __len__(self) -> int:
        return len(self._looks)

    def due(self, lost: Collection[str], now_s: float) -> list[str]:
        """Of the nodes that are lost now those to look at, the longest due first."""
        self._looks = {node_id: look for node_id, look in self._looks.items() if node_id in lost}
        for node_id in lost:
            if node_id not in self._looks:
                self._looks[node_id] = _Look(now_s + self._after_s * (1.0 + self._rng.uniform(0.0, JITTER)))
        return sorted(
            (node_id for node_id, look in self._looks.items() if look.due_s <= now_s),
            key=lambda node_id: (self._looks[node_id].due_s, node_id),
        )

    def next_s(self, node_id: str) -> float | None:
        """When a node is looked at next; None: it is not lost."""
        look = self._looks.get(node_id)
        return None if look is None else look.due_s

    def hasten(self, node_id: str, now_s: float) -> None:
        """A node is due now: the way in to it works again."""
        look = self._looks.get(node_id)
        if look is not None:
            look.due_s = min(look.due_s, now_s)

    def looked(self, node_id: str, now_s: float) -> None:
        """A look is over, whatever came of it, and whoever asked for it."""
        look = self._looks.get(node_id)
        if look is None:
            return
        delay_s = DELAYS_S[min(look.made, len(DELAYS_S) - 1)]
        look.due_s = now_s + delay_s * (1.0 + self._rng.uniform(-JITTER, JITTER))
        look.made += 1


def trouble(*, now_s: float, listening_since_s: float, settle_s: float, mass_drop: bool) -> str:
    """Why nothing is tried now, in a few words; empty if nothing is wrong.

    Args:
        now_s: monotonic seconds.
        listening_since_s: since when the hub has run without a hitch.
        settle_s: for how long it must have.
        mass_drop: a good part of the fleet dropped at once, just now.
    """
    if now_s - listening_since_s < settle_s:
        return "the hub has just started, or was late itself"
    if mass_drop:
        return "a good part of the fleet dropped at once, just now"
    return ""
