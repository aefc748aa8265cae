"""The decider alone, then in any order of events with a worker, a store and a hub that may fail at any point."""

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

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
from agent.jobs import ENDED_REMEMBERED_MAX, GIVES_MAX, Jobs
from tests.agent.samples import JOB, JOB_2, PROOF, assignment
from wire.frames import AssignJob, JobFailed, JobHeld, JobStarted, JobStopped, JobSucceeded
from wire.jobs import Input
from wire.worker import Ended, InputFile, Progress

FILES = [InputFile(role="zkey", path="/a"), InputFile(role="wtns", path="/b")]
PID = 100


def progress(job: str = JOB, attempt: int = 1, phase: str = "msm", done: int = 1, total: int = 4) -> Progress:
    return Progress(job=job, attempt=attempt, phase=phase, done=done, total=total, elapsed_s=1.5)


def success(job: str = JOB, attempt: int = 1) -> Ended:
    return Ended(job=job, attempt=attempt, code=0, outputs=[PROOF], timings_ms={"msm": 2.0})


def decider(*devices: str, ended: tuple[Key, ...] = ()) -> Jobs:
    return Jobs(devices or ("host",), 10_000, ended)


def kinds(steps: list[Instruction]) -> list[str]:
    return [type(step).__name__ for step in steps]


def reply_of(steps: list[Instruction]) -> Reply:
    (reply,) = (step for step in steps if isinstance(step, Reply))
    return reply


def taken(jobs: Jobs, frame: AssignJob | None = None) -> list[Instruction]:
    frame = frame or assignment()
    jobs.handle(Assigned(frame))
    return jobs.handle(Taken((frame.job, frame.attempt)))


def proving(jobs: Jobs, frame: AssignJob | None = None) -> Give:
    """Bring a job to a worker; the instruction that gave it."""
    frame = frame or assignment()
    jobs.handle(WorkerUp("host", PID, None))
    taken(jobs, frame)
    (give,) = jobs.handle(Fetched((frame.job, frame.attempt), FILES))
    assert isinstance(give, Give)
    return give


# --- the ordinary way -----------------------------------------------------------------------------------------------


def test_from_offer_to_release() -> None:
    jobs = decider()
    jobs.handle(WorkerUp("host", PID, None))
    assert jobs.handle(Assigned(assignment())) == [Take(assignment())]
    assert jobs.handle(Taken((JOB, 1))) == [Reply(JOB, 1, accepted=True), Fetch(assignment())]
    jobs.handle(FetchProgressed((JOB, 1), 550, 1100))
    assert [(shown.phase, shown.done, shown.total) for shown in jobs.progress()] == [("fetch", 550, 1100)]
    (give,) = jobs.handle(Fetched((JOB, 1), FILES))
    assert isinstance(give, Give)
    assert (give.device, give.pid, give.prove.inputs) == ("host", PID, FILES)
    assert jobs.busy_device("host")
    started = jobs.handle(WorkerProgressed("host", progress()))
    assert started == [SayStarted(JobStarted(job=JOB, attempt=1, device="host", pid=PID))]
    assert jobs.handle(WorkerProgressed("host", progress(phase="verify"))) == []
    assert jobs.progress()[0].phase == "verify"
    (store,) = jobs.handle(WorkerEnded("host", success()))
    assert store == Store(JobSucceeded(job=JOB, attempt=1, outputs=[PROOF], timings_ms={"msm": 2.0}))
    assert jobs.held() == [(JOB, 1)]
    assert jobs.handle(Stored((JOB, 1))) == [SendRelease("host", JOB, 1)]
    assert (jobs.held(), jobs.progress(), jobs.busy_device("host")) == ([], [], False)


@pytest.mark.parametrize(
    ("ended", "code", "detail"),
    [
        (Ended(job=JOB, attempt=1, code=4, detail="the witness is bad"), 4, "the witness is bad"),
        (Ended(job=JOB, attempt=1, code=0), 6, "the worker gave the job up and said no reason"),
    ],
)
def test_a_failure_keeps_its_code_and_sentence(ended: Ended, code: int, detail: str) -> None:
    jobs = decider()
    proving(jobs)
    assert jobs.handle(WorkerEnded("host", ended)) == [Store(JobFailed(job=JOB, attempt=1, code=code, detail=detail))]


