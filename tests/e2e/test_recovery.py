"""A node is helped back while it proves: every repair is made, and the proof that ran through all of them is done."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.node_world import NodeWorld, needs_node_world
from tests.e2e.rig import Hub, Rig, catch_in_mid_proof, until
from tests.hub.ssh.sshd import make_key

pytestmark = [needs_node_world, pytest.mark.timeout(300)]

OLDER, NEWER = "0.0.1", "0.0.2"


@pytest.fixture
def hub(rig: Rig) -> Hub:
    runtime = rig.folder / "r"
    return rig.hub(
        PROVEWIRE_SSH_RUNTIME_DIR=str(runtime),
        PROVEWIRE_HEARTBEAT_S="1",
        PROVEWIRE_STALE_AFTER_S="3",
        PROVEWIRE_LOST_AFTER_S="5",
        PROVEWIRE_LEASE_S="600",
    )


def public_of(path: Path) -> str:
    return path.with_name(path.name + ".pub").read_text().strip()


def recovered(hub: Hub, node: str, action: str, **more: Any) -> dict[str, Any]:
    """Preview, look, confirm."""
    shown = hub.call("POST", f"nodes/{node}/recovery/preview", {"action": action, **more})
    assert shown["action"] == action
    assert shown["effects"]
    done: dict[str, Any] = hub.call("POST", "recovery", {"token": shown["token"]})
    assert done["provers_lost"] == []
    return done


def test_a_proof_runs_through_every_repair(rig: Rig, hub: Hub, wheel_of: Callable[[str], Path]) -> None:
    node = NodeWorld(rig, wheel=wheel_of(OLDER)).join(hub)
    node_id = hub.nodes()[node.name]["id"]
    hub.register()
    operators_key = make_key(node.world / "operator")
    hub_key = hub.folder / "ssh" / "id_ed25519"
    node.authorized_keys.write_text(f"{public_of(operators_key)}{public_of(hub_key)}\n")
    job, worker = catch_in_mid_proof(hub, node)

    def unharmed() -> None:
        assert psutil.Process(worker).status() == psutil.STATUS_STOPPED
        assert hub.job(job)["state"] == "running", hub.job(job)

    # The key: what is wrong is found by another way in, shown, mended, and proved.
    refused = hub.call("POST", f"nodes/{node_id}/ssh/attempts", {"probe": "login"})
    assert refused["cause"] == "identity_refused"
    chart = hub.call("POST", f"nodes/{node_id}/ssh/doctor", {"via_key": str(operators_key)})
    assert [symptom["kind"] for symptom in chart["symptoms"] if symptom["blocks"]] == ["fused"]
    assert chart["path"] == str(node.authorized_keys)
    done = recovered(hub, node_id, "install-key", via_key=str(operators_key))
    assert done["ok"], done
    assert node.authorized_keys.read_text().splitlines() == [public_of(operators_key), public_of(hub_key)]
    unharmed()
    # The agent: restarted by its supervisor, told over ssh.
    before = node.wait_agent(0)
    done = recovered(hub, node_id, "restart-agent")
    assert done["ok"], done
    assert "the agent runs as process" in done["sentence"]
    assert {process["kind"] for process in done["before"]} == {"agent", "supervise", "worker"}
    after = node.wait_agent(before)
    hub.wait_node(node.name)
    unharmed()
    # One that hangs is not asked twice.
    os.kill(after, signal.SIGSTOP)
    until(lambda: hub.nodes()[node.name]["state"] == "lost", "the hung agent's node to be lost")
    done = recovered(hub, node_id, "restart-agent")
    assert done["ok"], done
    node.wait_agent(after)
    hub.wait_node(node.name)
    unharmed()
    # Its logs, an upgrade for good and once, and another key for the hub.
    assert "started anew, as asked" in recovered(hub, node_id, "fetch-logs")["output"]
    agent = node.wait_agent(0)
    assert hub.nodes()[node.name]["version"] == OLDER
    done = recovered(hub, node_id, "upgrade", wheel=str(wheel_of(NEWER)))
    assert done["ok"], done
    assert f"provewire {NEWER} is installed now" in done["output"]
    agent = node.wait_agent(agent)
    until(lambda: hub.nodes()[node.name]["version"] == NEWER, "the newer agent")
    unharmed()
    done = recovered(hub, node_id, "upgrade", wheel=str(wheel_of(NEWER)))
    assert done["ok"], done
    assert "already" in done["sentence"]
    assert node.processes("agent") == [agent]
    old = public_of(hub_key)
    rotation = hub.call("POST", "ssh/rotation/preview", {})
    assert hub.call("POST", "ssh/rotation", {"token": rotation["token"]})["done"]
    assert old not in node.authorized_keys.read_text()
    assert public_of(hub_key) in node.authorized_keys.read_text()
    unharmed()
    os.kill(worker, signal.SIGCONT)
    ended = hub.wait_job(job)
    assert ended["state"] == "done", ended
    assert len(ended["attempts"]) == 1
    assert node.wait_worker() == worker
    kinds = {event["kind"] for event in hub.call("GET", f"nodes/{node_id}/events?stream=hub&limit=500")["events"]}
    assert {"ssh.key_install", "ssh.restart-agent", "ssh.fetch-logs", "ssh.upgrade"} <= kinds


def test_a_node_that_allows_it_takes_the_key_over_its_session_and_enrols_anew(rig: Rig, hub: Hub) -> None:
    node = NodeWorld(rig).join(hub, "--allow-key-install")
    node_id, worker = hub.nodes()[node.name]["id"], node.wait_worker()
    hub_key = hub.folder / "ssh" / "id_ed25519"
    node.authorized_keys.write_text("# no line end")
    shown = hub.call("POST", "ssh/keys/preview", {"nodes": [node_id]})
    [plan] = shown["plans"]
    assert plan["way"] == "session"
    [made] = hub.call("POST", "ssh/keys/install", {"token": shown["token"]})["installed"]
    assert made["ok"], made
    assert node.authorized_keys.read_text() == f"# no line end\n{public_of(hub_key)}\n"
    refused = hub.request(
        "POST", f"/api/v1/nodes/{node_id}/recovery/preview", b'{"action": "re-enrol"}', hub.admin | JSON
    )
    assert refused.status == 409
    assert "is connected" in refused.json()["detail"]
    # Its identity is of no use any more: it becomes a new node, its worker goes on.
    agent = node.wait_agent(0)
    os.kill(agent, signal.SIGSTOP)
    until(lambda: hub.nodes()[node.name]["state"] == "lost", "the node to be lost")
    done = recovered(hub, node_id, "re-enrol")
    assert done["ok"], done

    def anew() -> bool:
        nodes = hub.call("GET", "nodes?limit=500")["nodes"]
        return any(one["id"] != node_id and one["state"] == "online" for one in nodes)

    until(anew, "the node to be here under another id")
    assert list(node.folder.glob("agent.json.before-provewire-*"))
    assert psutil.pid_exists(worker)
    assert node.wait_worker() == worker


JSON = {"Content-Type": "application/json"}


def test_an_agent_nobody_would_start_again_is_left_alone(rig: Rig, hub: Hub) -> None:
    node = NodeWorld(rig).join(hub)
    node_id = hub.nodes()[node.name]["id"]
    shutil.copyfile(hub.folder / "ssh" / "id_ed25519.pub", node.authorized_keys)
    for supervisor in node.processes("supervise"):
        os.kill(supervisor, signal.SIGKILL)
    agent = node.wait_agent(0)
    done = recovered(hub, node_id, "restart-agent")
    assert not done["ok"]
    assert "no supervisor and was left alone" in done["sentence"]
    assert node.processes("agent") == [agent]
