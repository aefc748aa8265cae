"""Jobs as both sides see them: states, their transition table, inputs and outputs.

The table is the state machine: a pair that is not in it is an error and changes nothing.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from wire.errors import LocalProtocolError
from wire.limits import FLOAT_MAX, NAME_CHARS_MAX, OUTPUT_INLINE_BYTES_MAX, TIMINGS_MAX

# The lengths stand beside the patterns because "$" also matches before a final newline.
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", max_length=64)]
"""Lower-case hex of a SHA-256."""
Uuid = Annotated[str, Meta(pattern="^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", max_length=36)]
"""A UUID in its canonical text form."""
Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Attempt = Annotated[int, Meta(ge=1, le=1_000_000)]
FiniteFloat = Annotated[float, Meta(ge=-FLOAT_MAX, le=FLOAT_MAX)]
"""Neither NaN nor infinite: both are legal MessagePack and neither is legal JSON."""
TimingsMs = Annotated[dict[Name, FiniteFloat], Meta(max_length=TIMINGS_MAX)]
"""Milliseconds by phase; informative only."""


class JobState(StrEnum):
    """Where a job is, at the hub."""

    QUEUED = "queued"
    LEASED = "leased"
    RUNNING = "running"
    VERIFYING = "verifying"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobEvent(StrEnum):
    """What moves a job from state to state."""

    ASSIGN = "assign"
    """Leased to an agent."""
    START = "start"
    """The agent's worker began."""
    RESULT = "result"
    """Outputs arrived; the hub verifies them."""
    ACCEPT = "accept"
    """Verified: the job is done."""
    REQUEUE = "requeue"
    """This attempt came to nothing (failure, refusal, expired lease, bad proof); another follows."""
    GIVE_UP = "give_up"
    """No further attempt: poison limit, deadline."""
    CANCEL = "cancel"


TRANSITIONS: dict[JobState, dict[JobEvent, JobState]] = {
    JobState.QUEUED: {
        JobEvent.ASSIGN: JobState.LEASED,
        JobEvent.RESULT: JobState.VERIFYING,  # late, but valid: an attempt whose lease had expired
        JobEvent.GIVE_UP: JobState.FAILED,
        JobEvent.CANCEL: JobState.CANCELLED,
    },
    JobState.LEASED: {
        JobEvent.START: JobState.RUNNING,
        JobEvent.RESULT: JobState.VERIFYING,
        JobEvent.REQUEUE: JobState.QUEUED,
        JobEvent.GIVE_UP: JobState.FAILED,
        JobEvent.CANCEL: JobState.CANCELLED,
    },
    JobState.RUNNING: {
        JobEvent.START: JobState.RUNNING,  # said again by an agent that restarted and adopted its worker
        JobEvent.RESULT: JobState.VERIFYING,
        JobEvent.REQUEUE: JobState.QUEUED,
        JobEvent.GIVE_UP: JobState.FAILED,
        JobEvent.CANCEL: JobState.CANCELLED,
    },
    JobState.VERIFYING: {
        JobEvent.ACCEPT: JobState.DONE,
        JobEvent.REQUEUE: JobState.QUEUED,
        JobEvent.GIVE_UP: JobState.FAILED,
        JobEvent.CANCEL: JobState.CANCELLED,
    },
    JobState.DONE: {},
    JobState.FAILED: {},
    JobState.CANCELLED: {},
}

ENDED = frozenset(state for state, moves in TRANSITIONS.items() if not moves)


class InvalidTransition(LocalProtocolError):
    """A job cannot take this event in this state; nothing was changed."""

    def __init__(self, state: JobState, event: JobEvent) -> None:
        self.state = state
        self.event = event
        super().__init__(f"a {state} job cannot take '{event}'")


def advance(state: JobState, event: JobEvent) -> JobState:
    """The state after ``event``.

    Raises:
        InvalidTransition: the table has no such move.
    """
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise InvalidTransition(state, event) from None


class Input(Struct, frozen=True, omit_defaults=True, rename={"sha256": "sha", "bytes_": "n"}):
    """One input of a job, never inline: named by its digest, fetched over HTTP."""

    role: Name
    """For groth16: ``zkey`` or ``wtns``."""
    sha256: Sha256
    bytes_: Count


class Output(Struct, frozen=True, omit_defaults=True, rename={"sha256": "sha", "bytes_": "n"}):
    """One output of a job.

    ``data`` holds it whole when it is small (a proof), else it is empty and the output is uploaded by its digest.
    """

    role: Name
    """For groth16: ``proof`` (proof.json) or ``public`` (public.json)."""
    sha256: Sha256
    bytes_: Count
    data: Annotated[bytes, Meta(max_length=OUTPUT_INLINE_BYTES_MAX)] = b""


class Groth16Spec(
    Struct, frozen=True, omit_defaults=True, tag_field="k", tag="groth16", rename={"circuit": "c", "curve": "cv"}
):
    """What the ``groth16`` engine needs beside its inputs. Owned by that engine, opaque to the dispatcher."""

    circuit: Sha256
    curve: Name


Spec = Groth16Spec
"""One spec for each engine; a union once there are two."""
