"""What can happen to a fleet, each with the way back; drawn by chance, at random times, a few at once.

Every kind comes once before any comes again, in an order the seed decides; the gaps between them are exponential, so
that the faults are a Poisson process. At most one at a time for each target.
"""

import contextlib
import functools
import os
import random
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.chaos.fleet import Fleet, Machine
from tests.chaos.line import DOWN, UP, FaultyLine
from tests.chaos.lossy_disk import Cut
from tests.chaos.players import Players
from tests.e2e.rig import Agent, until

AT_ONCE_MAX = 3
PROOF_WAIT_S = 1.5
HOUR_S = 3600
DESCRIPTORS_SPARE = 2
LATE_S = 0.4
SLOW_SYNC_US = 200_000
PLAYERS_HIT = 5

Heal = Callable[[], object]


def nothing() -> None:
    """What heals by itself."""


class Fault(NamedTuple):
    """Something that happens to ``target``; ``begin`` returns what heals it."""

    target: str
    name: str
    begin: Callable[[], Heal]
    hits: tuple[str, ...] = ()
    """The beginnings of the names of the nodes that the hub may miss for it."""


@dataclass
class Hit:
    """When a node could not be heard for a reason of its own."""

    nodes: tuple[str, ...]
    from_s: float
    to_s: float = float("inf")


class Chaos:
    """Draws faults and heals them when their time is over."""

    def __init__(self, fleet: Fleet, rng: random.Random, *, longest_s: float, only: set[str] | None = None) -> None:
        self.done: Counter[str] = Counter()
        self.hits: list[Hit] = []
        self.kills = 0
        self.survived = 0
        """Workers that were still there after a kill of their agent or of the hub."""
        self.harmed: list[str] = []
        """Those that were not, though nobody had touched them."""
        self._fleet = fleet
        self._rng = rng
        self._longest_s = longest_s
        self._heals: dict[str, tuple[float, Heal, Hit]] = {}
        self._deck: list[Fault] = []
        self._faults = [fault for fault in every_fault(fleet, rng, self) if only is None or fault.target in only]

    @property
    def kinds(self) -> int:
        return len(self._faults)

    def run(self, duration_s: float, mean_gap_s: float, check: Callable[[], object]) -> None:
        """Faults for so long; then everything is healed."""
        end_s = time.monotonic() + duration_s
        while time.monotonic() < end_s:
            next_s = time.monotonic() + min(self._rng.expovariate(1 / mean_gap_s), 5 * mean_gap_s)

            def passed(due_s: float = next_s) -> bool:
                self._heal_due()
                check()
                return time.monotonic() > due_s

            until(passed, "the next fault")
            if len(self._heals) < AT_ONCE_MAX and (fault := self._draw()) is not None:
                self.happen(fault)
        self.heal()

    def happen(self, fault: Fault, lasts_s: float | None = None) -> None:
        """Let it happen now."""
        self.say(f"{fault.target}: {fault.name}")
        self.done[f"{fault.target}: {fault.name}"] += 1
        hit = Hit(fault.hits, time.monotonic())
        self.hits.append(hit)
        heal = fault.begin()
        if lasts_s is None:
            # Often at once; else long enough for leases, silences and backoffs to matter.
            third = self._longest_s / 3
            lasts_s = self._rng.choice([0.0, self._rng.uniform(0, third), self._rng.uniform(third, self._longest_s)])
        self._heals[fault.target] = time.monotonic() + lasts_s, heal, hit

    def named(self, target: str, name: str) -> Fault:
        return next(fault for fault in self._faults if (fault.target, fault.name) == (target, name))

    def heal(self) -> None:
        while self._heals:
            self._heal(next(iter(self._heals)))
        self.say("all healed")

    def say(self, what: str) -> None:
        """Write it into the journal, at once: whoever looks at a run that hangs wants to know how far it came."""
        with self._fleet.journal.open("a") as file:
            file.write(f"{time.monotonic() - self._fleet.began_s:8.2f} s  {what}\n")

    def is_hit(self, target: str) -> bool:
        return target in self._heals

    def _draw(self) -> Fault | None:
        if not self._deck:
            self._deck = list(self._faults)
            self._rng.shuffle(self._deck)
        for at, fault in enumerate(self._deck):
            if fault.target not in self._heals:
                return self._deck.pop(at)
        return None

    def _heal_due(self) -> None:
        for target, (due_s, _, _) in list(self._heals.items()):
            if time.monotonic() >= due_s:
                self._heal(target)

    def _heal(self, target: str) -> None:
        self.say(f"{target}: healed")
        _, heal, hit = self._heals.pop(target)
        heal()
        hit.to_s = time.monotonic()


