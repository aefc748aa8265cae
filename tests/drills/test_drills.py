"""Twelve things that go wrong in fleets: named right within a minute, never wrongly as certain, mended as said.

All along a proof is held in the middle at the prover; no fault and no remedy touches it, and its result arrives.
"""

import os
import shutil
import signal

import pytest

from tests.drills.fleet import Fleet, Sentence, public_of
from tests.drills.node import DrillNode
from tests.e2e.node_world import needs_node_world
from tests.e2e.rig import until
from tests.hub.ssh.sshd import make_key

pytestmark = [needs_node_world, pytest.mark.long, pytest.mark.timeout(900)]


def broken_for_sure(said: Sentence) -> bool:
    return bool(said["state"] == "fallback_broken" and said["certain"])


def test_the_identity_replaced_on_the_hub(fleet: Fleet) -> None:
    key, public = fleet.hub_key, fleet.hub_key.with_name(f"{fleet.hub_key.name}.pub")
    kept = key.read_bytes(), public.read_bytes()
    with fleet.drill("identity replaced on the hub", None, everywhere={"identity_refused"}) as drill:
        key.unlink()
        public.unlink()
        make_key(key)
        said = drill.right(lambda line: line["ours"] and "replaced" in line["cause"], "the hub's key was replaced")
        assert "nodes, one cause: identity refused" in said["headline"]
        assert not said["certain"]
        assert said["remedy"].startswith("Put the old key back")
        key.write_bytes(kept[0])
        public.write_bytes(kept[1])


def test_a_key_that_is_missing(fleet: Fleet) -> None:
    node = fleet.keyless
    with fleet.drill("key missing", node, keyless={"fallback_broken"}) as drill:
        node.authorized_keys.write_text(f"{public_of(fleet.operators_key)}\n")
        said = drill.right(broken_for_sure, "the key is not there")
        assert "the hub's key is not in the file" in said["cause"]
        assert "Permission denied (publickey)" in said["text"]
        fleet.installs(node, said)


def test_keys_on_one_line(fleet: Fleet) -> None:
    node = fleet.fused
    other = public_of(make_key(fleet.rig.folder / "somebody"))
    with fleet.drill("keys fused", node, fused={"fallback_broken"}) as drill:
        node.authorized_keys.write_text(f"{public_of(fleet.operators_key)}\n{other}{public_of(fleet.hub_key)}\n")
        said = drill.right(broken_for_sure, "two keys on one line")
        assert "two keys stand on this line" in said["cause"]
        fleet.installs(node, said)
        assert other in node.authorized_keys.read_text().splitlines()


def test_an_agent_that_is_dead(fleet: Fleet) -> None:
    an_agent_is_dead(fleet)


def an_agent_is_dead(fleet: Fleet) -> None:
    node = fleet.prover
    with fleet.drill("agent dead", node, prover={"agent_dead"}) as drill:
        node.kill_agent()
        said = drill.right(lambda one: one["state"] == "agent_dead", "the agent does not run")
        assert "provers are alive" in said["text"]
        fleet.does(said, f"recover {node.name} restart-agent --yes")
        fleet.hub.wait_node(node.name)


def test_a_node_that_is_gone(fleet: Fleet) -> None:
    node = fleet.roamer
    with fleet.drill("node gone", node, roamer={"fallback_broken"}) as drill:
        node.gone()
        said = drill.right(lambda one: one["state"] == "node_gone", "the machine is gone")
        assert "probably the machine is off" in said["cause"]
        assert "start the machine again" in said["remedy"]
        node.start(fleet.hub)
        fleet.hub.wait_node(node.name)


def test_a_port_that_another_host_has_now(fleet: Fleet) -> None:
    node = fleet.roamer
    with fleet.drill("port reused by another host", node, roamer={"fallback_broken"}) as drill:
        node.gone()
        stranger = DrillNode(fleet.rig, "stranger", node.number).begin([])
        said = drill.right(lambda one: one["state"] == "port_reused", "another host answers")
        assert "was given to another host" in said["cause"]
        assert not said["certain"]
        node.number = 24
        node.start(fleet.hub)
        fleet.hub.wait_node(node.name)
        fleet.does(said, f"ssh-target set {node.name} {node.target}", asked="ssh-target set roamer USER@HOST:PORT")
        fleet.hub.command("ssh-target", "pin", node.name, node.host_key_text)
        until(lambda: fleet.hub.nodes()[node.name]["fallback"]["state"] == "proved", "the new way in to be proved")
        stranger.process.kill() if stranger.process is not None else None


