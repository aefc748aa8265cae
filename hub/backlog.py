"""What one session has still to do with the store, in the order it came: by a worker, or past it when nothing waits.

The worker is a task that exists only while there is something to do. Nothing here knows the protocol or the socket.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from hub.store.base import StoreError
from wire.inputs import EventsReceived
from wire.limits import EVENTS_PER_FRAME_MAX

ITEMS_MAX = 64
"""Frames that wait for the store, one agent's; then its socket is not read any further."""

Work = Callable[[], Awaitable[None]]
Settled = Callable[[EventsReceived, int | BaseException], None]
"""Told the committed head of events that were stored, or why they were not."""


class Owner(Protocol):
    """The session it belongs to."""

    async def store(self, received: EventsReceived) -> int:
        """Store events; the head of their stream."""

    def store_soon(self, received: EventsReceived, settled: Settled) -> bool:
        """The same without a task; False: these have to go to the worker, and nothing was done."""

    def stored(self, received: EventsReceived, head: int, *, alone: bool) -> None:
        """They are committed; ``alone``: past the worker."""

    def went_wrong(self, error: BaseException) -> None:
        """Work could not be done."""

    def worked(self) -> None:
        """The worker has done one thing."""


class Backlog:
    """Of one session."""

    __slots__ = ("_failed", "_items", "_owner", "_room", "_settled", "_under_way", "_worker")

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._items: list[Work | EventsReceived] = []
        self._worker: asyncio.Task[None] | None = None
        self._under_way = 0
        """Frames of events that are being stored past the worker."""
        self._settled: asyncio.Future[None] | None = None
        """The end waits for these."""
        self._room: asyncio.Future[None] | None = None
        """The reader waits for the worker."""
        self._failed = False
        """The store failed at events: what follows does not fit any more, and the agent sends all of it again."""

    @property
    def full(self) -> bool:
        """Whether no further frame may be taken before something is done."""
        return len(self._items) + self._under_way >= ITEMS_MAX

    def do(self, work: Work | EventsReceived) -> None:
        """Have something done, or events stored, after what there is to do already.

        It is the reader that keeps this bounded: while it is `full` it takes no further frame.
        """
        self._items.append(work)
        self._begin()

    def take(self, received: EventsReceived) -> None:
        """Have events stored: past the worker where nothing waits before them."""
        if self._worker is None and not self._items and self._owner.store_soon(received, self._past_the_worker):
            self._under_way += 1
        else:
            self.do(received)

    async def room(self) -> None:
        """Wait until it is not full."""
        while self.full:
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    async def settled(self) -> None:
        """Wait until everything is done."""
        if self._under_way:
            self._settled = asyncio.get_running_loop().create_future()
            await self._settled
        if self._worker is not None:
            await self._worker

    async def cancel(self) -> None:
        """Give up what is left."""
        self._items.clear()
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    def release(self) -> None:
        """Let go of the session, which is over: else both stay in memory until cycles are looked for."""
        if not self._under_way:
            del self._owner

    def _begin(self) -> None:
        """Have the worker start, once what goes past it is done: everything happens in its order."""
        if self._worker is None and self._items and not self._under_way:
            self._worker = asyncio.create_task(self._work_off())

    async def _work_off(self) -> None:
        """Do what was queued, in order, also after the session's end: it was received before it."""
        while self._items:
            work = self._items.pop(0)
            if isinstance(work, EventsReceived):
                work = self._with_those_behind(work)
            self._make_room()
            try:
                if isinstance(work, EventsReceived):
                    await self._store(work)
                else:
                    await work()
            except Exception as error:  # noqa: BLE001 - a bug here must not reach another session
                self._owner.went_wrong(error)
            self._owner.worked()
        self._worker = None

    def _make_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def _with_those_behind(self, first: EventsReceived) -> EventsReceived:
        """These events and, in one commit, those of the same stream that came while an earlier commit took its time."""
        count = len(first.events)
        behind = 0
        for item in self._items:
            if not isinstance(item, EventsReceived) or (item.epoch, item.stream) != (first.epoch, first.stream):
                break
            if count + len(item.events) > EVENTS_PER_FRAME_MAX:
                break
            count += len(item.events)
            behind += 1
        if not behind:
            return first
        together = [first, *self._items[:behind]]
        del self._items[:behind]
        items = [item for item in together if isinstance(item, EventsReceived)]
        events = [event for item in items for event in item.events]
        return EventsReceived(first.epoch, first.stream, events, sum(item.size_bytes for item in items))

    async def _store(self, received: EventsReceived) -> None:
        if self._failed:
            return
        try:
            head = await self._owner.store(received)
        except StoreError:
            self._failed = True
            raise
        self._owner.stored(received, head, alone=False)

    def _past_the_worker(self, received: EventsReceived, outcome: int | BaseException) -> None:
        self._under_way -= 1
        self._make_room()
        if not isinstance(outcome, BaseException):
            self._owner.stored(received, outcome, alone=True)
        elif not self._failed:
            self._failed = True
            self._owner.went_wrong(outcome)
        if not self._under_way:
            self._begin()
            if self._settled is not None and not self._settled.done():
                self._settled.set_result(None)
