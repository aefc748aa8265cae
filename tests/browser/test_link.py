"""The page and the hub lose each other: said at once, and whole again without a reload."""

import re
import signal

from playwright.sync_api import Browser, expect

from tests.browser.world import world


def test_a_hub_that_stops_is_told_and_one_that_comes_back_is_heard_again(browser: Browser) -> None:
    with world(browser) as made, made.swarm(3), made.open() as seen:
        page = seen.page
        rows = page.locator(".fleet tbody tr[aria-rowindex]")
        expect(rows).to_have_count(3)
        page.evaluate("window.same = true")
        made.hub.stop(signal.SIGKILL)
        expect(page.get_by_role("alert")).to_contain_text("does not hear the hub since")
        expect(rows).to_have_count(3)  # what was known stays, and is said to be old
        assert seen.axe() == []
        made.hub.start()
        seen.live()
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.locator(".fleet .heard .state").first).to_have_text("live")
        assert page.evaluate("window.same")


def test_a_page_in_the_background_wants_no_readings_and_is_whole_when_it_comes_back(browser: Browser) -> None:
    with world(browser) as made, made.swarm(3), made.open() as seen:
        page = seen.page
        reading = page.locator(".fleet .host .number").first
        expect(reading).to_have_text(re.compile(r"^\d+ %$"))
        with page.expect_request("**/view") as hidden:
            page.evaluate(HIDE.replace("STATE", "hidden"))
        assert '"nodes":[]' in (hidden.value.post_data or "")
        with page.expect_request("**/view") as shown:
            page.evaluate(HIDE.replace("STATE", "visible"))
        assert '"nodes":[]' not in (shown.value.post_data or "")
        before = reading.inner_text()
        expect(reading).not_to_have_text(before)


HIDE = """
(() => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => "STATE" === "hidden" });
  document.dispatchEvent(new Event("visibilitychange"));
})()
"""
