"""The desk with a real outbox, real downloads and a worker that only listens."""

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agent.artifacts import Artifacts
from agent.clock import Clock, SystemClock
from agent.hub_http import HttpClient
from agent.job_desk import INBOX_EVENTS_MAX, LEASE_DEFAULT_S, JobDesk
from agent.job_steps import Assigned, Cancelled, FetchProgressed, WorkerEnded, WorkerProgressed, WorkerUp
from agent.jobs import Jobs
from agent.outbox import Outbox, open_outbox
from agent.outbox_bounds import Bounds
from tests.agent.samples import EPOCHS, JOB, PROOF, assignment
from tests.agent.small_hub import SmallHub, running_hub
from tests.agent.virtual_time import VirtualClock, eventually
from wire.frames import AssignJob, JobFailed, JobHeld, JobReply, JobStarted, JobStopped, JobSucceeded, NodeEvent, Stream
from wire.jobs import Input
from wire.worker import Abort, Ended, Progress, Prove, Release, ToWorker

PID = 77
DATA = {"zkey": b"a key", "wtns": b"a witness"}
INPUTS = [Input(role=role, sha256=hashlib.sha256(data).hexdigest(), bytes_=len(data)) for role, data in DATA.items()]


class Recorder:
    """A worker that only listens."""

    def __init__(self) -> None:
        self.frames: list[tuple[int | None, ToWorker]] = []

    async def send(self, pid: int | None, frame: ToWorker) -> None:
        self.frames.append((pid, frame))

    def answering(self) -> bool:
        return True

    def of(self, kind: type) -> list[ToWorker]:
        return [frame for _, frame in self.frames if isinstance(frame, kind)]


class Scene:
    """One desk at a time over one folder."""

    def __init__(self, folder: Path, hub: SmallHub, clock: Clock) -> None:
        self.folder = folder
        self.hub = hub
        self.clock = clock
        self.worker = Recorder()
        self.replies: list[JobReply] = []
        self.outbox: Outbox
        self.desk: JobDesk
        self._task: asyncio.Task[None] | None = None
        self._client: HttpClient

    async def start(self, epoch: str = EPOCHS[0]) -> None:
        rng = random.Random(3)
        self.outbox = await open_outbox(self.folder / "outbox.sqlite", epoch, self.clock, Bounds(bytes_max=1 << 22))
        self._client = HttpClient(ca=None, proxies=False)
        await self._client.__aenter__()
        artifacts = Artifacts(self.folder / "artifacts", self._client, keep_bytes=1 << 20, clock=self.clock, rng=rng)
        decider = Jobs(("host",), 1 << 20, await self.outbox.jobs_ended())
        self.desk = JobDesk(
            decider, outbox=self.outbox, artifacts=artifacts, base=lambda: self.hub.url, clock=self.clock, rng=rng
        )
        self.desk.workers = {"host": self.worker}
        self.desk.reply = self.replies.append
        await self.desk.recover()
        self._task = asyncio.create_task(self.desk.run())

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        (result,) = await asyncio.gather(self._task, return_exceptions=True)
        assert isinstance(result, asyncio.CancelledError), result
        await self._client.__aexit__(None, None, None)
        await self.outbox.close()

    async def bodies(self, stream: Stream = Stream.JOBS) -> list[object]:
        return [each.body for each in await self.outbox.read(self.outbox.epoch, stream, 0, 1000, 1 << 22)]

    async def stored(self, kind: type) -> object:
        """The first body of a kind, once it is stored."""
        async with asyncio.timeout(20):
            while True:
                for body in await self.bodies():
                    if isinstance(body, kind):
                        return body
                await asyncio.sleep(0.005)

    async def proving(self, frame: AssignJob | None = None) -> None:
        self.desk.post(WorkerUp("host", PID, None))
        self.desk.post(Assigned(frame or assignment(inputs=INPUTS)))
        await eventually(lambda: self.worker.of(Prove), "the worker to be given the job")


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with running_hub() as hub:
        for each, data in zip(INPUTS, DATA.values(), strict=True):
            hub.artifacts[each.sha256] = data
        made = Scene(tmp_path, hub, SystemClock())
        await made.start()
        yield made
        await made.stop()


