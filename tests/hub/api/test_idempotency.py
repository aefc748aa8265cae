"""A POST with a key is done once, whatever happens to its answer."""

import asyncio
from typing import Any

import pytest

from hub import ports
from hub.access.roles import Role
from hub.api import idempotency
from tests.hub.api.conftest import Reply, Start, Web
from tests.hub.rig import FakeClock

USER = {"name": "ada", "role": "viewer", "password": "correct horse battery"}


async def post(web: Web, path: str, key: str, headers: dict[str, str] | None = None, **more: Any) -> Reply:
    return await web.ask("POST", path, headers={"Idempotency-Key": key, **(headers or {})}, **more)


async def test_asked_again_it_is_answered_as_before_and_not_done_again(web: Web) -> None:
    first = await post(web, "/api/v1/users", "k1", json=USER)
    assert first.status == 201
    again = await post(web, "/api/v1/users", "k1", json=USER)
    assert (again.status, again.body, again.headers["Location"]) == (201, first.body, first.headers["Location"])
    assert again.headers["Content-Type"] == first.headers["Content-Type"]
    assert again.headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.headers
    assert len((await web.ask("GET", "/api/v1/users")).json["users"]) == 1
    done = [one for one in (await web.ask("GET", "/api/v1/audit")).json["entries"] if one["refused"] is None]
    assert len(done) == 1, "what was not done again is not written down again"


async def test_another_body_with_the_same_key_is_refused(web: Web) -> None:
    await post(web, "/api/v1/users", "k1", json=USER)
    other = await post(web, "/api/v1/users", "k1", json={**USER, "name": "bob"})
    assert (other.status, other.code) == (422, "idempotency_conflict")


async def test_a_key_is_its_owners_and_its_routes(web: Web) -> None:
    await post(web, "/api/v1/users", "k1", json=USER)
    program = await web.program(Role.ADMIN)
    assert (await post(web, "/api/v1/users", "k1", program, json={**USER, "name": "bob"})).status == 201
    assert (await post(web, "/api/v1/users/ada/logout", "k1")).status == 200


async def test_what_was_refused_may_be_mended_and_sent_again_with_the_same_key(web: Web) -> None:
    assert (await post(web, "/api/v1/users", "k1", json={**USER, "password": "short"})).status == 422
    assert (await post(web, "/api/v1/users", "k1", json=USER)).status == 201


async def test_secrets_are_never_kept(web: Web) -> None:
    first = await post(web, "/api/v1/tokens", "k1", json={"name": "ci", "role": "viewer"})
    assert first.status == 201
    again = await post(web, "/api/v1/tokens", "k1", json={"name": "ci", "role": "viewer"})
    assert (again.status, again.code) == (409, "idempotency_secret")
    secret = first.json["token"].encode()
    for path in web.app[ports.CONFIG].data_dir.glob("hub.sqlite*"):
        assert secret not in path.read_bytes()
        assert first.json["token"].removeprefix("pwt.").encode() not in path.read_bytes()


async def test_one_under_way_is_told_so(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(*_: object) -> str:
        begun.set()
        await go_on.wait()
        return "$argon2id$"

    monkeypatch.setattr("hub.api.users.hashed", slowly)
    first = asyncio.create_task(post(web, "/api/v1/users", "k1", json=USER))
    await begun.wait()
    second = await post(web, "/api/v1/users", "k1", json=USER)
    assert (second.status, second.code) == (409, "idempotency_running")
    go_on.set()
    assert (await first).status == 201


async def test_one_during_which_the_hub_failed_is_not_done_again(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> str:
        raise RuntimeError("a bug")

    monkeypatch.setattr("hub.api.users.hashed", fail)
    assert (await post(web, "/api/v1/users", "k1", json=USER)).status == 500
    monkeypatch.undo()
    again = await post(web, "/api/v1/users", "k1", json=USER)
    assert (again.status, again.code) == (409, "idempotency_unknown")


async def test_a_key_is_forgotten_after_a_day(start: Start) -> None:
    web = await start(still=True)
    await post(web, "/api/v1/users", "k1", json=USER)
    assert isinstance(web.clock, FakeClock)
    web.clock.move(idempotency.KEPT_MS / 1000 + 1)
    assert (await post(web, "/api/v1/users", "k1", json=USER)).code == "not_made", "the name is taken: it was tried"


@pytest.mark.parametrize("key", ["", "x" * 256, "schl\u00fcssel"])
async def test_a_key_that_is_none_is_refused(web: Web, key: str) -> None:
    reply = await post(web, "/api/v1/users", key, json=USER)
    assert (reply.status, reply.code) == (422, "invalid")


async def test_a_large_answer_is_not_kept_but_that_it_was_given_is(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "ANSWER_BYTES_MAX", 10)
    await post(web, "/api/v1/users", "k1", json=USER)
    assert (await post(web, "/api/v1/users", "k1", json=USER)).code == "idempotency_large"
