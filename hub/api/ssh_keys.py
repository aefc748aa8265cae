"""The hub's SSH key: shown, looked after at nodes, installed and rotated. First a preview, then its confirmation.

Another key than the hub's own is a file on the hub's machine: to name one takes an admin.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

from aiohttp import hdrs, web

from hub import ports
from hub.access.roles import Role
from hub.api import auth
from hub.api.errors import Problem, shortened
from hub.api.nodes import NO_NODE, UNDISTURBED, find_node
from hub.api.route import Answer, Route, answer, read_body
from hub.api.ssh import asked
from hub.api.ssh_key_models import (
    RotationPreview,
    RotationView,
    SshChart,
    SshConfirmRequest,
    SshDoctorRequest,
    SshInstalledAll,
    SshInstallPreview,
    SshInstallRequest,
    SshKeysView,
    chart_view,
    installed_view,
    keys_view,
    plan_view,
    rotation_view,
)
from hub.ssh.desk import Busy, NoWayIn
from hub.ssh.help import ROTATE, Help
from hub.ssh.install import Plan
from hub.ssh.keys import KeyRefused, NotLookedAt
from hub.ssh.previews import PreviewGone
from hub.ssh.recovery import RecoveryRefused
from hub.ssh.rotation import RotationDamaged
from hub.ssh.targets import TargetRefused

CONFLICT, INVALID, BUSY = HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.SERVICE_UNAVAILABLE
PATH_CHARS_MAX, NAME_BYTES_MAX = 4000, 255
"""Of a path, and of a name in it."""
LOOKS_AT_ONCE_MAX = 6
STEPS = (
    "a new key is made beside the old one; from then on the hub offers both",
    "by the old key the new one is let in at every node with a way in, one canary first",
    "a fresh login with the new key alone proves each of them",
    "only when all are proved does the new key take the old one's place; the old file is kept aside",
    "the old key is taken out of the nodes' files, each proved by one more login",
    "what stops half-way is gone on with by asking again, also after a restart of the hub",
)


REFUSALS: dict[type[Exception], tuple[HTTPStatus, str]] = {
    TargetRefused: (INVALID, "invalid"),
    KeyRefused: (CONFLICT, "key_refused"),
    RotationDamaged: (CONFLICT, "key_refused"),
    RecoveryRefused: (CONFLICT, "recovery_refused"),
    NoWayIn: (CONFLICT, "no_way_in"),
    PreviewGone: (CONFLICT, "preview_gone"),
    NotLookedAt: (CONFLICT, "not_looked_at"),
    Busy: (BUSY, "busy"),
}


def helping(request: web.Request) -> Help:
    """The parts that help."""
    return request.app[ports.SSH_HELP]


def other_key(request: web.Request, text: str) -> Path | None:
    """The file of another key, if one was named.

    Raises:
        Problem: 403 for whoever is no admin, 422 for what can be no path.
    """
    if not text:
        return None
    if request[auth.IDENTITY].role is not Role.ADMIN:
        raise Problem(HTTPStatus.FORBIDDEN, "admin_only", "to name a file of the hub's machine needs the role admin")
    parts = text.encode("utf-8", "replace").split(b"/")
    if not text.isprintable() or len(text) > PATH_CHARS_MAX or max(map(len, parts)) > NAME_BYTES_MAX:
        raise Problem(INVALID, "invalid", f"{shortened(text)} can be the path of no file")
    return Path(text)


@contextmanager
def refusing() -> Iterator[None]:
    """What goes wrong on the way becomes an answer."""
    try:
        yield
    except tuple(REFUSALS) as error:
        status, code = REFUSALS[type(error)]
        detail = f"{error} (attempt {error.record.id})" if isinstance(error, NotLookedAt) else str(error)
        raise Problem(status, code, detail, {hdrs.RETRY_AFTER: "10"} if status is BUSY else {}) from None


async def get_keys(request: web.Request) -> web.Response:
    """The keys the hub offers."""
    helps = helping(request)
    try:
        keys = await helps.keys.own_keys()
    except KeyRefused:
        keys = []
    with refusing():
        return answer(keys_view(keys, await helps.rotator.progress()))


async def doctor(request: web.Request) -> web.Response:
    """Look why a node does not take the hub's key; changes nothing there."""
    node, body = find_node(request), await read_body(request, SshDoctorRequest)
    via_key, who = other_key(request, body.via_key), asked(request, body.asked_by)
    with refusing():
        chart = await helping(request).keys.look(node.id, who, via_key=via_key, via_user=body.via_user)
    return answer(chart_view(node.id, chart))


