"""A backlog behind a slow link, in virtual time: what is new never waits behind what is old."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agent.board import Board
from agent.identity import verify
from agent.outbox import Outbox, open_outbox
from agent.outbox_bounds import Bounds
from agent.pacing import FRAMES_PER_S_MAX
from agent.uplink_session import SessionPump
from tests.agent.samples import EPOCHS
from tests.agent.small_hub import HUB_ID
from tests.agent.virtual_time import VirtualClock, eventually
from wire.codec import decode_agent
from wire.frames import (
    AssignJob,
    CancelJob,
    Events,
    Hello,
    InstallKey,
    LogRecord,
    NodeEvent,
    Readings,
    Stream,
    StreamHave,
    Welcome,
)
from wire.handshake import fingerprint
from wire.limits import FRAME_BYTES_MAX, MINOR_VERSION
from wire.readings import HostReading
from wire.session import AgentSession, EventsReceived, HelloReceived, HubSession, StatusReceived
from wire.status import WorkerReading, WorkerState

AGENT_ID = "01890a5d-ac96-774b-bcce-b302099a0001"
SESSION_ID = "01890a5d-ac96-774b-bcce-00000000c0de"
COMMIT_S = 0.1
"""Until the hub has stored events and acknowledges them."""
ANSWER_S = 0.25
"""The hub's acknowledgements wait so long for company."""
BUFFER_BYTES = 256 * 1024
"""What the kernel takes off a sender's hands before the link has."""


class Desk:
    """No jobs."""

    def renew_every_s(self) -> None:
        return None


class Told:
    """Whoever is told what the hub said."""

    def opened(self, welcome: Welcome) -> None: ...
    def heard(self) -> None: ...
    def sent(self, size_bytes: int, seconds: float) -> None: ...
    def assigned(self, assignment: AssignJob) -> None: ...
    def cancelled(self, cancel: CancelJob) -> None: ...

    def key_offered(self, offer: InstallKey) -> None: ...


class Link:
    """The agent's socket over a link of so many bytes a second, and the hub's real session at its other end."""

    close_code = None

    def __init__(self, clock: VirtualClock, bytes_per_s: float, agent_key: bytes) -> None:
        self.clock = clock
        self.bytes_per_s = bytes_per_s
        self.agent_key = agent_key
        self.transport = self
        self.key = Ed25519PrivateKey.generate()
        self.session = HubSession(
            hub_key=self.public_key, sign=self.key.sign, verify=verify, nonce=os.urandom(32), now=clock.now_s
        )
        self.frames: list[tuple[float, Stream | None, int]] = []
        """When each frame of the open session was there, of which stream, its bytes."""
        self.statuses: list[tuple[float, Any]] = []
        self.events: list[tuple[float, Stream, int]] = []
        """When events were there: stream and last number."""
        self._free_s = clock.now_s
        self._to_agent: asyncio.Queue[bytes] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flush()

    @property
    def public_key(self) -> bytes:
        return self.key.public_key().public_bytes_raw()

    # --- the socket -------------------------------------------------------------------------------------------------

    async def send(self, frame: bytes) -> None:
        self._free_s = max(self._free_s, self.clock.now_s) + len(frame) / self.bytes_per_s
        self._later(self._free_s - self.clock.now_s, lambda: self._arrived(frame))
        excess_s = self._free_s - self.clock.now_s - BUFFER_BYTES / self.bytes_per_s
        if excess_s > 0:
            await self.clock.sleep(excess_s)

    def __aiter__(self) -> "Link":
        return self

    async def __anext__(self) -> bytes:
        return await self._to_agent.get()

    async def close(self, **_: object) -> None: ...
    def abort(self) -> None: ...

    # --- the hub ----------------------------------------------------------------------------------------------------

    def _later(self, wait_s: float, act: Any) -> None:
        async def wait() -> None:
            await self.clock.sleep(wait_s)
            act()

        task = asyncio.create_task(wait())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _arrived(self, frame: bytes) -> None:
        now_s = self.clock.now_s
        if self.session.is_open:
            decoded = decode_agent(frame, FRAME_BYTES_MAX)
            self.frames.append((now_s, decoded.stream if isinstance(decoded, Events) else None, len(frame)))
        for each in self.session.receive(frame, now_s):
            match each:
                case HelloReceived():
                    self._welcome(each.hello)
                    self._flush()
                case StatusReceived():
                    self.statuses.append((now_s, each))
                case EventsReceived():
                    seq = each.events[-1].seq
                    self.events.append((now_s, each.stream, seq))
                    self._later(
                        COMMIT_S, lambda each=each, seq=seq: self.session.acknowledge(each.epoch, each.stream, seq)
                    )
        self._later(ANSWER_S, self._flush)

    def _flush(self) -> None:
        for frame in self.session.frames_to_send():
            self._to_agent.put_nowait(frame)

    def _welcome(self, hello: Hello) -> None:
        assert self.session.authenticate(self.agent_key)
        wanted = {(held.epoch, held.stream) for held in hello.held} | {(hello.epoch, stream) for stream in Stream}
        self.session.welcome(
            Welcome(
                session=SESSION_ID,
                hub_id=HUB_ID,
                generation=1,
                minor=self.session.minor,
                heartbeat_s=10.0,
                stale_after_s=30.0,
                lost_after_s=45.0,
                reconnect_spread_s=0.0,
                frame_bytes_max=FRAME_BYTES_MAX,
                time_ms=0,
                have=[StreamHave(epoch=epoch, stream=stream, seq=0) for epoch, stream in sorted(wanted)],
            )
        )

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Way:
    """An agent with a backlog, and its session over a link."""

    def __init__(self, clock: VirtualClock, outbox: Outbox, bytes_per_s: float) -> None:
        key = Ed25519PrivateKey.generate()
        public_key = key.public_key().public_bytes_raw()
        self.clock = clock
        self.outbox = outbox
        self.link = Link(clock, bytes_per_s, public_key)
        self.board = Board()
        hello = Hello(
            agent_id=AGENT_ID,
            epoch=outbox.epoch,
            boot_id="boot",
            nonce=os.urandom(32),
            version="1",
            minor=MINOR_VERSION,
            time_ms=0,
            name="node-a",
            held=outbox.held,
        )
        session = AgentSession(
            agent_id=AGENT_ID,
            agent_key=public_key,
            hub_fingerprint=fingerprint(self.link.public_key),
            sign=key.sign,
            verify=verify,
            hello=hello,
            generation_seen=0,
            now=clock.now_s,
        )
        socket: Any = self.link
        desk: Any = Desk()
        self.pump = SessionPump(socket, session, sink=Told(), outbox=outbox, board=self.board, desk=desk, clock=clock)
        outbox.on_append = self.pump.appended

    async def until(self, ready: Any, what: str) -> None:
        await eventually(ready, what, 20.0, clock=self.clock, step_s=0.05)

    async def pass_time(self, seconds: float) -> None:
        """Some virtual time, with turns for the outbox's real thread."""
        end_s = self.clock.now_s + seconds
        await self.until(lambda: self.clock.now_s >= end_s, "time to pass")


