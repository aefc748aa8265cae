"""The OpenAPI 3.1 document, made from the very table the routes are made from."""

import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from aiohttp import web

from hub.api import errors, idempotency, models
from hub.api.errors import ProblemBody
from hub.api.live import LIVE_MODELS
from hub.api.log_views import LOG_MODELS
from hub.api.route import JSON, Answer, Parameter, Route, unless_known

REFERENCE = "#/components/schemas/{name}"
ALWAYS = (HTTPStatus.BAD_REQUEST, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.INTERNAL_SERVER_ERROR)
"""Problems any route may answer; 429 is for too many wrong credentials."""
CLOSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.MISDIRECTED_REQUEST)
"""Problems any route with a credential may answer; 421 goes to browsers sent here under another name."""
KEYED = (HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY)
KEY = Parameter(
    idempotency.HEADER,
    "asked again within a day with the same key, it is not done again but answered as before",
    where="header",
    schema={"type": "string", "minLength": 1, "maxLength": idempotency.KEY_CHARS_MAX},
)
BODY_PROBLEMS = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
LOADED = HTTPStatus.SERVICE_UNAVAILABLE
PARAMETER = re.compile(r"\{(\w+)\}")
PATH_SCHEMAS = {"sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"}}
DESCRIPTION = (
    "Errors are application/problem+json (RFC 9457). `code` is a word, or the exit code 2 (malformed file) or "
    "3 (files that do not belong together). Listings are paged: pass `next` as `after`. `x-role` is the least role an "
    "address opens to. A browser's changes need the header X-Provewire, with any value."
)


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The document of these routes."""
    kinds: list[type] = [ProblemBody, *LIVE_MODELS, *LOG_MODELS]
    for route in routes:
        kinds += [item.model for item in route.answers.values() if item.model is not None]
        kinds += [route.body] if route.body is not None else []
    references, schemas = msgspec.json.schema_components(dict.fromkeys(kinds), ref_template=REFERENCE)
    by_kind = dict(zip(dict.fromkeys(kinds), references, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Provewire hub", "version": models.VERSION, "description": DESCRIPTION},
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "an API token or the admin token; for a job's inputs also its node's fetch token",
                },
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "provewire_...",
                    "description": "a browser's session; the name ends in twelve digits of the hub's id",
                },
            },
        },
    }


def _operation(route: Route, by_kind: dict[type, dict[str, Any]]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()}_{re.sub(r'[^a-z0-9]+', '_', route.path.lower()).strip('_') or 'page'}",
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": [*_path_parameters(route.path), *_parameters(route)],
        "responses": {str(int(status)): _response(item, by_kind) for status, item in route.answers.items()},
    }
    for status in sorted(_problem_statuses(route)):
        operation["responses"][str(int(status))] = {
            "description": HTTPStatus(status).phrase,
            "content": {errors.CONTENT_TYPE: {"schema": by_kind[ProblemBody]}},
        }
    if route.open_:
        operation["security"] = []
    else:
        operation["x-role"] = route.least.value
    if route.body is not None:
        content: dict[str, Any] = {"schema": by_kind[route.body]}
        if route.example is not None:
            content["example"] = msgspec.to_builtins(route.example)
        operation["requestBody"] = {"required": True, "content": {JSON: content}}
    elif route.media is not None:
        operation["requestBody"] = {"required": True, "content": {route.media: {}}}
    return operation


def _problem_statuses(route: Route) -> set[int]:
    statuses = {*route.problems, *ALWAYS, LOADED}
    if not route.open_:
        statuses |= {*CLOSED}
    if _keyed(route):
        statuses |= {*KEYED, HTTPStatus.REQUEST_ENTITY_TOO_LARGE}
    if route.body is not None:
        statuses |= {*BODY_PROBLEMS, HTTPStatus.UNPROCESSABLE_ENTITY}
    elif route.media is not None:
        statuses |= {HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE}
    if route.method not in {"GET", "HEAD"}:
        statuses |= {HTTPStatus.FORBIDDEN}
    return {*statuses} - {*route.answers}


def _response(answer: Answer, by_kind: dict[type, dict[str, Any]]) -> dict[str, Any]:
    response: dict[str, Any] = {"description": answer.description}
    if answer.headers:
        response["headers"] = {name: {"schema": {"type": "string"}} for name in answer.headers}
    if answer.model is not None:
        response["content"] = {JSON: {"schema": by_kind[answer.model]}}
    elif answer.media is not None:
        response["content"] = {answer.media: {}}
    for media in answer.also:
        response["content"][media] = {}
    return response


def _path_parameters(path: str) -> Iterable[dict[str, Any]]:
    return (
        {"name": name, "in": "path", "required": True, "schema": PATH_SCHEMAS.get(name, {"type": "string"})}
        for name in PARAMETER.findall(path)
    )


def _parameters(route: Route) -> Iterable[dict[str, Any]]:
    return (
        {"name": item.name, "in": item.where, "description": item.description, "schema": dict(item.schema)}
        for item in (*route.parameters, *((KEY,) if _keyed(route) else ()))
    )


def _keyed(route: Route) -> bool:
    return route.method == "POST" and route.keyed and not route.open_


def serving(routes: Sequence[Route]) -> Route:
    """The route that serves the document, itself included."""
    encoded: list[bytes] = []

    async def serve(request: web.Request) -> web.Response:
        return unless_known(request, web.Response(body=encoded[0], content_type=JSON))

    own = Route(
        method="GET",
        path="/api/v1/openapi.json",
        handler=serve,
        summary="This document",
        tag="meta",
        answers={
            HTTPStatus.OK: Answer("OpenAPI 3.1", media=JSON, headers=("ETag",)),
            HTTPStatus.NOT_MODIFIED: Answer("The client has it"),
        },
    )
    encoded.append(msgspec.json.encode(document([*routes, own])))
    return own
