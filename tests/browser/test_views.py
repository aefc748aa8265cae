"""Every view, for every role, in both themes and on a phone: drawn, accessible, blameless; and what a role may not."""

import pytest
from playwright.sync_api import expect

from tests.browser.world import DESKTOP, PHONE, ROLES, World

VIEWS = {
    "/": ("Fleet", "viewer"),
    "/jobs": ("Jobs", "viewer"),
    "/circuits": ("Circuits", "viewer"),
    "/alerts": ("Alerts", "viewer"),
    "/tokens": ("Tokens", "operator"),
    "/users": ("Users", "admin"),
    "/audit": ("Audit", "admin"),
    "/settings": ("Settings", "viewer"),
}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_sees_what_it_may(hub: World, role: str) -> None:
    with hub.open(role=role) as seen:
        page = seen.page
        for view, (name, least) in VIEWS.items():
            seen.go(f"#{view}")
            link = page.get_by_role("navigation").get_by_role("link", name=name)
            if ROLES.index(role) >= ROLES.index(least):
                expect(page.get_by_role("heading", name=name, level=1)).to_be_attached()
                expect(link).to_have_attribute("aria-current", "page")
            else:
                expect(page.get_by_text(f"Your role, {role},")).to_be_visible()
                expect(link).to_have_count(0)
            assert seen.axe() == [], view


def test_every_view_in_the_dark_and_on_a_phone(hub: World) -> None:
    with hub.open(color_scheme="dark") as seen:
        page = seen.page
        for view, (name, _) in VIEWS.items():
            page.set_viewport_size(DESKTOP)  # type: ignore[arg-type]
            seen.go(f"#{view}")
            expect(page.get_by_role("heading", name=name, level=1)).to_be_attached()
            assert seen.axe() == [], view
            page.set_viewport_size(PHONE)  # type: ignore[arg-type]
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
            assert seen.axe() == [], f"{view} on a phone"


def test_a_program_gets_a_token_that_is_shown_once_and_revoked(hub: World) -> None:
    hostile = "<script>document.title='owned'</script>"
    with hub.open("/tokens") as seen:
        page = seen.page
        page.get_by_role("button", name="New token").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("What it is for").fill(hostile)
        dialog.get_by_label("Areas").fill("jobs, no-such-area")
        dialog.get_by_role("button", name="Make it").click()
        expect(dialog.get_by_role("alert")).to_be_visible()
        dialog.get_by_label("Areas").fill("nodes")
        dialog.get_by_role("button", name="Make it").click()
        secret = dialog.locator("pre").inner_text()
        assert seen.axe() == []
        dialog.get_by_role("button", name="Close").click()
        listed = page.get_by_role("row").filter(has_text=hostile)
        expect(listed).to_contain_text("good until")
        assert secret not in page.content()
        bearer = {"Authorization": f"Bearer {secret}"}
        assert hub.hub.request("GET", "/api/v1/nodes", headers=bearer).status == 200
        assert hub.hub.request("GET", "/api/v1/jobs", headers=bearer).status == 403
        listed.get_by_role("button", name="Revoke").click()
        page.get_by_role("dialog").get_by_role("button", name="Revoke it").click()
        expect(listed).to_contain_text("revoked")
        assert hub.hub.request("GET", "/api/v1/nodes", headers=bearer).status == 401
        assert "owned" not in page.title()


def test_a_node_joins_with_a_token_made_on_the_page(hub: World) -> None:
    with hub.open("/tokens") as seen:
        seen.page.get_by_role("button", name="New enrolment token").click()
        dialog = seen.page.get_by_role("dialog")
        dialog.get_by_role("button", name="Make it").click()
        token = hub.rig.folder / "from-the-page"
        token.write_text(dialog.locator("pre").inner_text())
        token.chmod(0o600)
        dialog.get_by_role("button", name="Close").click()
        seen.go("#/?q=by-page")
        hub.rig.agent("by-page").start(hub.hub, "--token-file", str(token))
        expect(seen.page.locator(".fleet tbody")).to_contain_text("by-page")
        seen.go("#/tokens")
        expect(seen.page.get_by_role("group", name="Tokens for nodes that join")).to_contain_text("1 of 1")


