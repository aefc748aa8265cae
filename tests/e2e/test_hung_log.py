"""A log reader that hangs: standard error is a full pipe that nobody reads, and neither hub nor agent stops for it."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.e2e.rig import PROVEWIRE, ROOT, Agent, Hub, Rig, until


@pytest.fixture
def full_pipe() -> Iterator[int]:
    """The writing end of one that takes nothing more."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writing, True)
    yield writing
    os.close(reading)
    os.close(writing)


def started(rig: Rig, log: int, *argv: str) -> "subprocess.Popen[bytes]":
    """A process that says much, to that log."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PROVEWIRE_LOG": "json", "PROVEWIRE_LOG_LEVEL": "debug"}
    child = subprocess.Popen(
        [sys.executable, *PROVEWIRE, *argv], cwd=ROOT, stderr=log, stdin=subprocess.DEVNULL, env=environ
    )
    rig.children.append(child)
    return child


def test_a_hub_and_an_agent_whose_log_nobody_reads_go_on(rig: Rig, full_pipe: int) -> None:
    hub = Hub(rig, {}, "hub")
    hub_process = started(rig, full_pipe, "hub", "--listen", "127.0.0.1:0", "--data-dir", str(hub.folder))
    until((hub.folder / "hub.json").exists, "the hub to listen")
    hub.port = int(json.loads((hub.folder / "hub.json").read_text())["url"].rsplit(":", 1)[1])
    agent = Agent(rig, {}, "node-a")
    token = str(hub.enroll_token(rig.folder))
    agent_process = started(
        rig,
        full_pipe,
        "agent",
        "--hub",
        hub.url,
        "--data-dir",
        str(agent.folder),
        "--name",
        agent.name,
        "--device",
        "host",
        "--local",
        "off",
        "--token-file",
        token,
    )
    hub.wait_node(agent.name)
    agent.wait_worker()
    for _ in range(50):
        assert hub.nodes()[agent.name]["lights"]["heard"]["state"] == "live"
        assert agent.status() is not None
    assert select.select([], [full_pipe], [], 0)[1] == [], "nobody has read"
    for process in (agent_process, hub_process):
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
