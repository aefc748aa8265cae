"""What a route declares, and how requests are read: one table entry makes the route and its chapter in OpenAPI.

Every route has a deadline and a limit for its body; nothing is read that is not declared.
"""

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from typing import TypeVar

import msgspec
from aiohttp import hdrs, web

from hub.access.roles import Role
from hub.api.errors import Handler, Problem, shortened
from hub.api.models import Request

DEADLINE_S = 30.0
BODY_BYTES_MAX = 64 * 1024
"""Of a JSON body; the largest we know has below 1 KiB."""
PAGE_DEFAULT = 100
PAGE_MAX = 500
"""Below the store's own limit, because one row more is read to see whether another page follows."""
CURSOR_CHARS_MAX = 128
JSON = "application/json"
READING = frozenset({hdrs.METH_GET, hdrs.METH_HEAD})
BINARY = "application/octet-stream"

Body = TypeVar("Body", bound=Request)


@dataclass(frozen=True)
class Answer:
    """One status a route may answer with, beside problems."""

    description: str
    model: type[msgspec.Struct] | None = None
    """Of a JSON body."""
    media: str | None = None
    """Of any other body."""
    also: Sequence[str] = ()
    """Other media it may have, where the request asks for one."""
    headers: Sequence[str] = ()


@dataclass(frozen=True)
class Parameter:
    """A query parameter or header."""

    name: str
    description: str
    where: str = "query"
    schema: Mapping[str, object] = field(default_factory=lambda: {"type": "string"})


