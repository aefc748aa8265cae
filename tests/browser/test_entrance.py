"""Coming in and going out, in a real browser: by password, by link, by a first set-up; and what a stranger sees."""

import re

from playwright.sync_api import expect

from tests.browser.world import PASSWORD, PHONE, World


def test_a_stranger_sees_the_login_and_nothing_of_the_fleet(hub: World) -> None:
    with hub.open("/users", role=None) as seen:
        expect(seen.page.get_by_role("heading", name="Log in")).to_be_visible()
        expect(seen.page.get_by_role("navigation")).to_have_count(0)
        assert seen.axe() == []


def test_a_user_logs_in_by_password_and_out_again(hub: World) -> None:
    name = hub.user("viewer")
    with hub.open("/settings", role=None) as seen:
        page = seen.page
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill("not the password at all")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("nobody of this name and password")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        seen.live()
        expect(page.get_by_role("heading", name="Settings")).to_be_visible()  # where one wanted to go
        cookie = next(one for one in page.context.cookies() if one["name"].startswith("provewire"))
        assert cookie["httpOnly"]
        assert cookie["sameSite"] == "Strict"
        page.get_by_role("button", name="Log out", exact=True).click()
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        page.reload()
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_a_link_logs_in_once_and_its_secret_is_in_no_request(hub: World) -> None:
    link = hub.hub.call("POST", "login-links", {})["url"]
    with hub.open("/", role=None) as seen:
        seen.follow(link)
        seen.live()
        code = link.rpartition("/")[2]
        assert not [url for url in seen.requests if code in url]
        assert code not in seen.page.url
    with hub.open("/", role=None) as seen:
        seen.follow(link)
        expect(seen.page.get_by_role("alert")).to_contain_text("used before")


def test_the_first_admin_is_set_up_on_a_phone(hub: World) -> None:
    link = hub.hub.call("POST", "setup-links", {})["url"]
    with hub.open("/", role=None, viewport=PHONE, is_mobile=True, has_touch=True) as seen:
        page = seen.page
        seen.follow(link)
        expect(page.get_by_role("heading", name="Set up an admin")).to_be_visible()
        assert seen.axe() == []
        page.get_by_label("Name").fill("grace")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_label("The same again").fill(f"{PASSWORD}!")
        page.get_by_role("button", name="Set up and log in").click()
        expect(page.get_by_role("alert")).to_contain_text("not the same")
        page.get_by_label("The same again").fill(PASSWORD)
        page.get_by_role("button", name="Set up and log in").click()
        seen.live()
        page.get_by_role("link", name="Settings").click()
        expect(page.get_by_text(re.compile("^grace$"))).to_be_visible()
    users = {user["name"]: user["role"] for user in hub.hub.call("GET", "users")["users"]}
    assert users["grace"] == "admin"


def test_a_session_that_ends_elsewhere_leaves_the_login_and_no_data(hub: World) -> None:
    hub.hub.call("POST", "users", {"name": "lovelace", "role": "viewer", "password": PASSWORD})
    with hub.open("/", role=None) as seen:
        seen.page.get_by_label("Name").fill("lovelace")
        seen.page.get_by_label("Password").fill(PASSWORD)
        seen.page.get_by_role("button", name="Log in").click()
        seen.live()
        hub.hub.call("POST", "users/lovelace/logout", {})
        expect(seen.page.get_by_role("heading", name="Log in")).to_be_visible()
        expect(seen.page.get_by_role("status")).to_contain_text("session is over")
