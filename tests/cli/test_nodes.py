"""``provewire nodes`` and ``provewire node``: the banner, then each node's sentence, the worst first."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from cli import node as one_node
from cli.main import main
from cli.nodes import banner_lines, lines
from hub import ports
from tests.cli.test_enroll import announce
from tests.cli.test_probe import OBEYED
from tests.cli.test_ssh import EVIL
from tests.hub.ssh.fleet import fleet
from tests.hub.ssh.sshd import needs_sshd

T_MS = 1_764_000_000_000


def node(name: str = "gpu-07", severity: str = "ok", **said: Any) -> dict[str, Any]:
    sentence = {"state": "idle", "text": "idle", "cause": "", "remedy": "", "since_ms": None, "certain": True}
    return {
        "id": "01890a5d-ac96-774b-bcce-b302099a0001",
        "name": name,
        "sentence": sentence | {"severity": severity} | said,
        "lights": {
            "heard": {"state": "lost", "text": "lost, last heard 02:58", "at_ms": T_MS},
            "proving": {"state": "unknown", "text": "proving when last heard 02:58, unknown since", "last": "proving"},
        },
        "fallback": {"sentence": "fallback proved 02:51", "target": "root@h:22", "found": None, "looked_at_ms": None},
        "labels": {"zone": "a"},
        "version": "1",
        "remote": "198.51.100.7",
        "status": None,
    }


def test_the_worst_first_with_why_and_what_to_do() -> None:
    bad = node("gpu-09", "bad", text="lost, last heard 02:58: why not", cause="why not", remedy="`do this`")
    warn = node("gpu-08", "warn", text="fallback broken", cause="a reason", remedy="`do that`")
    assert lines([node(), warn, bad]) == [
        "X gpu-09  lost     unknown  lost, last heard 02:58: why not",
        "    `do this`",
        "! gpu-08  lost     unknown  fallback broken",
        "    a reason",
        "    `do that`",
        "  gpu-07  lost     unknown  idle",
    ]
    assert "provewire enroll" in lines([])[0]


def test_the_banner_stands_above() -> None:
    line = {"severity": "bad", "headline": "6 of 6 nodes refuse", "since_ms": None, "cause": "why", "remedy": "do"}
    assert banner_lines([line]) == ["X 6 of 6 nodes refuse", "    why", "    do", ""]
    assert "since 20" in banner_lines([line | {"since_ms": T_MS}])[0]
    assert banner_lines([]) == []


def test_one_node_says_whether_its_cause_is_certain() -> None:
    told = "\n".join(one_node.lines(node(severity="bad", cause="probably so", remedy="do", certain=False)))
    assert "why      probably so  (not certain)" in told
    assert "proving when last heard 02:58, unknown since" in told
    assert "fallback proved 02:51  root@h:22" in told


def test_a_worker_on_the_cpu_is_told_with_the_reason() -> None:
    worker = {"device": "cuda:0", "state": "idle", "pid": 7, "detail": "", "on_host": "the package pycuda is missing"}
    status = {"workers": [worker], "gpus": [], "engines": [], "host": None, "outbox": None}
    told = one_node.lines(node() | {"status": status})
    assert "  worker   cuda:0 idle, ON THE CPU instead of its card: the package pycuda is missing" in told


def test_what_nodes_call_themselves_is_not_obeyed() -> None:
    evil = node(f"n{EVIL}", "bad", text=EVIL, cause=EVIL, remedy=EVIL)
    told = "\n".join([*lines([evil]), *one_node.lines(evil)])
    assert not OBEYED & set(told)


@needs_sshd
async def test_at_a_real_hub(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with fleet(tmp_path, watching=False) as all_:
        announce(tmp_path / "hub", f"http://127.0.0.1:{all_.hub.port}")
        peer = await all_.node("node-a")
        at = ["--data-dir", str(tmp_path / "hub")]

        async def run(*words: str) -> str:
            capsys.readouterr()
            assert await asyncio.to_thread(main, [*words, *at]) == 0
            return capsys.readouterr().out

        told = json.loads(await run("nodes", "--json"))
        assert told["banner"] == []
        assert [(one["name"], one["sentence"]["state"]) for one in told["nodes"]] == [("node-a", "never_heard")]
        assert "never heard" in await run("nodes")
        assert "Start the agent at the node" in await run("node", peer.id[:13])
        assert json.loads(await run("node", "node-a", "--json"))["lights"]["heard"]["state"] == "never"
        assert len(all_.hub.app[ports.REGISTRY]) == 1
