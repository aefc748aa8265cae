"""In-process fan-out of what changed. Bounded for each subscriber: a slow one loses detail, never anyone's time.

A message carries the new picture, so only the latest of each subject waits: a subscriber that lags behind by a
thousand changes of one node finds one message. When more subjects wait than a subscriber may hold, its queue is emptied
and it gets one `Resync`: it must read the whole picture again.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from hub.registry import Node
from hub.store.records import Job

QUEUE_MESSAGES_MAX = 16_384
"""Subjects that may wait for one subscriber: a fleet and its open jobs. A message is a reference to what is there."""


class NodeChanged(Struct, frozen=True):
    """A node's picture changed."""

    node: Node
    of_state: bool = True
    """Whether more than readings may have changed."""
    jobs: bool = True
    """Whether the progress of its jobs may have."""

    @property
    def subject(self) -> str:
        """What it tells of: the next message of it takes its place."""
        return self.node.id

    def after(self, earlier: "Message") -> "NodeChanged":
        """This in the place of an earlier one, whose changes nobody has heard of yet."""
        if not isinstance(earlier, NodeChanged):
            return self
        return NodeChanged(self.node, self.of_state or earlier.of_state, self.jobs or earlier.jobs)


class NodeGone(Struct, frozen=True):
    """A node was revoked and is shown no more."""

    agent_id: str

    @property
    def subject(self) -> str:
        """The same as of its changes: after this nothing of it is worth telling."""
        return self.agent_id


class JobChanged(Struct, frozen=True):
    """A job's stored row changed. Progress within a phase comes with the node's status."""

    job: Job
    agent_id: str | None
    """Who holds the lease now."""

    @property
    def subject(self) -> str:
        """The job."""
        return self.job.id


class LogsStored(Struct, frozen=True):
    """Log records of a node were committed, up to a number of their stream."""

    agent_id: str
    head: int

    @property
    def subject(self) -> str:
        """The node's log."""
        return f"logs of {self.agent_id}"


class SshAttempted(Struct, frozen=True):
    """An attempt to reach a node by SSH is over and stored."""

    agent_id: str
    attempt: str
    """Its id; of two tries the last one's."""

    @property
    def subject(self) -> str:
        """The node's way in."""
        return f"ssh of {self.agent_id}"


class IncidentsChanged(Struct, frozen=True):
    """What many nodes suffer from alike, or what is wrong on this side of the ways in, changed."""

    @property
    def subject(self) -> str:
        """The one picture of it."""
        return "incidents"


class AlertsChanged(Struct, frozen=True):
    """An alert fired, changed or ended, or what operators said about alerts changed."""

    @property
    def subject(self) -> str:
        """The one picture of them."""
        return "alerts"


class Resync(Struct, frozen=True):
    """Messages were dropped: read the whole picture again."""

    @property
    def subject(self) -> str:
        """Everything."""
        return ""


Message = NodeChanged | NodeGone | JobChanged | LogsStored | SshAttempted | IncidentsChanged | AlertsChanged | Resync


class Subscription:
    """One subscriber's queue. ``async for`` yields messages until the bus closes."""

    def __init__(self, queue_max: int, kinds: tuple[type[Message], ...] = ()) -> None:
        self._kinds = (*kinds, Resync)
        self._all_kinds = not kinds
        self._messages: dict[str, Message] = {}
        self._queue_max = queue_max
        self._wake = asyncio.Event()
        self._closed = False
        self.dropped = 0

    def put(self, message: Message) -> None:
        """Queue a message, in place of an earlier one of its subject; on overflow empty the queue for a `Resync`."""
        if not (self._all_kinds or isinstance(message, self._kinds)):
            return
        subject = message.subject
        earlier = self._messages.get(subject)
        if earlier is not None:
            self._messages[subject] = message.after(earlier) if isinstance(message, NodeChanged) else message
            return
        if len(self._messages) >= self._queue_max:
            self.dropped += len(self._messages)
            self._messages = {"": Resync()}
        self._messages[subject] = message
        self._wake.set()

    def close(self) -> None:
        """End the iteration once the queue is empty."""
        self._closed = True
        self._wake.set()

    def __len__(self) -> int:
        return len(self._messages)

    async def take(self) -> list[Message]:
        """All that waits, oldest subject first, and at least one; none once the bus is closed."""
        while not self._messages:
            if self._closed:
                return []
            self._wake.clear()
            await self._wake.wait()
        waiting = list(self._messages.values())
        self._messages.clear()
        return waiting

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Message:
        while not self._messages:
            if self._closed:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._messages.pop(next(iter(self._messages)))


class Bus:
    """Publishes to every subscription; never waits."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()
        self._closed = False
        self._dropped = 0
        self.readings_wanted = False
        """Whether somebody looks at readings now: they change all the time, and telling nobody costs as much."""

    @property
    def subscribers(self) -> int:
        """How many are listening."""
        return len(self._subscriptions)

    @property
    def waiting(self) -> int:
        """Messages that wait for the slowest."""
        return max(map(len, self._subscriptions), default=0)

    @property
    def dropped(self) -> int:
        """Messages dropped so far."""
        return self._dropped + sum(subscription.dropped for subscription in self._subscriptions)

    @contextmanager
    def subscribe(
        self, queue_max: int = QUEUE_MESSAGES_MAX, *, kinds: tuple[type[Message], ...] = ()
    ) -> Iterator[Subscription]:
        """Listen within a ``with`` block, to messages of these kinds or of all."""
        subscription = Subscription(queue_max, kinds)
        if self._closed:
            subscription.close()
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
            self._dropped += subscription.dropped

    def publish(self, message: Message) -> None:
        """Hand a message to every subscriber."""
        for subscription in self._subscriptions:
            subscription.put(message)

    def close(self) -> None:
        """End every subscription, and those still to come."""
        self._closed = True
        for subscription in self._subscriptions:
            subscription.close()
