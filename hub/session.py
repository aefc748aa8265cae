"""One agent's life over a channel: handshake, then frames both ways until one side ends it with a numbered reason.

Nobody waits for anybody else's trouble. The reader, or past it each frame as it comes, feeds the protocol and answers
at once from memory. What must be stored is a backlog, done in order, and acknowledged after the commit. What is to be
sent is handed over at once; when the peer takes too little a sender waits for it, each frame under a deadline. The
backlog's worker and the sender are tasks that exist only while they have something to do: an idle agent costs the hub
one task. What the peer does wrong ends this session and touches nothing else.
"""

import asyncio
import secrets
from collections.abc import Callable

import structlog

from hub.backlog import Backlog, Settled, Work
from hub.channels.base import Channel, ChannelClosed
from hub.clock import Clock
from hub.company import Company
from hub.config import Config
from hub.faults import FAULTS
from hub.home import Home
from hub.outlet import REASONS, Outlet, how_it_closed
from hub.rates import TokenBucket
from hub.store.base import ForeignReference, StoreClosed, StoreError
from hub.traffic import Traffic
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.frames import AssignJob, CancelJob, Hello, InstallKey, Stream, Welcome
from wire.inputs import (
    Ended,
    EventsReceived,
    HelloReceived,
    HubInput,
    KeyAnswered,
    PeerUnsupported,
    Renewed,
    Replied,
    StatusReceived,
)
from wire.reasons import WEBSOCKET_CLOSE_BASE, Reason
from wire.session import HubSession, Sign, Verify

log = structlog.get_logger(__name__)

STORE_WAIT_S = 5.0
"""How long an agent stays away when the store cannot take its events."""
FRAME_TOKEN_BYTES = 16 * 1024
"""A frame costs one token of its session's rate, and one more for each so many bytes."""