def test_inputs_that_cannot_be_had_fail_the_attempt() -> None:
    jobs = decider()
    taken(jobs)
    steps = jobs.handle(FetchFailed((JOB, 1), 2, "wrong digest"))
    assert steps == [StopFetch((JOB, 1)), Store(JobFailed(job=JOB, attempt=1, code=2, detail="wrong digest"))]


def test_a_job_that_is_ready_waits_for_a_worker() -> None:
    jobs = decider()
    taken(jobs)
    assert jobs.handle(Fetched((JOB, 1), FILES)) == []
    assert kinds(jobs.handle(WorkerUp("host", PID, None))) == ["Give"]


# --- refusing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (assignment(engine="cuzk"), "no engine 'cuzk'"),
        (assignment(inputs=[Input(role="zkey", sha256="11" * 32, bytes_=10_001)]), "10001 bytes"),
        (assignment(inputs=[Input(role="zkey", sha256="11" * 32, bytes_=1)] * 2), "same role"),
    ],
)
def test_what_cannot_be_done_is_refused_with_why(frame: AssignJob, says: str) -> None:
    reply = reply_of(decider().handle(Assigned(frame)))
    assert not reply.accepted
    assert says in reply.detail


def test_observing_draining_and_busy_nodes_refuse() -> None:
    assert "observes" in reply_of(Jobs((), 10_000).handle(Assigned(assignment()))).detail
    jobs = decider()
    jobs.draining = True
    assert "draining" in reply_of(jobs.handle(Assigned(assignment()))).detail
    jobs = decider()
    proving(jobs)
    assert f"busy with job {JOB}" in reply_of(jobs.handle(Assigned(assignment(JOB_2)))).detail


def test_two_devices_take_two_jobs() -> None:
    jobs = decider("cuda:0", "cuda:1")
    jobs.handle(WorkerUp("cuda:0", 1, None))
    jobs.handle(WorkerUp("cuda:1", 2, None))
    given = []
    for job in (JOB, JOB_2):
        taken(jobs, assignment(job))
        given += jobs.handle(Fetched((job, 1), FILES))
    assert [step.device for step in given if isinstance(step, Give)] == ["cuda:0", "cuda:1"]


def test_a_job_that_cannot_be_remembered_is_not_taken() -> None:
    jobs = decider()
    jobs.handle(Assigned(assignment()))
    reply = reply_of(jobs.handle(NotTaken((JOB, 1), "the disk is full")))
    assert (reply.accepted, reply.detail, jobs.held()) == (False, "the disk is full", [])


# --- said twice -----------------------------------------------------------------------------------------------------


def test_an_offer_repeated_is_accepted_and_changes_nothing() -> None:
    jobs = decider()
    jobs.handle(Assigned(assignment()))
    assert jobs.handle(Assigned(assignment())) == []
    jobs.handle(Taken((JOB, 1)))
    assert jobs.handle(Assigned(assignment())) == [Reply(JOB, 1, accepted=True)]
    jobs.handle(WorkerUp("host", PID, None))
    jobs.handle(Fetched((JOB, 1), FILES))
    assert jobs.handle(Assigned(assignment())) == [Reply(JOB, 1, accepted=True)]
    jobs.handle(WorkerEnded("host", success()))
    assert jobs.handle(Assigned(assignment())) == [Reply(JOB, 1, accepted=True)]
    jobs.handle(Stored((JOB, 1)))
    assert jobs.handle(Assigned(assignment())) == [Reply(JOB, 1, accepted=True)]


def test_a_result_repeated_is_stored_once_and_released_again() -> None:
    jobs = decider()
    proving(jobs)
    assert kinds(jobs.handle(WorkerEnded("host", success()))) == ["Store"]
    assert jobs.handle(WorkerEnded("host", success())) == []
    jobs.handle(Stored((JOB, 1)))
    assert jobs.handle(WorkerEnded("host", success())) == [SendRelease("host", JOB, 1)]
    assert decider(ended=((JOB, 1),)).handle(WorkerEnded("host", success())) == [SendRelease("host", JOB, 1)]


def test_a_result_nobody_knows_of_is_stored_anyway() -> None:
    """The outbox was lost and the worker was not: the proof still goes to the hub."""
    jobs = decider()
    assert kinds(jobs.handle(WorkerEnded("host", success()))) == ["Store"]
    assert jobs.handle(Stored((JOB, 1))) == [SendRelease("host", JOB, 1)]


# --- cancelling -----------------------------------------------------------------------------------------------------


