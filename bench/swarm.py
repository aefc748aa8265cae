"""A thousand agents in one process: real identities, sockets, sessions and frames; only sensors and disk are made up.

As a library::

    async with Swarm(hub_url, token_text, 1000, seed=7) as swarm:      # enrolled, each dialling for ever
        await swarm.until(lambda: swarm.open == swarm.count, deadline_s=60)
        ...                                                            # kill the hub, cut lines, as you like
        swarm.hush()                                                   # nothing new is emitted from here on
        await swarm.until(lambda: swarm.held == 0, deadline_s=60)      # everything emitted was acknowledged
        for agent in swarm.agents:
            agent.counts()                                             # epoch -> stream -> emitted, acknowledged

``swarm.agents`` are `bench.swarm_agent.SwarmAgent`: ``cut()`` breaks one's line, ``restart()`` kills it and starts a
new epoch, ``outbox`` and ``scene`` say what it holds and shows. Event number n of a stream carries n in its body
(`bench.traffic.number_of`). The same seed and token give the same names, keys and enrolment ids, so that a swarm that
is started again on the same hub is the same nodes.

As a command: ``python -m bench.swarm --hub URL --token-file F --count N``; it says how it stands every few seconds and
one JSON line last. Lines on its stdin are orders: ``hush``, ``cut N``, ``restart N``, ``stop``.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import stat
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeGuard

import uvloop

import bench  # noqa: F401 - first: it lets this file be run as one
from agent.backoff import Fault
from agent.clock import Clock, SystemClock
from agent.config import HubUrl, parse_hub
from agent.enroll import Token, parse_token
from agent.uplink import PING_S
from bench.descriptors import take_descriptors
from bench.enrolment import enrol_many
from bench.swarm_agent import Rates, SwarmAgent, Watcher
from wire.frames import Stream

EVENTS_HELD_MAX = 20_000
"""Of one agent: an outage of hours at the usual rates; what does not fit is not emitted."""
STOP_S = 10.0
"""For every agent's goodbye."""
DIALS_PER_S = 50.0
"""Agents that first dial in a second, unless told otherwise: what a hub accepts."""


