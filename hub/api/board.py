"""What the page is told live: a row of each node, readings of those in view, one node whole, jobs when asked for.

A row changes with a node's state, its readings all the time; two thousand nodes are one snapshot of rows, and after
that little. Programs that want every picture whole read the same stream without ``board``: `hub.api.feed`.
"""

from collections.abc import Iterable
from typing import Annotated, TypeVar

from aiohttp import web
from msgspec import UNSET, Meta, Struct, field

from hub.api import models
from hub.api.ailments import told_of
from hub.api.fallback import fallback_view
from hub.api.incident_models import IncidentsView
from hub.api.sentences import LightsView, SentenceView
from hub.registry import Node
from wire.jobs import Uuid
from wire.readings import GpuReading, GpuState, HostReading
from wire.status import NodeStatus

NODES_IN_VIEW_MAX = 200
"""Rows of one window; a large screen shows 60."""
JOBS_SHOWN = 4
"""Of one node, in its row."""

T = TypeVar("T")
Ratio = Annotated[float | None, Meta(description="0 to 1")]


class NodeRow(Struct, frozen=True, kw_only=True):
    """A node among many: what it is and how it stands, without readings."""

    id: Uuid
    name: str
    state: Annotated[str, Meta(description="never, online, stale, lost, reconnecting")]
    sentence: SentenceView
    lights: LightsView
    hostname: str | None
    version: str
    labels: dict[str, str]
    draining: bool
    gpus: int
    gpus_bad: Annotated[int, Meta(description="of them those that are not ok")]
    gpu_name: Annotated[str | None, Meta(description="of the first card")]
    jobs: Annotated[int, Meta(description="jobs that run there")]
    fallback: Annotated[str, Meta(description="none, unproved, proved, broken")]
    last_heard_at_ms: models.UnixMs | None
    enrolled_at_ms: models.UnixMs


class RowJob(Struct, frozen=True):
    """A job on a node, and how far it is."""

    job: Uuid
    phase: str
    done: int
    total: int


class RowReadings(Struct, frozen=True, kw_only=True):
    """What a row shows that changes all the time; null where it is not known."""

    id: Uuid
    last_heard_at_ms: models.UnixMs | None
    cpu_used_ratio: Ratio
    memory_used_ratio: Ratio
    disk_free_bytes: int | None
    gpu_utilization_ratio: Annotated[float | None, Meta(description="mean of its cards")]
    gpu_memory_used_ratio: Ratio
    gpu_temperature_c: Annotated[float | None, Meta(description="of the hottest card")]
    gpu_power_mw: Annotated[int | None, Meta(description="of all its cards")]
    jobs: Annotated[list[RowJob], Meta(description=f"the first {JOBS_SHOWN}")]


class LiveBoard(Struct, frozen=True, kw_only=True):
    """The page's first picture, and after every loss of detail."""

    seq: int
    stream: Annotated[str, Meta(description="where to say what is in view: POST /api/v1/live/{stream}/view")]
    time_ms: models.UnixMs
    hub: models.HubView
    rows: list[NodeRow]
    incidents: IncidentsView


class LiveRow(Struct, frozen=True):
    """A node's new row; null when it was revoked."""

    seq: int
    id: Uuid
    row: NodeRow | None


class LiveReadings(Struct, frozen=True):
    """New readings of a node in view."""

    seq: int
    readings: RowReadings


class LiveJobs(Struct, frozen=True):
    """All jobs worth showing, once they were asked for; `job` events follow."""

    seq: int
    jobs: list[models.JobView]


class ViewRequest(models.Request, frozen=True):
    """What the page shows now, in place of what it said before."""

    nodes: Annotated[
        list[Uuid], Meta(max_length=NODES_IN_VIEW_MAX, description="rows in view, whose readings are wanted")
    ] = field(default_factory=list)
    node: Annotated[Uuid | None, Meta(description="the node shown whole")] = None
    jobs: Annotated[bool, Meta(description="whether jobs are shown")] = False


BOARD_MODELS = (LiveBoard, LiveRow, LiveReadings, LiveJobs)


def row(app: web.Application, node: Node) -> NodeRow:
    """A node's row now."""
    status = node.status
    gpus = listed(status.gpus)
    sentence, lights = told_of(app, node)
    return NodeRow(
        id=node.id,
        name=node.name,
        state=node.state.value,
        sentence=sentence,
        lights=lights,
        hostname=None if status.hostname is UNSET else status.hostname,
        version=node.version,
        labels=node.labels,
        draining=status.draining is True,
        gpus=len(gpus),
        gpus_bad=sum(gpu.state is not GpuState.OK for gpu in gpus),
        gpu_name=gpus[0].name if gpus else None,
        jobs=len(node.progress),
        fallback=fallback_view(app, node).state,
        last_heard_at_ms=node.last_heard_at_ms,
        enrolled_at_ms=node.created_at_ms,
    )


def readings(node: Node) -> RowReadings:
    """A node's readings now."""
    status: NodeStatus = node.status
    host = HostReading() if status.host is UNSET else status.host
    gpus = listed(status.gpus)
    return RowReadings(
        id=node.id,
        last_heard_at_ms=node.last_heard_at_ms,
        cpu_used_ratio=host.cpu_used_ratio,
        memory_used_ratio=ratio(host.memory_used_bytes, host.memory_total_bytes),
        disk_free_bytes=host.disk_free_bytes,
        gpu_utilization_ratio=_mean(gpu.utilization_ratio for gpu in gpus),
        gpu_memory_used_ratio=_mean(ratio(gpu.memory_used_bytes, gpu.memory_total_bytes) for gpu in gpus),
        gpu_temperature_c=max(_known(gpu.temperature_c for gpu in gpus), default=None),
        gpu_power_mw=sum(_known(gpu.power_draw_mw for gpu in gpus)) or None,
        jobs=[RowJob(one.job, one.phase, one.done, one.total) for one in node.progress[:JOBS_SHOWN]],
    )


def listed(gpus: object) -> list[GpuReading]:
    """The cards of a status that may have said nothing of cards."""
    return list(gpus) if isinstance(gpus, list | tuple) else []


def ratio(used: float | None, total: float | None) -> float | None:
    """A share, where both are known."""
    return None if used is None or not total else round(used / total, 4)


def _known(values: Iterable[T | None]) -> list[T]:
    return [value for value in values if value is not None]


def _mean(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return round(sum(known) / len(known), 4) if known else None
