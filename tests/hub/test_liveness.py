"""The verdict on a node, over its whole table; `test_registry` has it over time."""

import random

import pytest

from hub.liveness import MASS_WINDOW_S, Drops, Limits, Listening, NodeState, judge
from hub.registry import Node, Registry
from tests.hub.rig import FakeClock
from tests.hub.test_registry import a_hello, an_agent
from wire.reasons import Reason

LIMITS = Limits(stale_after_s=30.0, lost_after_s=45.0, reconnect_spread_s=10.0, lag_tolerated_s=5.0)
LISTENING = Listening(0.0)
BACK_S = LIMITS.return_s
"""What an agent may take that lives: 10 s for a dial in vain, 20 s of waiting."""


@pytest.mark.parametrize(
    ("connected", "last_frame_s", "now_s", "state"),
    [
        (True, 1000.0, 1000.0, NodeState.ONLINE),
        (True, 1000.0, 1029.9, NodeState.ONLINE),
        (True, 1000.0, 1030.0, NodeState.STALE),
        (True, 1000.0, 1045.0, NodeState.LOST),
        (False, 1000.0, 1000.0, NodeState.RECONNECTING),
        (False, 1000.0, 1044.9, NodeState.RECONNECTING),
        (False, 1000.0, 1045.0, NodeState.LOST),
        (False, None, 0.0, NodeState.RECONNECTING),
        (False, None, 74.9, NodeState.RECONNECTING),
        (False, None, 75.0, NodeState.LOST),
    ],
)
def test_silence_decides(*, connected: bool, last_frame_s: float | None, now_s: float, state: NodeState) -> None:
    verdict = judge(
        ever_seen=True,
        connected=connected,
        last_frame_s=last_frame_s,
        now_s=now_s,
        listening=LISTENING,
        limits=LIMITS,
        return_s=BACK_S,
    )
    assert verdict is state


def test_a_node_that_never_came_is_not_lost() -> None:
    verdict = judge(
        ever_seen=False,
        connected=False,
        last_frame_s=None,
        now_s=1e9,
        listening=LISTENING,
        limits=LIMITS,
        return_s=BACK_S,
    )
    assert verdict is NodeState.NEVER


@pytest.mark.parametrize("connected", [True, False])
def test_nobody_is_lost_because_the_hub_itself_was_away(*, connected: bool) -> None:
    after = LISTENING.after_tick(due_s=1001.0, now_s=4600.0, limits=LIMITS)
    assert after == Listening(4600.0)

    def at(now_s: float, last_frame_s: float = 1000.0, opened_s: float = 500.0) -> NodeState:
        return judge(
            ever_seen=True,
            connected=connected,
            last_frame_s=last_frame_s,
            now_s=now_s,
            listening=after,
            limits=LIMITS,
            return_s=BACK_S,
            opened_s=opened_s,
        )

    assert at(4600.0) is (NodeState.ONLINE if connected else NodeState.RECONNECTING)
    assert at(4600.0 + 74.9) is not NodeState.LOST
    assert at(4600.0 + 75.0) is NodeState.LOST
    assert at(4600.0 + 74.9, last_frame_s=4600.1) is not NodeState.LOST, "the frame had waited in the socket"
    assert at(4600.0 + 74.9, last_frame_s=4600.1, opened_s=4600.1) is not NodeState.LOST, "so had the hello"
    assert at(4601.0 + 44.9, last_frame_s=4601.0, opened_s=4600.1) is not NodeState.LOST
    assert at(4601.0 + 45.0, last_frame_s=4601.0, opened_s=4600.1) is NodeState.LOST, "it was back, and died"


def test_a_tick_a_little_late_is_no_hitch() -> None:
    assert LISTENING.after_tick(due_s=1.0, now_s=6.0, limits=LIMITS) is LISTENING


# --- many at once


def _drops(connected: int, *at_s: float) -> Drops:
    drops = Drops()
    for number, when_s in enumerate(at_s):
        drops.dropped(f"n{number}", when_s, connected_before=connected - number)
    return drops


def test_a_fifth_of_the_fleet_at_once_is_a_mass_drop_and_one_less_is_not() -> None:
    assert not _drops(100, *[5.0] * 20).spares(5.0)
    drops = _drops(100, *[5.0] * 21)
    assert drops.spares(5.0)
    assert (drops.under_way(35.0), drops.under_way(35.1), drops.mass_drops) == (True, False, 1)


def test_two_of_two_nodes_are_no_mass_drop() -> None:
    assert not _drops(2, 5.0, 5.0).spares(5.0)
    assert _drops(3, 5.0, 5.0, 5.0).spares(5.0)


def test_drops_far_apart_are_no_mass_drop_and_one_that_comes_and_goes_counts_once() -> None:
    assert not _drops(9, 0.0, 31.0, 62.0, 93.0).spares(93.0)
    drops = Drops()
    for when_s in range(20):
        drops.dropped("flapping", float(when_s), connected_before=9)
    assert not drops.spares(19.0)


def test_who_dropped_before_or_after_a_mass_drop_is_not_spared() -> None:
    drops = _drops(4, 0.0, 100.0, 101.0, 102.0)
    assert [drops.spares(at_s) for at_s in (0.0, 99.9, 100.0, 102.0, 102.1)] == [False, False, True, True, False]


