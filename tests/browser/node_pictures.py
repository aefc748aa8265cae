"""Pictures of one node and of a job for the docs: ``python -m tests.browser.node_pictures docs/images``.

Cards of a fake driver's library, a daemon that says what a cuzk-daemon would say; the rest is real. Needs root.
"""

import random
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import expect, sync_playwright

from tests.browser.pictures import DESK
from tests.browser.site import JOB, Site, site_of
from tests.browser.world import PHONE, browser_path, launch, world
from tests.e2e.rig import CIRCUITS

CARDS = 4
SEEN_S = 45.0
"""For charts that show more than a beginning."""
SYNTHESIZED_AFTER = 30
SETTLED_MS = 2500.0
UNSTICK = "document.querySelector('header').style.position = 'static'"
"""For a picture of a part that is taller than the window."""


def at_work(site: Site) -> Iterator[None]:
    """Cards whose readings go up and down, for as long as it is asked."""
    chance = random.Random(7)
    began_s = time.monotonic()
    while time.monotonic() - began_s < SEEN_S:
        for card in range(CARDS):
            use = min(100, max(3, round(70 + 25 * chance.gauss(0, 1) - 8 * card)))
            site.nvml.set(
                f"{card} utilization {use}",
                f"{card} temperature {40 + use // 3 + 2 * card}",
                f"{card} power {120_000 + 5_500 * use}",
            )
        next_s = time.monotonic() + 1
        while time.monotonic() < next_s:
            select.select([], [], [], 0.05)
        yield


def happen(site: Site) -> str:
    """A job, a refused login, a card that falls off; the job's id."""
    hub = site.world.hub
    hub.register()
    witness = hub.upload((CIRCUITS / "merkle8.wtns").read_bytes())
    job: str = hub.call("POST", "jobs", {"circuit": "merkle8", "witness": witness, "label": "block 18 204 117"})["id"]
    hub.wait_job(job)
    hub.call("POST", f"nodes/{site.id}/ssh/attempts", {"probe": "login"})
    site.engine.synthesize(JOB, 1)
    site.engine.synthesize(JOB, 2)
    for number, _ in enumerate(at_work(site)):
        if number == SYNTHESIZED_AFTER:
            site.engine.synthesized(JOB, 1)
            site.engine.on_gpu(JOB, 1)
    site.nvml.set("3 lost 1")
    return job


def take(site: Site, job: str, folder: Path) -> None:
    """All of them."""
    small: dict[str, Any] = {"viewport": PHONE, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}
    for name in ("light", "dark"):
        with site.shown(query="?range=1m", viewport=DESK, color_scheme=name) as (page, _):
            expect(page.locator(".verdict")).to_contain_text("GPU 3 lost")
            page.wait_for_timeout(SETTLED_MS)
            page.screenshot(path=folder / f"node-{name}.png")
            page.evaluate(UNSTICK)
            if name == "dark":
                page.locator("section").filter(has=page.locator(".charts")).screenshot(path=folder / "node-charts.png")
            else:
                page.locator("section").filter(has=page.locator("#ways-title")).screenshot(path=folder / "node-ssh.png")
    with site.shown(**small) as (page, _):
        expect(page.locator(".verdict")).to_contain_text("GPU 3 lost")
        page.wait_for_timeout(SETTLED_MS)
        page.screenshot(path=folder / "node-phone.png")
    with site.world.open(f"/jobs/{job}", viewport=DESK) as seen:
        expect(seen.page.locator(".waterfall")).to_be_visible()
        seen.page.screenshot(path=folder / "job-light.png")


def main() -> int:
    """The command."""
    folder, program = Path(sys.argv[1]), browser_path()
    if program is None:
        sys.stderr.write("a browser is missing: apt-get install chromium\n")
        return 1
    with (
        sync_playwright() as playwright,
        world(launch(playwright, program), PROVEWIRE_SAMPLE_S="1") as made,
        site_of(made, hostile=False, cards=CARDS) as site,
    ):
        take(site, happen(site), folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
