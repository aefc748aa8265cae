"""Every crash point between two durable effects of the hub and of an agent: killed there, the power cut, and mended.

The scenario is always the same: the daemon starts, its nodes (or its hub) come, events are committed and acknowledged,
a job is handed in, proved and verified. It is killed right before or right after its Nth fsync, rename, unlink or
creation, and its disk keeps what a power cut leaves; that is where it starts from the next time, to be killed again.
After a few such crashes in a row it is left alone: the scenario has to come to its end and every promise has to hold.
"""

import random
import signal
import time

from tests.chaos.client import Client
from tests.chaos.episodes import Episodes
from tests.chaos.fleet import Fleet, Machine
from tests.chaos.lossy_disk import Cut, Side
from tests.chaos.report import Report
from tests.e2e.rig import until

CRASH_S = 90.0
SETTLE_EVERY = 8
ATTEMPTS_MAX = 2 * SETTLE_EVERY
"""Each crash may cost a job one, and a job that must fail has to use them up before the scenario ends."""
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
        """How many durable effects the scenario has: counted in a run that nothing disturbs. Leaves the daemon down."""
        self._episodes.begin()
        self._down()
        before = self._machine.disk.control.effects
        self._start()
        self._finish("the scenario, undisturbed")
        self._down()
        return int(self._machine.disk.control.effects - before)

    def crash(self, number: int, side: Side) -> None:
        """Start the daemon, which is down, and kill it at its ``number``-th durable effect."""
        machine, disk = self._machine, self._machine.disk
        disk.arm(number, side)
        where = f"{machine.name}: killed {side.name.lower()} durable effect {number}"
        self._episodes.chaos.say(where)
        try:
            self._start()
        except AssertionError:
            if not disk.control.crashed:  # it may die before it listens, but only so
                raise

        def crashed() -> bool:
            self._fleet.losses.look()
            self._client.check()
            return bool(disk.control.crashed)

        until(crashed, f"{where} (it never came to it)", CRASH_S)
        disk.disarm()
        self._episodes.chaos.kills += 1
        self._report.done[f"{machine.name}: killed at a durable effect, {side.name.lower()}"] += 1
        if machine in self._fleet.agents and self._rng.random() < KEPT_RATIO:
            machine.kill()
            self._report.done[f"{machine.name}: no power cut after it"] += 1
        else:
            cut = self._rng.choice(list(Cut))
            lost = self._fleet.cut_power(machine, cut, self._rng)
            self._episodes.chaos.say(f"power cut ({cut.value}): {lost} changes were not durable")
            self._report.done[f"{machine.name}: power cut after it, {cut.value}"] += 1
        self._since_settled += 1
        if self._since_settled >= SETTLE_EVERY:
            self.settle()
            self._episodes.begin()
            self._down()

    def settle(self) -> None:
        """Leave the daemon alone, see the scenario through, and hold every promise. Leaves the daemon up."""
        self._since_settled = 0
        self._start()
        self._finish("the scenario after crashes")
        self._episodes.settle()

    def _down(self) -> None:
        self._machine.kill(signal.SIGTERM)

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


def rounds(sweep: Sweep, points: int, at: int, rng: random.Random) -> None:
    """Every point once, in an order by chance; from round to round the other side of each effect."""
    for number in rng.sample(range(1, points + 1), points):
        sweep.crash(number, Side((number + at) % 2))
