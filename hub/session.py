"""One agent's life over a channel: handshake, then frames both ways until one side ends it with a numbered reason.

Three tasks, so that nobody waits for anybody else's trouble: the reader feeds the protocol and answers at once from
memory; the worker stores what must be stored, in order, and acknowledges after the commit; the writer sends, each frame
under a deadline. What the peer does wrong ends this session and touches nothing else.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import structlog

from hub.channels.base import Channel, ChannelClosed
from hub.clock import Clock
from hub.config import Config
from hub.faults import FAULTS
from hub.rates import TokenBucket
from hub.store.base import ForeignReference, StoreClosed, StoreError
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.frames import AssignJob, CancelJob, Hello, JobHeld, JobReply, Stream, Welcome
from wire.inputs import (
    Ended,
    EventsReceived,
    HelloReceived,
    HubInput,
    PeerUnsupported,
    Renewed,
    Replied,
    StatusReceived,
)
from wire.limits import PROTOCOL
from wire.reasons import WEBSOCKET_CLOSE_BASE, Reason
from wire.session import HubSession, Sign, Verify

log = structlog.get_logger(__name__)

WORK_ITEMS_MAX = 64
"""Frames that wait for the store, one agent's; then its socket is not read any further."""
STORE_WAIT_S = 5.0
"""How long an agent stays away when the store cannot take its events."""
FRAME_TOKEN_BYTES = 16 * 1024
"""A frame costs one token of its session's rate, and one more for each so many bytes."""
REASONS = {int(reason) for reason in Reason}

Work = Callable[[], Awaitable[None]]


class Home(Protocol):
    """What a life needs of the hub around it: `hub.sessions.Sessions`."""

    async def open(self, life: "Life", hello: Hello) -> None:
        """Look the agent up and authenticate, welcome or refuse it."""

    async def events(self, life: "Life", received: EventsReceived) -> int:
        """Store events; the committed head.

        Raises:
            ForeignReference: one spoke of a job that is not the agent's; all are stored nevertheless.
        """

    def status(self, life: "Life", received: StatusReceived) -> None:
        """Take over a status, from memory to memory."""

    def heard(self, life: "Life") -> None:
        """Some frame came in an open session."""

    def renewed(self, life: "Life", jobs: Sequence[JobHeld]) -> list[JobHeld]:
        """Extend leases; those of the list that hold none."""

    async def late(self, life: "Life", held: JobHeld) -> None:
        """The agent is at an attempt without a lease.

        Raises:
            ForeignReference: it is not the agent's.
        """

    async def replied(self, life: "Life", reply: JobReply) -> None:
        """The agent answered an assignment.

        Raises:
            ForeignReference: it is not the agent's.
        """

    def ended(self, life: "Life") -> None:
        """The session is over and its socket about to close; work it received may still be under way."""

    async def closed(self, life: "Life") -> None:
        """The session is over and its last work is done."""


