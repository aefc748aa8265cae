"""Every frame, as a tagged union per direction.

Python names are long; keys on the wire have 1-4 characters and never change. New fields are appended with defaults,
receivers ignore fields they do not know. A field that has its default is not sent, so that frames of an older version
keep their bytes; hence no default may ever change. The tag is ``t``; an event's body has its own tag, ``k``.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from wire.deltas import NodeChanges
from wire.events import (
    STREAMS_OF,
    Event,
    EventBody,
    Gap,
    JobFailed,
    JobStarted,
    JobStopped,
    JobSucceeded,
    Level,
    LogRecord,
    MonotonicNs,
    NodeEvent,
    Readings,
    Seq,
    Stream,
    UnixMs,
    UnknownBody,
)
from wire.jobs import Attempt, Count, Input, Name, Spec, Uuid
from wire.limits import (
    EVENTS_PER_FRAME_MAX,
    FRAME_BYTES_MAX,
    HELD_RANGES_MAX,
    JOBS_HELD_MAX,
    READINGS_S,
    SAMPLE_S,
    STREAMS_ACKNOWLEDGED_MAX,
)
from wire.status import NodeStatus
from wire.text import Text

__all__ = [
    "STREAMS_OF",
    "Ack",
    "AgentFrame",
    "AssignJob",
    "Bye",
    "Bytes32",
    "CancelJob",
    "Capability",
    "Challenge",
    "Event",
    "EventBody",
    "Events",
    "Gap",
    "HeldRange",
    "Hello",
    "HubFrame",
    "InstallKey",
    "Interval",
    "JobFailed",
    "JobHeld",
    "JobReply",
    "JobStarted",
    "JobStopped",
    "JobSucceeded",
    "KeyInstalled",
    "LeaseRenew",
    "Level",
    "LogRecord",
    "MonotonicNs",
    "NodeEvent",
    "Readings",
    "Refused",
    "ReportFull",
    "Seconds",
    "Seq",
    "Signature",
    "Status",
    "Stream",
    "StreamHave",
    "UnixMs",
    "UnknownBody",
    "Unsupported",
    "Welcome",
]

Bytes32 = Annotated[bytes, Meta(min_length=32, max_length=32)]
Signature = Annotated[bytes, Meta(max_length=64)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Interval = Annotated[float, Meta(ge=0.01, le=86_400)]
"""Seconds of a timer that is set again and again: never 0, which would spin."""


class Capability(StrEnum):
    """What an agent can do; unknown ones are ignored by the hub."""

    GROTH16_HOST = "groth16.host"
    GROTH16_CUDA = "groth16.cuda"
    OBSERVE = "observe"
    """Telemetry only: never assign a job."""
    KEY_INSTALL = "ssh.key_install"
    """The node's own configuration lets the hub put its SSH key into an authorized_keys file there."""


# --- agent -> hub -------------------------------------------------------------------------------------------------


class HeldRange(
    Struct, frozen=True, omit_defaults=True, rename={"epoch": "e", "stream": "st", "first": "a", "last": "z"}
):
    """What the agent still holds of one stream of one epoch: first..last, inclusive.

    ``first`` is the lowest number not yet acknowledged; where a gap stands first, any number of its range up to that.

    Raises:
        ValueError: the range is empty.
    """

    epoch: Uuid
    stream: Stream
    first: Seq
    last: Seq

    def __post_init__(self) -> None:
        if self.last < self.first:
            raise ValueError(f"a held range of stream {self.stream} goes from {self.first} to {self.last}")


class JobHeld(Struct, frozen=True, omit_defaults=True, rename={"attempt": "a"}):
    """A job the agent is still at, or whose result it still holds."""

    job: Uuid
    attempt: Attempt


