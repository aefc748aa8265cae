"""The dispatcher's decisions, and the laws that hold in every order of things."""

import itertools

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from hub import jobs as steps
from hub.dispatch import Assign, Candidate, Dispatch, Expire, Limits, greet
from hub.store.records import Attempt, AttemptState, Job, JobPicture
from wire.frames import JobFailed, JobHeld, JobStarted, JobSucceeded
from wire.jobs import ENDED, JobState, Output

LIMITS = Limits(lease_s=60.0, lease_grace_s=15.0, attempt_s=600.0, decline_backoff_s=5.0)
ATTEMPTS_MAX = 3
A, B, C = "agent-a", "agent-b", "agent-c"
PROOF = Output("proof", "c" * 64, 2, b"{}")


def a_job(name: str, priority: int = 0) -> JobPicture:
    return JobPicture(
        job=Job(id=name, circuit_id="c", engine="groth16", curve="bn128", inputs=(), created_at_ms=1, priority=priority)
    )


def candidates(*agents: str, slots: int = 1) -> list[Candidate]:
    return [Candidate(agent_id=agent, slots=slots) for agent in agents]


class Book:
    """A store of one table, and the dispatcher in step with it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.pictures: dict[str, JobPicture] = {}
        self.dispatch = Dispatch(LIMITS)

    def add(self, picture: JobPicture) -> None:
        self.pictures[picture.job.id] = picture
        self.dispatch.absorb(picture, self.now_s)

    def apply(self, job_id: str, picture: JobPicture | None) -> None:
        if picture is not None:
            assert picture.job.id == job_id
            assert picture.job.revision == self.pictures[job_id].job.revision + 1
            self.add(picture)

    def assign(self, job_id: str, agent_id: str) -> None:
        self.apply(job_id, steps.assign(self.pictures[job_id], agent_id, 0))

    def end(self, job_id: str, number: int, state: AttemptState) -> None:
        self.apply(job_id, steps.end_lease(self.pictures[job_id], number, state, "gone", 0, ATTEMPTS_MAX))

    def live(self, job_id: str) -> Attempt:
        live = self.pictures[job_id].live
        assert live is not None
        return live


def book_of(*pictures: JobPicture) -> Book:
    book = Book()
    for picture in pictures:
        book.add(picture)
    return book


# --- who gets what


def test_the_urgent_and_the_old_go_first_and_a_node_takes_what_it_has_places_for() -> None:
    book = book_of(a_job("j1"), a_job("j2"), a_job("j3", priority=5))
    assert book.dispatch.decide(candidates(A), 0.0) == [Assign("j3", A)]
    assert book.dispatch.decide(candidates(A, B), 0.0) == [Assign("j3", A), Assign("j1", B)]
    assert book.dispatch.decide(candidates(A, slots=2), 0.0) == [Assign("j3", A), Assign("j1", A)]
    book.assign("j3", A)
    assert book.dispatch.decide(candidates(A, B), 0.0) == [Assign("j1", B)]


def test_a_card_is_preferred_to_a_processor() -> None:
    book = book_of(a_job("j1"))
    fleet = [Candidate(agent_id=A), Candidate(agent_id=B, cuda=True)]
    assert book.dispatch.decide(fleet, 0.0) == [Assign("j1", B)]


def test_a_job_that_asks_for_labels_waits_for_a_node_that_has_them_all() -> None:
    picture = a_job("j1")
    asking = replace(picture, job=replace(picture.job, node_labels={"owner": "us", "rack": "7"}))
    book = book_of(asking)
    strangers = [Candidate(agent_id=A, cuda=True), Candidate(agent_id=B, labels={"owner": "us", "rack": "8"})]
    assert book.dispatch.decide(strangers, 0.0) == []
    ours = Candidate(agent_id=C, labels={"owner": "us", "rack": "7", "more": "x"})
    assert book.dispatch.decide([*strangers, ours], 0.0) == [Assign("j1", C)]
    book.assign("j1", C)
    book.end("j1", 1, AttemptState.LOST)
    assert book.dispatch.decide([*strangers, ours], 0.0) == [Assign("j1", C)], "a stranger is no way out"


def test_nobody_there_means_the_job_waits() -> None:
    assert book_of(a_job("j1")).dispatch.decide([], 0.0) == []


def test_a_node_that_failed_a_job_is_avoided_while_another_is_there_even_a_busy_one() -> None:
    book = book_of(a_job("j1"), a_job("j2"))
    book.assign("j1", A)
    book.end("j1", 1, AttemptState.LOST)
    assert book.dispatch.decide(candidates(A), 0.0)[0] == Assign("j1", A)
    assert book.dispatch.decide(candidates(A, B), 0.0) == [Assign("j1", B), Assign("j2", A)]
    book.assign("j2", B)
    assert book.dispatch.decide(candidates(A, B), 0.0) == []


def test_a_node_that_declined_is_asked_again_later_and_later() -> None:
    book = book_of(a_job("j1"))
    waits = []
    for number in range(1, 9):
        book.assign("j1", A)
        book.dispatch.declined(A, "j1", book.now_s)
        book.end("j1", number, AttemptState.DECLINED)
        began_s = book.now_s
        while book.dispatch.decide(candidates(A), book.now_s) == []:
            deadline = book.dispatch.next_deadline(book.now_s)
            assert deadline is not None
            book.now_s = deadline
        assert book.dispatch.decide(candidates(A), book.now_s) == [Assign("j1", A)]
        waits.append(book.now_s - began_s)
    assert waits == [5, 10, 20, 40, 80, 160, 320, 320]


def test_a_node_that_declines_is_not_offered_the_whole_queue_one_by_one() -> None:
    book = book_of(a_job("j1"), a_job("j2"), a_job("j3"))
    book.assign("j1", A)
    book.dispatch.declined(A, "j1", 0.0)
    book.end("j1", 1, AttemptState.DECLINED)
    assert book.dispatch.decide(candidates(A), 4.9) == []
    assert book.dispatch.decide(candidates(A, B), 4.9) == [Assign("j1", B)]
    assert book.dispatch.decide(candidates(A), 5.0) == [Assign("j1", A)]


def test_a_wait_that_is_over_is_no_deadline() -> None:
    """Else the desk would find one that has passed, again and again, for as long as no node is free."""
    book = book_of(a_job("j1"))
    book.assign("j1", A)
    book.dispatch.declined(A, "j1", 0.0)
    book.end("j1", 1, AttemptState.DECLINED)
    assert book.dispatch.next_deadline(0.0) == 5.0
    assert book.dispatch.decide([], 5.0) == []
    assert book.dispatch.next_deadline(5.0) is None


def test_a_node_that_keeps_declining_does_not_shield_one_that_failed() -> None:
    book = book_of(a_job("j1"))
    book.assign("j1", A)
    book.end("j1", 1, AttemptState.LOST)
    for _ in range(3):
        book.dispatch.declined(B, "j1", 0.0)
    assert book.dispatch.decide(candidates(A, B), 0.0) == [Assign("j1", A)]


# --- leases


def test_an_attempt_that_is_renewed_for_ever_is_given_up_all_the_same() -> None:
    """A node that lies, or whose worker hangs and still answers, keeps a job from nobody for ever."""
    book = book_of(a_job("j1"))
    book.assign("j1", A)
    for now_s in range(0, 600, 20):
        assert book.dispatch.renew(A, "j1", 1, float(now_s))
        assert book.dispatch.decide([], float(now_s)) == []
    assert book.dispatch.next_deadline(book.now_s) == 600.0
    book.dispatch.forgive(50.0)  # while the hub was away, nothing aged
    book.dispatch.renew(A, "j1", 1, 645.0)
    assert book.dispatch.decide([], 649.9) == []
    assert book.dispatch.decide([], 650.0) == [Expire("j1", 1, A, "it did not end within 600 s")]
    book.now_s = 650.0
    book.end("j1", 1, AttemptState.EXPIRED)
    book.assign("j1", B)
    assert book.dispatch.next_deadline(book.now_s) == 725.0


def test_a_lease_ends_after_its_time_and_grace_unless_renewed() -> None:
    book = book_of(a_job("j1"))
    book.assign("j1", A)
    assert book.dispatch.next_deadline(book.now_s) == 75.0
    assert book.dispatch.decide([], 74.9) == []
    assert book.dispatch.renew(A, "j1", 1, 70.0)
    assert book.dispatch.decide([], 144.9) == []
    (expire,) = book.dispatch.decide([], 145.0)
    assert isinstance(expire, Expire)
    assert (expire.job_id, expire.attempt, expire.agent_id) == ("j1", 1, A)


def test_only_the_holder_renews() -> None:
    book = book_of(a_job("j1"))
    book.assign("j1", A)
    assert not book.dispatch.renew(B, "j1", 1, 0.0)
    assert not book.dispatch.renew(A, "j1", 2, 0.0)
    assert not book.dispatch.renew(A, "j2", 1, 0.0)


def test_the_hubs_own_absence_ages_no_lease() -> None:
    book = book_of(a_job("j1"))
    book.assign("j1", A)
    book.dispatch.forgive(3600.0)
    assert book.dispatch.decide([], 3600.0 + 74.9) == []


def test_a_restarted_hub_grants_every_live_attempt_a_fresh_lease() -> None:
    before = book_of(a_job("j1"))
    before.assign("j1", A)
    after = Dispatch(LIMITS)
    after.absorb(before.pictures["j1"], 1_000_000.0)
    assert after.decide(candidates(A), 1_000_074.9) == []


def test_an_older_picture_changes_nothing_and_brings_no_ended_job_back() -> None:
    book = book_of(a_job("j1"))
    queued = book.pictures["j1"]
    book.assign("j1", A)
    leased = book.pictures["j1"]
    assert not book.dispatch.absorb(queued, 0.0)
    book.apply("j1", steps.cancel(leased, "enough", 0))
    assert len(book.dispatch) == 0
    assert not book.dispatch.absorb(leased, 0.0)
    assert book.dispatch.next_deadline(book.now_s) is None


# --- greetings


def test_a_greeting_sorts_what_the_agent_lists_and_what_it_does_not() -> None:
    book = book_of(*(a_job(name) for name in ("kept", "new", "missing", "given away", "ended", "late")))
    for name in ("kept", "new", "missing", "given away", "ended", "late"):
        book.assign(name, A)
    for name in ("kept", "missing"):
        book.apply(name, steps.accepted(book.pictures[name], A, 1))
    book.end("given away", 1, AttemptState.DECLINED)
    book.apply("ended", steps.cancel(book.pictures["ended"], "enough", 0))
    book.end("late", 1, AttemptState.EXPIRED)
    book.assign("late", B)
    listed = [JobHeld(name, 1) for name in ("kept", "given away", "ended", "late", "unheard of")]
    greeting = greet(book.dispatch, A, listed)
    assert [attempt.job_id for attempt in greeting.adopt] == ["kept"]
    assert [attempt.job_id for attempt in greeting.assign] == ["new"]
    assert [attempt.job_id for attempt in greeting.missing] == ["missing"]
    assert {held.job for held in greeting.cancel} == {"given away", "ended", "unheard of"}


def test_an_assignment_that_was_never_answered_but_is_listed_is_adopted() -> None:
    book = book_of(a_job("j1"))
    book.assign("j1", A)
    assert [attempt.job_id for attempt in greet(book.dispatch, A, [JobHeld("j1", 1)]).adopt] == ["j1"]


# --- laws, in every order of things


class Fleet(RuleBasedStateMachine):
    """Jobs come, nodes do whatever they like, the hub restarts. What is checked is the store's rows."""

    agents = (A, B, C)

    @initialize()
    def begin(self) -> None:
        self.book = Book()
        self.names = (f"j{number}" for number in itertools.count())
        self.accepted: dict[str, int] = {}
        self.submitted: set[str] = set()

    @rule(priority=st.integers(0, 2))
    def submit(self, priority: int) -> None:
        name = next(self.names)
        self.submitted.add(name)
        self.book.add(a_job(name, priority))

    @rule(agents=st.sets(st.sampled_from(agents)), seconds=st.floats(0, 100), slots=st.integers(1, 2))
    def decide(self, agents: set[str], seconds: float, slots: int) -> None:
        self.book.now_s += seconds
        instructions = self.book.dispatch.decide(candidates(*sorted(agents), slots=slots), self.book.now_s)
        assert len({item.job_id for item in instructions}) == len(instructions)
        for item in instructions:
            before = self.book.pictures[item.job_id]
            match item:
                case Assign(job_id=job_id, agent_id=agent_id):
                    assert agent_id in agents
                    self.book.assign(job_id, agent_id)
                case Expire(job_id=job_id, attempt=number):
                    self.book.end(job_id, number, AttemptState.EXPIRED)
            assert self.book.pictures[item.job_id] != before, "a decision that changes nothing would be made for ever"

    def attempts(self) -> list[Attempt]:
        return [attempt for picture in self.book.pictures.values() for attempt in picture.attempts]

    @precondition(lambda self: self.attempts())
    @rule(
        data=st.data(),
        said=st.sampled_from(["accepts", "starts", "succeeds", "fails", "declines", "is lost", "renews"]),
    )
    def news(self, data: st.DataObject, said: str) -> None:
        attempt = data.draw(st.sampled_from(self.attempts()))
        picture = self.book.pictures[attempt.job_id]
        agent, job, number = attempt.agent_id, attempt.job_id, attempt.attempt
        match said:
            case "accepts":
                self.book.apply(job, steps.accepted(picture, agent, number))
            case "starts":
                self.book.apply(job, steps.started(picture, agent, JobStarted(job, number, "host", 1), 0))
            case "succeeds":
                self.book.apply(job, steps.succeeded(picture, agent, JobSucceeded(job, number, [PROOF]), 0))
            case "fails":
                self.book.apply(job, steps.failed(picture, agent, JobFailed(job, number, 6, "x"), 0, ATTEMPTS_MAX))
            case "declines":
                self.book.dispatch.declined(agent, job, self.book.now_s)
                self.book.end(job, number, AttemptState.DECLINED)
            case "is lost":
                self.book.end(job, number, AttemptState.LOST)
            case "renews":
                assert self.book.dispatch.renew(agent, job, number, self.book.now_s) == attempt.live

    @precondition(lambda self: self.book.dispatch.results())
    @rule(good=st.booleans())
    def judge(self, *, good: bool) -> None:
        picture, attempt = self.book.dispatch.results()[0]
        job, number = attempt.job_id, attempt.attempt
        if good:
            self.book.apply(job, steps.accept_result(picture, number, b"p", b"q", 0))
            self.accepted[job] = self.accepted.get(job, 0) + 1
        else:
            self.book.apply(job, steps.refuse_result(picture, number, "bad", 0, ATTEMPTS_MAX))

    @precondition(lambda self: self.submitted)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(sorted(self.submitted)))
        self.book.apply(job, steps.cancel(self.book.pictures[job], "enough", 0))

    @rule()
    def restart(self) -> None:
        """All the dispatcher knew is gone; it reads the store again."""
        self.book.dispatch = Dispatch(LIMITS)
        for picture in self.book.pictures.values():
            if picture.job.state not in ENDED:
                self.book.dispatch.absorb(picture, self.book.now_s)

    @invariant()
    def at_most_one_lease_a_job(self) -> None:
        for picture in self.book.pictures.values():
            assert sum(attempt.live for attempt in picture.attempts) <= 1

    @invariant()
    def done_exactly_once(self) -> None:
        for job, picture in self.book.pictures.items():
            done = [attempt for attempt in picture.attempts if attempt.state is AttemptState.DONE]
            assert len(done) == (picture.job.state is JobState.DONE) == self.accepted.get(job, 0)
            assert (picture.job.proof is not None) == (picture.job.state is JobState.DONE)

    @invariant()
    def no_job_is_lost(self) -> None:
        """Each is ended, waits for a node, has a live attempt, or has a result to be judged."""
        known = self.book.dispatch
        for job, picture in self.book.pictures.items():
            results = any(attempt.state is AttemptState.RESULT for attempt in picture.attempts)
            match picture.job.state:
                case JobState.QUEUED:
                    assert picture.live is None
                    assert not results
                case JobState.LEASED | JobState.RUNNING:
                    assert picture.live is not None
                    assert known.live(job) == picture.live
                case JobState.VERIFYING:
                    assert results
                case _:
                    assert picture.job.state in ENDED
                    assert known.picture(job) is None
                    assert picture.live is None
                    assert not results
                    continue
            assert known.picture(job) == picture

    @invariant()
    def failures_stay_within_the_poison_limit(self) -> None:
        for picture in self.book.pictures.values():
            blamed = sum(attempt.state in steps.BLAMED for attempt in picture.attempts)
            assert picture.job.failures == blamed
            if picture.job.state is JobState.QUEUED:
                assert picture.job.failures < ATTEMPTS_MAX

    @invariant()
    def every_lease_has_an_end(self) -> None:
        live = [attempt for attempt in self.attempts() if attempt.live]
        deadline = self.book.dispatch.next_deadline(self.book.now_s)
        assert not live or (
            deadline is not None and deadline <= self.book.now_s + LIMITS.lease_s + LIMITS.lease_grace_s
        )


Fleet.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestFleet = Fleet.TestCase
