"""Enrolment: tokens for the operator to hand out, and the one request a stranger may make."""

import base64
import hashlib
from http import HTTPStatus

import msgspec
import structlog
from aiohttp import web

from hub import ports
from hub.access.roles import Role
from hub.access.roster import digest
from hub.api import auth, models, views
from hub.api.errors import Problem, not_found
from hub.api.pick import pick_stored
from hub.api.route import PAGE_PARAMETERS, Answer, Route, answer, cut_page, read_body, read_page
from hub.bus import NodeChanged
from hub.ids import uuid7
from hub.keys import verify_signature
from hub.store.base import Listed
from hub.store.records import EnrollRefusal, EnrollToken

log = structlog.get_logger(__name__)

TOKEN_PREFIX = "pw1."  # noqa: S105 - the public beginning of every token
REQUEST_CONTEXT = b"provewire enroll v1\0"
ANSWER_CONTEXT = b"provewire enrolled v1\0"
ENROLLMENTS = web.AppKey("ENROLLMENTS", auth.Limiter)
"""Of all addresses together."""

REFUSALS = {
    EnrollRefusal.UNKNOWN: "this hub made no such enrolment token; make one with `provewire enroll` at the hub",
    EnrollRefusal.EXPIRED: "the enrolment token's time is over: it has expired; make a new one at the hub",
    EnrollRefusal.USED_UP: "the enrolment token is used up; make a new one at the hub",
    EnrollRefusal.REVOKED: "the enrolment token was revoked at the hub",
    EnrollRefusal.KEY_IN_USE: "the key or enrolment id is another's or a revoked node's; let it make a new identity",
}


async def enroll(request: web.Request) -> web.Response:
    """Make a node known, once for each enrolment id."""
    wait_s = request.app[ENROLLMENTS].take("")
    if wait_s > 0:
        raise auth.too_many(wait_s, "too many nodes enrol at this moment")
    wanted = await read_body(request, models.EnrollRequest)
    public_key = bytes.fromhex(wanted.public_key)
    message = REQUEST_CONTEXT + wanted.enrollment_id.encode() + public_key
    if not verify_signature(public_key, message, bytes.fromhex(wanted.signature)):
        raise _refuse(request, "bad_signature", "the request is not signed by the key it names")
    clock, store = request.app[ports.CLOCK], request.app[ports.STORE]
    agent = await store.enroll(
        secret_hash=hashlib.sha256(wanted.secret.encode()).digest(),
        enrollment_id=wanted.enrollment_id,
        public_key=public_key,
        name=wanted.name,
        agent_id=uuid7(),
        now_ms=clock.time_ms(),
    )
    if isinstance(agent, EnrollRefusal):
        raise _refuse(request, agent.value, REFUSALS[agent])
    if request.app[ports.REGISTRY].node(agent.id) is None:
        node = request.app[ports.REGISTRY].add(agent)
        if node is not None:
            request.app[ports.BUS].publish(NodeChanged(node))
        log.info("node enrolled", node=agent.id, token=agent.token_id)
    keys = request.app[ports.KEYS]
    signed = ANSWER_CONTEXT + wanted.enrollment_id.encode() + agent.id.encode() + public_key
    body = models.Enrolled(
        agent_id=agent.id,
        hub_id=request.app[ports.HUB].id,
        hub_key=keys.public_key.hex(),
        signature=keys.sign(signed).hex(),
    )
    return answer(body, status=HTTPStatus.CREATED)


def _refuse(request: web.Request, code: str, detail: str) -> Problem:
    return auth.refuse_credential(request, detail, code)


def token_text(url: str, fingerprint: str, secret: str) -> str:
    """What the operator copies to the node: where the hub is, which key it must show, and the secret."""
    packed = msgspec.json.encode({"u": url, "f": fingerprint, "s": secret})
    return TOKEN_PREFIX + base64.urlsafe_b64encode(packed).decode().rstrip("=")


