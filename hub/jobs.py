"""Pure: what happens to a job and its attempts, one step at a time.

Every function takes the stored picture and returns the next one, or None when there is nothing to change (a repeat, or
news that came too late to matter). They run inside the store's transaction, so that an event and what it does to its
job are committed together. The job's state moves only along `wire.jobs.TRANSITIONS`.

An attempt may bring one result, as long as the job is open, even after its lease was taken away. While results wait
for verification the job is ``verifying``; the lease of a later attempt lives on beside it until one result is good.
"""

from collections.abc import Sequence

from msgspec import structs

from hub.store.base import ForeignReference, Step
from hub.store.records import Attempt, AttemptState, Job, JobPicture
from wire.frames import EventBody, JobFailed, JobStarted, JobStopped, JobSucceeded
from wire.jobs import ENDED, JobEvent, JobState, Output, advance

CODE_REFUSED = 4
"""The proof does not verify."""
CODE_INTERNAL = 6

_MAY_STILL_BRING_A_RESULT = frozenset({AttemptState.EXPIRED, AttemptState.LOST})
BLAMED = frozenset({AttemptState.FAILED, AttemptState.REFUSED, AttemptState.EXPIRED, AttemptState.LOST})
"""Outcomes that count towards the poison limit and make another node preferable."""


def own_attempt(picture: JobPicture | None, agent_id: str, number: int, job_id: str) -> Attempt:
    """The agent's attempt of that number.

    Raises:
        ForeignReference: there is none, or it is another agent's.
    """
    attempt = None if picture is None else picture.attempt(number)
    if attempt is None or attempt.agent_id != agent_id:
        raise ForeignReference(f"attempt {number} of job {job_id} is not this node's")
    return attempt


# --- the hub's own decisions


def assign(picture: JobPicture, agent_id: str, now_ms: int) -> JobPicture | None:
    """Lease a queued job to an agent, as a new attempt."""
    job = picture.job
    if job.state is not JobState.QUEUED or picture.live is not None:
        return None
    attempt = Attempt(job_id=job.id, attempt=job.attempt + 1, agent_id=agent_id, assigned_at_ms=now_ms)
    return _changed(
        picture,
        structs.replace(job, state=advance(job.state, JobEvent.ASSIGN), attempt=attempt.attempt),
        attempt,
    )


def end_lease(
    picture: JobPicture, number: int, state: AttemptState, detail: str, now_ms: int, attempts_max: int
) -> JobPicture | None:
    """Take a live attempt's lease away: ``EXPIRED``, ``LOST``, or ``DECLINED``, which blames nobody."""
    attempt = picture.attempt(number)
    if attempt is None or not attempt.live:
        return None
    code = None if state is AttemptState.DECLINED else CODE_INTERNAL
    ended = structs.replace(attempt, state=state, ended_at_ms=now_ms, code=code, detail=detail)
    return _without_lease(picture, ended, now_ms, attempts_max)


def cancel(picture: JobPicture, detail: str, now_ms: int) -> JobPicture | None:
    """Call an open job off."""
    job = picture.job
    if job.state in ENDED:
        return None
    state = advance(job.state, JobEvent.CANCEL)
    return _changed(
        picture,
        structs.replace(job, state=state, error_detail=detail, ended_at_ms=now_ms),
        *_called_off(picture, detail, now_ms),
    )


def accept_result(picture: JobPicture, number: int, proof: bytes, public: bytes, now_ms: int) -> JobPicture | None:
    """A stored result is verified: the job is done and every other attempt is called off."""
    job, attempt = picture.job, picture.attempt(number)
    if job.state is not JobState.VERIFYING or attempt is None or attempt.state is not AttemptState.RESULT:
        return None
    won = structs.replace(attempt, state=AttemptState.DONE, outputs=())
    done = structs.replace(
        job,
        state=advance(job.state, JobEvent.ACCEPT),
        ended_at_ms=now_ms,
        proof=proof,
        public=public,
        timings_ms=attempt.timings_ms,
        error_code=None,
        error_detail="",
    )
    others = _called_off(picture, f"attempt {number} was accepted", now_ms, but=number)
    return _changed(picture, done, won, *others)


def refuse_result(picture: JobPicture, number: int, detail: str, now_ms: int, attempts_max: int) -> JobPicture | None:
    """A stored result is no proof of this job: another attempt follows, or the one that runs goes on."""
    job, attempt = picture.job, picture.attempt(number)
    if job.state is not JobState.VERIFYING or attempt is None or attempt.state is not AttemptState.RESULT:
        return None
    refused = structs.replace(
        attempt, state=AttemptState.REFUSED, code=CODE_REFUSED, detail=detail, outputs=(), ended_at_ms=now_ms
    )
    return _without_lease(picture, refused, now_ms, attempts_max)


# --- what agents say


def accepted(picture: JobPicture, agent_id: str, number: int) -> JobPicture | None:
    """The agent takes the job."""
    attempt = own_attempt(picture, agent_id, number, picture.job.id)
    if attempt.state is not AttemptState.ASSIGNED:
        return None
    return _changed(picture, picture.job, structs.replace(attempt, state=AttemptState.ACCEPTED))


