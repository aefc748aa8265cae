"""The story told again: three nodes nobody gets in to, their agents killed while a proof runs, and each helped back.

To sshd the three faults differ (no key, two keys on one line, a key broken over two lines); to its client they are one
and the same sentence. The hub says it whole, with what it means; what is wrong where is found by another key.
"""

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.node_world import NodeWorld, needs_node_world
from tests.e2e.page import no_page, page
from tests.e2e.rig import PROVEWIRE, ROOT, Rig, catch_in_mid_proof, until
from tests.e2e.systemd_world import SystemdNode
from tests.hub.ssh.sshd import make_key

pytestmark = [needs_node_world, pytest.mark.timeout(420)]

DENIED = "root@127.0.0.1: Permission denied (publickey)."
INCIDENT = "3 of 3 nodes, one cause: identity refused"
REMEDY = "The server took none of the keys offered."
COMMAND_S = 120.0
OK, INTERNAL = 0, 6


def public_of(path: Path) -> str:
    return path.with_name(path.name + ".pub").read_text().strip()


class Story:
    """A hub, three nodes, and an operator at the hub's command line with a key of their own."""

    def __init__(self, rig: Rig, wheel: Path | None) -> None:
        self.rig = rig
        self.hub = rig.hub(
            PROVEWIRE_SSH_RUNTIME_DIR=str(rig.folder / "r"),
            PROVEWIRE_HEARTBEAT_S="1",
            PROVEWIRE_STALE_AFTER_S="3",
            PROVEWIRE_LOST_AFTER_S="5",
            PROVEWIRE_LEASE_S="900",
            PROVEWIRE_SSH_PROBE_AFTER_S="1",
        )
        self.folder = rig.folder
        self.hub_key = self.hub.folder / "ssh" / "id_ed25519"
        self.key = make_key(rig.folder / "operator")
        self.missing, self.wrapped = NodeWorld(rig, "node-a"), NodeWorld(rig, "node-c")
        self.fused = NodeWorld(rig, "node-b") if wheel is None else SystemdNode(rig, wheel, "node-b")
        self.nodes = (self.missing, self.fused, self.wrapped)
        self.workers: dict[str, int] = {}

    def join(self, node: NodeWorld) -> None:
        """The node enrols; its way in is set later."""
        node.start(self.hub, "--token-file", str(self.hub.enroll_token(node.world)))
        self.hub.wait_node(node.name)
        self.workers[node.name] = node.wait_worker()

    def say(self, *words: str, code: int = OK) -> str:
        """A command at the hub; what it prints."""
        argv = [sys.executable, *PROVEWIRE, words[0], "--data-dir", str(self.hub.folder), *words[1:]]
        if words[0] in {"ssh-target", "ssh-key"}:
            argv = [sys.executable, *PROVEWIRE, words[0], words[1], "--data-dir", str(self.hub.folder), *words[2:]]
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            timeout=COMMAND_S,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def has_targets(self) -> None:
        """The ways in, imported as the old manager stored them; host keys as the provider says."""
        lines = [f"{node.name} ssh -p {node.port} root@127.0.0.1" for node in self.nodes]
        path = self.folder / "targets"
        path.write_text("\n".join(lines) + "\n")
        counts = "3 new, 0 changed, 0 same, 0 refused"
        assert f"{counts}; nothing was changed yet: say --yes" in self.say("ssh-target", "import", str(path))
        assert f"{counts}\n" in self.say("ssh-target", "import", "--yes", str(path))
        for node in self.nodes:
            self.say("ssh-target", "pin", node.name, node.host_key_text)

    def fallback(self, node: NodeWorld) -> dict[str, Any]:
        found: dict[str, Any] = self.hub.nodes()[node.name]["fallback"]
        return found

    def id(self, node: NodeWorld) -> str:
        return str(self.hub.nodes()[node.name]["id"])

    def ladder(self, node: NodeWorld) -> dict[str, dict[str, Any]]:
        """What the hub's last look of its own found, rung by rung."""
        told = self.hub.call("GET", f"nodes/{self.id(node)}/ladder")
        return {step["rung"]: step for step in told["steps"]}

    def kill_agents(self) -> None:
        for node in self.nodes:
            node.kill_agent()


