"""Nodes: listing, one, its events, and revoking it."""

from http import HTTPStatus

import structlog
from aiohttp import web

from hub import ports
from hub.api import node_models, views
from hub.api.errors import Problem, not_found, shortened
from hub.api.route import PAGE_PARAMETERS, Answer, Parameter, Route, answer, cut_page, page_parameters, read_page
from hub.bus import NodeGone
from hub.ids import least
from hub.registry import Node
from hub.store.base import PAGE_MAX
from hub.undisturbed import Undisturbed
from hub.whichnode import NoSuchNode, SeveralNodes, which
from wire.frames import Stream
from wire.reasons import Reason

log = structlog.get_logger(__name__)

UNDISTURBED = web.AppKey("UNDISTURBED", Undisturbed)
"""For what must not end half-way with its request."""
HUB_STREAM = "hub"
"""In place of one of the node's streams: what the hub itself saw."""
EVENT_STREAMS = ("jobs", "events", "readings", HUB_STREAM)
"""What can be listed as events; of the readings, what the node gave up of them."""
CURSOR_PARTS = 4
SESSIONS_SHOWN = 20


def find_node(request: web.Request) -> Node:
    """The node named in the path: by id, by a unique beginning of an id, or by a unique name.

    Raises:
        Problem: 404 for none, 409 for several.
    """
    registry = request.app[ports.REGISTRY]
    wanted = request.match_info["id"]
    node = registry.node(wanted)
    if node is None:
        try:
            node = registry.node(which([(each.id, each.name) for each in registry.nodes()], wanted))
        except SeveralNodes as error:
            raise Problem(HTTPStatus.CONFLICT, "ambiguous", str(error)) from None
        except NoSuchNode:
            pass
    if node is None:
        raise not_found("node", wanted)
    return node


async def list_nodes(request: web.Request) -> web.Response:
    """All nodes, by id."""
    limit, after = read_page(request)
    nodes = [node for node in request.app[ports.REGISTRY].nodes() if node.id > after][: limit + 1]
    page, cursor = cut_page(nodes, limit, lambda node: node.id)
    return answer(node_models.Nodes([views.node_view(request.app, node) for node in page], cursor))


async def get_node(request: web.Request) -> web.Response:
    """One node."""
    return answer(views.node_view(request.app, find_node(request), whole=True))


async def list_node_sessions(request: web.Request) -> web.Response:
    """Why a node's sessions ended, newest first."""
    node, (limit, before) = find_node(request), read_page(request, SESSIONS_SHOWN)
    rows = await request.app[ports.STORE].sessions(node.id, before=before, limit=limit + 1)
    page, cursor = cut_page(rows, limit, lambda row: row.id)
    return answer(node_models.Sessions([views.session_view(row) for row in page], cursor))


async def revoke_node(request: web.Request) -> web.Response:
    """Revoke: the store first, so that the node cannot come back; then its open socket is closed."""
    node = find_node(request)
    await request.app[UNDISTURBED].finish(_revoke(request.app, node.id))
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def _revoke(app: web.Application, node_id: str) -> None:
    await app[ports.STORE].revoke_agent(node_id, app[ports.CLOCK].time_ms())
    await app[ports.SESSIONS].end(node_id, Reason.REVOKED, Reason.REVOKED.sentence)
    if app[ports.REGISTRY].remove(node_id):
        app[ports.BUS].publish(NodeGone(node_id))
    log.info("node revoked", node=node_id)


async def list_node_events(request: web.Request) -> web.Response:
    """A node's events and what the hub saw about it, newest first."""
    node = find_node(request)
    limit, after = read_page(request)
    stream = request.query.get("stream")
    if stream is not None and stream not in EVENT_STREAMS:
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "invalid",
            f"stream must be {', '.join(EVENT_STREAMS[:-1])} or {EVENT_STREAMS[-1]}, not {shortened(stream)}",
        )
    store = request.app[ports.STORE]
    if stream == HUB_STREAM:
        seen = await store.hub_events(node.id, before=after, limit=limit + 1)
        shown, cursor = cut_page(seen, limit, lambda row: row.id)
        return answer(node_models.NodeEvents([views.hub_event_view(item) for item in shown], cursor))
    before = _cursor(after)
    seen = []
    if stream is None:
        newest = "" if before is None else least(before[0])
        seen = await store.hub_events(node.id, before=newest, limit=PAGE_MAX)
    wanted = None if stream is None else Stream(stream)
    rows = await store.node_events(node.id, stream=wanted, before=before, limit=limit + 1)
    page, cursor = cut_page(rows, limit, lambda row: f"{row.received_at_ms}.{row.epoch}.{row.stream}.{row.seq}")
    newest_ms = float("inf") if before is None else before[0]
    oldest_ms = page[-1].received_at_ms if cursor is not None else 0
    told = [views.event_view(row) for row in page]
    told += [views.hub_event_view(item) for item in seen if oldest_ms <= item.time_ms < newest_ms]
    told.sort(key=lambda item: item.received_at_ms, reverse=True)
    return answer(node_models.NodeEvents(told, cursor))


def _cursor(text: str) -> tuple[int, str, str, int] | None:
    if not text:
        return None
    parts = text.split(".")
    if len(parts) != CURSOR_PARTS or not all(part.isascii() and part.isdigit() for part in (parts[0], parts[3])):
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", "after must be `next` of the page before")
    return int(parts[0]), parts[1], parts[2], int(parts[3])


NO_NODE = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)

ROUTES = (
    Route(
        method="GET",
        path="/api/v1/nodes",
        handler=list_nodes,
        summary="All nodes",
        tag="nodes",
        answers={HTTPStatus.OK: Answer("A page of nodes", node_models.Nodes)},
        problems=(HTTPStatus.UNPROCESSABLE_ENTITY,),
        parameters=PAGE_PARAMETERS,
    ),
    Route(
        method="GET",
        path="/api/v1/nodes/{id}",
        handler=get_node,
        summary="One node, by id, unique beginning of an id, or unique name",
        tag="nodes",
        answers={HTTPStatus.OK: Answer("The node", node_models.NodeView)},
        problems=NO_NODE,
    ),
    Route(
        method="DELETE",
        path="/api/v1/nodes/{id}",
        handler=revoke_node,
        summary="Revoke a node: its socket is closed at once and it cannot come back without a new enrolment",
        tag="nodes",
        answers={HTTPStatus.NO_CONTENT: Answer("Revoked")},
        problems=NO_NODE,
    ),
    Route(
        method="GET",
        path="/api/v1/nodes/{id}/sessions",
        handler=list_node_sessions,
        summary="A node's sessions, newest first, refused ones too, each with why it ended",
        tag="nodes",
        answers={HTTPStatus.OK: Answer("A page of sessions", node_models.Sessions)},
        problems=(*NO_NODE, HTTPStatus.UNPROCESSABLE_ENTITY),
        parameters=page_parameters(SESSIONS_SHOWN),
    ),
    Route(
        method="GET",
        path="/api/v1/nodes/{id}/events",
        handler=list_node_events,
        summary="What happened at a node, newest first",
        tag="nodes",
        answers={HTTPStatus.OK: Answer("A page of events", node_models.NodeEvents)},
        problems=(*NO_NODE, HTTPStatus.UNPROCESSABLE_ENTITY),
        parameters=(
            *PAGE_PARAMETERS,
            Parameter(
                "stream",
                "only one stream, or only what the hub saw",
                schema={"type": "string", "enum": list(EVENT_STREAMS)},
            ),
        ),
    ),
)
