"""Does what `hub.dispatch` decides: through the store first, to the agents after. Jobs are handed in here, too.

One task runs ``run``; everything that might give it something to do calls ``wake``. Frames are sent only after the
change behind them is committed, so a crash at any point leaves at most a frame unsaid, and greeting says it again.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec
import structlog

from hub import jobs as steps
from hub.bus import Bus, JobChanged
from hub.clock import Clock
from hub.config import Config
from hub.dispatch import Assign, Candidate, Dispatch, Expire, Greeting, Limits, greet, in_vain
from hub.ids import uuid7
from hub.keys import Keys
from hub.liveness import NodeState
from hub.ports import Lease, TooManyJobs
from hub.registry import Node, Registry
from hub.store.base import Step, Store, StoreUnavailable
from hub.store.records import Attempt, AttemptState, HubEvent, Job, JobPicture
from hub.undisturbed import Undisturbed
from hub.waiting import why_waits
from wire.frames import AssignJob, CancelJob, Capability, JobHeld, JobReply, Level
from wire.jobs import Groth16Spec
from wire.limits import JOBS_HELD_MAX
from wire.status import WorkerState

log = structlog.get_logger(__name__)

OUTPUT_ROLES = ["proof", "public"]
TICK_MAX_S = 1.0
"""The longest the desk sleeps: how late a hitch of the loop is noticed."""
STORE_RETRY_S = 1.0
"""Between two tries while the store cannot be written."""


class Courier(Protocol):
    """Takes frames to agents that have a session; False if this one has none (it will be greeted when it has)."""

    def assign(self, agent_id: str, frame: AssignJob) -> bool:
        """Queue an assignment."""

    def cancel(self, agent_id: str, frame: CancelJob) -> bool:
        """Queue a cancellation."""


class Desk:
    """`hub.ports.JobDesk`, and the doer of the dispatcher's decisions."""

    def __init__(self, *, config: Config, clock: Clock, store: Store, registry: Registry, bus: Bus, keys: Keys) -> None:
        self._config = config
        self._clock = clock
        self._store = store
        self._registry = registry
        self._bus = bus
        self._keys = keys
        self._dispatch = Dispatch(
            Limits(
                lease_s=config.lease_s,
                lease_grace_s=config.lease_grace_s,
                attempt_s=config.attempt_s,
                decline_backoff_s=config.decline_backoff_s,
            )
        )
        self._beat_s = clock.monotonic()
        self._wake = asyncio.Event()
        self._undisturbed = Undisturbed()
        self.results = asyncio.Event()
        """Set when a result waits for verification."""
        self.courier: Courier | None = None
        """Set by the composition root: sessions and desk know each other."""

    @property
    def dispatch(self) -> Dispatch:
        """The pure part, to look at."""
        return self._dispatch

    async def load(self) -> None:
        """Take over every open job from the store; every live attempt gets a fresh lease."""
        for picture in await self._store.open_jobs():
            self._dispatch.absorb(picture, self._clock.monotonic())
        if self._dispatch.results():
            self.results.set()

    def wake(self) -> None:
        """Something changed that may matter."""
        self._wake.set()

    # --- the desk

    async def submit(self, job: Job) -> tuple[Job, bool]:
        """Persist, then queue. See `hub.ports.JobDesk`."""
        if len(self._dispatch) >= self._config.jobs_open_max:
            raise TooManyJobs(f"{len(self._dispatch)} jobs have not ended yet; try again when some have")
        return await self._undisturbed.finish(self._submit(job))

    async def _submit(self, job: Job) -> tuple[Job, bool]:
        stored, new = await self._store.add_job(job)
        if new:
            log.info("a job was handed in", job=stored.id, circuit=stored.circuit_id, priority=stored.priority)
            self.absorb([JobPicture(job=stored)])
        return stored, new

    async def cancel(self, job_id: str) -> Job | None:
        """Cancel. See `hub.ports.JobDesk`."""
        now_ms = self._clock.time_ms()
        changed = await self._change(job_id, lambda p: steps.cancel(p, "cancelled by the operator", now_ms))
        if changed is not None:
            return changed.job
        picture = await self._reread(job_id)
        return None if picture is None else picture.job

    def lease(self, job_id: str, attempt: int) -> Lease | None:
        """The live attempt of that number."""
        picture = self._dispatch.picture(job_id)
        live = None if picture is None else picture.live
        if picture is None or live is None or live.attempt != attempt:
            return None
        return Lease(job_id, attempt, live.agent_id, picture.job.inputs)

    def holder(self, job_id: str) -> str | None:
        """The agent that holds the job's lease now."""
        live = self._dispatch.live(job_id)
        return None if live is None else live.agent_id

    # --- what others report

    def absorb(self, pictures: Iterable[JobPicture]) -> None:
        """Committed changes: take them over, tell viewers, call off what has become vain."""
        for picture in pictures:
            if not self._dispatch.absorb(picture, self._clock.monotonic()):
                continue
            live = picture.live
            self._bus.publish(JobChanged(picture.job, None if live is None else live.agent_id))
            self._call_off(picture)
        if self._dispatch.results():
            self.results.set()
        self.wake()

    def _call_off(self, picture: JobPicture) -> None:
        """Tell agents whose attempts can no longer be of use. Saying it again is harmless."""
        for attempt in picture.attempts:
            held = JobHeld(attempt.job_id, attempt.attempt)
            if attempt.state in {AttemptState.CANCELLED, AttemptState.EXPIRED, AttemptState.LOST} and in_vain(
                self._dispatch, attempt.agent_id, held
            ):
                self._send_cancel(attempt.agent_id, held, attempt.detail)

    def _send_cancel(self, agent_id: str, held: JobHeld, detail: str) -> None:
        if self.courier is not None:
            self.courier.cancel(agent_id, CancelJob(held.job, held.attempt, detail))

    async def replied(self, agent_id: str, reply: JobReply) -> None:
        """An agent answered an assignment.

        Raises:
            ForeignReference: the attempt is not this agent's.
        """
        live = self._dispatch.live(reply.job)
        if live is None or live.attempt != reply.attempt or live.agent_id != agent_id:
            await self.late(agent_id, JobHeld(reply.job, reply.attempt))
            return
        if reply.accepted:
            self._dispatch.renew(agent_id, reply.job, reply.attempt, self._clock.monotonic())
            if live.state is AttemptState.ASSIGNED:
                await self._accept(live)
            return
        log.info("a node declined a job", agent=agent_id, job=reply.job, attempt=reply.attempt, detail=reply.detail)
        self._dispatch.declined(agent_id, reply.job, self._clock.monotonic())
        await self._end_lease(live, AttemptState.DECLINED, f"declined: {reply.detail}")

    def renewed(self, agent_id: str, jobs: Sequence[JobHeld]) -> list[JobHeld]:
        """An agent's workers are alive: extend their leases, from memory. Those that hold none are given back."""
        now_s = self._clock.monotonic()
        return [held for held in jobs if not self._dispatch.renew(agent_id, held.job, held.attempt, now_s)]

    async def late(self, agent_id: str, held: JobHeld) -> None:
        """An agent is at an attempt without a lease: of its own, an honest race; of another's, it is not.

        Raises:
            ForeignReference: it is not this agent's.
        """
        picture = self._dispatch.picture(held.job) or await self._store.job(held.job)
        steps.own_attempt(picture, agent_id, held.attempt, held.job)
        if in_vain(self._dispatch, agent_id, held):
            self._send_cancel(agent_id, held, "this attempt has no lease any more")

    async def _accept(self, live: Attempt) -> None:
        await self._change(live.job_id, lambda p: steps.accepted(p, live.agent_id, live.attempt))

    async def greeted(self, agent_id: str, jobs: Sequence[JobHeld]) -> tuple[Attempt, ...]:
        """An agent's session opened: adopt, repeat, call off.

        Returns:
            Attempts it had taken and does not list, for ``returned_without`` once its outbox is heard out.
        """
        greeting: Greeting = greet(self._dispatch, agent_id, jobs)
        for attempt in greeting.adopt:
            self._dispatch.renew(agent_id, attempt.job_id, attempt.attempt, self._clock.monotonic())
            if attempt.state is AttemptState.ASSIGNED:
                await self._accept(attempt)
        for attempt in greeting.assign:
            self._send_assign(attempt)
        for held in greeting.cancel:
            self._send_cancel(agent_id, held, "this attempt has no lease any more")
        self.wake()
        return greeting.missing

    async def returned_without(self, attempts: Iterable[Attempt]) -> None:
        """An agent came back, said all it had to say, and these are not with it any more."""
        for attempt in attempts:
            live = self._dispatch.live(attempt.job_id)
            if live is not None and live.attempt == attempt.attempt:
                await self._end_lease(live, AttemptState.LOST, "the node came back without it")

    async def revoked(self, agent_id: str) -> None:
        """A node was revoked: its leases, and with them its right to fetch inputs, end at once."""
        for live in self._dispatch.held_by(agent_id):
            await self._end_lease(live, AttemptState.LOST, "the node was revoked")

    async def refused(self, picture: JobPicture, attempt: Attempt, detail: str) -> None:
        """The hub's verification refused a result: another attempt follows, and the node's page says why."""
        now_ms, number, limit = self._clock.time_ms(), attempt.attempt, self._config.attempts_max
        sentence = f"refused by the hub: {detail}"
        if (
            await self._change(picture.job.id, lambda p: steps.refuse_result(p, number, sentence, now_ms, limit))
            is None
        ):
            await self._reread(picture.job.id)
            return
        log.warning("a result was refused", agent=attempt.agent_id, job=picture.job.id, attempt=number, detail=detail)
        await self.note(attempt.agent_id, "result.refused", f"job {picture.job.id}, attempt {number}: {detail}")

    async def verified(self, picture: JobPicture, attempt: Attempt, proof: bytes, public: bytes) -> None:
        """The hub's verification accepted a result: the job is done."""
        now_ms, number = self._clock.time_ms(), attempt.attempt
        done = await self._change(picture.job.id, lambda p: steps.accept_result(p, number, proof, public, now_ms))
        if done is None:
            await self._reread(picture.job.id)
        else:
            log.info("a job is done", agent=attempt.agent_id, job=picture.job.id, attempt=number)

    async def note(self, agent_id: str, kind: str, detail: str, level: Level = Level.WARNING) -> None:
        """Keep something the hub saw about a node."""
        now_ms = self._clock.time_ms()
        event = HubEvent(
            id=uuid7(now_ms), agent_id=agent_id, time_ms=now_ms, kind=kind, level=level.value, detail=detail
        )
        await self._store.add_hub_event(event)

    # --- the doer

    async def run(self) -> None:
        """Decide and do, for ever."""
        while True:
            self._wake.clear()
            try:
                await self.settle()
            except StoreUnavailable as error:
                log.error("the desk waits for the store", error=str(error))  # noqa: TRY400 - told by the writer
                await asyncio.sleep(STORE_RETRY_S)
            try:
                async with asyncio.timeout(self._nap_s(self._clock.monotonic())):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _notice_absence(self) -> None:
        """Extend every lease by the time this task did not run: the hub stood still, not the nodes."""
        now_s = self._clock.monotonic()
        away_s = now_s - self._beat_s - TICK_MAX_S
        self._beat_s = now_s
        if away_s > self._config.lag_tolerated_s:
            log.warning("the hub was away; leases are extended by as much", seconds=round(away_s, 1))
            self._dispatch.forgive(away_s)

    def _nap_s(self, now_s: float) -> float:
        deadline = self._dispatch.next_deadline(now_s)
        return TICK_MAX_S if deadline is None else min(TICK_MAX_S, max(0.0, deadline - now_s))

    async def settle(self) -> None:
        """Carry out what there is to decide, until there is nothing."""
        self._notice_absence()
        while instructions := self._dispatch.decide(self._fleet(), self._clock.monotonic()):
            # One commit for all of a round; one that fails does not stop the others half-way.
            done = await asyncio.gather(*map(self._do, instructions), return_exceptions=True)
            for failure in done:
                if failure is not None:
                    raise failure
            self._notice_absence()

    def why_waits(self, job: Job) -> str:
        """Why a queued job waits, in one sentence; empty where nothing keeps it."""
        return why_waits(job, self._registry.nodes(), _candidate, self._dispatch.held_counts())

    def _fleet(self) -> list[Candidate]:
        """Who may be given a job; nobody is asked while none waits."""
        if not self._dispatch.queued():
            return []
        return [_candidate(node) for node in self._registry.nodes() if node.state is NodeState.ONLINE and node.proves]

    async def _do(self, instruction: Assign | Expire) -> None:
        match instruction:
            case Expire(job_id=job_id, attempt=number, detail=detail):
                live = self._dispatch.live(job_id)
                if live is None or live.attempt != number:
                    return
                log.warning("a lease ran out", agent=live.agent_id, job=job_id, attempt=number)
                changed = await self._end_lease(live, AttemptState.EXPIRED, detail)
            case Assign(job_id=job_id, agent_id=agent_id):
                now_ms = self._clock.time_ms()
                changed = await self._change(job_id, lambda p: steps.assign(p, agent_id, now_ms))
                if changed is not None and changed.live is not None:
                    log.info("a job is assigned", agent=agent_id, job=job_id, attempt=changed.live.attempt)
                    self._send_assign(changed.live)
        if changed is None:
            await self._reread(instruction.job_id)

    async def _reread(self, job_id: str) -> JobPicture | None:
        """The store did not agree with the picture here: take over what it has.

        That may be our own assignment, committed although we did not hear of it: then its agent has not heard either.
        """
        stored = await self._store.job(job_id)
        if stored is None:
            self._dispatch.forget(job_id)
            return None
        self.absorb([stored])
        live = self._dispatch.live(job_id)
        if live is not None and live.state is AttemptState.ASSIGNED:
            self._send_assign(live)
        return stored

    async def _end_lease(self, live: Attempt, state: AttemptState, detail: str) -> JobPicture | None:
        now_ms, limit = self._clock.time_ms(), self._config.attempts_max
        return await self._change(live.job_id, lambda p: steps.end_lease(p, live.attempt, state, detail, now_ms, limit))

    async def _change(self, job_id: str, step: Step) -> JobPicture | None:
        return await self._undisturbed.finish(self._changed(job_id, step))

    async def _changed(self, job_id: str, step: Step) -> JobPicture | None:
        changed = await self._store.change_job(job_id, step)
        if changed is not None:
            self.absorb([changed])
        return changed

    def _send_assign(self, attempt: Attempt) -> None:
        picture = self._dispatch.picture(attempt.job_id)
        if picture is None or self.courier is None:
            return
        job = picture.job
        frame = AssignJob(
            job=job.id,
            attempt=attempt.attempt,
            lease_s=self._config.lease_s,
            engine=job.engine,
            spec=Groth16Spec(circuit=job.circuit_id, curve=job.curve),
            inputs=list(job.inputs),
            outputs=OUTPUT_ROLES,
            fetch_token=self._keys.fetch_token(job.id, attempt.attempt, attempt.agent_id),
        )
        self.courier.assign(attempt.agent_id, frame)


def _candidate(node: Node) -> Candidate:
    """What the dispatcher needs to know of a node: a job for each worker that is not down, one before it said so."""
    workers = () if node.status.workers is msgspec.UNSET else node.status.workers
    able = sum(worker.state is not WorkerState.DOWN for worker in workers) if workers else 1
    slots = min(able, JOBS_HELD_MAX)  # more it could neither list in a hello nor renew
    cuda = Capability.GROTH16_CUDA.value in node.capabilities
    return Candidate(agent_id=node.id, slots=slots, cuda=cuda, labels=node.labels)
