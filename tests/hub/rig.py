"""A whole hub in this process on a loopback port, and agents that speak to it over real sockets."""

import asyncio
import functools
import hashlib
import os
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from hub import ports
from hub.app import Background, make_app
from hub.clock import Clock, SystemClock
from hub.config import Config
from hub.ids import uuid7
from hub.keys import verify_signature
from hub.store.base import Store
from hub.store.records import Agent, Artifact, Circuit, EnrollToken, Job, JobPicture
from kernels.reference.groth16 import prove
from prover.formats.plain import plain_key
from prover.formats.snarkjson import (
    Proof,
    proof_to_json,
    public_to_json,
    vkey_from_zkey,
    vkey_to_json,
)
from prover.formats.zkey import ZKey
from tests.prover.toy import MIXED, mixed_witness, setup, wtns
from wire.frames import Capability, Event, EventBody, HeldRange, Hello, JobHeld, Stream
from wire.inputs import Acknowledged, AgentInput, Ended, Opened
from wire.jobs import Input, JobState
from wire.limits import AGENT_HEADER, MINOR_VERSION, PROTOCOL
from wire.session import AgentSession
from wire.status import NodeStatus

WAIT_S = 20.0
SECRET_HASH = hashlib.sha256(b"the tests' token").digest()

Happened = TypeVar("Happened")


class FakeClock:
    """Time that stands still until it is moved."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s

    def monotonic(self) -> float:
        return self.now_s

    def time_ms(self) -> int:
        return 1_700_000_000_000 + int(self.now_s * 1000)

    def move(self, seconds: float) -> None:
        self.now_s += seconds


class JumpingClock(SystemClock):
    """The machine's clocks, and what a test does not want to wait for."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s

    def time_ms(self) -> int:
        return super().time_ms() + round(self.ahead_s * 1000)

    def jump(self, seconds: float) -> None:
        self.ahead_s += seconds


class RunningHub:
    """The application and where it listens."""

    def __init__(self, app: web.Application, port: int, stop: asyncio.Event, background: Background) -> None:
        self.app = app
        self.port = port
        self.stop = stop
        self.background = background

    @property
    def store(self) -> Store:
        return self.app[ports.STORE]

    async def enroll(self, name: str = "node") -> "Peer":
        """A new agent with its own key."""
        key = Ed25519PrivateKey.generate()
        now_ms = self.app[ports.CLOCK].time_ms()
        made = await self.store.enroll(
            secret_hash=SECRET_HASH,
            enrollment_id=uuid7(),
            public_key=key.public_key().public_bytes_raw(),
            name=name,
            agent_id=uuid7(now_ms),
            now_ms=now_ms,
        )
        assert isinstance(made, Agent), made
        self.app[ports.REGISTRY].add(made)
        return Peer(self, made, key)

    async def submit(self, priority: int = 0) -> str:
        """A job of a small real circuit, as the web side would hand it in."""
        toy = toy_files()
        artifacts = self.app[ports.ARTIFACTS]
        digests = []
        for content in (toy.zkey, toy.wtns):
            digests.append((await artifacts.put_bytes(content)).sha256)
            await self.store.add_artifact(Artifact(sha256=digests[-1], bytes_=len(content), created_at_ms=1))
        circuit, _ = await self.store.add_circuit(
            Circuit(
                id=digests[0],
                name="toy",
                zkey_bytes=len(toy.zkey),
                curve="bn128",
                n_public=2,
                n_vars=7,
                domain_size=8,
                verification_key=toy.verification_key,
                created_at_ms=1,
            )
        )
        job = Job(
            id=uuid7(),
            circuit_id=circuit.id,
            engine="groth16",
            curve="bn128",
            inputs=(Input("zkey", digests[0], len(toy.zkey)), Input("wtns", digests[1], len(toy.wtns))),
            created_at_ms=self.app[ports.CLOCK].time_ms(),
            priority=priority,
        )
        stored, _ = await self.app[ports.JOBS].submit(job)
        return stored.id

    async def job_in(self, job: str, *states: JobState) -> JobPicture:
        """The job, once it is in one of these states: the bus says when to look."""
        with self.app[ports.BUS].subscribe() as changes:
            while True:
                picture = await self.store.job(job)
                assert picture is not None
                if picture.job.state in states:
                    return picture
                async with asyncio.timeout(WAIT_S):
                    await anext(changes)


@dataclass(frozen=True)
class Toy:
    """A small circuit with everything that belongs to it."""

    zkey: bytes
    wtns: bytes
    verification_key: bytes
    proof: bytes
    public: bytes
    proof_of_other_inputs: bytes


@functools.cache
def toy_files() -> Toy:
    """Made once: key, witness, and true proofs by the reference prover."""
    zkey, witness, other = setup(MIXED).file(), mixed_witness(), mixed_witness(z=10)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "toy.zkey"
        path.write_bytes(zkey)
        with ZKey.open(path) as key:
            plain, vkey = plain_key(key), vkey_from_zkey(key)
            return Toy(
                zkey=zkey,
                wtns=wtns(witness).file(),
                verification_key=vkey_to_json(vkey).encode(),
                proof=proof_to_json(Proof(*prove(plain, witness, 5, 7))).encode(),
                public=public_to_json(witness[1:3]).encode(),
                proof_of_other_inputs=proof_to_json(Proof(*prove(plain, other, 5, 7))).encode(),
            )


