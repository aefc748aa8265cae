"""A browser and a hub for each file: while Playwright's loop runs, no asynchronous test of another file could."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.world import AXE, SHELL, WAIT_MS, World, browser_path, launch, world


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = browser_path()
    if program is None:
        pytest.skip("a browser is missing: apt-get install chromium")
    if not SHELL.exists() or not AXE.exists():
        pytest.skip("the page is not built: apt-get install nodejs npm, then make page")
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = launch(playwright, program)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def hub(browser: Browser) -> Iterator[World]:
    with world(browser) as made:
        yield made
