"""People come in by name and password or by a link; a browser is held to this host and this origin; sessions end."""

from typing import Any

import pytest

from hub import ports
from hub.access.roles import Role
from hub.access.roster import ROSTER
from hub.api import login
from tests.hub.api.conftest import Reply, Start, Web
from tests.hub.rig import FakeClock

PASSWORD = "correct horse battery"  # noqa: S105 - a test's
EVIL = ({"Origin": "https://elsewhere.example"}, {"Origin": "null"}, {"Origin": ""})


async def code_of(web: Web, purpose: str) -> str:
    """A fresh link's code."""
    reply = await web.ask("POST", f"/api/v1/{purpose}-links")
    assert reply.status == 201
    beginning, _, code = reply.json["url"].rpartition("/")
    assert beginning == f"{web.app[ports.BASE_URL][0]}/#/{purpose}"
    return str(code)


async def browse(web: Web, method: str, path: str, headers: dict[str, str] | None = None, **more: Any) -> Reply:
    """As a browser: with its cookies and without the admin token."""
    return await web.ask(method, path, stranger=True, headers={**web.from_page, **(headers or {})}, **more)


async def set_up(web: Web, name: str = "ada") -> Reply:
    body = {"code": await code_of(web, "setup"), "name": name, "password": PASSWORD}
    return await browse(web, "POST", "/api/v1/setup", json=body)


async def log_in(web: Web, name: str = "ada", password: str = PASSWORD, headers: dict[str, str] | None = None) -> Reply:
    return await browse(web, "POST", "/api/v1/login", headers, json={"name": name, "password": password})


