"""Alerts on the page: what fires is seen and looked after; channels, silences and rules; nothing secret comes back."""

import re

from playwright.sync_api import expect

from tests.browser.world import World

SECRET = "a-secret-of-the-channel"  # noqa: S105 - of this test
HOSTILE = "<img src=x onerror=alert(1)>"


def test_a_channel_is_made_and_its_failure_shown_without_its_address(hub: World) -> None:
    with hub.open("/alerts", role="admin") as seen:
        page = seen.page
        page.get_by_role("button", name="New channel").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill("on call")
        dialog.get_by_label("Address").fill("nonsense")
        dialog.get_by_role("button", name="Make it").click()
        expect(dialog.get_by_role("alert")).to_contain_text("no such address")
        dialog.get_by_label("Address").fill(f"json://127.0.0.1:9/{SECRET}")
        dialog.get_by_role("button", name="Make it").click()
        card = page.get_by_role("article", name="on call")
        expect(card).to_contain_text("never used")
        card.get_by_role("button", name="Send a test to on call").click()
        expect(card).to_contain_text("The test did not arrive: 127.0.0.1 is this machine itself")
        expect(card).to_contain_text("does not arrive since")
        assert SECRET not in page.content()
        assert seen.axe() == []
        card.get_by_role("button", name="Remove on call").click()
        page.get_by_role("dialog").get_by_role("button", name="Remove it").click()
        expect(page.get_by_text("Nowhere: an alert is seen here only.")).to_be_visible()


def test_a_rule_is_changed_and_what_then_fires_is_looked_after(hub: World) -> None:
    with hub.open("/alerts", role="operator") as seen:
        page = seen.page
        rule = page.get_by_role("row").filter(has_text="hub lag")
        rule.get_by_role("button", name="Change the rule hub lag").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Bad at").fill("0")
        dialog.get_by_label("Well again at").fill("0")
        dialog.get_by_label("Held for").fill("0")
        dialog.get_by_role("button", name="Change it").click()
        expect(rule).to_contain_text("changed")
        alert = page.get_by_role("article", name=re.compile("The hub runs late"))
        expect(alert).to_contain_text("What to do:")
        alert.get_by_role("button", name=re.compile("I look after it")).click()
        page.get_by_role("dialog").get_by_label("Note").fill(HOSTILE)
        page.get_by_role("dialog").get_by_role("button", name="I look after it").click()
        expect(alert).to_contain_text(f"looks after it: {HOSTILE}")
        assert seen.axe() == []
        rule.get_by_role("button", name="Change the rule hub lag").click()
        page.get_by_role("dialog").get_by_role("button", name="As it came").click()
        expect(rule).not_to_contain_text("changed")


def test_a_silence_is_made_and_ended(hub: World) -> None:
    with hub.open("/alerts", role="operator") as seen:
        page = seen.page
        page.get_by_role("button", name="New silence").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Why").fill(HOSTILE)
        dialog.get_by_label("Rule").select_option("node_lost")
        dialog.get_by_role("button", name="Silence it").click()
        silence = page.get_by_role("listitem").filter(has_text=HOSTILE)
        expect(silence).to_contain_text("node lost until")
        silence.get_by_role("button", name="End it now: the silence of node lost").click()
        expect(silence).to_have_count(0)


def test_a_viewer_sees_and_changes_nothing(hub: World) -> None:
    with hub.open("/alerts", role="viewer") as seen:
        page = seen.page
        expect(page.get_by_role("row").filter(has_text="node lost")).to_be_visible()
        for name in ("New channel", "New silence", re.compile("Change the rule")):
            expect(page.get_by_role("button", name=name)).to_have_count(0)