def every_fault(fleet: Fleet, rng: random.Random, chaos: Chaos) -> list[Fault]:
    """All that can happen to this fleet."""
    faults = of_machine(fleet, fleet.hub_machine, rng, chaos, ())
    for machine in fleet.agents:
        faults += of_machine(fleet, machine, rng, chaos, (machine.name,))
        faults += of_worker(machine, chaos)
        faults += of_line(fleet.lines[machine.name], f"{machine.name}'s line", (machine.name,))
    faults += of_line(fleet.lines["line"], "the swarm's line", ("line-",))
    faults.append(Fault("nginx", "killed and started", functools.partial(nginx_killed, fleet), ("nginx-",)))
    for players in fleet.players:
        faults += of_players(players, rng)
    return faults


def nginx_killed(fleet: Fleet) -> Heal:
    fleet.nginx.kill()
    return fleet.nginx.start


# --- machines ---


@dataclass
class Blows:
    """What can happen to one machine; each method returns what heals it."""

    fleet: Fleet
    machine: Machine
    rng: random.Random
    chaos: Chaos

    def await_proof(self) -> None:
        """Until the machine's worker proves, within a time: what is hit then has most to lose."""
        daemon, end_s = self.machine.daemon, time.monotonic() + PROOF_WAIT_S

        def proves() -> bool:
            assert isinstance(daemon, Agent)
            workers = (daemon.status() or {}).get("workers", [])
            return any(worker["state"] == "proving" for worker in workers) or time.monotonic() > end_s

        if isinstance(daemon, Agent) and not self.chaos.is_hit(f"{self.machine.name}'s worker"):
            until(proves, "a proof, or the end of the wait")

    def killed(self, number: signal.Signals) -> Heal:
        self.await_proof()
        watched = [self.machine] if self.machine in self.fleet.agents else self.fleet.agents
        before = {machine.name: set(machine.workers()) - machine.touched for machine in watched}
        code = self.machine.kill(number)
        self.chaos.kills += number is signal.SIGKILL
        # One that has only just been started may not listen to SIGTERM yet.
        expected = {-number} if number is signal.SIGKILL else {0, -number}
        assert code in expected, f"{self.machine.name} ended with {code}"

        def heal() -> None:
            for machine in watched:
                untouched = before[machine.name] - machine.touched
                gone = untouched - set(machine.workers())
                self.chaos.survived += len(untouched - gone)
                self.chaos.harmed += [f"{machine.name}: worker {pid}, {self.machine.name} killed" for pid in gone]
            self.machine.restart()

        return heal

    def power_cut(self, cut: Cut) -> Heal:
        self.await_proof()
        self.chaos.kills += 1
        lost = self.fleet.cut_power(self.machine, cut, self.rng)
        self.chaos.say(f"{self.machine.name}: {lost} changes were not durable")
        return self.machine.restart

    def frozen(self) -> Heal:
        pid = self.machine.pid
        os.kill(pid, signal.SIGSTOP)
        return functools.partial(os.kill, pid, signal.SIGCONT)

    def disk(self, trouble: str, value: int) -> Heal:
        control = self.machine.disk.control
        setattr(control, trouble, value)

        def heal() -> None:
            setattr(control, trouble, 0)
            as_systemd_would(self.machine)

        return heal

    def descriptors_taken(self) -> Heal:
        """The process may open almost nothing more."""
        pid = self.machine.pid
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        highest = max((int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()), default=0)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + DESCRIPTORS_SPARE, limits[1]))

        def heal() -> None:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
            as_systemd_would(self.machine)

        return heal