def test_the_story(rig: Rig, wheel_of: Callable[[str], Path], no_systemd: str) -> None:
    story = Story(rig, None if no_systemd else wheel_of(version("provewire")))
    hub = story.hub
    story.missing.authorized_keys.write_text(f"{public_of(story.key)}\n")
    hub.register()
    # The third node proves, and will be proving to the end.
    story.join(story.wrapped)
    job, worker = catch_in_mid_proof(hub, story.wrapped)
    for node in (story.missing, story.fused):
        story.join(node)
    hub_public = public_of(story.hub_key)
    other = public_of(make_key(rig.folder / "somebody"))
    story.fused.authorized_keys.write_text(f"{public_of(story.key)}\n{other}{hub_public}\n")
    story.wrapped.authorized_keys.write_text(f"{public_of(story.key)}\n{hub_public[:50]}\n{hub_public[50:]}\n")
    story.has_targets()

    known_before_it_is_needed(story)
    story.kill_agents()
    lost_and_told(story)
    if not no_page():
        asyncio.run(shown_on_the_page(story))
    let_in_again(story)
    helped_back(story)

    assert hub.job(job)["state"] == "running", hub.job(job)
    assert psutil.Process(worker).status() == psutil.STATUS_STOPPED
    os.kill(worker, signal.SIGCONT)
    ended = hub.wait_job(job)
    assert ended["state"] == "done", ended
    assert len(ended["attempts"]) == 1
    assert {node.name: node.wait_worker() for node in story.nodes} == story.workers
    assert worker == story.workers[story.wrapped.name]


def known_before_it_is_needed(story: Story) -> None:
    """The hub has tried each way in by itself, while every node is online."""
    for node in story.nodes:
        until(lambda node=node: story.fallback(node)["state"] == "broken", f"{node.name}'s way in to be tried")  # type: ignore[misc]
        way = story.fallback(node)
        assert way["sentence"] == "fallback broken: Permission denied (publickey)"
        assert "ssh-key doctor" in way["remedy"]
    assert {node["state"] for node in story.hub.nodes().values()} == {"online"}
    one_incident(story)


def one_incident(story: Story) -> None:
    (incident,) = until(lambda: list(story.hub.call("GET", "incidents")["incidents"]), "the incident")
    assert (incident["headline"], incident["count"], incident["ours"]) == (INCIDENT, 3, False)
    assert {node["name"] for node in incident["nodes"]} == {node.name for node in story.nodes}
    assert INCIDENT in story.say("incidents")


def lost_and_told(story: Story) -> None:
    """Lost, looked after by the hub itself, and what ssh said is told whole."""
    for node in story.nodes:
        story.hub.wait_node(node.name, "lost")
        before_ms = story.fallback(node)["since_ms"]
        until(lambda node=node: story.fallback(node)["looked_at_ms"], f"{node.name} to be looked after")  # type: ignore[misc]
        steps = story.ladder(node)
        assert [steps[rung]["state"] for rung in ("name", "tcp", "banner", "login")] == ["ok", "ok", "ok", "failed"]
        assert DENIED in steps["login"]["detail"]
        assert steps["provers"]["state"] == "unknown", "what is not reached is not called dead"
        assert before_ms is not None
        assert "unknown since" in story.fallback(node)["provers"]
        (record,) = story.hub.call("GET", f"nodes/{story.id(node)}/ssh/attempts?limit=1")["attempts"]
        assert record["cause"] == "identity_refused"
        assert DENIED in record["stderr"]
        assert record["remedy"].startswith(REMEDY)
        assert "Offering public key" in record["verbose"]
        assert record["origin"]["asked_by"] == "hub"
        assert shlex.split(record["command"])[0] == "ssh"
        last = story.say("ssh", node.name, "--last")
        for words in (DENIED, record["remedy"], "identity refused", "to do it again, on "):
            assert words in last, last
    one_incident(story)


