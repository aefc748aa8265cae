"""Work that goes on when whoever waits for it is gone."""

import asyncio

import pytest

from hub.undisturbed import Undisturbed


async def test_work_is_finished_though_its_waiter_is_cancelled() -> None:
    undisturbed, gate, done = Undisturbed(), asyncio.Event(), asyncio.Event()

    async def work() -> int:
        await gate.wait()
        done.set()
        return 7

    waiter = asyncio.create_task(undisturbed.finish(work()))
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    gate.set()
    async with asyncio.timeout(10):
        await done.wait()
        assert await undisturbed.finish(work()) == 7
    assert not undisturbed._tasks


async def test_its_error_is_its_waiters() -> None:
    async def work() -> None:
        raise LookupError("on purpose")

    with pytest.raises(LookupError):
        await Undisturbed().finish(work())