def test_cancelling_before_proving_stops_at_once() -> None:
    jobs = decider()
    taken(jobs)
    assert jobs.handle(Cancelled(JOB, 1)) == [StopFetch((JOB, 1)), Store(JobStopped(job=JOB, attempt=1))]
    jobs.handle(Stored((JOB, 1)))
    assert jobs.handle(Cancelled(JOB, 1)) == []
    assert jobs.handle(Fetched((JOB, 1), FILES)) == []


def test_cancelling_a_proof_is_over_when_the_worker_says_so() -> None:
    jobs = decider()
    proving(jobs)
    assert jobs.handle(Cancelled(JOB, 1)) == [SendAbort("host", JOB, 1)]
    assert jobs.renewable(["host"]) == []
    assert jobs.handle(WorkerEnded("host", Ended(job=JOB, attempt=1, code=0))) == [
        Store(JobStopped(job=JOB, attempt=1))
    ]


def test_a_proof_finished_while_it_was_cancelled_is_forgotten() -> None:
    jobs = decider()
    proving(jobs)
    jobs.handle(Cancelled(JOB, 1))
    assert jobs.handle(WorkerEnded("host", success())) == [Store(JobStopped(job=JOB, attempt=1))]


def test_cancelling_while_the_worker_is_away_is_said_when_it_is_back() -> None:
    jobs = decider()
    jobs.handle(Recovered(assignment(), "host", PID))
    assert jobs.handle(Cancelled(JOB, 1)) == []
    assert SendAbort("host", JOB, 1) in jobs.handle(WorkerUp("host", PID, progress()))


def test_cancelling_what_is_unknown_is_answered_once() -> None:
    jobs = decider()
    assert jobs.handle(Cancelled(JOB, 1)) == [Store(JobStopped(job=JOB, attempt=1))]
    jobs.handle(Stored((JOB, 1)))
    assert jobs.handle(Cancelled(JOB, 1)) == []


# --- attempts -------------------------------------------------------------------------------------------------------


def test_a_newer_attempt_replaces_one_that_has_not_begun() -> None:
    jobs = decider()
    taken(jobs)
    steps = jobs.handle(Assigned(assignment(attempt=2)))
    assert steps == [StopFetch((JOB, 1)), Store(JobStopped(job=JOB, attempt=1)), Take(assignment(attempt=2))]


def test_an_older_attempt_is_refused() -> None:
    jobs = decider()
    taken(jobs, assignment(attempt=2))
    reply = reply_of(jobs.handle(Assigned(assignment(attempt=1))))
    assert (reply.accepted, reply.detail) == (False, "attempt 2 of this job is held here")


def test_a_proof_under_way_serves_the_newer_attempt_too() -> None:
    """The lease ran out while the hub was away; the hub offers the same job again to the node that still proves it."""
    jobs = decider()
    proving(jobs)
    taken(jobs, assignment(attempt=2))
    assert jobs.handle(Fetched((JOB, 2), FILES)) == []  # not begun a second time
    ends = jobs.handle(WorkerEnded("host", success()))
    assert [step.body.attempt for step in ends if isinstance(step, Store)] == [1, 2]
    assert all(isinstance(step.body, JobSucceeded) for step in ends if isinstance(step, Store))


def test_when_the_proof_under_way_fails_the_newer_attempt_begins() -> None:
    jobs = decider()
    proving(jobs)
    taken(jobs, assignment(attempt=2))
    jobs.handle(Fetched((JOB, 2), FILES))
    steps = jobs.handle(WorkerEnded("host", Ended(job=JOB, attempt=1, code=6, detail="odd")))
    assert kinds(steps) == ["Store", "Give"]


def test_only_so_many_ends_are_remembered() -> None:
    jobs = decider()
    for attempt in range(1, ENDED_REMEMBERED_MAX + 10):
        jobs.handle(Cancelled(JOB, attempt))
        jobs.handle(Stored((JOB, attempt)))
    assert len(jobs._ended) == ENDED_REMEMBERED_MAX
    assert jobs.handle(Cancelled(JOB, ENDED_REMEMBERED_MAX)) == []


# --- workers that die, agents that come back ------------------------------------------------------------------------


