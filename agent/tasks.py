"""The tasks of one agent: none is lost, and what goes wrong in one is raised where they are closed."""

import asyncio
from collections.abc import Coroutine


class Tasks:
    """The agent's tasks. One that fails, or ends when it should not, stops the agent, which then raises its error."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self._tasks: set[asyncio.Task[None]] = set()
        self._error: BaseException | None = None

    def start(self, work: Coroutine[object, object, None], *, ends: bool = False) -> asyncio.Task[None]:
        """Run ``work``; ``ends`` says that it may end by itself."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._on_done(done, ends=ends))
        return task

    def spawn(self, work: Coroutine[object, object, None]) -> None:
        """Run ``work``, which ends by itself."""
        self.start(work, ends=True)

    def _on_done(self, task: asyncio.Task[None], *, ends: bool) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None and not ends:
            error = RuntimeError(f"{task.get_coro()} ended by itself")
        if error is not None:
            self._error = self._error or error
            self._stop.set()

    async def close(self) -> None:
        """Cancel what runs, wait for it, and raise what went wrong."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._error is not None:
            raise self._error
