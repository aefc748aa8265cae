"""A real browser, driven over its DevTools socket: just enough to open a page, ask it, and take its picture."""

import asyncio
import base64
import itertools
import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
WAIT_S = 60.0
MISSING = "a browser is missing: apt-get install chromium"


def browser_path() -> str | None:
    """Where a browser of this family is."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class MovedOn(Exception):
    """The page went to another address while it was asked."""


class Tab:
    """One page."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self.complaints: list[str] = []
        """What the console said that is worse than talk: exceptions, refused by policy, failed loads."""

    async def send(self, method: str, **params: Any) -> Any:
        """One command; its result."""
        number = next(self._ids)
        await self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        async with asyncio.timeout(WAIT_S):
            while True:
                message = json.loads(await self._socket.recv())
                if message.get("id") == number:
                    if "navigated" in message.get("error", {}).get("message", ""):
                        raise MovedOn(method)
                    assert "error" not in message, message
                    return message["result"]
                self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif message.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    async def open(self, url: str) -> None:
        """Go to an address."""
        for domain in ("Page", "Runtime", "Log"):
            await self.send(f"{domain}.enable")
        await self.send("Page.navigate", url=url)

    async def ask(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = await self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def until(self, expression: str) -> Any:
        """The first true value of an expression; the page itself waits, frame by frame."""
        watch = (
            "new Promise((done) => { const look = () => { let value; try { value = (%s); } catch { value = null; }"
            " if (value) done(value); else requestAnimationFrame(look); }; look(); })"
        )
        async with asyncio.timeout(WAIT_S):
            while True:
                try:
                    answer = await self.send(
                        "Runtime.evaluate", expression=watch % expression, returnByValue=True, awaitPromise=True
                    )
                except MovedOn:
                    continue
                if "exceptionDetails" not in answer:
                    return answer["result"].get("value")

    async def look(self, *, width: int, height: int, dark: bool = False, phone: bool = False) -> None:
        """Size of the window and what the user prefers."""
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[scheme])

    async def picture(self, *, whole: bool = False) -> bytes:
        """What is seen, or the whole page, as PNG."""
        answer = await self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(answer["data"])


@asynccontextmanager
async def tab(program: str) -> AsyncIterator[Tab]:
    """A fresh browser with one empty page, without a window and without a network of its own."""
    with tempfile.TemporaryDirectory(prefix="pw-browser-", ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            program,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            "--remote-debugging-port=0",
            f"--user-data-dir={profile}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with connect(await _page_address(process), max_size=2**26) as socket:
                yield Tab(socket)
        finally:
            process.kill()
            await process.communicate()


async def _page_address(process: asyncio.subprocess.Process) -> str:
    """The DevTools socket of the one page, once the browser has said where it listens."""
    from aiohttp import ClientSession  # noqa: PLC0415 - only with a browser

    assert process.stderr is not None
    async with asyncio.timeout(WAIT_S):
        while line := (await process.stderr.readline()).decode(errors="replace"):
            if "DevTools listening on ws://" in line:
                host = line.partition("ws://")[2].partition("/")[0]
                async with ClientSession() as http, http.get(f"http://{host}/json/list") as answer:
                    pages = [one for one in await answer.json() if one["type"] == "page"]
                return str(pages[0]["webSocketDebuggerUrl"])
    raise AssertionError("the browser ended before it listened")