@dataclass(frozen=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    handler: Handler
    summary: str
    tag: str
    answers: Mapping[int, Answer]
    problems: Sequence[int] = ()
    """Statuses with the error envelope, beside those every route may answer."""
    body: type[Request] | None = None
    example: Request | None = None
    """A body that would be taken."""
    media: str | None = None
    """Of a body that is not JSON."""
    parameters: Sequence[Parameter] = ()
    role: Role | None = None
    """The least role it opens to; if left out, a viewer for reading and an operator for the rest."""
    open_: bool = False
    """Answers without a credential."""
    secret: bool = False
    """Its answer holds a secret, which is shown this once and never kept."""
    keyed: bool = True
    """Whether a POST takes an `Idempotency-Key` that is kept for it; False where it has a way of its own, or none."""
    body_bytes_max: int = BODY_BYTES_MAX
    audited: bool = True
    """Whether what it does is written down, where it is a change at all."""
    deadline_s: float | None = DEADLINE_S
    """None for streams, which keep deadlines of their own."""

    @property
    def least(self) -> Role:
        """The least role it opens to."""
        if self.role is not None:
            return self.role
        return Role.VIEWER if self.method in READING else Role.OPERATOR


def page_parameters(usual: int = PAGE_DEFAULT) -> tuple[Parameter, ...]:
    """Of a listing by pages."""
    return (
        Parameter(
            "limit",
            "entries of one page",
            schema={"type": "integer", "minimum": 1, "maximum": PAGE_MAX, "default": usual},
        ),
        Parameter(
            "after",
            "`next` of the page before",
            schema={"type": "string", "maxLength": CURSOR_CHARS_MAX, "default": ""},
        ),
    )


PAGE_PARAMETERS = page_parameters()


RAW = web.RequestKey("RAW", bytes)
"""The body as it came: it can be read from the line only once."""
BODY = web.RequestKey("BODY", Request)
"""The body as it was read, for whoever writes down what was done."""
TABLE: web.AppKey[dict[tuple[str, str], Route]] = web.AppKey("TABLE", dict)
"""Routes by method and path."""


def register(app: web.Application, routes: Sequence[Route]) -> None:
    """Add the routes, each within its deadline."""
    app[TABLE] = {(route.method, route.path): route for route in routes}
    for route in routes:
        handler = route.handler if route.deadline_s is None else _within(route.handler, route.deadline_s)
        app.router.add_route(route.method, route.path, handler)


def route_of(request: web.Request) -> Route | None:
    """The route a request has found; None for an address or method that is nothing here."""
    resource = request.match_info.route.resource
    return None if resource is None else request.app[TABLE].get((request.method, resource.canonical))


def _within(handler: Handler, deadline_s: float) -> Handler:
    @functools.wraps(handler)
    async def bounded(request: web.Request) -> web.StreamResponse:
        async with asyncio.timeout(deadline_s):
            return await handler(request)

    return bounded


def answer(
    body: msgspec.Struct, *, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> web.Response:
    """A JSON answer."""
    return web.Response(status=status, body=msgspec.json.encode(body), content_type=JSON, headers=headers)


def unless_known(request: web.Request, response: web.Response) -> web.Response:
    """The answer with a digest as its ETag; 304 without a body to whoever has it."""
    body = response.body
    etag = f'"{sha256(body).hexdigest()[:32]}"' if isinstance(body, bytes) else ""
    known = request.headers.get(hdrs.IF_NONE_MATCH, "")
    headers = {hdrs.ETAG: etag, hdrs.CACHE_CONTROL: "private, no-cache"}
    if etag and etag in {tag.strip().removeprefix("W/") for tag in known.split(",")}:
        return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    response.headers.update(headers)
    return response


async def read_bytes(request: web.Request, bytes_max: int = BODY_BYTES_MAX) -> bytes:
    """The request's whole body, at most ``bytes_max``.

    Raises:
        Problem: 413.
    """
    if RAW in request:
        return request[RAW]
    if (request.content_length or 0) > bytes_max:
        raise _too_large(bytes_max)
    data = bytearray()
    async for chunk in request.content.iter_any():
        data += chunk
        if len(data) > bytes_max:
            raise _too_large(bytes_max)
    request[RAW] = whole = bytes(data)
    return whole


async def read_body(request: web.Request, model: type[Body], bytes_max: int = BODY_BYTES_MAX) -> Body:
    """The request's JSON body; an absent one counts as ``{}``.

    Raises:
        Problem: 413 too large, 415 no JSON, 400 malformed, 422 not of the declared shape.
    """
    data = await read_bytes(request, bytes_max)
    if data and request.content_type != JSON:
        raise Problem(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            f"the body's Content-Type must be {JSON}, not {shortened(request.content_type)}",
        )
    try:
        body = msgspec.json.decode(data or b"{}", type=model)
    except msgspec.ValidationError as error:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", f"the body does not fit: {error}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise Problem(HTTPStatus.BAD_REQUEST, "malformed_json", f"the body is not JSON: {error}") from None
    known: Request = body
    request[BODY] = known
    return body


def _too_large(bytes_max: int) -> Problem:
    return Problem(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", f"the body may have at most {bytes_max} bytes here"
    )


def read_page(request: web.Request, usual: int = PAGE_DEFAULT) -> tuple[int, str]:
    """``limit`` and ``after`` of a listing.

    Raises:
        Problem: 422 for a limit that is no whole number in range, or an impossible cursor.
    """
    text = request.query.get("limit", str(usual))
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(PAGE_MAX)) and 1 <= int(text) <= PAGE_MAX):
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", f"limit must be 1 to {PAGE_MAX}, not {shortened(text)}"
        )
    after = request.query.get("after", "")
    if len(after) > CURSOR_CHARS_MAX or not after.isprintable():
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", "after must be `next` of the page before")
    return int(text), after


Row = TypeVar("Row")


def cut_page(rows: Sequence[Row], limit: int, key: Callable[[Row], str]) -> tuple[Sequence[Row], str | None]:
    """One page out of ``limit + 1`` rows asked for, and the next page's cursor if there is one."""
    if len(rows) <= limit:
        return rows, None
    return rows[:limit], key(rows[limit - 1])


async def send(request: web.Request, response: web.StreamResponse, data: bytes, deadline_s: float) -> None:
    """Write a piece of a stream, within a deadline.

    Raises:
        ConnectionResetError: the client took nothing in time. The answer has begun, so no status can say so any more:
            the connection is broken, and what was buffered for it is dropped.
    """
    try:
        async with asyncio.timeout(deadline_s):
            await response.write(data)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()  # closing would wait for the buffer to empty, which it never does
        raise ConnectionResetError(f"the client took nothing for {deadline_s:g} s") from None


def accepts_html(request: web.Request) -> bool:
    """Whether a browser asks, rather than a program."""
    return "text/html" in request.headers.get(hdrs.ACCEPT, "")
