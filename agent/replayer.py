"""Reads the outbox for one session and forgets what is acknowledged; its disk and its pace are nobody else's business.

Jobs, events, readings, logs, in each the older epochs first; readings and logs at the pace of `agent.pacing`.
"""

import asyncio
from collections.abc import Callable

import structlog
from msgspec import Struct

from agent.clock import Clock, wait_event
from agent.outbox import Outbox
from agent.outbox_file import OutboxRefused
from agent.pacing import PACED, Pace
from wire.events import streams_of
from wire.frames import Event, Gap, Stream
from wire.reasons import Reason
from wire.session import AgentSession
from wire.streams import Want

log = structlog.get_logger(__name__)

DISK_RETRY_S = 5.0


class Ending(Struct, frozen=True):
    """Why the session has to end."""

    reason: Reason
    detail: str


class Replayer:
    """The outbox's side of one session. ``run`` needs its own task; everything else only notes."""

    def __init__(self, session: AgentSession, outbox: Outbox, *, clock: Clock, on_frames: Callable[[], None]) -> None:
        self._session = session
        self._outbox = outbox
        self._clock = clock
        self._on_frames = on_frames
        self._wake = asyncio.Event()
        self._sent = asyncio.Event()
        self._acks: dict[tuple[str, Stream], int] = {}
        self._pace = Pace()
        self._epochs = {held.epoch for held in outbox.held}
        """What this session's hello could list."""
        self.more_epochs = False
        """The session ended only to take up more epochs in the next one."""

    def wake(self) -> None:
        """The outbox holds something new, or the session has opened."""
        self._wake.set()

    def sent(self) -> None:
        """What was handed to the session is on its way."""
        self._sent.set()

    def status_sent(self, status_seq: int) -> None:
        """A status was handed to the session."""
        self._pace.status_sent(status_seq, self._clock.monotonic())

    def status_heard(self, status_seq: int) -> None:
        """The hub has this status."""
        self._pace.status_heard(status_seq, self._clock.monotonic())
        self._wake.set()

    def acknowledged(self, epoch: str, stream: Stream, seq: int) -> None:
        """The hub has everything of a stream up to ``seq``."""
        self._acks[epoch, stream] = seq
        self._pace.acknowledged(epoch, stream, seq, self._clock.monotonic())
        self._wake.set()

    async def run(self) -> Ending:
        """Replay until the session has to end, if ever."""
        while True:
            await wait_event(self._clock, self._wake, self._paced_wait_s())
            self._wake.clear()
            try:
                await self._forget_acknowledged()
                while (handed := await self._hand_over()) is True:
                    await self._sent.wait()
                    await self._forget_acknowledged()
            except OutboxRefused as refused:
                log.warning("outbox.unreadable", error=str(refused), retry_s=DISK_RETRY_S)
                await self._clock.sleep(DISK_RETRY_S)
                self._wake.set()
                continue
            if isinstance(handed, Ending):
                return handed
            if self._older_wait():
                self.more_epochs = True
                return Ending(Reason.GOODBYE, "more epochs to replay in the next session")

    def _paced_wait_s(self) -> float | None:
        """How long the backlog has to wait; None while there is none, or one of its frames is under way."""
        next_s = self._pace.next_s()
        if next_s is None or not any(want.stream in PACED for want in self._wants()):
            return None
        return next_s - self._clock.monotonic()

    def _wants(self) -> list[Want]:
        """Where there is something to send."""
        last = {(held.epoch, held.stream): held.last for held in self._outbox.held}
        return [
            want for want in self._session.wants_events() if last.get((want.epoch, want.stream), 0) > want.after_seq
        ]

    async def _forget_acknowledged(self) -> None:
        while self._acks:
            (epoch, stream), seq = self._acks.popitem()
            await self._outbox.acknowledge(epoch, stream, seq)

    async def _hand_over(self) -> bool | Ending:
        """Hand the session the next events in the order of replay; whether there were any that may go now."""
        for want in self._wants():
            bytes_max = want.bytes_max
            if want.stream in PACED:
                next_s = self._pace.next_s()
                if next_s is None or next_s > self._clock.monotonic():
                    continue
                bytes_max = min(bytes_max, self._pace.bytes_max)
            events = await self._outbox.read(want.epoch, want.stream, want.after_seq, want.count_max, bytes_max)
            if not events or not self._session.is_open:
                continue
            first = _first_seq(events[0])
            if first > want.after_seq + 1:
                detail = f"the hub has stream {want.stream} up to {want.after_seq} and had acknowledged {first - 1}"
                return Ending(Reason.GENERATION_WENT_BACK, detail)
            self._sent.clear()
            self._session.send_events(want.epoch, want.stream, events)
            if want.stream in PACED:
                self._pace.sent(want.epoch, want.stream, events[-1].seq, self._clock.monotonic())
            self._on_frames()
            return True
        return False

    def _older_wait(self) -> bool:
        """A hello lists only so many ranges: when its older epochs are delivered, the next session takes the rest."""
        known = streams_of(self._session.minor)
        waiting = {held.epoch for held in self._outbox.held if held.stream in known} - {self._outbox.epoch}
        return self._session.is_open and bool(waiting) and not waiting & self._epochs


def _first_seq(event: Event) -> int:
    return event.body.first if isinstance(event.body, Gap) else event.seq
