"""Time as a part that is passed in, so that every timer can be tested without waiting."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Where the agent gets all of its times from."""

    def monotonic(self) -> float:
        """Seconds that never go back; for durations and deadlines."""
        ...

    def monotonic_ns(self) -> int:
        """The same in nanoseconds, as events carry it."""
        ...

    def unix_ms(self) -> int:
        """Wall time in milliseconds since 1970, UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after ``seconds``."""
        ...


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        """See `Clock`."""
        return time.monotonic()

    def monotonic_ns(self) -> int:
        """See `Clock`."""
        return time.monotonic_ns()

    def unix_ms(self) -> int:
        """See `Clock`."""
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        """See `Clock`."""
        await asyncio.sleep(seconds)


async def wait_event(clock: Clock, event: asyncio.Event, timeout_s: float | None) -> bool:
    """Wait until ``event`` is set, at most ``timeout_s`` of ``clock``'s time; whether it is set."""
    if event.is_set() or (timeout_s is not None and timeout_s <= 0):
        # A turn for the others, so that a caller that loops on a past deadline starves nobody.
        await asyncio.sleep(0)
        return event.is_set()
    waits: list[asyncio.Future[object]] = [asyncio.ensure_future(event.wait())]
    if timeout_s is not None:
        waits.append(asyncio.ensure_future(clock.sleep(timeout_s)))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
    return event.is_set()
