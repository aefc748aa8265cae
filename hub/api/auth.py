"""Who may ask what. Every route needs a credential but those in `OPEN`: a route forgotten here is closed, not open.

Programs send ``Authorization: Bearer`` with the admin token. Browsers hold a session cookie, got by a one-time link or
by the admin token, and are held to this host and this origin. An agent's fetch token opens the inputs of one attempt,
while that attempt is leased to it. Nothing here ever logs or answers with a credential.
"""

import hashlib
import ipaddress
import secrets
from collections import OrderedDict
from collections.abc import Callable
from enum import StrEnum
from http import HTTPStatus
from urllib.parse import urlsplit

import structlog
from aiohttp import hdrs, web
from msgspec import Struct

from hub import ports
from hub.api.errors import Handler, Problem
from hub.config import is_loopback
from hub.keys import FETCH_TOKEN_PREFIX, parse_fetch_token

log = structlog.get_logger(__name__)

OPEN = frozenset({"/healthz", "/agent", "/api/v1/enroll", "/login"})
"""Routes that answer without a credential; each of them checks what it is given by itself."""
ARTIFACT_ROUTE = "/api/v1/artifacts/{sha256}"
SAFE_METHODS = frozenset({hdrs.METH_GET, hdrs.METH_HEAD})

FAILURES_BURST = 20
"""Wrong credentials one address may present at once; after that it is told to wait."""
FAILURES_PER_S = 0.5
PEERS_MAX = 4096
"""Addresses remembered; the one longest quiet is forgotten first."""
CREDENTIAL_CHARS_MAX = 512
SESSION_SECRET_BYTES = 32


class Role(StrEnum):
    """What a request was recognised as."""

    NOBODY = "nobody"
    ADMIN = "admin"
    """The admin token."""
    BROWSER = "browser"
    """A session opened with the admin token or a login link."""
    NODE = "node"
    """A fetch token."""


ROLE = web.RequestKey("ROLE", Role)


class Bucket(Struct):
    """Tokens left at a time."""

    level: float
    at_s: float


class Limiter:
    """Token buckets, one for each address.

    Args:
        per_s: refilled each second.
        burst: held at most.
        now_s: monotonic seconds.
    """

    def __init__(self, *, per_s: float, burst: float, now_s: Callable[[], float]) -> None:
        self._per_s = per_s
        self._burst = burst
        self._now_s = now_s
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, peer: str) -> float:
        """Take one; 0.0, or when there is none the seconds until there is."""
        now_s = self._now_s()
        bucket = self._buckets.pop(peer, None) or Bucket(self._burst, now_s)
        bucket.level = min(self._burst, bucket.level + (now_s - bucket.at_s) * self._per_s)
        bucket.at_s = now_s
        self._buckets[peer] = bucket
        while len(self._buckets) > PEERS_MAX:
            self._buckets.popitem(last=False)
        if bucket.level < 1:
            return (1 - bucket.level) / self._per_s
        bucket.level -= 1
        return 0.0


FAILURES = web.AppKey("FAILURES", Limiter)


def plausible(credential: str) -> bool:
    """Whether a string can be a credential at all: headers may hold anything, even what is no text."""
    return 0 < len(credential) <= CREDENTIAL_CHARS_MAX and credential.isascii() and credential.isprintable()


def digest(secret: str) -> bytes:
    """How one-time codes and session secrets are stored: never themselves."""
    return hashlib.sha256(secret.encode()).digest()


def new_secret() -> str:
    """256 random bits, fit for an address or a cookie."""
    return secrets.token_urlsafe(SESSION_SECRET_BYTES)


def cookie_name(app: web.Application) -> str:
    """The session cookie's name. Cookies ignore ports, so two hubs on one host need two names."""
    return f"provewire_{app[ports.HUB].id.replace('-', '')[-12:]}"


def too_many(wait_s: float, what: str) -> Problem:
    """429 with the seconds to wait."""
    seconds = max(1, round(wait_s + 0.5))
    return Problem(
        HTTPStatus.TOO_MANY_REQUESTS,
        "too_many_requests",
        f"{what}; wait {seconds} s",
        {hdrs.RETRY_AFTER: str(seconds)},
    )


def refuse_credential(request: web.Request, detail: str, code: str = "credential_unknown") -> Problem:
    """The answer to a wrong credential; too many from one address turn into 429."""
    wait_s = request.app[FAILURES].take(peer(request))
    if wait_s > 0:
        return too_many(wait_s, "too many wrong credentials came from this address")
    log.warning("credential refused", peer=peer(request), code=code)
    return Problem(HTTPStatus.UNAUTHORIZED, code, detail, {hdrs.WWW_AUTHENTICATE: 'Bearer realm="provewire"'})


