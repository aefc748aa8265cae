"""Bodies of the live stream for programs: the whole picture, then what changed of it."""

from msgspec import Struct

from hub.api.incident_models import IncidentsView
from hub.api.models import HubView, JobView, UnixMs
from hub.api.node_models import NodeView
from wire.jobs import Uuid


class LiveSnapshot(Struct, frozen=True, kw_only=True):
    """The whole picture, first on every live stream and after every loss of detail."""

    seq: int
    time_ms: UnixMs
    hub: HubView
    nodes: list[NodeView]
    jobs: list[JobView]
    incidents: IncidentsView


class LiveIncidents(Struct, frozen=True):
    """What many nodes suffer from alike, and what is wrong on the hub's own side."""

    seq: int
    incidents: IncidentsView


class LiveNode(Struct, frozen=True):
    """A node's new picture; null when it was revoked."""

    seq: int
    id: Uuid
    node: NodeView | None


class LiveJob(Struct, frozen=True):
    """A job's new picture."""

    seq: int
    job: JobView


class LiveBeat(Struct, frozen=True):
    """The stream is alive. ``heard`` has the nodes heard since the last beat and when, by the hub's clock."""

    seq: int
    time_ms: UnixMs
    heard: dict[str, int]
