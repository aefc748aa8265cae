"""Nothing is told, and nothing is done, without a credential that opens it."""

import asyncio
from typing import Any

import pytest
import structlog.testing

from hub import api, ports
from hub.api import artifacts
from hub.api.auth import OPEN, Limiter
from tests.hub.api.conftest import Start, Web

ROUTES = [(route.method, route.path) for route in api.ROUTES]
CLOSED = [(method, path) for method, path in ROUTES if path not in OPEN]


def concrete(path: str) -> str:
    return path.replace("{sha256}", "a" * 64).replace("{id}", "01900000-0000-7000-8000-000000000000")


@pytest.mark.parametrize(("method", "path"), CLOSED)
async def test_a_closed_route_answers_no_stranger(web: Web, method: str, path: str) -> None:
    reply = await web.ask(method, concrete(path), stranger=True)
    assert reply.status == 401
    if method != "HEAD":
        assert reply.code == "credential_missing"
    assert reply.headers["WWW-Authenticate"].startswith("Bearer")


async def test_an_address_that_is_nothing_tells_a_stranger_nothing(web: Web) -> None:
    assert (await web.ask("GET", "/api/v1/nothing", stranger=True)).status == 401
    assert (await web.ask("GET", "/api/v1/nothing")).code == "not_found"
    wrong = await web.ask("DELETE", "/api/v1/nodes")
    assert (wrong.status, wrong.code) == (405, "method_not_allowed")
    assert wrong.headers["Allow"] == "GET"


@pytest.mark.parametrize(
    "header",
    ["Bearer wrong", "Bearer ", "Basic YWRtaW46YWRtaW4=", "wrong", "Bearer " + "x" * 600, "Bearer schl\u00fcssel"],
)
async def test_a_wrong_credential_is_no_credential(web: Web, header: str) -> None:
    reply = await web.ask("GET", "/api/v1/nodes", stranger=True, headers={"Authorization": header})
    assert reply.status == 401
    assert reply.code in {"credential_unknown", "credential_malformed"}


async def test_guessing_is_slowed_down_and_the_right_token_still_works(start: Start) -> None:
    web = await start(still=True)
    wrong = {"Authorization": "Bearer wrong"}
    statuses = [(await web.ask("GET", "/api/v1/nodes", stranger=True, headers=wrong)).status for _ in range(22)]
    assert statuses == [401] * 20 + [429] * 2
    assert (await web.ask("GET", "/api/v1/nodes")).status == 200


async def test_no_credential_is_logged(web: Web) -> None:
    with structlog.testing.capture_logs() as logs:
        await web.ask("GET", "/api/v1/nodes", stranger=True, headers={"Authorization": "Bearer a-guessed-token"})
        link = (await web.ask("POST", "/api/v1/login-links")).json["url"]
        await web.ask("GET", link.partition(web.app[ports.BASE_URL][0])[2], stranger=True)
    assert logs
    assert "a-guessed-token" not in str(logs)
    assert link.partition("code=")[2] not in str(logs)
    assert web.admin["Authorization"].removeprefix("Bearer ") not in str(logs)


async def test_a_fetch_token_opens_the_inputs_of_its_job_while_it_is_leased(web: Web) -> None:
    circuit = await web.register()
    peer = await web.hub.enroll()
    async with peer.connect() as connection:
        job = await web.submit()
        assigned = await until_assigned(connection)
        bearer = {"Authorization": f"Bearer {assigned.fetch_token}"}

        async def status(method: str, path: str, headers: dict[str, str] = bearer) -> int:
            return (await web.ask(method, path, stranger=True, headers=headers)).status

        witness = assigned.inputs[1].sha256
        other = await web.upload(b"another job's input")
        assert assigned.inputs[0].sha256 == circuit["id"]
        assert await status("GET", f"/api/v1/artifacts/{circuit['id']}") == 200
        assert await status("HEAD", f"/api/v1/artifacts/{witness}") == 200
        assert await status("GET", f"/api/v1/artifacts/{other}") == 403
        assert await status("PUT", f"/api/v1/artifacts/{witness}") == 403
        assert await status("GET", "/api/v1/nodes") == 403
        assert await status("GET", f"/api/v1/jobs/{job['id']}") == 403
        forged = assigned.fetch_token[:-1] + ("0" if assigned.fetch_token[-1] != "0" else "1")
        assert await status("GET", f"/api/v1/artifacts/{witness}", {"Authorization": f"Bearer {forged}"}) == 401
        parts = assigned.fetch_token.split(".")
        other_attempt = ".".join([parts[0], parts[1], "2", parts[3]])
        assert await status("GET", f"/api/v1/artifacts/{witness}", {"Authorization": f"Bearer {other_attempt}"}) == 401
        await web.ask("POST", f"/api/v1/jobs/{job['id']}/cancel")
        assert await status("GET", f"/api/v1/artifacts/{witness}") == 401


async def test_a_node_downloads_only_so_much_at_once(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each download holds a descriptor of the hub, for as long as whoever reads it likes."""
    begun, go_on = asyncio.Semaphore(0), asyncio.Event()
    send = artifacts._send

    async def slowly(*args: Any) -> None:
        begun.release()
        await go_on.wait()
        await send(*args)

    monkeypatch.setattr(artifacts, "_send", slowly)
    await web.register()
    peer = await web.hub.enroll()
    async with peer.connect() as connection, asyncio.TaskGroup() as tasks:
        await web.submit()
        assigned = await until_assigned(connection)
        bearer = {"Authorization": f"Bearer {assigned.fetch_token}"}
        path = f"/api/v1/artifacts/{assigned.inputs[1].sha256}"
        running = [
            tasks.create_task(web.ask("GET", path, stranger=True, headers=bearer))
            for _ in range(artifacts.DOWNLOADS_MAX)
        ]
        for _ in running:
            await begun.acquire()
        refused = await web.ask("GET", path, stranger=True, headers=bearer)
        assert (refused.status, refused.headers["Retry-After"]) == (429, "2")
        go_on.set()
        assert {(await task).status for task in running} == {200}
        assert (await web.ask("GET", path, stranger=True, headers=bearer)).status == 200
        assert not web.app[artifacts.DOWNLOADS]


async def until_assigned(connection: Any) -> Any:
    from wire.inputs import JobAssigned  # noqa: PLC0415 - only here

    return (await connection.until(JobAssigned)).frame


def test_a_bucket_refills_and_forgets_the_longest_quiet() -> None:
    now = [0.0]
    limiter = Limiter(per_s=1.0, burst=2.0, now_s=lambda: now[0])
    assert [limiter.take("a") for _ in range(3)] == [0.0, 0.0, 1.0]
    now[0] = 1.0
    assert limiter.take("a") == 0.0
    assert limiter.take("a") == 1.0
    for number in range(5000):
        limiter.take(str(number))
    assert limiter.take("a") == 0.0