async def test_the_first_admin_is_set_up_by_a_link_and_logs_in_again(web: Web) -> None:
    made = await set_up(web)
    assert made.status == 201
    assert (made.json["name"], made.json["role"], made.json["kind"]) == ("ada", "admin", "user")
    cookie = made.headers["Set-Cookie"]
    assert cookie.startswith(f"{web.cookie}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    me = await browse(web, "GET", "/api/v1/me")
    assert me.json == made.json
    assert (await browse(web, "POST", "/api/v1/logout")).status == 204
    assert (await browse(web, "GET", "/api/v1/me")).status == 401
    again = await log_in(web)
    assert (again.status, again.json["name"]) == (200, "ada")
    [user] = (await web.ask("GET", "/api/v1/users")).json["users"]
    assert user["last_login_at_ms"] >= user["created_at_ms"]
    assert (await log_in(web, password=PASSWORD + "x")).code == "credential_unknown"
    assert (await log_in(web, name="nobody")).code == "credential_unknown"


async def test_a_setup_link_is_good_once_and_for_its_time(start: Start) -> None:
    web = await start(still=True)
    code = await code_of(web, "setup")
    body = {"code": code, "name": "ada", "password": PASSWORD}
    short = await browse(web, "POST", "/api/v1/setup", json={**body, "password": "short"})
    assert (short.status, short.code) == (422, "invalid")
    assert (await browse(web, "POST", "/api/v1/setup", json=body)).status == 201
    assert (await browse(web, "POST", "/api/v1/setup", json={**body, "name": "eve"})).code == "code_unknown"
    taken = {**body, "code": await code_of(web, "setup")}
    assert (await browse(web, "POST", "/api/v1/setup", json=taken)).code == "not_made"
    assert (await browse(web, "POST", "/api/v1/setup", json={**taken, "name": "bob"})).status == 201
    late = {**body, "code": await code_of(web, "setup"), "name": "eve"}
    assert isinstance(web.clock, FakeClock)
    web.clock.move(login.SETUP_TTL_S + 1)
    assert (await browse(web, "POST", "/api/v1/setup", json=late)).code == "code_unknown"


async def test_a_login_link_is_good_once_for_its_time_and_for_nothing_else(start: Start) -> None:
    web = await start(still=True, login_code_ttl_s=60)
    code = await code_of(web, "login")
    body = {"code": code, "name": "eve", "password": PASSWORD}
    assert (await browse(web, "POST", "/api/v1/setup", json=body)).code == "code_unknown"
    inside = await browse(web, "POST", "/api/v1/login", json={"code": code})
    assert (inside.status, inside.json["kind"], inside.json["role"]) == (200, "link", "admin")
    assert (await browse(web, "GET", "/api/v1/nodes")).status == 200
    assert (await browse(web, "POST", "/api/v1/login", json={"code": code})).code == "code_unknown"
    late = await code_of(web, "login")
    assert isinstance(web.clock, FakeClock)
    web.clock.move(61)
    assert (await browse(web, "POST", "/api/v1/login", json={"code": late})).code == "code_unknown"


async def test_a_session_ends_when_it_is_idle_and_with_its_time(start: Start) -> None:
    web = await start(still=True, browser_idle_s=600, browser_session_ttl_s=3600)
    clock = web.clock
    assert isinstance(clock, FakeClock)
    await set_up(web)
    for _ in range(5):
        clock.move(599)
        assert (await browse(web, "GET", "/api/v1/me")).status == 200
    clock.move(3600 - 5 * 599)
    over = await browse(web, "GET", "/api/v1/me")
    assert (over.status, over.code) == (401, "session_over")
    await log_in(web)
    clock.move(601)
    assert (await browse(web, "GET", "/api/v1/me")).code == "session_over"


async def test_logging_out_everywhere_ends_every_session_of_ones_own(web: Web) -> None:
    await set_up(web)
    web.client.session.cookie_jar.clear()
    await log_in(web, headers={"User-Agent": "Second browser"})
    other = await web.person(Role.VIEWER)
    sessions = (await browse(web, "GET", "/api/v1/me/sessions")).json["sessions"]
    assert [session["this"] for session in sessions] == [True, False]
    ended = await browse(web, "DELETE", f"/api/v1/me/sessions/{sessions[1]['id']}")
    assert ended.status == 204
    assert (await browse(web, "DELETE", f"/api/v1/me/sessions/{sessions[1]['id']}")).status == 404
    assert len((await browse(web, "GET", "/api/v1/me/sessions")).json["sessions"]) == 1
    assert (await browse(web, "POST", "/api/v1/logout-everywhere")).status == 204
    assert (await browse(web, "GET", "/api/v1/me")).status == 401
    assert (await browse(web, "GET", "/api/v1/me", other)).status == 200


async def test_a_new_password_ends_the_other_sessions(web: Web) -> None:
    await set_up(web)
    roster = web.app[ROSTER]
    user = roster.user_named("ada")
    assert user is not None
    await roster.log_in(roster.new_session("another", user.id, "192.0.2.1", "elsewhere"))
    wrong = await browse(web, "POST", "/api/v1/me/password", json={"old": "not the one", "new": PASSWORD + "2"})
    assert wrong.status == 401
    changed = await browse(web, "POST", "/api/v1/me/password", json={"old": PASSWORD, "new": PASSWORD + "2"})
    assert changed.status == 204
    assert (await browse(web, "GET", "/api/v1/me")).status == 200
    assert roster.by_session("another") is None
    assert (await log_in(web)).status == 401
    assert (await log_in(web, password=PASSWORD + "2")).status == 200
    by_token = await web.ask("POST", "/api/v1/me/password", json={"old": PASSWORD, "new": PASSWORD})
    assert by_token.code == "no_password"


async def test_sessions_and_users_outlive_the_hub(start: Start) -> None:
    web = await start()
    await set_up(web)
    secret = next(morsel.value for morsel in web.client.session.cookie_jar if morsel.key == web.cookie)
    await web.client.close()
    again = await start()
    cookie = {"Cookie": f"{again.cookie}={secret}"}
    assert (await again.ask("GET", "/api/v1/me", stranger=True, headers=cookie)).json["name"] == "ada"
    assert (await log_in(again)).status == 200


# --- whose page asks


async def test_another_sites_page_neither_logs_in_nor_changes_anything(web: Web) -> None:
    await set_up(web)
    for headers in EVIL:
        login_ = await browse(web, "POST", "/api/v1/login", headers, json={"name": "ada", "password": PASSWORD})
        assert (login_.status, login_.code) == (403, "origin_refused")
        change = await browse(web, "POST", "/api/v1/enroll-tokens", headers, json={})
        assert (change.status, change.code) == (403, "origin_refused")
    cross = await browse(web, "POST", "/api/v1/enroll-tokens", {"Sec-Fetch-Site": "cross-site"}, json={})
    assert cross.code == "origin_refused"
    origin = {"Origin": web.app[ports.BASE_URL][0]}
    plain = await web.ask("POST", "/api/v1/enroll-tokens", stranger=True, headers=origin, json={})
    assert (plain.status, plain.code) == (403, "change_header_missing")
    form = await browse(web, "POST", "/api/v1/enroll-tokens", data={"uses": "1"})
    assert form.code == "not_json"
    assert (await browse(web, "POST", "/api/v1/enroll-tokens", json={})).status == 201


async def test_a_browser_sent_here_under_another_name_is_refused(web: Web) -> None:
    cookie = await web.person(Role.VIEWER)
    for host in ("evil.example", f"evil.example:{web.client.port}", "127.0.0.2.evil.example"):
        refused = await browse(web, "GET", "/api/v1/nodes", {**cookie, "Host": host})
        assert (refused.status, refused.code) == (421, "host_unknown")
        body = {"name": "ada", "password": PASSWORD}
        assert (await browse(web, "POST", "/api/v1/login", {"Host": host}, json=body)).code == "host_unknown"
    local = {**cookie, "Host": f"localhost:{web.client.port}"}
    assert (await browse(web, "GET", "/api/v1/nodes", local)).status == 200


async def test_the_public_address_is_a_name_of_ours_and_its_cookie_is_bound_to_it(start: Start) -> None:
    web = await start(public_url="https://hub.example")
    web.app[ports.BASE_URL][:] = ["https://hub.example"]
    there = {"Host": "hub.example", "Origin": "https://hub.example", "X-Provewire": "1"}
    code = await code_of(web, "login")
    unsafe = {**there, "Origin": "http://hub.example"}
    refused = await web.ask("POST", "/api/v1/login", stranger=True, headers=unsafe, json={"code": code})
    assert refused.code == "origin_refused"
    reply = await web.ask("POST", "/api/v1/login", stranger=True, headers=there, json={"code": code})
    assert reply.status == 200
    assert reply.headers["Set-Cookie"].startswith("__Host-provewire_")
    assert "Secure" in reply.headers["Set-Cookie"]


@pytest.mark.parametrize("value", ["made-up", "x" * 4000, "a\u00e9"])
async def test_a_made_up_cookie_opens_nothing(web: Web, value: str) -> None:
    reply = await browse(web, "GET", "/api/v1/nodes", {"Cookie": f"{web.cookie}={value}"})
    assert reply.status == 401


@pytest.mark.parametrize("body", [{}, {"name": "ada"}, {"password": PASSWORD}, {"name": "a" * 65, "password": "x"}])
async def test_half_a_credential_is_none(web: Web, body: dict[str, str]) -> None:
    assert (await browse(web, "POST", "/api/v1/login", json=body)).status == 422


# --- guessing


async def test_an_address_that_guesses_is_told_to_wait_and_then_may_go_on(start: Start) -> None:
    web = await start(still=True)
    await set_up(web)
    statuses = [(await log_in(web, password=f"guess number {n}")).status for n in range(12)]
    assert statuses == [401] * 10 + [429] * 2
    refused = await log_in(web)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "20")
    assert isinstance(web.clock, FakeClock)
    web.clock.move(21)
    assert (await log_in(web)).status == 200


async def test_an_account_guessed_at_from_everywhere_delays_strangers_and_never_its_owner(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = await start(still=True)
    waited: list[float] = []

    async def wait(delay_s: float) -> None:
        waited.append(delay_s)

    web.app[login.DELAYS].sleep = wait
    await set_up(web)
    assert (await log_in(web)).status == 200  # from here on this address is the owner's
    here = "127.0.0.1"
    monkeypatch.setattr("hub.api.auth.peer", lambda _request: here)
    for number in range(40):
        here = f"198.51.100.{number}"
        assert (await log_in(web, password=f"guess number {number}")).status == 401
    assert waited
    assert all(0 < delay_s <= 8 for delay_s in waited)
    assert max(waited) > 4
    waited.clear()
    here = "127.0.0.1"
    assert (await log_in(web)).status == 200
    assert waited == []
    here = "203.0.113.9"  # the operator, from somewhere new, while it goes on
    assert (await log_in(web)).status == 200
    assert len(waited) == 1
    here = "203.0.113.10"
    inside = await browse(web, "POST", "/api/v1/login", json={"code": await code_of(web, "login")})
    assert inside.status == 200
    assert len(waited) == 1