async def shown_on_the_page(story: Story) -> None:
    async with page(story.hub) as browser:
        await browser.until("document.querySelectorAll('main tbody tr').length === 3")
        await browser.until(f"document.querySelector('.banners').innerText.includes({json.dumps(INCIDENT)})")
        rows = await browser.ask("[...document.querySelectorAll('main tbody tr')].map((row) => row.innerText)")
        for node in story.nodes:
            (row,) = [row for row in rows if node.name in row]
            assert "Permission denied (publickey)" in row
            await browser.ask(f"location.hash = '/nodes/{story.id(node)}'")
            await browser.until("document.body.innerText.includes('Offering public key')")
            text = await browser.ask("document.body.innerText")
            for words in (node.name, "fallback broken: Permission denied (publickey)", DENIED, REMEDY):
                assert words in text
        assert browser.complaints == []


def let_in_again(story: Story) -> None:
    """What is wrong is found by another key, what would be done is shown, done, and proved by a login of its own."""
    via = ("--via-key", str(story.key))
    expected: Iterable[tuple[NodeWorld, str]] = (
        (story.fused, "two keys stand on this line"),
        (story.missing, "the hub's key is not in the file"),
        (story.wrapped, "the key is broken over several lines"),
    )
    for node, words in expected:
        before = node.authorized_keys.read_text()
        chart = story.say("ssh-key", "doctor", *via, node.name, code=INTERNAL)
        assert "KEEPS THE HUB OUT" in chart, chart
        assert words in chart, chart
        preview = story.say("ssh-key", "install", *via, node.name)
        assert f"+{public_of(story.hub_key)}" in preview, preview
        assert "exactly this is run:" in preview
        assert "nothing was changed" in preview
        assert node.authorized_keys.read_text() == before
        done = story.say("ssh-key", "install", *via, "--yes", node.name)
        assert ": done: " in done, done
        assert public_of(story.hub_key) in node.authorized_keys.read_text().splitlines()
        assert public_of(story.key) in node.authorized_keys.read_text().splitlines()
        assert story.fallback(node)["state"] == "proved"
        login = story.hub.call("GET", f"nodes/{story.id(node)}/ssh/attempts?limit=1")["attempts"][0]
        assert (login["ok"], login["fresh"]) == (True, True)
    until(lambda: not story.hub.call("GET", "incidents")["incidents"], "the incident to be over")


def helped_back(story: Story) -> None:
    """The hub sees the provers alive, and the agents come back without a hand laid on them."""
    for node in story.nodes:
        until(lambda node=node: story.ladder(node)["shell"]["state"] == "ok", f"{node.name} to be looked at again")  # type: ignore[misc]
        steps = story.ladder(node)
        assert steps["provers"]["state"] == "ok"
        assert steps["provers"]["sentence"] == "alive: 1 worker; leave them alone"
        assert steps["agent"]["sentence"] in node.dead_words
        assert story.hub.nodes()[node.name]["state"] == "lost", "a look makes nobody online"
        preview = story.say("recover", node.name, "restart-agent")
        assert "nothing was done" in preview
        assert not node.processes("agent")
        done = story.say("recover", node.name, "restart-agent", "--yes")
        assert "every prover that was there before is there still" in done, done
        assert node.again_words in done, done
        story.hub.wait_node(node.name)
        assert len(node.processes("agent")) == 1
    for node in story.nodes:
        kinds = {
            event["kind"]
            for event in story.hub.call("GET", f"nodes/{story.id(node)}/events?stream=hub&limit=500")["events"]
        }
        assert {"ssh.key_install", "ssh.restart-agent"} <= kinds, kinds


def test_a_browser_and_a_systemd_are_there_for_the_story(no_systemd: str) -> None:
    if reason := no_systemd or no_page():
        pytest.skip(reason)
