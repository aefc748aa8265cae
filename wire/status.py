"""What a node is now. Unreadable values are ``None``, never 0.

`NodeStatus` travels whole once, then as changed top-level fields only (an unset field means "as before") and, since
minor version 1, as changes inside them: see `wire.deltas`.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from wire.engines import EngineReading
from wire.jobs import Attempt, Count, Name, Uuid
from wire.limits import ENGINES_MAX, FLOAT_MAX, GPUS_MAX, JOBS_HELD_MAX, NAME_CHARS_MAX
from wire.readings import GpuReading, HostReading
from wire.text import Text


class WorkerState(StrEnum):
    """What the worker of a device is doing."""

    STARTING = "starting"
    IDLE = "idle"
    PROVING = "proving"
    SILENT = "silent"
    """Its process lives and does not answer within its deadline."""
    DOWN = "down"


class WorkerReading(
    Struct,
    frozen=True,
    omit_defaults=True,
    rename={"device": "dev", "state": "st", "detail": "txt", "on_host": "oh"},
):
    """One worker process."""

    device: Name
    state: WorkerState
    pid: Count | None = None
    detail: Text = ""
    """Why it is not idle or proving, in one sentence."""
    on_host: Text = ""
    """Of a card's worker that proves on the host instead of its card: why, in one sentence."""


class JobProgress(
    Struct,
    frozen=True,
    omit_defaults=True,
    rename={"attempt": "a", "phase": "ph", "done": "d", "total": "tt", "elapsed_s": "el"},
):
    """How far one job is: a named phase with done of total."""

    job: Uuid
    attempt: Attempt
    phase: Name
    done: Count = 0
    total: Count = 0
    elapsed_s: Annotated[float, Meta(ge=0, le=FLOAT_MAX)] = 0.0


class OutboxReading(
    Struct, frozen=True, omit_defaults=True, rename={"events_held": "n", "bytes_held": "b", "dropped": "dr"}
):
    """What the agent still holds unacknowledged."""

    events_held: Count
    bytes_held: Count
    dropped: Count = 0


class SshHint(
    Struct, frozen=True, omit_defaults=True, rename={"port": "p", "user": "u", "host_keys": "k", "address": "a"}
):
    """How the node thinks it can be reached by SSH: a suggestion, the operator's word counts."""

    port: Annotated[int, Meta(ge=1, le=65_535)] = 22
    user: Name = "root"
    host_keys: Annotated[tuple[Annotated[str, Meta(max_length=1024)], ...], Meta(max_length=4)] = ()
    """``type base64`` each, as its sshd shows them."""
    address: Annotated[str, Meta(max_length=NAME_CHARS_MAX)] = ""
    """If it knows one by which others reach it; empty: whence its session comes."""


class NodeStatus(
    Struct,
    frozen=True,
    omit_defaults=True,
    rename={
        "host": "h",
        "gpus": "g",
        "workers": "w",
        "jobs": "j",
        "outbox": "o",
        "draining": "dr",
        "hostname": "hn",
        "engines": "en",
        "ssh": "ssh",
    },
):
    """The whole picture of a node, or the changed part of it."""

    hostname: Name | UnsetType = UNSET
    host: HostReading | UnsetType = UNSET
    gpus: Annotated[list[GpuReading], Meta(max_length=GPUS_MAX)] | UnsetType = UNSET
    workers: Annotated[list[WorkerReading], Meta(max_length=GPUS_MAX)] | UnsetType = UNSET
    jobs: Annotated[list[JobProgress], Meta(max_length=JOBS_HELD_MAX)] | UnsetType = UNSET
    outbox: OutboxReading | UnsetType = UNSET
    draining: bool | UnsetType = UNSET
    engines: Annotated[list[EngineReading], Meta(max_length=ENGINES_MAX)] | UnsetType = UNSET
    """Engines beside our own workers."""
    ssh: SshHint | UnsetType = UNSET

    def changed_since(self, before: "NodeStatus") -> "NodeStatus":
        """Only the fields that differ from ``before``; the rest unset."""
        return NodeStatus(
            **{
                name: value
                for name in self.__struct_fields__
                if (value := getattr(self, name)) is not UNSET and value != getattr(before, name)
            }
        )

    def merged_into(self, before: "NodeStatus") -> "NodeStatus":
        """``before`` with this delta's fields taken over."""
        return NodeStatus(
            **{
                name: value if (value := getattr(self, name)) is not UNSET else getattr(before, name)
                for name in self.__struct_fields__
            }
        )
