"""The live stream: Server-Sent Events, first the whole picture, then what changes.

The numbers of a stream's messages have no holes; whoever sees one has lost something and opens the stream again.
"""

import socket
from http import HTTPStatus

from aiohttp import hdrs, web

from hub import ports
from hub.access.roles import Role
from hub.api import auth, board, live_models
from hub.api.errors import Problem
from hub.api.feed import FEED, Feed, TooManyViewers
from hub.api.route import Answer, Parameter, Route, read_body, send
from hub.api.viewer import Said, Viewer

EVENT_STREAM = "text/event-stream"
SEND_DEADLINE_S = 10.0
"""A browser that takes nothing for this long is closed; it comes back by itself."""
RETRY_MS = 2000
UNSENT_BYTES_MAX = 64 * 1024
"""Of one stream that the kernel keeps beyond what is under way."""
WELCOME_CHECK_S = 5.0
"""How long a stream may outlive its session or token."""


async def live(request: web.Request) -> web.StreamResponse:
    """Send the picture until the browser goes, or is too slow, or the hub stops."""
    feed = request.app[FEED]
    try:
        with feed.viewer(page=request.query.get("board") == "1") as viewer:
            response = web.StreamResponse(headers={hdrs.CACHE_CONTROL: "no-store", "X-Accel-Buffering": "no"})
            response.content_type = EVENT_STREAM
            response.charset = "utf-8"
            await response.prepare(request)
            _hold_little(request)
            await _pump(request, response, feed, viewer)
            return response
    except TooManyViewers as error:
        raise Problem(
            HTTPStatus.SERVICE_UNAVAILABLE, "busy", f"{error}; close one", {hdrs.RETRY_AFTER: "30"}
        ) from error


def _hold_little(request: web.Request) -> None:
    """Keep what a slow browser has not taken in its slots and not in the kernel, where nothing can overtake it."""
    connection = None if request.transport is None else request.transport.get_extra_info("socket")
    if connection is not None and hasattr(socket, "TCP_NOTSENT_LOWAT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)


async def _pump(request: web.Request, response: web.StreamResponse, feed: Feed, viewer: Viewer) -> None:
    seq = 0
    checked_s = request.app[ports.CLOCK].monotonic()
    await send(request, response, b"retry: %d\n\n" % RETRY_MS, SEND_DEADLINE_S)
    while (waiting := await viewer.next()) != []:
        if waiting is None:
            seq += 1
            whole = b"event: snapshot\ndata: %b\n\n" % await feed.snapshot(seq, viewer)
            await send(request, response, whole, SEND_DEADLINE_S)
            continue
        packed = bytearray()
        for said in waiting:
            seq += 1
            packed += _numbered(seq, said)
        await send(request, response, bytes(packed), SEND_DEADLINE_S)
        now_s = request.app[ports.CLOCK].monotonic()
        if now_s - checked_s > WELCOME_CHECK_S:
            if not auth.still_welcome(request):
                return
            checked_s = now_s


def _numbered(seq: int, said: Said) -> bytes:
    event, rest = said
    return b'event: %b\ndata: {"seq":%d,%b\n\n' % (event.encode(), seq, rest)


async def show(request: web.Request) -> web.Response:
    """The page says what it shows; what is new in view comes over its stream at once."""
    view = await read_body(request, board.ViewRequest)
    feed = request.app[FEED]
    viewer = feed.viewer_of(request.match_info["stream"])
    if viewer is None:
        raise Problem(HTTPStatus.NOT_FOUND, "stream_over", "this live stream is over; open it again")
    await feed.show(viewer, view)
    return web.Response(status=HTTPStatus.NO_CONTENT)


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/live",
        handler=live,
        summary="Server-Sent Events: `snapshot`, then `node`, `job`, `incidents`, `beat`: LiveSnapshot, LiveNode, ...",
        tag="live",
        parameters=(
            Parameter(
                "board",
                "1 for rows instead of pictures, as the page wants them: LiveBoard, then `row`, and what is in view",
                schema={"type": "string", "enum": ["1"]},
            ),
        ),
        answers={HTTPStatus.OK: Answer("The stream, without end", media=EVENT_STREAM)},
        deadline_s=None,
    ),
    Route(
        method="POST",
        path="/api/v1/live/{stream}/view",
        handler=show,
        summary="Say what a stream with `board` has in view: `readings` of these rows, one `node` whole, `jobs`",
        tag="live",
        role=Role.VIEWER,
        audited=False,
        answers={HTTPStatus.NO_CONTENT: Answer("It comes over the stream")},
        problems=(HTTPStatus.NOT_FOUND,),
        body=board.ViewRequest,
        example=board.ViewRequest(),
    ),
)
LIVE_MODELS = (
    *board.BOARD_MODELS,
    live_models.LiveSnapshot,
    live_models.LiveNode,
    live_models.LiveJob,
    live_models.LiveIncidents,
    live_models.LiveBeat,
)
"""Bodies that stand in no answer of their own; OpenAPI describes them all the same."""
