"""One life over a channel in memory: deadlines, slowness, a store that fails. Sockets are in `test_sessions`."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hub.backlog import ITEMS_MAX, Settled
from hub.channels.base import ChannelClosed, Taker
from hub.company import RUSH_FRAMES_PER_S, WINDOW_S, Company
from hub.config import Config
from hub.ids import uuid7
from hub.keys import verify_signature
from hub.session import STORE_WAIT_S, Life
from hub.store.base import StoreUnavailable
from hub.traffic import Traffic
from tests.hub.rig import FakeClock, numbered
from wire.codec import UnknownFrame, decode_hub
from wire.events import streams_of
from wire.frames import (
    Ack,
    AssignJob,
    Bye,
    CancelJob,
    Hello,
    InstallKey,
    JobHeld,
    JobReply,
    KeyInstalled,
    LogRecord,
    NodeEvent,
    Stream,
    StreamHave,
    Welcome,
)
from wire.inputs import EventsReceived, StatusReceived
from wire.jobs import Groth16Spec
from wire.limits import EVENTS_PER_FRAME_MAX, HANDSHAKE_S
from wire.reasons import Reason
from wire.session import AgentSession, fingerprint
from wire.status import NodeStatus

AGENT = "01900000-0000-7000-8000-000000000001"
EPOCH = "01900000-0000-7000-8000-000000000002"
JOB = "01900000-0000-7000-8000-000000000003"
HUB_KEY = Ed25519PrivateKey.from_private_bytes(b"h" * 32)
AGENT_KEY = Ed25519PrivateKey.from_private_bytes(b"a" * 32)
NEWS = NodeEvent("some.thing", "happened")
WAIT_S = 10.0


class MemoryChannel:
    """Two queues; the far end is the test's. ``block`` makes sends hang, as for a peer that takes nothing."""

    remote = "memory"

    def __init__(self) -> None:
        self.to_hub: asyncio.Queue[bytes | Exception] = asyncio.Queue()
        self.to_agent: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed: tuple[int, str] | None = None
        self.blocked = False
        self._unblocked = asyncio.Event()

    def unblock(self) -> None:
        self.blocked = False
        self._unblocked.set()

    async def receive(self) -> bytes:
        item = await self.to_hub.get()
        if isinstance(item, Exception):
            raise item
        return item

    def offer_to(self, taker: Taker) -> None:
        """It has no shortcut: here every frame goes through the reader. With sockets it is the other way."""

    def send_now(self, frame: bytes) -> bool:
        if not self.blocked:
            self.to_agent.put_nowait(frame)
        return not self.blocked

    async def send(self, frame: bytes) -> None:
        if self.blocked:
            await self._unblocked.wait()
        self.to_agent.put_nowait(frame)

    async def close(self, code: int, detail: str) -> None:
        self.closed = (code, detail)
        self.to_hub.put_nowait(ChannelClosed(code, detail))


