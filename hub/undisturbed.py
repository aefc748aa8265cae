"""Work that is not left half-way when whoever waits for it is: a change is committed and taken over, or neither."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class Undisturbed:
    """Holds such work until it is done."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def finish(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Wait for ``work``; it goes on to its end when the waiting is cancelled, by a deadline for example."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)
