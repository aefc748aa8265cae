"""Browsers: a link is good once and for its time; a session is held to this host and this origin."""

from typing import Any
from urllib.parse import urlsplit

import pytest

from hub import ports
from tests.hub.api.conftest import Reply, Start, Web
from tests.hub.rig import FakeClock

HTML = {"Accept": "text/html"}


async def link(web: Web) -> str:
    reply = await web.ask("POST", "/api/v1/login-links")
    assert reply.status == 201
    parts = urlsplit(reply.json["url"])
    assert f"{parts.scheme}://{parts.netloc}" == web.app[ports.BASE_URL][0]
    return f"{parts.path}?{parts.query}"


async def logged_in(web: Web) -> str:
    """The session's secret; the client's jar holds it from now on."""
    reply = await web.ask("GET", await link(web), stranger=True, headers=HTML)
    assert reply.status == 200
    header = reply.headers["Set-Cookie"]
    assert header.startswith(f"{web.cookie}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in header.split(";")}
    return header.partition("=")[2].partition(";")[0]


def origin(web: Web) -> dict[str, str]:
    return {"Origin": web.app[ports.BASE_URL][0]}


async def browse(web: Web, method: str, path: str, headers: dict[str, str] | None = None, **more: Any) -> Reply:
    return await web.ask(method, path, stranger=True, headers=headers, **more)


async def test_a_link_logs_in_once(web: Web) -> None:
    path = await link(web)
    first = await browse(web, "GET", path, HTML)
    assert first.status == 200
    assert b'http-equiv="refresh"' in first.body
    assert (await browse(web, "GET", "/")).status == 200
    assert (await browse(web, "GET", "/api/v1/nodes")).status == 200
    web.client.session.cookie_jar.clear()
    second = await browse(web, "GET", path)
    assert (second.status, second.code) == (401, "code_unknown")
    shown = await browse(web, "GET", path, HTML)
    assert shown.status == 401
    assert b"used before" in shown.body


async def test_a_head_request_of_a_link_scanner_does_not_use_it_up(web: Web) -> None:
    path = await link(web)
    assert (await browse(web, "HEAD", path)).status == 401
    assert (await browse(web, "GET", path, HTML)).status == 200


async def test_a_link_ends_with_its_time(start: Start) -> None:
    web = await start(still=True, login_code_ttl_s=60)
    path = await link(web)
    assert isinstance(web.clock, FakeClock)
    web.clock.move(61)
    assert (await browse(web, "GET", path)).code == "code_unknown"


async def test_a_session_ends_with_its_time(start: Start) -> None:
    web = await start(still=True, browser_session_ttl_s=3600)
    await logged_in(web)
    assert isinstance(web.clock, FakeClock)
    web.clock.move(3599)
    assert (await browse(web, "GET", "/api/v1/nodes")).status == 200
    web.clock.move(2)
    over = await browse(web, "GET", "/api/v1/nodes")
    assert (over.status, over.code) == (401, "session_over")


async def test_a_browser_without_a_session_gets_the_login_page(web: Web) -> None:
    reply = await browse(web, "GET", "/", HTML)
    assert reply.status == 401
    assert b"Admin token" in reply.body
    assert "sha256-" in reply.headers["Content-Security-Policy"]
    assert "script-src" not in reply.headers["Content-Security-Policy"]
    assert (await browse(web, "GET", "/login", HTML)).status == 200


async def test_the_admin_token_logs_in_by_the_form(web: Web) -> None:
    token = web.admin["Authorization"].removeprefix("Bearer ")
    reply = await browse(web, "POST", "/login", origin(web), data={"token": f" {token}\n"})
    assert (reply.status, reply.headers["Location"]) == (303, "/")
    assert (await browse(web, "GET", "/")).status == 200


@pytest.mark.parametrize("token", ["wrong", "", "x" * 5000, "schl\u00fcssel"])
async def test_the_form_refuses_other_tokens(web: Web, token: str) -> None:
    reply = await browse(web, "POST", "/login", origin(web), data={"token": token})
    assert reply.status == 401
    assert b"not the hub&#x27;s admin token" in reply.body
    assert "Set-Cookie" not in reply.headers


async def test_another_sites_page_cannot_log_a_browser_in(web: Web) -> None:
    token = web.admin["Authorization"].removeprefix("Bearer ")
    for headers in ({"Origin": "https://elsewhere.example"}, {"Origin": "null"}, {}):
        assert (await browse(web, "POST", "/login", headers, data={"token": token})).code == "origin_refused"


async def test_a_browser_changes_nothing_from_another_origin(web: Web) -> None:
    await logged_in(web)
    for headers in ({"Origin": "https://elsewhere.example"}, {"Origin": "null"}, {}):
        refused = await browse(web, "POST", "/api/v1/enroll-tokens", headers, json={})
        assert (refused.status, refused.code) == (403, "origin_refused")
    assert (await browse(web, "POST", "/api/v1/enroll-tokens", origin(web), json={})).status == 201


async def test_a_browser_sent_here_under_another_name_is_refused(web: Web) -> None:
    secret = await logged_in(web)
    cookie = {"Cookie": f"{web.cookie}={secret}"}
    web.client.session.cookie_jar.clear()
    assert (await browse(web, "GET", "/api/v1/nodes", cookie)).status == 200
    for host in ("evil.example", f"evil.example:{web.client.port}", "127.0.0.2.evil.example"):
        refused = await browse(web, "GET", "/api/v1/nodes", {**cookie, "Host": host})
        assert (refused.status, refused.code) == (421, "host_unknown")
        assert (await browse(web, "GET", "/login", {"Host": host})).code == "host_unknown"
    assert (await browse(web, "GET", "/api/v1/nodes", {**cookie, "Host": f"localhost:{web.client.port}"})).status == 200


async def test_the_public_address_is_a_name_of_ours(start: Start) -> None:
    web = await start(public_url="https://hub.example")
    web.app[ports.BASE_URL][:] = ["https://hub.example"]
    reply = await browse(web, "GET", await link_path(web), {**HTML, "Host": "hub.example"})
    assert reply.status == 200
    assert "Secure" in reply.headers["Set-Cookie"]


async def link_path(web: Web) -> str:
    return str((await web.ask("POST", "/api/v1/login-links")).json["url"]).removeprefix("https://hub.example")


async def test_logging_out_ends_the_session_for_good(web: Web) -> None:
    secret = await logged_in(web)
    refused = await browse(web, "POST", "/logout")
    assert refused.code == "origin_refused"
    out = await browse(web, "POST", "/logout", origin(web))
    assert (out.status, out.headers["Location"]) == (303, "/login")
    again = await browse(web, "GET", "/api/v1/nodes", {"Cookie": f"{web.cookie}={secret}"})
    assert again.code == "session_over"


async def test_a_made_up_cookie_opens_nothing(web: Web) -> None:
    for value in ("made-up", "x" * 4000, "a\u00e9"):
        headers = {"Cookie": f"{web.cookie}={value}"}
        assert (await browse(web, "GET", "/api/v1/nodes", headers)).status == 401
