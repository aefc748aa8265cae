"""One session on one socket: three tasks around one `AgentSession`, which itself does no I/O.

The reader feeds what comes; the sender keeps heartbeats, deadlines and lease renewals, and is the only one that writes,
each frame under a deadline; the `agent.replayer` reads the outbox, so that a slow disk delays no heartbeat.
"""

import asyncio
from typing import Protocol

import structlog
from msgspec import Struct
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from agent.board import Board
from agent.clock import Clock, wait_event
from agent.job_desk import JobDesk
from agent.outbox import Outbox
from agent.push import Pusher
from agent.replayer import Replayer
from wire.frames import AssignJob, CancelJob, InstallKey, JobReply, KeyInstalled, Welcome
from wire.limits import READINGS_S, SEND_DEADLINE_S
from wire.reasons import WEBSOCKET_CLOSE_BASE, Reason
from wire.session import (
    Acknowledged,
    AgentInput,
    AgentSession,
    Ended,
    FullStatusWanted,
    Heard,
    HeartbeatDue,
    JobAssigned,
    JobCancelled,
    KeyOffered,
    Opened,
    PeerUnsupported,
    RefusedByHub,
)

log = structlog.get_logger(__name__)

CLOSE_S = 2.0
"""For the closing handshake; a silent hub gets no more."""
CLOSE_REASON_BYTES_MAX = 120
TOO_BIG = 1009


class Sink(Protocol):
    """Who is told what the hub said."""

    def opened(self, welcome: Welcome) -> None:
        """The session is open."""
        ...

    def heard(self) -> None:
        """Something of ours was acknowledged."""
        ...

    def sent(self, size_bytes: int, seconds: float) -> None:
        """The socket took a frame."""
        ...

    def assigned(self, assignment: AssignJob) -> None:
        """The hub offers a job."""
        ...

    def cancelled(self, cancel: CancelJob) -> None:
        """The hub takes a job back."""
        ...

    def key_offered(self, offer: InstallKey) -> None:
        """The hub wants its SSH key let in."""
        ...


class Outcome(Struct, frozen=True):
    """How a session ended: by a numbered reason, by an error of the socket, or to replay more epochs."""

    open_s: float | None
    """None if it never opened."""
    reason: int = Reason.GOODBYE
    detail: str = ""
    wait_s: float = 0.0
    refused: bool = False
    error: Exception | None = None
    resume: bool = False


