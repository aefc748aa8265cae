"""Scrapes that cannot pile up: the text is made once for all who ask meanwhile, in short turns, and sent in pieces.

A large fleet's text has tens of megabytes. Who asks while it is being made gets the same; each then reads at its own
speed, within a deadline for each piece, and there are only so many readers.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import hdrs, web

from hub.api.errors import Problem
from hub.api.route import send

Pieces = list[bytes]
READERS_MAX = 8
"""Scrapes at once: a pair of Prometheus, and people."""
SEND_DEADLINE_S = 10.0
"""For one piece, a family of metrics: a reader that takes nothing for so long is closed."""


class Scrapes:
    """Makes the text and hands it out."""

    def __init__(self, make: Callable[[], Awaitable[Pieces]]) -> None:
        self._make = make
        self._making: asyncio.Task[Pieces] | None = None
        self.readers = 0
        self.made = 0
        """Texts that were made so far."""

    async def answer(self, request: web.Request, content_type: str) -> web.StreamResponse:
        """Send the text.

        Raises:
            Problem: there are too many readers.
        """
        if self.readers >= READERS_MAX:
            detail = f"{READERS_MAX} scrapes are being answered; ask less often"
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "busy", detail, {hdrs.RETRY_AFTER: "5"})
        self.readers += 1
        try:
            pieces = await self._text()
            response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: content_type})
            response.content_length = sum(map(len, pieces))
            await response.prepare(request)
            for piece in pieces:
                await send(request, response, piece, SEND_DEADLINE_S)
            return response
        finally:
            self.readers -= 1

    async def _text(self) -> Pieces:
        """The text that is being made, or else a new one."""
        if self._making is None:
            self._making = asyncio.create_task(self._make_one())
        return await asyncio.shield(self._making)

    async def _make_one(self) -> Pieces:
        try:
            return await self._make()
        finally:
            self.made += 1
            self._making = None


SCRAPES = web.AppKey("SCRAPES", Scrapes)
