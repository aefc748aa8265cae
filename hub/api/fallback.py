"""How a node can be reached by SSH, in its picture: one sentence and what it is made of."""

from typing import Annotated

from aiohttp import web
from msgspec import Meta, Struct

from hub import ports
from hub.ssh.cause import REMEDIES
from hub.ssh.reach import State

NO_TARGET = "none"


class FallbackView(Struct, frozen=True, kw_only=True):
    """The way in by SSH, for when the session is lost."""

    sentence: Annotated[
        str, Meta(description="fallback proved 02:51, fallback broken: why, fallback unproved, no way in")
    ]
    state: Annotated[str, Meta(description="none, unproved, proved, broken")]
    target: str | None
    cause: Annotated[str | None, Meta(description="why it is broken, by name")]
    remedy: str | None
    since_ms: Annotated[
        int | None, Meta(description="proved then, or broken since then by this cause; Unix milliseconds")
    ]


def fallback_view(app: web.Application, node_id: str) -> FallbackView:
    """Of one node, from memory."""
    reach = app[ports.SSH].readiness(node_id)
    broken = reach.target is not None and reach.state is State.BROKEN
    proved_ms = reach.proved_at_ms if reach.state is State.PROVED else None
    return FallbackView(
        sentence=reach.sentence(app[ports.CLOCK].time_ms()),
        state=NO_TARGET if reach.target is None else reach.state.value,
        target=None if reach.target is None else str(reach.target),
        cause=reach.cause.value if broken else None,
        remedy=REMEDIES[reach.cause] if broken else None,
        since_ms=reach.broken_since_ms if broken else proved_ms,
    )
