"""A node's sentence and its two lights, as REST bodies; and what of the hub's parts they are made from."""

from typing import Annotated

from aiohttp import web
from msgspec import Meta, Struct

from hub import ports
from hub.facts import Facts, Severity
from hub.registry import Node
from hub.sentence import Lights, Sentence, lights, sentence
from wire.frames import Capability
from wire.reasons import Reason

SEVERITIES = {Severity.OK: "ok", Severity.INFO: "info", Severity.WARN: "warn", Severity.BAD: "bad"}


class SentenceView(Struct, frozen=True, kw_only=True):
    """How the node is, the worst first."""

    state: Annotated[str, Meta(description="name of what is said first: proving, idle, gpu_lost, agent_dead, ...")]
    text: Annotated[str, Meta(description="GPU 3 lost since 14:02; proving 2 jobs; fallback broken: why")]
    cause: Annotated[str, Meta(description="why, of what is said first; empty where the text says it all")]
    remedy: Annotated[str, Meta(description="what to do about it; empty for nothing")]
    severity: Annotated[str, Meta(description="ok, info, warn, bad")]
    since_ms: Annotated[int | None, Meta(description="Unix time in milliseconds; null where it is not known")]
    certain: Annotated[bool, Meta(description="the cause was seen; false: it is likely, or not known yet")]


class HeardView(Struct, frozen=True, kw_only=True):
    """Whether the node is heard."""

    state: Annotated[str, Meta(description="live, stale, lost, never, refused")]
    text: str
    at_ms: Annotated[int | None, Meta(description="when it was last heard; null for never")]


class ProvingView(Struct, frozen=True, kw_only=True):
    """Whether it proves. That it is not heard says nothing of this."""

    state: Annotated[str, Meta(description="proving, idle, unable, unknown")]
    text: Annotated[str, Meta(description="proving when last heard 02:58, unknown since")]
    at_ms: Annotated[int | None, Meta(description="of when `last` is; null for never")]
    last: Annotated[str, Meta(description="what was last known: proving, idle, unable, unknown")]


class LightsView(Struct, frozen=True, kw_only=True):
    """The two lights of a node."""

    heard: HeardView
    proving: ProvingView


def facts_of(app: web.Application, node: Node) -> Facts:
    """What the hub knows of a node now, from memory."""
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
        via_ssh_at_ms=None if node.via_ssh is None else node.via_ssh.at_ms,
        observes=Capability.OBSERVE in node.capabilities,
        clock_skew_ms=node.clock_skew_ms,
        reach=desk.readiness(node.id),
        ladder=watch.known_ladder(node.id),
        next_look_s=watch.next_look_s(node.id),
        paused=watch.paused,
        heard_since_start=node.last_frame_s is not None,
        hub_started_at_ms=watch.started_at_ms,
        problems=tuple(problems),
        double_at_ms=node.last_reason_at_ms if double else None,
        double_detail=node.last_reason_detail if double else "",
    )


def told_of(app: web.Application, node: Node) -> tuple[SentenceView, LightsView]:
    """Sentence and lights of one node."""
    facts = facts_of(app, node)
    return sentence_view(sentence(facts)), lights_view(lights(facts))


def sentence_view(said: Sentence) -> SentenceView:
    """As a body."""
    return SentenceView(
        state=said.state,
        text=said.text,
        cause=said.cause,
        remedy=said.remedy,
        severity=SEVERITIES[said.severity],
        since_ms=said.since_ms,
        certain=said.certain,
    )


def lights_view(shown: Lights) -> LightsView:
    """As bodies."""
    heard, proving = shown.heard, shown.proving
    return LightsView(
        heard=HeardView(state=heard.state.value, text=heard.text, at_ms=heard.at_ms),
        proving=ProvingView(state=proving.state.value, text=proving.text, at_ms=proving.at_ms, last=proving.last.value),
    )
