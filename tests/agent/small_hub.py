"""A small hub on a real socket: aiohttp around a real `wire.session.HubSession`. What it does is up to each test."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import WSMsgType, web
from aiohttp.test_utils import unused_port
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agent.identity import verify
from tests.agent.virtual_time import eventually
from wire.events import streams_of
from wire.frames import (
    AssignJob,
    CancelJob,
    Event,
    Hello,
    InstallKey,
    JobHeld,
    JobReply,
    KeyInstalled,
    Stream,
    StreamHave,
    Welcome,
)
from wire.inputs import KeyAnswered
from wire.limits import FRAME_BYTES_MAX, MINOR_VERSION, PROTOCOL
from wire.reasons import Reason
from wire.session import Ended, EventsReceived, HelloReceived, HubSession, Renewed, Replied, StatusReceived
from wire.status import NodeStatus

HUB_ID = "01890a5d-ac96-774b-bcce-b302099a9999"
HEARTBEAT_S = 0.5


class SmallHub:
    """Accepts agents, remembers everything they say, acknowledges what it has "stored"."""

    def __init__(self) -> None:
        self.key = Ed25519PrivateKey.generate()
        self.generation = 1
        self.minor = MINOR_VERSION
        self.heartbeat_s = HEARTBEAT_S
        self.spread_s = 0.0
        self.refusal: tuple[Reason, str, float] | None = None
        self.acknowledging = True
        self.agents: dict[str, bytes] = {}
        """Agent id to public key."""
        self.stored: dict[tuple[str, Stream], list[Event]] = {}
        self.hellos: list[Hello] = []
        self.statuses: list[tuple[bool, NodeStatus]] = []
        self.replies: list[JobReply] = []
        self.keys_answered: list[KeyInstalled] = []
        self.renewals: list[list[JobHeld]] = []
        self.ended: list[tuple[int, str, bool]] = []
        self.sessions: list[HubSession] = []
        self.artifacts: dict[str, bytes] = {}
        self.artifact_handler: Callable[[web.Request], Any] | None = None
        self.enroll_handler: Callable[[web.Request], Any] | None = None
        self.requests: list[web.Request] = []
        self._told: list[HubSession] = []
        """Those whose welcome has gone out: what is sent past them arrives behind it."""
        self._wakes: list[asyncio.Event] = []
        self._sockets: set[web.WebSocketResponse] = set()
        self._runner: web.AppRunner | None = None
        self.port = unused_port()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def public_key(self) -> bytes:
        return self.key.public_key().public_bytes_raw()

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.public_key).hexdigest()

    def events(self, stream: Stream = Stream.EVENTS) -> list[Event]:
        """Everything stored of a stream, oldest epoch first."""
        return [each for (_, which), events in self.stored.items() if which is stream for each in events]

    def bodies(self, stream: Stream = Stream.EVENTS) -> list[Any]:
        return [each.body for each in self.events(stream)]

    # --- its life -------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        application = web.Application(client_max_size=1 << 20)
        application.add_routes(
            [
                web.get("/agent", self._agent),
                web.get("/api/v1/artifacts/{sha256}", self._artifact),
                web.post("/api/v1/enroll", self._enroll),
            ]
        )
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()

    async def stop(self) -> None:
        """As a crash looks from outside: every connection is cut."""
        for socket in list(self._sockets):
            if socket._req is not None and socket._req.transport is not None:
                socket._req.transport.abort()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    # --- what tests make it do --------------------------------------------------------------------------------------

    @property
    def session(self) -> HubSession:
        """The newest session."""
        return self.sessions[-1]

    async def opened(self, count: int = 1) -> HubSession:
        """Wait until so many sessions were opened in all."""
        await eventually(
            lambda: sum(session.is_open or session.has_ended for session in self.sessions) >= count, "a session"
        )
        await eventually(lambda: self.session.is_open and self.session in self._told, "the session to be open")
        return self.session

    def wake(self) -> None:
        """Send what the sessions have to send."""
        for wake in self._wakes:
            wake.set()

    def assign(self, frame: AssignJob) -> None:
        self.session.assign(frame)
        self.wake()

    def cancel(self, frame: CancelJob) -> None:
        self.session.cancel(frame)
        self.wake()

    def install_key(self, frame: InstallKey) -> None:
        self.session.install_key(frame)
        self.wake()

    def say_bye(self, reason: Reason, detail: str = "", wait_s: float = 0.0) -> None:
        self.session.say_bye(reason, detail, wait_s)
        self.wake()

    async def send_raw(self, data: bytes | str) -> None:
        """Bytes no session would send."""
        for socket in self._sockets:
            await (socket.send_str(data) if isinstance(data, str) else socket.send_bytes(data))

    def acknowledge_all(self) -> None:
        for session in self.sessions:
            if session.is_open:
                for (epoch, stream), events in self.stored.items():
                    session.acknowledge(epoch, stream, events[-1].seq)
        self.wake()

    # --- handlers ---------------------------------------------------------------------------------------------------

    async def _agent(self, request: web.Request) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        socket = web.WebSocketResponse(protocols=[PROTOCOL], compress=False, max_msg_size=FRAME_BYTES_MAX)
        await socket.prepare(request)
        session = HubSession(
            hub_key=self.public_key,
            sign=self.key.sign,
            verify=verify,
            nonce=os.urandom(32),
            now=loop.time(),
            minor=self.minor,
        )
        self.sessions.append(session)
        self._sockets.add(socket)
        wake = asyncio.Event()
        wake.set()
        self._wakes.append(wake)
        sender = asyncio.create_task(self._send(socket, session, wake))
        try:
            async for message in socket:
                if message.type is not WSMsgType.BINARY:
                    break
                for each in session.receive(message.data, loop.time()):
                    self._act(session, each)
                wake.set()
        finally:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)
            self._sockets.discard(socket)
            self._wakes.remove(wake)
        return socket

    async def _send(self, socket: web.WebSocketResponse, session: HubSession, wake: asyncio.Event) -> None:
        while True:
            await wake.wait()
            wake.clear()
            for frame in session.frames_to_send():
                await socket.send_bytes(frame)
            if session.is_open and session not in self._told:
                self._told.append(session)
            if session.has_ended:
                await socket.close(code=4000)
                return

    def _act(self, session: HubSession, each: object) -> None:
        match each:
            case HelloReceived():
                self._hello(session, each.hello)
            case StatusReceived():
                self.statuses.append((each.full, each.status))
            case EventsReceived():
                self.stored.setdefault((each.epoch, each.stream), []).extend(each.events)
                if self.acknowledging:
                    session.acknowledge(each.epoch, each.stream, each.events[-1].seq)
            case Replied():
                self.replies.append(each.reply)
            case KeyAnswered():
                self.keys_answered.append(each.frame)
            case Renewed():
                self.renewals.append(list(each.jobs))
            case Ended():
                self.ended.append((each.reason, each.detail, each.by_peer))

    def _hello(self, session: HubSession, hello: Hello) -> None:
        self.hellos.append(hello)
        public_key = self.agents.get(hello.agent_id)
        if self.refusal is not None:
            session.refuse(*self.refusal)
        elif public_key is None:
            session.refuse(Reason.UNKNOWN_AGENT, "never heard of it", 0.0)
        elif session.authenticate(public_key):
            wanted = {(held.epoch, held.stream) for held in hello.held} | {
                (hello.epoch, stream) for stream in streams_of(session.minor)
            }
            have = [
                StreamHave(
                    epoch=epoch,
                    stream=stream,
                    seq=self.stored[epoch, stream][-1].seq if self.stored.get((epoch, stream)) else 0,
                )
                for epoch, stream in sorted(wanted)
            ]
            session.welcome(
                Welcome(
                    session="01890a5d-ac96-774b-bcce-00000000c0de",
                    hub_id=HUB_ID,
                    generation=self.generation,
                    minor=session.minor,
                    heartbeat_s=self.heartbeat_s,
                    stale_after_s=3 * self.heartbeat_s,
                    lost_after_s=5 * self.heartbeat_s,
                    reconnect_spread_s=self.spread_s,
                    frame_bytes_max=FRAME_BYTES_MAX,
                    time_ms=0,
                    have=have,
                )
            )

    async def _artifact(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if self.artifact_handler is not None:
            answer: web.StreamResponse = await self.artifact_handler(request)
            return answer
        data = self.artifacts.get(request.match_info["sha256"])
        if data is None:
            return web.Response(status=404)
        return ranged(request, data)

    async def _enroll(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        assert self.enroll_handler is not None
        answer: web.StreamResponse = await self.enroll_handler(request)
        return answer


def ranged(request: web.Request, data: bytes) -> web.Response:
    """``data``, or the part of it that the Range header asks for."""
    asked = request.headers.get("Range")
    if asked is None:
        return web.Response(body=data)
    first = int(asked.removeprefix("bytes=").rstrip("-"))
    if first >= len(data):
        return web.Response(status=416)
    headers = {"Content-Range": f"bytes {first}-{len(data) - 1}/{len(data)}"}
    return web.Response(status=206, body=data[first:], headers=headers)


@asynccontextmanager
async def running_hub() -> AsyncIterator[SmallHub]:
    hub = SmallHub()
    await hub.start()
    try:
        yield hub
    finally:
        await hub.stop()
