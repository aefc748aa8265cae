"""A clock that stands still until a test moves it."""

import asyncio
import heapq
import itertools
from collections.abc import Callable

TURNS = 25
"""Turns of the event loop given to whoever was woken; a wake-up passes through a handful of tasks at most."""


class VirtualClock:
    """`agent.clock.Clock` in virtual time."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        return self.now_s

    def monotonic_ns(self) -> int:
        return int(self.now_s * 1e9)

    def unix_ms(self) -> int:
        return 1_700_000_000_000 + int(self.now_s * 1000)

    async def sleep(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now_s + max(0.0, seconds), next(self._order), future))
        await future

    @property
    def sleeping(self) -> list[float]:
        """When each sleeper wakes, soonest first."""
        return sorted(due for due, _, future in self._sleepers if not future.done())

    async def advance(self, seconds: float) -> None:
        """Move time on, waking everyone in order."""
        end_s = self.now_s + seconds
        await turns()
        while self._sleepers and self._sleepers[0][0] <= end_s:
            due, _, future = heapq.heappop(self._sleepers)
            self.now_s = max(self.now_s, due)
            if not future.done():
                future.set_result(None)
                await turns()
        self.now_s = end_s
        await turns()

    async def advance_until(self, ready: Callable[[], bool], *, step_s: float = 1.0, limit_s: float = 3600.0) -> None:
        """Move time on in steps until ``ready``."""
        end_s = self.now_s + limit_s
        while not ready():
            assert self.now_s < end_s, f"not ready after {limit_s:g} s of virtual time"
            await self.advance(step_s)


async def turns(count: int = TURNS) -> None:
    """Let everything that can run, run."""
    for _ in range(count):
        await asyncio.sleep(0)


async def eventually(
    ready: Callable[[], object],
    what: str,
    deadline_s: float = 20.0,
    *,
    clock: VirtualClock | None = None,
    step_s: float = 1.0,
) -> None:
    """Let the loop run until ``ready``, which another task or process brings about.

    With a ``clock`` its time moves on by ``step_s`` at each look, for what needs both: real sockets and virtual waits.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + deadline_s
    while not ready():
        assert loop.time() < end_s, f"waited {deadline_s:g} s in vain for {what}"
        if clock is not None:
            await clock.advance(step_s)
        await asyncio.sleep(0.005)
