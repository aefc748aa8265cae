"""A node under a real systemd, installed as the documentation says, is helped back by the hub while its worker proves.

Agent and worker are units; what the hub does goes by ssh to the node's sshd and there by systemctl.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.rig import Hub, Rig, catch_in_mid_proof, until
from tests.e2e.systemd_world import SystemdNode
from tests.hub.ssh.sshd import needs_sshd

pytestmark = [needs_sshd, pytest.mark.timeout(300)]

OLDER, NEWER = "0.0.1", "0.0.2"


def ladder(hub: Hub, node_id: str) -> dict[str, dict[str, Any]]:
    """A look now, rung by rung."""
    found = hub.call("POST", f"nodes/{node_id}/probe", {})
    return {step["rung"]: step for step in found["steps"]}


def test_a_proof_runs_through_every_repair_of_a_node_under_systemd(
    rig: Rig, wheel_of: Callable[[str], Path], no_systemd: str
) -> None:
    if no_systemd:
        pytest.skip(no_systemd)
    hub = rig.hub(
        PROVEWIRE_SSH_RUNTIME_DIR=str(rig.folder / "r"),
        PROVEWIRE_HEARTBEAT_S="1",
        PROVEWIRE_STALE_AFTER_S="3",
        PROVEWIRE_LOST_AFTER_S="5",
        PROVEWIRE_LEASE_S="600",
    )
    node = SystemdNode(rig, wheel_of(OLDER))
    node.authorized_keys.write_text((hub.folder / "ssh" / "id_ed25519.pub").read_text())
    node.join(hub)
    node_id = hub.nodes()[node.name]["id"]
    hub.register()
    job, worker = catch_in_mid_proof(hub, node)
    group = node.group_of(worker)
    assert group.endswith("/provewire-worker@host.service"), "the worker is a unit of its own"

    def recovered(action: str, **more: str) -> dict[str, Any]:
        shown = hub.call("POST", f"nodes/{node_id}/recovery/preview", {"action": action, **more})
        done: dict[str, Any] = hub.call("POST", "recovery", {"token": shown["token"]})
        assert done["ok"], done
        assert done["provers_lost"] == []
        assert psutil.Process(worker).status() == psutil.STATUS_STOPPED
        assert node.group_of(worker) == group
        assert hub.job(job)["state"] == "running", hub.job(job)
        return done

    (agent,) = node.processes("agent")
    assert node.group_of(agent).endswith("/provewire-agent.service")
    # One that was killed, and that systemd was told not to start again.
    node.kill_agent()
    hub.wait_node(node.name, "lost")
    found = ladder(hub, node_id)
    assert found["provers"]["sentence"] == "alive: 1 worker; leave them alone"
    assert found["agent"]["sentence"] in node.dead_words
    assert "agent.started" in found["agent"]["detail"]
    done = recovered("restart-agent")
    assert node.again_words in done["output"]
    agent = node.wait_agent(agent)
    hub.wait_node(node.name)
    # One that hangs: to systemd it is active.
    os.kill(agent, signal.SIGSTOP)
    hub.wait_node(node.name, "lost")
    found = ladder(hub, node_id)
    assert found["agent"]["sentence"].startswith("its unit is active (running)")
    assert found["status"]["state"] == "failed"
    recovered("restart-agent")
    agent = node.wait_agent(agent)
    hub.wait_node(node.name)
    logs = recovered("fetch-logs")["output"]
    assert "agent.started" in logs
    assert "worker.device_ready" in logs
    # Upgraded for good, and once.
    assert hub.nodes()[node.name]["version"] == OLDER
    done = recovered("upgrade", wheel=str(wheel_of(NEWER)))
    assert f"provewire {NEWER} is installed now" in done["output"]
    agent = node.wait_agent(agent)
    until(lambda: hub.nodes()[node.name]["version"] == NEWER, "the newer agent")
    assert "already" in recovered("upgrade", wheel=str(wheel_of(NEWER)))["sentence"]
    assert node.processes("agent") == [agent]
    os.kill(worker, signal.SIGCONT)
    ended = hub.wait_job(job)
    assert ended["state"] == "done", ended
    assert len(ended["attempts"]) == 1
    assert node.wait_worker() == worker
    enrolled_anew(hub, node, node_id)
    assert node.wait_worker() == worker


def enrolled_anew(hub: Hub, node: SystemdNode, node_id: str) -> None:
    """Its identity is of no use any more: it becomes a new node, by the token file its unit names."""
    node.systemctl("stop", "provewire-agent")
    hub.wait_node(node.name, "lost")
    shown = hub.call("POST", f"nodes/{node_id}/recovery/preview", {"action": "re-enrol"})
    done = hub.call("POST", "recovery", {"token": shown["token"]})
    assert done["ok"], done

    def anew() -> bool:
        nodes = hub.call("GET", "nodes?limit=500")["nodes"]
        return any(one["id"] != node_id and one["state"] == "online" for one in nodes)

    until(anew, "the node to be here under another id")
    assert list(node.folder.glob("agent.json.before-provewire-*"))