def progress(phase: str = "msm") -> Progress:
    return Progress(job=JOB, attempt=1, phase=phase, done=0, total=1, elapsed_s=0.5)


def success() -> Ended:
    return Ended(job=JOB, attempt=1, code=0, outputs=[PROOF], timings_ms={"msm": 1.0})


def fill(outbox: Outbox) -> Callable[[], None]:
    """The disk is full from now on, until the returned call."""
    database = outbox._file._database
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count={pages}")

    def free() -> None:
        database.execute("PRAGMA max_page_count=1073741823")

    return free


async def test_a_job_from_offer_to_release(scene: Scene) -> None:
    await scene.proving()
    assert scene.replies == [JobReply(job=JOB, attempt=1, accepted=True)]
    (give,) = scene.worker.frames
    assert give[0] == PID
    assert isinstance(give[1], Prove)
    assert {file.role: Path(file.path).read_bytes() for file in give[1].inputs} == DATA  # noqa: ASYNC240 - a test's
    assert [(record.device, record.pid) for record in await scene.outbox.jobs_held()] == [("host", PID)]
    assert (scene.desk.held(), scene.desk.renewable()) == ([JobHeld(job=JOB, attempt=1)],) * 2
    assert scene.desk.renew_every_s() == 20.0
    assert scene.desk.busy_device("host")
    scene.desk.post(WorkerProgressed("host", progress()))
    scene.desk.post(WorkerEnded("host", success()))
    await eventually(lambda: scene.worker.of(Release), "the release")
    assert await scene.bodies() == [
        JobStarted(job=JOB, attempt=1, device="host", pid=PID),
        JobSucceeded(job=JOB, attempt=1, outputs=[PROOF], timings_ms={"msm": 1.0}),
    ]
    assert await scene.outbox.jobs_held() == []
    assert scene.desk.renew_every_s() is None
    await scene.desk.refresh()
    assert scene.desk.held() == [JobHeld(job=JOB, attempt=1)]  # until the hub has it
    await scene.outbox.acknowledge(EPOCHS[0], Stream.JOBS, 2)
    await scene.desk.refresh()
    assert scene.desk.held() == []


async def test_a_failure_is_an_event_for_people_too(scene: Scene) -> None:
    await scene.proving()
    scene.desk.post(WorkerEnded("host", Ended(job=JOB, attempt=1, code=4, detail="bad witness")))
    await eventually(lambda: scene.worker.of(Release), "the release")
    (event,) = await scene.bodies(Stream.EVENTS)
    assert isinstance(event, NodeEvent)
    assert event.kind == "job.failed"
    assert "bad witness" in event.detail


async def test_a_cancel_stops_the_download(scene: Scene) -> None:
    never = asyncio.Event()

    async def slow(_: object) -> None:
        await never.wait()

    scene.hub.artifact_handler = slow
    scene.desk.post(Assigned(assignment(inputs=INPUTS)))
    await eventually(lambda: scene.hub.requests, "the download to begin")
    scene.desk.post(Cancelled(JOB, 1))
    assert await scene.stored(JobStopped) == JobStopped(job=JOB, attempt=1)
    await eventually(lambda: not scene.desk._fetches, "the download to stop")


async def test_a_cancel_in_mid_proof_aborts_the_worker(scene: Scene) -> None:
    await scene.proving()
    scene.desk.post(Cancelled(JOB, 1))
    await eventually(lambda: scene.worker.of(Abort), "the abort")


async def test_inputs_the_hub_refuses_fail_the_job(scene: Scene) -> None:
    scene.hub.artifacts.clear()
    scene.desk.post(Assigned(assignment(inputs=INPUTS)))
    failed = await scene.stored(JobFailed)
    assert isinstance(failed, JobFailed)
    assert "HTTP 404" in failed.detail


async def test_a_job_that_cannot_be_remembered_is_not_taken(scene: Scene) -> None:
    free = fill(scene.outbox)
    for attempt in range(1, 60):
        # An almost full page still takes a few.
        scene.desk.post(Assigned(assignment(attempt=attempt, inputs=INPUTS, token="x" * 128)))
    await eventually(lambda: any(not reply.accepted for reply in scene.replies), "a refusal")
    refused = next(reply for reply in scene.replies if not reply.accepted)
    assert "did not take a record" in refused.detail
    free()


