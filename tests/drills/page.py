"""The hub's page as an operator reads it while a drill goes on: the words in the banner and in a node's row."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from playwright.sync_api import sync_playwright

from tests.browser.world import AXE, SHELL, Watched, World, browser_path, launch
from tests.e2e.rig import Hub, Rig, until

MISSING = "the page is not read: a browser, or the built page, is missing (apt-get install chromium; make page)"
SHOWN_S = 20.0
SINCE = re.compile(r" since (?:\d{4}-\d\d-\d\d )?\d\d:\d\d")
"""A row says when its first trouble began behind that trouble; the hub's sentence often does not."""


class DrillPage:
    """One page, open all along: what is wrong is told to whoever has it open."""

    def __init__(self, watched: Watched) -> None:
        self._page = watched.page

    def banner(self) -> str:
        """The banner's words."""
        return _words(self._page.locator(".banners").first.text_content(timeout=2000))

    def row(self, name: str) -> str:
        """The words of a node's row."""
        row = self._page.locator(".fleet tbody tr[aria-rowindex]").filter(
            has=self._page.get_by_role("link", name=name, exact=True)
        )
        return _words(row.first.text_content(timeout=2000))

    def shows(self, words: Callable[[], str], where: str) -> None:
        """Until the banner (``where`` empty), or the row of that node, has the words that are right at that moment."""
        last = ["", ""]

        def there() -> bool:
            last[:] = _words(words()), self.row(where) if where else self.banner()
            return bool(last[0]) and last[0] in last[1]

        try:
            until(there, "the page", SHOWN_S)
        except AssertionError:
            raise AssertionError(f"the page does not say {last[0]!r}, it says {last[1]!r}") from None


def _words(text: str | None) -> str:
    return SINCE.sub("", " ".join((text or "").split()))


@contextmanager
def opened(rig: Rig, hub: Hub) -> Iterator[DrillPage | None]:
    """The fleet's page in a browser started here; None where there is no browser."""
    program = browser_path()
    if program is None or not SHELL.exists() or not AXE.exists():
        yield None
        return
    with sync_playwright() as playwright:
        browser = launch(playwright, program)
        try:
            with World(rig, hub, browser).open("/", role="viewer") as watched:
                yield DrillPage(watched)
                watched.complaints.clear()  # a hub that is restarted refuses its page meanwhile
        finally:
            browser.close()
