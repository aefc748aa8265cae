"""Carries out what `agent.jobs` decides, one instruction after the other, and reports back to it.

The only part of the agent that touches the decider. Fetches, and ends that a full disk refuses, run beside it;
everything else is in order, so that a job's start is stored before its end, and its end before its release.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Protocol

import structlog

from agent import job_steps as steps
from agent.artifacts import Artifacts, FetchFault
from agent.clock import Clock
from agent.job_steps import Key
from agent.jobs import CODE_INTERNAL, Jobs
from agent.outbox import Outbox
from agent.outbox_file import OutboxRefused
from agent.outbox_jobs import JobRecord
from wire.frames import AssignJob, JobFailed, JobHeld, JobReply, JobStarted, JobStopped, JobSucceeded, Level
from wire.limits import JOBS_HELD_MAX
from wire.status import JobProgress
from wire.worker import Abort, Release, ToWorker

log = structlog.get_logger(__name__)

INBOX_EVENTS_MAX = 4096
"""Beyond this, progress is passed over: only the disk can hold the desk up that long."""
STORE_RETRY_FIRST_S = 0.5
STORE_RETRY_CAP_S = 10.0
LEASE_DEFAULT_S = 60.0
"""Of a job whose assignment was lost with its outbox."""
RENEWALS_PER_LEASE = 3


class Worker(Protocol):
    """What the desk needs of a worker."""

    async def send(self, pid: int | None, frame: ToWorker) -> None:
        """Send a frame, if the worker is there."""
        ...

    def answering(self) -> bool:
        """Whether it answers in time."""
        ...


class JobDesk:
    """The jobs of one agent. ``run`` needs its own task; everything else only queues."""

    def __init__(
        self,
        decider: Jobs,
        *,
        outbox: Outbox,
        artifacts: Artifacts,
        base: Callable[[], str],
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._decider = decider
        self._outbox = outbox
        self._artifacts = artifacts
        self._base = base
        self._clock = clock
        self._rng = rng
        self._inbox: deque[steps.Event] = deque()
        self._wake = asyncio.Event()
        self._fetches: dict[Key, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._fault: BaseException | None = None
        """Of a task beside ``run``, which raises it."""
        self._inputs: dict[Key, AssignJob] = {}
        self._fetched: set[Key] = set()
        """Jobs whose inputs are kept from being dropped."""
        self._leases_s: dict[Key, float] = {}
        self._results_held: list[Key] = []
        self.workers: Mapping[str, Worker] = {}
        self.reply: Callable[[JobReply], None] = lambda _: None
        """Says a reply on the open session, if there is one; an offer is repeated on the next."""
        self.on_change: Callable[[], None] = lambda: None

    # --- what it shows --------------------------------------------------------------------------------------------

    def progress(self) -> list[JobProgress]:
        """For the status."""
        return self._decider.progress()

    def busy_device(self, device: str) -> bool:
        """Whether the worker of ``device`` has a job of ours."""
        return self._decider.busy_device(device)

    def held(self) -> list[JobHeld]:
        """For the hello: jobs we are at, and those whose end the hub has not acknowledged."""
        keys = dict.fromkeys([*self._decider.held(), *self._results_held])
        return [JobHeld(job=job, attempt=attempt) for job, attempt in keys][:JOBS_HELD_MAX]

    async def refresh(self) -> None:
        """Learn which results are not acknowledged; before each hello."""
        self._results_held = await self._outbox.results_held()

    def renewable(self) -> list[JobHeld]:
        """The leases that may be renewed now."""
        return self._decider.renewable(device for device, worker in self.workers.items() if worker.answering())

    def renew_every_s(self) -> float | None:
        """How often to renew; None while there is no job."""
        held = self._decider.held()
        if not held:
            return None
        return min(self._leases_s.get(key, LEASE_DEFAULT_S) for key in held) / RENEWALS_PER_LEASE

    # --- events ---------------------------------------------------------------------------------------------------

    def post(self, event: steps.Event) -> None:
        """Queue an event."""
        droppable = isinstance(event, steps.WorkerProgressed | steps.FetchProgressed)
        if droppable and len(self._inbox) >= INBOX_EVENTS_MAX:
            return
        self._inbox.append(event)
        self._wake.set()

    async def recover(self) -> None:
        """Take up what earlier runs took on; before ``run``, so that the first hello lists it all."""
        for record in await self._outbox.jobs_held():
            assignment = record.assignment
            log.info(
                "job.recovered", job=assignment.job, attempt=assignment.attempt, device=record.device, pid=record.pid
            )
            self._note(assignment)
            await self._handle(steps.Recovered(assignment, record.device, record.pid))

    async def run(self) -> None:
        """Decide and carry out; for ever."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self._fault is not None:
                    raise self._fault
                while self._inbox:
                    await self._handle(self._inbox.popleft())
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _beside(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run ``work`` beside ``run``; its failure is ours."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_beside_done)
        return task

    def _on_beside_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fault = self._fault or task.exception()
            self._wake.set()

    async def _handle(self, event: steps.Event) -> None:
        instructions = self._decider.handle(event)
        self.on_change()
        for instruction in instructions:
            await self._carry_out(instruction)

    # --- instructions ---------------------------------------------------------------------------------------------

    async def _carry_out(self, instruction: steps.Instruction) -> None:
        match instruction:
            case steps.Take():
                await self._take(instruction.assignment)
            case steps.Reply():
                self._reply(instruction)
            case steps.Fetch():
                self._fetch(instruction.assignment)
            case steps.StopFetch():
                self._stop_fetch(instruction.key)
            case steps.Give():
                await self._give(instruction)
            case steps.SendAbort():
                await self._send(instruction.device, Abort(job=instruction.job, attempt=instruction.attempt))
            case steps.SayStarted():
                await self._say_started(instruction.body)
            case steps.Store():
                await self._store(instruction.body)
            case steps.SendRelease():
                await self._send(instruction.device, Release(job=instruction.job, attempt=instruction.attempt))

    async def _send(self, device: str, frame: ToWorker, pid: int | None = None) -> None:
        worker = self.workers.get(device)
        if worker is not None:
            await worker.send(pid, frame)

    def _note(self, assignment: AssignJob) -> None:
        key = (assignment.job, assignment.attempt)
        self._inputs[key] = assignment
        self._leases_s[key] = assignment.lease_s

    async def _take(self, assignment: AssignJob) -> None:
        key = (assignment.job, assignment.attempt)
        self._note(assignment)
        try:
            await self._outbox.hold_job(JobRecord(assignment=assignment))
        except OutboxRefused as refused:
            log.warning("job.not_taken", job=key[0], attempt=key[1], error=str(refused))
            self._forget(key)
            self.post(steps.NotTaken(key, str(refused)))
        else:
            log.info("job.taken", job=key[0], attempt=key[1], engine=assignment.engine)
            self.post(steps.Taken(key))

    def _reply(self, reply: steps.Reply) -> None:
        if not reply.accepted:
            log.warning("job.refused", job=reply.job, attempt=reply.attempt, detail=reply.detail)
        self.reply(JobReply(job=reply.job, attempt=reply.attempt, accepted=reply.accepted, detail=reply.detail))

    async def _give(self, give: steps.Give) -> None:
        try:
            await self._outbox.hold_job(JobRecord(assignment=give.assignment, device=give.device, pid=give.pid))
        except OutboxRefused as refused:
            # Harmless: should we die now, the next run fetches again and asks the worker again.
            log.warning("job.not_remembered", job=give.prove.job, attempt=give.prove.attempt, error=str(refused))
        log.info("job.given", job=give.prove.job, attempt=give.prove.attempt, device=give.device, pid=give.pid)
        await self._send(give.device, give.prove, give.pid)

    async def _say_started(self, body: JobStarted) -> None:
        try:
            await self._outbox.append([body])
        except OutboxRefused as refused:
            log.warning("job.start_not_said", job=body.job, attempt=body.attempt, error=str(refused))

    async def _store(self, body: steps.JobEnd) -> None:
        """Store an end; what the disk refuses is tried again beside everything else, for as long as it takes."""
        if not await self._stored(body):
            self._beside(self._store_later(body))

    async def _store_later(self, body: steps.JobEnd) -> None:
        wait_s = STORE_RETRY_FIRST_S
        while True:
            await self._clock.sleep(self._rng.uniform(wait_s / 2, wait_s))
            if await self._stored(body):
                return
            wait_s = min(STORE_RETRY_CAP_S, wait_s * 2)

    async def _stored(self, body: steps.JobEnd) -> bool:
        key = (body.job, body.attempt)
        try:
            new = await self._outbox.end_job(body)
        except OutboxRefused as refused:
            log.warning("job.end_not_stored", job=body.job, attempt=body.attempt, error=str(refused))
            return False
        self._forget(key)
        if new:
            await self._tell(body)
        self.post(steps.Stored(key))
        return True

    async def _tell(self, body: steps.JobEnd) -> None:
        match body:
            case JobSucceeded():
                log.info("job.succeeded", job=body.job, attempt=body.attempt)
            case JobStopped():
                log.info("job.stopped", job=body.job, attempt=body.attempt)
            case JobFailed():
                log.error("job.failed", job=body.job, attempt=body.attempt, code=body.code, detail=body.detail)
                detail = f"job {body.job} attempt {body.attempt} failed here: {body.detail}"
                await self._outbox.say("job.failed", detail, Level.ERROR, code=body.code)

    def _forget(self, key: Key) -> None:
        self._stop_fetch(key)
        self._leases_s.pop(key, None)
        assignment = self._inputs.pop(key, None)
        if assignment is not None and key in self._fetched:
            self._fetched.discard(key)
            self._artifacts.release(assignment.inputs)

    # --- fetching -------------------------------------------------------------------------------------------------

    def _fetch(self, assignment: AssignJob) -> None:
        key = (assignment.job, assignment.attempt)
        if key not in self._fetches:
            task = self._fetches[key] = self._beside(self._fetch_inputs(key, assignment))
            task.add_done_callback(lambda _: self._fetches.pop(key, None))

    def _stop_fetch(self, key: Key) -> None:
        task = self._fetches.get(key)
        if task is not None:
            task.cancel()

    async def _fetch_inputs(self, key: Key, assignment: AssignJob) -> None:
        def report(done: int, total: int) -> None:
            self.post(steps.FetchProgressed(key, done, total))

        try:
            files = await self._artifacts.fetch(
                assignment.inputs, base=self._base(), token=assignment.fetch_token, progress=report
            )
        except FetchFault as fault:
            self.post(steps.FetchFailed(key, fault.code, str(fault)))
        except OSError as error:
            self.post(steps.FetchFailed(key, CODE_INTERNAL, f"an input could not be stored: {error}"))
        else:
            if key in self._fetched:
                self._artifacts.release(assignment.inputs)  # fetched again for a worker that had lost it: kept once
            self._fetched.add(key)
            self.post(steps.Fetched(key, files))
