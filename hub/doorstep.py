"""Connections that ask nothing: a stranger who opens sockets, or sends a request a byte a minute, keeps nobody out.

The web server waits for ever for a connection's first request. Here a connection that has not made one in time is cut,
and when too many connections idle, whoever idles longest goes first. A connection whose request is being answered, an
agent's session for example, is never touched.
"""

import asyncio
from collections.abc import Collection

import structlog
from aiohttp import web

from hub.api.errors import Handler
from hub.clock import Clock
from hub.config import Config

log = structlog.get_logger(__name__)

SWEEP_S = 1.0
KEEP_ALIVE_S = 75.0
"""A connection that has asked before may stay so long for its next request: beyond what proxies and clients keep."""


class Doorstep:
    """Watches every connection of the web server."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._first_request_s = config.first_request_s
        self._idle_max = config.idle_connections_max
        self._clock = clock
        self._busy: set[web.RequestHandler] = set()
        self._asked: set[web.RequestHandler] = set()
        self._idle_since_s: dict[web.RequestHandler, float] = {}

    @web.middleware
    async def attend(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Note that a connection's request is being answered. Goes before every other middleware."""
        connection = request.protocol
        self._busy.add(connection)
        self._asked.add(connection)
        try:
            return await handler(request)
        finally:
            self._busy.discard(connection)
            self._idle_since_s[connection] = self._clock.monotonic()

    async def run(self, server: web.Server) -> None:
        """Sweep, for ever."""
        while True:
            await asyncio.sleep(SWEEP_S)
            self.sweep(server.connections)

    def sweep(self, connections: Collection[web.RequestHandler]) -> int:
        """Cut those of ``connections``, all there are now, that asked nothing in time; how many."""
        now_s = self._clock.monotonic()
        present = set(connections)
        self._asked &= present
        idle = {item: self._idle_since_s.get(item, now_s) for item in present if item not in self._busy}
        oldest_first = sorted(idle, key=lambda item: idle[item])
        too_many = max(0, len(idle) - self._idle_max)
        cut = {*oldest_first[:too_many]} | {
            item for item in idle if item not in self._asked and now_s - idle[item] >= self._first_request_s
        }
        for item in cut:
            if item.transport is not None:
                item.transport.abort()
        self._idle_since_s = {item: since_s for item, since_s in idle.items() if item not in cut}
        if cut:
            log.warning("connections that asked nothing were cut", count=len(cut), idle=len(idle))
        return len(cut)
