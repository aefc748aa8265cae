"""The document is of the routes there are, and of the answers they give."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from hub import api
from tests.hub.api.conftest import Web

UNDOCUMENTED = {("GET", "/agent"), ("HEAD", "/agent")}
"""The agents' WebSocket: docs/protocol.md is its document."""


@pytest.fixture
async def document(web: Web) -> Any:
    return (await web.ask("GET", "/api/v1/openapi.json")).json


async def test_every_route_is_documented_and_every_chapter_is_a_route(web: Web, document: Any) -> None:
    routes = {(route.method, route.resource.canonical) for route in web.app.router.routes() if route.resource}
    chapters = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    assert routes - UNDOCUMENTED == chapters


async def test_what_an_address_opens_to_is_said(document: Any) -> None:
    for route in api.ROUTES:
        operation = document["paths"][route.path][route.method.lower()]
        assert (operation.get("security") == []) == route.open_
        assert operation.get("x-role") == (None if route.open_ else route.least.value)


def test_the_list_for_people_has_every_address() -> None:
    listed = (Path(__file__).parents[3] / "docs" / "api.md").read_text().split("## Every address")[1]
    rows = [
        f"| {route.method} | `{route.path}` | {'-' if route.open_ else route.least.value} | {route.summary} |"
        for route in api.ROUTES
    ]
    table = "\n".join(rows)
    assert table in listed, f"docs/api.md should end with these rows:\n{table}"


async def test_names_of_operations_are_unique_and_references_resolve(document: Any) -> None:
    operations = [operation["operationId"] for item in document["paths"].values() for operation in item.values()]
    assert len(operations) == len(set(operations)) == len(api.ROUTES)

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if "$ref" in value:
                name = value["$ref"].removeprefix("#/components/schemas/")
                assert name in document["components"]["schemas"]
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(document)


async def test_path_parameters_are_declared(document: Any) -> None:
    for path, item in document["paths"].items():
        wanted = {part[1:-1] for part in path.split("/") if part.startswith("{")}
        for operation in item.values():
            assert {one["name"] for one in operation["parameters"] if one["in"] == "path"} == wanted


def test_examples_are_bodies_that_would_be_taken() -> None:
    bodies = [route for route in api.ROUTES if route.body is not None]
    assert bodies
    for route in bodies:
        assert route.body is not None
        assert msgspec.json.decode(msgspec.json.encode(route.example), type=route.body) == route.example


def fits(document: Any, schema: Any, value: Any) -> bool:
    """Whether a value is of a schema: as much of JSON Schema as our document uses."""
    if "$ref" in schema:
        return fits(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], value)
    if "anyOf" in schema:
        return any(fits(document, one, value) for one in schema["anyOf"])
    kinds: dict[Any, type | tuple[type, ...]] = {
        "object": dict,
        "array": list,
        "string": str,
        "boolean": bool,
        "null": type(None),
        "integer": int,
        "number": (int, float),
        None: object,
    }
    if not isinstance(value, kinds[schema.get("type")]):
        return False
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        extra = schema.get("additionalProperties", True)
        return all(name in value for name in schema.get("required", [])) and all(
            fits(document, properties[name], item)
            if name in properties
            else fits(document, extra if isinstance(extra, dict) else {}, item) and (extra is not False)
            for name, item in value.items()
        )
    return all(fits(document, schema.get("items", {}), item) for item in value) if isinstance(value, list) else True


async def test_answers_are_of_their_schemas(web: Web, document: Any) -> None:
    peer = await web.hub.enroll("node-a")
    async with peer.connect():
        await web.register()
        job = await web.submit()
        for path in (
            "/healthz",
            "/api/v1/nodes",
            "/api/v1/nodes/{id}",
            "/api/v1/nodes/{id}/events",
            "/api/v1/circuits",
            "/api/v1/jobs",
            "/api/v1/jobs/{id}",
            "/api/v1/enroll-tokens",
        ):
            real = path.replace("nodes/{id}", f"nodes/{peer.id}").replace("jobs/{id}", f"jobs/{job['id']}")
            reply = await web.ask("GET", real)
            schema = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            assert reply.status == 200, reply.body
            assert fits(document, schema, reply.json), (path, reply.json)
    reply = await web.ask("GET", "/api/v1/jobs/nothing")
    schema = document["paths"]["/api/v1/jobs/{id}"]["get"]["responses"]["404"]["content"]["application/problem+json"]
    assert fits(document, schema["schema"], reply.json)