class Swarm(Watcher):
    """``count`` agents of one hub. An async context manager: enrolled and dialling inside, gone after it."""

    def __init__(
        self,
        hub_url: str,
        token: str,
        count: int,
        seed: int = 1,
        *,
        rates: Rates = Rates(),  # noqa: B008 - frozen
        name: str = "swarm",
        gpus: int = 8,
        dial_over_s: float | None = None,
        ping_s: float | None = PING_S,
        events_held_max: int = EVENTS_HELD_MAX,
        clock: Clock | None = None,
    ) -> None:
        """Prepare a swarm.

        Args:
            hub_url: ``http://host:port`` of the hub, or of a proxy before it.
            token: the text of an enrolment token with at least ``count`` uses left.
            count: how many agents.
            seed: of names, keys, contents and phases.
            rates: how much each says.
            name: agents are called ``name-0000`` and so on.
            gpus: cards of each.
            dial_over_s: the first dials are spread over this time; None for ``count / DIALS_PER_S``.
            ping_s: between two WebSocket pings of each; None for none.
            events_held_max: events one agent holds unacknowledged, at most.
            clock: where times come from.
        """
        self.count = count
        self.agents: list[SwarmAgent] = []
        self.open = 0
        """Agents with an open session."""
        self.held = 0
        """Events that were emitted and not yet acknowledged, of all agents."""
        self.faults: Counter[str] = Counter()
        """Ends of sessions and failed dials, by `agent.backoff.Fault.name`."""
        self._hub: HubUrl = parse_hub(hub_url, insecure=False)
        self._token: Token = parse_token(token, "the token given to the swarm")
        self._seed = seed
        self._rates = rates
        self._name = name
        self._gpus = gpus
        self._dial_over_s = count / DIALS_PER_S if dial_over_s is None else dial_over_s
        self._ping_s = ping_s
        self._events_held_max = events_held_max
        self._clock = clock or SystemClock()
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    async def __aenter__(self) -> Self:
        identities = await enrol_many(
            self._hub, self._token, self.count, seed=self._seed, name=self._name, clock=self._clock
        )
        rng = random.Random(f"{self._seed}/dials")
        for at, identity in enumerate(identities):
            agent = SwarmAgent(
                identity,
                hub=self._hub,
                rates=self._rates,
                rng=random.Random(f"{self._seed}/{at}"),
                clock=self._clock,
                watcher=self,
                events_max=self._events_held_max,
                gpus=self._gpus,
                ping_s=self._ping_s,
            )
            self.agents.append(agent)
            self._start(agent.run(rng.uniform(0.0, self._dial_over_s)), identity.name)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for agent in self.agents:
            agent.stop()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=STOP_S)
            for task in late:
                task.cancel()
        failed = [one for one in await asyncio.gather(*self._tasks, return_exceptions=True) if _is_fault(one)]
        if failed and error is None:
            raise failed[0]

    # --- what a caller asks -----------------------------------------------------------------------------------------

    async def until(self, ready: Callable[[], bool], *, deadline_s: float) -> None:
        """Wait until ``ready()``, asked again whenever a session opened or ended or an event was acknowledged.

        Raises:
            TimeoutError: not within ``deadline_s``; it says how the swarm stands.
        """
        if ready():
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((ready, done))
        try:
            async with asyncio.timeout(deadline_s):
                await done
        except TimeoutError:
            raise TimeoutError(f"waited {deadline_s:g} s in vain; {self.standing()}") from None
        finally:
            self._waiting.remove((ready, done))

    def hush(self, *, quiet: bool = True) -> None:
        """Emit nothing new from now on (or, with ``quiet=False``, again); heartbeats go on."""
        for agent in self.agents:
            agent.counts()
            agent.quiet = quiet
        self._tell()

    def emitted(self) -> int:
        """Events emitted so far, all agents, epochs and streams."""
        return sum(
            each.emitted for agent in self.agents for lanes in agent.counts().values() for each in lanes.values()
        )

    def standing(self) -> str:
        """One line for people."""
        faults = ", ".join(f"{count} x {name}" for name, count in self.faults.most_common(5)) or "none"
        return f"{self.open} of {self.count} open, {self.held} events held, faults: {faults}"

    def figures(self) -> dict[str, object]:
        """What a report says."""
        by_stream = {stream.value: [0, 0] for stream in Stream}
        for agent in self.agents:
            for lanes in agent.counts().values():
                for stream, each in lanes.items():
                    by_stream[stream.value][0] += each.emitted
                    by_stream[stream.value][1] += each.acknowledged
        return {
            "count": self.count,
            "seed": self._seed,
            "open": self.open,
            "held": self.held,
            "sessions": sum(agent.sessions for agent in self.agents),
            "frames_sent": sum(agent.frames_sent for agent in self.agents),
            "bytes_sent": sum(agent.bytes_sent for agent in self.agents),
            "readings_s": max((agent.welcome.readings_s for agent in self.agents if agent.welcome), default=None),
            "refused_for_room": sum(agent.outbox.refused for agent in self.agents),
            "emitted": {name: pair[0] for name, pair in by_stream.items() if pair[0]},
            "acknowledged": {name: pair[1] for name, pair in by_stream.items() if pair[0]},
            "faults": dict(self.faults),
        }

    # --- from the agents ----------------------------------------------------------------------------------------------

    def opened(self, agent: SwarmAgent) -> None:  # noqa: ARG002 - see `Watcher`
        """See `Watcher`."""
        self.open += 1
        self._tell()

    def closed(self, agent: SwarmAgent, fault: Fault, *, was_open: bool) -> None:  # noqa: ARG002 - see `Watcher`
        """See `Watcher`."""
        self.open -= was_open
        self.faults[fault.name] += 1
        self._tell()

    def held_more(self, more: int) -> None:
        """See `Watcher`."""
        self.held += more
        if more < 0:
            self._tell()

    def _tell(self) -> None:
        for ready, done in self._waiting:
            if not done.done() and ready():
                done.set_result(None)

    def _start(self, life: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.append(asyncio.create_task(life, name=name))


def _is_fault(result: object) -> TypeGuard[BaseException]:
    return isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError)