class Home:
    """A hub that lets everyone in, stores in memory, and fails or waits when it is told to."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.stored: list[int] = []
        self.said: list[object] = []
        self.failing = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.last: Life | None = None

    async def open(self, life: Life, hello: Hello) -> None:
        assert life.authenticate(AGENT, AGENT_KEY.public_key().public_bytes_raw())
        life.welcome(
            Welcome(
                session=uuid7(),
                hub_id=uuid7(),
                generation=1,
                minor=0,
                heartbeat_s=self.config.heartbeat_s,
                stale_after_s=self.config.stale_after_s,
                lost_after_s=self.config.lost_after_s,
                reconnect_spread_s=1.0,
                frame_bytes_max=256 * 1024,
                time_ms=1,
                have=[StreamHave(hello.epoch, stream, 0) for stream in streams_of(hello.minor)],
            )
        )

    async def events(self, _life: Life, received: EventsReceived) -> int:
        await self.gate.wait()
        if self.failing:
            raise StoreUnavailable("the disk is full")
        self.stored += [event.seq for event in received.events]
        return self.stored[-1]

    def events_soon(self, _life: Life, _received: EventsReceived, _settled: Settled) -> bool:
        return False

    def status(self, _life: Life, received: StatusReceived) -> None:
        self.said.append(received.status)

    def heard(self, _life: Life) -> None:
        pass

    def renewed(self, _life: Life, jobs: Sequence[JobHeld]) -> list[JobHeld]:
        return list(jobs)

    async def late(self, _life: Life, held: JobHeld) -> None:
        self.said.append(held)

    async def replied(self, _life: Life, reply: JobReply) -> None:
        self.said.append(reply)

    def key_answered(self, _life: Life, answer: KeyInstalled) -> None:
        self.said.append(answer)

    def ended(self, life: Life) -> None:
        self.last = life

    async def closed(self, life: Life) -> None:
        assert self.last is life


class Meeting:
    """A life, its channel, and an agent's session at the far end."""

    def __init__(self, clock: FakeClock, config: Config) -> None:
        self.clock = clock
        self.channel = MemoryChannel()
        self.home = Home(config)
        self.traffic = Traffic()
        hub_key = HUB_KEY.public_key().public_bytes_raw()
        self.life = Life(
            channel=self.channel,
            home=self.home,
            config=config,
            clock=clock,
            traffic=self.traffic,
            company=Company(clock, self.traffic),
            hub_key=hub_key,
            sign=HUB_KEY.sign,
            verify=verify_signature,
        )
        hello = Hello(
            agent_id=AGENT, epoch=EPOCH, boot_id="b", nonce=b"n" * 32, version="1", minor=0, time_ms=1, name="n"
        )
        self.agent = AgentSession(
            agent_id=AGENT,
            agent_key=AGENT_KEY.public_key().public_bytes_raw(),
            hub_fingerprint=fingerprint(hub_key),
            sign=AGENT_KEY.sign,
            verify=verify_signature,
            hello=hello,
            generation_seen=0,
            now=clock.monotonic(),
        )
        self.frames: list[msgspec.Struct | UnknownFrame] = []

    def flush(self) -> None:
        for frame in self.agent.frames_to_send():
            self.channel.to_hub.put_nowait(frame)

    async def hear(self) -> msgspec.Struct | UnknownFrame:
        """One frame of the hub's, also shown to the agent's session."""
        data = await asyncio.wait_for(self.channel.to_agent.get(), WAIT_S)
        self.agent.receive(data, self.clock.monotonic())
        self.flush()
        return decode_hub(data)

    async def events(self, first: int, count: int = 1) -> None:
        self.agent.send_events(EPOCH, Stream.EVENTS, numbered([NEWS] * count, first))
        self.flush()

    async def over(self) -> int:
        await asyncio.wait_for(self.life.finished(), WAIT_S)
        assert self.channel.closed is not None
        return self.channel.closed[0]


@asynccontextmanager
async def meeting(**settings: float) -> AsyncIterator[Meeting]:
    met = Meeting(FakeClock(), msgspec.structs.replace(Config(data_dir=Path("unused")), **settings))
    task = asyncio.create_task(met.life.run())
    try:
        await met.hear()
        await met.hear()
        assert met.agent.is_open
        yield met
    finally:
        met.life.end(Reason.GOODBYE, "the test is over")
        met.channel.blocked = False
        met.home.gate.set()
        await asyncio.wait_for(task, WAIT_S)


async def turns(count: int = 50) -> None:
    """Let everything that is ready run."""
    for _ in range(count):
        await asyncio.sleep(0)


def an_assignment() -> AssignJob:
    return AssignJob(
        job=JOB,
        attempt=1,
        lease_s=60.0,
        engine="groth16",
        spec=Groth16Spec("a" * 64, "bn128"),
        inputs=[],
        outputs=[],
        fetch_token="pwj",  # noqa: S106 - no token, only its place
    )


async def test_events_are_acknowledged_only_after_they_are_stored() -> None:
    async with meeting() as met:
        met.home.gate.clear()
        await met.events(1, 3)
        await met.events(4)
        await turns()
        assert met.channel.to_agent.empty()
        met.home.gate.set()
        while met.agent.wants_events()[1].after_seq != 4 or met.home.stored != [1, 2, 3, 4]:
            await met.hear()


async def test_commands_go_out_while_the_store_stands_still() -> None:
    """A frozen disk delays acknowledgements, and nothing else."""
    async with meeting() as met:
        met.home.gate.clear()
        await met.events(1)
        assert met.life.assign(an_assignment())
        assert isinstance(await met.hear(), AssignJob)


async def test_a_store_that_fails_ends_the_session_unacknowledged_with_a_wait_and_leaves_no_hole() -> None:
    async with meeting() as met:
        met.home.gate.clear()
        met.home.failing = True
        for seq in (1, 2, 3):
            await met.events(seq)
        await turns()
        met.home.gate.set()
        farewell = await met.hear()
        assert isinstance(farewell, Bye)
        assert (farewell.code, farewell.wait_s) == (Reason.OVERLOADED, 5.0)
        assert "the disk is full" in farewell.detail
        met.home.failing = False
        assert await met.over() == Reason.OVERLOADED.close_code
        assert met.home.stored == []