def started(picture: JobPicture, agent_id: str, body: JobStarted, now_ms: int) -> JobPicture | None:
    """A worker began."""
    job = picture.job
    attempt = own_attempt(picture, agent_id, body.attempt, job.id)
    if not attempt.live:
        return None
    running = structs.replace(
        attempt, state=AttemptState.RUNNING, device=body.device, started_at_ms=attempt.started_at_ms or now_ms
    )
    if job.state in {JobState.LEASED, JobState.RUNNING}:
        job = structs.replace(job, state=advance(job.state, JobEvent.START), started_at_ms=job.started_at_ms or now_ms)
    return _changed(picture, job, running)


def succeeded(picture: JobPicture, agent_id: str, body: JobSucceeded, now_ms: int) -> JobPicture | None:
    """A result arrived: keep it and verify it."""
    job = picture.job
    attempt = own_attempt(picture, agent_id, body.attempt, job.id)
    if job.state in ENDED or not (attempt.live or attempt.state in _MAY_STILL_BRING_A_RESULT):
        return None
    kept = structs.replace(
        attempt,
        state=AttemptState.RESULT,
        ended_at_ms=now_ms,
        code=None,
        detail="",
        outputs=tuple(body.outputs),
        timings_ms=body.timings_ms,
    )
    if attempt.state in BLAMED:
        job = structs.replace(job, failures=job.failures - 1)  # it was only late; the verdict will count, if it is bad
    if job.state is not JobState.VERIFYING:
        job = structs.replace(job, state=advance(job.state, JobEvent.RESULT))
    return _changed(picture, job, kept)


def failed(picture: JobPicture, agent_id: str, body: JobFailed, now_ms: int, attempts_max: int) -> JobPicture | None:
    """The attempt came to nothing on its node."""
    attempt = own_attempt(picture, agent_id, body.attempt, picture.job.id)
    ended = structs.replace(attempt, state=AttemptState.FAILED, code=body.code, detail=body.detail, ended_at_ms=now_ms)
    if attempt.live:
        return _without_lease(picture, ended, now_ms, attempts_max)
    if attempt.state in _MAY_STILL_BRING_A_RESULT:
        return _changed(picture, picture.job, ended)  # the true reason, late; it was counted already
    return None


def stopped(picture: JobPicture, agent_id: str, body: JobStopped, now_ms: int, attempts_max: int) -> JobPicture | None:
    """The worker really stopped. Only news if nobody had asked it to."""
    attempt = own_attempt(picture, agent_id, body.attempt, picture.job.id)
    if not attempt.live:
        return None
    unasked = JobFailed(picture.job.id, body.attempt, CODE_INTERNAL, "the node stopped the job without being asked")
    return failed(picture, agent_id, unasked, now_ms, attempts_max)


def step_for(body: EventBody, agent_id: str, now_ms: int, attempts_max: int) -> tuple[str, Step] | None:
    """The job an event speaks of and what it does to it; None for events of other kinds."""
    match body:
        case JobStarted():
            return body.job, lambda picture: started(picture, agent_id, body, now_ms)
        case JobSucceeded():
            return body.job, lambda picture: succeeded(picture, agent_id, body, now_ms)
        case JobFailed():
            return body.job, lambda picture: failed(picture, agent_id, body, now_ms, attempts_max)
        case JobStopped():
            return body.job, lambda picture: stopped(picture, agent_id, body, now_ms, attempts_max)
        case _:
            return None


# --- shared


def _without_lease(picture: JobPicture, ended: Attempt, now_ms: int, attempts_max: int) -> JobPicture:
    """The picture after ``ended`` came to nothing: the job waits for what else is under way, queues, or fails."""
    job = picture.job
    failures = job.failures + (ended.state in BLAMED)
    job = structs.replace(job, failures=failures)
    after = _changed(picture, job, ended)
    if any(item.state is AttemptState.RESULT for item in after.attempts):
        return after  # another result is still being verified
    live = after.live
    if live is not None:
        state = advance(advance(job.state, JobEvent.REQUEUE), JobEvent.ASSIGN)
        if live.state is AttemptState.RUNNING:
            state = advance(state, JobEvent.START)
        return structs.replace(after, job=structs.replace(after.job, state=state))
    if failures < attempts_max:
        return structs.replace(after, job=structs.replace(after.job, state=advance(job.state, JobEvent.REQUEUE)))
    given_up = structs.replace(
        after.job,
        state=advance(job.state, JobEvent.GIVE_UP),
        ended_at_ms=now_ms,
        error_code=ended.code or CODE_INTERNAL,
        error_detail=f"given up after {failures} failed attempts; the last one: {ended.detail}",
    )
    return structs.replace(after, job=given_up)


def _called_off(picture: JobPicture, detail: str, now_ms: int, but: int = 0) -> list[Attempt]:
    """The attempts that are still under way, called off."""
    return [
        structs.replace(item, state=AttemptState.CANCELLED, ended_at_ms=now_ms, detail=detail, outputs=())
        for item in picture.attempts
        if item.attempt != but and (item.live or item.state is AttemptState.RESULT)
    ]


def _changed(picture: JobPicture, job: Job, *attempts: Attempt) -> JobPicture:
    """The picture with these attempts put in or replaced, one revision later."""
    merged: dict[int, Attempt] = {item.attempt: item for item in picture.attempts}
    merged.update((item.attempt, item) for item in attempts)
    return JobPicture(
        job=structs.replace(job, revision=picture.job.revision + 1),
        attempts=tuple(merged[number] for number in sorted(merged)),
    )


def output(outputs: Sequence[Output], role: str) -> Output | None:
    """The output of that role."""
    return next((item for item in outputs if item.role == role), None)