class Hello(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="t",
    tag="hi",
    rename={
        "agent_id": "id",
        "epoch": "e",
        "boot_id": "bt",
        "nonce": "n",
        "version": "v",
        "minor": "mi",
        "capabilities": "cap",
        "jobs": "j",
        "held": "h",
        "time_ms": "w",
        "name": "nm",
        "signature": "sig",
    },
):
    """The agent's answer to the challenge. ``signature`` covers everything else, both nonces and the hub's key.

    Raises:
        ValueError: a stream of an epoch, or a job, is named twice.
    """

    agent_id: Uuid
    epoch: Uuid
    boot_id: Name
    nonce: Bytes32
    version: Name
    minor: Annotated[int, Meta(ge=0, le=65_535)]
    time_ms: UnixMs
    name: Name
    capabilities: Annotated[list[Name], Meta(max_length=32)] = field(default_factory=list)
    jobs: Annotated[list[JobHeld], Meta(max_length=JOBS_HELD_MAX)] = field(default_factory=list)
    held: Annotated[list[HeldRange], Meta(max_length=HELD_RANGES_MAX)] = field(default_factory=list)
    signature: Signature = b""

    def __post_init__(self) -> None:
        if len({(item.epoch, item.stream) for item in self.held}) != len(self.held):
            raise ValueError("a hello names the same stream of the same epoch twice")
        if len({(item.job, item.attempt) for item in self.jobs}) != len(self.jobs):
            raise ValueError("a hello names the same attempt of the same job twice")


class Status(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="t",
    tag="st",
    rename={"status_seq": "s", "full": "f", "time_ms": "w", "monotonic_ns": "m", "status": "b", "changes": "c"},
):
    """The node now. Also the heartbeat, then with nothing changed."""

    status_seq: Seq
    full: bool
    time_ms: UnixMs
    monotonic_ns: MonotonicNs
    status: NodeStatus
    changes: NodeChanges | None = None
    """Inside the parts of the picture; since minor version 1, never in a full frame."""


class Events(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="t",
    tag="ev",
    rename={"epoch": "e", "stream": "st", "events": "x"},
):
    """Events of one stream of one epoch, ascending.

    Raises:
        ValueError: an event stands in a stream that is not its own, a gap in ``jobs`` above all.
    """

    epoch: Uuid
    stream: Stream
    events: Annotated[list[Event], Meta(min_length=1, max_length=EVENTS_PER_FRAME_MAX)]

    def __post_init__(self) -> None:
        for event in self.events:
            if self.stream not in STREAMS_OF[type(event.body)]:
                raise ValueError(f"{type(event.body).__name__} {event.seq} stands in stream {self.stream}")


class JobReply(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="t",
    tag="jr",
    rename={"attempt": "a", "accepted": "ok", "detail": "txt"},
):
    """Whether the agent takes an assigned job. Saying yes twice is harmless."""

    job: Uuid
    attempt: Attempt
    accepted: bool
    detail: Text = ""


class LeaseRenew(Struct, frozen=True, omit_defaults=True, tag_field="t", tag="lr", rename={"jobs": "j"}):
    """The worker of each of these answered within its deadline: keep the lease."""

    jobs: Annotated[list[JobHeld], Meta(max_length=JOBS_HELD_MAX)]


class KeyInstalled(
    Struct, frozen=True, omit_defaults=True, tag_field="t", tag="ki", rename={"request": "id", "detail": "txt"}
):
    """What became of an `InstallKey`. Since minor version 1."""

    request: Uuid
    ok: bool
    detail: Text = ""
    """Which file, and whether the key was there already; or why not."""


# --- hub -> agent -------------------------------------------------------------------------------------------------


class Challenge(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="t",
    tag="ch",
    rename={"nonce": "n", "hub_key": "k", "minor": "mi"},
):
    """The hub's first frame."""

    nonce: Bytes32
    hub_key: Bytes32
    """Ed25519 public key; its SHA-256 is the fingerprint pinned at enrolment."""
    minor: Annotated[int, Meta(ge=0, le=65_535)]


class StreamHave(Struct, frozen=True, omit_defaults=True, rename={"epoch": "e", "stream": "st", "seq": "s"}):
    """The last number of one stream that is safely stored; 0 for none."""

    epoch: Uuid
    stream: Stream
    seq: Count