async def test_a_peer_that_takes_nothing_is_closed_after_the_deadline() -> None:
    async with meeting(send_deadline_s=0.01) as met:
        met.channel.blocked = True
        assert met.life.assign(an_assignment())
        assert await met.over() == Reason.SLOW_PEER.close_code
        assert "0.01 s" in met.life.detail
        assert not met.life.assign(an_assignment())


async def test_commands_to_a_peer_that_takes_nothing_are_bounded() -> None:
    async with meeting() as met:
        met.channel.blocked = True
        accepted = 0
        while met.life.cancel(CancelJob(JOB, 1)):
            accepted += 1
            assert accepted < 10_000
        assert met.life.reason == Reason.SLOW_PEER


async def test_what_waits_for_the_store_is_bounded_and_the_socket_is_read_no_further() -> None:
    async with meeting() as met:
        met.home.gate.clear()
        await met.events(1)
        for _ in range(3 * ITEMS_MAX):
            met.agent.send_reply(JobReply(JOB, 1, accepted=True))
            met.flush()
        await turns(10 * ITEMS_MAX)
        assert met.channel.to_hub.qsize() > ITEMS_MAX
        met.home.gate.set()
        await turns(10 * ITEMS_MAX)
        assert len(met.home.said) == 3 * ITEMS_MAX


async def test_what_became_of_a_key_reaches_the_hub_around() -> None:
    async with meeting() as met:
        assert met.life.install_key(InstallKey(JOB, "root", "ssh-ed25519 AAAAC3Nza hub"))
        met.agent.answer_key(KeyInstalled(JOB, ok=True, detail="appended"))
        met.flush()
        await turns()
        assert met.home.said == [KeyInstalled(JOB, ok=True, detail="appended")]
        assert not met.life.over


async def test_a_flood_of_frames_is_read_at_its_rate_and_loses_nothing() -> None:
    async with meeting(frames_per_s=1000.0, frames_burst=5) as met:
        for _ in range(20):
            met.agent.send_reply(JobReply(JOB, 1, accepted=True))
            met.flush()
        await turns(500)
        assert len(met.home.said) < 10
        assert met.channel.to_hub.qsize() > 10
        async with asyncio.timeout(WAIT_S):
            while len(met.home.said) < 20:
                await turns(1)


async def test_a_silent_peer_is_given_up() -> None:
    async with meeting() as met:
        met.clock.move(40.0)
        met.agent.send_reply(JobReply(JOB, 1, accepted=True))
        met.flush()
        await turns()
        assert met.home.said
        met.clock.move(44.9)
        met.life.check_time(met.clock.monotonic())
        assert met.life.live
        met.clock.move(0.2)
        met.life.check_time(met.clock.monotonic())
        assert await met.over() == Reason.SILENT_PEER.close_code


async def test_a_cut_channel_is_told_from_a_numbered_close() -> None:
    async with meeting() as met:
        met.channel.to_hub.put_nowait(ChannelClosed(1006, "reset by peer"))
        await met.over()
        assert (met.life.reason, "code 1006): reset by peer" in met.life.detail) == (Reason.CONNECTION_LOST, True)
    async with meeting() as met:
        met.channel.to_hub.put_nowait(ChannelClosed(4016, ""))
        await met.over()
        assert (met.life.reason, met.life.detail) == (Reason.SILENT_PEER, Reason.SILENT_PEER.sentence)


async def test_a_bug_in_one_session_is_logged_and_closes_it_alone() -> None:
    async with meeting() as met:
        met.channel.to_hub.put_nowait(ZeroDivisionError("a bug"))
        assert await met.over() == Reason.INTERNAL.close_code
        assert met.home.last is met.life


async def test_what_came_before_the_end_is_still_stored() -> None:
    async with meeting() as met:
        met.home.gate.clear()
        await met.events(1, 2)
        await turns()
        met.life.end(Reason.REPLACED, "a newer session took over")
        met.home.gate.set()
        assert await met.over() == Reason.REPLACED.close_code
        assert met.home.stored == [1, 2]


async def test_a_stranger_that_says_nothing_is_refused_when_its_time_is_over() -> None:
    met = Meeting(FakeClock(), Config(data_dir=Path("unused")))
    running = asyncio.create_task(met.life.run())
    met.clock.move(HANDSHAKE_S - 0.001)
    met.life.check_time(met.clock.monotonic())
    await turns()
    assert not running.done()
    met.clock.move(0.002)
    met.life.check_time(met.clock.monotonic())
    await asyncio.wait_for(running, WAIT_S)
    assert await met.over() == Reason.HANDSHAKE_TIMEOUT.close_code
    assert not met.life.opened