def peer(request: web.Request) -> str:
    """The address the request came from; IPv6 by its /64, which is what one machine is given."""
    remote = request.remote or "unknown"
    try:
        address = ipaddress.ip_address(remote)
    except ValueError:
        return remote
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return remote


@web.middleware
async def authenticated(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let a request through only with a credential that opens its route."""
    resource = request.match_info.route.resource
    request[ROLE] = Role.NOBODY
    if resource is None or resource.canonical not in OPEN:
        request[ROLE] = await recognise(request)
    return await handler(request)


async def recognise(request: web.Request) -> Role:
    """Whose request this is.

    Raises:
        Problem: 401 without a credential or with a wrong one, 403 when it does not open this route.
    """
    header = request.headers.get(hdrs.AUTHORIZATION)
    if header is not None:
        scheme, _, token = header.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > CREDENTIAL_CHARS_MAX:
            raise refuse_credential(
                request, "the Authorization header must be 'Bearer <token>'", "credential_malformed"
            )
        if token.startswith(f"{FETCH_TOKEN_PREFIX}."):
            return _node(request, token)
        if not request.app[ports.KEYS].admin_token_valid(token):
            raise refuse_credential(
                request, "this is not the hub's admin token; it stands in the hub's admin-token file"
            )
        return Role.ADMIN
    secret = request.cookies.get(cookie_name(request.app), "")
    if not secret:
        raise Problem(
            HTTPStatus.UNAUTHORIZED,
            "credential_missing",
            "send 'Authorization: Bearer <admin token>', or log in at /login",
            {hdrs.WWW_AUTHENTICATE: 'Bearer realm="provewire"'},
        )
    check_host(request)
    if request.method not in SAFE_METHODS:
        check_origin(request)
    if not await session_open(request):
        raise refuse_credential(request, "the browser's session is over; log in again at /login", "session_over")
    return Role.BROWSER


async def session_open(request: web.Request) -> bool:
    """Whether the request's cookie names an open session."""
    secret = request.cookies.get(cookie_name(request.app), "")
    if not plausible(secret):
        return False
    now_ms = request.app[ports.CLOCK].time_ms()
    return await request.app[ports.STORE].browser_session_valid(digest(secret), now_ms)


def _node(request: web.Request, token: str) -> Role:
    """A fetch token: reads one of the inputs of the attempt it names, while that is leased."""
    claim = parse_fetch_token(token)
    lease = None if claim is None else request.app[ports.JOBS].lease(claim.job_id, claim.attempt)
    if lease is None:
        raise refuse_credential(request, "the fetch token is of no attempt that is leased now", "lease_over")
    if not request.app[ports.KEYS].fetch_token_valid(token, lease.agent_id):
        raise refuse_credential(request, "the fetch token was not made by this hub for the node that holds the lease")
    resource = request.match_info.route.resource
    wanted = request.match_info.get("sha256")
    allowed = (
        resource is not None
        and resource.canonical == ARTIFACT_ROUTE
        and request.method in SAFE_METHODS
        and any(item.sha256 == wanted for item in lease.inputs)
    )
    if not allowed:
        raise Problem(
            HTTPStatus.FORBIDDEN,
            "not_an_input",
            "a fetch token opens the inputs of its own job, for reading, and no more",
        )
    return Role.NODE


def check_host(request: web.Request) -> None:
    """Refuse names we were never given: a page elsewhere that made its name resolve to us (DNS rebinding).

    Raises:
        Problem: 421.
    """
    name = host_name(request.host)
    config = request.app[ports.CONFIG]
    local = request.transport.get_extra_info("sockname") if request.transport is not None else None
    ours = {config.listen_host.lower(), *(host_name(urlsplit(url).netloc) for url in request.app[ports.BASE_URL])}
    if isinstance(local, tuple):
        ours.add(str(local[0]))
    if name in ours or (is_loopback(name) and isinstance(local, tuple) and is_loopback(str(local[0]))):
        return
    raise Problem(
        HTTPStatus.MISDIRECTED_REQUEST,
        "host_unknown",
        "this hub does not go by the name in the Host header; set PROVEWIRE_PUBLIC_URL if it should",
    )


def check_origin(request: web.Request) -> None:
    """Refuse a browser's change that another site's page asked for.

    Raises:
        Problem: 403.
    """
    origin = request.headers.get(hdrs.ORIGIN, "")
    if urlsplit(origin).netloc.lower() != request.host.lower():
        raise Problem(
            HTTPStatus.FORBIDDEN, "origin_refused", "a browser may change something here only from this hub's own page"
        )


def host_name(netloc: str) -> str:
    """The name or address of a Host header, without its port."""
    if netloc.startswith("["):
        return netloc[1:].partition("]")[0].lower()
    return netloc.partition(":")[0].lower()
