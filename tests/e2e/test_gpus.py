"""Cards from a driver's library to the hub, through real processes; the library is a fake, everything else is real."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.agent.sensors.fake_nvml.library import FakeNvml, uuid_of
from tests.e2e.rig import PROVEWIRE, ROOT, Agent, Hub, Rig, until


def states(status: dict[str, Any] | None) -> dict[str, str]:
    return {gpu["uuid"]: gpu["state"] for gpu in (status or {}).get("gpus", [])}


def at_hub(hub: Hub, agent: Agent) -> dict[str, Any]:
    status: dict[str, Any] = hub.nodes()[agent.name]["status"] or {}
    return status


def told(agent: Agent) -> str:
    """What `provewire status` prints."""
    argv = [sys.executable, *PROVEWIRE, "status", "--data-dir", str(agent.folder)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT).stdout


@pytest.fixture
def nvml(tmp_path: Path) -> FakeNvml:
    return FakeNvml(tmp_path / "scenario")


def observed(rig: Rig, hub: Hub, nvml: FakeNvml) -> Agent:
    environ = {key: nvml.environ[key] for key in ("LD_LIBRARY_PATH", "FAKE_NVML_SCENARIO")}
    agent = rig.agent("node-g", **environ)
    agent.start(hub, "--observe", "--token-file", str(hub.enroll_token(hub.folder)))
    hub.wait_node(agent.name)
    return agent


def test_faults_of_cards_reach_the_hub_and_the_local_view(rig: Rig, nvml: FakeNvml) -> None:
    hub = rig.hub()
    agent = observed(rig, hub, nvml)
    until(lambda: len(states(at_hub(hub, agent))) == 8, "eight cards at the hub")
    assert set(states(at_hub(hub, agent)).values()) == {"ok"}
    nvml.set("3 lost 1", "5 ecc 2", "6 crash 1", "2 xid 79")
    expected = {3: "lost", 5: "degraded", 6: "degraded", 2: "degraded"}

    def arrived() -> bool:
        seen = states(at_hub(hub, agent))
        return all(seen.get(uuid_of(number)) == state for number, state in expected.items())

    until(arrived, "the faults at the hub")
    node = at_hub(hub, agent)
    assert [gpu["temperature_c"] for gpu in node["gpus"] if gpu["uuid"] == uuid_of(7)] == [41]
    shown = told(agent)
    assert "lost" in shown
    assert "degraded" in shown
    nvml.set("3 lost 0")
    until(lambda: states(at_hub(hub, agent))[uuid_of(3)] == "ok", "the card's return")


def test_the_nvml_child_goes_with_its_agent(rig: Rig, nvml: FakeNvml) -> None:
    hub = rig.hub()
    agent = observed(rig, hub, nvml)
    until(lambda: states(agent.status()), "cards in the local view")
    assert agent.process is not None
    (child,) = psutil.Process(agent.process.pid).children()
    assert "agent.sensors.nvml_child" in child.cmdline()
    agent.kill()
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "the child's end")
