"""The swarm of `bench.swarm`, on an event loop in a thread of its own, for a harness that is not asynchronous."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from bench.swarm import Swarm
from bench.swarm_agent import Rates

T = TypeVar("T")
RATES = Rates(status_s=1.0, sweep_s=20.0, events_s=0.5, logs_s=0.5, readings_s=2.0, state_s=3.0)
CROWD = Rates(status_s=5.0, sweep_s=60.0, events_s=5.0, logs_s=5.0, readings_s=10.0, state_s=30.0)
"""For hundreds of them."""
SLOW = Rates(status_s=1.0, sweep_s=20.0, events_s=3.0, logs_s=3.0, readings_s=5.0, state_s=3.0)
"""For scenarios whose durable effects are counted."""
START_S = 120.0
ANSWER_S = 30.0


class Players:
    """Many agents in this process."""

    def __init__(self, url: str, token: str, count: int, seed: int, *, name: str, rates: Rates = RATES) -> None:
        self.name = name
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.swarm = Swarm(url, token, count, seed, rates=rates, name=name, dial_over_s=min(2.0, count / 50))

    def __enter__(self) -> Self:
        self._thread.start()
        self._ask(self.swarm.__aenter__(), START_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ask(self.swarm.__aexit__(kind, error, trace), ANSWER_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _ask(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def call(self, function: Callable[[], T]) -> T:
        """Run ``function`` where the swarm lives."""

        async def work() -> T:
            return function()

        return self._ask(work(), ANSWER_S)

    def until(self, ready: Callable[[], bool], deadline_s: float) -> None:
        self._ask(self.swarm.until(ready, deadline_s=deadline_s), deadline_s + ANSWER_S)

    def emitted(self) -> dict[tuple[str, str, str], int]:
        """(agent, epoch, stream) to the last number that was given out."""

        def counted() -> dict[tuple[str, str, str], int]:
            return {
                (agent.id, epoch, stream.value): each.emitted
                for agent in self.swarm.agents
                for epoch, lanes in agent.counts().items()
                for stream, each in lanes.items()
            }

        return self.call(counted)

    def be_patient(self) -> None:
        """Forget how often the hub was away: on the swarm's loop."""
        for agent in self.swarm.agents:
            agent._backoff.reset()

    def acknowledged(self) -> int:
        """Events that the hub said it keeps, of all agents."""

        def counted() -> int:
            return sum(
                each.acknowledged
                for agent in self.swarm.agents
                for lanes in agent.counts().values()
                for each in lanes.values()
            )

        return self.call(counted)