async def test_a_full_disk_delays_a_result_and_the_worker_keeps_it_meanwhile(tmp_path: Path) -> None:
    async with running_hub() as hub:
        for each, data in zip(INPUTS, DATA.values(), strict=True):
            hub.artifacts[each.sha256] = data
        clock = VirtualClock()
        scene = Scene(tmp_path, hub, clock)
        await scene.start()
        await scene.proving()
        free = fill(scene.outbox)
        large = Ended(job=JOB, attempt=1, code=4, detail="x" * 8000)
        scene.desk.post(WorkerEnded("host", large))
        for _ in range(5):
            await eventually(lambda: clock.sleeping, "a pause")
            await clock.advance(clock.sleeping[0] - clock.now_s)
        await eventually(lambda: clock.sleeping, "a pause")
        assert not scene.worker.of(Release)
        free()  # between two tries, so that the next one is the first to find room
        await clock.advance(clock.sleeping[0] - clock.now_s)
        await eventually(lambda: scene.worker.of(Release), "the release")
        assert isinstance(await scene.stored(JobFailed), JobFailed)
        await scene.stop()


async def test_a_restarted_desk_goes_on_and_stores_the_result_once(tmp_path: Path) -> None:
    async with running_hub() as hub:
        for each, data in zip(INPUTS, DATA.values(), strict=True):
            hub.artifacts[each.sha256] = data
        scene = Scene(tmp_path, hub, SystemClock())
        await scene.start()
        await scene.proving()
        await scene.stop()
        await scene.start(EPOCHS[1])
        assert scene.desk.renew_every_s() is None or scene.desk.held()
        scene.desk.post(WorkerUp("host", PID, progress()))
        scene.desk.post(WorkerEnded("host", success()))
        await eventually(lambda: scene.worker.of(Release), "the release")
        assert isinstance(await scene.stored(JobSucceeded), JobSucceeded)
        await scene.stop()
        await scene.start(EPOCHS[2])
        scene.desk.post(WorkerEnded("host", success()))  # the release was lost; the worker says it again
        await eventually(lambda: len(scene.worker.of(Release)) == 2, "the second release")
        assert await scene.bodies() == []
        await scene.stop()


async def test_a_job_given_twice_lets_go_of_its_inputs_at_its_end(scene: Scene) -> None:
    """Else they would count as in use for ever, and the folder's bound would hold no more."""
    await scene.proving()
    scene.desk.post(WorkerUp("host", PID, None))  # the connection broke before the worker had read what it was given
    await eventually(lambda: len(scene.worker.of(Prove)) == 2, "the worker to be given the job again")
    scene.desk.post(WorkerEnded("host", success()))
    await eventually(lambda: scene.worker.of(Release), "the release")
    assert scene.desk._artifacts._in_use == {}


async def test_a_job_only_the_worker_knows_of_has_a_lease_all_the_same(scene: Scene) -> None:
    scene.desk.post(WorkerUp("host", PID, progress()))
    await scene.stored(JobStarted)
    assert scene.desk.renew_every_s() == LEASE_DEFAULT_S / 3


async def test_progress_is_passed_over_when_the_desk_is_held_up(tmp_path: Path) -> None:
    async with running_hub() as hub:
        scene = Scene(tmp_path, hub, SystemClock())
        await scene.start()
        for number in range(2 * INBOX_EVENTS_MAX):
            scene.desk.post(FetchProgressed((JOB, 1), number, number))
        assert len(scene.desk._inbox) == INBOX_EVENTS_MAX
        scene.desk.post(Cancelled(JOB, 1))
        assert len(scene.desk._inbox) == INBOX_EVENTS_MAX + 1
        await scene.stop()


async def test_a_bug_in_a_fetch_ends_the_desk_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    async with running_hub() as hub:
        scene = Scene(tmp_path, hub, SystemClock())
        await scene.start()
        monkeypatch.setattr("agent.artifacts.Artifacts.fetch", broken)
        scene.desk.post(Assigned(assignment(inputs=INPUTS)))
        assert scene._task is not None
        with pytest.raises(ZeroDivisionError):
            await scene._task
        await scene._client.__aexit__(None, None, None)
        await scene.outbox.close()
