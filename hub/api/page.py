"""The page's files, whole in memory, and the headers every answer carries."""

import hashlib
from http import HTTPStatus
from importlib import resources

from aiohttp import hdrs, web

from hub.api import models
from hub.api.errors import Handler
from hub.api.route import Answer, Route, answer

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
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
FILES = {
    "/": ("index.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/fallback.js": ("fallback.js", "text/javascript"),
    "/reach.js": ("reach.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
    "/favicon.svg": ("favicon.svg", "image/svg+xml"),
}


async def security_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Add what an answer does not say otherwise. An agent's socket is no page, and keeps its headers for ever."""
    if isinstance(response, web.WebSocketResponse):
        return
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers[hdrs.SERVER] = SERVER


def _serving(name: str, media: str) -> Handler:
    """A handler for one file."""
    data = (resources.files("hub") / "page" / name).read_bytes()
    etag = hashlib.sha256(data).hexdigest()

    async def serve(request: web.Request) -> web.StreamResponse:
        headers = {hdrs.CACHE_CONTROL: "private, no-cache", hdrs.ETAG: f'"{etag}"'}
        if request.headers.get(hdrs.IF_NONE_MATCH) == f'"{etag}"':
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        return web.Response(body=data, content_type=media, charset="utf-8", headers=headers)

    return serve


async def healthz(_request: web.Request) -> web.Response:
    """Whether the hub answers."""
    return answer(models.Health(ok=True, version=models.VERSION))


ROUTES = (
    *(
        Route(
            method="GET",
            path=path,
            handler=_serving(name, media),
            summary=f"The live page: {name}",
            tag="page",
            answers={
                HTTPStatus.OK: Answer("The file", media=media, headers=("ETag",)),
                HTTPStatus.NOT_MODIFIED: Answer("The browser has it"),
            },
        )
        for path, (name, media) in FILES.items()
    ),
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
