"""Pure: what the hub itself remarks about a node from its statuses: a wrong clock, exchanged cards.

Remarks wait here, a bounded number of them, until somebody writes them down. A wrong clock is only shown: nothing is
ever ordered by it.
"""

from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from hub.clock import Clock
from hub.rates import TokenBucket
from wire.frames import Level

SKEW_SHOWN_MS = 2_000
"""A clock this far off is worth a word on the page, ..."""
SKEW_ALARM_MS = 30_000
"""... this far an event, ..."""
SKEW_RIGHT_MS = 20_000
"""... and nearer than this it is right again: a clock at the limit is one event and not many."""
WINDOW_S = 30.0
"""Skew is judged by the best of such a time: a frame that was held up makes a clock look slow, never fast."""
MANY_RATIO = 0.5
MANY_NODES_MIN = 3
"""When so many clocks are off, it is the hub's that is."""
WAITING_MAX = 1000
REMARKS_PER_S = 1 / 600
"""Of one node: a hostile one that exchanges its cards every second fills no store."""
REMARKS_BURST = 5
UUIDS_NAMED_MAX = 4


class Remark(NamedTuple):
    """Something to be kept with a node."""

    agent_id: str
    kind: str
    detail: str
    level: Level


class _Seen:
    """What is known of one node."""

    __slots__ = ("alarmed", "best_ms", "best_of_last_ms", "rate", "since_s")

    def __init__(self, now_s: float, skew_ms: int) -> None:
        self.since_s = now_s
        self.best_ms = skew_ms
        self.best_of_last_ms: int | None = None
        self.alarmed = False
        self.rate: TokenBucket | None = None

    @property
    def skew_ms(self) -> int:
        """The least delayed of the last while."""
        return self.best_ms if self.best_of_last_ms is None else max(self.best_ms, self.best_of_last_ms)


class Remarks:
    """Of all nodes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, _Seen] = {}
        self._cards: dict[str, tuple[str, ...]] = {}
        self._waiting: deque[Remark] = deque(maxlen=WAITING_MAX)
        self.skewed = 0
        """Nodes whose clock is off by more than the alarm's limit."""
        self.hub_clock_doubted = False

    def take(self) -> list[Remark]:
        """All that wait."""
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting

    def forget(self, agent_id: str) -> None:
        """The node is gone."""
        self._cards.pop(agent_id, None)
        seen = self._seen.pop(agent_id, None)
        self.skewed -= seen is not None and seen.alarmed

    def time(self, agent_id: str, sample_ms: int, *, connected: int) -> int:
        """A status came with this difference of the node's clock to ours; the best estimate of it, in milliseconds.

        ``connected``: how many nodes are.
        """
        now_s = self._clock.monotonic()
        seen = self._seen.get(agent_id)
        if seen is None:
            seen = self._seen[agent_id] = _Seen(now_s, sample_ms)
        seen.best_ms = max(seen.best_ms, sample_ms)
        if now_s - seen.since_s >= WINDOW_S:
            self._judge(agent_id, seen, connected)
            seen.since_s, seen.best_of_last_ms, seen.best_ms = now_s, seen.best_ms, sample_ms
        return seen.skew_ms

    def _judge(self, agent_id: str, seen: _Seen, connected: int) -> None:
        off_ms = seen.best_ms
        if not seen.alarmed and abs(off_ms) > SKEW_ALARM_MS:
            seen.alarmed = True
            self.skewed += 1
            self.hub_clock_doubted = self.skewed >= MANY_NODES_MIN and self.skewed > MANY_RATIO * connected
            if not self.hub_clock_doubted:
                way = "ahead of" if off_ms > 0 else "behind"
                detail = (
                    f"the node's clock is {abs(off_ms) / 1000:.0f} s {way} the hub's; set it by NTP. "
                    "Nothing is ordered by it, and times of its events are off by as much"
                )
                self._remark(seen, Remark(agent_id, "clock.skewed", detail, Level.WARNING))
        elif seen.alarmed and abs(off_ms) < SKEW_RIGHT_MS:
            seen.alarmed = False
            self.skewed -= 1
            if not self.hub_clock_doubted:
                detail = f"the node's clock is right again, {off_ms / 1000:+.1f} s from the hub's"
                self._remark(seen, Remark(agent_id, "clock.right", detail, Level.INFO))
            self.hub_clock_doubted = self.hub_clock_doubted and self.skewed > MANY_RATIO * connected

    def knows_cards(self, agent_id: str, uuids: Collection[str]) -> None:
        """What the store had of a node."""
        self._cards[agent_id] = tuple(sorted(uuids))

    def cards(self, agent_id: str, uuids: Collection[str]) -> None:
        """A node told its list of cards. Nothing to compare with, or a driver that lists none, says nothing."""
        after = tuple(sorted(uuids))
        if not after:
            return
        before, self._cards[agent_id] = self._cards.get(agent_id, ()), after
        seen = self._seen.get(agent_id)
        if seen is None or not before or before == after:
            return
        changes = (("gone", sorted({*before} - {*after})), ("new", sorted({*after} - {*before})))
        said = "; ".join(f"{word} {_named(uuids)}" for word, uuids in changes if uuids)
        detail = f"the node's cards are not those it had: {said}. It is the same node"
        self._remark(seen, Remark(agent_id, "hardware.changed", detail, Level.WARNING))

    def _remark(self, seen: _Seen, remark: Remark) -> None:
        if seen.rate is None:
            seen.rate = TokenBucket(self._clock, REMARKS_PER_S, REMARKS_BURST)
        if seen.rate.take() == 0.0:
            self._waiting.append(remark)


def _named(uuids: Collection[str]) -> str:
    names = list(uuids)[:UUIDS_NAMED_MAX]
    more = f" and {len(uuids) - len(names)} more" if len(uuids) > len(names) else ""
    return ", ".join(names) + more
