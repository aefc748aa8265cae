"""A POST that may be made again: with the same `Idempotency-Key` it is done once, and answered as before.

The key is noted before anything is done and the answer after it, both on the disk. A request whose answer got lost is
answered when it comes again; and one during which the hub stopped is never done twice, but said to be of unknown end.
"""

import asyncio
from hashlib import sha256
from http import HTTPStatus

import msgspec
from aiohttp import hdrs, web

from hub import ports
from hub.access.records import Kept
from hub.api.auth import IDENTITY
from hub.api.errors import Handler, Problem
from hub.api.route import DEADLINE_S, Route, read_bytes, route_of

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
KEY_CHARS_MAX = 255
KEPT_MS = 24 * 3600 * 1000
ROWS_MAX = 5000
ANSWER_BYTES_MAX = 256 * 1024
"""A larger one is not kept, only that it was given."""
HEADERS_KEPT = (hdrs.CONTENT_TYPE, hdrs.LOCATION)

RUNNING: web.AppKey[set[tuple[str, str, str]]] = web.AppKey("RUNNING", set)
"""Requests with a key that are under way in this run of the hub."""


def read_key(request: web.Request) -> str | None:
    """The request's key, if it has one.

    Raises:
        Problem: 422, it cannot be one.
    """
    key = request.headers.get(HEADER)
    if key is not None and not (0 < len(key) <= KEY_CHARS_MAX and key.isascii() and key.isprintable()):
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", f"{HEADER} must be 1 to {KEY_CHARS_MAX} printable characters"
        )
    return key


@web.middleware
async def idempotent(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Do a POST with a key once."""
    route = route_of(request)
    if request.method != hdrs.METH_POST or route is None or route.open_ or not route.keyed:
        return await handler(request)
    key = read_key(request)
    if key is None:
        return await handler(request)
    async with asyncio.timeout(DEADLINE_S):
        body = await read_bytes(request, route.body_bytes_max)
    now_ms = request.app[ports.CLOCK].time_ms()
    kept = Kept(
        owner=request[IDENTITY].owner,
        route=f"{route.method} {route.path}",
        key=key,
        request_sha256=sha256(b"%b\n%b" % (request.rel_url.raw_path_qs.encode(), body)).hexdigest(),
        begun_at_ms=now_ms,
    )
    name = (kept.owner, kept.route, kept.key)
    if name in request.app[RUNNING]:
        raise _running()
    request.app[RUNNING].add(name)
    try:
        before = await request.app[ports.STORE].access.begin_kept(
            kept, forget_before_ms=now_ms - KEPT_MS, rows_max=ROWS_MAX
        )
        if before is not None:
            return _again(before, kept, route)
        return await _once(request, handler, kept, route)
    finally:
        request.app[RUNNING].discard(name)


async def _once(request: web.Request, handler: Handler, kept: Kept, route: Route) -> web.StreamResponse:
    store = request.app[ports.STORE].access
    try:
        response = await handler(request)
    except Problem:
        await store.drop_kept(kept.owner, kept.route, kept.key)  # nothing was done: it may be mended and sent again
        raise
    body = response.body if isinstance(response, web.Response) else None
    small = body is None or (isinstance(body, bytes) and len(body) <= ANSWER_BYTES_MAX)
    headers = {name: response.headers[name] for name in HEADERS_KEPT if name in response.headers}
    if route.secret or not small:
        headers, body = {}, None
    await store.finish_kept(
        msgspec.structs.replace(
            kept,
            status=response.status,
            headers=msgspec.json.encode(headers).decode() if small and not route.secret else "",
            body=body if isinstance(body, bytes) else b"",
        )
    )
    return response


def _again(before: Kept, kept: Kept, route: Route) -> web.Response:
    """What a request is answered that was made before."""
    if before.request_sha256 != kept.request_sha256:
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "idempotency_conflict",
            f"this {HEADER} came with another request before; a key is for one request",
        )
    if not before.status:
        raise Problem(
            HTTPStatus.CONFLICT,
            "idempotency_unknown",
            "the hub stopped or failed at this request; look what came of it, and ask anew with another key",
        )
    if not before.headers:
        why = "its answer held a secret, which is shown once" if route.secret else "its answer was too large to keep"
        code = "idempotency_secret" if route.secret else "idempotency_large"
        raise Problem(HTTPStatus.CONFLICT, code, f"this was done before with this {HEADER}; {why}")
    headers: dict[str, str] = msgspec.json.decode(before.headers, type=dict[str, str])
    return web.Response(status=before.status, body=before.body or None, headers={**headers, REPLAYED: "true"})


def _running() -> Problem:
    return Problem(
        HTTPStatus.CONFLICT,
        "idempotency_running",
        f"a request with this {HEADER} is under way; ask again in a moment",
        {hdrs.RETRY_AFTER: "1"},
    )