def test_a_dead_worker_fails_its_attempt_with_why_and_where() -> None:
    jobs = decider()
    proving(jobs)
    jobs.handle(WorkerProgressed("host", progress(phase="msm_g2")))
    (store,) = jobs.handle(WorkerGone("host", "the worker died (signal 9, Killed)"))
    assert store == Store(
        JobFailed(job=JOB, attempt=1, code=6, detail="the worker died (signal 9, Killed) in phase msm_g2")
    )
    assert jobs.handle(WorkerGone("host", "again")) == []


def test_a_job_whose_worker_ended_before_it_began_goes_to_the_next_worker() -> None:
    """A worker that is restarted just then costs the job no attempt, and its node no blame."""
    jobs = decider()
    proving(jobs)
    for number in range(1, GIVES_MAX):
        assert jobs.handle(WorkerGone("host", "the worker died (exit 0)")) == [Fetch(assignment())]
        jobs.handle(WorkerUp("host", PID + number, None))
        (give,) = jobs.handle(Fetched((JOB, 1), FILES))
        assert isinstance(give, Give)
        assert give.pid == PID + number
    (store,) = jobs.handle(WorkerGone("host", "the worker died (signal 11, Segmentation fault)"))
    detail = "the worker died (signal 11, Segmentation fault) before it began, 3 times"
    assert store == Store(JobFailed(job=JOB, attempt=1, code=6, detail=detail))


def test_a_worker_that_takes_a_job_and_never_begins_is_not_asked_for_ever() -> None:
    jobs = decider()
    proving(jobs)
    for _ in range(1, GIVES_MAX):
        assert jobs.handle(WorkerUp("host", PID, None)) == [Fetch(assignment())]
        jobs.handle(Fetched((JOB, 1), FILES))
    (store,) = jobs.handle(WorkerUp("host", PID, None))
    assert isinstance(store, Store)
    assert isinstance(store.body, JobFailed)
    assert store.body.detail == "the worker never began with it, 3 times"


def test_a_dead_worker_leaves_jobs_that_wait_alone() -> None:
    jobs = decider()
    jobs.handle(WorkerUp("host", PID, None))
    taken(jobs)
    assert jobs.handle(WorkerGone("host", "the worker died (exit 1)")) == []
    jobs.handle(Fetched((JOB, 1), FILES))
    (give,) = jobs.handle(WorkerUp("host", 101, None))
    assert isinstance(give, Give)
    assert give.pid == 101


def test_a_cancelled_proof_whose_worker_dies_has_stopped() -> None:
    jobs = decider()
    proving(jobs)
    jobs.handle(Cancelled(JOB, 1))
    assert jobs.handle(WorkerGone("host", "gone")) == [Store(JobStopped(job=JOB, attempt=1))]


def test_a_restarted_agent_adopts_the_proof_and_says_it_started() -> None:
    jobs = decider()
    assert jobs.handle(Recovered(assignment(), "host", PID)) == []
    assert jobs.held() == [(JOB, 1)]  # for the hello, before the worker was even found
    steps = jobs.handle(WorkerUp("host", PID, progress()))
    assert steps == [SayStarted(JobStarted(job=JOB, attempt=1, device="host", pid=PID))]
    assert kinds(jobs.handle(WorkerEnded("host", success()))) == ["Store"]


def test_a_restarted_agent_takes_the_result_the_worker_kept() -> None:
    jobs = decider()
    jobs.handle(Recovered(assignment(), "host", PID))
    assert kinds(jobs.handle(WorkerEnded("host", success()))) == ["Store"]
    assert jobs.handle(WorkerUp("host", PID, None)) == []


def test_a_restarted_agent_that_finds_another_worker_fails_the_attempt() -> None:
    jobs = decider()
    jobs.handle(Recovered(assignment(), "host", PID))
    (store,) = jobs.handle(WorkerUp("host", 101, None))
    assert isinstance(store, Store)
    assert isinstance(store.body, JobFailed)
    assert "(pid 100) was gone" in store.body.detail


def test_a_restarted_agent_whose_worker_never_got_the_job_gives_it_again() -> None:
    jobs = decider()
    jobs.handle(Recovered(assignment(), "host", PID))
    assert jobs.handle(WorkerUp("host", PID, None)) == [Fetch(assignment())]
    (give,) = jobs.handle(Fetched((JOB, 1), FILES))
    assert isinstance(give, Give)


def test_a_restarted_agent_fetches_on() -> None:
    jobs = decider()
    assert jobs.handle(Recovered(assignment(), None, None)) == [Fetch(assignment())]
    assert decider(ended=((JOB, 1),)).handle(Recovered(assignment(), None, None)) == []


