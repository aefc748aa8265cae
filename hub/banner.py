"""What is wrong with the fleet, for somebody who has just been woken: few lines, the worst first; pure.

Nodes that suffer alike are one line: the verdict, how many, since when, and what to do. What is wrong on the hub's own
side and may be the reason of all of it stands first; that it is, is never said as certain. Then come nodes that are
lost, and directly below why nobody can look at them, where many ways in are broken for one cause; then what else keeps
nodes from proving. Ways in that are broken to nodes that are heard harm no proof yet, and stand below that.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from hub.facts import Severity, Trouble
from hub.ssh.cause import Cause
from hub.ssh.verdict import FLEET_SHARE, NODES_MIN, Incident, Problem

LINES_MAX = 12
NAMED_MAX = 3
VERDICTS = {
    "hub_is_older": "they refuse this hub, which runs on an older copy of its data",
    "agent_dead": "lost: the agent does not run",
    "agent_stuck": "lost: the agent hangs",
    "cut_off": "lost: the agent runs and probably does not reach the hub",
    "node_gone": "lost: probably the machine is off or gone",
    "node_stuck": "lost: probably the machine is stuck",
    "firewalled": "lost: probably a firewall is in between",
    "name_gone": "lost: the name is not resolved",
    "port_reused": "lost: another host answers at the address",
    "lost": "lost, cause not known",
    "stopped": "stopped on purpose",
    "gpu_lost": "GPU lost",
    "gpu_absent": "GPU not listed any more",
    "gpu_driver_hung": "NVML hung",
    "gpu_driver_mismatch": "driver mismatch",
    "gpu_degraded": "GPU degraded",
    "engine_down": "engine down",
    "engine_silent": "engine does not answer",
    "disk_full": "disk full",
    "disk_filling": "disk nearly full",
    "duplicate_identity": "a copy of the node knocks with its key",
    "clock_skewed": "clock wrong",
    "fallback_broken": "fallback broken",
    "worker_down": "worker down",
    "worker_silent": "worker does not answer",
    "worker_on_host": "proves on the CPU instead of the card",
}
"""A trouble of many nodes in a few words; others are said by their name."""
OURS = frozenset({"hub_is_older"})
LOST = frozenset(
    {
        "lost",
        "agent_dead",
        "agent_stuck",
        "cut_off",
        "node_gone",
        "node_stuck",
        "firewalled",
        "name_gone",
        "port_reused",
    }
)
"""Names of what `hub.losses` says of a node that is lost and was not stopped."""
SILENCING = frozenset({Cause.NETWORK_UNREACHABLE, Cause.OUT_OF_DESCRIPTORS})
"""Causes on this side that may keep agents away too: nodes do not dial in by the hub's keys, names or ssh."""


class Line(Struct, frozen=True, kw_only=True):
    """One verdict."""

    state: str
    """The trouble's name; of an incident of ssh or of the hub's own side: the cause's."""
    headline: str
    cause: str
    remedy: str
    severity: Severity
    certain: bool
    ours: bool
    """It lies on the hub's side."""
    nodes: tuple[str, ...] = ()
    since_ms: int | None = None


class Ailing(Struct, frozen=True):
    """One node with what is wrong with it, the worst first."""

    name: str
    troubles: tuple[Trouble, ...]


def banner(
    ailing: Mapping[str, Ailing], *, fleet: int, incidents: Sequence[Incident], problems: Sequence[Problem]
) -> list[Line]:
    """The lines, the worst first.

    Args:
        ailing: nodes that have troubles, by id.
        fleet: how many nodes there are.
        incidents: ways in by ssh that are broken for one cause.
        problems: what is wrong on the hub's own side of ssh.
    """
    lost = {node_id for node_id, node in ailing.items() if any(trouble.state in LOST for trouble in node.troubles)}
    lines = [_incident(incident, problems, lost) for incident in incidents]
    causes = {incident.cause for incident in incidents}
    blind = {incident.cause.value for incident in incidents if not lost.isdisjoint(incident.nodes)}
    lines += [_problem(problem) for problem in problems if problem.over_ms is None and problem.cause not in causes]
    told = {node_id for incident in incidents for node_id in incident.nodes}
    groups: dict[str, list[tuple[str, Ailing, Trouble]]] = {}
    for node_id, node in ailing.items():
        for trouble in _each_once(node.troubles):
            if trouble.state == "fallback_broken" and node_id in told:
                continue
            groups.setdefault(trouble.state, []).append((node_id, node, trouble))
    for state, group in groups.items():
        severity = max(trouble.severity for *_, trouble in group)
        many = len(group) >= max(NODES_MIN, fleet * FLEET_SHARE)
        if severity is Severity.BAD or (severity is Severity.WARN and many):
            lines.append(_group(state, group, fleet, severity))
    ways = {cause.value for cause in causes}
    return sorted(lines, key=lambda line: (-line.severity, _place(line, ways, blind), -len(line.nodes), line.state))[
        :LINES_MAX
    ]


