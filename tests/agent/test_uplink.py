"""The uplink against a small hub on a real socket: real websockets, real sessions of both sides, virtual time."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agent.artifacts import Artifacts
from agent.board import Board
from agent.config import HubUrl
from agent.hub_http import HttpClient
from agent.identity import Enrolled, load_key
from agent.job_desk import JobDesk
from agent.jobs import Jobs
from agent.outbox import Outbox, open_outbox
from agent.outbox_bounds import Bounds
from agent.reasons import load_reasons
from agent.uplink import NodeFacts, State, Uplink, UplinkView
from tests.agent.samples import EPOCHS, JOB, JOB_2, assignment
from tests.agent.small_hub import HEARTBEAT_S, HUB_ID, SmallHub, running_hub
from tests.agent.virtual_time import VirtualClock, eventually
from wire.frames import (
    CancelJob,
    Gap,
    InstallKey,
    JobFailed,
    JobHeld,
    JobReply,
    JobStopped,
    KeyInstalled,
    LogRecord,
    NodeEvent,
    Readings,
    Stream,
)
from wire.limits import EVENTS_IN_FLIGHT_MAX, FRAME_BYTES_MAX
from wire.readings import HostReading
from wire.reasons import Reason
from wire.status import NodeStatus
from wire.worker import ToWorker

AGENT_ID = "01890a5d-ac96-774b-bcce-b302099a0001"


class QuietWorker:
    """The other end of the desk: takes frames, answers when told to."""

    def __init__(self) -> None:
        self.frames: list[ToWorker] = []
        self.answers = True

    async def send(self, pid: int | None, frame: ToWorker) -> None:
        del pid
        self.frames.append(frame)

    def answering(self) -> bool:
        return self.answers


class Way:
    """The parts around one uplink."""

    def __init__(self, folder: Path, hub: SmallHub, clock: VirtualClock) -> None:
        self.folder = folder
        self.hub = hub
        self.clock = clock
        self.board = Board()
        self.view = UplinkView()
        self.worker = QuietWorker()
        self.generations: list[int] = []
        self.offers: list[InstallKey] = []
        self.generation_seen = 0
        self.path = ""
        self.fingerprint_of = hub.public_key
        self.outbox: Outbox
        self.desk: JobDesk
        self.uplink: Uplink
        self._tasks: list[asyncio.Task[None]] = []
        self._client: HttpClient

    async def start(self, epoch: str = EPOCHS[0], devices: tuple[str, ...] = ("host",)) -> None:
        folder, clock, rng = self.folder, self.clock, random.Random(4)
        key = load_key(folder)
        self.hub.agents.setdefault(AGENT_ID, key.public)
        self.outbox = await open_outbox(folder / "outbox.sqlite", epoch, clock, Bounds(bytes_max=1 << 24))
        self._client = HttpClient(ca=None, proxies=False)
        await self._client.__aenter__()
        artifacts = Artifacts(folder / "artifacts", self._client, keep_bytes=1 << 30, clock=clock, rng=rng)
        decider = Jobs(devices, 1 << 20, await self.outbox.jobs_ended())
        self.desk = JobDesk(
            decider, outbox=self.outbox, artifacts=artifacts, base=lambda: self.hub.url, clock=clock, rng=rng
        )
        self.desk.workers = {"host": self.worker}
        self.board.outbox = lambda: self.outbox.reading
        self.board.jobs = self.desk.progress
        enrolled = Enrolled(
            agent_id=AGENT_ID,
            hub_id=HUB_ID,
            hub_key=self.fingerprint_of.hex(),
            hub_url=self.hub.url,
            generation=self.generation_seen,
        )
        self.view = UplinkView()
        self.uplink = Uplink(
            hub=HubUrl(base=self.hub.url + self.path),
            tls=None,
            enrolled=enrolled,
            key=key,
            facts=NodeFacts(boot_id="boot", version="1.2.3", name="node-a", capabilities=["groth16.host"]),
            outbox=self.outbox,
            board=self.board,
            desk=self.desk,
            view=self.view,
            clock=clock,
            rng=rng,
            save_generation=self.generations.append,
            save_reasons=lambda: self.view.reasons.save(self.folder / "reasons.json"),
            key_offered=self.offers.append,
        )
        self.desk.reply = self.uplink.reply
        self.outbox.on_append = self.uplink.appended
        self.board.on_change = self.uplink.touch
        await self.desk.recover()
        self._tasks = [asyncio.create_task(self.desk.run()), asyncio.create_task(self.uplink.run())]

    async def stop(self) -> None:
        """As a kill looks to the rest of the world: nothing is said."""
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.__aexit__(None, None, None)
        await self.outbox.close()
        for result in results:
            assert result is None or isinstance(result, asyncio.CancelledError), result

    async def skip_wait(self) -> float:
        """Wait for the next pause between two attempts and jump to its end; its length."""
        await eventually(lambda: self.view.next_attempt_s is not None, "a pause between attempts")
        assert self.view.next_attempt_s is not None
        wait_s = self.view.next_attempt_s - self.clock.now_s
        await self.clock.advance(wait_s)
        return wait_s


@asynccontextmanager
async def way_to(folder: Path, hub: SmallHub, **start: object) -> AsyncIterator[Way]:
    way = Way(folder, hub, VirtualClock())
    await way.start(**start)  # type: ignore[arg-type]
    try:
        yield way
    finally:
        await way.stop()


@pytest.fixture
async def hub() -> AsyncIterator[SmallHub]:
    async with running_hub() as running:
        yield running


@pytest.fixture
async def way(hub: SmallHub, tmp_path: Path) -> AsyncIterator[Way]:
    async with way_to(tmp_path, hub) as started:
        yield started


# --- sessions -------------------------------------------------------------------------------------------------------


async def test_a_session_opens_and_the_whole_picture_is_pushed(way: Way, hub: SmallHub) -> None:
    await hub.opened()
    await eventually(lambda: hub.statuses, "a status")
    full, status = hub.statuses[0]
    assert full
    assert status.hostname
    (hello,) = hub.hellos
    assert (hello.agent_id, hello.epoch, hello.name, hello.version) == (AGENT_ID, EPOCHS[0], "node-a", "1.2.3")
    assert hello.capabilities == ["groth16.host"]
    assert (way.view.state, way.view.hub_id, way.view.attempts) == (State.OPEN, HUB_ID, 0)
    assert way.generations == [1]


async def test_heartbeats_and_changes_are_pushed(way: Way, hub: SmallHub) -> None:
    await hub.opened()
    await eventually(lambda: hub.statuses, "the first status")
    await way.clock.advance(HEARTBEAT_S + 0.1)
    await eventually(lambda: len(hub.statuses) == 2, "a heartbeat")
    assert not hub.statuses[1][0]
    way.board.host = HostReading(cpu_count=3)
    way.uplink.touch()
    await way.clock.advance(1.0)
    await eventually(lambda: hub.statuses[-1][1].host == HostReading(cpu_count=3), "the change")


async def test_a_full_status_is_sent_when_the_hub_asks(way: Way, hub: SmallHub) -> None:
    session = await hub.opened()
    await eventually(lambda: hub.statuses, "the first status")
    session.want_full("a gap")
    hub.wake()
    await eventually(lambda: way.clock.sleeping, "the sender to wait")
    await way.clock.advance(0.1)
    await eventually(lambda: len(hub.statuses) > 1, "another status")
    assert hub.statuses[-1][0]


async def test_the_goodbye_is_said(way: Way, hub: SmallHub) -> None:
    await hub.opened()
    way.uplink.stop()
    await eventually(lambda: hub.ended, "the session to end")
    assert hub.ended == [(Reason.GOODBYE, "the agent is stopping", True)]
    await eventually(lambda: way.view.state is State.STOPPED, "the uplink to stop")


async def test_stopping_ends_a_pause_at_once(hub: SmallHub, tmp_path: Path) -> None:
    await hub.stop()
    async with way_to(tmp_path, hub) as way:
        await eventually(lambda: way.view.next_attempt_s is not None, "a pause")
        way.uplink.stop()
        await eventually(lambda: way.view.state is State.STOPPED, "the uplink to stop")


# --- events: every one once, in order -------------------------------------------------------------------------------


async def test_events_are_delivered_and_forgotten_when_acknowledged(way: Way, hub: SmallHub) -> None:
    hub.acknowledging = False
    await hub.opened()
    for number in range(3):
        await way.outbox.say("test", str(number))
    await way.outbox.keep([LogRecord("worker", "line")])
    await way.outbox.end_job(JobStopped(job=JOB, attempt=1))
    await eventually(lambda: sum(map(len, hub.stored.values())) == 5, "all events")
    assert [body.detail for body in hub.bodies()] == ["0", "1", "2"]
    assert way.outbox.reading.events_held == 5
    hub.acknowledge_all()
    await eventually(lambda: way.outbox.reading.events_held == 0, "the outbox to be empty")
    assert way.view.last_ack_s is not None


async def test_while_the_hub_is_away_everything_is_held_and_then_delivered_once(hub: SmallHub, tmp_path: Path) -> None:
    await hub.stop()
    async with way_to(tmp_path, hub) as way:
        for number in range(50):
            await way.outbox.say("test", str(number))
            if number % 10 == 0:
                await way.skip_wait()
        assert way.view.last_reason is not None
        assert way.view.last_reason.name == "network"
        await hub.start()
        await way.skip_wait()
        await hub.opened()
        await eventually(lambda: way.outbox.reading.events_held == 0, "everything to be delivered")
    assert [body.detail for body in hub.bodies() if body.kind == "test"] == [str(number) for number in range(50)]


async def test_several_epochs_are_replayed_in_order_jobs_first(hub: SmallHub, tmp_path: Path) -> None:
    await hub.stop()
    for number in range(3):
        async with way_to(tmp_path, hub, epoch=EPOCHS[number]) as way:
            await way.outbox.say("test", f"run {number}")
            await way.outbox.end_job(JobStopped(job=JOB, attempt=number + 1))
    await hub.start()
    async with way_to(tmp_path, hub, epoch=EPOCHS[3]) as way:
        await hub.opened()
        await eventually(lambda: way.outbox.reading.events_held == 0, "everything to be delivered")
    assert [body.attempt for body in hub.bodies(Stream.JOBS)] == [1, 2, 3]
    assert [body.detail for body in hub.bodies()] == ["run 0", "run 1", "run 2"]
    assert {held.job for held in hub.hellos[0].jobs} == {JOB}


async def test_more_epochs_than_a_hello_holds_take_more_sessions(hub: SmallHub, tmp_path: Path) -> None:
    epochs = [f"01890a5d-ac96-774b-bcce-{number:012x}" for number in range(30)]
    for epoch in epochs:
        outbox = await open_outbox(tmp_path / "outbox.sqlite", epoch, VirtualClock(), Bounds(bytes_max=1 << 20))
        await outbox.say("test", epoch)
        await outbox.close()
    async with way_to(tmp_path, hub, epoch=EPOCHS[0]) as way:
        await hub.opened()
        await way.skip_wait()
        await hub.opened(2)
        await eventually(lambda: way.outbox.reading.events_held == 0, "everything to be delivered")
    assert [body.detail for body in hub.bodies()] == epochs
    assert hub.ended[0][0] == Reason.GOODBYE


async def test_an_older_hub_gets_everything_but_readings_and_the_next_one_those_too(
    hub: SmallHub, tmp_path: Path
) -> None:
    """Older epochs that hold nothing else must not end the session again and again either."""
    sample = Readings(host=HostReading(cpu_count=3))
    for epoch in EPOCHS[1:4]:
        outbox = await open_outbox(tmp_path / "outbox.sqlite", epoch, VirtualClock(), Bounds())
        await outbox.append([sample])
        await outbox.close()
    hub.minor = 0
    async with way_to(tmp_path, hub, epoch=EPOCHS[0]) as way:
        await hub.opened()
        await way.outbox.append([sample])
        await way.outbox.say("test", "1")
        await eventually(hub.bodies, "the event")
        await eventually(lambda: way.outbox.reading.events_held == 4, "the samples to be all that is held")
        assert way.view.state is State.OPEN
        assert len(hub.sessions) == 1
        await hub.stop()
        hub.minor = 1
        await hub.start()
        await way.skip_wait()
        await hub.opened(2)
        await eventually(lambda: len(hub.bodies(Stream.READINGS)) == 4, "the samples", clock=way.clock, step_s=0.05)
    assert hub.bodies(Stream.READINGS) == [sample] * 4


async def test_a_session_cut_in_mid_replay_doubles_and_loses_nothing(way: Way, hub: SmallHub) -> None:
    hub.acknowledging = False
    await hub.opened()
    for number in range(200):
        await way.outbox.say("test", str(number))
    await eventually(lambda: len(hub.bodies()) > 20, "some events")
    await hub.stop()
    hub.acknowledging = True
    await hub.start()
    await way.skip_wait()
    await hub.opened(2)
    await eventually(lambda: way.outbox.reading.events_held == 0, "everything to be delivered")
    told = [body.detail for body in hub.bodies() if body.kind == "test"]
    assert told == [str(number) for number in range(200)]
    assert any(body.kind == "session.ended" for body in hub.bodies())


async def test_no_more_than_the_window_is_in_flight(way: Way, hub: SmallHub) -> None:
    hub.acknowledging = False
    await hub.opened()
    count = EVENTS_IN_FLIGHT_MAX + 100
    await way.outbox.append([NodeEvent(kind="test", detail=str(number)) for number in range(count)])
    await eventually(lambda: len(hub.events()) == EVENTS_IN_FLIGHT_MAX, "a full window")
    hub.acknowledge_all()
    hub.acknowledging = True
    await eventually(lambda: len(hub.events()) == count, "the rest")
    assert [each.seq for each in hub.events()] == list(range(1, count + 1))


async def test_what_was_dropped_arrives_as_a_gap(hub: SmallHub, tmp_path: Path) -> None:
    outbox = await open_outbox(tmp_path / "outbox.sqlite", EPOCHS[0], VirtualClock(), Bounds(bytes_max=5000))
    for number in range(30):
        await outbox.keep([LogRecord("worker", f"{number} " + "x" * 500)])
    await outbox.close()
    async with way_to(tmp_path, hub, epoch=EPOCHS[1]) as way:
        await hub.opened()
        await eventually(lambda: way.outbox.reading.events_held == 0, "everything to be delivered")
    first = hub.bodies(Stream.LOGS)[0]
    assert isinstance(first, Gap)
    assert (first.first, first.last) == (1, hub.events(Stream.LOGS)[0].seq)
    assert hub.events(Stream.LOGS)[-1].seq == 30


# --- reasons, on both ends ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", [Reason.REVOKED, Reason.DUPLICATE_IDENTITY, Reason.OVERLOADED])
async def test_a_refusal_is_kept_with_its_number_and_tried_again(hub: SmallHub, tmp_path: Path, reason: Reason) -> None:
    hub.refusal = (reason, "because", 0.0)
    async with way_to(tmp_path, hub) as way:
        await eventually(lambda: way.view.last_reason, "a refusal")
        fault = way.view.last_reason
        assert fault is not None
        assert (fault.code, fault.name) == (reason, reason.name)
        assert "because" in fault.detail
        assert way.view.state is State.REFUSED
        hub.refusal = None
        await way.skip_wait()
        await hub.opened(2)
        await eventually(lambda: way.view.state is State.OPEN, "the session")


async def test_reasons_are_kept_and_counted_and_written_down(hub: SmallHub, tmp_path: Path) -> None:
    hub.refusal = (Reason.OVERLOADED, "later", 5.0)
    async with way_to(tmp_path, hub) as way:
        for _ in range(2):
            await way.skip_wait()
        await eventually(lambda: way.view.reasons.newest_first()[0].times == 3, "the third refusal")
        hub.refusal = None
        await way.skip_wait()
        await hub.opened(4)
        hub.say_bye(Reason.HUB_STOPPING, "it restarts")
        await eventually(lambda: len(way.view.reasons.newest_first()) == 2, "both reasons")
        newest, oldest = way.view.reasons.newest_first()
        assert (newest.name, newest.code, newest.times) == ("HUB_STOPPING", Reason.HUB_STOPPING, 1)
        assert newest.open_s is not None
        assert (oldest.name, oldest.times, oldest.open_s) == ("OVERLOADED", 3, None)
        assert "later" in oldest.detail
        kept = load_reasons(tmp_path / "reasons.json").newest_first()
        assert [each.name for each in kept] == ["HUB_STOPPING", "OVERLOADED"]


async def test_a_probe_gets_through_only_to_the_pinned_hub(way: Way, hub: SmallHub) -> None:
    await hub.opened()
    assert await way.uplink.probe()
    assert way.view.state is State.OPEN  # the session is not disturbed
    hub.key = Ed25519PrivateKey.generate()
    assert not await way.uplink.probe()
    await hub.stop()
    assert not await way.uplink.probe()


async def test_a_told_wait_is_honoured(hub: SmallHub, tmp_path: Path) -> None:
    hub.refusal = (Reason.OVERLOADED, "later", 33.0)
    async with way_to(tmp_path, hub) as way:
        assert 33.0 <= await way.skip_wait() <= 36.3


async def test_a_hub_with_another_key_is_refused_loudly_and_slowly(hub: SmallHub, tmp_path: Path) -> None:
    way = Way(tmp_path, hub, VirtualClock())
    way.fingerprint_of = bytes(32)
    await way.start()
    try:
        assert await way.skip_wait() >= 10.0
        fault = way.view.last_reason
        assert fault is not None
        assert (fault.code, fault.name, fault.loud) == (Reason.WRONG_HUB_KEY, "WRONG_HUB_KEY", True)
        await eventually(lambda: hub.ended, "the hub to be told")
        assert hub.ended[0][0] == Reason.WRONG_HUB_KEY
        assert not hub.hellos
    finally:
        await way.stop()


async def test_an_older_copy_of_the_hub_is_refused(hub: SmallHub, tmp_path: Path) -> None:
    way = Way(tmp_path, hub, VirtualClock())
    way.generation_seen = 5
    await way.start()
    try:
        await way.skip_wait()
        assert way.view.last_reason is not None
        assert way.view.last_reason.code == Reason.GENERATION_WENT_BACK
    finally:
        await way.stop()


async def test_a_hub_that_lost_what_it_had_acknowledged_is_refused(way: Way, hub: SmallHub) -> None:
    await hub.opened()
    await way.outbox.say("test", "one")
    await eventually(lambda: hub.bodies() and way.outbox.reading.events_held == 0, "an acknowledgement")
    hub.stored.clear()
    hub.say_bye(Reason.HUB_STOPPING)
    await way.skip_wait()
    await eventually(lambda: way.view.last_reason and way.view.last_reason.code == 12, "the refusal")
    assert way.outbox.reading.events_held > 0


async def test_the_hubs_goodbye_is_kept_and_reported_to_it_later(way: Way, hub: SmallHub) -> None:
    await hub.opened()
    hub.say_bye(Reason.HUB_STOPPING, "an upgrade", 2.0)
    assert 2.0 <= await way.skip_wait() <= 2.2
    assert way.view.last_reason is not None
    assert (way.view.last_reason.code, way.view.last_reason.name) == (1, "HUB_STOPPING")
    await hub.opened(2)
    await eventually(hub.bodies, "the report")
    report = hub.bodies()[0]
    assert (report.kind, report.fields["reason"]) == ("session.ended", "HUB_STOPPING")


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"\xc1 no msgpack", Reason.MALFORMED_FRAME),
        (b"\x81\xa1t\xa2st", Reason.UNEXPECTED_FRAME),
        (b"\x00" * (FRAME_BYTES_MAX + 1), Reason.FRAME_TOO_LARGE),
        (b"\x00" * (FRAME_BYTES_MAX * 2), Reason.FRAME_TOO_LARGE),
        ("text", Reason.MALFORMED_FRAME),
    ],
    ids=["garbage", "an agent's frame", "too large", "much too large", "text"],
)
async def test_hostile_frames_end_the_session_with_a_reason_and_nothing_else(
    way: Way, hub: SmallHub, frame: bytes | str, reason: Reason
) -> None:
    await hub.opened()
    await hub.send_raw(frame)
    await eventually(lambda: way.view.last_reason, "the end of the session")
    assert way.view.last_reason is not None
    assert way.view.last_reason.code == reason
    await way.skip_wait()
    await hub.opened(2)


async def test_an_unknown_frame_is_answered_and_the_session_goes_on(way: Way, hub: SmallHub) -> None:
    session = await hub.opened()
    await hub.send_raw(b"\x82\xa1t\xa4new!\xa1x\x01")
    await way.outbox.say("test", "still here")
    await eventually(hub.bodies, "an event")
    assert session.is_open


async def test_a_hub_that_acknowledges_nothing_is_given_up(hub: SmallHub, tmp_path: Path) -> None:
    async with way_to(tmp_path, hub) as way:
        await hub.opened()
        await eventually(lambda: hub.statuses, "a status")
        for socket in hub._sockets:
            socket._req.transport.pause_reading()  # type: ignore[union-attr]
        for _ in range(20):
            await way.clock.advance(HEARTBEAT_S / 2)
        await eventually(lambda: way.view.state is not State.OPEN, "the session to be given up")
        assert way.view.last_reason is not None
        assert way.view.last_reason.code == Reason.SILENT_PEER


async def test_something_that_is_no_hub_is_named(hub: SmallHub, tmp_path: Path) -> None:
    way = Way(tmp_path, hub, VirtualClock())
    way.path = "/nowhere"
    await way.start()
    try:
        await eventually(lambda: way.view.last_reason, "a reason")
        assert way.view.last_reason is not None
        assert (way.view.last_reason.name, way.view.state) == ("http_404", State.REFUSED)
    finally:
        await way.stop()


# --- jobs -----------------------------------------------------------------------------------------------------------


async def test_a_key_is_handed_on_and_what_became_of_it_is_told(way: Way, hub: SmallHub) -> None:
    await hub.opened()
    offer = InstallKey(request=JOB_2, user="prover", public_key="ssh-ed25519 AAAAC3Nza hub")
    hub.install_key(offer)
    await eventually(lambda: way.offers == [offer], "the offer of a key")
    answer = KeyInstalled(offer.request, ok=False, detail="not here")
    way.uplink.answer_key(answer)
    await eventually(lambda: hub.keys_answered == [answer], "the answer about the key")


@pytest.mark.usefixtures("way")
async def test_offers_are_answered_and_cancels_obeyed(hub: SmallHub) -> None:
    await hub.opened()
    hub.assign(assignment())
    await eventually(lambda: hub.replies, "a reply")
    assert hub.replies == [JobReply(job=JOB, attempt=1, accepted=True)]
    hub.cancel(CancelJob(job=JOB_2, attempt=4))
    await eventually(lambda: JobStopped(job=JOB_2, attempt=4) in hub.bodies(Stream.JOBS), "the answer to the cancel")
    # Nobody serves the inputs of the first job: it fails, and says why.
    await eventually(lambda: any(isinstance(body, JobFailed) for body in hub.bodies(Stream.JOBS)), "the failure")
    failed = next(body for body in hub.bodies(Stream.JOBS) if isinstance(body, JobFailed))
    assert "HTTP 404" in failed.detail


async def test_an_observing_node_takes_no_job(hub: SmallHub, tmp_path: Path) -> None:
    async with way_to(tmp_path, hub, devices=()):
        await hub.opened()
        hub.assign(assignment())
        await eventually(lambda: hub.replies, "a reply")
        assert (hub.replies[0].accepted, hub.replies[0].detail) == (False, "this node only observes")


async def test_leases_are_renewed_only_while_the_worker_answers(way: Way, hub: SmallHub) -> None:
    held = asyncio.Event()

    async def slow(_: object) -> None:
        await held.wait()

    hub.artifact_handler = slow
    await hub.opened()
    hub.assign(assignment(lease_s=3.0))
    await eventually(lambda: hub.replies, "a reply")
    await way.clock.advance(1.1)
    await eventually(lambda: hub.renewals, "a renewal while inputs are fetched")
    assert hub.renewals[0] == [JobHeld(job=JOB, attempt=1)]


async def test_the_hello_of_a_restarted_agent_lists_the_job_it_holds(hub: SmallHub, tmp_path: Path) -> None:
    held = asyncio.Event()

    async def slow(_: object) -> None:
        await held.wait()

    hub.artifact_handler = slow
    async with way_to(tmp_path, hub) as way:
        await hub.opened()
        hub.assign(assignment())
        await eventually(lambda: hub.replies, "a reply")
        del way
    async with way_to(tmp_path, hub, epoch=EPOCHS[1]):
        await hub.opened(2)
        assert hub.hellos[-1].jobs == [JobHeld(job=JOB, attempt=1)]
        hub.assign(assignment())
        await eventually(lambda: len(hub.replies) == 2, "a reply")
        assert hub.replies[-1].accepted


def test_a_status_is_small_when_nothing_changed() -> None:
    picture = Board().picture()
    assert picture.changed_since(picture) == NodeStatus()
