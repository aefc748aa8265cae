"""Episodes: a time of faults, a time to come to rest, and every promise held against what the players emitted."""

import random
import time

from tests.chaos import promises
from tests.chaos.client import Client
from tests.chaos.faults import Chaos
from tests.chaos.fleet import Fleet
from tests.chaos.report import Report
from tests.e2e.rig import Rig, until


class Episodes:
    """Runs episodes on one fleet and reports on them."""

    def __init__(
        self, fleet: Fleet, rig: Rig, client: Client, report: Report, rng: random.Random, longest_s: float
    ) -> None:
        self._fleet = fleet
        self._rig = rig
        self._client = client
        self._report = report
        self.chaos = Chaos(fleet, rng, longest_s=longest_s)
        self._slowest_s = 0.0

    def run(self, duration_s: float, mean_gap_s: float) -> None:
        """One episode by chance."""
        self.begin()
        self.chaos.run(duration_s, mean_gap_s, self._watch)
        self.settle()

    def freeze(self, target: str, seconds: float) -> None:
        """One daemon stopped (SIGSTOP) for so long, and nothing else."""
        self.begin()
        self.chaos.happen(self.chaos.named(target, "frozen (SIGSTOP)"), seconds)
        self._report.done[f"{target}: frozen for {seconds:g} s"] += 1
        end_s = time.monotonic() + seconds

        def over() -> bool:
            self._watch()
            return time.monotonic() > end_s

        until(over, "the time of the freeze to be over", seconds + 10)
        self.chaos.heal()
        self.settle()

    def begin(self) -> None:
        """Everyone may say and hand in something new."""
        self._client.paused.clear()
        for players in self._fleet.players:
            players.call(lambda swarm=players.swarm: swarm.hush(quiet=False))  # type: ignore[misc]
        for machine in self._fleet.agents:
            promises.quiet(self._fleet, machine, on=False)

    def _watch(self) -> None:
        self._client.check()
        self._fleet.losses.look()

    def settle(self) -> None:
        """Come to rest and check everything."""
        fleet, client, report = self._fleet, self._client, self._report
        report.check("everyone online and acknowledged within 60 s", self._back)
        client.pause()
        report.check("every job ends", lambda: promises.jobs_ended(fleet, client))
        report.check("no event lost, doubled or out of order (swarm)", lambda: promises.streams_whole(fleet))
        report.check("no event lost, doubled or out of order (agents)", lambda: promises.told_once(fleet))
        report.check(
            "no result lost, or accepted twice; every proof verifies", lambda: promises.jobs_once(fleet, client)
        )
        report.check("no duplicate node or session", lambda: promises.no_duplicate_node(fleet))
        report.check(
            "nobody called lost for the hub's sake", lambda: promises.nobody_lost_wrongly(fleet, self.chaos.hits)
        )
        report.check("workers survive kills of agent and hub", lambda: promises.workers_unharmed(self.chaos))
        report.check("queues, memory, descriptors within bounds", lambda: promises.within_bounds(fleet, self._rig))
        report.check("the store is sound", lambda: promises.integrity(fleet))
        report.done.update(self.chaos.done)
        self.chaos.done.clear()
        report.notes["kills (kill -9 and power cuts)"] = self.chaos.kills
        report.notes["slowest return, s"] = f"{self._slowest_s:.1f}"
        report.notes["jobs"] = len(client.kinds)
        report.notes["players"] = len(fleet.names)

    def _back(self) -> int:
        took_s = promises.everyone_back(self._fleet)
        self._slowest_s = max(self._slowest_s, took_s)
        return len(self._fleet.names)