def _place(line: Line, ways: AbstractSet[str], blind: AbstractSet[str]) -> int:
    """Where a line stands among those of its severity: what somebody has to know before the next."""
    if line.ours and (line.state not in ways or line.state in SILENCING):
        return 0
    if line.state in LOST:
        return 1
    if line.state in ways:
        return 2 if line.state in blind else 4
    return 3


def _each_once(troubles: Sequence[Trouble]) -> list[Trouble]:
    """The worst of each name."""
    return list({trouble.state: trouble for trouble in reversed(troubles)}.values())


def _group(state: str, group: Sequence[tuple[str, Ailing, Trouble]], fleet: int, severity: Severity) -> Line:
    ordered = sorted(group, key=lambda one: (one[2].since_ms is None, one[2].since_ms or 0, one[0]))
    _, first, trouble = ordered[0]
    names = ", ".join(node.name for _, node, _ in ordered[:NAMED_MAX])
    more = f" and {len(group) - NAMED_MAX} more" if len(group) > NAMED_MAX else ""
    begun = [one.since_ms for *_, one in group if one.since_ms is not None]
    causes = {one.cause for *_, one in group}
    alike = len(causes) == 1
    one_remedy = len(group) == 1 or (alike and len({one.remedy for *_, one in group}) == 1)
    return Line(
        state=state,
        headline=f"{len(group)} of {fleet} nodes: {VERDICTS.get(state, state.replace('_', ' '))} ({names}{more})",
        cause=trouble.cause if alike else f"{first.name}: {trouble.cause}",
        remedy=trouble.remedy if one_remedy else f"{first.name}: {trouble.remedy} Likewise the others.",
        severity=severity,
        certain=all(one.certain for *_, one in group),
        ours=state in OURS,
        nodes=tuple(node_id for node_id, *_ in ordered),
        since_ms=min(begun, default=None),
    )


def _incident(incident: Incident, problems: Sequence[Problem], lost: AbstractSet[str]) -> Line:
    """Many ways in with one cause; the hub's own trouble of that cause is the likeliest reason.

    Args:
        incident: what they have in common.
        problems: what is wrong on the hub's own side.
        lost: nodes that are lost, of which the hub would learn more by those ways.
    """
    unseen = len(lost & set(incident.nodes))
    them = "" if unseen == 0 else f"; {unseen} of them {'is' if unseen == 1 else 'are'} lost and cannot be looked at"
    then = [problem for problem in problems if problem.explains(incident.since_ms)]
    own = next((problem for problem in then if problem.cause is incident.cause), None)
    beside = own or next(iter(then), None)
    if own is not None:
        cause, remedy = f"probably this side: {own.sentence}", own.remedy
    elif beside is not None:
        cause, remedy = f"not known; at the same time on this side: {beside.sentence}", incident.remedy
    else:
        cause = "on this side, by its nature" if incident.ours else "not known; the hub found nothing wrong with itself"
        remedy = incident.remedy
    return Line(
        state=incident.cause.value,
        headline=f"{incident.headline}{them}",
        cause=cause,
        remedy=remedy,
        severity=Severity.BAD,
        certain=incident.ours and own is None,
        ours=incident.ours or own is not None,
        nodes=incident.nodes,
        since_ms=incident.since_ms,
    )


def _problem(problem: Problem) -> Line:
    return Line(
        state=problem.cause.value,
        headline=f"this side: {problem.sentence}",
        cause=_words(problem.cause),
        remedy=problem.remedy,
        severity=Severity.WARN,
        certain=True,
        ours=True,
        since_ms=problem.since_ms,
    )


def _words(cause: Cause) -> str:
    return cause.value.replace("_", " ")
