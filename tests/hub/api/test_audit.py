"""Every change is written down with who, from where, what and what came of it; so is everybody who is refused."""

from typing import Any

from hub.access.redaction import kept
from hub.access.roles import Role
from hub.api import auditing
from hub.api.access_models import UserRequest
from hub.api.auditing import AUDITOR
from tests.hub.api.conftest import Start, Web
from tests.hub.rig import FakeClock


async def entries(web: Web, query: str = "") -> list[dict[str, Any]]:
    await web.app[AUDITOR].flush()
    found: list[dict[str, Any]] = (await web.ask("GET", f"/api/v1/audit?{query}")).json["entries"]
    return found


async def test_who_did_what_from_where_and_what_came_of_it(web: Web) -> None:
    operator = await web.person(Role.OPERATOR, "olga")
    peer = await web.hub.enroll("node-a")
    reply = await web.ask("DELETE", f"/api/v1/nodes/{peer.id}", stranger=True, headers=operator)
    assert reply.status == 204
    refused = await web.ask("POST", "/api/v1/users", stranger=True, headers=operator, json={})
    assert refused.code == "role_refused"
    await web.ask("GET", "/api/v1/audit", stranger=True, headers=operator)
    await web.ask("DELETE", "/api/v1/nodes/nothing", stranger=True, headers=operator)
    newest, reading, asking, done = await entries(web, "who=olga")
    assert (done["action"], done["target"]) == ("DELETE /api/v1/nodes/{id}", f"/api/v1/nodes/{peer.id}")
    assert (done["kind"], done["role"], done["remote"], done["status"]) == ("user", "operator", "127.0.0.1", 204)
    assert done["refused"] is None
    assert done["what"].startswith("Revoke a node")
    assert done["actor"]
    assert (asking["refused"], asking["status"]) == ("role_refused", 403)
    assert (reading["action"], reading["refused"]) == ("GET /api/v1/audit", "role_refused")
    assert newest["refused"] == "not_found"
    assert {one["refused"] for one in await entries(web, "refused=1")} == {"role_refused", "not_found"}
    assert [one["status"] for one in await entries(web, "who=olga&refused=0")] == [204]
    assert await entries(web, "action=/nodes/nothing") == [newest]
    page = (await web.ask("GET", "/api/v1/audit?who=olga&limit=3")).json
    assert (await web.ask("GET", f"/api/v1/audit?who=olga&limit=3&after={page['next']}")).json["entries"] == [done]


async def test_no_secret_is_written_down(web: Web) -> None:
    body = {"name": "ada", "role": "viewer", "password": "a very secret word"}
    await web.ask("POST", "/api/v1/users", json=body)
    await web.ask("POST", "/api/v1/login", stranger=True, headers=web.from_page, json={"name": "x", "password": "tell"})
    failed, made = await entries(web)
    assert made["detail"] == {"name": "ada", "role": "viewer", "password": "***"}
    assert (failed["who"], failed["kind"], failed["refused"]) == ("x", "nobody", "credential_unknown")
    assert failed["detail"]["password"] == "***"  # noqa: S105 - what stands in its place


async def test_strangers_cannot_fill_the_audit_and_what_is_left_out_is_counted(start: Start) -> None:
    web = await start(still=True)
    wrong = {"Authorization": "Bearer wrong"}
    asked = int(auditing.REFUSALS_BURST) + 20
    for _ in range(asked):
        assert (await web.ask("GET", "/api/v1/nodes", stranger=True, headers=wrong)).status in {401, 429}
    assert len(await entries(web)) == auditing.REFUSALS_BURST
    assert isinstance(web.clock, FakeClock)
    web.clock.move(10)
    await web.ask("GET", "/api/v1/nodes", stranger=True, headers=wrong)
    assert (await entries(web))[0]["detail"] == {"left_out_before": 20}
    assert (await web.ask("POST", "/api/v1/login-links")).status == 201
    assert (await entries(web))[0]["who"] == "admin token", "who is let in is written down all the same"


def test_what_is_long_is_shortened() -> None:
    text = kept(UserRequest(name="n" * 5000, role=Role.VIEWER, password="p" * 20))
    assert len(text) < 400
    assert "pp" not in text
