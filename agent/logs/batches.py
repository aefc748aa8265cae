"""Groups what all sources have to store: one transaction and one fsync for as many records as come in a moment.

A batch is kept or not as a whole, with the places its sources have reached. So after a kill each source goes on behind
exactly what is in the outbox.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

import structlog
from msgspec import Struct

from agent.clock import Clock
from agent.outbox import Stamped
from agent.outbox_file import OutboxRefused

log = structlog.get_logger(__name__)

BATCH_BYTES_MAX = 64 * 1024
LINGER_S = 0.1
"""Others may join a batch for this long."""
RETRY_S = 1.0
RETRY_S_MAX = 30.0


class Sink(Protocol):
    """Where records and places are kept: `agent.outbox.Outbox`."""

    async def append_stamped(self, stamped: Sequence[Stamped], marks: Mapping[str, bytes] = ...) -> list[int]:
        """Store all of it or, raising `OutboxRefused`, nothing."""
        ...


class _Waiting(Struct, eq=False):
    stamped: Sequence[Stamped]
    marks: Mapping[str, bytes]
    size_bytes: int
    stored: asyncio.Future[None]


class Batches:
    """Takes submissions and stores them together; each returns when it is on the disk."""

    def __init__(self, sink: Sink, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock
        self._waiting: deque[_Waiting] = deque()
        self._wake = asyncio.Event()
        self.refused = False
        """The disk does not take records at present; nothing is lost by it, the sources wait."""
        self.stored_records = 0
        self.batches = 0

    async def submit(self, stamped: Sequence[Stamped], marks: Mapping[str, bytes], size_bytes: int) -> None:
        """Store, and return when it is durable. A caller that is cancelled may find it stored or not."""
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(stamped, marks, size_bytes, stored))
        self._wake.set()
        await stored

    async def run(self) -> None:
        """Store what comes; for ever. A full disk is waited for."""
        while True:
            await self._wake.wait()
            await self._clock.sleep(LINGER_S)
            while batch := self._next():
                await self._store(batch)
            self._wake.clear()

    def _next(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        size_bytes = 0
        while self._waiting and (not batch or size_bytes + self._waiting[0].size_bytes <= BATCH_BYTES_MAX):
            size_bytes += self._waiting[0].size_bytes
            batch.append(self._waiting.popleft())
        return batch

    async def _store(self, batch: list[_Waiting]) -> None:
        stamped = [one for waiting in batch for one in waiting.stamped]
        marks = {name: value for waiting in batch for name, value in waiting.marks.items()}
        wait_s = RETRY_S
        while True:
            try:
                await self._sink.append_stamped(stamped, marks)
                break
            except OutboxRefused as refused:
                if not self.refused:
                    log.warning("logs.waiting_for_the_disk", error=str(refused))
                self.refused = True
                await self._clock.sleep(wait_s)
                wait_s = min(2 * wait_s, RETRY_S_MAX)
        self.refused = False
        self.batches += 1
        self.stored_records += len(stamped)
        for waiting in batch:
            if not waiting.stored.done():
                waiting.stored.set_result(None)
