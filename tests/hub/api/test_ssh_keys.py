"""Keys and recoveries over real HTTP: answers as the document says, each token good once, and who may name a file."""

from pathlib import Path
from typing import Any

import pytest

from hub import ports
from hub.access.roles import Role
from hub.ssh.side import IDENTITY_FILE
from tests.hub.api.conftest import Reply, Web
from tests.hub.api.test_openapi import fits
from tests.hub.api.test_ssh import sshd, the_way
from tests.hub.ssh.sshd import Sshd, make_key, needs_sshd

__all__ = ["sshd"]
MISSING = "01890a5d-ac96-774b-bcce-b302099a9999"


async def fitting(web: Web, reply: Reply, method: str, path: str) -> Any:
    """The answer's body, which is of the shape the document declares."""
    document = (await web.ask("GET", "/api/v1/openapi.json")).json
    declared = document["paths"][path][method]["responses"][str(reply.status)]["content"]["application/json"]["schema"]
    assert fits(document, declared, reply.json), reply.json
    return reply.json


@needs_sshd
async def test_everything_is_as_the_document_says_and_a_preview_is_good_once(web: Web, sshd: Sshd) -> None:
    peer = await web.hub.enroll("node-a")
    await the_way(web, peer, sshd)
    keys = await web.ask("GET", "/api/v1/ssh/keys")
    assert (await fitting(web, keys, "get", "/api/v1/ssh/keys"))["keys"][0]["path"].endswith(IDENTITY_FILE)
    doctor = await web.ask("POST", f"/api/v1/nodes/{peer.id}/ssh/doctor", json={})
    chart = await fitting(web, doctor, "post", "/api/v1/nodes/{id}/ssh/doctor")
    assert (chart["healthy"], chart["key_there"]) == (True, True)
    shown = await web.ask("POST", "/api/v1/ssh/keys/preview", json={"nodes": [peer.id]})
    preview = await fitting(web, shown, "post", "/api/v1/ssh/keys/preview")
    assert [plan["way"] for plan in preview["plans"]] == ["nothing"]
    body = {"token": preview["token"], "asked_by": "alice"}
    made = await web.ask("POST", "/api/v1/ssh/keys/install", json=body)
    assert (await fitting(web, made, "post", "/api/v1/ssh/keys/install"))["installed"][0]["ok"]
    again = await web.ask("POST", "/api/v1/ssh/keys/install", json=body)
    assert (again.status, again.code) == (409, "preview_gone")
    events = (await web.ask("GET", f"/api/v1/nodes/{peer.id}/events?stream=hub")).json["events"]
    [event] = [event for event in events if event["kind"] == "ssh.key_install"]
    assert event["detail"].startswith("alice (admin token) from 127.0.0.1: by nothing;")
    path = f"/api/v1/nodes/{peer.id}/recovery/preview"
    shown = await web.ask("POST", path, json={"action": "fetch-logs"})
    preview = await fitting(web, shown, "post", "/api/v1/nodes/{id}/recovery/preview")
    done = await web.ask("POST", "/api/v1/recovery", json={"token": preview["token"]})
    assert (await fitting(web, done, "post", "/api/v1/recovery"))["ok"]
    assert (await web.ask("POST", "/api/v1/recovery", json={"token": preview["token"]})).code == "preview_gone"
    shown = await web.ask("POST", path, json={"action": "install-key"})
    token = (await fitting(web, shown, "post", "/api/v1/nodes/{id}/recovery/preview"))["token"]
    done = await web.ask("POST", "/api/v1/recovery", json={"token": token})
    assert (await fitting(web, done, "post", "/api/v1/recovery"))["action"] == "install-key"
    shown = await web.ask("POST", "/api/v1/ssh/rotation/preview", json={})
    token = (await fitting(web, shown, "post", "/api/v1/ssh/rotation/preview"))["token"]
    done = await web.ask("POST", "/api/v1/ssh/rotation", json={"token": token})
    assert (await fitting(web, done, "post", "/api/v1/ssh/rotation"))["done"]
    assert (await web.ask("POST", "/api/v1/ssh/rotation", json={"token": token})).code == "preview_gone"


