"""People come in: by name and password, by a one-time link, and the first of all by a setup link; and go out again.

A link's code stands behind the ``#`` of its address, which no browser sends along: the page takes it from there and
posts it. So no secret is ever in the address of a request.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import structlog
from aiohttp import hdrs, web

from hub import ports
from hub.access.passwords import PASSWORDS, TooBusy
from hub.access.records import Purpose, User
from hub.access.roles import Kind, Role
from hub.access.roster import ROSTER, TooMany
from hub.access.throttle import Throttle
from hub.api import access_models as models
from hub.api import auth, page
from hub.api.auditing import AS
from hub.api.errors import Handler, Problem
from hub.api.route import Answer, Route, accepts_html, answer, read_body
from hub.ids import uuid7
from hub.store.base import UserNameTaken

log = structlog.get_logger(__name__)

SETUP_TTL_S = 3600
DELAYED_MAX = 64
"""Logins that are made to wait at the same time; beyond them whoever comes is told to come again."""
THROTTLE = web.AppKey("THROTTLE", Throttle)


class Delays:
    """Logins that are made to wait: one of each address, and not too many of all."""

    def __init__(self) -> None:
        self.waiting: set[str] = set()
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def wait(self, address: str, delay_s: float) -> None:
        """Wait.

        Raises:
            Problem: 429, there is no place.
        """
        if address in self.waiting or len(self.waiting) >= DELAYED_MAX:
            raise auth.too_many(delay_s, "this account is guessed at, so that logins to it wait")
        self.waiting.add(address)
        try:
            await self.sleep(delay_s)
        finally:
            self.waiting.discard(address)


DELAYS = web.AppKey("DELAYS", Delays)


@web.middleware
async def login_instead(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A browser without a session that opens the page gets it all the same, with status 401: it shows the login."""
    try:
        return await handler(request)
    except Problem as problem:
        if problem.status == HTTPStatus.UNAUTHORIZED and request.path == "/" and accepts_html(request):
            return request.app[page.PAGE].answer(request, page.SHELL, status=problem.status)
        raise


async def make_login_link(request: web.Request) -> web.Response:
    """An address that logs one browser in, once."""
    return await _make_link(request, Purpose.LOGIN, request.app[ports.CONFIG].login_code_ttl_s)


async def make_setup_link(request: web.Request) -> web.Response:
    """An address at which one admin chooses a name and a password."""
    return await _make_link(request, Purpose.SETUP, SETUP_TTL_S)


async def _make_link(request: web.Request, purpose: Purpose, ttl_s: int) -> web.Response:
    url, expires_at_ms = await new_link(request.app, purpose, ttl_s)
    return answer(models.Link(url, expires_at_ms), status=HTTPStatus.CREATED)


async def new_link(app: web.Application, purpose: Purpose, ttl_s: int) -> tuple[str, int]:
    """A link's address, which is kept nowhere, and until when it is good."""
    code, expires_at_ms = auth.new_secret(), app[ports.CLOCK].time_ms() + ttl_s * 1000
    await app[ROSTER].add_code(code, purpose, expires_at_ms)
    return f"{app[ports.BASE_URL][0]}/#/{purpose.value}/{code}", expires_at_ms


async def how_to_begin(app: web.Application, *, openly: bool) -> str:
    """What to say at the start of a hub nobody can log in to yet; empty where somebody can.

    Args:
        app: the application, which listens.
        openly: whether what is said goes to people only, and not into a journal as well.
    """
    if app[ROSTER].users():
        return ""
    if not openly:
        return "no user yet: run `provewire hub setup-link` here, which prints a link to set up the first admin"
    url, _ = await new_link(app, Purpose.SETUP, SETUP_TTL_S)
    return f"no user yet: set up the first admin at {url}"


# --- coming in


def _from_our_page(request: web.Request) -> None:
    """Nobody else's page logs a browser in here, not even with credentials of its own."""
    auth.check_host(request)
    auth.check_change(request)


async def log_in(request: web.Request) -> web.Response:
    """Open a browser's session, by name and password or by a link's code."""
    _from_our_page(request)
    wanted = await read_body(request, models.LoginRequest)
    if wanted.code:
        return await _by_code(request, wanted.code)
    if not (wanted.name and wanted.password):
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", "give name and password, or the code of a link")
    request[AS] = wanted.name
    user = await _checked(request, wanted.name, wanted.password)
    secret = auth.new_secret()
    roster = request.app[ROSTER]
    await roster.log_in(roster.new_session(secret, user.id, auth.peer(request), _agent(request)))
    log.info("logged in", user=user.name, peer=auth.peer(request))
    return _welcome(request, secret)


async def _by_code(request: web.Request, code: str) -> web.Response:
    secret, roster = auth.new_secret(), request.app[ROSTER]
    session = roster.new_session(secret, "", auth.peer(request), _agent(request))
    if not (auth.plausible(code) and await roster.log_in_by_code(code, session)):
        raise auth.refuse_credential(request, "the login link was used before, or its time is over", "code_unknown")
    log.info("logged in by a link", peer=auth.peer(request))
    return _welcome(request, secret)