class Welcome(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="t",
    tag="we",
    rename={
        "session": "id",
        "hub_id": "hub",
        "generation": "gen",
        "minor": "mi",
        "heartbeat_s": "hb",
        "stale_after_s": "sa",
        "lost_after_s": "la",
        "reconnect_spread_s": "rs",
        "frame_bytes_max": "fm",
        "have": "h",
        "time_ms": "w",
        "signature": "sig",
        "readings_s": "rd",
        "sample_s": "sm",
    },
):
    """The session is open. ``signature``, by the hub's key, covers everything else, both nonces and the agent's key."""

    session: Uuid
    hub_id: Uuid
    generation: Count
    minor: Annotated[int, Meta(ge=0, le=65_535)]
    heartbeat_s: Interval
    stale_after_s: Interval
    lost_after_s: Interval
    reconnect_spread_s: Seconds
    frame_bytes_max: Annotated[int, Meta(ge=FRAME_BYTES_MAX, le=2**31 - 1)]
    """What the hub takes; never less than this version may send, so that no event gets stuck."""
    time_ms: UnixMs
    have: Annotated[list[StreamHave], Meta(max_length=STREAMS_ACKNOWLEDGED_MAX)] = field(default_factory=list)
    """One for each held range of the hello, and one for each stream of its epoch."""
    signature: Signature = b""
    readings_s: Interval = READINGS_S
    """Between two pushes of changed readings. Changes of state do not wait for it."""
    sample_s: Interval = SAMPLE_S
    """Between two readings kept for the history."""


class Refused(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="t",
    tag="no",
    rename={"code": "c", "detail": "txt", "wait_s": "w"},
):
    """No session. ``code`` is a `wire.reasons.Reason`; numbers unknown to an older agent are shown as they are."""

    code: Annotated[int, Meta(ge=0, le=999)]
    detail: Text
    wait_s: Seconds = 0.0


class Ack(Struct, frozen=True, omit_defaults=True, tag_field="t", tag="ak", rename={"streams": "x", "status_seq": "s"}):
    """Committed to the store, per stream, cumulative; and the last status heard: the agent knows it is heard."""

    streams: Annotated[list[StreamHave], Meta(max_length=STREAMS_ACKNOWLEDGED_MAX)] = field(default_factory=list)
    status_seq: Count = 0


class ReportFull(Struct, frozen=True, omit_defaults=True, tag_field="t", tag="rf", rename={"detail": "txt"}):
    """Send a full status next."""

    detail: Text = ""


class AssignJob(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="t",
    tag="as",
    rename={
        "attempt": "a",
        "lease_s": "ls",
        "engine": "en",
        "spec": "sp",
        "inputs": "in",
        "outputs": "out",
        "fetch_token": "ft",
    },
):
    """Prove this. ``attempt`` fences everything said about it."""

    job: Uuid
    attempt: Attempt
    lease_s: Seconds
    engine: Name
    spec: Spec
    inputs: Annotated[list[Input], Meta(max_length=8)]
    outputs: Annotated[list[Name], Meta(max_length=8)]
    fetch_token: Name
    """Bearer for ``GET /api/v1/artifacts/{sha256}``: only this job's inputs, only while it is leased."""


class CancelJob(
    Struct, frozen=True, omit_defaults=True, tag_field="t", tag="cx", rename={"attempt": "a", "detail": "txt"}
):
    """Stop, and forget the result: the job was cancelled, given to another, or is done."""

    job: Uuid
    attempt: Attempt
    detail: Text = ""


class InstallKey(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="t",
    tag="ik",
    rename={"request": "id", "user": "u", "public_key": "k"},
):
    """Let this SSH key in; only where the agent said ``ssh.key_install``. Saying it twice is harmless."""

    request: Uuid
    user: Name
    public_key: Annotated[str, Meta(min_length=16, max_length=1024)]
    """``type base64 comment``, one line."""


# --- both ways ----------------------------------------------------------------------------------------------------


class Unsupported(Struct, frozen=True, omit_defaults=True, tag_field="t", tag="un", rename={"tag": "tag"}):
    """The answer, once, to a frame type this side does not know."""

    tag: Name


class Bye(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="t",
    tag="by",
    rename={"code": "c", "detail": "txt", "wait_s": "w"},
):
    """Last frame before closing: a numbered reason, and how long to stay away."""

    code: Annotated[int, Meta(ge=0, le=999)]
    detail: Text = ""
    wait_s: Seconds = 0.0


AgentFrame = Hello | Status | Events | JobReply | LeaseRenew | KeyInstalled | Unsupported | Bye
HubFrame = Challenge | Welcome | Refused | Ack | ReportFull | AssignJob | CancelJob | InstallKey | Unsupported | Bye
