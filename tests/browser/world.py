"""A hub with a fleet, and a browser that looks at it: real processes, real Chromium, loopback only."""

import http.client
import json
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, Playwright, Request, Response

from bench.harness import Process
from tests.e2e.rig import ROOT, Hub, Rig, until

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
SHELL = ROOT / "hub" / "page" / "index.html"
WAIT_MS = 30_000.0
DESKTOP = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
PASSWORD = "correct horse battery staple"  # noqa: S105 - of users that live for one test
ROLES = ("viewer", "operator", "admin")


def browser_path() -> str | None:
    """Where a browser of this family is."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def launch(playwright: Playwright, program: str) -> Browser:
    """A browser without a window and without a network of its own."""
    return playwright.chromium.launch(
        executable_path=program,
        args=[
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ],
    )


@dataclass
class Watched:
    """A page, and whatever it did that it must not."""

    page: Page
    hub_url: str
    complaints: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    """Requests to another host."""
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(WAIT_MS)
        self.page.on("console", self._console)
        self.page.on("pageerror", self._error)
        self.page.on("request", self._request)
        self.page.on("response", self._response)

    def _console(self, message: ConsoleMessage) -> None:
        # A refused request is an answer like another, and the test says which it expects; the rest is ours.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def _error(self, error: Error) -> None:
        self.complaints.append(str(error))

    def _request(self, request: Request) -> None:
        self.requests.append(request.url)
        if not request.url.startswith((f"{self.hub_url}/", "data:", "blob:")):
            self.elsewhere.append(request.url)

    def _response(self, response: Response) -> None:
        if response.status >= http.client.INTERNAL_SERVER_ERROR:
            self.complaints.append(f"{response.request.method} {response.url}: {response.status}")

    def blameless(self) -> None:
        """See that nothing was refused by policy, thrown, failed, or asked of anybody else."""
        assert self.complaints == []
        assert self.elsewhere == []

    def follow(self, link: str) -> None:
        """Open a link as one that came by mail: it loads once, and nothing of it was there before."""
        self.page.goto("about:blank")
        self.page.goto(link)

    def go(self, view: str) -> None:
        """Show a view: "#/..."."""
        self.page.evaluate("(view) => { location.hash = view; }", view)

    def live(self) -> None:
        """Wait until the page hears the hub."""
        self.page.locator(".tag.link", has_text="live").wait_for()

    def axe(self) -> list[str]:
        """What axe-core finds wrong with what is shown now."""
        # Colours on their way from one theme to another are nobody's choice.
        self.page.evaluate(
            "Promise.allSettled(document.getAnimations().filter((one) => one instanceof CSSTransition)"
            ".map((one) => one.finished))"
        )
        # Not as a script element: the page's policy refuses every script that is not its own.
        self.page.evaluate(AXE.read_text())
        found = self.page.evaluate("async () => (await axe.run(document, {resultTypes: ['violations']})).violations")
        return [
            f"{one['id']}: {node['html'][:160]}: {node['failureSummary']}" for one in found for node in one["nodes"]
        ]


class World:
    """A hub, its users, a swarm, and whatever else a test starts."""

    def __init__(self, rig: Rig, hub: Hub, browser: Browser) -> None:
        self.rig = rig
        self.hub = hub
        self.browser = browser
        self._cookies: dict[str, dict[str, Any]] = {}

    def user(self, role: str) -> str:
        """The name of a user of that role, made when first asked for."""
        if role not in self._cookies:
            self.hub.call("POST", "users", {"name": role, "role": role, "password": PASSWORD})
            self._cookies[role] = self._log_in(role)
        return role

    def _log_in(self, name: str) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", "X-Provewire": "1", "Origin": self.hub.url}
        body = json.dumps({"name": name, "password": PASSWORD}).encode()
        answer = self.hub.request("POST", "/api/v1/login", body, headers)
        assert answer.status == http.client.OK, answer.body
        name_, _, value = answer.headers["set-cookie"].partition(";")[0].partition("=")
        return {"name": name_, "value": value, "url": self.hub.url}

    @contextmanager
    def context(self, role: str | None = "admin", **options: Any) -> Iterator[BrowserContext]:
        """A browser's profile, logged in as that role or as nobody."""
        context = self.browser.new_context(**{"viewport": DESKTOP, "base_url": self.hub.url, **options})
        try:
            if role is not None:
                context.add_cookies([self._cookies[self.user(role)]])  # type: ignore[list-item]
            yield context
        finally:
            context.close()

    @contextmanager
    def open(self, view: str = "/", role: str | None = "admin", **options: Any) -> Iterator[Watched]:
        """A page that shows a view; at the end it must have been blameless."""
        with self.context(role, **options) as context:
            watched = Watched(context.new_page(), self.hub.url)
            watched.page.goto(f"{self.hub.url}/#{view}")
            if role is not None:
                watched.live()
            yield watched
            watched.blameless()

    @contextmanager
    def swarm(
        self, count: int, *options: str, name: str = "gpu", labels: dict[str, str] | None = None
    ) -> Iterator[Process]:
        """So many made-up nodes with real sessions; lines on its stdin are orders, see `bench.swarm`."""
        token = self.hub.enroll_token(self.rig.folder, uses=count, labels=labels)
        argv = ["-m", "bench.swarm", "--hub", self.hub.url, "--token-file", str(token), "--count", str(count)]
        argv += ["--name", name, "--seed", str(secrets.randbelow(10**6)), "--dial-over-s", "0.5", *options]
        with Process(argv, self.rig.folder / f"{name}.log", orders=True) as process:

            def there() -> bool:
                process.check()
                return f"{count} of {count} open" in process.text()

            until(there, f"{count} nodes called {name}")
            yield process


@contextmanager
def world(browser: Browser, **env: str) -> Iterator[World]:
    """A hub of its own."""
    # A short path: unix sockets live below it, and their paths have at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="pw-") as folder:
        rig = Rig(Path(folder))
        try:
            quick = {"PROVEWIRE_ENROLL_PER_S": "1000", "PROVEWIRE_ACCEPT_PER_S": "1000"}
            yield World(rig, rig.hub("hub", port=0, **(quick | env)), browser)
        finally:
            rig.stop()