async def _checked(request: web.Request, name: str, password: str) -> User:
    """The user, if that is the password; guessing is slowed down.

    Raises:
        Problem: 401 for a wrong name or password, 429 for too many of them, 503 for too many logins.
    """
    app, address = request.app, auth.peer(request)
    throttle, clock = app[THROTTLE], app[ports.CLOCK]
    verdict = throttle.judge(address, name, clock.monotonic())
    if verdict.refuse_s:
        raise auth.too_many(verdict.refuse_s, "too many wrong passwords came from this address")
    if verdict.delay_s:
        await app[DELAYS].wait(address, verdict.delay_s)
    user = app[ROSTER].user_named(name)
    try:
        right = await app[PASSWORDS].verify(None if user is None else user.password_hash, password)
    except TooBusy as error:
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "busy", str(error), {hdrs.RETRY_AFTER: "2"}) from error
    if user is None or not right or user.disabled_at_ms is not None:
        throttle.wrong(address, name, clock.monotonic())
        log.warning("login refused", user=name, peer=address)
        raise Problem(
            HTTPStatus.UNAUTHORIZED, "credential_unknown", "there is nobody of this name and password, or not any more"
        )
    throttle.right(address, name, clock.monotonic())
    if app[PASSWORDS].outdated(user.password_hash):
        fresh = await app[PASSWORDS].hash(password)
        user = await app[ROSTER].rehashed(user.id, fresh) or user
    return user


async def set_up(request: web.Request) -> web.Response:
    """Make an admin by a setup link's code, and log the browser in."""
    _from_our_page(request)
    wanted = await read_body(request, models.SetupRequest)
    request[AS] = wanted.name
    password_hash = await hashed(request, wanted.password)
    now_ms, roster, secret = request.app[ports.CLOCK].time_ms(), request.app[ROSTER], auth.new_secret()
    user = User(
        id=uuid7(now_ms),
        name=wanted.name,
        role=Role.ADMIN,
        password_hash=password_hash,
        created_at_ms=now_ms,
        password_at_ms=now_ms,
        last_login_at_ms=now_ms,
    )
    session = roster.new_session(secret, user.id, auth.peer(request), _agent(request))
    try:
        made = auth.plausible(wanted.code) and await roster.set_up_by_code(wanted.code, user, session)
    except (UserNameTaken, TooMany) as error:
        raise Problem(HTTPStatus.CONFLICT, "not_made", str(error)) from None
    if not made:
        raise auth.refuse_credential(
            request,
            "the setup link was used before, or its time is over; `provewire hub setup-link` prints a new one",
            "code_unknown",
        )
    log.info("an admin was set up", user=user.name, peer=auth.peer(request))
    return _welcome(request, secret, status=HTTPStatus.CREATED)


async def hashed(request: web.Request, password: str) -> str:
    """A password's hash.

    Raises:
        Problem: 503 when too many are made at this moment.
    """
    try:
        return await request.app[PASSWORDS].hash(password)
    except TooBusy as error:
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "busy", str(error), {hdrs.RETRY_AFTER: "2"}) from error


def _agent(request: web.Request) -> str:
    return request.headers.get(hdrs.USER_AGENT, "")


def _welcome(request: web.Request, secret: str, status: int = HTTPStatus.OK) -> web.Response:
    identity = request.app[ROSTER].by_session(secret)
    assert identity is not None  # noqa: S101 - opened a moment ago
    request[auth.IDENTITY] = identity
    response = answer(models.me(identity), status=status)
    response.set_cookie(
        auth.cookie_name(request.app),
        secret,
        max_age=request.app[ports.CONFIG].browser_session_ttl_s,
        httponly=True,
        samesite="Strict",
        secure=auth.secure(request.app),
        path="/",
    )
    return response


# --- who one is, and going out


async def get_me(request: web.Request) -> web.Response:
    """Who asks."""
    return answer(models.me(request[auth.IDENTITY]))


async def log_out(request: web.Request) -> web.Response:
    """End this browser's session."""
    session_id = request[auth.IDENTITY].session_id
    await request.app[ROSTER].log_out(_own(request), lambda session: session.id == session_id)
    return _gone(request)


async def log_out_everywhere(request: web.Request) -> web.Response:
    """End all of one's sessions."""
    await request.app[ROSTER].log_out(_own(request))
    return _gone(request)


def _gone(request: web.Request) -> web.Response:
    response = web.Response(status=HTTPStatus.NO_CONTENT)
    response.del_cookie(auth.cookie_name(request.app), path="/", secure=auth.secure(request.app), httponly=True)
    return response


def _own(request: web.Request) -> str:
    """The id that one's sessions are kept under.

    Raises:
        Problem: 409 for what is no browser.
    """
    identity = request[auth.IDENTITY]
    if not identity.browser:
        raise Problem(HTTPStatus.CONFLICT, "no_session", "this is for browsers; a token has no session to end")
    return identity.id


