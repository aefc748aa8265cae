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
from hub.sessions import Sessions
from wire.limits import PROTOCOL

PATH = "/agent"
FULL_RETRY_S = 5
"""When to come again while too many handshakes are unfinished."""


class TokenBucket:
    """So many a second, and so many at once after a quiet time."""

    def __init__(self, clock: Clock, per_s: float, burst: int) -> None:
        self._clock = clock
        self._per_s = per_s
        self._burst = burst
        self._tokens = float(burst)
        self._at_s = clock.monotonic()

    def take(self) -> float:
        """Take one; 0.0 if there was one, else the seconds until there is."""
        now_s = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self._per_s


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
        if self._sessions.unauthenticated >= self._unauthenticated_max:
            return _later(FULL_RETRY_S, "overloaded", "too many handshakes are unfinished")
        wait_s = self._bucket.take()
        if wait_s > 0.0:
            return _later(math.ceil(wait_s), "overloaded", "too many agents come at once")
        return None


def _later(seconds: int, code: str, detail: str) -> Problem:
    return Problem(503, code, f"{detail}; come again in {max(1, seconds)} s", {hdrs.RETRY_AFTER: str(max(1, seconds))})
