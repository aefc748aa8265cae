"""A node's sentence and its two lights, as REST bodies."""

from typing import Annotated

from msgspec import Meta, Struct

from hub.facts import Severity
from hub.sentence import Lights, Sentence

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
