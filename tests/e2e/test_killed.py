"""Whoever is killed in mid-proof, the proof arrives, once, and the operator is told why it took longer."""

import os
import signal
import time

import psutil
import pytest

from tests.e2e.rig import Agent, Hub, Rig, catch_in_mid_proof, until

HUB_AWAY_S = 60.0


def successes(hub: Hub, agent: Agent, job: str) -> int:
    """How many results of the job the hub's store holds from this node."""
    node = hub.nodes()[agent.name]["id"]
    events = hub.call("GET", f"nodes/{node}/events?stream=jobs&limit=500")["events"]
    return sum(event["kind"] == "job.succeeded" and event["body"]["job"] == job for event in events)


def assert_done_once(hub: Hub, agent: Agent, job: str, attempts: int = 1) -> None:
    ended = hub.wait_job(job)
    assert ended["state"] == "done", ended
    assert len(ended["attempts"]) == attempts, ended
    assert successes(hub, agent, job) == 1


def test_kill_9_of_the_worker_in_mid_proof(rig: Rig) -> None:
    hub = rig.hub()
    agent = rig.agent().join(hub)
    hub.register()
    job, pid = catch_in_mid_proof(hub, agent)
    session = hub.nodes()["node-a"]["session"]
    os.kill(pid, signal.SIGKILL)
    ended = hub.wait_job(job)
    assert ended["state"] == "done", ended
    # Proved again, by another process, and the first attempt says what happened to it.
    first, second = ended["attempts"]
    assert "signal 9" in first["detail"]
    assert first["outcome"] == "failed"
    assert second["outcome"] == "done"
    assert agent.wait_worker() != pid
    # The agent never lost its session over it.
    assert hub.nodes()["node-a"]["session"] == session
    assert successes(hub, agent, job) == 1


def test_kill_9_and_restart_of_the_agent_in_mid_proof(rig: Rig) -> None:
    hub = rig.hub()
    agent = rig.agent().join(hub)
    hub.register()
    job, pid = catch_in_mid_proof(hub, agent)
    agent.kill(signal.SIGKILL)
    assert psutil.pid_exists(pid)
    os.kill(pid, signal.SIGCONT)
    agent.start(hub)
    assert_done_once(hub, agent, job)
    assert agent.wait_worker() == pid  # the same process finished it


def test_stopping_the_agent_leaves_its_worker_to_finish(rig: Rig) -> None:
    hub = rig.hub()
    agent = rig.agent().join(hub)
    hub.register()
    job, pid = catch_in_mid_proof(hub, agent)
    assert agent.kill(signal.SIGTERM) == 0
    os.kill(pid, signal.SIGCONT)
    ended = agent.folder / "workers" / "host" / "ended"
    until(lambda: list(ended.glob(f"{job}.*")), "the worker to finish by itself")
    agent.start(hub)
    assert_done_once(hub, agent, job)
    assert agent.wait_worker() == pid


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGKILL])
def test_the_hub_away_for_a_minute_in_mid_proof(rig: Rig, number: signal.Signals) -> None:
    hub = rig.hub()
    agent = rig.agent().join(hub)
    hub.register()
    job, pid = catch_in_mid_proof(hub, agent)
    hub.stop(number)
    went_s = time.monotonic()
    os.kill(pid, signal.SIGCONT)
    # The worker finishes and the agent takes the result while nobody listens.
    until(lambda: not (agent.status() or {"jobs": [0]})["jobs"], "the result to be in the outbox")
    status = agent.status()
    assert status is not None
    assert status["hub"]["state"] != "open"
    assert status["outbox"]["events_held"] >= 1
    until(lambda: time.monotonic() - went_s > HUB_AWAY_S, "the minute to be over", HUB_AWAY_S + 30)
    hub.start()
    hub.wait_node("node-a")
    assert_done_once(hub, agent, job)
    assert agent.wait_worker() == pid


def test_a_proof_finished_while_agent_and_hub_are_both_dead(rig: Rig) -> None:
    hub = rig.hub()
    agent = rig.agent().join(hub)
    hub.register()
    job, pid = catch_in_mid_proof(hub, agent)
    hub.stop(signal.SIGKILL)
    agent.kill(signal.SIGKILL)
    os.kill(pid, signal.SIGCONT)
    ended = agent.folder / "workers" / "host" / "ended"
    until(lambda: list(ended.glob(f"{job}.*")), "the worker to finish by itself")
    hub.start()
    agent.start(hub)
    assert_done_once(hub, agent, job)


def test_a_silent_worker_loses_its_lease_and_another_node_proves(rig: Rig) -> None:
    hub = rig.hub(PROVEWIRE_LEASE_S="6", PROVEWIRE_LEASE_GRACE_S="1")
    slow = rig.agent("node-a").join(hub)
    hub.register()
    job, pid = catch_in_mid_proof(hub, slow)
    rig.agent("node-b").join(hub)
    ended = hub.wait_job(job)
    assert ended["state"] == "done", ended
    assert ended["attempts"][0]["outcome"] == "expired"
    nodes = hub.nodes()
    assert ended["attempts"][1]["node"] == nodes["node-b"]["id"]
    assert slow.wait_worker(("silent",)) == pid
    # The one that lost its lease comes to itself: it is told, and its late word changes nothing.
    os.kill(pid, signal.SIGCONT)
    slow.wait_worker(("idle",))
    assert hub.job(job)["attempt"] == 2
