"""What to do with jobs: events in, instructions out. Pure: no I/O, no clock.

An attempt goes TAKING (being remembered) -> FETCHING (inputs) -> READY (waits for a worker) -> PROVING -> ending (its
end is being stored) -> ended. Everything is keyed by (job, attempt) and saying anything twice is harmless. Whoever
carries an instruction out reports back as another event; instructions are carried out in the order given.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from agent.job_steps import (
    Assigned,
    Cancelled,
    Event,
    Fetch,
    Fetched,
    FetchFailed,
    FetchProgressed,
    Give,
    Instruction,
    JobEnd,
    Key,
    NotTaken,
    Recovered,
    Reply,
    SayStarted,
    SendAbort,
    SendRelease,
    StopFetch,
    Store,
    Stored,
    Take,
    Taken,
    WorkerEnded,
    WorkerGone,
    WorkerProgressed,
    WorkerUp,
)
from wire.frames import AssignJob, JobFailed, JobHeld, JobStarted, JobStopped, JobSucceeded
from wire.limits import JOBS_HELD_MAX, TEXT_CHARS_MAX
from wire.status import JobProgress
from wire.worker import Ended, InputFile, Prove

ENGINES = frozenset({"groth16"})
CODE_INTERNAL = 6
CODE_MISMATCH = 3
ENDED_REMEMBERED_MAX = 4096
"""Ends that can be said again; the outbox's file remembers as many."""
GIVES_MAX = 3
"""A job is given to a worker so often without a sign that it began; then it is the job that is at fault."""

# --- the decider ------------------------------------------------------------------------------------------------------


class Phase(StrEnum):
    """Where a held attempt is."""

    TAKING = "taking"
    FETCHING = "fetching"
    READY = "ready"
    PROVING = "proving"


class Held:
    """One attempt that is not ended."""

    def __init__(self, key: Key, assignment: AssignJob | None, phase: Phase) -> None:
        self.key = key
        self.assignment = assignment
        """None for a job that only the worker knows of: a lost outbox."""
        self.phase = phase
        self.files: list[InputFile] = []
        self.device: str | None = None
        self.pid: int | None = None
        self.cancelled = False
        self.started_said = False
        self.gives = 0
        """In this run of the agent, without a sign that the worker began; 0 once it has begun, or if nobody knows."""
        self.progress = JobProgress(job=key[0], attempt=key[1], phase=phase.value)

    def show(self, phase: str, done: int = 0, total: int = 0, elapsed_s: float = 0.0) -> None:
        """What the status says about it."""
        job, attempt = self.key
        self.progress = JobProgress(job=job, attempt=attempt, phase=phase, done=done, total=total, elapsed_s=elapsed_s)


