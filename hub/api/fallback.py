"""How a node can be reached by SSH, in its picture: one sentence and what it is made of."""

from typing import Annotated

from aiohttp import web
from msgspec import Meta, Struct

from hub import ports
from hub.registry import Node
from hub.ssh.cause import REMEDIES
from hub.ssh.reach import State
from hub.ssh.told import provers

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
    provers: Annotated[
        str, Meta(description="proving when last heard 02:58, unknown since; empty while the node is heard")
    ]
    looked_at_ms: Annotated[
        int | None, Meta(description="when it was last looked after by ssh, in this run of the hub")
    ]
    found: Annotated[str | None, Meta(description="what that look found, in one sentence")]
    via_ssh_at_ms: Annotated[int | None, Meta(description="set while its status came by ssh and not over a session")]


def fallback_view(app: web.Application, node: Node) -> FallbackView:
    """Of one node, from memory."""
    reach, now_ms = app[ports.SSH].readiness(node.id), app[ports.CLOCK].time_ms()
    ladder = app[ports.SSH_WATCH].known_ladder(node.id)
    broken = reach.target is not None and reach.state is State.BROKEN
    proved_ms = reach.proved_at_ms if reach.state is State.PROVED else None
    return FallbackView(
        sentence=reach.sentence(now_ms),
        state=NO_TARGET if reach.target is None else reach.state.value,
        target=None if reach.target is None else str(reach.target),
        cause=reach.cause.value if broken else None,
        remedy=REMEDIES[reach.cause] if broken else None,
        since_ms=reach.broken_since_ms if broken else proved_ms,
        provers=provers(node, ladder, now_ms),
        looked_at_ms=None if ladder is None else ladder.at_ms,
        found=None if ladder is None else ladder.summary,
        via_ssh_at_ms=None if node.via_ssh is None else node.via_ssh.at_ms,
    )