class SlowHome(Home):
    """A hub whose store takes its time over a hello."""

    async def open(self, life: Life, hello: Hello) -> None:
        await self.gate.wait()
        if life.authenticate(AGENT, AGENT_KEY.public_key().public_bytes_raw()):
            await super().open(life, hello)


async def test_a_session_that_ends_while_its_hello_is_looked_up_is_never_opened() -> None:
    """Else the node would show a session that nobody holds, and the goodbye would read as a fault of ours."""
    met = Meeting(FakeClock(), Config(data_dir=Path("unused")))
    met.life._home = met.home = SlowHome(Config(data_dir=Path("unused")))
    met.home.gate.clear()
    running = asyncio.create_task(met.life.run())
    await met.hear()  # the challenge; the hello goes out
    await turns()
    met.life.end(Reason.HUB_STOPPING, "the hub is stopping")
    await turns()
    met.home.gate.set()
    assert await met.over() == Reason.HUB_STOPPING.close_code
    await running
    assert not met.life.opened
    assert met.life.over


# --- what it costs


async def test_an_idle_session_is_one_task_and_no_timer() -> None:
    before = len(asyncio.all_tasks())
    async with meeting() as met:
        await met.events(1, 3)
        while met.agent.wants_events()[1].after_seq != 3 or met.home.stored != [1, 2, 3]:
            await met.hear()
        await turns()
        assert len(asyncio.all_tasks()) == before + 1
        assert (met.life._backlog._worker, met.life._outlet.idle) == (None, True)


async def test_acknowledgements_of_many_frames_go_out_as_one() -> None:
    async with meeting() as met:
        for seq in range(1, 31):
            await met.events(seq)
            met.agent.send_status(NodeStatus(hostname=f"h{seq}"), met.clock.monotonic(), 1, 1)
            met.flush()
        answers = 0
        while met.home.stored != list(range(1, 31)) or not met.channel.to_agent.empty() or not answers:
            await met.hear()
            answers += 1
        assert answers <= 5


async def test_frames_that_came_during_a_commit_are_stored_together_and_in_order() -> None:
    async with meeting() as met:
        calls: list[list[int]] = []
        store = met.home.events

        async def counted(_life: Life, received: EventsReceived) -> int:
            calls.append([event.seq for event in received.events])
            return await store(_life, received)

        met.home.events = counted  # type: ignore[method-assign]  # listens, and passes on
        met.home.gate.clear()
        await met.events(1)
        await turns()
        for seq in range(2, 11):
            await met.events(seq)
        met.agent.send_events(EPOCH, Stream.LOGS, numbered([LogRecord("agent", "text")] * 2))
        met.flush()
        await met.events(11)
        await turns()
        met.home.gate.set()
        while len(met.home.stored) < 13:
            await turns(1)
        assert calls == [[1], list(range(2, 11)), [1, 2], [11]]


async def test_what_a_slow_peer_did_not_take_at_once_is_sent_when_it_does() -> None:
    async with meeting() as met:
        met.channel.blocked = True
        assert met.life.assign(an_assignment())
        assert met.life.cancel(CancelJob(JOB, 1))
        await turns()
        assert met.channel.to_agent.empty()
        met.channel.unblock()
        assert isinstance(await met.hear(), AssignJob)
        assert isinstance(await met.hear(), CancelJob)
        assert met.life.live


async def test_a_session_whose_handler_is_cancelled_leaves_no_open_session_behind() -> None:
    """The web server may cancel a handler when its connection is lost."""
    met = Meeting(FakeClock(), Config(data_dir=Path("unused")))
    running = asyncio.create_task(met.life.run())
    await met.hear()
    await met.hear()
    met.home.gate.clear()
    await met.events(1)
    await turns()
    running.cancel()
    await asyncio.wait([running])
    assert met.home.last is met.life
    assert met.life.reason == Reason.CONNECTION_LOST
    assert await met.over() == Reason.CONNECTION_LOST.close_code


# --- events that go past the worker


