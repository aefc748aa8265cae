"""People: who may come in by name and password, and as what. For admins."""

from http import HTTPStatus

import msgspec
from aiohttp import web

from hub import ports
from hub.access.records import User
from hub.access.roles import Role
from hub.access.roster import ROSTER, NoOtherAdmin, TooMany
from hub.api import access_models as models
from hub.api.errors import Problem
from hub.api.login import hashed
from hub.api.pick import pick
from hub.api.route import PAGE_PARAMETERS, Answer, Route, answer, cut_page, read_body, read_page
from hub.ids import uuid7
from hub.store.base import UserNameTaken


def _find(request: web.Request) -> User:
    """The user of the path, by id, unique beginning of an id, or name.

    Raises:
        Problem: 404 for none, 409 for several.
    """
    roster = request.app[ROSTER]
    found = roster.user(pick("user", request.match_info["id"], ((user.id, user.name) for user in roster.users())))
    assert found is not None  # noqa: S101 - picked among them
    return found


def _view(request: web.Request, user: User) -> models.UserView:
    return models.user_view(user, len(request.app[ROSTER].sessions_of(user.id)))


async def list_users(request: web.Request) -> web.Response:
    """Everybody, by id."""
    limit, after = read_page(request)
    users = [user for user in request.app[ROSTER].users() if user.id > after][: limit + 1]
    page, cursor = cut_page(users, limit, lambda user: user.id)
    return answer(models.Users([_view(request, user) for user in page], cursor))


async def get_user(request: web.Request) -> web.Response:
    """One of them."""
    return answer(_view(request, _find(request)))


async def make_user(request: web.Request) -> web.Response:
    """A new one."""
    wanted = await read_body(request, models.UserRequest)
    now_ms = request.app[ports.CLOCK].time_ms()
    user = User(
        id=uuid7(now_ms),
        name=wanted.name,
        role=wanted.role,
        password_hash=await hashed(request, wanted.password),
        created_at_ms=now_ms,
        password_at_ms=now_ms,
    )
    try:
        await request.app[ROSTER].add_user(user)
    except (UserNameTaken, TooMany) as error:
        raise Problem(HTTPStatus.CONFLICT, "not_made", str(error)) from None
    return answer(_view(request, user), status=HTTPStatus.CREATED, headers={"Location": f"/api/v1/users/{user.id}"})


async def change_user(request: web.Request) -> web.Response:
    """Another role or password, or out for a time."""
    user, wanted = _find(request), await read_body(request, models.UserChange)
    changes: dict[str, object] = {}
    now_ms = request.app[ports.CLOCK].time_ms()
    if wanted.role is not msgspec.UNSET:
        changes["role"] = wanted.role
    if not isinstance(wanted.password, msgspec.UnsetType):
        changes |= {"password_hash": await hashed(request, wanted.password), "password_at_ms": now_ms}
    if wanted.disabled is not msgspec.UNSET and wanted.disabled != (user.disabled_at_ms is not None):
        changes["disabled_at_ms"] = now_ms if wanted.disabled else None
    try:
        changed = await request.app[ROSTER].change_user(user.id, **changes)
    except NoOtherAdmin as error:
        raise Problem(HTTPStatus.CONFLICT, "only_admin", str(error)) from None
    return answer(_view(request, changed or user))


async def delete_user(request: web.Request) -> web.Response:
    """Forget somebody; what they did stays written down."""
    try:
        await request.app[ROSTER].delete_user(_find(request).id)
    except NoOtherAdmin as error:
        raise Problem(HTTPStatus.CONFLICT, "only_admin", str(error)) from None
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def log_user_out(request: web.Request) -> web.Response:
    """End all sessions of somebody."""
    user = _find(request)
    await request.app[ROSTER].log_out(user.id)
    return answer(_view(request, user))


NO_USER = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)

ROUTES = (
    Route(
        method="GET",
        path="/api/v1/users",
        handler=list_users,
        summary="Everybody who may log in",
        tag="users",
        role=Role.ADMIN,
        answers={HTTPStatus.OK: Answer("A page of users", models.Users)},
        problems=(HTTPStatus.UNPROCESSABLE_ENTITY,),
        parameters=PAGE_PARAMETERS,
    ),
    Route(
        method="POST",
        path="/api/v1/users",
        handler=make_user,
        summary="Let somebody in by name and password",
        tag="users",
        role=Role.ADMIN,
        body=models.UserRequest,
        example=models.UserRequest(name="bob", role=Role.OPERATOR, password="correct horse battery"),  # noqa: S106 - an example
        answers={HTTPStatus.CREATED: Answer("The user", models.UserView, headers=("Location",))},
        problems=(HTTPStatus.CONFLICT,),
    ),
    Route(
        method="GET",
        path="/api/v1/users/{id}",
        handler=get_user,
        summary="One user, by id, unique beginning of an id, or name",
        tag="users",
        role=Role.ADMIN,
        answers={HTTPStatus.OK: Answer("The user", models.UserView)},
        problems=NO_USER,
    ),
    Route(
        method="PATCH",
        path="/api/v1/users/{id}",
        handler=change_user,
        summary="Another role or password; or out, for a time. A new password, and being out, end every session",
        tag="users",
        role=Role.ADMIN,
        body=models.UserChange,
        example=models.UserChange(role=Role.VIEWER),
        answers={HTTPStatus.OK: Answer("The user", models.UserView)},
        problems=NO_USER,
    ),
    Route(
        method="DELETE",
        path="/api/v1/users/{id}",
        handler=delete_user,
        summary="Forget somebody; what they did stays in the audit",
        tag="users",
        role=Role.ADMIN,
        answers={HTTPStatus.NO_CONTENT: Answer("Forgotten")},
        problems=NO_USER,
    ),
    Route(
        method="POST",
        path="/api/v1/users/{id}/logout",
        handler=log_user_out,
        summary="End all sessions of somebody",
        tag="users",
        role=Role.ADMIN,
        answers={HTTPStatus.OK: Answer("The user, logged out", models.UserView)},
        problems=NO_USER,
    ),
)
