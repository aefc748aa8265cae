"""The steps of a job, one by one; `test_dispatch` has them in every order."""

import pytest
from msgspec import structs

from hub import jobs as steps
from hub.store.base import ForeignReference
from hub.store.records import Attempt, AttemptState, Job, JobPicture
from wire.frames import JobFailed, JobStarted, JobStopped, JobSucceeded, NodeEvent
from wire.jobs import JobState, Output

JOB = "00000000-0000-7000-8000-00000000000a"
A, B = "agent-a", "agent-b"
PROOF = Output("proof", "c" * 64, 2, b"{}")
LIMIT = 3


def fresh() -> JobPicture:
    return JobPicture(job=Job(id=JOB, circuit_id="c", engine="groth16", curve="bn128", inputs=(), created_at_ms=1))


def changed(picture: JobPicture | None) -> JobPicture:
    assert picture is not None
    return picture


def leased(agent_id: str = A, picture: JobPicture | None = None) -> JobPicture:
    return changed(steps.assign(picture or fresh(), agent_id, 10))


def expired(picture: JobPicture) -> JobPicture:
    live = picture.live
    assert live is not None
    return changed(steps.end_lease(picture, live.attempt, AttemptState.EXPIRED, "silence", 20, LIMIT))


def result(picture: JobPicture, agent_id: str = A, number: int = 1) -> JobPicture:
    return changed(steps.succeeded(picture, agent_id, JobSucceeded(JOB, number, [PROOF], {"msm": 2.0}), 30))


def only(picture: JobPicture) -> Attempt:
    (attempt,) = picture.attempts
    return attempt


def test_from_assignment_to_the_verified_proof() -> None:
    picture = leased()
    assert (picture.job.state, only(picture).state) == (JobState.LEASED, AttemptState.ASSIGNED)
    picture = changed(steps.accepted(picture, A, 1))
    assert only(picture).state is AttemptState.ACCEPTED
    picture = changed(steps.started(picture, A, JobStarted(JOB, 1, "host", 7), 15))
    assert (picture.job.state, picture.job.started_at_ms, only(picture).device) == (JobState.RUNNING, 15, "host")
    picture = result(picture)
    assert (picture.job.state, only(picture).outputs) == (JobState.VERIFYING, (PROOF,))
    picture = changed(steps.accept_result(picture, 1, b"proof", b"public", 40))
    assert (picture.job.state, picture.job.proof, picture.job.public) == (JobState.DONE, b"proof", b"public")
    assert (picture.job.timings_ms, picture.job.ended_at_ms, picture.job.revision) == ({"msm": 2.0}, 40, 5)
    assert (only(picture).state, only(picture).outputs) == (AttemptState.DONE, ())


def test_news_said_twice_changes_nothing() -> None:
    accepted = changed(steps.accepted(leased(), A, 1))
    assert steps.accepted(accepted, A, 1) is None
    verifying = result(accepted)
    assert steps.succeeded(verifying, A, JobSucceeded(JOB, 1, [PROOF]), 31) is None
    assert steps.started(verifying, A, JobStarted(JOB, 1, "host", 7), 31) is None
    done = changed(steps.accept_result(verifying, 1, b"p", b"q", 40))
    assert steps.accept_result(done, 1, b"p", b"q", 41) is None
    assert steps.refuse_result(done, 1, "late", 41, LIMIT) is None
    assert steps.cancel(done, "late", 41) is None
    assert steps.assign(done, B, 41) is None


def test_a_job_with_a_lease_is_not_leased_again() -> None:
    assert steps.assign(leased(), B, 11) is None


@pytest.mark.parametrize("state", [AttemptState.EXPIRED, AttemptState.LOST])
def test_the_poison_limit_fails_the_job_with_the_last_reason(state: AttemptState) -> None:
    picture = fresh()
    for number in range(1, LIMIT + 1):
        picture = changed(steps.end_lease(leased(A, picture), number, state, f"reason {number}", 20, LIMIT))
    assert (picture.job.state, picture.job.failures, picture.job.ended_at_ms) == (JobState.FAILED, LIMIT, 20)
    assert picture.job.error_code == 6
    assert picture.job.error_detail == "given up after 3 failed attempts; the last one: reason 3"


def test_a_node_that_declines_is_not_to_blame() -> None:
    picture = fresh()
    for number in range(1, 10):
        picture = changed(steps.end_lease(leased(A, picture), number, AttemptState.DECLINED, "busy", 20, LIMIT))
    assert (picture.job.state, picture.job.failures) == (JobState.QUEUED, 0)


def test_a_failure_carries_the_nodes_code_to_the_end() -> None:
    picture = changed(steps.failed(leased(), A, JobFailed(JOB, 1, 5, "no card"), 20, 1))
    assert (picture.job.state, picture.job.error_code) == (JobState.FAILED, 5)
    assert picture.job.error_detail.endswith("the last one: no card")


