"""What the hub's parts know of one node, gathered for its sentence."""

from collections.abc import Mapping

from aiohttp import web

from hub import ports
from hub.facts import Facts
from hub.registry import Node
from hub.ssh.answers import Answer
from wire.frames import Capability
from wire.reasons import Reason


def facts_of(app: web.Application, node: Node, since: Mapping[str, int], answer: Answer | None = None) -> Facts:
    """What the hub knows of a node now, from memory; ``since``: when its troubles began."""
    other = app[ports.REGISTRY].node(answer.shown) if answer is not None and answer.node else None
    watch, desk = app[ports.SSH_WATCH], app[ports.SSH]
    double = node.last_reason_code == Reason.DUPLICATE_IDENTITY
    _, problems = watch.told
    return Facts(
        id=node.id,
        name=node.name,
        now_ms=app[ports.CLOCK].time_ms(),
        state=node.state,
        created_at_ms=node.created_at_ms,
        last_heard_at_ms=node.last_heard_at_ms,
        session_opened_at_ms=node.session_opened_at_ms,
        reason_code=node.last_reason_code,
        reason_detail=node.last_reason_detail,
        reason_at_ms=node.last_reason_at_ms,
        status=None if node.status_at_ms is None else node.status,
        status_at_ms=node.status_at_ms,
        via_ssh_at_ms=None if node.via_ssh is None else node.via_ssh.at_ms,
        observes=Capability.OBSERVE in node.capabilities,
        clock_skew_ms=node.clock_skew_ms,
        reach=desk.readiness(node.id),
        ladder=watch.known_ladder(node.id),
        looking=watch.looking(node.id),
        next_look_s=watch.next_look_s(node.id),
        paused=watch.paused,
        heard_since_start=node.last_frame_s is not None,
        hub_started_at_ms=watch.started_at_ms,
        problems=tuple(problems),
        answers="" if answer is None else f"the node {other.name}" if other is not None else answer.shown,
        answers_node=other is not None,
        doctor=app[ports.SSH_HELP].keys.charts.found(node.id),
        double_at_ms=node.last_reason_at_ms if double else None,
        since=since,
        double_detail=node.last_reason_detail if double else "",
    )
