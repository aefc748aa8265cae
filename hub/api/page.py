"""The page's files, whole in memory, and the headers every answer carries.

The files are made from `web/` by ``make page`` and by the build of the wheel. They hold nothing of the fleet, so the
login view's need no credential; `/` itself answers 401 without one, with the same shell, which then shows the login.
"""

import gzip
import hashlib
from http import HTTPStatus
from importlib import resources

from aiohttp import hdrs, web
from msgspec import Struct

from hub.api import models
from hub.api.errors import Handler, Problem, not_found
from hub.api.route import Answer, Route, answer

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Nothing inline, nothing from or to another host, in no frame."""
HEADERS = {
    hdrs.CONTENT_SECURITY_POLICY: POLICY,
    hdrs.X_CONTENT_TYPE_OPTIONS: "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), usb=()",
    hdrs.CACHE_CONTROL: "no-store",
}
SERVER = "provewire"
SHELL = "index.html"
FOR_EVER = "public, max-age=31536000, immutable"
"""An asset's name holds the digest of what is in it."""
ASK_FIRST = "private, no-cache"
MEDIA = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
NOT_BUILT = (
    "the page is not built: run 'make page' in the source tree (it needs Node.js), or install a wheel, which has it"
)
PACKED_MIN_BYTES = 1024
"""Smaller ones gain nothing from gzip."""


class File(Struct, frozen=True):
    """One file of the page."""

    data: bytes
    packed: bytes | None
    """By gzip, where that is less."""
    media: str
    etag: str


class Page:
    """What was built, by name."""

    def __init__(self) -> None:
        folder = resources.files("hub") / "page"
        assets = folder / "assets"
        self.files: dict[str, File] = {}
        for place, prefix in ((folder, ""), (assets, "assets/")):
            for found in place.iterdir() if place.is_dir() else ():
                if found.is_file():
                    self.files[prefix + found.name] = _read(found.name, found.read_bytes())

    def answer(self, request: web.Request, name: str, *, status: int = HTTPStatus.OK) -> web.Response:
        """One file.

        Raises:
            Problem: 404, there is none of that name; 503, the page is not built.
        """
        file = self.files.get(name)
        if file is None:
            if SHELL not in self.files:
                raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "page_not_built", NOT_BUILT)
            raise not_found("file", name)
        for_ever = name.startswith("assets/")
        headers = {hdrs.CACHE_CONTROL: FOR_EVER if for_ever else ASK_FIRST, hdrs.ETAG: f'"{file.etag}"'}
        headers[hdrs.VARY] = hdrs.ACCEPT_ENCODING
        if status == HTTPStatus.OK and request.headers.get(hdrs.IF_NONE_MATCH) == headers[hdrs.ETAG]:
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        body = file.data
        if file.packed is not None and "gzip" in request.headers.get(hdrs.ACCEPT_ENCODING, ""):
            body, headers[hdrs.CONTENT_ENCODING] = file.packed, "gzip"
        return web.Response(status=status, body=body, content_type=file.media, charset="utf-8", headers=headers)


PAGE = web.AppKey("PAGE", Page)


def _read(name: str, data: bytes) -> File:
    packed = gzip.compress(data, mtime=0) if len(data) >= PACKED_MIN_BYTES else None
    media = MEDIA.get(f".{name.rpartition('.')[2]}", "application/octet-stream")
    return File(data, packed, media, hashlib.sha256(data).hexdigest())


async def security_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Add what an answer does not say otherwise. An agent's socket is no page, and keeps its headers for ever."""
    if isinstance(response, web.WebSocketResponse):
        return
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers[hdrs.SERVER] = SERVER


async def shell(request: web.Request) -> web.StreamResponse:
    """The page, which is one document: what it shows stands in the address after its #."""
    return request.app[PAGE].answer(request, SHELL)


async def asset(request: web.Request) -> web.StreamResponse:
    """A script or style, by the name that holds its digest."""
    return request.app[PAGE].answer(request, f"assets/{request.match_info['name']}")


async def icon(request: web.Request) -> web.StreamResponse:
    """The picture in the tab."""
    return request.app[PAGE].answer(request, "favicon.svg")


async def manifest(request: web.Request) -> web.StreamResponse:
    """What a phone needs to keep the page as an application."""
    return request.app[PAGE].answer(request, "manifest.webmanifest")


async def healthz(_request: web.Request) -> web.Response:
    """Whether the hub answers."""
    return answer(models.Health(ok=True, version=models.VERSION))


def _file(path: str, handler: Handler, media: str, summary: str, *, open_: bool) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=handler,
        summary=summary,
        tag="page",
        answers={
            HTTPStatus.OK: Answer("The file", media=media, headers=("ETag",)),
            HTTPStatus.NOT_MODIFIED: Answer("The browser has it"),
        },
        problems=(HTTPStatus.NOT_FOUND,),
        open_=open_,
    )


ROUTES = (
    _file("/", shell, "text/html", "The page", open_=False),
    _file("/assets/{name}", asset, "text/javascript", "Scripts and styles of the page", open_=True),
    _file("/favicon.svg", icon, "image/svg+xml", "The picture in the tab", open_=True),
    _file("/manifest.webmanifest", manifest, "application/manifest+json", "The page as an application", open_=True),
    Route(
        method="GET",
        path="/healthz",
        handler=healthz,
        summary="Whether the hub answers",
        tag="meta",
        answers={HTTPStatus.OK: Answer("It does", models.Health)},
        open_=True,
    ),
)