class Life:
    """One session."""

    def __init__(
        self, *, channel: Channel, home: Home, config: Config, clock: Clock, hub_key: bytes, sign: Sign, verify: Verify
    ) -> None:
        self.channel = channel
        self.agent_id = ""
        """Set once the agent is authenticated."""
        self.session_id = ""
        """Set once the session is open."""
        self.finished = asyncio.Event()
        """Set when nothing of this session will be written any more."""
        self.reason: int = Reason.GOODBYE
        """Why it ended: a `Reason`, or the plain number of one this version does not know."""
        self.detail = ""
        self.heard_s = clock.monotonic()
        self.opened = False
        self._home = home
        self._config = config
        self._clock = clock
        self._protocol = HubSession(
            hub_key=hub_key, sign=sign, verify=verify, nonce=secrets.token_bytes(32), now=clock.monotonic()
        )
        self._over = False
        self._may_send = True
        self._store_failed = False
        self._work: asyncio.Queue[Work | None] = asyncio.Queue(WORK_ITEMS_MAX)
        self._outgoing = asyncio.Event()
        self._outgoing.set()  # the challenge waits from the start
        self._reading: asyncio.Timeout | None = None
        self._owed_s = 0.0
        self._rate = TokenBucket(clock, config.frames_per_s, config.frames_burst)

    @property
    def hello(self) -> Hello:
        """What the agent said of itself; to be believed once ``agent_id`` is set."""
        if self._protocol.hello is None:
            raise LocalProtocolError("there was no hello yet")
        return self._protocol.hello

    @property
    def over(self) -> bool:
        """Whether it has ended, opened or not: also while its home still thinks about its hello."""
        return self._over

    @property
    def live(self) -> bool:
        """Whether the session is open and has not ended."""
        return self.opened and not self._over

    # --- called by the home, on the event loop

    @property
    def minor(self) -> int:
        """The minor version both sides speak, once the hello has come."""
        return self._protocol.minor

    def authenticate(self, agent_id: str, public_key: bytes) -> bool:
        """Check the hello's signature; False: the session has ended, by this or meanwhile."""
        if self._over:
            return False
        if not self._protocol.authenticate(public_key):
            self._end(Reason.BAD_SIGNATURE, f"the hello of agent {agent_id} is not signed by its key")
            return False
        self.agent_id = agent_id
        return True

    def refuse(self, reason: Reason, detail: str, wait_s: float = 0.0) -> None:
        """Refuse the session before it is open."""
        self._protocol.refuse(reason, detail, wait_s)
        self._end(reason, detail)

    def welcome(self, welcome: Welcome) -> bool:
        """Open the session; False if it has ended meanwhile."""
        if self._over:
            return False
        self._protocol.welcome(welcome)
        self.session_id = welcome.session
        self.opened = True
        self._outgoing.set()
        return True

    def assign(self, frame: AssignJob) -> bool:
        """Queue an assignment; False if the session has ended."""
        return self._command(lambda: self._protocol.assign(frame))

    def cancel(self, frame: CancelJob) -> bool:
        """Queue a cancellation; False if the session has ended."""
        return self._command(lambda: self._protocol.cancel(frame))

    def end(self, reason: Reason, detail: str, wait_s: float = 0.0) -> None:
        """End the session from this side; harmless when it has ended already."""
        if not self._over:
            self._protocol.say_bye(reason, detail, wait_s)
            self._end(reason, detail)

    async def do(self, work: Work) -> None:
        """Have something done by the worker, after what it has to do already."""
        await self._work.put(work)

    # --- the life

    async def run(self) -> None:
        """From the challenge to the last stored event. Returns when all is done."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._write())
                tasks.create_task(self._work_off())
                await self._read()
                await self._work.put(None)
        except* Exception:  # the outermost line of a session: a bug here must not reach another
            FAULTS.count("session")
            log.exception("a session failed", agent=self.agent_id, remote=self.channel.remote)
            self._over = True
            self.reason, self.detail = Reason.INTERNAL, "the hub failed; its log says more"
            self._home.ended(self)
        finally:
            self._over = True
            try:
                await self._home.closed(self)
            finally:
                self.finished.set()
                await self.channel.close(self._close_code, self.detail)

    @property
    def _close_code(self) -> int:
        return WEBSOCKET_CLOSE_BASE + self.reason if self.reason in REASONS else WEBSOCKET_CLOSE_BASE

    def _end(self, reason: int, detail: str) -> None:
        """The session is over: the writer sends what is left, the reader stops."""
        if self._over:
            return
        self._over = True
        self.reason, self.detail = reason, detail
        self._outgoing.set()
        if self._reading is not None and not self._reading.expired():  # expired: it is on its way out already
            self._reading.reschedule(asyncio.get_running_loop().time())

    def _command(self, queue: Callable[[], None]) -> bool:
        if not self.live:
            return False
        try:
            queue()
        except LocalProtocolError as error:
            self.end(Reason.SLOW_PEER, f"too many commands wait to be sent: {error}")
            return False
        self._outgoing.set()
        return True

    # --- the reader

    async def _read(self) -> None:
        while not self._over:
            for happened in await self._next():
                await self._act(happened)
            self._outgoing.set()
            if self._owed_s > 0.0:  # a flood waits in the peer's own buffers, and takes nobody else's time
                await asyncio.sleep(self._owed_s)
                self._owed_s = 0.0

    async def _next(self) -> list[HubInput]:
        """What the next frame, or the passing of time, means."""
        deadline = self._protocol.next_deadline()
        wait_s = None if deadline is None else max(0.0, deadline - self._clock.monotonic())
        try:
            async with asyncio.timeout(wait_s) as timer:
                self._reading = timer
                try:
                    data = await self.channel.receive()
                finally:
                    self._reading = None
        except TimeoutError:
            return [] if self._over else self._protocol.on_deadline(self._clock.monotonic())
        except ChannelClosed as closed:
            self._may_send = False
            self._end(*_how_it_closed(closed))
            return []
        except RemoteProtocolError as problem:
            self.end(problem.reason, problem.detail)
            return []
        if self._over:
            return []
        self.heard_s = self._clock.monotonic()
        self._owed_s = self._rate.pay(1 + len(data) / FRAME_TOKEN_BYTES)
        happened = self._protocol.receive(data, self.heard_s)
        if self.opened:
            self._home.heard(self)
        return happened

    async def _act(self, happened: HubInput) -> None:
        match happened:
            case HelloReceived(hello=hello):
                try:
                    await self._home.open(self, hello)
                except StoreError as error:
                    self.refuse(Reason.OVERLOADED, f"the hub's store does not answer: {error}", STORE_WAIT_S)
            case StatusReceived():
                self._home.status(self, happened)
            case EventsReceived():
                await self.do(lambda: self._store(happened))
            case Replied(reply=reply):
                await self.do(lambda: self._home.replied(self, reply))
            case Renewed(jobs=jobs):
                for held in self._home.renewed(self, jobs):
                    await self.do(lambda held=held: self._home.late(self, held))  # type: ignore[misc]  # one closure each
            case PeerUnsupported(tag=tag):
                log.info("an agent does not know a frame", agent=self.agent_id, tag=tag)
            case Ended(reason=reason, detail=detail, by_peer=by_peer):
                self._may_send = self._may_send and not by_peer
                self._end(reason, detail)

    # --- the worker

    async def _work_off(self) -> None:
        """Do what was queued, in order, also after the end: it was received before it."""
        while (work := await self._work.get()) is not None:
            try:
                await work()
            except ForeignReference as error:
                self.end(Reason.FOREIGN_REFERENCE, str(error))
            except StoreClosed:
                self.end(Reason.HUB_STOPPING, "the hub is stopping")
            except StoreError as error:
                self.end(Reason.OVERLOADED, f"the hub's store does not answer: {error}", STORE_WAIT_S)
            self._outgoing.set()

    async def _store(self, received: EventsReceived) -> None:
        if self._store_failed:
            return  # what came before is missing; the agent sends all of it again
        try:
            head = await self._home.events(self, received)
        except StoreError:
            self._store_failed = True
            raise
        if not self._over:
            self._protocol.acknowledge(received.epoch, Stream(received.stream), head)

    # --- the writer

    async def _write(self) -> None:
        """Send whatever there is to send; close once the farewell is out, however long the worker still has to do."""
        over = False
        while not over:
            await self._outgoing.wait()
            self._outgoing.clear()
            over = self._over
            for frame in self._protocol.frames_to_send() if self._may_send else ():
                if not await self._send(frame):
                    over = True
                    break
        self._home.ended(self)
        await self.channel.close(self._close_code, self.detail)

    async def _send(self, frame: bytes) -> bool:
        try:
            async with asyncio.timeout(self._config.send_deadline_s):
                await self.channel.send(frame)
        except TimeoutError:
            self._may_send = False
            self._end(Reason.SLOW_PEER, f"a frame was not taken within {self._config.send_deadline_s:g} s")
            return False
        except ChannelClosed as closed:
            self._may_send = False
            self._end(*_how_it_closed(closed))
            return False
        return True


def _how_it_closed(closed: ChannelClosed) -> tuple[int, str]:
    """The reason behind a close that no Bye announced."""
    number = closed.code - WEBSOCKET_CLOSE_BASE
    if number in REASONS:
        return number, closed.detail or Reason(number).sentence
    said = f": {closed.detail}" if closed.detail else ""
    return Reason.CONNECTION_LOST, f"the {PROTOCOL} connection closed without a goodbye (code {closed.code}){said}"
