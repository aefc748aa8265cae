"""Nobody is lost because the hub was away, or the way to it: fleets that come back as agents do, at their unluckiest.

They wait as `agent.backoff` says, their last dial into the void takes as long as a dial may and is in vain, and they
queue at the real gate. Some are really dead, and those have to be found.
"""

import random
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest

from agent.backoff import Backoff, Fault, Kind
from hub.config import Config
from hub.liveness import Limits, NodeState
from hub.registry import Registry
from hub.tempo import limits_of, tempo
from tests.hub.rig import FakeClock
from tests.hub.test_gate import Inside, gate, retry_s
from tests.hub.test_registry import a_hello, an_agent
from wire.limits import HANDSHAKE_S, HEARTBEAT_S, HEARTBEATS_UNHEARD_MAX, OPEN_S
from wire.reasons import Reason

STEPS_A_SECOND = 2
SESSION_S = 100.0


class Away(Enum):
    """What was away, and for how long it may be."""

    STOPPED = (8.0, 45.0, 90.0, 200.0)
    RESTARTED = (1.0, 8.0, 45.0, 180.0)
    NETWORK = (1.0, 8.0, 20.0)
    """In between; some sockets are reset, some only at the hub's end, others stay."""


@dataclass
class Player:
    """One agent."""

    id: str
    backoff: Backoff
    dead: bool = False
    inside: bool = False
    """Has a session, as far as it knows."""
    cut: bool = False
    """The hub does not know that session any more."""
    unheard_since_s: float = 0.0
    due_s: float = 0.0
    """Of its next heartbeat, or the end of its wait or of its dial."""
    dialling: bool = False
    in_vain: bool = False
    """The dial began while nobody was there."""


class World:
    """A fleet, and the part of the hub that judges it."""

    def __init__(self, seed: int, away: Away, agents: int, lost_after_s: float) -> None:
        self.random = random.Random(seed)
        self.away = away
        self.clock = FakeClock()
        self.config = Config(data_dir=Path("unused"), lost_after_s=lost_after_s, stale_after_s=lost_after_s - 5.0)
        self.gate = gate(self.clock, Inside())
        self.registry = Registry(self.clock, self.limits(agents))
        self.there = True
        self.players = [Player(f"{number:04}", Backoff(random.Random(seed + number))) for number in range(agents)]
        for player in self.players:
            self.registry.add(an_agent(id=player.id))
            self.enter(player)
        self.live(15.0)

    def limits(self, agents: int) -> Limits:
        return limits_of(self.config, tempo(self.config, agents), agents)

    def live(self, seconds: float) -> None:
        """Time passes; whoever is alive must never be called lost."""
        for step in range(int(seconds * STEPS_A_SECOND)):
            self.clock.move(1.0 / STEPS_A_SECOND)
            for player in self.players:
                if not player.dead and self.clock.now_s >= player.due_s:
                    self.act(player)
            ticking = self.there or self.away is Away.NETWORK
            if ticking and step % STEPS_A_SECOND == 0:
                self.tick(self.clock.now_s)

    def tick(self, due_s: float) -> None:
        self.registry.limits = self.limits(self.registry.expected)
        lost = {node.id for node in self.registry.tick(due_s) if node.state is NodeState.LOST}
        wrongly = [player for player in self.players if player.id in lost and not player.dead]
        assert not wrongly, f"{len(wrongly)} that live were called lost: {wrongly[0]}"

    # --- what an agent does

    def act(self, player: Player) -> None:
        now_s = self.clock.now_s
        if player.inside:
            if self.there and not player.cut:
                self.registry.heard(player.id)
                player.unheard_since_s = now_s
            elif now_s - player.unheard_since_s >= HEARTBEAT_S * HEARTBEATS_UNHEARD_MAX:
                return self.leave(player)
            player.due_s = now_s + HEARTBEAT_S
        elif not player.dialling:
            player.dialling, player.in_vain = True, not self.there
            slow_s = self.random.uniform(0.0, OPEN_S / 2 + HANDSHAKE_S / 2)  # a hub that has just come back is busy
            player.due_s = now_s + (slow_s if self.there else 0.0 if self.away is Away.RESTARTED else OPEN_S)
        elif player.in_vain:
            self.wait(player, Fault(Kind.UNREACHABLE, "timeout", ""))
        elif wait_s := retry_s(self.gate, known=True):
            self.wait(player, Fault(Kind.REFUSED, "busy", "", code=Reason.OVERLOADED, wait_s=float(wait_s)))
        else:
            self.closed(player)
            self.enter(player)
        return None

    def enter(self, player: Player) -> None:
        limits = self.limits(self.registry.expected)
        self.registry.opened(player.id, f"{self.clock.now_s}", a_hello(), "r", limits)
        player.inside, player.cut, player.dialling = True, False, False
        player.unheard_since_s = self.clock.now_s
        player.due_s = self.clock.now_s + self.random.uniform(0.5, HEARTBEAT_S)

    def leave(self, player: Player) -> None:
        """It gives its session up."""
        player.inside = False
        self.wait(player, Fault(Kind.UNREACHABLE, "unheard", ""), session_s=SESSION_S)
        if self.there:
            self.closed(player)

    def wait(self, player: Player, fault: Fault, session_s: float | None = None) -> None:
        spread_s = self.limits(len(self.players)).reconnect_spread_s
        player.dialling = False
        player.due_s = self.clock.now_s + player.backoff.after(fault, session_s=session_s, spread_s=spread_s)

    def closed(self, player: Player) -> None:
        """The hub learns that a node's socket is closed."""
        node = self.registry.node(player.id)
        if node is not None and node.session is not None:
            self.registry.closed(player.id, node.session, Reason.CONNECTION_LOST, "cut")

    # --- what happens

    def go_away(self) -> None:
        self.there = False
        for player in self.players:
            player.dead = self.random.random() < 0.1
            dice = self.random.random()
            if self.away is Away.RESTARTED or (self.away is Away.NETWORK and dice < 0.4):
                self.reset(player)
            elif self.away is Away.NETWORK and dice < 0.7:
                player.cut = True
                self.closed(player)

    def reset(self, player: Player) -> None:
        """Both ends learn it."""
        if not player.dead:
            player.inside = False
            self.wait(player, Fault(Kind.UNREACHABLE, "network", ""), session_s=SESSION_S)
        self.closed(player)

    def come_back(self) -> None:
        self.there = True
        if self.away is Away.RESTARTED:
            self.registry = Registry(self.clock, self.limits(0))
            for player in self.players:
                self.registry.add(an_agent(id=player.id, last_heard_at_ms=self.clock.time_ms() - 1000))
        if self.away is Away.STOPPED:
            ticks_first = self.random.random() < 0.5
            if ticks_first:
                self.tick(self.clock.now_s - 8.0)
            self.clock.move(0.1)
            for player in self.players:  # what waited in the sockets: last frames, and then their end
                self.registry.heard(player.id)
                if not player.inside:
                    self.closed(player)
            if not ticks_first:
                self.tick(self.clock.now_s - 8.0)


