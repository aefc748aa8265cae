"""Browsers: one-time login links, the login form, the session cookie, and logging out."""

import base64
import hashlib
import html
from http import HTTPStatus
from importlib import resources
from urllib.parse import parse_qs

import structlog
from aiohttp import hdrs, web

from hub import ports
from hub.api import auth, models
from hub.api.errors import Handler, Problem
from hub.api.route import Answer, Parameter, Route, accepts_html, answer, read_bytes

log = structlog.get_logger(__name__)

FORM = "application/x-www-form-urlencoded"
LOGIN_HTML = (resources.files("hub") / "page" / "login.html").read_text("utf-8")
STYLE = LOGIN_HTML.partition("<style>")[2].partition("</style>")[0]
STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
LOGIN_POLICY = (
    f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The login page needs no file that needs a login: its one style is named by its digest."""
MOVE_ON = '<meta http-equiv="refresh" content="0; url=/">'


def login_page(status: int, message: str, *, move_on: bool = False) -> web.Response:
    """The login page with a sentence on it."""
    text = LOGIN_HTML.replace("<!--head-->", MOVE_ON if move_on else "").replace("<!--message-->", html.escape(message))
    return web.Response(
        status=status,
        text=text,
        content_type="text/html",
        headers={hdrs.CONTENT_SECURITY_POLICY: LOGIN_POLICY, hdrs.CACHE_CONTROL: "no-store"},
    )


@web.middleware
async def login_instead(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A browser without a session that opens a page gets the login page, with the same status."""
    try:
        return await handler(request)
    except Problem as problem:
        if problem.status == HTTPStatus.UNAUTHORIZED and request.method == hdrs.METH_GET and accepts_html(request):
            return login_page(problem.status, "")
        raise


async def make_link(request: web.Request) -> web.Response:
    """An address that logs one browser in, once."""
    config, clock = request.app[ports.CONFIG], request.app[ports.CLOCK]
    code = auth.new_secret()
    expires_at_ms = clock.time_ms() + config.login_code_ttl_s * 1000
    await request.app[ports.STORE].add_login_code(auth.digest(code), expires_at_ms)
    link = models.LoginLink(f"{request.app[ports.BASE_URL][0]}/login?code={code}", expires_at_ms)
    return answer(link, status=HTTPStatus.CREATED)


async def get_login(request: web.Request) -> web.Response:
    """Use a link's code up, or show the form."""
    auth.check_host(request)
    code = request.query.get("code")
    if code is None:
        return login_page(HTTPStatus.OK, "")
    secret = await _open_session(request, code) if auth.plausible(code) else None
    if secret is None:
        problem = auth.refuse_credential(request, "the login link was used before, or its time is over", "code_unknown")
        if accepts_html(request):
            return login_page(problem.status, f"{problem.detail}.")
        raise problem
    # Not a redirect: from a link on another site a browser would not send the new SameSite=Strict cookie along it.
    response = login_page(HTTPStatus.OK, "You are logged in.", move_on=True)
    _set_cookie(request, response, secret)
    return response


async def post_login(request: web.Request) -> web.Response:
    """Log in with the admin token."""
    auth.check_host(request)
    auth.check_origin(request)
    if request.content_type != FORM:
        raise Problem(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "not_a_form", f"the body must be {FORM}, with one field, token"
        )
    text = (await read_bytes(request)).decode("ascii", "replace")
    token = parse_qs(text, max_num_fields=4).get("token", [""])[0].strip()
    if not auth.plausible(token) or not request.app[ports.KEYS].admin_token_valid(token):
        problem = auth.refuse_credential(request, "This is not the hub's admin token")
        return login_page(problem.status, f"{problem.detail}.")
    code = auth.new_secret()
    await request.app[ports.STORE].add_login_code(auth.digest(code), request.app[ports.CLOCK].time_ms() + 60_000)
    secret = await _open_session(request, code)
    response = web.Response(status=HTTPStatus.SEE_OTHER, headers={hdrs.LOCATION: "/"})
    if secret is not None:
        _set_cookie(request, response, secret)
    return response


async def post_logout(request: web.Request) -> web.Response:
    """End this browser's session."""
    name = auth.cookie_name(request.app)
    if secret := request.cookies.get(name):
        await request.app[ports.STORE].end_browser_session(auth.digest(secret))
    response = web.Response(status=HTTPStatus.SEE_OTHER, headers={hdrs.LOCATION: "/login"})
    response.del_cookie(name)
    return response


async def _open_session(request: web.Request, code: str) -> str | None:
    """A new session's secret in exchange for a code; None if the code is unknown, used or too old."""
    now_ms = request.app[ports.CLOCK].time_ms()
    ttl_s = request.app[ports.CONFIG].browser_session_ttl_s
    secret = auth.new_secret()
    opened = await request.app[ports.STORE].use_login_code(
        auth.digest(code), auth.digest(secret), now_ms + ttl_s * 1000, now_ms
    )
    if opened:
        log.info("browser logged in", peer=auth.peer(request))
    return secret if opened else None


def _set_cookie(request: web.Request, response: web.Response, secret: str) -> None:
    response.set_cookie(
        auth.cookie_name(request.app),
        secret,
        max_age=request.app[ports.CONFIG].browser_session_ttl_s,
        httponly=True,
        samesite="Strict",
        secure=request.app[ports.BASE_URL][0].startswith("https://"),
        path="/",
    )


HTML = "text/html"

ROUTES = (
    Route(
        method="POST",
        path="/api/v1/login-links",
        handler=make_link,
        summary="Make a link that logs one browser in, once",
        tag="login",
        answers={HTTPStatus.CREATED: Answer("The link", models.LoginLink)},
    ),
    Route(
        method="GET",
        path="/login",
        handler=get_login,
        summary="The login page; with a code it logs in",
        tag="login",
        answers={HTTPStatus.OK: Answer("The page", media=HTML, headers=("Set-Cookie",))},
        problems=(HTTPStatus.MISDIRECTED_REQUEST,),
        parameters=(Parameter("code", "of a login link, good once"),),
        open_=True,
    ),
    Route(
        method="POST",
        path="/login",
        handler=post_login,
        summary="Log in with the admin token",
        tag="login",
        media=FORM,
        answers={HTTPStatus.SEE_OTHER: Answer("Logged in", headers=("Set-Cookie", "Location"))},
        problems=(HTTPStatus.FORBIDDEN, HTTPStatus.MISDIRECTED_REQUEST, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
        open_=True,
    ),
    Route(
        method="POST",
        path="/logout",
        handler=post_logout,
        summary="End this browser's session",
        tag="login",
        answers={HTTPStatus.SEE_OTHER: Answer("Logged out", headers=("Set-Cookie", "Location"))},
    ),
)
