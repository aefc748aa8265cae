"""The fleet in a real browser: what is wrong first, every node within reach, changes without a reload."""

import json
import re
import signal
import time
from collections.abc import Iterator
from urllib.parse import unquote

import pytest
from playwright.sync_api import Browser, Locator, Page, Request, expect

from tests.browser.world import PHONE, Watched, World, world
from tests.e2e.rig import Agent

COUNT = 90
SOON = {"PROVEWIRE_STALE_AFTER_S": "4", "PROVEWIRE_LOST_AFTER_S": "8", "PROVEWIRE_HEARTBEAT_S": "1"}
"""A hub that calls a node lost before a test has become tired of waiting."""
SEEN_S = 2.0
TRIES = 3
PERCENT = re.compile(r"^\d+ %$")
HOSTILE = "<img src=x onerror=document.title='owned'>"


@pytest.fixture(scope="module")
def fleet(browser: Browser) -> Iterator[World]:
    """A hub that soon calls nodes lost, many made-up nodes, some with a hostile name."""
    with (
        world(browser, **SOON) as made,
        made.swarm(COUNT, "--status-s", "2"),
        made.swarm(2, name=HOSTILE),
    ):
        yield made


@pytest.fixture(scope="module")
def agent(fleet: World) -> Agent:
    """One real agent with its worker."""
    return fleet.rig.agent("zk-real").join(fleet.hub)


def rows(page: Page) -> Locator:
    return page.locator(".fleet tbody tr[aria-rowindex]")


def row_of(page: Page, name: str) -> Locator:
    return rows(page).filter(has=page.get_by_role("link", name=name, exact=True))


def search(page: Page, text: str) -> None:
    page.get_by_role("searchbox", name="Search nodes").fill(text)


def count_is(page: Page, shown: int) -> None:
    expect(page.locator(".toolbar .count")).to_have_text(re.compile(rf"^{shown} of "))


def test_only_the_rows_on_the_screen_are_drawn_and_get_readings(fleet: World) -> None:
    asked: list[list[str]] = []

    def note(request: Request) -> None:
        if request.url.endswith("/view") and request.post_data:
            asked.append(json.loads(request.post_data)["nodes"])

    with fleet.open() as seen:
        page = seen.page
        page.on("request", note)
        page.reload()
        expect(rows(page).first).to_be_visible()
        assert rows(page).count() < COUNT / 3
        assert page.locator("table.fleet").get_attribute("aria-rowcount") == str(COUNT + 3)
        expect(rows(page).nth(2).locator(".host .number").first).to_have_text(PERCENT)
        before = asked[-1]
        page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
        expect(page.locator(f'.fleet tr[aria-rowindex="{COUNT + 2}"]')).to_be_visible()
        expect(page.locator(f'.fleet tr[aria-rowindex="{COUNT + 2}"] .host .number').first).to_have_text(
            re.compile(r"^\d+ %$")
        )
        after = asked[-1]
        assert len(after) < COUNT / 3
        assert not set(before) & set(after)
        drawn = [link.get_attribute("data-node") for link in page.locator(".fleet [data-node]").all()]
        assert set(after) == set(drawn)


def test_a_change_is_seen_without_a_reload(fleet: World, agent: Agent) -> None:
    """The quickest of some tries: a busy machine delays one of them, never all."""
    with fleet.open("/?q=zk-real") as seen:
        heard = row_of(seen.page, "zk-real").locator(".heard .state")
        expect(heard).to_have_text("live")
        seen.page.evaluate("window.same = true")
        took_s = []
        for _ in range(TRIES):
            agent.kill(signal.SIGTERM)
            gone_s = time.monotonic()
            expect(heard).not_to_have_text("live")
            took_s.append(time.monotonic() - gone_s)
            agent.start(fleet.hub)
            expect(heard).to_have_text("live")
        assert min(took_s) < SEEN_S
        assert seen.page.evaluate("window.same")


def test_a_lost_node_is_told_first_and_what_it_proves_is_not_judged_by_that(fleet: World, agent: Agent) -> None:
    with fleet.open() as seen:
        page = seen.page
        agent.kill(signal.SIGKILL)
        banner = page.get_by_role("status", name="What is wrong")
        expect(banner).to_contain_text(re.compile(r"1 of \d+ nodes: lost.*zk-real.*since \d\d:\d\d"))
        expect(page).to_have_title(re.compile(r"^\(1 bad.*Fleet"))
        icon = page.locator("link[rel=icon]").get_attribute("href") or ""
        assert ">1</text>" in unquote(icon)
        row = row_of(page, "zk-real")
        expect(row.locator(".heard .state")).to_have_text("lost")
        expect(row.locator(".proving .state")).not_to_have_text("unable")
        assert row.locator(".proving .state").get_attribute("data-severity") != "bad"
        assert rows(page).first.get_attribute("data-severity") == "bad"
        ticking = row.locator(".heard .number")
        first = ticking.inner_text()
        expect(ticking).not_to_have_text(first)
        assert seen.axe() == []
        agent.start(fleet.hub)
        expect(page.get_by_role("link", name="zk-real").first).to_be_visible()
        expect(page).to_have_title("Fleet · Provewire")


