"""Logs on the whole way: a file on the node, the outbox, the hub, and the operator's terminal."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.e2e.rig import PROVEWIRE, ROOT, Agent, Hub, Process, Rig, until


def follow(rig: Rig, hub: Hub, *argv: str) -> Process:
    argv = (*PROVEWIRE, "logs", "--data-dir", str(hub.folder), "-f", *argv)
    return Process(rig, "logs", list(argv), rig.folder / "logs.out", {"NO_COLOR": "1"})


def add(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def read_by(agent: Agent) -> set[str]:
    """The logs that an agent reads."""
    return {each["source"] for each in (agent.status() or {}).get("logs", []) if each["state"] == "reading"}


def test_what_a_file_says_is_read_at_the_hub_whoever_is_killed_in_between(rig: Rig) -> None:
    log = rig.folder / "app.log"
    log.write_text("from before\n")
    hub = rig.hub()
    agent = rig.agent("gpu-box-7")
    agent.start(hub, "--token-file", str(hub.enroll_token(rig.folder)), "--log-file", str(log))
    hub.wait_node("gpu-box-7")
    reader = follow(rig, hub, "gpu-box", "--source", "file", "-n", "100")

    def seen() -> list[str]:
        lines = (line.partition(f"  file:{log}  ") for line in reader.text().splitlines())
        return [text.partition("  ")[0] for _, source, text in lines if source]

    def wait(*texts: str) -> None:
        until(lambda: seen() == list(texts), f"{texts}", 45)

    # The first look at a file decides where one that was there begins.
    until(lambda: f"file:{log}" in read_by(agent), "the file to be followed")
    add(log, '{"msg": "structured", "level": "error", "n": 1}')
    wait("structured")
    assert "n=1" in reader.text()
    agent.kill()
    add(log, "while the agent is dead")
    log.rename(log.with_name("app.log.1"))
    add(log, "after the rotation")
    agent.start(hub, "--log-file", str(log))
    wait("structured", "while the agent is dead", "after the rotation")
    hub.stop(signal.SIGKILL)
    add(log, "while the hub is dead")
    hub.start()
    wait("structured", "while the agent is dead", "after the rotation", "while the hub is dead")
    assert "the hub is away" in reader.text()
    assert "the hub is back" in reader.text()

    # The node's own words and its worker's came along, and nothing that is secret.
    done = subprocess.run(
        [sys.executable, *PROVEWIRE, "logs", "gpu-box-7", "--data-dir", str(hub.folder), "--since", "1h"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "agent.started" in done.stdout
    assert "worker:host" in done.stdout
    for secret in ("pw1.", hub.token):
        assert secret not in done.stdout