def test_a_user_is_made_changed_kept_out_and_forgotten(hub: World) -> None:
    with hub.open("/users") as seen:
        page = seen.page
        page.get_by_role("button", name="New user").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill("hopper")
        dialog.get_by_label("Password").fill("too short")
        dialog.get_by_label("Password").fill("a long enough one")
        dialog.get_by_role("button", name="Let them in").click()
        hopper = page.get_by_role("row").filter(has_text="hopper")
        expect(hopper).to_contain_text("viewer")
        hopper.get_by_role("button", name="Change").click()
        dialog.get_by_label("Role").select_option("operator")
        dialog.get_by_role("button", name="Change the role").click()
        expect(hopper).to_contain_text("operator")
        hopper.get_by_role("button", name="Change").click()
        assert seen.axe() == []
        dialog.get_by_role("button", name="Keep them out").click()
        expect(hopper).to_contain_text("kept out since")
        hopper.get_by_role("button", name="Change").click()
        dialog.get_by_role("button", name="Forget them").click()
        expect(hopper).to_have_count(0)
        seen.go("#/audit?action=users")
        expect(page.locator("tbody")).to_contain_text("DELETE /api/v1/users/")
        page.get_by_text("what was sent").first.click()
        assert "a long enough one" not in page.content()


def test_what_strangers_ask_for_stands_in_the_audit_as_text(hub: World) -> None:
    hostile = "/api/v1/nodes/%3Cimg%20src=x%20onerror=document.title='owned'%3E"
    hub.hub.request("DELETE", hostile, headers=hub.hub.admin)
    with hub.open("/audit?refused=1") as seen:
        expect(seen.page.locator("tbody")).to_contain_text("onerror")
        assert seen.page.locator("tbody img").count() == 0
        assert "owned" not in seen.page.title()


def test_a_password_is_changed_and_other_sessions_end(hub: World) -> None:
    hub.hub.call("POST", "users", {"name": "curie", "role": "viewer", "password": "radium and polonium"})
    with hub.open("/settings", role=None) as seen:
        page = seen.page
        page.get_by_label("Name").fill("curie")
        page.get_by_label("Password").fill("radium and polonium")
        page.get_by_role("button", name="Log in").click()
        seen.live()
        expect(page.get_by_role("group", name="Your sessions")).to_contain_text("this one")
        page.get_by_label("Present one").fill("radium and polonium")
        page.get_by_label("New one", exact=True).fill("two prizes are enough")
        page.get_by_label("The new one again").fill("two prizes are enough")
        page.get_by_role("button", name="Change it").click()
        expect(page.get_by_text("Changed.")).to_be_visible()
        page.get_by_role("button", name="Log out everywhere").click()
        page.get_by_label("Name").fill("curie")
        page.get_by_label("Password").fill("two prizes are enough")
        page.get_by_role("button", name="Log in").click()
        seen.live()


def test_an_operator_sees_what_the_hub_is_set_to_and_a_viewer_does_not(hub: World) -> None:
    with hub.open("/settings", role="operator") as seen:
        expect(seen.page.get_by_text("PROVEWIRE_LISTEN", exact=True)).to_be_visible()
        seen.page.get_by_label("only what is not by default").check()
        expect(seen.page.get_by_text("PROVEWIRE_HEARTBEAT_S", exact=True)).to_have_count(0)
    with hub.open("/settings", role="viewer") as seen:
        expect(seen.page.get_by_role("heading", name="You", exact=True)).to_be_visible()
        expect(seen.page.get_by_text("What the hub is set to")).to_have_count(0)