class SwiftHome(Home):
    """A hub that stores without a task, and tells what came of it when the test says so."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.under_way: list[tuple[EventsReceived, Settled]] = []
        self.refuses = False

    def events_soon(self, _life: Life, received: EventsReceived, settled: Settled) -> bool:
        if not self.refuses:
            self.under_way.append((received, settled))
        return not self.refuses

    def settle(self, error: Exception | None = None) -> None:
        """The oldest."""
        received, settled = self.under_way.pop(0)
        if error is None:
            self.stored += [event.seq for event in received.events]
        settled(received, error or received.events[-1].seq)


@asynccontextmanager
async def swift_meeting(**settings: float) -> AsyncIterator[tuple[Meeting, SwiftHome]]:
    async with meeting(**settings) as met:
        home = SwiftHome(met.home.config)
        met.life._home = met.home = home
        yield met, home
        while home.under_way:
            home.settle(StoreUnavailable("the test is over"))
        home.last = met.life


async def test_events_are_stored_without_a_task_and_acknowledged_after_it() -> None:
    async with swift_meeting() as (met, home):
        await met.events(1)
        await met.events(2, 3)
        await turns()
        assert met.life._backlog._worker is None
        assert met.channel.to_agent.empty()
        home.settle()
        assert await met.hear() == Ack(streams=[StreamHave(EPOCH, Stream.EVENTS, 1)], status_seq=0)
        home.settle()
        assert await met.hear() == Ack(streams=[StreamHave(EPOCH, Stream.EVENTS, 4)], status_seq=0)


async def test_what_follows_events_under_way_waits_for_them_and_goes_first_then() -> None:
    async with swift_meeting() as (met, home):
        await met.events(1)
        met.agent.send_reply(JobReply(JOB, 1, accepted=True))
        met.flush()
        await met.events(2)
        await turns()
        assert (len(home.under_way), home.said, home.stored) == (1, [], [])
        home.settle()
        await turns()
        assert (home.said, home.stored) == ([JobReply(JOB, 1, accepted=True)], [1, 2])


async def test_the_first_failure_ends_the_session_and_what_follows_is_not_acknowledged() -> None:
    async with swift_meeting() as (met, home):
        await met.events(1)
        await met.events(2)
        await turns()
        home.settle(StoreUnavailable("the disk is full"))
        home.settle()
        farewell = await met.hear()
        assert isinstance(farewell, Bye)
        assert (farewell.code, farewell.wait_s) == (Reason.OVERLOADED, STORE_WAIT_S)
        assert met.channel.to_agent.empty()


async def test_a_session_is_not_over_before_its_events_are_stored() -> None:
    """Else the next session would be told of a head that is about to move."""
    async with swift_meeting() as (met, home):
        await met.events(1)
        await turns()
        met.life.end(Reason.REPLACED, "a newer session took over")
        await turns()
        assert home.under_way
        over = asyncio.create_task(met.life.finished())
        await turns()
        assert not over.done()
        home.settle()
        await asyncio.wait_for(over, WAIT_S)


async def test_events_under_way_are_bounded_and_then_the_socket_is_read_no_further() -> None:
    async with swift_meeting() as (met, home):
        for seq in range(1, 2 * ITEMS_MAX + 1):
            await met.events(seq)
        await turns(10 * ITEMS_MAX)
        assert len(home.under_way) == ITEMS_MAX
        while len(home.stored) < 2 * ITEMS_MAX:
            while home.under_way:
                home.settle()
            await turns()
        assert home.stored == list(range(1, 2 * ITEMS_MAX + 1))


async def test_in_a_rush_acknowledgements_keep_company_until_it_is_over() -> None:
    async with swift_meeting(heartbeat_s=10_000.0) as (met, home):
        met.traffic.frames += int(RUSH_FRAMES_PER_S)
        met.clock.move(2 * WINDOW_S)
        for seq in (1, 2, 3):
            await met.events(seq)
            await turns()
            home.settle()
        assert met.channel.to_agent.empty()
        met.clock.move(2 * WINDOW_S)
        assert await met.hear() == Ack(streams=[StreamHave(EPOCH, Stream.EVENTS, 3)], status_seq=0)


async def test_a_rush_holds_no_acknowledgement_back_that_the_agent_waits_for() -> None:
    async with swift_meeting(heartbeat_s=10_000.0) as (met, home):
        met.traffic.frames += int(RUSH_FRAMES_PER_S)
        met.clock.move(2 * WINDOW_S)
        await met.events(1, EVENTS_PER_FRAME_MAX)
        await turns()
        home.settle()
        assert not met.channel.to_agent.empty()


async def test_frames_past_the_reader_keep_to_the_same_limits() -> None:
    async with swift_meeting(frames_per_s=1.0, frames_burst=2) as (met, home):
        met.agent.send_events(EPOCH, Stream.EVENTS, numbered([NEWS]))
        met.agent.send_events(EPOCH, Stream.EVENTS, numbered([NEWS], 2))
        first, second = met.agent.frames_to_send()
        assert met.life._taken(first)
        assert not met.life._taken(second), "the rate is used up: it waits its turn"
        assert len(home.under_way) == 1
