"""A hub, two real agents with workers, a swarm behind nginx and another behind a faulty line: all of it real.

Hub and agents run on disks that lose what was not fsynced, with wall clocks that can be moved.
"""

import contextlib
import os
import signal
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from bench.swarm_agent import Rates
from tests.chaos.line import FaultyLine
from tests.chaos.lossy_disk import Cut, LossyDisk
from tests.chaos.players import RATES, Players
from tests.chaos.tools import Nginx
from tests.e2e.rig import Agent, Hub, Rig, until

HUB = {
    # Above the cap of the agents' backoff, as the defaults are: who waits is not dead.
    "PROVEWIRE_LOST_AFTER_S": "25",
    "PROVEWIRE_LEASE_S": "8",
    "PROVEWIRE_LEASE_GRACE_S": "2",
    "PROVEWIRE_DECLINE_BACKOFF_S": "1",
    "PROVEWIRE_RECONNECT_SPREAD_S": "1",
    "PROVEWIRE_ENROLL_PER_S": "200",
}
LOST_AFTER_S = 25.0
TOKEN_TTL_S = 7200
ATTEMPTS_MAX = 40
"""The poison limit counts what is done to workers here too; it must not be what ends a good job."""


class DrivenAgent(Agent):
    """A real agent with the test engine of driven.py in it."""

    program = ("-m", "tests.chaos.driven")


@dataclass
class Machine:
    """The machine one of our daemons runs on: its disk (with the clock), its process."""

    name: str
    daemon: Hub | Agent
    disk: LossyDisk
    restart: Any = None
    """Starts the daemon again."""
    touched: set[int] = field(default_factory=set)
    """The pids of workers that something was done to; nothing is asked of them."""

    @property
    def pid(self) -> int:
        assert self.daemon.process is not None
        return self.daemon.process.pid

    def kill(self, number: signal.Signals = signal.SIGKILL) -> int:
        assert self.daemon.process is not None
        return self.daemon.process.kill(number)

    def processes(self) -> list[int]:
        """The pids of everything that runs on this machine's disk."""
        found = []
        for process in psutil.process_iter(["pid", "cmdline", "status"]):
            words = process.info["cmdline"] or []
            if process.info["status"] != psutil.STATUS_ZOMBIE and any(
                Path(word).is_relative_to(self.daemon.folder) for word in words if word.startswith("/")
            ):
                found.append(process.info["pid"])
        return found

    def workers(self) -> list[int]:
        return [pid for pid in self.processes() if pid != self.pid]

    def halt(self) -> None:
        """Everything on this machine stops at once, as its power goes."""
        self.touched.update(self.workers())
        self.kill()
        until(lambda: not [self._end(pid) for pid in self.processes()], f"all on {self.name} to be gone")

    @staticmethod
    def _end(pid: int) -> int:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return pid


@dataclass
class LossWatch:
    """Who was called lost, and when by the harness's clock: read from the hub's log as it is written."""

    log: Path
    found: list[tuple[float, str]] = field(default_factory=list)
    _seen_bytes: int = 0

    def look(self) -> None:
        with self.log.open("rb") as file:
            file.seek(self._seen_bytes)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._seen_bytes += len(line)
                if b"a node's state changed" in line and b'"lost"' in line:
                    self.found.append((time.monotonic(), line.split(b'"name": "')[1].split(b'"')[0].decode()))


class Fleet:
    """See the module. A context manager."""

    def __init__(
        self,
        rig: Rig,
        library: Path,
        *,
        seed: int,
        players: int,
        agents: str = "ab",
        lost_after_s: float = LOST_AFTER_S,
        rates: Rates = RATES,
        told_s: float = 0.1,
        attempts_max: int = ATTEMPTS_MAX,
        heartbeat_s: float = 1.0,
    ) -> None:
        self._rig = rig
        self._library = library
        self._seed = seed
        self._count = players
        self._letters = agents
        self._rates, self._told_s = rates, told_s
        self._stack = ExitStack()
        self._env = {
            **HUB,
            "PROVEWIRE_HEARTBEAT_S": f"{heartbeat_s:g}",
            "PROVEWIRE_STALE_AFTER_S": f"{3 * heartbeat_s:g}",
            "PROVEWIRE_LOST_AFTER_S": f"{lost_after_s:g}",
            "PROVEWIRE_ATTEMPTS_MAX": str(attempts_max),
        }
        self.lost_after_s = lost_after_s
        self.began_s = time.monotonic()
        self.journal = rig.folder / "journal"

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            disk = self._disk(stack, "hub")
            self.hub = Hub(self._rig, {**self._env, **disk.env}, "hub")
            self.hub_machine = Machine("hub", self.hub, disk, restart=self.hub.start)
            self.hub.start()
            self.losses = LossWatch(self._rig.folder / "hub.log")
            self.lines: dict[str, FaultyLine] = {}
            self.agents = [self._agent(stack, f"node-{letter}") for letter in self._letters]
            self.lines["line"] = stack.enter_context(FaultyLine(self.hub.port, self._seed))
            self.nginx = stack.enter_context(Nginx(self._rig.folder / "nginx", self.hub.port))
            self.players = [
                stack.enter_context(
                    Players(url, self.token(self._count).read_text(), self._count, seed, name=name, rates=self._rates)
                )
                for name, url, seed in (
                    ("line", self.lines["line"].url, self._seed),
                    ("nginx", self.nginx.url, self._seed + 1),
                )
                if self._count
            ]
            for machine in self.agents:
                self.hub.wait_node(machine.name)
                self.wait_worker(machine)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def token(self, uses: int = 1) -> Path:
        return self.hub.enroll_token(self._rig.folder, uses=uses, ttl_s=TOKEN_TTL_S)

    def _disk(self, stack: ExitStack, name: str) -> LossyDisk:
        folder = self._rig.folder
        return stack.enter_context(LossyDisk(folder / name, folder / f"{name}-disk", self._library))

    def _agent(self, stack: ExitStack, name: str) -> Machine:
        line = self.lines[name] = stack.enter_context(FaultyLine(self.hub.port, self._seed))
        disk = self._disk(stack, name)
        ledger = {
            "PROVEWIRE_LEDGER": str(self.ledger(name)),
            "PROVEWIRE_LEDGER_EVERY_S": str(self._told_s),
        }
        agent = DrivenAgent(self._rig, {**ledger, **disk.env}, name)
        token = self.token()
        # The token is there at every start: a power cut may have taken the enrolment that it was used for.
        machine = Machine(
            name,
            agent,
            disk,
            restart=lambda: agent.start(self.hub, "--hub", line.url, "--token-file", str(token)),
        )
        machine.restart()
        return machine

    def ledger(self, name: str) -> Path:
        return self._rig.folder / f"{name}.ledger"

    def wait_worker(self, machine: Machine) -> None:
        """Until the machine's worker is there."""
        daemon = machine.daemon
        assert isinstance(daemon, Agent)

        def there() -> bool:
            assert daemon.process is not None
            daemon.process.check()
            workers = (daemon.status() or {}).get("workers", [])
            return any(worker["state"] in {"idle", "proving"} for worker in workers)

        until(there, f"a worker of {machine.name}")

    @property
    def names(self) -> set[str]:
        """Every node that there must be, once."""
        real = {machine.name for machine in self.agents}
        return real | {f"{players.name}-{at:04}" for players in self.players for at in range(self._count)}

    def cut_power(self, machine: Machine, cut: Cut, rng: Any) -> int:
        """Halt a machine and leave on its disk what a power cut leaves; how many changes were not durable."""
        machine.halt()
        return machine.disk.power_cut(cut, rng)
