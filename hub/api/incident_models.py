"""Bodies about incidents and ladders, and how they are made."""

from collections.abc import Sequence
from typing import Annotated

from aiohttp import web
from msgspec import Meta, Struct

from hub import ports
from hub.api.ailments import AILMENTS
from hub.api.sentences import SEVERITIES
from hub.banner import Line
from hub.ssh.looking import Ladder
from hub.ssh.reach import moment
from hub.ssh.side import whoami
from hub.ssh.verdict import Incident, Problem
from wire.jobs import Uuid

NODES_SHOWN = 50
"""Of an incident's nodes, in the live picture."""

AtMs = Annotated[int, Meta(description="Unix time in milliseconds, by the hub's clock")]


class ProblemView(Struct, frozen=True):
    """Something wrong on the hub's own side of the ways in, or just made good."""

    cause: str
    sentence: str
    remedy: str
    since_ms: AtMs


class NodeName(Struct, frozen=True):
    """A node."""

    id: Uuid
    name: str


class IncidentView(Struct, frozen=True, kw_only=True):
    """Many nodes, one cause."""

    cause: str
    headline: Annotated[str, Meta(description="58 of 60 nodes, one cause: identity refused")]
    count: Annotated[int, Meta(description="how many nodes")]
    fleet: Annotated[int, Meta(description="how many nodes have a way in")]
    since_ms: AtMs
    ours: Annotated[bool, Meta(description="the cause lies on the hub's side by its nature")]
    remedy: str
    nodes: list[NodeName]


class BannerLineView(Struct, frozen=True, kw_only=True):
    """One verdict over the fleet, or over the hub's own side."""

    state: Annotated[str, Meta(description="name of the trouble, or of ssh's cause")]
    headline: Annotated[str, Meta(description="2 of 60 nodes: lost: the agent does not run (gpu-07, gpu-09)")]
    cause: Annotated[str, Meta(description="why; it says itself where that is only likely, or not known")]
    remedy: str
    severity: Annotated[str, Meta(description="warn, bad")]
    certain: Annotated[bool, Meta(description="the cause was seen, at every one of them")]
    ours: Annotated[bool, Meta(description="it lies on the hub's side")]
    count: Annotated[int, Meta(description="how many nodes; 0 for the hub itself")]
    fleet: Annotated[int, Meta(description="how many nodes there are")]
    since_ms: AtMs | None
    nodes: list[NodeName]


class IncidentsView(Struct, frozen=True, kw_only=True):
    """Incidents, and what the hub found wrong with itself: at the same time, neither said to be the other's reason."""

    banner: Annotated[list[BannerLineView], Meta(description="what is wrong with the fleet, the worst first")]
    incidents: list[IncidentView]
    problems: list[ProblemView]
    notes: Annotated[list[str], Meta(description="with an incident: where this hub runs since when, and its canary")]
    lost: Annotated[int, Meta(description="lost nodes with a way in: those the hub looks after by ssh")]
    under_way: Annotated[int, Meta(description="attempts of the hub's own at this moment")]
    paused: Annotated[str, Meta(description="why the hub tries nothing by itself now; empty if it does")]
    examined_at_ms: Annotated[int | None, Meta(description="when the hub last looked at its own side")]


class StepView(Struct, frozen=True):
    """One rung."""

    rung: str
    state: Annotated[str, Meta(description="ok, warning, failed, unknown")]
    sentence: str
    detail: str


class LadderView(Struct, frozen=True, kw_only=True):
    """What a look at a node by SSH found, from its name to its clock."""

    node: Uuid
    node_name: str
    attempt: Annotated[Uuid, Meta(description="the attempt it was made with")]
    at_ms: AtMs
    duration_s: float
    cause: str
    summary: str
    provers: Annotated[str, Meta(description="what is known of its provers while no session tells; empty if one does")]
    next_look_s: Annotated[float | None, Meta(description="until the hub looks again by itself; null: it is not lost")]
    steps: list[StepView]


def problem_view(problem: Problem) -> ProblemView:
    """With what to do about it."""
    return ProblemView(problem.cause.value, problem.sentence, problem.remedy, problem.since_ms)


def incidents_view(app: web.Application, *, nodes_max: int | None = None) -> IncidentsView:
    """As last told; ``nodes_max`` of each incident's nodes, or all."""
    watch = app[ports.SSH_WATCH]
    incidents, problems = watch.told
    return IncidentsView(
        banner=[_line_view(app, line, nodes_max) for line in app[AILMENTS].lines],
        incidents=[_incident_view(app, incident, nodes_max) for incident in incidents],
        problems=[problem_view(problem) for problem in problems],
        notes=_notes(app) if incidents else [],
        lost=watch.lost,
        under_way=watch.under_way,
        paused=watch.paused,
        examined_at_ms=watch.examined_at_ms,
    )


def _notes(app: web.Application) -> list[str]:
    """What stands beside an incident, as facts: since when this hub runs, and whether a node that was well still is."""
    watch, me, now_ms = app[ports.SSH_WATCH], whoami(), app[ports.CLOCK].time_ms()
    found = [f"This hub runs on {me.host} as {me.user} (process {me.pid}) since {moment(watch.started_at_ms, now_ms)}."]
    canary = watch.canary
    if canary is None:
        return [*found, "No other node was well enough to be tried as a canary."]
    node = app[ports.REGISTRY].node(canary.node_id)
    name, at = canary.node_id if node is None else node.name, moment(canary.at_ms, now_ms)
    if canary.let_in:
        return [*found, f"{name}, which is not among them, lets the hub in: tried {at}."]
    return [*found, f"{name}, which was well, does not let the hub in either: {canary.cause.value}, tried {at}."]


def _names(app: web.Application, node_ids: Sequence[str]) -> list[NodeName]:
    known = ((node_id, app[ports.REGISTRY].node(node_id)) for node_id in node_ids)
    return [NodeName(node_id, node_id if node is None else node.name) for node_id, node in known]


def _line_view(app: web.Application, line: Line, nodes_max: int | None) -> BannerLineView:
    return BannerLineView(
        state=line.state,
        headline=line.headline,
        cause=line.cause,
        remedy=line.remedy,
        severity=SEVERITIES[line.severity],
        certain=line.certain,
        ours=line.ours,
        count=len(line.nodes),
        fleet=len(app[ports.REGISTRY]),
        since_ms=line.since_ms,
        nodes=_names(app, line.nodes[:nodes_max]),
    )


def _incident_view(app: web.Application, incident: Incident, nodes_max: int | None) -> IncidentView:
    return IncidentView(
        cause=incident.cause.value,
        headline=incident.headline,
        count=len(incident.nodes),
        fleet=incident.fleet,
        since_ms=incident.since_ms,
        ours=incident.ours,
        remedy=incident.remedy,
        nodes=_names(app, incident.nodes[:nodes_max]),
    )


def ladder_view(app: web.Application, ladder: Ladder, node_name: str, provers: str) -> LadderView:
    """One look."""
    next_s = app[ports.SSH_WATCH].next_look_s(ladder.node_id)
    return LadderView(
        node=ladder.node_id,
        node_name=node_name,
        attempt=ladder.attempt,
        at_ms=ladder.at_ms,
        duration_s=round(ladder.duration_s, 3),
        cause=ladder.cause.value,
        summary=ladder.summary,
        provers=provers,
        next_look_s=None if next_s is None else round(next_s, 1),
        steps=[StepView(step.rung.value, step.state.value, step.sentence, step.detail) for step in ladder.steps],
    )
