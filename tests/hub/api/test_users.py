"""Admins say who may come in; the last of them stays one; who is out is out at once."""

from hub.access.roles import Role
from hub.access.roster import ROSTER
from tests.hub.api.conftest import Web

PASSWORD = "correct horse battery"  # noqa: S105 - a test's


async def test_a_user_is_made_changed_and_forgotten(web: Web) -> None:
    await web.person(Role.ADMIN, "root")
    made = await web.ask("POST", "/api/v1/users", json={"name": "ada", "role": "viewer", "password": PASSWORD})
    assert (made.status, made.headers["Location"]) == (201, f"/api/v1/users/{made.json['id']}")
    body = {"name": "ada", "password": PASSWORD}
    login = await web.ask("POST", "/api/v1/login", stranger=True, headers=web.from_page, json=body)
    assert (login.status, login.json["role"]) == (200, "viewer")
    assert (await web.ask("GET", "/api/v1/users/ada")).json["sessions"] == 1
    changed = await web.ask("PATCH", "/api/v1/users/ada", json={"role": "operator"})
    assert (changed.status, changed.json["role"]) == (200, "operator")
    me = await web.ask("GET", "/api/v1/me", stranger=True)
    assert me.json["role"] == "operator", "at once, and without a new login"
    out = await web.ask("PATCH", "/api/v1/users/ada", json={"disabled": True})
    assert out.json["disabled_at_ms"]
    assert (await web.ask("GET", "/api/v1/me", stranger=True)).code == "session_over"
    assert (await web.ask("POST", "/api/v1/login", stranger=True, headers=web.from_page, json=body)).status == 401
    await web.ask("PATCH", "/api/v1/users/ada", json={"disabled": False, "password": PASSWORD + "2"})
    assert (await web.ask("POST", "/api/v1/login", stranger=True, headers=web.from_page, json=body)).status == 401
    body["password"] += "2"
    assert (await web.ask("POST", "/api/v1/login", stranger=True, headers=web.from_page, json=body)).status == 200
    assert (await web.ask("POST", "/api/v1/users/ada/logout")).json["sessions"] == 0
    assert (await web.ask("GET", "/api/v1/me", stranger=True)).status == 401
    assert (await web.ask("DELETE", "/api/v1/users/ada")).status == 204
    assert (await web.ask("GET", "/api/v1/users/ada")).status == 404


async def test_the_last_admin_stays_one(web: Web) -> None:
    await web.person(Role.ADMIN, "root")
    for method, body in (("PATCH", {"role": "viewer"}), ("PATCH", {"disabled": True}), ("DELETE", None)):
        reply = await web.ask(method, "/api/v1/users/root", json=body)
        assert (reply.status, reply.code) == (409, "only_admin")
    await web.person(Role.ADMIN, "other")
    assert (await web.ask("DELETE", "/api/v1/users/root")).status == 204


async def test_a_name_is_taken_once_and_a_beginning_of_an_id_is_enough(web: Web) -> None:
    await web.person(Role.VIEWER, "ada")
    taken = await web.ask("POST", "/api/v1/users", json={"name": "ada", "role": "viewer", "password": PASSWORD})
    assert (taken.status, taken.code) == (409, "not_made")
    [user] = web.app[ROSTER].users()
    assert (await web.ask("GET", f"/api/v1/users/{user.id[:18]}")).json["name"] == "ada"
    await web.person(Role.VIEWER, "bob")
    several = await web.ask("GET", f"/api/v1/users/{user.id[:8]}")
    assert (several.status, several.code) == (409, "ambiguous")
    assert {one["name"] for one in several.json["candidates"]} == {"ada", "bob"}
    assert (await web.ask("GET", f"/api/v1/users/{user.id[:3]}")).status == 404


async def test_users_are_paged(web: Web) -> None:
    for number in range(5):
        await web.person(Role.VIEWER, f"user{number}")
    seen, after = [], ""
    while after is not None:
        page = (await web.ask("GET", f"/api/v1/users?limit=2&after={after}")).json
        seen += [user["name"] for user in page["users"]]
        after = page["next"]
    assert sorted(seen) == [f"user{number}" for number in range(5)]
    assert len(seen) == 5


async def test_settings_say_what_is_set_and_by_what(web: Web) -> None:
    settings = {one["name"]: one for one in (await web.ask("GET", "/api/v1/settings")).json["settings"]}
    assert settings["lost_after_s"]["source"] == "default"
    assert settings["lost_after_s"]["value"] == settings["lost_after_s"]["default"]
    assert settings["listen"]["variable"] == "PROVEWIRE_LISTEN"
    assert settings["data_dir"]["value"].endswith("/hub")