CASES = [
    (away, agents, seeds)
    for away in Away
    for agents, seeds in ((1, 20), (4, 10), (40, 5), (1500, 1))
    if away is not Away.NETWORK or agents > 1  # one node alone is no mass drop
]


@pytest.mark.parametrize("lost_after_s", [15.0, 25.0, 45.0])
@pytest.mark.parametrize(("away", "agents", "seeds"), CASES)
def test_who_lives_is_never_lost_and_who_is_dead_is_found(
    away: Away, agents: int, seeds: int, lost_after_s: float
) -> None:
    for seed in range(seeds):
        world = World(seed, away, agents, lost_after_s)
        world.go_away()
        world.live(world.random.choice(away.value))
        world.come_back()
        limits = world.limits(agents)
        world.live(limits.stale_after_s + limits.lost_after_s + limits.return_s + 5.0)
        for player in world.players:
            node = world.registry.node(player.id)
            assert node is not None
            assert node.state is (NodeState.LOST if player.dead else NodeState.ONLINE), player


def test_one_dead_node_of_a_fleet_at_rest_is_found_within_a_minute() -> None:
    world = World(1, Away.STOPPED, 40, 45.0)
    world.live(200.0)
    world.players[7].dead = True
    world.live(60.0)
    node = world.registry.node(world.players[7].id)
    assert node is not None
    assert node.state is NodeState.LOST


def test_who_came_back_after_a_restart_and_dies_then_is_found_within_a_minute() -> None:
    world = World(1, Away.RESTARTED, 40, 45.0)
    world.go_away()
    world.live(8.0)
    world.come_back()
    world.live(20.0)
    back = next(player for player in world.players if player.inside and not player.dead)
    back.dead = True
    world.live(60.0)
    node = world.registry.node(back.id)
    assert node is not None
    assert node.state is NodeState.LOST
