"""Whatever ends a request early is told in one envelope, and tells nothing that is not the client's."""

import asyncio
from typing import Any

import pytest
import structlog.testing
from aiohttp import web

from hub.api import artifacts
from hub.api.errors import Handler, Problem, problems, shortened
from hub.api.route import Answer, Route, register
from hub.faults import FAULTS
from hub.store.base import StoreUnavailable
from tests.hub.api.conftest import Reply, Web


async def ask(aiohttp_client: Any, handler: Handler, deadline_s: float = 30.0) -> Reply:
    """What a handler's end becomes."""
    app = web.Application(middlewares=[problems])
    route = Route("GET", "/{secret}", handler, "", "", {200: Answer("")}, deadline_s=deadline_s)
    register(app, [route])
    client = await aiohttp_client(app)
    async with client.get("/hunter2") as answer:
        return Reply(answer.status, answer.headers, await answer.read())


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Problem(409, "taken", "it is taken"), 409, "taken"),
        (Problem(422, 3, "they do not belong together"), 422, 3),
        (web.HTTPRequestEntityTooLarge(max_size=1, actual_size=2), 413, "body_too_large"),
        (web.HTTPNotFound(), 404, "not_found"),
        (web.HTTPGone(), 410, "http_410"),
        (TimeoutError(), 503, "deadline"),
        (StoreUnavailable("INSERT INTO x VALUES ('hunter2')"), 503, "store_unavailable"),
        (ValueError("hunter2"), 500, "internal"),
    ],
)
async def test_every_end_has_the_same_shape(aiohttp_client: Any, error: Exception, status: int, code: Any) -> None:
    async def handler(_request: web.Request) -> web.StreamResponse:
        raise error

    before = FAULTS.counts().get("request", 0)
    with structlog.testing.capture_logs() as logs:
        reply = await ask(aiohttp_client, handler)
    assert (reply.status, reply.code) == (status, code)
    # Only a fault of our own is counted as one.
    assert FAULTS.counts().get("request", 0) - before == (code == "internal")
    assert b"hunter2" not in reply.body
    assert all("hunter2" not in str({**line, "exc_info": ""}) for line in logs)


async def test_a_handler_over_its_deadline_is_stopped(aiohttp_client: Any) -> None:
    stopped = asyncio.Event()

    async def handler(_request: web.Request) -> web.StreamResponse:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return web.Response()

    reply = await ask(aiohttp_client, handler, deadline_s=0.01)
    assert (reply.status, reply.code) == (503, "deadline")
    assert reply.headers["Retry-After"]
    assert stopped.is_set()


async def test_an_upload_that_stalls_is_given_up(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "STALL_S", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", web.client.port)
    request = f"PUT /api/v1/artifacts/{'a' * 64} HTTP/1.1\r\nHost: x\r\nAuthorization: {web.admin['Authorization']}\r\n"
    writer.write(f"{request}Content-Length: 1000\r\n\r\nonly this".encode())
    assert b"408" in await reader.readline()
    writer.close()
    await writer.wait_closed()
    assert web.app[artifacts.UPLOADS]._value == artifacts.UPLOADS_MAX


async def test_a_download_nobody_takes_is_given_up(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "STALL_S", 0.05)
    digest = await web.upload(b"x" * 16 * 2**20)
    reader, writer = await asyncio.open_connection("127.0.0.1", web.client.port, limit=1024)
    request = f"GET /api/v1/artifacts/{digest} HTTP/1.1\r\nHost: x\r\nAuthorization: {web.admin['Authorization']}\r\n"
    writer.write(f"{request}\r\n".encode())
    assert b"200" in await reader.readline()
    # This end's buffers fill up; then nothing moves until the hub breaks the connection.
    server = web.client.server.runner.server
    async with asyncio.timeout(20):
        while len(server.connections) > 1:
            await web.ask("GET", "/healthz")
    writer.transport.abort()


def test_a_clients_text_is_cut_and_quoted() -> None:
    assert shortened("a\nb") == "'a\\nb'"
    assert len(shortened("x" * 10_000)) < 100
