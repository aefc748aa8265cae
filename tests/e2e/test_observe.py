"""An agent that only watches, beside a running cuzk-daemon: the hub sees the daemon, and no card is touched."""

import contextlib
import time
from pathlib import Path
from typing import Any

import psutil

from tests.agent.sensors.cuzk.fake_daemon import daemon
from tests.agent.sensors.cuzk.fake_engine import FakeEngine
from tests.e2e.rig import Agent, Hub, Rig, UnixConnection, until

CUDA = ("libcuda", "pycuda", "libnvrtc", "libprovewire")


def engines(hub: Hub, name: str = "node-a") -> list[dict[str, Any]]:
    status = hub.nodes().get(name, {}).get("status") or {}
    found: list[dict[str, Any]] = status.get("engines") or []
    return found


def wait_engine(hub: Hub, **wanted: Any) -> dict[str, Any]:
    """The daemon at the hub, once all of ``wanted`` is so."""

    def there() -> dict[str, Any]:
        for engine in engines(hub):
            if all(engine[key] == value for key, value in wanted.items()):
                return engine
        return {}

    return until(there, f"the hub to see {wanted}")


def wait_event(hub: Hub, kind: str, **fields: Any) -> dict[str, Any]:
    """The fields of an event of the node, once the hub's store has it."""
    node = hub.nodes()["node-a"]["id"]

    def there() -> dict[str, Any]:
        for event in hub.call("GET", f"nodes/{node}/events?stream=events&limit=500")["events"]:
            found: dict[str, Any] = event["body"]
            if event["kind"] == kind and all(found.get(key) == value for key, value in fields.items()):
                return found
        return {}

    return until(there, f"{kind} with {fields} at the hub")


def metrics(agent: Agent) -> set[str]:
    """The lines of the agent's own metrics."""
    connection = UnixConnection(agent.folder / "agent.sock")
    try:
        connection.request("GET", "/metrics")
        return set(connection.getresponse().read().decode().splitlines())
    finally:
        connection.close()


def mapped(agent: Agent) -> dict[int, str]:
    """The memory maps of the agent and of every process below it."""
    assert agent.process is not None
    maps: dict[int, str] = {}
    # Children may be short-lived, as the one that asks NVML.
    for process in [psutil.Process(agent.process.pid), *psutil.Process(agent.process.pid).children(recursive=True)]:
        with contextlib.suppress(OSError):
            maps[process.pid] = Path(f"/proc/{process.pid}/maps").read_text(errors="replace")
    return maps


def test_a_cuzk_daemon_is_seen_at_the_hub_and_nothing_of_cuda_is_loaded(rig: Rig) -> None:
    hub = rig.hub()
    engine = FakeEngine(time.monotonic)
    engine.submit("ps-porep-1000-7-4411")
    engine.run_partition("ps-porep-1000-7-4411", 0)
    agent = rig.agent()
    seen: dict[int, str] = {}

    def look() -> bool:
        seen.update(mapped(agent))
        return True

    with daemon(engine.status) as fake:
        token = str(hub.enroll_token(hub.folder))
        agent.start(hub, "--token-file", token, "--observe", "--cuzk", f"127.0.0.1:{fake.port}", "--cuzk-grpc", "off")
        until(lambda: look() and engines(hub), "the daemon at the hub")
        shown = wait_engine(hub, state="ok")
        assert shown["source"] == "http"
        assert shown["queued"] == 3
        (job,) = shown["jobs"]
        assert (job["id"], job["state"], job["partitions_done"]) == ("ps-porep-1000-7-4411", "running", 1)

        lines = metrics(agent)
        assert 'provewire_agent_engine_state{engine="cuzk",state="ok"} 1.0' in lines
        assert 'provewire_agent_session_state{state="open"} 1.0' in lines

        engine.fail_partition("ps-porep-1000-7-4411", 1)
        failed = wait_event(hub, "engine.job_failed", job="ps-porep-1000-7-4411")
        assert (failed["partition"], failed["sure"]) == (1, "certain")
        assert wait_engine(hub, failed=1)["jobs"][0]["state"] == "failed"

        fake.stop()
        down = wait_engine(hub, state="down")
        assert "cuzk-daemon" in down["detail"]
        assert down["jobs"][0]["id"] == "ps-porep-1000-7-4411"
        assert down["answered_at_ms"] > 0
        wait_event(hub, "engine.state", state="down")
        look()

    node = hub.nodes()["node-a"]
    assert node["status"]["workers"] == []
    assert not (agent.folder / "workers").exists()
    assert "cpython" in seen[agent.process.pid if agent.process else 0]  # what was read are maps
    for pid, maps in seen.items():
        loaded = {word for word in CUDA if word in maps}
        assert not loaded, f"process {pid} of the agent has {loaded}"
