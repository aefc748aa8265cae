"""One agent of a swarm: a real identity, a real `websockets` client, the real `AgentSession`, and an outbox in memory.

Two tasks and one timer for each agent, so that one process can play a thousand. What is due while there is no session
is emitted all the same, with the time at which it was due.
"""

import asyncio
import random
import secrets
import uuid
from typing import Protocol

from msgspec import Struct
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.typing import Subprotocol

from agent.backoff import Backoff, Fault, Kind, of_exception, of_reason
from agent.clock import Clock, wait_event
from agent.config import HubUrl
from agent.identity import verify
from bench.enrolment import Identity
from bench.memory_outbox import Counts, MemoryOutbox
from bench.traffic import Scene
from wire.frames import Capability, Hello, Stream, Welcome
from wire.inputs import Acknowledged, AgentInput, Ended, FullStatusWanted, Heard, HeartbeatDue, Opened, RefusedByHub
from wire.limits import AGENT_HEADER, FRAME_BYTES_MAX, MINOR_VERSION, OPEN_S, PROTOCOL, SEND_DEADLINE_S
from wire.reasons import WEBSOCKET_CLOSE_BASE, Reason
from wire.session import AgentSession

CLOSE_S = 2.0
RESUME_S = 1.0
"""To the next session when this one was ended to replay more epochs."""
NEVER = float("inf")


class Rates(Struct, frozen=True):
    """How much an agent says: seconds between two of each kind, 0 for never."""

    status_s: float = 1.0
    """Changed readings of host and cards; never more often than the hub's welcome allows."""
    sweep_s: float = 60.0
    """A status in which nearly everything has changed."""
    events_s: float = 30.0
    logs_s: float = 10.0
    readings_s: float = 10.0
    """Samples for the history."""
    state_s: float = 0.0
    """A change of state, pushed at once; at random moments with this mean."""


IDLE = Rates(status_s=0.0, sweep_s=0.0, events_s=0.0, logs_s=0.0, readings_s=0.0)
"""Heartbeats only."""


class Watcher(Protocol):
    """Who is told of an agent's sessions: the swarm."""

    def opened(self, agent: "SwarmAgent") -> None:
        """A session is open."""

    def closed(self, agent: "SwarmAgent", fault: Fault, *, was_open: bool) -> None:
        """A session, or the attempt at one, is over."""

    def held_more(self, more: int) -> None:
        """So many events more, or fewer, wait to be acknowledged."""