class Fleet:
    """A random life of a random fleet; the rules are checked at each second, by what was done and not by the code."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = FakeClock()
        self.registry = Registry(self.clock, LIMITS)
        self.ids = [f"{number:03}" for number in range(self.random.choice([2, 3, 5, 12, 40]))]
        for agent_id in self.ids:
            self.registry.add(an_agent(id=agent_id))
        self.heard_s: dict[str, float] = {}
        self.dropped: list[tuple[float, str, int]] = []
        """When, who, and how many sockets were open before."""
        self.talks: set[str] = set()
        self.open: set[str] = set()
        self.hitch_s = self.clock.monotonic()
        self.lost = 0
        self.spared = 0

    def connect(self, agent_id: str) -> None:
        self.registry.opened(agent_id, f"s{self.clock.monotonic()}", a_hello(), "r", LIMITS)
        self.heard_s[agent_id] = self.clock.monotonic()
        self.open.add(agent_id)
        self.talks.add(agent_id)

    def close(self, agent_id: str) -> None:
        node = self.registry.node(agent_id)
        assert node is not None
        assert node.session is not None
        if node.dropped_s is None:
            self.dropped.append((self.clock.monotonic(), agent_id, len(self.open)))
        self.registry.closed(agent_id, node.session, Reason.CONNECTION_LOST, "cut")
        self.open.discard(agent_id)
        self.talks.discard(agent_id)

    def something(self) -> None:
        dice = self.random.random()
        if dice < 0.02:  # a proxy dies, or a switch
            for agent_id in self.random.sample(sorted(self.open), self.random.randint(0, len(self.open))):
                self.close(agent_id)
        elif dice < 0.04:  # the same, noticed by silence alone
            self.talks -= set(self.random.sample(sorted(self.talks), self.random.randint(0, len(self.talks))))
        elif dice < 0.10 and self.open:
            self.close(self.random.choice(sorted(self.open)))
        elif dice < 0.13 and self.talks:
            self.talks.discard(self.random.choice(sorted(self.talks)))
        elif dice < 0.30:
            away = sorted(set(self.ids) - self.open)
            for agent_id in self.random.sample(away, self.random.randint(0, len(away))):
                self.connect(agent_id)

    def second(self) -> None:
        due_s = self.clock.monotonic() + 1.0
        self.clock.move(self.random.choice([6.0, 300.0]) if self.random.random() < 0.003 else 1.0)
        now_s = self.clock.monotonic()
        if now_s - due_s > LIMITS.lag_tolerated_s:
            self.hitch_s = now_s
        before = {agent_id: self._node(agent_id) for agent_id in self.ids}
        fell = [one for one in self.open if before[one].dropped_s is None and self._silent_s(one) >= 30.0]
        self.dropped += [(now_s, agent_id, len(self.open)) for agent_id in fell]
        self.registry.tick(due_s)
        for agent_id in self.ids:
            self.check(agent_id)
        for agent_id in sorted(self.talks):
            if self.random.random() < 0.2:
                self.registry.heard(agent_id)
                self.heard_s[agent_id] = now_s

    def check(self, agent_id: str) -> None:
        node = self._node(agent_id)
        if agent_id not in self.heard_s:
            assert node.state is NodeState.NEVER
            return
        silent_s = self._silent_s(agent_id)
        mass_s = self._mass_drop_s(agent_id)
        if node.state is NodeState.LOST:
            self.lost += 1
            assert silent_s >= LIMITS.lost_after_s
            assert mass_s is None or self.clock.monotonic() - mass_s >= LIMITS.lost_after_s + BACK_S
        elif mass_s is not None and silent_s >= LIMITS.lost_after_s:
            self.spared += 1
        assert node.state is NodeState.LOST or silent_s < 30.0 + 1.0 + 45.0 + BACK_S
        assert (node.state is NodeState.ONLINE) <= (agent_id in self.open and silent_s < LIMITS.stale_after_s)

    def _node(self, agent_id: str) -> Node:
        node = self.registry.node(agent_id)
        assert node is not None
        return node

    def _silent_s(self, agent_id: str) -> float:
        """As far as the hub can tell: its own hitch is nobody's silence."""
        return self.clock.monotonic() - max(self.heard_s[agent_id], self.hitch_s)

    def _mass_drop_s(self, agent_id: str) -> float | None:
        """When the node dropped, if there are 30 seconds around it in which too many dropped."""
        mine = [at_s for at_s, one, _ in self.dropped if one == agent_id]
        if not mine or self.heard_s[agent_id] > mine[-1]:
            return None
        for end_s in {at_s for at_s, _, _ in self.dropped if mine[-1] <= at_s <= mine[-1] + MASS_WINDOW_S}:
            window = [item for item in self.dropped if end_s - MASS_WINDOW_S <= item[0] <= end_s]
            who = {one for _, one, _ in window}
            if len(who) >= 3 and len(who) > 0.2 * max(open_before for _, _, open_before in window):
                return mine[-1]
        return None


def test_no_random_fleet_loses_a_node_too_soon_or_too_late() -> None:
    lost = spared = 0
    for seed in range(30):
        fleet = Fleet(seed)
        for _ in range(400):
            fleet.something()
            fleet.second()
        lost += fleet.lost
        spared += fleet.spared
    assert lost > 1000, "the fleets were too healthy to show anything"
    assert spared > 100
