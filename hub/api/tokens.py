"""Tokens for programs: made for a role, held to areas if wanted, shown once. For admins."""

from http import HTTPStatus

import msgspec
from aiohttp import web

from hub import ports
from hub.access.records import ApiToken
from hub.access.roles import Role
from hub.access.roster import ROSTER, TooMany, digest
from hub.api import access_models as models
from hub.api import auth
from hub.api.errors import Problem, shortened
from hub.api.pick import pick
from hub.api.route import PAGE_PARAMETERS, TABLE, Answer, Route, answer, cut_page, read_body, read_page
from hub.ids import uuid7


async def make_token(request: web.Request) -> web.Response:
    """A new one; its secret is shown this once and kept nowhere."""
    wanted = await read_body(request, models.ApiTokenRequest)
    known = {route.tag for route in request.app[TABLE].values()}
    if unknown := [area for area in wanted.areas if area not in known]:
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "invalid",
            f"there is no area {shortened(unknown[0])}; there are {', '.join(sorted(known))}",
        )
    now_ms = request.app[ports.CLOCK].time_ms()
    secret = f"{auth.TOKEN_PREFIX}{auth.new_secret()}"
    token = ApiToken(
        id=uuid7(now_ms),
        name=wanted.name,
        token_hash=digest(secret),
        role=wanted.role,
        areas=tuple(dict.fromkeys(wanted.areas)),
        created_by=request[auth.IDENTITY].name,
        created_at_ms=now_ms,
        expires_at_ms=None if isinstance(wanted.ttl_s, msgspec.UnsetType) else now_ms + wanted.ttl_s * 1000,
    )
    try:
        await request.app[ROSTER].add_token(token)
    except TooMany as error:
        raise Problem(HTTPStatus.CONFLICT, "not_made", str(error)) from None
    return answer(models.ApiTokenMade(secret, token.id, token.expires_at_ms), status=HTTPStatus.CREATED)


async def list_tokens(request: web.Request) -> web.Response:
    """Every token, by id, without its secret."""
    limit, after = read_page(request)
    now_ms = request.app[ports.CLOCK].time_ms()
    tokens = [token for token in request.app[ROSTER].tokens() if token.id > after][: limit + 1]
    page, cursor = cut_page(tokens, limit, lambda token: token.id)
    return answer(models.ApiTokens([models.token_view(token, now_ms) for token in page], cursor))


async def revoke_token(request: web.Request) -> web.Response:
    """It opens nothing from now on."""
    roster = request.app[ROSTER]
    token_id = pick("token", request.match_info["id"], ((token.id, token.name) for token in roster.tokens()))
    token = await roster.revoke_token(token_id)
    assert token is not None  # noqa: S101 - picked among them
    return answer(models.token_view(token, request.app[ports.CLOCK].time_ms()))


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/tokens",
        handler=list_tokens,
        summary="Every token for programs, without its secret",
        tag="tokens",
        role=Role.ADMIN,
        answers={HTTPStatus.OK: Answer("A page of tokens", models.ApiTokens)},
        problems=(HTTPStatus.UNPROCESSABLE_ENTITY,),
        parameters=PAGE_PARAMETERS,
    ),
    Route(
        method="POST",
        path="/api/v1/tokens",
        handler=make_token,
        summary="Make a token for a program",
        tag="tokens",
        role=Role.ADMIN,
        secret=True,
        body=models.ApiTokenRequest,
        example=models.ApiTokenRequest(name="nightly proofs", role=Role.OPERATOR, areas=("jobs",), ttl_s=86_400),
        answers={HTTPStatus.CREATED: Answer("The token, shown this once", models.ApiTokenMade)},
        problems=(HTTPStatus.CONFLICT,),
    ),
    Route(
        method="DELETE",
        path="/api/v1/tokens/{id}",
        handler=revoke_token,
        summary="Revoke a token, by id, unique beginning of an id, or unique name",
        tag="tokens",
        role=Role.ADMIN,
        answers={HTTPStatus.OK: Answer("Revoked", models.ApiTokenView)},
        problems=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    ),
)