async def make_token(request: web.Request) -> web.Response:
    """A new token; its secret is shown this once and kept nowhere."""
    wanted = await read_body(request, models.EnrollTokenRequest)
    ttl_s = request.app[ports.CONFIG].enroll_ttl_s if isinstance(wanted.ttl_s, msgspec.UnsetType) else wanted.ttl_s
    text, token = await new_token(request.app, uses=wanted.uses, ttl_s=ttl_s, labels=wanted.labels)
    return answer(models.EnrollTokenMade(text, token.id, token.expires_at_ms), status=HTTPStatus.CREATED)


async def new_token(
    app: web.Application, *, uses: int, ttl_s: int, labels: dict[str, str] | None = None
) -> tuple[str, EnrollToken]:
    """A token's text, which is kept nowhere, and what is stored of it."""
    now_ms = app[ports.CLOCK].time_ms()
    secret = auth.new_secret()
    token = EnrollToken(
        id=uuid7(),
        secret_hash=digest(secret),
        uses_max=uses,
        expires_at_ms=now_ms + ttl_s * 1000,
        created_at_ms=now_ms,
        labels=labels or {},
    )
    await app[ports.STORE].add_enroll_token(token)
    text = token_text(app[ports.BASE_URL][0], app[ports.KEYS].fingerprint, secret)
    log.info("enrolment token made", token=token.id, uses=uses, ttl_s=ttl_s)
    return text, token


async def list_tokens(request: web.Request) -> web.Response:
    """All tokens, without their secrets."""
    limit, after = read_page(request)
    rows = await request.app[ports.STORE].enroll_tokens(after=after, limit=limit + 1)
    page, cursor = cut_page(rows, limit, lambda row: row.id)
    return answer(models.EnrollTokens([views.token_view(row) for row in page], cursor))


async def revoke_token(request: web.Request) -> web.Response:
    """Revoke a token; nodes enrolled with it stay."""
    store = request.app[ports.STORE]
    wanted = await pick_stored(store, Listed.ENROLL_TOKENS, "enrolment token", request.match_info["id"])
    token = await store.revoke_enroll_token(wanted, request.app[ports.CLOCK].time_ms())
    if token is None:
        raise not_found("enrolment token", wanted)
    return answer(views.token_view(token))


ROUTES = (
    Route(
        method="POST",
        path="/api/v1/enroll",
        handler=enroll,
        summary="A node enrols with a token's secret; asking again with the same enrollment_id is harmless",
        tag="enrolment",
        body=models.EnrollRequest,
        example=models.EnrollRequest(
            secret="the secret inside the token",  # noqa: S106 - an example
            enrollment_id="0f0b7c5e-6b1d-4a4e-9a53-5a1d7f0c2b11",
            public_key="ab" * 32,
            name="node-a",
            signature="cd" * 64,
        ),
        answers={HTTPStatus.CREATED: Answer("Known from now on", models.Enrolled)},
        problems=(HTTPStatus.UNAUTHORIZED, HTTPStatus.UNPROCESSABLE_ENTITY),
        open_=True,
    ),
    Route(
        method="POST",
        path="/api/v1/enroll-tokens",
        handler=make_token,
        summary="Make an enrolment token",
        tag="enrolment",
        role=Role.ADMIN,
        secret=True,
        body=models.EnrollTokenRequest,
        example=models.EnrollTokenRequest(uses=2, ttl_s=600),
        answers={HTTPStatus.CREATED: Answer("The token, shown this once", models.EnrollTokenMade)},
        problems=(HTTPStatus.UNPROCESSABLE_ENTITY,),
    ),
    Route(
        method="GET",
        path="/api/v1/enroll-tokens",
        handler=list_tokens,
        summary="All enrolment tokens, without their secrets",
        tag="enrolment",
        role=Role.OPERATOR,
        answers={HTTPStatus.OK: Answer("A page of tokens", models.EnrollTokens)},
        problems=(HTTPStatus.UNPROCESSABLE_ENTITY,),
        parameters=PAGE_PARAMETERS,
    ),
    Route(
        method="DELETE",
        path="/api/v1/enroll-tokens/{id}",
        handler=revoke_token,
        summary="Revoke an enrolment token",
        tag="enrolment",
        role=Role.ADMIN,
        answers={HTTPStatus.OK: Answer("Revoked", models.EnrollTokenView)},
        problems=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    ),
)
