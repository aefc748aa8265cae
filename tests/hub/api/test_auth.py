"""Nothing is told, and nothing is done, without a credential that opens it."""

import asyncio
import re
from typing import Any

import pytest
import structlog.testing

from hub import api
from hub.access.roles import Role
from hub.access.roster import ROSTER
from hub.api import artifacts
from hub.api.auth import Limiter
from hub.api.route import Route
from tests.hub.api.conftest import Start, Web
from tests.hub.rig import WAIT_S, FakeClock, JumpingClock

OPEN = {
    ("GET", "/assets/{name}"),
    ("GET", "/favicon.svg"),
    ("GET", "/manifest.webmanifest"),
    ("GET", "/healthz"),
    ("POST", "/api/v1/login"),
    ("POST", "/api/v1/setup"),
    ("POST", "/api/v1/enroll"),
}
"""Whatever else is to answer strangers has to be argued for here."""


def concrete(path: str) -> str:
    for name, value in {"sha256": "a" * 64, "id": "01900000-0000-7000-8000-000000000000"}.items():
        path = path.replace(f"{{{name}}}", value)
    return re.sub(r"\{\w+\}", "0" * 12, path)


def test_what_answers_strangers_is_known() -> None:
    assert {(route.method, route.path) for route in api.ROUTES if route.open_} == OPEN


async def test_a_closed_route_answers_no_stranger(web: Web) -> None:
    for route in api.ROUTES:
        if route.open_:
            continue
        reply = await web.ask(route.method, concrete(route.path), stranger=True)
        assert reply.status == 401, route.path
        if route.method != "HEAD":
            assert reply.code == "credential_missing"
        assert reply.headers["WWW-Authenticate"].startswith("Bearer")


async def status_of(web: Web, route: Route, headers: dict[str, str]) -> tuple[int, str]:
    """What a route answers; the code only of a refusal, for a stream has no end to wait for."""
    path = concrete(route.path)
    async with web.client.request(route.method, path, headers=headers, allow_redirects=False) as answer:
        if answer.status != 403 or route.method == "HEAD":
            return answer.status, ""
        return answer.status, (await answer.json(content_type=None))["code"]


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("by", ["browser", "token"])
async def test_each_route_opens_to_those_it_says_and_to_nobody_else(web: Web, role: Role, by: str) -> None:
    for route in api.ROUTES:
        headers = await (web.person(role) if by == "browser" else web.program(role))
        status, code = await status_of(web, route, headers)
        assert status != 401 or route.open_, route.path
        if role.at_least(route.least) or route.open_:
            assert code != "role_refused", (route.method, route.path)
        else:
            assert (status, code) in {(403, "role_refused"), (403, "")}, (route.method, route.path)


def test_routes_ask_for_the_roles_that_are_promised() -> None:
    for route in api.ROUTES:
        if route.tag in {"users", "tokens", "audit"}:
            assert route.least is Role.ADMIN, route.path
        if route.method not in {"GET", "HEAD"} and route.tag not in {"me", "live"} and not route.open_:
            assert route.least.at_least(Role.OPERATOR), route.path


async def test_a_token_is_held_to_its_areas(web: Web) -> None:
    headers = await web.program(Role.OPERATOR, "jobs", "circuits")
    for path, status in {"/api/v1/jobs": 200, "/api/v1/circuits": 200, "/api/v1/nodes": 403, "/metrics": 403}.items():
        reply = await web.ask("GET", path, stranger=True, headers=headers)
        assert reply.status == status, path
        assert status == 200 or reply.code == "area_refused"
    assert (await web.ask("GET", "/api/v1/me", stranger=True, headers=headers)).status == 200


async def test_a_token_ends_with_its_time_or_when_it_is_revoked(start: Start) -> None:
    web = await start(still=True)
    made = await web.ask("POST", "/api/v1/tokens", json={"name": "ci", "role": "viewer", "ttl_s": 60})
    assert made.status == 201
    bearer = {"Authorization": f"Bearer {made.json['token']}"}
    assert (await web.ask("GET", "/api/v1/me", stranger=True, headers=bearer)).json["name"] == "ci"
    [listed] = (await web.ask("GET", "/api/v1/tokens")).json["tokens"]
    assert listed["used_at_ms"] == web.clock.time_ms()
    assert (listed["used_from"], listed["created_by"], listed["good"]) == ("127.0.0.1", "admin token", True)
    assert "token" not in listed
    assert isinstance(web.clock, FakeClock)
    web.clock.move(61)
    assert (await web.ask("GET", "/api/v1/me", stranger=True, headers=bearer)).code == "credential_unknown"
    ever = (await web.ask("POST", "/api/v1/tokens", json={"name": "ever", "role": "viewer"})).json
    bearer = {"Authorization": f"Bearer {ever['token']}"}
    assert (await web.ask("GET", "/api/v1/me", stranger=True, headers=bearer)).status == 200
    assert (await web.ask("DELETE", "/api/v1/tokens/ever")).json["good"] is False
    assert (await web.ask("GET", "/api/v1/me", stranger=True, headers=bearer)).status == 401
    await web.app[ROSTER].note()
    kept = await web.hub.store.access.api_tokens()
    assert [token.name for token in kept if token.used_at_ms] == ["ci", "ever"]
    unknown = await web.ask("POST", "/api/v1/tokens", json={"name": "x", "role": "viewer", "areas": ["nothing"]})
    assert (unknown.status, unknown.code) == (422, "invalid")


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
        code = (await web.ask("POST", "/api/v1/login-links")).json["url"].rpartition("/")[2]
        body = {"code": code}
        await web.ask("POST", "/api/v1/login", stranger=True, headers=web.from_page, json=body)
        password = {"name": "ada", "password": "a-guessed-password"}
        await web.ask("POST", "/api/v1/login", stranger=True, headers=web.from_page, json=password)
    assert logs
    assert "a-guessed" not in str(logs)
    assert code not in str(logs)
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


def test_no_address_takes_a_secret() -> None:
    """Addresses end up in logs, histories and Referer headers."""
    secret = re.compile(r"token|code|secret|password|key", re.IGNORECASE)
    for route in api.ROUTES:
        assert not secret.search(" ".join(re.findall(r"\{(\w+)\}", route.path))), route.path
        for parameter in route.parameters:
            assert parameter.where != "query" or not secret.search(parameter.name), route.path


@pytest.mark.parametrize("path", ["/api/v1/live", "/api/v1/nodes/{id}/logs?follow=1&format=sse"])
@pytest.mark.parametrize("by", ["browser", "token"])
async def test_a_stream_ends_with_what_opened_it(
    start: Start, monkeypatch: pytest.MonkeyPatch, path: str, by: str
) -> None:
    clock = JumpingClock()
    web = await start(clock=clock)
    monkeypatch.setattr("hub.api.logs.BEAT_S", 0.05)
    monkeypatch.setattr("hub.api.feed.BEAT_S", 0.05)
    peer = await web.hub.enroll()
    headers = await (web.person(Role.VIEWER, "vera") if by == "browser" else web.program(Role.VIEWER))
    async with web.client.get(path.format(id=peer.id), headers=headers) as stream:
        assert stream.status == 200
        assert await stream.content.readany()
        if by == "browser":
            assert (await web.ask("POST", "/api/v1/users/vera/logout")).status == 200
        else:
            [token] = web.app[ROSTER].tokens()
            assert (await web.ask("DELETE", f"/api/v1/tokens/{token.id}")).status == 200
        clock.jump(6)
        async with asyncio.timeout(WAIT_S):
            while await stream.content.readany():
                pass
