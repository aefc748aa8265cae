"""What is said to and by the decider of `agent.jobs`: events, which have happened, and instructions, which shall."""

from msgspec import Struct

from wire.frames import AssignJob, JobFailed, JobStarted, JobStopped, JobSucceeded
from wire.worker import Ended, InputFile, Progress, Prove

Key = tuple[str, int]
"""A job and its attempt."""
JobEnd = JobSucceeded | JobFailed | JobStopped


# --- events -----------------------------------------------------------------------------------------------------------


class Assigned(Struct, frozen=True):
    """The hub offers a job."""

    assignment: AssignJob


class Cancelled(Struct, frozen=True):
    """The hub takes a job back."""

    job: str
    attempt: int


class Recovered(Struct, frozen=True):
    """A job that an earlier run of the agent took on; ``pid`` is the worker it was given to, if any."""

    assignment: AssignJob
    device: str | None
    pid: int | None


class Taken(Struct, frozen=True):
    """The job is remembered durably."""

    key: Key


class NotTaken(Struct, frozen=True):
    """The job could not be remembered."""

    key: Key
    detail: str


class FetchProgressed(Struct, frozen=True):
    """Bytes of all inputs that are here, of all there are."""

    key: Key
    done: int
    total: int


class Fetched(Struct, frozen=True):
    """All inputs are here and checked."""

    key: Key
    files: list[InputFile]


class FetchFailed(Struct, frozen=True):
    """The inputs cannot be had."""

    key: Key
    code: int
    detail: str


class WorkerUp(Struct, frozen=True):
    """A worker greeted. What it had finished was reported by `WorkerEnded` before."""

    device: str
    pid: int
    current: Progress | None


class WorkerProgressed(Struct, frozen=True):
    """A worker said how far it is."""

    device: str
    progress: Progress


class WorkerEnded(Struct, frozen=True):
    """A worker said, or left on disk, how a job ended."""

    device: str
    ended: Ended


class WorkerGone(Struct, frozen=True):
    """A worker's process is no more. What it left on disk was reported before."""

    device: str
    detail: str


class Stored(Struct, frozen=True):
    """The end of a job is durable."""

    key: Key


Event = (
    Assigned
    | Cancelled
    | Recovered
    | Taken
    | NotTaken
    | FetchProgressed
    | Fetched
    | FetchFailed
    | WorkerUp
    | WorkerProgressed
    | WorkerEnded
    | WorkerGone
    | Stored
)


# --- instructions -----------------------------------------------------------------------------------------------------


class Take(Struct, frozen=True):
    """Remember the job durably; answer with `Taken` or `NotTaken`."""

    assignment: AssignJob


class Reply(Struct, frozen=True):
    """Tell the hub whether the job is taken."""

    job: str
    attempt: int
    accepted: bool
    detail: str = ""


class Fetch(Struct, frozen=True):
    """Get the inputs; answer with `Fetched` or `FetchFailed`."""

    assignment: AssignJob


class StopFetch(Struct, frozen=True):
    """Nobody needs the inputs any more."""

    key: Key


class Give(Struct, frozen=True):
    """Remember which worker has the job, then send it there."""

    assignment: AssignJob
    device: str
    pid: int
    prove: Prove


class SendAbort(Struct, frozen=True):
    """Tell the worker to stop."""

    device: str
    job: str
    attempt: int


class SayStarted(Struct, frozen=True):
    """Store that a worker is at it."""

    body: JobStarted


class Store(Struct, frozen=True):
    """Store how the attempt ended, however often it takes; answer with `Stored`."""

    body: JobEnd


class SendRelease(Struct, frozen=True):
    """Tell the worker to forget the result."""

    device: str
    job: str
    attempt: int


Instruction = Take | Reply | Fetch | StopFetch | Give | SendAbort | SayStarted | Store | SendRelease
