import asyncio

from agent.clock import SystemClock, wait_event
from tests.agent.virtual_time import VirtualClock, turns


async def test_an_event_ends_the_wait_before_its_time() -> None:
    clock, event = VirtualClock(), asyncio.Event()
    waiter = asyncio.create_task(wait_event(clock, event, 10.0))
    await clock.advance(9.0)
    assert not waiter.done()
    event.set()
    assert await waiter


async def test_the_time_ends_the_wait_without_the_event() -> None:
    clock, event = VirtualClock(), asyncio.Event()
    waiter = asyncio.create_task(wait_event(clock, event, 10.0))
    await clock.advance(10.0)
    assert not await waiter


async def test_a_past_deadline_gives_others_a_turn() -> None:
    clock, event = VirtualClock(), asyncio.Event()
    others = []
    task = asyncio.create_task(turns(1))
    task.add_done_callback(lambda _: others.append(1))
    for _ in range(4):
        assert not await wait_event(clock, event, -1.0)
    assert others


async def test_a_wait_without_end_is_cancelled_cleanly() -> None:
    waiter = asyncio.create_task(wait_event(VirtualClock(), asyncio.Event(), None))
    await turns()
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    assert waiter.cancelled()


async def test_the_machines_clocks_agree_with_each_other() -> None:
    clock = SystemClock()
    before_s = clock.monotonic()
    await clock.sleep(0.0)
    assert 0 <= clock.monotonic_ns() / 1e9 - before_s < 5.0
    assert clock.unix_ms() > 1_600_000_000_000
