"""The pictures of README and docs: ``python -m tests.browser.pictures docs/images``.

A real hub, a real agent with jobs, made-up nodes of which some are lost; as an operator sees them, light, dark, and on
a phone.
"""

import argparse
import signal
import sys
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

from tests.browser.world import PHONE, World, browser_path, launch, world

SETTLED_MS = 2500.0
SOON = {"PROVEWIRE_STALE_AFTER_S": "4", "PROVEWIRE_LOST_AFTER_S": "8", "PROVEWIRE_HEARTBEAT_S": "1"}
DESK = {"width": 1440, "height": 900}


def take(made: World, folder: Path) -> None:
    """All of them."""
    kinds = (
        ("fleet-light", "/", {"viewport": DESK}),
        ("fleet-dark", "/", {"viewport": DESK, "color_scheme": "dark"}),
        ("fleet-phone", "/", {"viewport": PHONE, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}),
    )
    for name, view, options in kinds:
        with made.open(view, **options) as seen:
            expect(seen.page.get_by_role("status", name="What is wrong")).to_contain_text("lost")
            seen.page.wait_for_timeout(SETTLED_MS)
            seen.page.screenshot(path=folder / f"{name}.png")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    program = browser_path()
    if program is None:
        sys.stderr.write("a browser is missing: apt-get install chromium\n")
        return 1
    args.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, world(launch(playwright, program), **SOON) as made:
        agent = made.rig.agent("prover-eu-1").join(made.hub)
        made.hub.register()
        made.hub.wait_job(made.hub.submit())
        with made.swarm(36, "--status-s", "2", name="gpu-us"), made.swarm(24, "--status-s", "2", name="gpu-eu"):
            with made.swarm(3, name="rent-vast") as lost:
                lost.end(signal.SIGKILL)
            made.hub.wait_node("rent-vast-0002", "lost")
            take(made, args.folder)
        agent.kill(signal.SIGTERM)
    return 0


if __name__ == "__main__":
    sys.exit(main())
