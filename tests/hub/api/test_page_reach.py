"""The page's dialog of a node's way in, in a real browser: everything is told, and text stays text."""

import shlex
from pathlib import Path

import pytest

from hub import ports
from hub.ssh.reach import Suggestion
from hub.ssh.side import IDENTITY_FILE
from hub.ssh.targets import Target
from tests.hub.api.browser import MISSING, browser_path, tab
from tests.hub.api.conftest import Web
from tests.hub.api.test_page import HOSTILE
from tests.hub.ssh.fleet import host_key_of
from tests.hub.ssh.sshd import needs_sshd, running

TEXT = "document.querySelector('#reach').textContent"


@needs_sshd
async def test_a_real_browser_shows_a_broken_way_whole_and_tries_it_again(web: Web, tmp_path: Path) -> None:
    program = browser_path()
    if program is None:
        pytest.skip(MISSING)
    peer = await web.hub.enroll(HOSTILE[:128])
    desk = web.app[ports.SSH]
    link = (await web.ask("POST", "/api/v1/login-links")).json["url"]
    async with running(tmp_path / "sshd") as server, tab(program) as browser:
        body = {"target": f"{server.target.user}@127.0.0.1:{server.port}", "host_keys": [host_key_of(server)]}
        assert (await web.ask("PUT", f"/api/v1/nodes/{peer.id}/ssh", json=body)).status == 200
        await desk.run(peer.id, "login", ":", asked_by=HOSTILE, fresh=True)
        await browser.look(width=1280, height=900)
        await browser.open(link)
        await browser.until("document.querySelector('#nodes .reach')")
        row = await browser.ask("document.querySelector('#nodes tr').textContent")
        assert "fallback broken: Permission denied (publickey)" in row
        await browser.ask("document.querySelector('#nodes .reach').click()")
        await browser.until(f"{TEXT}.includes('Offering public key')")
        told = await browser.ask(TEXT)
        for text in (
            HOSTILE,
            "The server took none of the keys",
            "Permission denied (publickey).",
            "To do it again, on",
        ):
            assert text in told, text
        command = await browser.ask("[...document.querySelectorAll('#reach pre')].at(-1).textContent")
        assert shlex.split(command)[0] == "ssh"

        server.authorize(desk.way.known_hosts.parent / IDENTITY_FILE)
        await desk.run(peer.id, "command", f"echo {shlex.quote(HOSTILE)} >&2", asked_by="hub", fresh=True)
        await browser.ask("document.querySelector('#reach-try').click()")
        await browser.until(
            f"{TEXT}.includes('fallback proved') && document.querySelectorAll('#reach details').length >= 3"
        )
        await browser.ask("document.querySelectorAll('#reach details')[1].open = true")
        await browser.until("document.querySelectorAll('#reach details pre').length > 1")
        assert HOSTILE in await browser.ask(TEXT)

        await desk.suggested(peer.id, Suggestion(target=Target("203.0.113.9", 2222)))
        await browser.until("!document.querySelector('#reach-accept').hidden")
        await browser.ask("document.querySelector('#reach-accept').click()")
        await browser.until(f"{TEXT}.includes('root@203.0.113.9:2222 (by node)')")
        assert (
            await browser.ask("document.querySelectorAll('#reach img, #reach script, td img, td script').length") == 0
        )
        assert await browser.ask("document.title") != "owned"
        await browser.look(width=390, height=844, phone=True)
        assert await browser.ask("document.documentElement.scrollWidth <= innerWidth")
        assert browser.complaints == []
