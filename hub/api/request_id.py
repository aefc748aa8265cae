"""The id of each request: in every log line it leads to, and in its answer, so that the two can be brought together.

A client may give one (``X-Request-Id``); one that is no plain word is replaced, since it goes into the log.
"""

import re

import structlog
from aiohttp import web

from hub.api.errors import Handler
from hub.ids import uuid7

HEADER = "X-Request-Id"
GIVEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")
REQUEST_ID = web.RequestKey("REQUEST_ID", str)


@web.middleware
async def identified(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give a request its id; outside of everything that may say something about it."""
    given = request.headers.get(HEADER, "")
    request[REQUEST_ID] = given if GIVEN.fullmatch(given) else uuid7()
    # One task serves all requests of a connection: what is bound for one must not stay for the next.
    with structlog.contextvars.bound_contextvars(request=request[REQUEST_ID]):
        return await handler(request)


async def answered(request: web.Request, response: web.StreamResponse) -> None:
    """Say it in the answer, where there is one: an agent's socket has none."""
    if REQUEST_ID in request:
        response.headers[HEADER] = request[REQUEST_ID]