# --- the command ------------------------------------------------------------------------------------------------------


async def serve(swarm: Swarm, *, seconds: float, say_every_s: float) -> None:
    """Play until ``seconds`` are over, a signal comes, or stdin says ``stop``; say now and then how it stands."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with swarm:
        orders = asyncio.create_task(_obey(swarm, stop) if _takes_orders() else asyncio.sleep(0))
        end_s = loop.time() + seconds
        while not stop.is_set() and (left_s := end_s - loop.time()) > 0.0:
            print(swarm.standing(), flush=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(say_every_s, left_s)):
                    await stop.wait()
        orders.cancel()
        print(json.dumps({"swarm": swarm.figures()}), flush=True)


async def _obey(swarm: Swarm, stop: asyncio.Event) -> None:
    """Orders from stdin: ``hush``, ``cut N``, ``restart N`` (N agents at random), ``stop``."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    rng = random.Random(f"{swarm.figures()['seed']}/orders")
    while line := await reader.readline():
        word, _, number = line.decode(errors="replace").strip().partition(" ")
        some = rng.sample(swarm.agents, min(int(number), swarm.count)) if number.isdigit() else []
        if word == "hush":
            swarm.hush()
            print("hushed", flush=True)
        elif word == "stop":
            stop.set()
        elif word in ("cut", "restart"):
            for agent in some:
                agent.cut() if word == "cut" else agent.restart()
        else:
            print(f"no order: {word!r}; hush, cut N, restart N and stop are", flush=True)


def _takes_orders() -> bool:
    """Whether stdin is something to wait for: a pipe, a socket or a terminal."""
    mode = os.fstat(sys.stdin.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or sys.stdin.isatty()


def rates_from(args: argparse.Namespace) -> Rates:
    """The rates of the command line."""
    return Rates(**{name: getattr(args, name) for name in Rates.__struct_fields__})


def add_rates(parser: argparse.ArgumentParser, rates: Rates) -> None:
    """An option for each of `Rates`, with these defaults."""
    for name in Rates.__struct_fields__:
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, type=float, default=getattr(rates, name), metavar="S", help="0: never")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.swarm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hub", required=True, metavar="URL", help="where the agents dial and enrol")
    parser.add_argument("--token-file", type=Path, required=True, metavar="F", help="an enrolment token, COUNT uses")
    parser.add_argument("--count", type=int, default=1000, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--name", default="swarm", help="agents are called NAME-0000 and so on")
    parser.add_argument("--gpus", type=int, default=8, help="cards of each")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="then it ends by itself")
    parser.add_argument("--say-every-s", type=float, default=5.0)
    parser.add_argument("--dial-over-s", type=float, help="spread of the first dials (default: COUNT / 50)")
    parser.add_argument("--ping-s", type=float, default=PING_S, help="between two WebSocket pings; 0: none")
    add_rates(parser, Rates())
    args = parser.parse_args()
    take_descriptors()
    swarm = Swarm(
        args.hub,
        args.token_file.read_text(),
        args.count,
        args.seed,
        rates=rates_from(args),
        name=args.name,
        gpus=args.gpus,
        dial_over_s=args.dial_over_s,
        ping_s=args.ping_s or None,
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(swarm, seconds=args.seconds, say_every_s=args.say_every_s))
    return 0


if __name__ == "__main__":
    sys.exit(main())
