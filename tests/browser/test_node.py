"""A node's view in a real browser: what is wrong and why, without reload; a key put right from the page.

The node's strings are hostile, and stay text.
"""

import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, Response, expect

from tests.browser.site import ESCAPES, HOSTILE, JOB, Site, asked_for, is_text_only, site_of
from tests.browser.world import PHONE, WAIT_MS, World
from tests.e2e.node_world import needs_node_world
from tests.e2e.rig import PROVEWIRE, Process, until
from tests.hub.ssh.sshd import make_key

pytestmark = needs_node_world

SEEN_MS = 10_000.0
"""For what has to come from a process on a busy machine; the page's own part is far below a second."""
expect.set_options(timeout=WAIT_MS)
TELL_OF_COPIES = """() => {
  window.copies = [];
  const buttons = () => document.querySelectorAll(".copy [role=status]");
  const told = () => copies.push(...Array.from(buttons(), (one) => one.textContent));
  new MutationObserver(told).observe(document.body, {subtree: true, childList: true, characterData: true});
}"""
"""Keeps what copying buttons say: it stands there for a moment only, and a busy machine looks later."""


@pytest.fixture(scope="module")
def site(hub: World) -> Iterator[Site]:
    with site_of(hub) as made:
        yield made


def section(page: Page, heading: str) -> Locator:
    """A part of the view, by its heading."""
    return page.locator("section").filter(has=page.get_by_role("heading", name=heading, exact=True))


def test_the_view_says_what_is_wrong_and_changes_without_reload(site: Site) -> None:
    with site.shown() as (page, watched):
        card = page.get_by_role("article", name="GPU 2:")
        expect(card).to_contain_text("ok", timeout=SEEN_MS)
        site.nvml.set("2 xid 79")
        expect(card).to_contain_text("1 XID, last 79", timeout=SEEN_MS)
        expect(page.get_by_role("article", name="GPU 1:")).to_contain_text("throttled: software thermal")
        expect(card.get_by_role("heading")).to_contain_text(f"NVIDIA {HOSTILE}"[:60])
        before = len(watched.requests)
        site.nvml.set("3 lost 1")
        expect(page.locator(".verdict")).to_contain_text("GPU 3 lost since", timeout=SEEN_MS)
        expect(page.get_by_role("article", name="GPU 3:")).to_contain_text("lost")
        expect(page.locator(".top")).to_contain_text("What to do:")
        expect(page.locator(".lights")).to_contain_text("Heard from")
        expect(page.locator(".lights")).to_contain_text("Proving")
        site.nvml.set("3 lost 0")
        expect(page.locator(".verdict")).not_to_contain_text("GPU 3 lost", timeout=SEEN_MS)
        assert not [url for url in watched.requests[before:] if url.split("#")[0].endswith("/")], "it was loaded anew"
        is_text_only(page)


def test_another_engine_is_seen_partition_by_partition_and_kept_when_it_is_gone(site: Site) -> None:
    with site.shown() as (page, _):
        panel = page.get_by_role("article", name="Engine cuzk")
        expect(panel).to_contain_text("1 of 4 partitions", timeout=SEEN_MS)
        expect(panel.get_by_role("table", name=f"Partitions of job {JOB}").get_by_role("row")).to_have_count(4)
        expect(panel).to_contain_text("worker 0 on GPU 0")
        expect(panel).to_contain_text("memory budget")
        site.engine.run_partition(JOB, 1)
        expect(panel).to_contain_text("2 of 4 partitions", timeout=SEEN_MS)
        site.cuzk.stop()
        expect(panel).to_contain_text("does not run", timeout=SEEN_MS)
        expect(panel).to_contain_text("what follows is of then")
        expect(panel).to_contain_text("2 of 4 partitions")
        site.cuzk.start()
        expect(panel).not_to_contain_text("does not run", timeout=SEEN_MS)


