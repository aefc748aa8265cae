"""Incidents, what is wrong on the hub's own side, and what looking after a node by SSH found."""

from http import HTTPStatus
from typing import Annotated

from aiohttp import hdrs, web
from msgspec import Meta

from hub import ports
from hub.api.errors import Problem
from hub.api.incident_models import IncidentsView, LadderView, incidents_view, ladder_view
from hub.api.models import Request
from hub.api.nodes import NO_NODE, UNDISTURBED, find_node
from hub.api.route import Answer, Route, answer, read_body
from hub.api.ssh import asked
from hub.registry import Node
from hub.ssh.desk import Busy, NoWayIn
from hub.ssh.looking import Ladder
from hub.ssh.told import provers


class ProbeRequest(Request, frozen=True):
    """Look after a node now."""

    asked_by: Annotated[str, Meta(max_length=64, description="who asks, kept beside the credential's kind")] = ""


async def list_incidents(request: web.Request) -> web.Response:
    """What many nodes suffer from alike, and this side."""
    return answer(incidents_view(request.app))


async def get_ladder(request: web.Request) -> web.Response:
    """What the last look at a node found."""
    node = find_node(request)
    ladder = await request.app[ports.SSH_WATCH].ladder(node.id)
    if ladder is None:
        raise Problem(
            HTTPStatus.NOT_FOUND, "never_looked", "nobody has looked after this node by ssh yet; `provewire probe` does"
        )
    return answer(_view(request, node, ladder))


async def probe(request: web.Request) -> web.Response:
    """Look now; what is begun is finished, and kept, whether the asker waits for it or not."""
    node, body = find_node(request), await read_body(request, ProbeRequest)
    who = asked(request, body.asked_by)
    try:
        ladder = await request.app[UNDISTURBED].finish(request.app[ports.SSH_WATCH].look(node.id, who))
    except NoWayIn as error:
        raise Problem(HTTPStatus.CONFLICT, "no_way_in", str(error)) from None
    except Busy as error:
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "busy", str(error), {hdrs.RETRY_AFTER: "10"}) from None
    return answer(_view(request, find_node(request), ladder))


def _view(request: web.Request, node: Node, ladder: Ladder) -> LadderView:
    said = provers(node, ladder, request.app[ports.CLOCK].time_ms())
    return ladder_view(request.app, ladder, node.name, said)


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/incidents",
        handler=list_incidents,
        summary="Many nodes with one cause, and what the hub found wrong with its own side of the ways in",
        tag="ssh",
        answers={HTTPStatus.OK: Answer("Incidents, the largest first, and problems, the newest first", IncidentsView)},
    ),
    Route(
        method="GET",
        path="/api/v1/nodes/{id}/ladder",
        handler=get_ladder,
        summary="What the last look at a node by SSH found, rung by rung",
        tag="ssh",
        answers={HTTPStatus.OK: Answer("The ladder", LadderView)},
        problems=NO_NODE,
    ),
    Route(
        method="POST",
        path="/api/v1/nodes/{id}/probe",
        handler=probe,
        summary="Look after a node by SSH now: everything from its name to its clock; it changes nothing there",
        tag="ssh",
        answers={HTTPStatus.OK: Answer("What was found", LadderView)},
        problems=(*NO_NODE, HTTPStatus.SERVICE_UNAVAILABLE),
        body=ProbeRequest,
        example=ProbeRequest(),
        deadline_s=None,
    ),
)