@asynccontextmanager
async def running_hub(data_dir: Path, *, clock: Clock | None = None, **settings: Any) -> AsyncIterator[RunningHub]:
    """A hub on a free port, stopped at the end as SIGTERM stops it."""
    stop = asyncio.Event()
    background = Background(stop)
    config = Config(data_dir=data_dir, listen_port=0, **settings)
    app = make_app(config, clock or SystemClock(), tasks=background, tell_systemd=lambda _text: None)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        app[ports.BASE_URL].append(f"http://127.0.0.1:{port}")
        tokens = await app[ports.STORE].enroll_tokens()
        if not tokens:
            await app[ports.STORE].add_enroll_token(
                EnrollToken(id=uuid7(), secret_hash=SECRET_HASH, uses_max=1000, expires_at_ms=2**52, created_at_ms=1)
            )
        yield RunningHub(app, port, stop, background)
    finally:
        await runner.cleanup()
    assert background.failure is None, background.failure


class Peer:
    """An enrolled agent; ``connect`` gives it a session."""

    def __init__(self, hub: RunningHub, agent: Agent, key: Ed25519PrivateKey) -> None:
        self.hub = hub
        self.id = agent.id
        self.key = key
        self.public_key = agent.public_key
        self.epoch = uuid7()
        self.boot_id = "boot-1"

    def hello(self, **changes: Any) -> Hello:
        said = Hello(
            agent_id=self.id,
            epoch=self.epoch,
            boot_id=self.boot_id,
            nonce=secrets.token_bytes(32),
            version="0.1.0",
            minor=MINOR_VERSION,
            time_ms=time.time_ns() // 1_000_000,
            name="node",
            capabilities=[Capability.GROTH16_HOST.value],
        )
        return msgspec.structs.replace(said, **changes)

    @asynccontextmanager
    async def connect(
        self,
        *,
        jobs: Sequence[JobHeld] = (),
        held: Sequence[HeldRange] = (),
        await_welcome: bool = True,
        **changes: Any,
    ) -> AsyncIterator["Connection"]:
        """Dial in and, unless told otherwise, wait for the welcome."""
        session = AgentSession(
            agent_id=self.id,
            agent_key=self.public_key,
            hub_fingerprint=self.hub.app[ports.KEYS].fingerprint,
            sign=self.key.sign,
            verify=verify_signature,
            hello=self.hello(jobs=list(jobs), held=list(held), **changes),
            generation_seen=0,
            now=time.monotonic(),
        )
        async with dial(self.hub.port, additional_headers={AGENT_HEADER: self.id}) as socket:
            connection = Connection(self, socket, session)
            if await_welcome:
                await connection.until(Opened)
            yield connection


@asynccontextmanager
async def dial(port: int, **options: Any) -> AsyncIterator[ClientConnection]:
    """A bare WebSocket to the hub."""
    usual = {"subprotocols": [Subprotocol(PROTOCOL)], "compression": None, "ping_interval": None, "close_timeout": 2}
    async with connect(f"ws://127.0.0.1:{port}/agent", **usual | options) as socket:
        yield socket


class Connection:
    """One session of a `Peer`, driven by the test."""

    def __init__(self, peer: Peer, socket: ClientConnection, session: AgentSession) -> None:
        self.peer = peer
        self.socket = socket
        self.session = session
        self.unread: list[AgentInput] = []

    async def flush(self) -> None:
        """Send what the session has to send."""
        for frame in self.session.frames_to_send():
            await self.socket.send(frame)

    async def until(self, kind: type[Happened]) -> Happened:
        """The next thing of this kind; what came before it is dropped."""
        async with asyncio.timeout(WAIT_S):
            while True:
                while self.unread:
                    happened = self.unread.pop(0)
                    if isinstance(happened, kind):
                        return happened
                    assert not isinstance(happened, Ended), happened
                data = await self.socket.recv()
                assert isinstance(data, bytes)
                self.unread += self.session.receive(data, time.monotonic())
                await self.flush()

    async def acknowledged(self, stream: Stream, seq: int) -> None:
        """Until the hub has everything of a stream up to ``seq``."""
        while (news := await self.until(Acknowledged)).stream is not stream or news.seq < seq:
            pass

    async def closed(self) -> int:
        """Read on until the socket closes; its close code."""
        async with asyncio.timeout(WAIT_S):
            while True:
                try:
                    await self.socket.recv()
                except ConnectionClosed:
                    return self.socket.close_code or 0

    async def status(self, status: NodeStatus) -> None:
        """Report the node's picture."""
        self.session.send_status(status, time.monotonic(), time.time_ns() // 1_000_000, time.monotonic_ns())
        await self.flush()

    async def events(self, stream: Stream, *bodies: EventBody, first: int = 1, epoch: str = "") -> None:
        """Send events numbered from ``first``."""
        self.session.send_events(epoch or self.peer.epoch, stream, numbered(bodies, first))
        await self.flush()


def numbered(bodies: Sequence[EventBody], first: int = 1) -> list[Event]:
    """Events of these bodies."""
    return [
        Event(seq=first + index, time_ms=1_700_000_000_000, monotonic_ns=index, body=body)
        for index, body in enumerate(bodies)
    ]


def random_bytes(size: int) -> bytes:
    """Bytes nobody knows."""
    return os.urandom(size)