class SwarmAgent:
    """Keeps a session open and talks. ``run`` needs its own task."""

    def __init__(
        self,
        identity: Identity,
        *,
        hub: HubUrl,
        rates: Rates,
        rng: random.Random,
        clock: Clock,
        watcher: Watcher,
        events_max: int,
        gpus: int,
        ping_s: float | None,
    ) -> None:
        self.identity = identity
        self.outbox = MemoryOutbox(str(uuid.uuid4()), events_max=events_max, on_held=watcher.held_more)
        self.scene = Scene(rng, name=identity.name, gpus=gpus)
        self.is_open = False
        self.sessions = 0
        self.frames_sent = 0
        self.bytes_sent = 0
        self.generation = 0
        self.welcome: Welcome | None = None
        """Of the last session that opened."""
        self.quiet = False
        """Nothing new is emitted; what is held is still delivered."""
        self._hub = hub
        self._rates = rates
        self._rng = rng
        self._clock = clock
        self._watcher = watcher
        self._ping_s = ping_s
        self._boot_id = str(uuid.uuid4())
        self._backoff = Backoff(rng)
        self._stopping = asyncio.Event()
        self._line: _Line | None = None
        now_s = clock.monotonic()
        self._due_s = {
            stream: self._first(now_s, every_s)
            for stream, every_s in (
                (Stream.EVENTS, rates.events_s),
                (Stream.LOGS, rates.logs_s),
                (Stream.READINGS, rates.readings_s),
            )
        }
        self._every_s = {
            Stream.EVENTS: rates.events_s,
            Stream.LOGS: rates.logs_s,
            Stream.READINGS: rates.readings_s,
        }
        self._look_due_s = self._first(now_s, rates.status_s)
        self._sweep_due_s = self._first(now_s, rates.sweep_s)
        self._state_due_s = self._after_state(now_s)

    # --- from outside ---------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The id the hub gave it."""
        return self.identity.enrolled.agent_id

    def counts(self) -> dict[str, dict[Stream, Counts]]:
        """What was emitted and acknowledged, by epoch and stream; what is due now counts as emitted."""
        self._emit(self._clock.monotonic())
        return self.outbox.counts()

    def cut(self) -> None:
        """The connection breaks without a goodbye; the agent comes back by itself."""
        if self._line is not None:
            self._line.abort()

    def restart(self) -> None:
        """Killed and started again: a new epoch, and what was held is held still."""
        self._emit(self._clock.monotonic())
        self.outbox.begin(str(uuid.uuid4()))
        self.cut()

    def stop(self) -> None:
        """Say goodbye and end ``run``."""
        self._stopping.set()
        if self._line is not None:
            self._line.say_bye(Reason.GOODBYE, "the agent is stopping")

    # --- the loop -------------------------------------------------------------------------------------------------

    async def run(self, first_wait_s: float = 0.0) -> None:
        """Hold sessions, one after the other, until told to stop."""
        await wait_event(self._clock, self._stopping, first_wait_s)
        while not self._stopping.is_set():
            fault, open_s = await self._one_session()
            was_open, self.is_open = self.is_open, False
            self._watcher.closed(self, fault, was_open=was_open)
            if fault.name == _MORE_EPOCHS.name:
                wait_s = RESUME_S
            else:
                spread_s = self.welcome.reconnect_spread_s if self.welcome is not None else 0.0
                wait_s = self._backoff.after(fault, session_s=open_s, spread_s=spread_s)
            await wait_event(self._clock, self._stopping, wait_s)

    async def _one_session(self) -> tuple[Fault, float | None]:
        """Dial and hold one session: why it is over, and the seconds it was open (None for never)."""
        self._emit(self._clock.monotonic())
        session = self._new_session()
        try:
            socket = await connect(
                self._hub.websocket,
                subprotocols=[Subprotocol(PROTOCOL)],
                compression=None,
                proxy=None,
                additional_headers={AGENT_HEADER: self.id},
                open_timeout=OPEN_S,
                ping_interval=self._ping_s,
                ping_timeout=self._ping_s,
                close_timeout=CLOSE_S,
                max_size=FRAME_BYTES_MAX + 1024,
            )
        except (OSError, TimeoutError, WebSocketException) as error:
            return of_exception(error), None
        self._line = line = _Line(self, socket, session, self._clock)
        if self._stopping.is_set():
            line.say_bye(Reason.GOODBYE, "the agent is stopping")
        try:
            return await line.run()
        finally:
            self._line = None

    def _new_session(self) -> AgentSession:
        hello = Hello(
            agent_id=self.id,
            epoch=self.outbox.epoch,
            boot_id=self._boot_id,
            nonce=secrets.token_bytes(32),
            version="swarm",
            minor=MINOR_VERSION,
            time_ms=self._clock.unix_ms(),
            name=self.identity.name,
            capabilities=[Capability.OBSERVE.value],
            held=self.outbox.held(),
        )
        return AgentSession(
            agent_id=self.id,
            agent_key=self.identity.key.public,
            hub_fingerprint=self.identity.enrolled.hub_fingerprint,
            sign=self.identity.key.sign,
            verify=verify,
            hello=hello,
            generation_seen=self.generation,
            now=self._clock.monotonic(),
        )

    # --- what there is to say, called by the line -------------------------------------------------------------------

    def welcomed(self, welcome: Welcome) -> None:
        """A session is open."""
        self.welcome = welcome
        self.generation = max(self.generation, welcome.generation)
        self.sessions += 1
        self.is_open = True
        self._watcher.opened(self)

    def produce(self, now_s: float) -> bool:
        """Emit and read what is due; whether the picture has changed."""
        self._emit(now_s)
        changed = False
        if self.quiet:
            return changed
        if now_s >= self._sweep_due_s:
            self._sweep_due_s = now_s + self._rates.sweep_s
            self.scene.sweep()
        if now_s >= self._look_due_s:
            least_s = self.welcome.readings_s if self.welcome is not None else 0.0
            self._look_due_s = now_s + max(self._rates.status_s, least_s)
            self.scene.look(self._clock.monotonic_ns())
            changed = True
        if now_s >= self._state_due_s:
            self._state_due_s = self._after_state(now_s)
            self.scene.change_state(self._clock.monotonic_ns())
            changed = True
        return changed

    def next_due_s(self) -> float:
        """When `produce` has something to do."""
        if self.quiet:
            return NEVER
        return min(*self._due_s.values(), self._look_due_s, self._state_due_s)

    def _emit(self, now_s: float) -> None:
        """Events whose time has come, each with the time at which it was due."""
        if self.quiet:
            return
        for stream, every_s in self._every_s.items():
            while (due_s := self._due_s[stream]) <= now_s:
                self._due_s[stream] = due_s + every_s
                late_ns = int((now_s - due_s) * 1e9)
                self.outbox.append(
                    stream,
                    lambda seq, stream=stream: self.scene.body(stream, seq),  # type: ignore[misc]  # one each
                    self._clock.unix_ms() - late_ns // 1_000_000,
                    self._clock.monotonic_ns() - late_ns,
                )

    def _first(self, now_s: float, every_s: float) -> float:
        """When something that comes ``every_s`` comes first: the agents of a swarm are not in step."""
        return now_s + self._rng.uniform(0.0, every_s) if every_s > 0.0 else NEVER

    def _after_state(self, now_s: float) -> float:
        mean_s = self._rates.state_s
        return now_s + self._rng.expovariate(1.0 / mean_s) if mean_s > 0.0 else NEVER