async def list_sessions(request: web.Request) -> web.Response:
    """One's own sessions."""
    identity = request[auth.IDENTITY]
    sessions = request.app[ROSTER].sessions_of(_own(request))
    return answer(models.BrowserSessions([models.session_view(one, identity.session_id) for one in sessions]))


async def end_session(request: web.Request) -> web.Response:
    """End one of them."""
    wanted = request.match_info["id"]
    ended = await request.app[ROSTER].log_out(_own(request), lambda session: session.id == wanted)
    if not ended:
        raise Problem(HTTPStatus.NOT_FOUND, "not_found", "you have no such session")
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def change_password(request: web.Request) -> web.Response:
    """A new password for oneself; every session ends but this one."""
    wanted = await read_body(request, models.PasswordChange)
    identity, roster = request[auth.IDENTITY], request.app[ROSTER]
    if identity.kind is not Kind.USER:
        raise Problem(HTTPStatus.CONFLICT, "no_password", f"{identity.name} has no password: it is no user's session")
    user = await _checked(request, identity.name, wanted.old)
    fresh = await hashed(request, wanted.new)
    await roster.change_password(user.id, fresh, keep_session=identity.session_id)
    return web.Response(status=HTTPStatus.NO_CONTENT)


LOGIN_PROBLEMS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.MISDIRECTED_REQUEST)

ROUTES = (
    Route(
        method="POST",
        path="/api/v1/login-links",
        handler=make_login_link,
        summary="Make a link that logs one browser in as admin, once",
        tag="login",
        role=Role.ADMIN,
        secret=True,
        answers={HTTPStatus.CREATED: Answer("The link", models.Link)},
    ),
    Route(
        method="POST",
        path="/api/v1/setup-links",
        handler=make_setup_link,
        summary="Make a link at which one admin chooses a name and a password, once",
        tag="login",
        role=Role.ADMIN,
        secret=True,
        answers={HTTPStatus.CREATED: Answer("The link", models.Link)},
    ),
    Route(
        method="POST",
        path="/api/v1/login",
        handler=log_in,
        summary="Open a browser's session: with name and password, or with the code of a login link",
        tag="login",
        body=models.LoginRequest,
        example=models.LoginRequest(name="ada", password="correct horse battery"),  # noqa: S106 - an example
        secret=True,
        answers={HTTPStatus.OK: Answer("Logged in", models.Me, headers=("Set-Cookie",))},
        problems=LOGIN_PROBLEMS,
        open_=True,
    ),
    Route(
        method="POST",
        path="/api/v1/setup",
        handler=set_up,
        summary="Choose name and password of an admin, with the code of a setup link; logs the browser in",
        tag="login",
        body=models.SetupRequest,
        example=models.SetupRequest(code="behind the link's #", name="ada", password="correct horse battery"),  # noqa: S106
        secret=True,
        answers={HTTPStatus.CREATED: Answer("The admin, logged in", models.Me, headers=("Set-Cookie",))},
        problems=(*LOGIN_PROBLEMS, HTTPStatus.CONFLICT),
        open_=True,
    ),
    Route(
        method="GET",
        path="/api/v1/me",
        handler=get_me,
        summary="Who asks, and what they may do",
        tag="me",
        answers={HTTPStatus.OK: Answer("You", models.Me)},
    ),
    Route(
        method="POST",
        path="/api/v1/logout",
        handler=log_out,
        summary="End this browser's session",
        tag="me",
        role=Role.VIEWER,
        answers={HTTPStatus.NO_CONTENT: Answer("Logged out", headers=("Set-Cookie",))},
        problems=(HTTPStatus.CONFLICT,),
    ),
    Route(
        method="POST",
        path="/api/v1/logout-everywhere",
        handler=log_out_everywhere,
        summary="End all of one's own sessions, in every browser",
        tag="me",
        role=Role.VIEWER,
        answers={HTTPStatus.NO_CONTENT: Answer("Logged out", headers=("Set-Cookie",))},
        problems=(HTTPStatus.CONFLICT,),
    ),
    Route(
        method="GET",
        path="/api/v1/me/sessions",
        handler=list_sessions,
        summary="One's own open sessions, newest first",
        tag="me",
        answers={HTTPStatus.OK: Answer("The sessions", models.BrowserSessions)},
        problems=(HTTPStatus.CONFLICT,),
    ),
    Route(
        method="DELETE",
        path="/api/v1/me/sessions/{id}",
        handler=end_session,
        summary="End one of one's own sessions",
        tag="me",
        role=Role.VIEWER,
        answers={HTTPStatus.NO_CONTENT: Answer("Ended")},
        problems=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    ),
    Route(
        method="POST",
        path="/api/v1/me/password",
        handler=change_password,
        summary="Change one's own password; every other session of one's ends",
        tag="me",
        role=Role.VIEWER,
        body=models.PasswordChange,
        example=models.PasswordChange(old="correct horse battery", new="staple of the battery"),
        answers={HTTPStatus.NO_CONTENT: Answer("Changed")},
        problems=(HTTPStatus.CONFLICT,),
    ),
)