def test_the_true_reason_replaces_a_lost_lease_and_counts_once() -> None:
    picture = changed(steps.failed(expired(leased()), A, JobFailed(JOB, 1, 5, "no card"), 25, LIMIT))
    assert (picture.job.failures, only(picture).state, only(picture).detail) == (1, AttemptState.FAILED, "no card")
    assert steps.failed(picture, A, JobFailed(JOB, 1, 5, "no card"), 26, LIMIT) is None


def test_a_late_result_of_a_queued_job_is_verified() -> None:
    picture = result(expired(leased()))
    assert (picture.job.state, only(picture).state) == (JobState.VERIFYING, AttemptState.RESULT)


def test_a_late_result_wins_and_calls_the_running_attempt_off() -> None:
    picture = result(leased(B, expired(leased())))
    assert picture.job.state is JobState.VERIFYING
    assert picture.live is not None
    done = changed(steps.accept_result(picture, 1, b"p", b"q", 40))
    assert [attempt.state for attempt in done.attempts] == [AttemptState.DONE, AttemptState.CANCELLED]
    assert steps.succeeded(done, B, JobSucceeded(JOB, 2, [PROOF]), 41) is None


def test_a_late_result_that_is_no_proof_leaves_the_running_attempt_its_lease() -> None:
    picture = leased(B, expired(leased()))
    picture = changed(steps.started(picture, B, JobStarted(JOB, 2, "host", 7), 22))
    refused = changed(steps.refuse_result(result(picture), 1, "bad", 40, LIMIT))
    assert (refused.job.state, refused.job.failures) == (JobState.RUNNING, 1)
    assert refused.live is not None
    assert refused.live.attempt == 2
    assert result(refused, B, 2).job.state is JobState.VERIFYING


def test_two_results_wait_and_the_second_is_judged_when_the_first_is_refused() -> None:
    picture = result(result(leased(B, expired(leased()))), B, 2)
    first_refused = changed(steps.refuse_result(picture, 1, "bad", 40, LIMIT))
    assert first_refused.job.state is JobState.VERIFYING
    done = changed(steps.accept_result(first_refused, 2, b"p", b"q", 41))
    assert (done.job.state, done.attempts[1].state) == (JobState.DONE, AttemptState.DONE)


def test_the_attempt_beside_a_verification_may_fail_without_moving_the_job() -> None:
    picture = result(leased(B, expired(leased())))
    failed = changed(steps.failed(picture, B, JobFailed(JOB, 2, 5, "no card"), 35, LIMIT))
    assert failed.job.state is JobState.VERIFYING
    queued = changed(steps.refuse_result(failed, 1, "bad", 40, LIMIT))
    assert (queued.job.state, queued.job.failures) == (JobState.QUEUED, 2)
    given_up = changed(steps.refuse_result(failed, 1, "bad", 40, 2))
    assert (given_up.job.state, given_up.job.error_code) == (JobState.FAILED, 4)


def test_one_attempt_brings_one_result() -> None:
    refused = changed(steps.refuse_result(result(leased()), 1, "bad", 40, LIMIT))
    assert (refused.job.state, only(refused).detail, only(refused).outputs) == (JobState.QUEUED, "bad", ())
    assert steps.succeeded(refused, A, JobSucceeded(JOB, 1, [PROOF]), 41) is None


def test_a_cancelled_job_takes_nothing_more() -> None:
    picture = changed(steps.cancel(leased(), "enough", 20))
    assert (picture.job.state, only(picture).state) == (JobState.CANCELLED, AttemptState.CANCELLED)
    assert steps.succeeded(picture, A, JobSucceeded(JOB, 1, [PROOF]), 30) is None
    assert steps.stopped(picture, A, JobStopped(JOB, 1), 30, LIMIT) is None
    assert steps.failed(picture, A, JobFailed(JOB, 1, 6, "aborted"), 30, LIMIT) is None


def test_stopping_unasked_is_a_failure() -> None:
    picture = changed(steps.stopped(leased(), A, JobStopped(JOB, 1), 30, LIMIT))
    assert (picture.job.state, picture.job.failures) == (JobState.QUEUED, 1)
    assert "without being asked" in only(picture).detail


@pytest.mark.parametrize(
    "body",
    [
        JobStarted(JOB, 1, "host", 7),
        JobSucceeded(JOB, 1, [PROOF]),
        JobFailed(JOB, 1, 6, "x"),
        JobStopped(JOB, 1),
        structs.replace(JobFailed(JOB, 1, 6, "x"), attempt=2),
    ],
)
def test_only_the_attempts_own_agent_may_speak_of_it(
    body: JobStarted | JobSucceeded | JobFailed | JobStopped,
) -> None:
    said = steps.step_for(body, B, 20, LIMIT)
    assert said is not None
    job_id, step = said
    assert job_id == JOB
    with pytest.raises(ForeignReference, match="is not this node's"):
        step(leased(A))


def test_other_events_speak_of_no_job() -> None:
    assert steps.step_for(NodeEvent("a", "b"), A, 20, LIMIT) is None
