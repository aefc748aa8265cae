"""Takes notices from their outbox to their channels, until each was taken or given up.

A notice is a row from the moment its alert is, so none is lost with the hub. One that was delivered in the very moment
the hub was killed is delivered again: the row did not know of it yet.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec
import structlog
from msgspec import Struct

from hub.alerts import words
from hub.alerts.messenger import Errand, Message
from hub.alerts.notices import SINGLY_MAX, channel_after, tried
from hub.alerts.records import Channel, Kind, Notice, NoticeState
from hub.alerts.sealed import Seal, Unreadable
from hub.alerts.sending import Sender
from hub.alerts.targets import Allowed
from hub.clock import Clock
from hub.faults import FAULTS
from hub.store.alerts import AlertChange
from hub.store.base import Store, StoreError

log = structlog.get_logger(__name__)

EVERY_S = 5.0
"""Between two looks for what is due again; what is new is sent at once."""
AT_A_LOOK_MAX = 500


def message_of(notice: Notice) -> Message:
    """As it is handed over."""
    return Message(notice.title, notice.body, notice.severity.value, notice.kind is Kind.RESOLVE)


class Delivered(Struct):
    """Counts for the metrics."""

    sent: int = 0
    failed: int = 0
    """Tries that came to nothing."""
    given_up: int = 0


class Outbox:
    """The task.

    Args:
        channels: those there are now.
        settled: told of a channel after a try.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        store: Store,
        seal: Seal,
        allowed: Allowed,
        sender: Sender,
        channels: Callable[[], Sequence[Channel]],
        settled: Callable[[Channel], None],
    ) -> None:
        self._clock = clock
        self._store = store
        self._seal = seal
        self._allowed = allowed
        self._sender = sender
        self._channels = channels
        self._settled = settled
        self._wake = asyncio.Event()
        self._turn = asyncio.Lock()
        self.counts = Delivered()
        self.waiting = 0
        """As of the last look."""

    def wake(self) -> None:
        """Something is due."""
        self._wake.set()

    async def run(self) -> None:
        """For ever."""
        while True:
            self._wake.clear()
            try:
                await self.deliver()
            except StoreError as error:
                log.warning("the outbox of notices cannot be read or written", error=str(error))
            except Exception:
                FAULTS.count("alerts")
                log.exception("notices could not be delivered by a fault of ours")
            try:
                async with asyncio.timeout(EVERY_S):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def deliver(self) -> None:
        """Whatever is due now.

        Raises:
            StoreError: the outbox cannot be read or written.
        """
        async with self._turn:
            await self._deliver()

    async def _deliver(self) -> None:
        due = await self._store.alerts.due(self._clock.time_ms(), limit=AT_A_LOOK_MAX)
        by_channel: dict[str, list[Notice]] = {}
        for notice in due:
            by_channel.setdefault(notice.channel_id, []).append(notice)
        known = {channel.id: channel for channel in self._channels()}
        async with asyncio.TaskGroup() as tasks:
            for channel_id, mine in by_channel.items():
                if (channel := known.get(channel_id)) is not None:
                    tasks.create_task(self._send(channel, mine))
        self.waiting = await self._store.alerts.waiting()

    async def send_now(self, channel: Channel, messages: Sequence[Message]) -> tuple[tuple[bool, ...], str]:
        """Past the outbox: for what cannot wait for the store. Whether each was taken, and why not."""
        try:
            url = self._seal.open(channel.address)
        except Unreadable as error:
            return (False,) * len(messages), str(error)
        outcome = await self._sender.run(Errand(url, self._allowed, tuple(messages)))
        return outcome.delivered, outcome.error

    async def try_out(self, channel: Channel, notice: Notice) -> Notice:
        """Send one now, and keep what became of it.

        Raises:
            StoreError: that could not be kept.
        """
        # Failed until it is known to be delivered, so that nobody else sends it.
        await self._store.alerts.keep(AlertChange(notices=[msgspec.structs.replace(notice, state=NoticeState.FAILED)]))
        return (await self._send(channel, [notice]))[0]

    async def _send(self, channel: Channel, notices: Sequence[Notice]) -> list[Notice]:
        together = len(notices) > SINGLY_MAX
        if together:
            title, body = words.digest([notice.title for notice in notices])
            worst = max((notice.severity for notice in notices), key=lambda severity: severity.rank)
            messages = [Message(title, body, worst.value)]
        else:
            messages = [message_of(notice) for notice in notices]
        delivered, error = await self.send_now(channel, messages)
        fates = delivered * len(notices) if together else delivered
        now_ms = self._clock.time_ms()
        after = [
            tried(notice, delivered=fate, error=error, now_ms=now_ms)
            for notice, fate in zip(notices, fates, strict=True)
        ]
        channel = channel_after(channel, delivered=all(fates), error=error, now_ms=now_ms)
        await self._store.alerts.tried(after, channel)
        self._count(channel, after, fates)
        self._settled(channel)
        return after

    def _count(self, channel: Channel, notices: Sequence[Notice], fates: Sequence[bool]) -> None:
        self.counts.sent += sum(fates)
        self.counts.failed += len(fates) - sum(fates)
        self.counts.given_up += sum(notice.ended_at_ms is not None for notice in notices) - sum(fates)
        if all(fates):
            log.info("notices were delivered", channel=channel.name, notices=len(notices))
        else:
            log.warning("notices were not delivered", channel=channel.name, notices=len(notices), why=channel.failure)
