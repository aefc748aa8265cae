"""What a node is now: readings with their units in their names. Unreadable values are ``None``, never 0.

`NodeStatus` travels whole once, then as changed top-level fields only: an unset field means "as before".
"""

from enum import StrEnum
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from wire.jobs import Attempt, Count, Name, Uuid
from wire.limits import FLOAT_MAX, GPUS_MAX, JOBS_HELD_MAX, TEXT_CHARS_MAX

Text = Annotated[str, Meta(max_length=TEXT_CHARS_MAX)]
Ratio = Annotated[float, Meta(ge=0.0, le=1.0)]

_CUT = " [...] "


def clipped(text: str, chars_max: int = TEXT_CHARS_MAX) -> str:
    """``text`` as a frame can carry it: head and tail if it is too long, and always valid Unicode.

    Error texts of other programs come in any length and, through the file system's encoding, with lone surrogates.
    ``chars_max`` is at least 16.
    """
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(text) <= chars_max:
        return text
    tail = (chars_max - len(_CUT)) // 2
    return text[: chars_max - len(_CUT) - tail] + _CUT + text[len(text) - tail :]


class GpuState(StrEnum):
    """How a card is."""

    OK = "ok"
    DEGRADED = "degraded"
    LOST = "lost"
    DRIVER_HUNG = "driver_hung"
    DRIVER_MISMATCH = "driver_mismatch"
    ABSENT = "absent"


class GpuReading(
    Struct,
    frozen=True,
    omit_defaults=True,
    rename={"memory_total_bytes": "mt", "memory_used_bytes": "mu", "state": "st", "name": "nm"},
):
    """One card, keyed by its UUID (an index moves when a card is lost)."""

    uuid: Name
    name: Name | None = None
    memory_total_bytes: Count | None = None
    memory_used_bytes: Count | None = None
    state: GpuState = GpuState.OK


class HostReading(
    Struct,
    frozen=True,
    omit_defaults=True,
    rename={
        "cpu_count": "cpus",
        "cpu_used_ratio": "cpu",
        "load_1min": "ld",
        "memory_total_bytes": "mt",
        "memory_used_bytes": "mu",
        "disk_total_bytes": "dt",
        "disk_free_bytes": "df",
        "uptime_s": "up",
    },
):
    """The machine under the agent."""

    cpu_count: Count | None = None
    cpu_used_ratio: Ratio | None = None
    load_1min: Annotated[float, Meta(ge=0, le=FLOAT_MAX)] | None = None
    memory_total_bytes: Count | None = None
    memory_used_bytes: Count | None = None
    disk_total_bytes: Count | None = None
    """Of the file system that holds the data directory."""
    disk_free_bytes: Count | None = None
    uptime_s: Count | None = None


class WorkerState(StrEnum):
    """What the worker of a device is doing."""

    STARTING = "starting"
    IDLE = "idle"
    PROVING = "proving"
    SILENT = "silent"
    """Its process lives and does not answer within its deadline."""
    DOWN = "down"


class WorkerReading(Struct, frozen=True, omit_defaults=True, rename={"device": "dev", "state": "st", "detail": "txt"}):
    """One worker process."""

    device: Name
    state: WorkerState
    pid: Count | None = None
    detail: Text = ""
    """Why it is not idle or proving, in one sentence."""


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


class NodeStatus(
    Struct,
    frozen=True,
    omit_defaults=True,
    rename={"host": "h", "gpus": "g", "workers": "w", "jobs": "j", "outbox": "o", "draining": "dr", "hostname": "hn"},
):
    """The whole picture of a node, or the changed part of it."""

    hostname: Name | UnsetType = UNSET
    host: HostReading | UnsetType = UNSET
    gpus: Annotated[list[GpuReading], Meta(max_length=GPUS_MAX)] | UnsetType = UNSET
    workers: Annotated[list[WorkerReading], Meta(max_length=GPUS_MAX)] | UnsetType = UNSET
    jobs: Annotated[list[JobProgress], Meta(max_length=JOBS_HELD_MAX)] | UnsetType = UNSET
    outbox: OutboxReading | UnsetType = UNSET
    draining: bool | UnsetType = UNSET

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