def test_a_worker_on_the_cpu_in_place_of_its_card_is_told_loudly(hub: World) -> None:
    """A real agent that keeps a worker for a card, and a real worker that finds none: this machine has no driver."""
    agent = hub.rig.agent("gpu-8", PROVEWIRE_WORKERS="external")
    agent.start(hub.hub, "--device", "cuda:0", "--token-file", str(hub.hub.enroll_token(hub.rig.folder)))
    hub.hub.wait_node(agent.name)
    argv = [*PROVEWIRE, "worker", "--device", "auto", "--dir", str(agent.folder / "workers" / "cuda-0")]
    Process(hub.rig, "worker", argv, hub.rig.folder / "worker.log", {})
    agent.wait_worker()
    with hub.open() as watched:
        row = watched.page.get_by_role("row").filter(has=watched.page.get_by_role("link", name="gpu-8", exact=True))
        expect(row).to_contain_text("the worker of cuda:0 proves on the CPU instead of its card", timeout=SEEN_MS)
        expect(row).to_contain_text("there is no NVIDIA driver on this machine")
        expect(row.locator(".remedy")).to_contain_text("then end the worker there")
        line = watched.page.locator(".banner").filter(has_text="proves on the CPU instead of the card (gpu-8)")
        expect(line).to_contain_text("there is no NVIDIA driver on this machine")
        row.get_by_role("link", name="gpu-8", exact=True).click()
        expect(watched.page.locator(".verdict")).to_contain_text("proves on the CPU instead of its card")
        expect(watched.page.locator(".top")).to_contain_text("there is no NVIDIA driver on this machine")
        workers = watched.page.get_by_role("article", name="Our workers")
        expect(workers).to_contain_text("cuda:0 idle on the CPU")
        expect(workers).to_contain_text("It does not use its card: there is no NVIDIA driver")
        expect(watched.page.locator("main")).to_contain_text("worker.on_host")
    told = hub.hub.nodes()["gpu-8"]
    assert told["sentence"]["state"] == "worker_on_host"
    assert told["sentence"]["severity"] == "bad"
    assert told["status"]["workers"][0]["on_host"].startswith("there is no NVIDIA driver")


def test_charts_go_from_a_live_minute_to_ninety_days(site: Site) -> None:
    with site.shown(query="?range=1m") as (page, _):
        use = page.get_by_role("img", name="GPU use:")
        expect(page.locator(".chart canvas").first).to_be_visible()
        until(lambda: "GPU 0 57 %" in (use.get_attribute("aria-label") or ""), "the live reading in the chart")
        month_ago_ms = (time.time() - 30 * 86_400) * 1000

        def is_of_months(answer: Response) -> bool:
            # The live minute's own answer may still be on its way.
            return "/metrics?" in answer.url and int(parse_qs(urlsplit(answer.url).query)["from"][0]) < month_ago_ms

        with page.expect_response(is_of_months) as waited:
            page.get_by_role("button", name="90 days").click()
        told = waited.value.json()
        assert told["to_ms"] - told["from_ms"] == pytest.approx(90 * 86_400_000, abs=60_000)
        assert len(told["times_ms"]) <= 600
        expect(page.get_by_role("button", name="90 days")).to_have_attribute("aria-pressed", "true")
        assert page.evaluate("location.hash").endswith("?range=90d")
        assert page.locator(".chart").count() >= 10


def test_a_broken_way_in_is_told_whole_and_the_key_is_put_right_from_the_page(site: Site) -> None:
    operators = make_key(site.node.world / "operator")
    fused = f"{public_of(operators)}{public_of(site.hub_key)}\n"
    site.node.authorized_keys.write_text(fused)
    with site.shown(permissions=["clipboard-read", "clipboard-write"]) as (page, _):
        ways = section(page, "Way in by SSH")
        ways.get_by_role("button", name="Try the login now").click()
        attempt = ways.locator(".attempts details").first
        expect(attempt.locator("summary")).to_contain_text("identity refused")
        said = attempt.locator("pre").first
        expect(said).to_contain_text("Permission denied (publickey).")
        expect(said).to_contain_text(HOSTILE)
        expect(said).to_contain_text("\\033[31mred")
        expect(attempt).to_contain_text("What to do:")
        page.evaluate(TELL_OF_COPIES)
        attempt.get_by_role("button", name="Copy To do it again").click()
        page.wait_for_function("copies.includes('Copied')")
        assert shlex.split(page.evaluate("navigator.clipboard.readText()"))[0] == "ssh"
        expect(page.locator(".verdict")).to_contain_text("fallback broken: Permission denied (publickey)")
        is_text_only(page)

        mend = section(page, "Put it right")
        mend.get_by_text("Another way in, and more").click()
        mend.get_by_label("Another private key").fill(str(operators))
        mend.get_by_role("button", name="Why is the key not taken?").click()
        expect(mend).to_contain_text("something keeps the hub out")
        expect(mend).to_contain_text(str(site.node.authorized_keys))
        mend.get_by_role("button", name="Install the hub's key").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.locator(".diff .added").first).to_contain_text("ssh-ed25519")
        expect(dialog).to_contain_text("Exactly this is run")
        assert site.node.authorized_keys.read_text() == fused, "a preview changes nothing"
        dialog.get_by_role("button", name="Install the hub's key").click()
        expect(dialog.locator(".state[data-severity=ok]")).to_be_visible()
        assert site.node.authorized_keys.read_text().splitlines() == [public_of(operators), public_of(site.hub_key)]
        dialog.get_by_role("button", name="Close").click()
        expect(ways).to_contain_text("fallback proved")

        page.get_by_role("button", name="Look now").click()
        rungs = page.locator(".rungs li")
        expect(rungs.filter(has_text="login: ok")).to_be_visible()
        expect(rungs.filter(has_text="provers")).to_be_visible()
    done = {entry["action"] for entry in site.world.hub.call("GET", "audit?limit=200")["entries"]}
    assert any("recovery" in action for action in done), done


