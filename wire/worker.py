"""Frames between the agent and a worker process, over a unix socket.

On the stream each frame is preceded by its length: unsigned, 4 bytes, big-endian, at most `FRAME_BYTES_MAX`.
The worker greets first. Everything it has finished and was not told to forget is said again on every connection,
so that an agent that restarted learns of it. A newer connection replaces an older one.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from wire.frames import Seconds, UnixMs
from wire.jobs import Attempt, Count, Name, Output, Spec, TimingsMs, Uuid
from wire.text import Text

LENGTH_BYTES = 4
PONG_DEADLINE_S = 5.0
"""A worker that does not answer a ping within this is silent, and its leases are not renewed."""


class InputFile(Struct, frozen=True, omit_defaults=True, rename={"role": "r", "path": "p"}):
    """One input, already checked against its digest, as a file the worker can map."""

    role: Name
    path: Annotated[str, Meta(max_length=4096)]


class Prove(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="t",
    tag="pr",
    rename={"attempt": "a", "engine": "en", "spec": "sp", "inputs": "in"},
):
    """Agent to worker: begin. Saying it again for the job in hand, or for one already ended, is harmless."""

    job: Uuid
    attempt: Attempt
    engine: Name
    spec: Spec
    inputs: Annotated[list[InputFile], Meta(max_length=8)]


class Abort(Struct, frozen=True, omit_defaults=True, tag_field="t", tag="ab", rename={"attempt": "a"}):
    """Agent to worker: stop at the next phase boundary; answered by `Ended` with code 0 and no outputs."""

    job: Uuid
    attempt: Attempt


class Release(Struct, frozen=True, omit_defaults=True, tag_field="t", tag="re", rename={"attempt": "a"}):
    """Agent to worker: the result is durable in the outbox; forget it."""

    job: Uuid
    attempt: Attempt


class Ping(Struct, frozen=True, omit_defaults=True, tag_field="t", tag="pi", rename={"number": "n"}):
    """Agent to worker."""

    number: Count


class Pong(Struct, frozen=True, omit_defaults=True, tag_field="t", tag="po", rename={"number": "n"}):
    """Worker to agent."""

    number: Count


class Progress(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="t",
    tag="pg",
    rename={"attempt": "a", "phase": "ph", "done": "d", "total": "tt", "elapsed_s": "el"},
):
    """Worker to agent: at every change of phase, and within long phases at most 5 times a second."""

    job: Uuid
    attempt: Attempt
    phase: Name
    done: Count
    total: Count
    elapsed_s: Seconds


class Ended(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="t",
    tag="en",
    rename={"attempt": "a", "code": "c", "detail": "txt", "outputs": "o", "timings_ms": "tm"},
):
    """Worker to agent: the job ended and its result is fsynced. Kept and repeated until `Release`.

    ``code`` as the exit codes: 0 with outputs is success, 0 without outputs an abort, else a failure (``detail``).
    """

    job: Uuid
    attempt: Attempt
    code: Annotated[int, Meta(ge=0, le=255)]
    detail: Text = ""
    outputs: Annotated[list[Output], Meta(max_length=8)] = field(default_factory=list)
    timings_ms: TimingsMs = field(default_factory=dict)


class Greeting(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="t",
    tag="gr",
    rename={"pid": "pid", "device": "dev", "started_ms": "w", "version": "v", "current": "cur"},
):
    """Worker to agent, first on every connection; ended jobs follow as `Ended`."""

    pid: Count
    device: Name
    started_ms: UnixMs
    version: Name
    current: Progress | None = None


class DeviceState(StrEnum):
    """Whether a worker could prove now."""

    OPENING = "opening"
    """It is being made ready; on first use the kernels are compiled. A job given now waits."""
    READY = "ready"
    UNUSABLE = "unusable"
    """Tried again from time to time."""


class DeviceNews(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="t",
    tag="dv",
    rename={"state": "st", "detail": "txt", "on_host": "oh"},
):
    """Worker to agent: how its device is; after the greeting, and whenever that changed."""

    state: DeviceState
    detail: Text = ""
    """Why it is unusable, in one sentence."""
    on_host: Text = ""
    """Of one that was to look for a card: why it proves on the host instead; empty while it has one."""


ToWorker = Prove | Abort | Release | Ping
FromWorker = Greeting | DeviceNews | Progress | Ended | Pong
