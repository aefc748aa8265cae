"""The way to the hub: dial, hold one session, and when it ends, dial again. For ever.

`Uplink` is the loop around: backoff, and what is known for the local view. `agent.uplink_session` moves bytes between
one socket and one `wire.session.AgentSession`.
"""

import asyncio
import random
import secrets
import ssl
from collections.abc import Callable
from enum import StrEnum

import structlog
from msgspec import Struct, field
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException
from websockets.typing import Subprotocol

from agent import job_steps as steps
from agent.backoff import Backoff, Fault, Kind, of_exception, of_reason
from agent.board import Board
from agent.clock import Clock, wait_event
from agent.config import HubUrl
from agent.hub_http import USER_AGENT
from agent.identity import Enrolled, Key, verify
from agent.job_desk import JobDesk
from agent.outbox import Outbox
from agent.reasons import Reasons
from agent.tally import SessionTally
from agent.uplink_session import SessionPump, Sink
from wire.codec import decode_hub
from wire.errors import RemoteProtocolError
from wire.frames import AssignJob, CancelJob, Challenge, Hello, InstallKey, JobReply, KeyInstalled, Level, Welcome
from wire.handshake import fingerprint
from wire.limits import (
    AGENT_HEADER,
    FRAME_BYTES_MAX,
    FRAME_BYTES_UNAUTHENTICATED_MAX,
    MINOR_VERSION,
    OPEN_S,
    PROTOCOL,
    SAMPLE_S,
)
from wire.reasons import Reason
from wire.session import AgentSession

log = structlog.get_logger(__name__)

PING_S = 20.0
CLOSE_S = 5.0
DIAL_ERRORS = (OSError, TimeoutError, WebSocketException, ValueError, ImportError)
"""The last two: a host name no resolver takes, a kind of proxy that needs a library."""
RESUME_S = 1.0
"""To the next session when this one was ended to replay more epochs."""


class State(StrEnum):
    """Where the way to the hub stands."""

    STARTING = "starting"
    ENROLLING = "enrolling"
    CONNECTING = "connecting"
    OPEN = "open"
    WAITING = "waiting"
    """Unreachable or ended; the next attempt comes by itself."""
    REFUSED = "refused"
    """Answered and not let in; tried again slowly."""
    STOPPED = "stopped"


class UplinkView(Struct):
    """What the local view shows; changed in place by the uplink."""

    state: State = State.STARTING
    url: str = ""
    session: str | None = None
    hub_id: str | None = None
    last_reason: Fault | None = None
    last_reason_s: float = float("-inf")
    """Monotonic; when it came."""
    reasons: Reasons = field(default_factory=Reasons)
    """The last ones, of this run and those before."""
    attempts: int = 0
    """Since the last open session."""
    next_attempt_s: float | None = None
    """Monotonic."""
    last_ack_s: float | None = None
    """Monotonic; when anything was acknowledged."""
    lost_after_s: float = 45.0
    clock_skew_ms: int | None = None
    """The hub's wall clock less ours, at the last welcome."""
    tally: SessionTally = field(default_factory=SessionTally)
    sample_s: float = SAMPLE_S
    """Between two samples for the history, as the last welcome said."""


class NodeFacts(Struct, frozen=True):
    """What a hello says that does not change during a run."""

    boot_id: str
    version: str
    name: str
    capabilities: list[str]


