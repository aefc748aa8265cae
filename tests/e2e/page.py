"""The hub's page in a browser, as an admin sees it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.e2e.rig import ROOT, Hub
from tests.hub.api.browser import MISSING, Tab, browser_path, tab

BUILT = ROOT / "hub" / "page" / "index.html"
PASSWORD = "correct horse battery staple"  # noqa: S105 - of a user that lives for one test
LIVE = "document.querySelector('.tag.link')?.textContent.includes('live')"


def no_page() -> str:
    """Why the page cannot be looked at here; empty where it can."""
    if browser_path() is None:
        return MISSING
    return "" if BUILT.exists() else "npm is missing: apt-get install nodejs npm, for the page is not built"


@asynccontextmanager
async def page(hub: Hub) -> AsyncIterator[Tab]:
    """The fleet's view, once it hears the hub."""
    program = browser_path()
    assert program is not None
    who = {"name": "admin", "password": PASSWORD}
    hub.call("POST", "users", {**who, "role": "admin"})
    headers = {"Content-Type": "application/json", "X-Provewire": "1"}
    login = {"method": "POST", "headers": headers, "body": json.dumps(who)}
    async with tab(program) as browser:
        await browser.look(width=1280, height=900)
        await browser.open(hub.url)
        done = await browser.ask(f"fetch('/api/v1/login', {json.dumps(login)}).then((answer) => answer.status)")
        assert done == 200
        await browser.open(hub.url)
        await browser.until(LIVE)
        browser.complaints.clear()  # before the login every request was refused
        yield browser