class Life:
    """One session."""

    __slots__ = (
        "_backlog",
        "_clock",
        "_departed",
        "_finished",
        "_home",
        "_leaving",
        "_outlet",
        "_over",
        "_owed_s",
        "_protocol",
        "_rate",
        "_traffic",
        "_waiting",
        "agent_id",
        "channel",
        "detail",
        "heard_s",
        "opened",
        "reason",
        "session_id",
        "since_s",
    )

    def __init__(
        self,
        *,
        channel: Channel,
        home: Home,
        config: Config,
        clock: Clock,
        traffic: Traffic,
        company: Company,
        hub_key: bytes,
        sign: Sign,
        verify: Verify,
    ) -> None:
        self.channel = channel
        self.agent_id = ""
        """Set once the agent is authenticated."""
        self.session_id = ""
        """Set once the session is open."""
        self.reason: int = Reason.GOODBYE
        """Why it ended: a `Reason`, or the plain number of one this version does not know."""
        self.detail = ""
        self.since_s = self.heard_s = clock.monotonic()
        self.opened = False
        self._home = home
        self._clock = clock
        self._traffic = traffic
        self._protocol = HubSession(
            hub_key=hub_key, sign=sign, verify=verify, nonce=secrets.token_bytes(32), now=clock.monotonic()
        )
        self._rate = TokenBucket(clock, config.frames_per_s, config.frames_burst)
        self._owed_s = 0.0
        """How long to wait before the next frame is taken."""
        self._over = False
        self._departed = False
        self._finished = False
        self._waiting: list[asyncio.Future[None]] = []
        """Whoever waits for the finish."""
        self._leaving: asyncio.Task[None] | None = None
        self._outlet = Outlet(
            channel, traffic, company, config.send_deadline_s, self._protocol.frames_to_send, self._end
        )
        self._backlog = Backlog(self)

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

    @property
    def minor(self) -> int:
        """The minor version both sides speak, once the hello has come."""
        return self._protocol.minor

    async def finished(self) -> None:
        """Wait until nothing of this session will be written any more."""
        if not self._finished:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    # --- called by the home, on the event loop

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
        self._outlet.opened(welcome.heartbeat_s)
        self.channel.offer_to(self._taken)
        self._outlet.flush()
        return True

    def assign(self, frame: AssignJob) -> bool:
        """Queue an assignment; False if the session has ended."""
        return self._command(lambda: self._protocol.assign(frame))

    def cancel(self, frame: CancelJob) -> bool:
        """Queue a cancellation; False if the session has ended."""
        return self._command(lambda: self._protocol.cancel(frame))

    def install_key(self, frame: InstallKey) -> bool:
        """Queue the wish to have the hub's SSH key let in; False if the session has ended."""
        return self._command(lambda: self._protocol.install_key(frame))

    def end(self, reason: Reason, detail: str, wait_s: float = 0.0) -> None:
        """End the session from this side; harmless when it has ended already."""
        if not self._over:
            self._protocol.say_bye(reason, detail, wait_s)
            self._end(reason, detail)

    def check_time(self, now_s: float) -> None:
        """End the session if its peer is late with the handshake, or silent. To be called every second or so."""
        deadline_s = self._protocol.next_deadline()
        if deadline_s is not None and now_s >= deadline_s and not self._over:
            for happened in self._protocol.on_deadline(now_s):
                if isinstance(happened, Ended):
                    self._end(happened.reason, happened.detail)

    def do(self, work: Work) -> None:
        """Have something done after what there is to do already."""
        self._backlog.do(work)

    # --- the life

    async def run(self) -> None:
        """From the challenge to the last stored event. Returns when all is done."""
        try:
            self._outlet.flush()
            await self._read()
            if self._leaving is not None:
                await self._leaving
            await self._backlog.settled()
        except Exception as error:  # noqa: BLE001 - the outermost line of a session: a bug here must not reach another
            self._failed(error)
            if self._leaving is not None:
                await asyncio.wait([self._leaving])
        finally:
            await self._cancel_tasks()
            if not self._over:  # cancelled: its connection was lost, or the hub's time to stop is over
                self._over = True
                self.reason, self.detail = Reason.CONNECTION_LOST, "the connection was lost, or the hub had to stop"
            self._depart()
            try:
                await self._home.closed(self)
            finally:
                self._finished = True
                for waiter in self._waiting:
                    if not waiter.done():
                        waiter.set_result(None)
                await self.channel.close(self._close_code, self.detail)
                self._outlet.release()
                self._backlog.release()
                self._leaving = None

    async def _cancel_tasks(self) -> None:
        """What is left of the session's tasks when it was cancelled itself, or failed."""
        await self._backlog.cancel()
        await self._outlet.cancel()
        if self._leaving is not None:
            self._leaving.cancel()
            await asyncio.gather(self._leaving, return_exceptions=True)

    def _failed(self, error: BaseException) -> None:
        """A bug of ours ends the session."""
        FAULTS.count("session")
        log.error("a session failed", agent=self.agent_id, remote=self.channel.remote, exc_info=error)
        self.end(Reason.INTERNAL, "the hub failed; its log says more")

    @property
    def _close_code(self) -> int:
        return WEBSOCKET_CLOSE_BASE + self.reason if self.reason in REASONS else WEBSOCKET_CLOSE_BASE

    def _end(self, reason: int, detail: str) -> None:
        """The session is over: what is left is sent, then the channel closed, which stops the reader."""
        if self._over:
            return
        self._over = True
        self.reason, self.detail = reason, detail
        self._outlet.flush()
        self._leaving = asyncio.create_task(self._leave())

    async def _leave(self) -> None:
        """Close once the farewell is out, however long the worker still has to do."""
        await self._outlet.drained()
        self._depart()
        await self.channel.close(self._close_code, self.detail)

    def _depart(self) -> None:
        """Tell the home, once, that the socket is about to close."""
        if not self._departed:
            self._departed = True
            self._home.ended(self)

    def _command(self, queue: Callable[[], None]) -> bool:
        if not self.live:
            return False
        try:
            queue()
        except LocalProtocolError as error:
            self.end(Reason.SLOW_PEER, f"too many commands wait to be sent: {error}")
            return False
        self._outlet.flush()
        return True

    # --- the reader

    async def _read(self) -> None:
        while not self._over:
            try:
                data = await self.channel.receive()
            except ChannelClosed as closed:
                self._outlet.shut()
                self._end(*how_it_closed(closed))
                return
            except RemoteProtocolError as problem:
                self.end(problem.reason, problem.detail)
                return
            await self._until_its_turn()
            if self._over:
                return
            hello = self._take(data)
            if hello is not None:
                await self._introduce(hello)

    def _taken(self, data: bytes) -> bool:
        """Take one frame past the reader, which waits for it, unless the reader has to wait before it takes it."""
        if self._owed_s > 0.0 or self._backlog.full:
            return False
        if not self._over:
            try:
                self._take(data)
            except Exception as error:  # noqa: BLE001 - as in `run`
                self._failed(error)
        return True

    async def _until_its_turn(self) -> None:
        """Wait before the next frame is taken: until there is room for its work, and as long as a flood owes."""
        await self._backlog.room()
        if self._owed_s > 0.0:  # a flood waits in the peer's own buffers, and takes nobody else's time
            self._traffic.held_back += 1
            owed_s, self._owed_s = self._owed_s, 0.0
            await asyncio.sleep(owed_s)

    def _take(self, data: bytes) -> Hello | None:
        """One frame; a hello is given back, for it needs the store."""
        self.heard_s = now_s = self._clock.monotonic()
        self._owed_s = self._rate.pay(1 + len(data) / FRAME_TOKEN_BYTES, now_s)
        happened = self._protocol.receive(data, now_s)
        self._traffic.received(len(data), happened)
        hello, told = None, False
        for one in happened:
            if type(one) is StatusReceived:  # nearly all there is, and known to be heard by it
                self._home.status(self, one)
                told = True
            elif type(one) is HelloReceived:
                hello = one.hello
            else:
                self._act(one)
        if self.opened and not told:
            self._home.heard(self)
        if not self._over and hello is None:
            self._outlet.soon()
        return hello

    async def _introduce(self, hello: Hello) -> None:
        """Have the home look at a hello."""
        try:
            await self._home.open(self, hello)
        except StoreError as error:
            self.refuse(Reason.OVERLOADED, f"the hub's store does not answer: {error}", STORE_WAIT_S)
        if self.opened:
            self._home.heard(self)
        if not self._over:
            self._outlet.soon()

    def _act(self, happened: HubInput) -> None:
        match happened:
            case EventsReceived():
                self._backlog.take(happened)
            case Replied(reply=reply):
                self.do(lambda: self._home.replied(self, reply))
            case KeyAnswered(frame=answer):
                self._home.key_answered(self, answer)
            case Renewed(jobs=jobs):
                for held in self._home.renewed(self, jobs):
                    self.do(lambda held=held: self._home.late(self, held))  # type: ignore[misc]  # one closure each
            case PeerUnsupported(tag=tag):
                log.info("an agent does not know a frame", agent=self.agent_id, tag=tag)
            case Ended(reason=reason, detail=detail, by_peer=by_peer):
                if by_peer:
                    self._outlet.shut()
                self._end(reason, detail)

    # --- called by the backlog

    async def store(self, received: EventsReceived) -> int:
        """Store events; the head of their stream."""
        return await self._home.events(self, received)

    def store_soon(self, received: EventsReceived, settled: Settled) -> bool:
        """The same without a task, where they may."""
        return self._home.events_soon(self, received, settled)

    def stored(self, received: EventsReceived, head: int, *, alone: bool) -> None:
        """Acknowledge what is committed."""
        if not self._over:
            pressing = self._protocol.acknowledge(received.epoch, Stream(received.stream), head)
            if alone:
                self._outlet.stored(pressing=pressing)

    def worked(self) -> None:
        """Send what came of it."""
        self._outlet.flush()

    def went_wrong(self, error: BaseException) -> None:
        """Work could not be done: the session ends with the reason."""
        if self._finished:
            return
        match error:
            case ForeignReference():
                self.end(Reason.FOREIGN_REFERENCE, str(error))
            case StoreClosed():
                self.end(Reason.HUB_STOPPING, "the hub is stopping")
            case StoreError():
                self.end(Reason.OVERLOADED, f"the hub's store does not answer: {error}", STORE_WAIT_S)
            case _:
                self._failed(error)
