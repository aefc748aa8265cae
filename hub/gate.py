"""The way in for agents, ``/agent``: what is refused before a WebSocket costs anything.

A stranger costs the hub one HTTP answer: too many newcomers at once, too many unfinished handshakes and a missing
subprotocol are turned away before the upgrade, with a hint when to come again.
"""

import math

from aiohttp import hdrs, web

from hub.api.errors import Problem
from hub.channels.websocket import WebSocketChannel
from hub.clock import Clock
from hub.config import Config
from hub.rates import TokenBucket
from hub.sessions import Sessions
from wire.limits import PROTOCOL

PATH = "/agent"
FULL_RETRY_S = 5
"""When to come again while too many handshakes are unfinished."""
ADDRESS_SHARE = 4
"""One address may hold this part of the unfinished handshakes: a stranger leaves room for the fleet."""


class Gate:
    """Lets agents in."""

    def __init__(self, config: Config, clock: Clock, sessions: Sessions) -> None:
        self._sessions = sessions
        self._unauthenticated_max = config.unauthenticated_max
        self._bucket = TokenBucket(clock, config.accept_per_s, config.accept_burst)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Upgrade a request and serve its session to the end."""
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal.response()
        channel = await WebSocketChannel.accept(request)
        await self._sessions.serve(channel)
        return channel.response

    def _refusal(self, request: web.Request) -> Problem | None:
        """Why there is no upgrade, if so."""
        if request.headers.get(hdrs.UPGRADE, "").lower() != "websocket":
            detail = "agents speak WebSocket here; if a proxy stands between, let it pass Upgrade and Connection on"
            return Problem(426, "upgrade_required", detail, {hdrs.UPGRADE: "websocket"})
        offered = request.headers.get(hdrs.SEC_WEBSOCKET_PROTOCOL, "")
        if PROTOCOL not in [item.strip() for item in offered.split(",")]:
            return Problem(400, "unsupported_version", f"this hub speaks the subprotocol {PROTOCOL}, not {offered!r}")
        if self._sessions.stopping:
            return _later(math.ceil(self._sessions.reconnect_spread_s), "stopping", "the hub is stopping")
        if full := self._full(request.remote or ""):
            return _later(FULL_RETRY_S, "overloaded", full)
        wait_s = self._bucket.take()
        if wait_s > 0.0:
            return _later(math.ceil(wait_s), "overloaded", "too many agents come at once")
        return None

    def _full(self, remote: str) -> str:
        """Why no further handshake may begin; empty if one may."""
        if self._sessions.unauthenticated >= self._unauthenticated_max:
            return "too many handshakes are unfinished"
        if self._sessions.unauthenticated_from(remote) >= max(1, self._unauthenticated_max // ADDRESS_SHARE):
            return "too many handshakes from this address are unfinished"
        return ""


def _later(seconds: int, code: str, detail: str) -> Problem:
    return Problem(503, code, f"{detail}; come again in {max(1, seconds)} s", {hdrs.RETRY_AFTER: str(max(1, seconds))})
