"""Every crash point between two durable effects of the hub and of an agent: killed there, the power cut, and mended.

The scenario is always the same: the daemon starts, its nodes (or its hub) come, events are committed and acknowledged,
a job is handed in, proved and verified. It is killed right before or right after its Nth fsync, rename, unlink or
creation; the disk keeps what a power cut leaves; it is started again, and the scenario has to come to its end.
"""

import contextlib
import random
import signal
import time
from collections.abc import Callable

from tests.chaos.client import Client
from tests.chaos.episodes import Episodes
from tests.chaos.fleet import Fleet, Machine
from tests.chaos.lossy_disk import Cut, Side
from tests.chaos.report import Report
from tests.e2e.rig import until

CRASH_S = 90.0
SETTLE_EVERY = 8
KEPT_RATIO = 0.25
"""Of the crashes of an agent: its machine stays up, and its worker goes on."""


class Sweep:
    """Crashes one machine of a fleet again and again."""

    def __init__(
        self,
        fleet: Fleet,
        machine: Machine,
        *,
        client: Client,
        episodes: Episodes,
        report: Report,
        rng: random.Random,
    ) -> None:
        self._fleet = fleet
        self._machine = machine
        self._client = client
        self._episodes = episodes
        self._report = report
        self._rng = rng
        self._since_settled = 0

    def points(self) -> int:
        """How many durable effects the scenario has: counted in a run that nothing disturbs."""
        self._episodes.begin()
        self._stop()
        before = self._machine.disk.control.effects
        self._start()
        self._finish("the scenario, undisturbed")
        self._stop()
        effects = self._machine.disk.control.effects - before
        self._start()
        return int(effects)

    def crash(self, number: int, side: Side) -> None:
        """Kill the machine's daemon at its ``number``-th durable effect, and see the scenario through."""
        machine, disk = self._machine, self._machine.disk
        self._episodes.begin()
        self._stop()
        disk.arm(number, side)
        where = f"{machine.name}: killed {side.name.lower()} durable effect {number}"
        self._episodes.chaos.say(where)
        with contextlib.suppress(AssertionError):  # it may die before it listens
            self._start()
        until(lambda: disk.control.crashed, f"{where} (it never came to it)", CRASH_S)
        disk.disarm()
        self._episodes.chaos.kills += 1
        self._report.done[f"{machine.name}: killed at a durable effect, {side.name.lower()}"] += 1
        if machine in self._fleet.agents and self._rng.random() < KEPT_RATIO:
            machine.worker = machine.worker if disk.control.crashed == machine.pid else None
            machine.kill()
        else:
            cut = self._rng.choice(list(Cut))
            lost = self._fleet.cut_power(machine, cut, self._rng)
            self._episodes.chaos.say(f"power cut ({cut.value}): {lost} changes were not durable")
            self._report.done[f"{machine.name}: power cut after it, {cut.value}"] += 1
        self._start()
        self._finish(where)
        self._since_settled += 1
        if self._since_settled >= SETTLE_EVERY:
            self.settle()

    def settle(self) -> None:
        """Hold every promise against what was emitted up to now."""
        self._since_settled = 0
        self._episodes.settle()

    def _stop(self) -> None:
        self._machine.kill(signal.SIGTERM)
        if self._machine is self._fleet.hub_machine:
            # Nobody waits long for it: what is tried is the hub, not the agents' patience.
            for agent in self._fleet.agents:
                agent.kill()

    def _start(self) -> None:
        for players in self._fleet.players:
            players.call(players.be_patient)
        try:
            self._machine.restart()
        finally:
            if self._machine is self._fleet.hub_machine:
                for agent in self._fleet.agents:
                    agent.kill()
                    agent.restart()

    def _finish(self, what: str) -> None:
        """Until a job handed in from now on has ended, and something emitted from now on was acknowledged."""
        client, began = self._client, time.monotonic()
        ended = len(client.ended)
        acknowledged = [players.acknowledged() for players in self._fleet.players]
        told = self._told()

        def through() -> bool:
            client.check()
            self._fleet.losses.look()
            return (
                len(client.ended) > ended + client.open_jobs
                and self._told() > told
                and all(
                    now > before
                    for now, before in zip(
                        (players.acknowledged() for players in self._fleet.players), acknowledged, strict=True
                    )
                )
            )

        until(through, f"{what}: jobs to end and events to be acknowledged", CRASH_S)
        self._episodes.chaos.say(f"through after {time.monotonic() - began:.1f} s")

    def _told(self) -> int:
        return sum(self._fleet.ledger(agent.name).read_text().count("done") for agent in self._fleet.agents)


def rounds(sweep: Sweep, points: int, *, times: int, rng: random.Random, on: Callable[[], bool]) -> int:
    """Every point once, in an order by chance, ``times`` over or until ``on()`` is false; how many whole rounds."""
    for done in range(times):
        order = list(range(1, points + 1))
        rng.shuffle(order)
        for at, number in enumerate(order):
            if not on():
                return done
            # Each side of each effect, half of the rounds each.
            sweep.crash(number, Side((done + at) % 2))
    sweep.settle()
    return times