def as_systemd_would(machine: Machine) -> None:
    """Start a daemon anew that ended by itself: one that finds its disk full, or no descriptor, while it begins."""
    process = machine.daemon.process
    if process is not None and not process.running:
        machine.restart()


def of_machine(fleet: Fleet, machine: Machine, rng: random.Random, chaos: Chaos, hits: tuple[str, ...]) -> list[Fault]:
    on = Blows(fleet, machine, rng, chaos)
    kinds: list[tuple[str, Callable[[], Heal]]] = [
        ("kill -9", functools.partial(on.killed, signal.SIGKILL)),
        ("SIGTERM", functools.partial(on.killed, signal.SIGTERM)),
        ("power cut, all that was not fsynced gone", functools.partial(on.power_cut, Cut.LEAST)),
        ("power cut, the rest torn", functools.partial(on.power_cut, Cut.TORN)),
        ("frozen (SIGSTOP)", on.frozen),
        ("disk full", functools.partial(on.disk, "full", 1)),
        ("disk slow", functools.partial(on.disk, "sync_us", SLOW_SYNC_US)),
        ("no descriptor left", on.descriptors_taken),
        ("wall clock an hour ahead", functools.partial(on.disk, "ahead_s", HOUR_S)),
        ("wall clock an hour behind", functools.partial(on.disk, "ahead_s", -HOUR_S)),
    ]

    def begun(begin: Callable[[], Heal]) -> Heal:
        as_systemd_would(machine)
        return begin()

    return [Fault(machine.name, name, functools.partial(begun, begin), hits) for name, begin in kinds]


def of_worker(machine: Machine, chaos: Chaos) -> list[Fault]:
    def signalled(first: signal.Signals, then: signal.Signals | None = None) -> Heal:
        pids = machine.workers()
        machine.touched.update(pids)
        chaos.kills += signal.SIGKILL in {first, then} and bool(pids)
        send(first, pids)
        return functools.partial(send, then, pids)

    kinds = [
        ("kill -9", functools.partial(signalled, signal.SIGKILL)),
        ("drained (SIGTERM)", functools.partial(signalled, signal.SIGTERM)),
        ("frozen (SIGSTOP)", functools.partial(signalled, signal.SIGSTOP, signal.SIGCONT)),
        ("frozen, then kill -9", functools.partial(signalled, signal.SIGSTOP, signal.SIGKILL)),
    ]
    return [Fault(f"{machine.name}'s worker", name, begin) for name, begin in kinds]


def send(number: signal.Signals | None, pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, number or 0)
        except ProcessLookupError:
            continue


# --- lines and swarms ---


def of_line(line: FaultyLine, target: str, hits: tuple[str, ...]) -> list[Fault]:
    def faulty(fault: Callable[[], object], *, cut: bool = False) -> Heal:
        def heal() -> None:
            line.heal()
            if cut:
                line.reset()

        fault()
        return heal

    kinds = [
        ("reset", functools.partial(faulty, line.reset)),
        ("cut in mid-frame", functools.partial(faulty, line.cut_in_mid_frame)),
        ("one byte a second", functools.partial(faulty, line.drip)),
        ("late", functools.partial(faulty, functools.partial(line.delay, LATE_S))),
        ("half open", functools.partial(faulty, line.half_open)),
        ("nothing upwards", functools.partial(faulty, functools.partial(line.hold, UP))),
        ("nothing downwards", functools.partial(faulty, functools.partial(line.hold, DOWN))),
        ("nothing downwards, then reset", functools.partial(faulty, functools.partial(line.hold, DOWN), cut=True)),
        ("nothing both ways, then reset", functools.partial(faulty, functools.partial(line.hold, UP, DOWN), cut=True)),
    ]
    return [Fault(target, name, begin, hits) for name, begin in kinds]


def of_players(players: Players, rng: random.Random) -> list[Fault]:
    def some(method: str) -> Heal:
        chosen = rng.sample(players.swarm.agents, min(PLAYERS_HIT, players.swarm.count))
        players.call(lambda: [getattr(agent, method)() for agent in chosen])
        return nothing

    target = f"agents of {players.name}"
    return [
        Fault(target, "restarted", functools.partial(some, "restart")),
        Fault(target, "sockets aborted", functools.partial(some, "cut")),
    ]