_MORE_EPOCHS = Fault(Kind.UNREACHABLE, "more_epochs", "more epochs to replay in the next session")


class _Line:
    """One session on one socket. The reader is the caller's task, the sender one of its own."""

    def __init__(self, agent: SwarmAgent, socket: ClientConnection, session: AgentSession, clock: Clock) -> None:
        self._agent = agent
        self._socket = socket
        self._session = session
        self._clock = clock
        self._wake = asyncio.Event()
        self._opened_s: float | None = None
        self._status_due = False
        self._ended: Ended | None = None
        self._refused = False
        self._resume = False
        self._epochs = agent.outbox.older_epochs()

    def abort(self) -> None:
        """Cut the connection."""
        self._socket.transport.abort()

    def say_bye(self, reason: Reason, detail: str) -> None:
        """End the session from this side."""
        self._session.say_bye(reason, detail)
        self._ended = self._ended or Ended(reason=reason, detail=detail, wait_s=0.0, by_peer=False)
        self._wake.set()

    async def run(self) -> tuple[Fault, float | None]:
        """Hold the session until it ends, whoever ends it."""
        error: Exception = OSError("the hub closed the connection")
        sender = asyncio.create_task(self._send_all())
        try:
            async for message in self._socket:
                if isinstance(message, bytes):
                    self._act_on(self._session.receive(message, self._clock.monotonic()))
                    self._wake.set()
        except (ConnectionClosed, OSError) as problem:
            error = problem
        finally:
            if not sender.done():
                sender.cancel()
            self._socket.transport.abort()
        try:
            await sender
        except asyncio.CancelledError:
            pass
        except (ConnectionClosed, OSError) as problem:
            error = problem
        open_s = None if self._opened_s is None else self._clock.monotonic() - self._opened_s
        return self._fault(error), open_s

    def _fault(self, error: Exception) -> Fault:
        ended = self._ended
        if self._resume:
            return _MORE_EPOCHS
        if ended is not None:
            return of_reason(ended.reason, ended.detail, ended.wait_s, refused=self._refused)
        code = self._socket.close_code or 0
        if WEBSOCKET_CLOSE_BASE <= code < WEBSOCKET_CLOSE_BASE + 1000:
            return of_reason(code - WEBSOCKET_CLOSE_BASE, self._socket.close_reason or "", 0.0, refused=False)
        return of_exception(error)

    def _act_on(self, inputs: list[AgentInput]) -> None:
        for each in inputs:
            match each:
                case Opened():
                    self._opened_s = self._clock.monotonic()
                    self._status_due = True
                    self._agent.welcomed(each.welcome)
                case Acknowledged():
                    self._agent.outbox.acknowledge(each.epoch, each.stream, each.seq)
                case HeartbeatDue() | FullStatusWanted():
                    self._status_due = True
                case RefusedByHub():
                    self._refused = True
                case Ended():
                    self._ended = each
                case Heard():
                    pass
                case _:
                    pass  # jobs: an agent that only observes is never given one

    async def _send_all(self) -> None:
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle | None = None
        try:
            while self._ended is None:
                self._wake.clear()
                now_s = self._clock.monotonic()
                self._act_on(self._session.on_deadline(now_s))
                self._say(now_s)
                await self._flush()
                if self._ended is None:
                    due_s = self._next_due_s()
                    timer = loop.call_later(max(0.0, due_s - self._clock.monotonic()), self._wake.set)
                    await self._wake.wait()
                    timer.cancel()
            await self._flush()
            await self._close()
        finally:
            if timer is not None:
                timer.cancel()
            self._socket.transport.abort()

    def _say(self, now_s: float) -> None:
        if not self._session.is_open:
            return
        agent = self._agent
        if agent.produce(now_s) or self._status_due:
            self._status_due = False
            picture = agent.scene.picture(agent.outbox.reading())
            self._session.send_status(picture, now_s, self._clock.unix_ms(), self._clock.monotonic_ns())
        for want in self._session.wants_events():
            if events := agent.outbox.read(want):
                self._session.send_events(want.epoch, want.stream, events)
                self._wake.set()  # look again once these are on their way
        waiting = agent.outbox.older_epochs()
        if waiting and not waiting & self._epochs:
            self._resume = True
            self.say_bye(Reason.GOODBYE, _MORE_EPOCHS.detail)

    def _next_due_s(self) -> float:
        due_s = self._session.next_deadline() or 0.0
        return min(due_s, self._agent.next_due_s()) if self._session.is_open else due_s

    async def _flush(self) -> None:
        for frame in self._session.frames_to_send():
            async with asyncio.timeout(SEND_DEADLINE_S):
                await self._socket.send(frame)
            self._agent.frames_sent += 1
            self._agent.bytes_sent += len(frame)

    async def _close(self) -> None:
        code = WEBSOCKET_CLOSE_BASE + (self._ended.reason if self._ended is not None else 0)
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._socket.close(code=code)
        except TimeoutError:
            pass
