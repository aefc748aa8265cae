"""One node with everything a node can have, for the browser to look at; tests and pictures share it.

A world of its own: its agent and worker, an sshd, eight cards by a fake driver's library, and a daemon that says what a
cuzk-daemon would say. Where it is for tests, its strings are hostile.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from tests.agent.sensors.cuzk.fake_daemon import FakeDaemon, daemon
from tests.agent.sensors.cuzk.fake_engine import FakeEngine
from tests.agent.sensors.fake_nvml.library import FakeNvml
from tests.browser.world import Watched, World
from tests.e2e.node_world import NodeWorld

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
ESCAPES = "\x1b[31mred\x1b[2J"
JOB = "ps-porep-1000-7-4411"


@dataclass
class Site:
    """The node and everything on it that a test moves."""

    world: World
    node: NodeWorld
    nvml: FakeNvml
    engine: FakeEngine
    cuzk: FakeDaemon
    log: Path
    id: str

    @property
    def view(self) -> str:
        return f"/nodes/{self.id}"

    @property
    def hub_key(self) -> Path:
        return self.world.hub.folder / "ssh" / "id_ed25519"

    @contextmanager
    def shown(self, role: str = "admin", query: str = "", **options: Any) -> Iterator[tuple[Page, Watched]]:
        with self.world.open(f"{self.view}{query}", role, **options) as watched:
            expect(watched.page.locator(".top h1")).to_have_text(self.node.name)
            yield watched.page, watched

    def say(self, **fields: str) -> None:
        """One line in the node's log file."""
        with self.log.open("a") as file:
            file.write(f"{json.dumps(fields)}\n")


@contextmanager
def site_of(hub: World, *, hostile: bool = True, cards: int = 8) -> Iterator[Site]:
    """The node, joined."""
    nvml = FakeNvml(hub.rig.folder / "scenario")
    nvml.set(f"* cards {cards}", "1 throttle 32")
    engine = FakeEngine(time.monotonic)
    engine.submit(JOB)
    engine.run_partition(JOB, 0)
    log = hub.rig.folder / "app.log"
    log.write_text("from before\n")
    with daemon(engine.status) as cuzk:
        node = NodeWorld(hub.rig, "gpu-7")
        node.has_environment({name: nvml.environ[name] for name in ("LD_LIBRARY_PATH", "FAKE_NVML_SCENARIO")})
        if hostile:
            node.has_environment({"FAKE_NVML_NAME": f"NVIDIA {HOSTILE}"[:90]})
            banner = node.world / "banner"
            banner.write_text(f"{HOSTILE}{ESCAPES}\n")
            node.configure_sshd(f"Banner {banner}")
        node.join(hub.hub, "--cuzk", f"127.0.0.1:{cuzk.port}", "--cuzk-grpc", "off", "--log-file", str(log))
        yield Site(hub, node, nvml, engine, cuzk, log, hub.hub.nodes()["gpu-7"]["id"])


def is_text_only(page: Page) -> None:
    """What nodes say made no element and ran nothing."""
    assert page.evaluate("document.querySelectorAll('main img, main script, main iframe, dialog img').length") == 0
    assert "owned" not in page.title()


def asked_for(page: Page, method: str, path: str) -> int:
    """The status of a request the page itself makes, with everything a page sends."""
    script = """async ([method, path]) => (await fetch(path, {method,
        headers: {"X-Provewire": "1", "Content-Type": "application/json"}, body: "{}"})).status"""
    status: int = page.evaluate(script, [method, path])
    return status
