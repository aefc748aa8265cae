"""Who asks, and whether the route opens to them. Every route needs a credential but those declared open.

Programs send ``Authorization: Bearer`` with an API token, or with the admin token of the hub's own file. Browsers hold
a session cookie and are held to this host, this origin, and for changes to a header no other site can send. An agent's
fetch token opens the inputs of one attempt, while that attempt is leased to it. Nothing here ever logs or answers with
a credential.
"""

import ipaddress
import secrets
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import structlog
from aiohttp import hdrs, web
from msgspec import Struct

from hub import ports
from hub.access.roles import ADMIN_TOKEN, NOBODY, Identity, Kind
from hub.access.roster import ROSTER
from hub.api.errors import Handler, Problem
from hub.api.route import READING, Route, route_of
from hub.config import is_loopback
from hub.keys import FETCH_TOKEN_PREFIX, parse_fetch_token

log = structlog.get_logger(__name__)

AGENT_PATH: Final = "/agent"
"""The agents' socket: its handshake is its credential."""
ARTIFACT_ROUTE: Final = "/api/v1/artifacts/{sha256}"
TOKEN_PREFIX: Final = "pwt."  # noqa: S105 - the public beginning of every API token
CHANGE_HEADER: Final = "X-Provewire"
"""A page of another site cannot send it without asking first, and we never say yes."""

FAILURES_BURST: Final = 20
"""Wrong credentials one address may present at once; after that it is told to wait."""
FAILURES_PER_S: Final = 0.5
PEERS_MAX: Final = 4096
"""Addresses remembered; the one longest quiet is forgotten first."""
CREDENTIAL_CHARS_MAX: Final = 512
SECRET_BYTES: Final = 32

IDENTITY = web.RequestKey("IDENTITY", Identity)


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


def new_secret() -> str:
    """256 random bits, fit for an address or a cookie."""
    return secrets.token_urlsafe(SECRET_BYTES)


def secure(app: web.Application) -> bool:
    """Whether browsers reach the hub by TLS, its own or a proxy's."""
    return app[ports.BASE_URL][0].startswith("https://")


def cookie_name(app: web.Application) -> str:
    """The session cookie's name. Cookies ignore ports, so two hubs on one host need two names."""
    name = f"provewire_{app[ports.HUB].id.replace('-', '')[-12:]}"
    return f"__Host-{name}" if secure(app) else name


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
    request[IDENTITY] = NOBODY
    route, resource = route_of(request), request.match_info.route.resource
    if (route is None or not route.open_) and (resource is None or resource.canonical != AGENT_PATH):
        request[IDENTITY] = identity = recognise(request)
        if route is not None and identity.kind is not Kind.NODE and not identity.may(route.least, route.tag):
            raise forbidden(identity, route)
    return await handler(request)


def forbidden(identity: Identity, route: Route) -> Problem:
    """The answer to somebody who is known and may not do this."""
    if identity.role is not None and identity.role.at_least(route.least):
        areas = ", ".join(sorted(identity.areas))
        return Problem(
            HTTPStatus.FORBIDDEN, "area_refused", f"this token is good for {areas} only, and this is {route.tag}"
        )
    role = "nobody" if identity.role is None else identity.role.value
    return Problem(
        HTTPStatus.FORBIDDEN,
        "role_refused",
        f"this takes the role {route.least.value}; {identity.name} is {role}: ask an admin",
    )


def recognise(request: web.Request) -> Identity:
    """Whose request this is.

    Raises:
        Problem: 401 without a credential or with a wrong one; 403 for a fetch token elsewhere, or a change that
            another site's page asked for; 421 for a browser sent here under another name.
    """
    header = request.headers.get(hdrs.AUTHORIZATION)
    if header is not None:
        return _bearer(request, header)
    secret = request.cookies.get(cookie_name(request.app), "")
    if not secret:
        raise Problem(
            HTTPStatus.UNAUTHORIZED,
            "credential_missing",
            "send 'Authorization: Bearer <token>', or log in at /login",
            {hdrs.WWW_AUTHENTICATE: 'Bearer realm="provewire"'},
        )
    check_host(request)
    if request.method not in READING:
        check_change(request)
    identity = request.app[ROSTER].by_session(secret) if plausible(secret) else None
    if identity is None:
        raise refuse_credential(request, "the browser's session is over; log in again at /login", "session_over")
    return identity


def _bearer(request: web.Request, header: str) -> Identity:
    scheme, _, token = header.partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not plausible(token):
        raise refuse_credential(request, "the Authorization header must be 'Bearer <token>'", "credential_malformed")
    if token.startswith(f"{FETCH_TOKEN_PREFIX}."):
        return _node(request, token)
    if token.startswith(TOKEN_PREFIX):
        identity = request.app[ROSTER].by_token(token, request.remote or "")
        if identity is None:
            raise refuse_credential(request, "this token is none of this hub's, was revoked, or its time is over")
        return identity
    if not request.app[ports.KEYS].admin_token_valid(token):
        raise refuse_credential(
            request, "this is neither a token of this hub's nor its admin token, which stands in its admin-token file"
        )
    return ADMIN_TOKEN


def still_welcome(request: web.Request) -> bool:
    """Whether a stream may go on: its session was not ended, its token not revoked, its role not taken away."""
    before, route = request[IDENTITY], route_of(request)
    if before.browser:
        now = request.app[ROSTER].by_session(request.cookies.get(cookie_name(request.app), ""))
    elif before.kind is Kind.TOKEN:
        _, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        now = request.app[ROSTER].by_token(token.strip(), request.remote or "")
    else:
        now = before
    return now is not None and (route is None or now.may(route.least, route.tag))


def _node(request: web.Request, token: str) -> Identity:
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
        and request.method in READING
        and any(item.sha256 == wanted for item in lease.inputs)
    )
    if not allowed:
        raise Problem(
            HTTPStatus.FORBIDDEN,
            "not_an_input",
            "a fetch token opens the inputs of its own job, for reading, and no more",
        )
    return Identity(kind=Kind.NODE, name=lease.agent_id, role=None, id=lease.agent_id)


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


def check_change(request: web.Request) -> None:
    """Refuse a browser's change that another site's page asked for.

    Raises:
        Problem: 403.
    """
    check_origin(request)
    if CHANGE_HEADER not in request.headers:
        raise Problem(
            HTTPStatus.FORBIDDEN, "change_header_missing", f"a browser's change needs the header {CHANGE_HEADER}: 1"
        )


def check_origin(request: web.Request) -> None:
    """Refuse what a page of another origin asks for.

    Raises:
        Problem: 403.
    """
    origin = urlsplit(request.headers.get(hdrs.ORIGIN, ""))
    same = origin.netloc.lower() == request.host.lower() and (origin.scheme == "https" or not secure(request.app))
    if not same or request.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
        raise Problem(
            HTTPStatus.FORBIDDEN, "origin_refused", "a browser may change something here only from this hub's own page"
        )


def host_name(netloc: str) -> str:
    """The name or address of a Host header, without its port."""
    if netloc.startswith("["):
        return netloc[1:].partition("]")[0].lower()
    return netloc.partition(":")[0].lower()