def test_an_agent_set_to_observe_gives_back_what_it_held() -> None:
    (store,) = Jobs((), 10_000).handle(Recovered(assignment(), "host", PID))
    assert store == Store(JobFailed(job=JOB, attempt=1, code=6, detail="this node was set to observe only"))


def test_a_worker_at_a_job_nobody_remembers_is_adopted() -> None:
    jobs = decider()
    assert kinds(jobs.handle(WorkerUp("host", PID, progress()))) == ["SayStarted"]
    assert jobs.held() == [(JOB, 1)]
    assert jobs.busy_device("host")


def test_a_worker_at_a_job_that_has_ended_is_stopped() -> None:
    jobs = decider(ended=((JOB, 1),))
    assert jobs.handle(WorkerUp("host", PID, progress())) == [SendAbort("host", JOB, 1)]


def test_progress_of_strangers_counts_for_nothing() -> None:
    jobs = decider()
    assert jobs.handle(WorkerProgressed("host", progress())) == []
    proving(jobs)
    assert jobs.handle(WorkerProgressed("cuda:0", progress())) == []


# --- leases ---------------------------------------------------------------------------------------------------------


def test_leases_are_renewed_while_the_worker_answers_or_inputs_come() -> None:
    jobs = decider()
    jobs.handle(Assigned(assignment()))
    held = [JobHeld(job=JOB, attempt=1)]
    assert jobs.renewable([]) == held
    jobs.handle(Taken((JOB, 1)))
    assert jobs.renewable([]) == held
    jobs.handle(Fetched((JOB, 1), FILES))
    assert jobs.renewable([]) == []
    assert jobs.renewable(["host"]) == held
    jobs.handle(WorkerUp("host", PID, None))
    assert jobs.renewable(["cuda:0"]) == []
    assert jobs.renewable(["host"]) == held


# --- in any order ---------------------------------------------------------------------------------------------------


