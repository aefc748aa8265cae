"""In-process fan-out of what changed. Bounded for each subscriber: a slow one loses detail, never anyone's time.

A message carries the new picture, so only the latest of each subject matters. When a subscriber's queue is full it is
emptied and the subscriber gets one `Resync`: it must read the whole picture again.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from hub.registry import Node
from hub.store.records import Job

QUEUE_MESSAGES_MAX = 1024
"""Messages one subscriber may lag behind."""


class NodeChanged(Struct, frozen=True):
    """A node's picture changed."""

    node: Node


class NodeGone(Struct, frozen=True):
    """A node was revoked and is shown no more."""

    agent_id: str


class JobChanged(Struct, frozen=True):
    """A job's stored row changed. Progress within a phase comes with the node's status."""

    job: Job
    agent_id: str | None
    """Who holds the lease now."""


class Resync(Struct, frozen=True):
    """Messages were dropped: read the whole picture again."""


Message = NodeChanged | NodeGone | JobChanged | Resync


class Subscription:
    """One subscriber's queue. ``async for`` yields messages until the bus closes."""

    def __init__(self, queue_max: int) -> None:
        self._messages: deque[Message] = deque()
        self._queue_max = queue_max
        self._wake = asyncio.Event()
        self._closed = False
        self.dropped = 0

    def put(self, message: Message) -> None:
        """Queue a message; on overflow empty the queue and leave one `Resync`."""
        if len(self._messages) >= self._queue_max:
            self.dropped += len(self._messages)
            self._messages.clear()
            self._messages.append(Resync())
        self._messages.append(message)
        self._wake.set()

    def close(self) -> None:
        """End the iteration once the queue is empty."""
        self._closed = True
        self._wake.set()

    def __len__(self) -> int:
        return len(self._messages)

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Message:
        while not self._messages:
            if self._closed:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._messages.popleft()


class Bus:
    """Publishes to every subscription; never waits."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()
        self._closed = False

    @property
    def subscribers(self) -> int:
        """How many are listening."""
        return len(self._subscriptions)

    @contextmanager
    def subscribe(self, queue_max: int = QUEUE_MESSAGES_MAX) -> Iterator[Subscription]:
        """Listen within a ``with`` block."""
        subscription = Subscription(queue_max)
        if self._closed:
            subscription.close()
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

    def publish(self, message: Message) -> None:
        """Hand a message to every subscriber."""
        for subscription in self._subscriptions:
            subscription.put(message)

    def close(self) -> None:
        """End every subscription, and those still to come."""
        self._closed = True
        for subscription in self._subscriptions:
            subscription.close()