@needs_sshd
async def test_a_browser_may_preview_and_not_name_a_file_of_the_hubs_machine(
    web: Web, sshd: Sshd, tmp_path: Path
) -> None:
    peer = await web.hub.enroll("node-a")
    await the_way(web, peer, sshd)
    path = f"/api/v1/nodes/{peer.id}/recovery/preview"
    assert (await web.ask("POST", path, stranger=True, json={"action": "restart-agent"})).status == 401
    olga = await web.person(Role.OPERATOR, "olga")
    assert (await web.ask("POST", path, stranger=True, headers=olga, json={"action": "restart-agent"})).status == 200
    key = str(make_key(tmp_path / "other"))
    for where, body in (
        (path, {"action": "restart-agent", "via_key": key}),
        (path, {"action": "upgrade", "wheel": key}),
        (f"/api/v1/nodes/{peer.id}/ssh/doctor", {"via_key": key}),
        ("/api/v1/ssh/keys/preview", {"via_key": key}),
    ):
        assert (await web.ask("POST", where, stranger=True, headers=olga, json=body)).code == "admin_only"
    anna = await web.person(Role.ADMIN, "anna")
    named = await web.ask("POST", path, stranger=True, headers=anna, json={"action": "restart-agent", "via_key": key})
    assert named.status == 200, "whoever may make links that log in as admin may do this too"


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("nodes/{id}/recovery/preview", {"action": "reboot"}, 422, "invalid"),
        ("nodes/{id}/recovery/preview", {"action": "restart-agent"}, 409, "recovery_refused"),
        ("nodes/{id}/ssh/doctor", {}, 409, "no_way_in"),
        ("nodes/nobody/ssh/doctor", {}, 404, "not_found"),
        ("nodes/{id}/ssh/doctor", {"nonsense": 1}, 422, "invalid"),
        ("ssh/keys/preview", {"nodes": [MISSING]}, 404, "not_found"),
        ("ssh/keys/preview", {"via_key": "/nowhere"}, 409, "key_refused"),
        ("ssh/keys/install", {"token": "x"}, 409, "preview_gone"),
        ("recovery", {"token": "x"}, 409, "preview_gone"),
        ("ssh/rotation", {"token": "x"}, 409, "preview_gone"),
    ],
)
async def test_what_is_asked_wrongly_is_refused_by_name(
    web: Web, path: str, body: dict[str, Any], status: int, code: str
) -> None:
    peer = await web.hub.enroll("node-a")
    reply = await web.ask("POST", f"/api/v1/{path.replace('{id}', peer.id)}", json=body)
    assert (reply.status, reply.code) == (status, code), reply.body


@needs_sshd
async def test_a_user_who_is_none_never_reaches_a_command_line(web: Web, sshd: Sshd) -> None:
    peer = await web.hub.enroll("node-a")
    await the_way(web, peer, sshd)
    for path, body in (
        (f"/api/v1/nodes/{peer.id}/ssh/doctor", {"via_user": "-oProxyCommand=id"}),
        (f"/api/v1/nodes/{peer.id}/ssh/doctor", {"via_user": "a b"}),
    ):
        reply = await web.ask("POST", path, json=body)
        assert (reply.status, reply.code) == (422, "invalid"), reply.body
    assert await web.app[ports.STORE].ssh_attempts(peer.id) == []


@pytest.mark.parametrize("text", ["a\0b", "a\nb", "x" * 256, "/".join(["x"] * 3000)])
async def test_what_can_be_the_path_of_no_file_is_refused(web: Web, text: str) -> None:
    peer = await web.hub.enroll("node-a")
    reply = await web.ask("POST", f"/api/v1/nodes/{peer.id}/ssh/doctor", json={"via_key": text})
    assert (reply.status, reply.code) == (422, "invalid")