async def preview_install(request: web.Request) -> web.Response:
    """What installing the key would do, at some nodes or at all."""
    body = await read_body(request, SshInstallRequest)
    via_key, who, helps = other_key(request, body.via_key), asked(request, body.asked_by), helping(request)
    known = {node.id for node in request.app[ports.REGISTRY].nodes()}
    if unknown := [node_id for node_id in body.nodes if node_id not in known]:
        raise Problem(HTTPStatus.NOT_FOUND, "not_found", f"there is no node {unknown[0]!r}; give whole ids")
    places = asyncio.Semaphore(LOOKS_AT_ONCE_MAX)

    async def one(node_id: str) -> Plan | tuple[str, str]:
        async with places:
            try:
                return await helps.keys.plan(node_id, who, via_key=via_key, via_user=body.via_user, mend=body.mend)
            except (NotLookedAt, NoWayIn, Busy) as error:
                return node_id, str(error)

    with refusing():
        made = await asyncio.gather(*(one(node_id) for node_id in body.nodes or sorted(known)))
    plans = tuple(item for item in made if isinstance(item, Plan))
    left = dict(item for item in made if not isinstance(item, Plan))
    token = helps.installs.keep(plans)
    return answer(SshInstallPreview(token=token, plans=[*map(plan_view, plans)], not_looked_at=left))


async def install(request: web.Request) -> web.Response:
    """Do what a preview showed: one canary first where it is at many nodes."""
    body = await read_body(request, SshConfirmRequest)
    helps, who = helping(request), asked(request, body.asked_by)
    with refusing():
        plans = helps.installs.take(body.token)
        made = await request.app[UNDISTURBED].finish(helps.keys.apply_all(plans, who))
    return answer(SshInstalledAll([installed_view(one) for one in made]))


async def preview_rotation(request: web.Request) -> web.Response:
    """What a rotation would do."""
    helps = helping(request)
    with refusing():
        progress = await helps.rotator.progress()
    token = helps.rotations.keep(ROTATE)
    told = RotationPreview(token=token, steps=list(STEPS), nodes=progress.nodes, without_way=list(progress.without_way))
    return answer(told)


async def rotate(request: web.Request) -> web.Response:
    """Begin a rotation, or go on with the one that is not done."""
    body = await read_body(request, SshConfirmRequest)
    helps, who = helping(request), asked(request, body.asked_by)
    with refusing():
        helps.rotations.take(body.token)
        progress = await request.app[UNDISTURBED].finish(helps.rotator.advance(who))
    view = rotation_view(progress)
    assert view is not None  # noqa: S101 - one was begun
    return answer(view)


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/ssh/keys",
        handler=get_keys,
        summary="The keys the hub offers by SSH, and how far a rotation is",
        tag="ssh",
        answers={HTTPStatus.OK: Answer("The keys", SshKeysView)},
        problems=(CONFLICT,),
    ),
    Route(
        method="POST",
        path="/api/v1/nodes/{id}/ssh/doctor",
        handler=doctor,
        summary="Look at the node why it does not take the hub's key; changes nothing",
        tag="ssh",
        answers={HTTPStatus.OK: Answer("What was found", SshChart)},
        problems=(*NO_NODE, HTTPStatus.FORBIDDEN, BUSY),
        body=SshDoctorRequest,
        example=SshDoctorRequest(),
        deadline_s=None,
    ),
    Route(
        method="POST",
        path="/api/v1/ssh/keys/preview",
        handler=preview_install,
        summary="What installing the hub's key would do, at some nodes or at all: the exact script, and the diff",
        tag="ssh",
        answers={HTTPStatus.OK: Answer("The preview", SshInstallPreview)},
        problems=(HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, CONFLICT, BUSY),
        body=SshInstallRequest,
        example=SshInstallRequest(),
        deadline_s=None,
    ),
    Route(
        method="POST",
        path="/api/v1/ssh/keys/install",
        handler=install,
        summary="Do what a preview showed, and prove it by fresh logins; at many nodes one canary first",
        tag="ssh",
        answers={HTTPStatus.OK: Answer("What came of it", SshInstalledAll)},
        problems=(CONFLICT, BUSY),
        body=SshConfirmRequest,
        example=SshConfirmRequest(token="0f" * 12),
        deadline_s=None,
    ),
    Route(
        method="POST",
        path="/api/v1/ssh/rotation/preview",
        handler=preview_rotation,
        summary="What a rotation of the hub's key would do",
        tag="ssh",
        answers={HTTPStatus.OK: Answer("The preview", RotationPreview)},
        problems=(CONFLICT,),
    ),
    Route(
        method="POST",
        path="/api/v1/ssh/rotation",
        handler=rotate,
        summary="Rotate the hub's key, or go on with a rotation that is not done",
        tag="ssh",
        answers={HTTPStatus.OK: Answer("How far it is", RotationView)},
        problems=(CONFLICT, BUSY),
        body=SshConfirmRequest,
        example=SshConfirmRequest(token="0f" * 12),
        deadline_s=None,
    ),
)