@asynccontextmanager
async def way_of(folder: Path, bytes_per_s: float, logs: int) -> AsyncIterator[Way]:
    """An open session of an agent that comes back with so many log records of 1 KiB, and some of everything else."""
    clock = VirtualClock()
    old = await open_outbox(folder / "outbox.sqlite", EPOCHS[0], clock, Bounds())
    await old.append([LogRecord(source="s", text="x" * 1000)] * logs)
    await old.append([Readings(host=HostReading(cpu_used_ratio=0.5))] * 100)
    await old.append([NodeEvent(kind="test", detail="old")] * 10)
    await old.close()
    outbox = await open_outbox(folder / "outbox.sqlite", EPOCHS[1], clock, Bounds())
    way = Way(clock, outbox, bytes_per_s)
    task = asyncio.create_task(way.pump.run())
    try:
        await way.until(lambda: way.link.statuses, "the first status")
        yield way
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await way.link.stop()
        await outbox.close()


def flip(board: Board, number: int) -> WorkerReading:
    state = WorkerReading(device="host", state=WorkerState.IDLE, pid=number)
    board.workers = lambda: [state]
    return state


@pytest.mark.parametrize("bytes_per_s", [16 * 1024, 64 * 1024, 4 * 1024 * 1024])
async def test_a_state_never_waits_behind_the_backlog(tmp_path: Path, bytes_per_s: int) -> None:
    async with way_of(tmp_path, bytes_per_s, logs=4096) as way:
        begun_s, delays_s = way.clock.now_s, []
        for number in range(6):
            changed_s = way.clock.now_s
            flip(way.board, number)
            way.pump.touch()
            seen = len(way.link.statuses)
            await way.until(lambda seen=seen: len(way.link.statuses) > seen, "the state at the hub")
            delays_s.append(way.link.statuses[seen][0] - changed_s)
            await way.pass_time(1.0)
        # The frame of the backlog that is on the link, and nothing else: none takes longer than a second.
        assert max(delays_s) < 1.1, delays_s
        took_s = way.clock.now_s - begun_s
        backlog = [frame for frame in way.link.frames if frame[1] in (Stream.LOGS, Stream.READINGS)]
        assert sum(size for _, _, size in backlog) <= 0.25 * bytes_per_s * took_s + FRAME_BYTES_MAX * 0.1
        assert len(backlog) <= FRAMES_PER_S_MAX * took_s
        assert len(backlog) >= 2, "the backlog has to go on, too"


async def test_what_is_new_goes_first_and_the_backlog_in_its_order(tmp_path: Path) -> None:
    async with way_of(tmp_path, 64 * 1024, logs=100) as way:
        await way.until(lambda: any(stream is Stream.LOGS for _, stream, _ in way.link.events), "the first logs")
        streams = list(dict.fromkeys(stream for _, stream, _ in way.link.events))
        assert streams == [Stream.EVENTS, Stream.READINGS, Stream.LOGS]
        said_s = way.clock.now_s
        await way.outbox.say("gpu.lost", "it is gone")
        await way.until(lambda: way.link.events[-1][1] is Stream.EVENTS, "the new event")
        assert way.link.events[-1][0] - said_s < 1.1
        await way.until(lambda: way.outbox.reading.events_held == 0, "everything to be delivered")
        assert [seq for _, stream, seq in way.link.events if stream is Stream.LOGS][-1] == 100