def test_the_agent_is_restarted_from_the_page_and_its_worker_goes_on(site: Site) -> None:
    site.node.authorized_keys.write_text(f"{public_of(site.hub_key)}\n")
    worker, before = site.node.wait_worker(), site.node.wait_agent(0)
    with site.shown("operator") as (page, _):
        section(page, "Put it right").get_by_role("button", name="Restart the agent").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("Exactly this is run")
        dialog.get_by_role("button", name="Restart the agent").click()
        expect(dialog).to_contain_text("the agent runs as process")
        assert site.node.wait_agent(before) != before
        assert site.node.wait_worker() == worker
        dialog.get_by_role("button", name="Close").click()
        site.world.hub.wait_node(site.node.name)
        expect(page.locator(".lights")).to_contain_text("heard now")
        expect(section(page, "Sessions").locator("tbody tr").nth(1)).to_contain_text(re.compile(r"\d+ [A-Z_]+: "))


def test_who_may_only_look_sees_no_button_and_is_refused_all_the_same(site: Site) -> None:
    names = (
        "Try the login now",
        "Look now",
        "Restart the agent",
        "Install the hub's key",
        "Revoke",
        "Change the target",
    )
    with site.shown("viewer") as (page, _):
        expect(section(page, "Way in by SSH")).to_contain_text("target")
        for name in names:
            assert page.get_by_role("button", name=name).count() == 0, name
        asked = (
            f"{site.view}/ssh/attempts",
            f"{site.view}/probe",
            f"{site.view}/ssh/doctor",
            f"{site.view}/recovery/preview",
            "/recovery",
            "/ssh/rotation/preview",
        )
        for path in asked:
            assert asked_for(page, "POST", f"/api/v1{path}") == 403, path
        assert asked_for(page, "DELETE", f"/api/v1{site.view}") == 403
    with site.shown("operator") as (page, _):
        for name in names:
            expect(page.get_by_role("button", name=name)).to_be_visible()
        assert page.get_by_role("button", name="Upgrade it").count() == 0
        assert page.get_by_label("Another private key").count() == 0


def test_the_log_is_followed_filtered_and_paused(site: Site) -> None:
    with site.shown() as (page, _):
        log = section(page, "Log")
        rows = log.locator(".log li")
        expect(log.get_by_role("status")).to_contain_text("follows")
        site.say(msg=f"first {HOSTILE}{ESCAPES}", level="warning", who=HOSTILE)
        mine = rows.filter(has_text="first")
        expect(mine).to_contain_text(HOSTILE)
        expect(mine).to_contain_text("\\x1b[31mred")
        log.get_by_role("searchbox").fill("level:error source:file second")
        expect(mine).to_have_count(0)
        site.say(msg="second, no error", level="info")
        site.say(msg="second, an error", level="error")
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text("second, an error")
        log.get_by_role("button", name="Pause").click()
        site.say(msg="second, while it was paused", level="error")
        expect(log.get_by_role("status")).to_contain_text("paused")
        expect(rows).to_have_count(1)
        log.get_by_role("button", name="Go on").click()
        expect(rows).to_have_count(2)
        expect(rows.last).to_contain_text("while it was paused")
        is_text_only(page)


def test_events_and_sessions_are_told_with_their_numbers(site: Site) -> None:
    with site.shown() as (page, _):
        events = section(page, "Events")
        site.nvml.set("4 xid 13")
        expect(events).to_contain_text("gpu.xid")
        events.get_by_role("button", name="hub", exact=True).click()
        expect(events).not_to_contain_text("gpu.xid")
        expect(events).to_contain_text("ssh.target")
        expect(section(page, "Sessions")).to_contain_text("open")


def test_axe_finds_nothing_in_the_light_and_in_the_dark(site: Site) -> None:
    with site.shown(reduced_motion="reduce") as (page, watched):  # nothing is between two colours
        expect(page.locator(".events li").first).to_be_visible()
        assert watched.axe() == []
        page.emulate_media(color_scheme="dark")
        assert watched.axe() == []
        section(page, "Put it right").get_by_role("button", name="Fetch its logs").click()
        expect(page.get_by_role("dialog")).to_contain_text("Exactly this is run")
        assert watched.axe() == []


def test_a_phone_has_all_of_it_in_its_width(site: Site) -> None:
    with site.shown(viewport=PHONE, is_mobile=True, has_touch=True) as (page, watched):
        expect(page.locator(".events li").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert watched.axe() == []
        page.get_by_role("button", name="Log", exact=True).click()
        expect(page.get_by_role("heading", name="Log", exact=True)).to_be_in_viewport()


def public_of(path: Path) -> str:
    return path.with_name(f"{path.name}.pub").read_text().strip()