class JobsMachine(RuleBasedStateMachine):
    """A decider, its doer, a store and a worker process; agent and worker are killed at any point."""

    def __init__(self) -> None:
        super().__init__()
        self.remembered: dict[Key, tuple[AssignJob, str | None, int | None]] = {}
        self.ends: dict[Key, object] = {}
        self.accepted: set[Key] = set()
        self.cancelled: set[Key] = set()
        self.fetching: set[Key] = set()
        self.pid = 0
        self.alive = False
        self.connected = False
        self.current: Key | None = None
        self.kept: dict[Key, Ended] = {}
        self.given: list[Key] = []
        self.steps: deque[Instruction] = deque()

    @initialize()
    def start_agent(self) -> None:
        self.jobs = Jobs(("host",), 10_000, list(self.ends))
        self.steps.clear()
        self.fetching.clear()
        self.connected = False
        for ended in list(self.kept.values()):
            self.tell(WorkerEnded("host", ended))
        for frame, device, pid in list(self.remembered.values()):
            self.tell(Recovered(frame, device, pid))

    def tell(self, event: Event) -> None:
        self.steps += self.jobs.handle(event)

    @rule(job=st.sampled_from([JOB, JOB_2]), attempt=st.integers(1, 3))
    def offer(self, job: str, attempt: int) -> None:
        self.tell(Assigned(assignment(job, attempt)))

    @rule(job=st.sampled_from([JOB, JOB_2]), attempt=st.integers(1, 3))
    def cancel(self, job: str, attempt: int) -> None:
        self.cancelled.add((job, attempt))
        self.tell(Cancelled(job, attempt))

    @precondition(lambda self: self.steps)
    @rule()
    def carry_out(self) -> None:  # noqa: C901, PLR0912 - one case for each instruction
        step = self.steps.popleft()
        match step:
            case Take():
                frame = step.assignment
                self.remembered[frame.job, frame.attempt] = (frame, None, None)
                self.tell(Taken((frame.job, frame.attempt)))
            case Reply():
                if step.accepted:
                    self.accepted.add((step.job, step.attempt))
            case Fetch():
                self.fetching.add((step.assignment.job, step.assignment.attempt))
            case StopFetch():
                self.fetching.discard(step.key)
            case Give():
                key = (step.prove.job, step.prove.attempt)
                assert key not in self.ends
                self.remembered[key] = (step.assignment, step.device, step.pid)
                if self.connected and step.pid == self.pid and self.current is None and key not in self.kept:
                    self.current = key
            case Store():
                key = (step.body.job, step.body.attempt)
                assert key not in self.ends, "an end was stored twice"
                self.ends[key] = step.body
                self.remembered.pop(key, None)
                self.tell(Stored(key))
            case SendRelease():
                if self.connected:
                    self.kept.pop((step.job, step.attempt), None)
            case SendAbort():
                if self.connected and self.current == (step.job, step.attempt):
                    self.end_current(Ended(job=step.job, attempt=step.attempt, code=0))
            case SayStarted():
                assert (step.body.job, step.body.attempt) not in self.ends

    @precondition(lambda self: self.fetching)
    @rule(data=st.data(), good=st.booleans())
    def fetch_done(self, data: st.DataObject, good: bool) -> None:  # noqa: FBT001 - drawn by hypothesis
        key = data.draw(st.sampled_from(sorted(self.fetching)))
        self.fetching.discard(key)
        self.tell(Fetched(key, FILES) if good else FetchFailed(key, 6, "no"))

    @precondition(lambda self: not self.alive)
    @rule()
    def worker_starts(self) -> None:
        self.pid += 1
        self.alive = True

    @precondition(lambda self: self.alive and not self.connected)
    @rule()
    def worker_greets(self) -> None:
        self.connected = True
        for ended in list(self.kept.values()):
            self.tell(WorkerEnded("host", ended))
        current = None if self.current is None else progress(*self.current)
        self.tell(WorkerUp("host", self.pid, current))

    @precondition(lambda self: self.connected)
    @rule()
    def connection_breaks(self) -> None:
        self.connected = False

    @precondition(lambda self: self.connected and self.current is not None)
    @rule()
    def worker_progresses(self) -> None:
        assert self.current is not None
        self.tell(WorkerProgressed("host", progress(*self.current)))

    @precondition(lambda self: self.alive and self.current is not None)
    @rule(good=st.booleans())
    def worker_finishes(self, good: bool) -> None:  # noqa: FBT001 - drawn by hypothesis
        assert self.current is not None
        job, attempt = self.current
        self.end_current(success(job, attempt) if good else Ended(job=job, attempt=attempt, code=4, detail="bad"))

    def end_current(self, ended: Ended) -> None:
        assert self.current is not None
        self.kept[self.current] = ended
        self.current = None
        if self.connected:
            self.tell(WorkerEnded("host", ended))

    @precondition(lambda self: self.alive)
    @rule()
    def worker_is_killed(self) -> None:
        self.alive = self.connected = False
        self.current = None
        for ended in list(self.kept.values()):
            self.tell(WorkerEnded("host", ended))
        self.tell(WorkerGone("host", "the worker died (signal 9, Killed)"))

    @rule()
    def agent_is_killed(self) -> None:
        worker = (self.alive, self.current)
        self.start_agent()
        self.alive, self.current = worker

    @precondition(lambda self: self.alive and self.current is None)
    @rule()
    def worker_is_killed_while_the_agent_is_dead(self) -> None:
        self.alive = False
        self.start_agent()

    @invariant()
    def what_was_accepted_is_ended_or_held(self) -> None:
        if not hasattr(self, "jobs"):
            return
        held = set(self.jobs.held())
        for key in self.accepted:
            assert key in self.ends or key in held or key in self.remembered

    @invariant()
    def one_job_for_each_worker(self) -> None:
        if hasattr(self, "jobs"):
            proving_now = [held for held in self.jobs._held.values() if held.phase == "proving"]
            assert len(proving_now) <= 1

    def teardown(self) -> None:
        """Let everything finish: every accepted attempt must come to exactly one end."""
        for _ in range(500):
            if self.steps:
                self.carry_out()
            elif self.fetching:
                key = min(self.fetching)
                self.fetching.discard(key)
                self.tell(Fetched(key, FILES))
            elif not self.alive:
                self.worker_starts()
            elif not self.connected:
                self.worker_greets()
            elif self.current is not None:
                self.end_current(success(*self.current))
            elif self.kept:
                for ended in list(self.kept.values()):
                    self.tell(WorkerEnded("host", ended))
            else:
                break
        assert self.accepted <= set(self.ends), "an accepted attempt never ended"
        assert not self.jobs.held()
        assert not self.kept


JobsMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestJobsMachine = JobsMachine.TestCase