class Jobs:
    """The jobs of one agent.

    Args:
        devices: one job for each at a time.
        input_bytes_max: a job with a larger input is not taken.
        ended: the attempts known to have ended, of earlier runs.
    """

    def __init__(self, devices: Sequence[str], input_bytes_max: int, ended: Iterable[Key] = ()) -> None:
        self._devices = list(devices)
        self._input_bytes_max = input_bytes_max
        self._held: dict[Key, Held] = {}
        self._ending: dict[Key, str | None] = {}
        """Attempts whose end is being stored, and the device whose worker waits for its release."""
        self._ended: dict[Key, None] = dict.fromkeys(ended)
        self._workers: dict[str, int] = {}
        """Device to pid of workers that have greeted."""
        self.draining = False

    # --- what it shows --------------------------------------------------------------------------------------------

    def progress(self) -> list[JobProgress]:
        """For the status, oldest first."""
        return [held.progress for held in self._held.values()][:JOBS_HELD_MAX]

    def held(self) -> list[Key]:
        """Every attempt not ended durably, oldest first."""
        return [*self._ending, *self._held]

    def busy_device(self, device: str) -> bool:
        """Whether the worker of ``device`` has a job."""
        return any(held.phase is Phase.PROVING and held.device == device for held in self._held.values())

    def renewable(self, answering: Iterable[str]) -> list[JobHeld]:
        """The leases to renew, given the devices whose workers answer within their deadline."""
        alive = set(answering)
        renewed = []
        for held in self._held.values():
            fetching = held.phase in (Phase.TAKING, Phase.FETCHING)
            proving = held.device in alive if held.phase is Phase.PROVING else bool(alive)
            if not held.cancelled and (fetching or proving):
                renewed.append(JobHeld(job=held.key[0], attempt=held.key[1]))
        return renewed[:JOBS_HELD_MAX]

    # --- deciding -------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Instruction]:  # noqa: PLR0911 - one case for each event
        """What to do now that ``event`` has happened."""
        match event:
            case Assigned():
                return self._assigned(event.assignment)
            case Cancelled():
                return self._cancelled((event.job, event.attempt))
            case Recovered():
                return self._recovered(event)
            case WorkerUp():
                return self._worker_up(event)
            case WorkerProgressed():
                return self._worker_progressed(event)
            case WorkerEnded():
                return self._worker_ended(event.device, event.ended)
            case WorkerGone():
                return self._worker_gone(event)
            case Stored():
                return self._stored(event.key)
            case _:
                return self._prepared(event)

    def _assigned(self, assignment: AssignJob) -> list[Instruction]:
        job, attempt = key = (assignment.job, assignment.attempt)
        held = self._held.get(key)
        if key in self._ended or key in self._ending or (held is not None and held.phase is not Phase.TAKING):
            return [Reply(job, attempt, accepted=True)]
        if held is not None:
            return []  # the reply follows when it is remembered
        refusal = self._refusal(assignment)
        if refusal:
            return [Reply(job, attempt, accepted=False, detail=refusal[:TEXT_CHARS_MAX])]
        instructions: list[Instruction] = []
        for older in self._attempts_of(job):
            if older.phase is not Phase.PROVING:
                # The hub has given it up, or it would not offer a newer attempt.
                instructions += self._end(older, JobStopped(job=job, attempt=older.key[1]))
        self._held[key] = Held(key, assignment, Phase.TAKING)
        return [*instructions, Take(assignment)]

    def _refusal(self, assignment: AssignJob) -> str:  # noqa: PLR0911 - one line for each reason
        """Why not; empty to take it."""
        if not self._devices:
            return "this node only observes"
        if self.draining:
            return "this node is draining"
        if assignment.engine not in ENGINES:
            return f"this agent has no engine '{assignment.engine}'"
        roles = [each.role for each in assignment.inputs]
        if len(set(roles)) != len(roles):
            return f"two inputs have the same role: {', '.join(roles)}"
        for each in assignment.inputs:
            if each.bytes_ > self._input_bytes_max:
                return f"input '{each.role}' has {each.bytes_} bytes; this node takes {self._input_bytes_max} at most"
        others = {job for job, _ in self._held if job != assignment.job}
        if len(others) >= min(len(self._devices), JOBS_HELD_MAX):
            return f"this node is busy with job {', '.join(sorted(others))}"
        newest = max((held.key[1] for held in self._attempts_of(assignment.job)), default=0)
        return f"attempt {newest} of this job is held here" if newest > assignment.attempt else ""

    def _attempts_of(self, job: str) -> list[Held]:
        return [held for key, held in self._held.items() if key[0] == job]

    def _cancelled(self, key: Key) -> list[Instruction]:
        job, attempt = key
        held = self._held.get(key)
        if held is None:
            if key in self._ended or key in self._ending:
                return []
            # Unknown here, so it has stopped here: said once, so that the hub need not wait for it.
            return self._store(JobStopped(job=job, attempt=attempt), None)
        if held.phase is not Phase.PROVING:
            return [*self._end(held, JobStopped(job=job, attempt=attempt)), *self._dispatch()]
        held.cancelled = True
        return [SendAbort(held.device, job, attempt)] if held.device in self._workers else []

    def _recovered(self, event: Recovered) -> list[Instruction]:
        assignment = event.assignment
        key = (assignment.job, assignment.attempt)
        if key in self._ended or key in self._ending:
            return []
        if not self._devices:
            detail = "this node was set to observe only"
            return self._store(JobFailed(job=key[0], attempt=key[1], code=CODE_INTERNAL, detail=detail), None)
        held = self._held[key] = Held(key, assignment, Phase.FETCHING)
        if event.device in self._devices and event.pid is not None:
            held.phase, held.device, held.pid = Phase.PROVING, event.device, event.pid
            held.show("adopting")
            return []
        held.show("fetch")
        return [Fetch(assignment)]

    def _prepared(self, event: Taken | NotTaken | FetchProgressed | Fetched | FetchFailed) -> list[Instruction]:
        """Steps before proving; late reports about a job that went on without them count for nothing."""
        held = self._held.get(event.key)
        wanted = Phase.TAKING if isinstance(event, Taken | NotTaken) else Phase.FETCHING
        if held is None or held.phase is not wanted or held.assignment is None:
            return []
        job, attempt = held.key
        match event:
            case Taken():
                held.phase = Phase.FETCHING
                held.show("fetch")
                return [Reply(job, attempt, accepted=True), Fetch(held.assignment)]
            case NotTaken():
                del self._held[held.key]
                return [Reply(job, attempt, accepted=False, detail=event.detail[:TEXT_CHARS_MAX])]
            case FetchProgressed():
                held.show("fetch", event.done, event.total)
                return []
            case Fetched():
                held.phase, held.files = Phase.READY, event.files
                held.show("wait")
                return self._dispatch()
            case FetchFailed():
                detail = event.detail[:TEXT_CHARS_MAX]
                return [*self._end(held, JobFailed(job=job, attempt=attempt, code=event.code, detail=detail))]

    # --- workers --------------------------------------------------------------------------------------------------

    def _worker_up(self, event: WorkerUp) -> list[Instruction]:
        self._workers[event.device] = event.pid
        current = (event.current.job, event.current.attempt) if event.current is not None else None
        instructions: list[Instruction] = []
        for held in [held for held in self._held.values() if held.device == event.device]:
            if held.pid != event.pid and held.key != current:
                instructions += self._lost(
                    held, f"the worker (pid {held.pid}) was gone when the agent found the next one"
                )
            elif held.key != current:
                instructions += self._give_again(held, "the worker never began with it")
        if event.current is not None and current is not None:
            if current in self._ended or current in self._ending:
                instructions.append(SendAbort(event.device, *current))
            else:
                instructions += self._adopt(event.device, event.pid, current)
                instructions += self._worker_progressed(WorkerProgressed(event.device, event.current))
        return [*instructions, *self._dispatch()]

    def _adopt(self, device: str, pid: int, key: Key) -> list[Instruction]:
        """The worker is at this job: take it over, whatever this run of the agent knew of it."""
        held = self._held.setdefault(key, Held(key, None, Phase.PROVING))
        stop: list[Instruction] = [StopFetch(key)] if held.phase is Phase.FETCHING else []
        held.phase, held.device, held.pid = Phase.PROVING, device, pid
        held.gives = 0
        return [*stop, SendAbort(device, *key)] if held.cancelled else stop

    def _give_again(self, held: Held, why: str) -> list[Instruction]:
        """No worker has it: it was stopped, or one of us died, between two steps. Nothing is lost, nobody to blame."""
        job, attempt = held.key
        if held.cancelled or held.assignment is None:
            return self._end(held, JobStopped(job=job, attempt=attempt))
        if held.gives >= GIVES_MAX:
            return self._end(held, _failed(held, f"{why}, {held.gives} times"))
        held.phase, held.device, held.pid = Phase.FETCHING, None, None
        held.show("fetch")
        return [Fetch(held.assignment)]

    def _worker_progressed(self, event: WorkerProgressed) -> list[Instruction]:
        progress = event.progress
        held = self._held.get((progress.job, progress.attempt))
        if held is None or held.phase is not Phase.PROVING or held.device != event.device or held.pid is None:
            return []
        held.show(progress.phase, progress.done, progress.total, progress.elapsed_s)
        held.gives = 0
        if held.started_said:
            return []
        held.started_said = True
        job, attempt = held.key
        return [SayStarted(JobStarted(job=job, attempt=attempt, device=event.device, pid=held.pid))]

    def _worker_ended(self, device: str, ended: Ended) -> list[Instruction]:
        key = (ended.job, ended.attempt)
        if key in self._ended:
            return [SendRelease(device, *key)]
        if key in self._ending:
            self._ending[key] = device
            return []
        held = self._held.get(key)
        body = _body_of(ended, cancelled=held is not None and held.cancelled)
        instructions = self._store(body, device) if held is None else self._end(held, body, device)
        if isinstance(body, JobSucceeded):
            for newer in self._attempts_of(ended.job):
                # The same inputs by digest: the proof serves the newer attempt too, and is not made twice.
                if newer.phase is not Phase.PROVING:
                    again = JobSucceeded(
                        job=ended.job, attempt=newer.key[1], outputs=body.outputs, timings_ms=body.timings_ms
                    )
                    instructions += self._end(newer, again)
        return [*instructions, *self._dispatch()]

    def _worker_gone(self, event: WorkerGone) -> list[Instruction]:
        self._workers.pop(event.device, None)
        gone = [held for held in self._held.values() if held.device == event.device and held.phase is Phase.PROVING]
        return [step for held in gone for step in self._lost(held, event.detail)]

    def _lost(self, held: Held, why: str) -> list[Instruction]:
        if held.cancelled:
            return self._end(held, JobStopped(job=held.key[0], attempt=held.key[1]))
        if held.gives:
            return self._give_again(held, f"{why} before it began")
        return self._end(held, _failed(held, f"{why} in phase {held.progress.phase}"))

    def _dispatch(self) -> list[Instruction]:
        """Give what is ready to workers that are idle."""
        instructions: list[Instruction] = []
        for device, pid in self._workers.items():
            if self.busy_device(device):
                continue
            held = next((held for held in self._held.values() if self._may_start(held)), None)
            if held is None or held.assignment is None:
                break
            job, attempt = held.key
            held.phase, held.device, held.pid = Phase.PROVING, device, pid
            held.gives += 1
            held.show("start")
            assignment = held.assignment
            prove = Prove(job=job, attempt=attempt, engine=assignment.engine, spec=assignment.spec, inputs=held.files)
            instructions.append(Give(assignment, device, pid, prove))
        return instructions

    def _may_start(self, held: Held) -> bool:
        older_runs = any(other.phase is Phase.PROVING for other in self._attempts_of(held.key[0]))
        return held.phase is Phase.READY and not older_runs

    # --- ends -----------------------------------------------------------------------------------------------------

    def _end(self, held: Held, body: JobEnd, device: str | None = None) -> list[Instruction]:
        del self._held[held.key]
        stop: list[Instruction] = [StopFetch(held.key)] if held.phase is Phase.FETCHING else []
        return [*stop, *self._store(body, device)]

    def _store(self, body: JobEnd, device: str | None) -> list[Instruction]:
        self._ending[body.job, body.attempt] = device
        return [Store(body)]

    def _stored(self, key: Key) -> list[Instruction]:
        device = self._ending.pop(key, None)
        self._ended[key] = None
        if len(self._ended) > ENDED_REMEMBERED_MAX:
            del self._ended[next(iter(self._ended))]
        release: list[Instruction] = [SendRelease(device, *key)] if device is not None else []
        return [*release, *self._dispatch()]


def _failed(held: Held, detail: str) -> JobFailed:
    return JobFailed(job=held.key[0], attempt=held.key[1], code=CODE_INTERNAL, detail=detail[:TEXT_CHARS_MAX])


def _body_of(ended: Ended, *, cancelled: bool) -> JobEnd:
    if cancelled:
        return JobStopped(job=ended.job, attempt=ended.attempt)
    if ended.code == 0 and ended.outputs:
        return JobSucceeded(job=ended.job, attempt=ended.attempt, outputs=ended.outputs, timings_ms=ended.timings_ms)
    detail = ended.detail or "the worker gave the job up and said no reason"
    return JobFailed(job=ended.job, attempt=ended.attempt, code=ended.code or CODE_INTERNAL, detail=detail)