def test_search_counts_sort_and_saved_filters(fleet: World) -> None:
    with fleet.open() as seen:
        page = seen.page
        search(page, "gpu-000")
        count_is(page, 10)
        search(page, "gpu-000 -gpu-0003 is:ok")
        count_is(page, 9)
        page.get_by_role("combobox", name="Order").select_option("name")
        expect(rows(page).first).to_contain_text("gpu-0000")
        page.get_by_role("button", name="Save filter").click()
        page.get_by_label("Name of this filter").fill("nine of them")
        page.get_by_role("button", name="Save", exact=True).click()
        search(page, "")
        count_is(page, COUNT + 3)
        page.reload()
        page.get_by_role("combobox", name="Saved filter").select_option("nine of them")
        count_is(page, 9)
        assert "q=gpu-000" in page.url  # an address to send to somebody
        page.get_by_role("button", name="Forget it").click()
        search(page, "nothing is called like this")
        expect(page.get_by_text("No node fits this filter.")).to_be_visible()
        search(page, "")
        page.get_by_role("group", name="How they are").get_by_role("button", name="well").click()
        expect(page.get_by_role("searchbox", name="Search nodes")).to_have_value("is:ok")


def test_everything_by_the_keyboard(fleet: World) -> None:
    with fleet.open("/?sort=name&q=gpu-00") as seen:
        page = seen.page
        expect(rows(page).first).to_be_visible()
        press = page.keyboard.press
        for key in ("j", "j", "j", "k"):
            press(key)
        current = page.locator(".fleet tr[aria-current=true]")
        expect(current).to_contain_text("gpu-0001")
        expect(page.locator(":focus")).to_have_text("gpu-0001")
        press("x")
        expect(page.get_by_text("1 node chosen")).to_be_visible()
        for _ in range(40):
            press("j")
        expect(current).to_contain_text("gpu-0041")
        expect(current).to_be_in_viewport()
        press("t")
        expect(page.get_by_role("list", name="Nodes")).to_be_visible()
        press("t")
        press("Escape")
        expect(page.get_by_text("1 node chosen")).to_have_count(0)
        press("/")
        expect(page.get_by_role("searchbox", name="Search nodes")).to_be_focused()
        page.keyboard.type("1 j")  # typed, not obeyed
        expect(page.get_by_role("searchbox", name="Search nodes")).to_have_value("gpu-001 j")
        press("Escape")
        press("?")
        keys = page.get_by_role("dialog", name="Keys")
        expect(keys).to_contain_text("go to Fleet")
        told = keys.locator("dt").all_inner_texts()
        assert len(set(told)) == len(told), "one key for two things"
        press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        press("g")
        press("s")
        expect(page.get_by_role("heading", name="Settings")).to_be_visible()
        press("g")
        press("f")
        expect(page.get_by_role("searchbox", name="Search nodes")).to_be_visible()


def test_a_node_is_opened_by_enter(fleet: World) -> None:
    with fleet.open("/?sort=name&q=gpu-0007") as seen:
        expect(rows(seen.page).first).to_be_visible()
        seen.page.keyboard.press("j")
        expect(seen.page.locator(":focus")).to_have_text("gpu-0007")
        seen.page.keyboard.press("Enter")
        expect(seen.page).to_have_url(re.compile(r"#/nodes/[0-9a-f-]{36}$"))


def test_bulk_actions_show_first_what_they_would_do(fleet: World) -> None:
    with fleet.swarm(2, name="leaving"), fleet.open("/?q=leaving") as seen:
        page = seen.page
        count_is(page, 2)
        page.get_by_label("Choose all that are listed").check()
        page.get_by_role("button", name="Look after them by SSH").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("This can be done to none of them.")
        expect(dialog).to_contain_text("it has no way in by SSH")
        dialog.get_by_role("button", name="Close").click()
        page.get_by_role("button", name="Revoke them").click()
        expect(dialog).to_contain_text("Would be done to 2 nodes")
        assert seen.axe() == []
        assert {"leaving-0000", "leaving-0001"} <= set(fleet.hub.nodes())
        dialog.get_by_role("button", name="Revoke them for good: 2 nodes").click()
        expect(dialog).to_contain_text("2 of 2 done")
        dialog.get_by_role("button", name="Close").click()
        expect(page.get_by_text("No node fits this filter.")).to_be_visible()
    assert not [name for name in fleet.hub.nodes() if name.startswith("leaving")]


def test_what_nodes_say_is_text(fleet: World) -> None:
    with fleet.open("/?q=onerror") as seen:
        page = seen.page
        count_is(page, 2)
        expect(rows(page).first).to_contain_text(HOSTILE)
        page.get_by_role("button", name="Cards", exact=True).click()
        expect(page.get_by_role("listitem").first).to_contain_text(HOSTILE)
        assert page.locator("#app img:not([src='/favicon.svg'])").count() == 0
        assert "owned" not in page.title()


def test_a_phone_gets_cards_and_nothing_to_scroll_sideways(fleet: World) -> None:
    with fleet.open("/", viewport=PHONE, is_mobile=True, has_touch=True) as seen:
        page = seen.page
        expect(page.get_by_role("list", name="Nodes")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        small = page.evaluate(
            "[...document.querySelectorAll('button, select, .toolbar input')].filter((one) => one.offsetParent"
            " && one.getBoundingClientRect().height < 44).map((one) => one.outerHTML)"
        )
        assert small == []
        assert seen.axe() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_themes_are_readable(fleet: World, scheme: str) -> None:
    with fleet.open("/", color_scheme=scheme) as seen:
        expect(rows(seen.page).first).to_be_visible()
        assert seen.axe() == []
        seen.page.get_by_role("button", name="Cards", exact=True).click()
        expect(seen.page.get_by_role("list", name="Nodes")).to_be_visible()
        assert seen.axe() == []
        theme_is(seen, "light" if scheme == "dark" else "dark")
        assert seen.axe() == []


def theme_is(seen: Watched, theme: str) -> None:
    """Change the colours until they are these, whatever the system says."""
    for _ in range(3):
        if seen.page.evaluate("document.documentElement.dataset.theme") == theme:
            return
        seen.page.get_by_role("button", name="Colours").click()
    raise AssertionError(f"the colours never became {theme}")