def test_a_card_that_is_lost(fleet: Fleet) -> None:
    with fleet.drill("GPU lost", fleet.cards, cards={"gpu_lost"}) as drill:
        fleet.nvml.set("3 lost 1")
        said = drill.right(lambda one: one["state"] == "gpu_lost", "GPU 3 lost")
        assert "GPU 3 lost" in said["text"]
        assert "nvidia-smi --gpu-reset -i 3" in said["remedy"]
        fleet.nvml.set("3 lost 0")


def test_nvml_that_hangs(fleet: Fleet) -> None:
    node = fleet.cards
    hung = {"gpu_driver_hung"}
    with fleet.drill("NVML hung", node, cards=hung) as drill:
        fleet.nvml.set("* hang.count 1")
        said = drill.right(lambda one: "NVML hung: the driver of all" in one["text"], "NVML hung")
        assert "reboot it" in said["remedy"]
        node.gone()
        fleet.nvml.set("* hang.count 0")
        node.start(fleet.hub)
        fleet.hub.wait_node(node.name)


def test_a_cuzk_daemon_that_is_down(fleet: Fleet) -> None:
    with fleet.drill("cuzk daemon down", fleet.cuzk, cuzk={"engine_down"}) as drill:
        fleet.kill_daemon()
        said = drill.right(lambda one: one["state"] == "engine_down", "the daemon is down")
        assert "cuzk-daemon is down" in said["text"]
        assert "Start the daemon" in said["remedy"]
        fleet.start_daemon()


def test_a_disk_that_is_full(fleet: Fleet) -> None:
    node = fleet.keyless
    with fleet.drill("disk full", node, keyless={"disk_full", "disk_filling"}) as drill:
        filler = node.inside(node.folder) / "filler"
        with filler.open("wb", buffering=0) as out:
            try:
                while True:
                    out.write(bytes(1 << 20))
            except OSError:
                pass
        said = drill.right(lambda one: one["state"] == "disk_full", "the disk is full")
        assert "0 % free" in said["text"]
        assert said["remedy"].startswith("Make room")
        filler.unlink()


def test_a_hub_on_an_old_copy_of_its_data(fleet: Fleet) -> None:
    with fleet.drill("hub restarted with old database", None, everywhere={"hub_is_older"}) as drill:
        old = fleet.back_up()
        for _ in range(2):
            fleet.hub.stop()
            fleet.hub.start()
        for node in fleet.nodes:
            fleet.hub.wait_node(node.name)
        fleet.hub.stop()
        fleet.put_in_place(old, "newest")
        fleet.hub.start()
        everyone = len(fleet.nodes)
        said = drill.right(
            lambda line: line["state"] == "hub_is_older" and line["count"] == everyone,
            "the hub is an older copy of itself",
        )
        assert "put its newest data back" in said["remedy"]
        fleet.hub.stop()
        fleet.put_back("newest")
        fleet.hub.start()


def test_a_clone_of_a_node(fleet: Fleet) -> None:
    node = fleet.fused
    with fleet.drill("clone of a node", node, fused={"duplicate_identity"}) as drill:
        clone = DrillNode(fleet.rig, "clone", 31, "--observe", "--cuzk", "off", boot_id="c" * 32)
        shutil.copytree(node.folder, clone.folder, ignore=shutil.ignore_patterns("*.sock", "agent.lock"))
        clone.start(fleet.hub)
        said = drill.right(lambda one: one["state"] == "duplicate_identity", "a copy knocks")
        assert clone.address in said["cause"]
        assert "Enrol the copy anew" in said["remedy"]
        for kind in ("supervise", "agent"):
            for pid in clone.processes(kind):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not clone.processes("agent"), "the copy's agent to be gone")
        clone.gone()
        shutil.rmtree(clone.folder)
        clone.authorized_keys.write_text(f"{public_of(fleet.hub_key)}\n")
        clone.join(fleet.hub)
        assert fleet.id(clone) != fleet.id(node)