class SessionPump:
    """Moves bytes between one socket and one session; ``run`` returns when the session is over."""

    def __init__(
        self,
        socket: ClientConnection,
        session: AgentSession,
        *,
        sink: Sink,
        outbox: Outbox,
        board: Board,
        desk: JobDesk,
        clock: Clock,
    ) -> None:
        self._socket = socket
        self._session = session
        self._sink = sink
        self._board = board
        self._desk = desk
        self._clock = clock
        self._wake = asyncio.Event()
        self._replayer = Replayer(session, outbox, clock=clock, on_frames=self._wake.set)
        self._pusher = Pusher(READINGS_S)
        self._ended: Ended | None = None
        self._refused = False
        self._error: Exception | None = None
        self._fault: BaseException | None = None
        """Of ours: raised by ``run``."""
        self._opened_s: float | None = None
        self._renewed_s = 0.0
        self._statuses = 0
        """Sent so far, which is the number of the last: each goes out before the next is made."""

    # --- from the rest of the agent -------------------------------------------------------------------------------

    def touch(self) -> None:
        """The picture may have changed: look whether to push it."""
        self._pusher.touch()
        self._wake.set()

    def appended(self) -> None:
        """The outbox holds something new."""
        self._replayer.wake()

    def reply(self, reply: JobReply) -> None:
        """Answer an offer."""
        if self._session.is_open:
            self._session.send_reply(reply)
            self._wake.set()

    def answer_key(self, answer: KeyInstalled) -> None:
        """What became of an SSH key."""
        if self._session.is_open:
            self._session.answer_key(answer)
            self._wake.set()

    def say_bye(self, reason: Reason, detail: str) -> None:
        """End the session from this side."""
        self._session.say_bye(reason, detail)
        self._ended = self._ended or Ended(reason=reason, detail=detail, wait_s=0.0, by_peer=False)
        self._wake.set()

    # --- the session ----------------------------------------------------------------------------------------------

    async def run(self) -> Outcome:
        """Hold the session until it ends, whoever ends it; the socket is closed when this returns."""
        tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._replay())]
        for task in tasks:
            task.add_done_callback(self._on_task_done)
        try:
            await self._send_all()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._close()
        if self._fault is not None:
            raise self._fault
        return self._outcome()

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._fault = task.exception()
            self._wake.set()

    def _outcome(self) -> Outcome:
        open_s = None if self._opened_s is None else self._clock.monotonic() - self._opened_s
        ended = self._ended or _ended_by_close(self._error)
        if ended is None:
            return Outcome(open_s=open_s, error=self._error or OSError("the connection ended"))
        return Outcome(
            open_s=open_s,
            reason=ended.reason,
            detail=ended.detail,
            wait_s=ended.wait_s,
            refused=self._refused,
            resume=self._replayer.more_epochs,
        )

    async def _close(self) -> None:
        ended = self._ended
        code = WEBSOCKET_CLOSE_BASE + ended.reason if ended is not None else 1000
        detail = ended.detail if ended is not None else ""
        reason = detail.encode()[:CLOSE_REASON_BYTES_MAX].decode(errors="ignore")
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._socket.close(code=code, reason=reason)
        except (OSError, TimeoutError, ConnectionClosed):
            pass
        self._socket.transport.abort()

    # --- reading --------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            async for message in self._socket:
                if isinstance(message, str):
                    self.say_bye(Reason.MALFORMED_FRAME, "a text message; frames are binary")
                    return
                self._act_on(self._session.receive(message, self._clock.monotonic()))
                self._wake.set()
            self._error = self._error or _closed_normally(self._socket)
        except (ConnectionClosed, OSError) as error:
            self._error = error
        finally:
            if self._ended is None and self._error is None:
                self._error = OSError("the hub closed the connection")
            self._wake.set()

    def _act_on(self, inputs: list[AgentInput]) -> None:  # noqa: C901 - one case for each input
        for each in inputs:
            match each:
                case Opened():
                    self._opened_s = self._clock.monotonic()
                    self._renewed_s = 0.0
                    self._pusher = Pusher(each.welcome.readings_s)
                    self._sink.opened(each.welcome)
                    self._replayer.wake()
                case Acknowledged():
                    self._replayer.acknowledged(each.epoch, each.stream, each.seq)
                case Heard():
                    self._replayer.status_heard(each.status_seq)
                    self._sink.heard()
                case HeartbeatDue() | FullStatusWanted():
                    self._pusher.want()
                case JobAssigned():
                    self._sink.assigned(each.frame)
                case JobCancelled():
                    self._sink.cancelled(each.frame)
                case KeyOffered():
                    self._sink.key_offered(each.frame)
                case PeerUnsupported():
                    log.warning("uplink.unsupported", tag=each.tag)
                case RefusedByHub():
                    self._refused = True
                case Ended():
                    self._ended = each

    # --- sending --------------------------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        while True:
            self._wake.clear()
            now_s = self._clock.monotonic()
            self._act_on(self._session.on_deadline(now_s))
            if self._session.is_open:
                self._push_status(now_s)
                self._renew(now_s)
            if not await self._flush():
                return
            if self._ended is not None or self._error is not None or self._fault is not None:
                return
            await wait_event(self._clock, self._wake, self._next_due_s() - self._clock.monotonic())

    def _next_due_s(self) -> float:
        """When the sender has to wake up by itself."""
        due = [self._session.next_deadline() or self._clock.monotonic()]
        if self._session.is_open:
            status_due_s = self._pusher.due_s()
            if status_due_s is not None:
                due.append(status_due_s)
            every_s = self._desk.renew_every_s()
            if every_s is not None:
                due.append(self._renewed_s + every_s)
        return min(due)

    def _push_status(self, now_s: float) -> None:
        due_s = self._pusher.due_s()
        if due_s is None or now_s < due_s:
            return
        picture = self._board.picture()
        if self._pusher.decide(picture, now_s):
            self._session.send_status(picture, now_s, self._clock.unix_ms(), self._clock.monotonic_ns())
            self._statuses += 1
            self._replayer.status_sent(self._statuses)

    def _renew(self, now_s: float) -> None:
        every_s = self._desk.renew_every_s()
        if every_s is None or now_s < self._renewed_s + every_s:
            return
        self._renewed_s = now_s
        renewable = self._desk.renewable()
        if renewable:
            self._session.renew(renewable)

    async def _flush(self) -> bool:
        """Send everything that is due; False when the socket does not take it."""
        for frame in self._session.frames_to_send():
            began_s = self._clock.monotonic()
            try:
                async with asyncio.timeout(SEND_DEADLINE_S):
                    await self._socket.send(frame)
                self._sink.sent(len(frame), self._clock.monotonic() - began_s)
            except TimeoutError:
                self._session.say_bye(Reason.SLOW_PEER, f"a frame was not taken within {SEND_DEADLINE_S:g} s")
                self._ended = Ended(
                    reason=Reason.SLOW_PEER, detail="the hub did not take a frame in time", wait_s=0.0, by_peer=False
                )
                self._socket.transport.abort()
                return False
            except (ConnectionClosed, OSError) as error:
                self._error = self._error or error
                return False
        self._replayer.sent()
        return True

    async def _replay(self) -> None:
        """Replay until there is a reason to end the session."""
        ending = await self._replayer.run()
        self.say_bye(ending.reason, ending.detail)


def _closed_normally(socket: ClientConnection) -> Exception | None:
    """The end of ``async for`` hides a normal closure; this names it."""
    return OSError(f"the hub closed the connection with code {socket.close_code}") if socket.close_code else None


def _ended_by_close(error: Exception | None) -> Ended | None:
    """A numbered reason in the close code alone, for a hub that could not send its last frame."""
    if not isinstance(error, ConnectionClosed):
        return None
    if error.rcvd is not None and WEBSOCKET_CLOSE_BASE <= error.rcvd.code < WEBSOCKET_CLOSE_BASE + 1000:
        reason = error.rcvd.code - WEBSOCKET_CLOSE_BASE
        return Ended(reason=reason, detail=error.rcvd.reason, wait_s=0.0, by_peer=True)
    if error.sent is not None and error.sent.code == TOO_BIG:
        return Ended(reason=Reason.FRAME_TOO_LARGE, detail=error.sent.reason, wait_s=0.0, by_peer=False)
    return None