class Uplink(Sink):
    """Keeps a session open. ``run`` needs its own task."""

    def __init__(
        self,
        *,
        hub: HubUrl,
        tls: ssl.SSLContext | None,
        enrolled: Enrolled,
        key: Key,
        facts: NodeFacts,
        outbox: Outbox,
        board: Board,
        desk: JobDesk,
        view: UplinkView,
        clock: Clock,
        rng: random.Random,
        save_generation: Callable[[int], None],
        save_reasons: Callable[[], None],
        key_offered: Callable[[InstallKey], None],
    ) -> None:
        self._hub = hub
        self._tls = tls if hub.secure else None
        self._enrolled = enrolled
        self._generation = enrolled.generation
        self._key = key
        self._facts = facts
        self._outbox = outbox
        self._board = board
        self._desk = desk
        self._clock = clock
        self._save_generation = save_generation
        self._save_reasons = save_reasons
        self._key_offered = key_offered
        self._backoff = Backoff(rng)
        self._pump: SessionPump | None = None
        self._stopping = asyncio.Event()
        self.view = view
        view.url = hub.base

    # --- from the rest of the agent -------------------------------------------------------------------------------

    def touch(self) -> None:
        """Something an operator watches has changed: push it soon."""
        if self._pump is not None:
            self._pump.touch()

    def appended(self) -> None:
        """The outbox holds something new."""
        if self._pump is not None:
            self._pump.appended()

    def reply(self, reply: JobReply) -> None:
        """Answer an offer, if a session is open; else the hub offers again."""
        if self._pump is not None:
            self._pump.reply(reply)

    def answer_key(self, answer: KeyInstalled) -> None:
        """Say what became of an SSH key, if a session is open; else the hub asks again."""
        if self._pump is not None:
            self._pump.answer_key(answer)

    def stop(self) -> None:
        """Say goodbye and end ``run``."""
        self._stopping.set()
        if self._pump is not None:
            self._pump.say_bye(Reason.GOODBYE, "the agent is stopping")

    # --- from the session -----------------------------------------------------------------------------------------

    def opened(self, welcome: Welcome) -> None:
        """See `Sink`."""
        view = self.view
        view.state, view.session, view.hub_id = State.OPEN, welcome.session, welcome.hub_id
        view.tally.opened += 1
        view.attempts, view.lost_after_s, view.sample_s = 0, welcome.lost_after_s, welcome.sample_s
        view.last_ack_s = self._clock.monotonic()
        view.clock_skew_ms = welcome.time_ms - self._clock.unix_ms()
        structlog.contextvars.bind_contextvars(session=welcome.session)  # in whatever this session leads to
        log.info("uplink.open", session=welcome.session, hub=self._hub.base, clock_skew_ms=view.clock_skew_ms)
        if welcome.generation > self._generation:
            self._generation = welcome.generation
            self._save_generation(welcome.generation)

    def heard(self) -> None:
        """See `Sink`."""
        self.view.last_ack_s = self._clock.monotonic()

    def sent(self, size_bytes: int, seconds: float) -> None:
        """See `Sink`."""
        self.view.tally.sent(size_bytes, seconds)

    def assigned(self, assignment: AssignJob) -> None:
        """See `Sink`."""
        self._desk.post(steps.Assigned(assignment))

    def cancelled(self, cancel: CancelJob) -> None:
        """See `Sink`."""
        log.info("job.cancelled", job=cancel.job, attempt=cancel.attempt, detail=cancel.detail)
        self._desk.post(steps.Cancelled(cancel.job, cancel.attempt))

    def key_offered(self, offer: InstallKey) -> None:
        """See `Sink`."""
        self._key_offered(offer)

    # --- the loop -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Hold sessions, one after the other, until told to stop."""
        while not self._stopping.is_set():
            self.view.state = State.CONNECTING
            self.view.attempts += 1
            self.view.next_attempt_s = None
            fault, session_s, spread_s = await self._one_session()
            self.view.session = None
            if self._stopping.is_set():
                break
            await self._wait_after(fault, session_s=session_s, spread_s=spread_s)
        self.view.state = State.STOPPED

    async def _one_session(self) -> tuple[Fault | None, float | None, float]:
        """Dial and hold one session; (why it is over or None to go on at once, seconds it was open, spread)."""
        session = await self._new_session()
        log.debug("uplink.connecting", hub=self._hub.base, attempt=self.view.attempts)
        try:
            socket = await self._dial()
        except DIAL_ERRORS as error:
            return of_exception(error), None, 0.0
        pump = SessionPump(
            socket, session, sink=self, outbox=self._outbox, board=self._board, desk=self._desk, clock=self._clock
        )
        self._pump = pump
        if self._stopping.is_set():
            pump.say_bye(Reason.GOODBYE, "the agent is stopping")
        try:
            outcome = await pump.run()
        finally:
            self._pump = None
            structlog.contextvars.unbind_contextvars("session")
        spread_s = session.welcome.reconnect_spread_s if session.welcome is not None else 0.0
        if outcome.resume:
            return None, outcome.open_s, spread_s
        if outcome.error is not None:
            return of_exception(outcome.error), outcome.open_s, spread_s
        fault = of_reason(outcome.reason, outcome.detail, outcome.wait_s, refused=outcome.refused)
        return fault, outcome.open_s, spread_s

    async def _new_session(self) -> AgentSession:
        await self._desk.refresh()
        now_ms = self._clock.unix_ms()
        hello = Hello(
            agent_id=self._enrolled.agent_id,
            epoch=self._outbox.epoch,
            boot_id=self._facts.boot_id,
            nonce=secrets.token_bytes(32),
            version=self._facts.version,
            minor=MINOR_VERSION,
            time_ms=now_ms,
            name=self._facts.name,
            capabilities=self._facts.capabilities,
            jobs=self._desk.held(),
            held=self._outbox.held,
        )
        return AgentSession(
            agent_id=self._enrolled.agent_id,
            agent_key=self._key.public,
            hub_fingerprint=self._enrolled.hub_fingerprint,
            sign=self._key.sign,
            verify=verify,
            hello=hello,
            generation_seen=self._generation,
            now=self._clock.monotonic(),
        )

    async def _dial(self) -> ClientConnection:
        return await connect(
            self._hub.websocket,
            ssl=self._tls,
            subprotocols=[Subprotocol(PROTOCOL)],
            compression=None,
            user_agent_header=USER_AGENT,
            additional_headers={AGENT_HEADER: self._enrolled.agent_id},
            proxy=None if self._hub.loopback else True,
            open_timeout=OPEN_S,
            ping_interval=PING_S,
            ping_timeout=PING_S,
            close_timeout=CLOSE_S,
            # A frame a little too large still reaches the session, which names the reason.
            max_size=FRAME_BYTES_MAX + 1024,
        )

    async def probe(self) -> bool:
        """Whether a fresh connection gets as far as the pinned hub's challenge. For the watchdog."""
        try:
            async with asyncio.timeout(OPEN_S + CLOSE_S), await self._dial() as socket:
                first = await socket.recv()
            frame = decode_hub(first, FRAME_BYTES_UNAUTHENTICATED_MAX) if isinstance(first, bytes) else None
        except (*DIAL_ERRORS, RemoteProtocolError):
            return False
        return isinstance(frame, Challenge) and fingerprint(frame.hub_key) == self._enrolled.hub_fingerprint

    async def _wait_after(self, fault: Fault | None, *, session_s: float | None, spread_s: float) -> None:
        if fault is None:
            wait_s = RESUME_S
            log.info("uplink.more_to_replay", wait_s=wait_s)
        else:
            wait_s = self._backoff.after(fault, session_s=session_s, spread_s=spread_s)
            await self._tell(fault, session_s=session_s, wait_s=wait_s)
        self.view.next_attempt_s = self._clock.monotonic() + wait_s
        await wait_event(self._clock, self._stopping, wait_s)

    async def _tell(self, fault: Fault, *, session_s: float | None, wait_s: float) -> None:
        view = self.view
        view.tally.ended(fault.name)
        view.last_reason, view.last_reason_s = fault, self._clock.monotonic()
        if view.reasons.note(fault, self._clock.unix_ms(), session_s):
            self._save_reasons()
        view.state = State.REFUSED if fault.kind is Kind.REFUSED else State.WAITING
        refused = fault.kind is Kind.REFUSED
        event = "uplink.ended" if session_s is not None else "uplink.refused" if refused else "uplink.unreachable"
        say = log.error if fault.loud else log.warning
        say(
            event,
            reason=fault.name,
            code=fault.code,
            detail=fault.detail,
            hub=self._hub.base,
            wait_s=round(wait_s, 1),
            open_s=None if session_s is None else round(session_s, 1),
            attempt=view.attempts,
        )
        if session_s is not None:
            # What only the agent knows: why it lost the hub. The hub gets it with the next session.
            await self._outbox.say("session.ended", fault.detail, Level.WARNING, reason=fault.name, code=fault.code)
