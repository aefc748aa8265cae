"""Recoveries with a whole hub and real sshds: previews bound to what is done, refusals, provers compared."""

import re
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from hub import ports
from hub.liveness import NodeState
from hub.ssh import recovery_scripts
from hub.ssh.cause import Cause
from hub.ssh.ladder import Rung, Step
from hub.ssh.ladder import State as RungState
from hub.ssh.looking import Ladder
from hub.ssh.recovery import Action, Process, Recovery, RecoveryRefused, lost, processes, wheel_version
from hub.ssh.unasked import Unasked
from tests.hub.rig import Peer
from tests.hub.ssh.fleet import OPERATOR, Fleet, fleet, until
from tests.hub.ssh.sshd import needs_sshd

LISTED = """7 S supervise python -m cli.main supervise agent
8 S agent python -m cli.main agent --name x
9 R worker python -m cli.main worker
10 Z worker
11 S cuzk /usr/bin/cuzk-daemon
noise
"""


def recovery_of(all_: Fleet) -> Recovery:
    return all_.hub.app[ports.SSH_HELP].recovery


def test_provers_are_compared_by_process_and_an_ended_one_is_gone() -> None:
    before = processes(LISTED)
    assert [process.pid for process in before] == [7, 8, 9, 10, 11]
    assert before[1].command == "python -m cli.main agent --name x"
    assert lost(before, before) == ()
    assert lost(before, processes(LISTED.replace("8 S agent", "80 S agent"))) == (), "an agent is no prover"
    assert [p.pid for p in lost(before, processes(LISTED.replace("9 R worker", "9 Z worker")))] == [9]
    assert [p.pid for p in lost(before, before[:3])] == [11]
    assert lost((Process(9, "R", "worker", ""),), (Process(9, "R", "cuzk", ""),)) != ()


@pytest.mark.parametrize(
    "name", ["provewire.whl", "other-1.0-py3-none-any.whl", "provewire-1.0-py3-none-any.whl.sh", ""]
)
def test_only_a_wheel_of_ours_upgrades(name: str) -> None:
    with pytest.raises(RecoveryRefused):
        wheel_version(Path("/x") / name)
    assert wheel_version(Path("/x/provewire-1.2.3rc1-py3-none-any.whl")) == "1.2.3rc1"


def test_what_comes_from_outside_is_quoted_in_a_script() -> None:
    script = recovery_scripts.upgrade("a b'; rm -rf /.whl", "0" * 64, "1")
    assert "name='a b'\"'\"'; rm -rf /.whl'" in script


@pytest.mark.parametrize(
    "script",
    [
        recovery_scripts.RESTART_AGENT,
        recovery_scripts.RE_ENROL,
        recovery_scripts.fetch_logs(),
        recovery_scripts.upgrade("provewire-1-py3-none-any.whl", "0" * 64, "1"),
    ],
    ids=["restart", "re-enrol", "logs", "upgrade"],
)
def test_a_script_is_what_its_preview_shows_and_a_shell_understands_it(script: str) -> None:
    assert all(char.isprintable() or char == "\n" for char in script), "no control character hides in it"
    for sh in filter(None, map(shutil.which, ("sh", "dash", "bash"))):
        assert subprocess.run([sh, "-n"], input=script, text=True, check=False, timeout=20).returncode == 0
    functions = set(re.findall(r"^(\w+)\(\)", script, re.MULTILINE))
    called = set(re.findall(r"\b(?:timeout \S+|sudo -n|limited|within \S+) (\w+)", script))
    assert called.isdisjoint(functions), "only a program can be run under another"


@needs_sshd
async def test_a_recovery_that_would_be_wrong_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    async with fleet(tmp_path) as all_:
        recovery = recovery_of(all_)
        nowhere = await all_.hub.enroll("no way in")
        with pytest.raises(RecoveryRefused, match="no way in"):
            await recovery.plan(nowhere.id, Action.RESTART_AGENT)
        node = await all_.node()
        for wheel in (None, Path("relative.whl"), tmp_path / "provewire-9-py3-none-any.whl"):
            with pytest.raises(RecoveryRefused):
                await recovery.plan(node.id, Action.UPGRADE, wheel=wheel)
        assert await all_.hub.store.ssh_attempts(node.id) == []


@needs_sshd
async def test_a_wheel_that_changed_after_the_preview_is_not_sent(tmp_path: Path) -> None:
    async with fleet(tmp_path) as all_:
        node, recovery = await all_.node(), recovery_of(all_)
        wheel = tmp_path / f"provewire-{version('provewire')}-py3-none-any.whl"
        wheel.write_bytes(b"one")
        plan = await recovery.plan(node.id, Action.UPGRADE, wheel=wheel)
        wheel.write_bytes(b"two")
        with pytest.raises(RecoveryRefused, match="not the file any more"):
            await recovery.apply(plan, OPERATOR)
        assert await all_.hub.store.ssh_attempts(node.id) == []


@needs_sshd
async def test_logs_are_fetched_and_kept_with_the_node_as_asked_for(tmp_path: Path) -> None:
    async with fleet(tmp_path) as all_:
        node, recovery = await all_.node(), recovery_of(all_)
        done = await recovery.apply(await recovery.plan(node.id, Action.FETCH_LOGS), OPERATOR)
        assert done.ok, done
        assert (done.before, done.after, done.provers_lost) == ((), (), ())
        [event] = [e for e in await all_.hub.store.hub_events(node.id) if e.kind == "ssh.fetch-logs"]
        assert event.detail == "the test from 127.0.0.1: the logs were read"
        all_.sshds[node.id].authorized_keys.write_text("", "ascii")
        all_.sshds[node.id].stop()
        failed = await recovery.apply(await recovery.plan(node.id, Action.FETCH_LOGS), OPERATOR)
        assert not failed.ok
        assert failed.sentence


# --- unasked


def dead_agent(node: Peer, at_ms: int) -> Ladder:
    steps = tuple(
        Step(rung, RungState.FAILED if rung is Rung.AGENT else RungState.OK, "as the test says") for rung in Rung
    )
    return Ladder(node_id=node.id, attempt="x", at_ms=at_ms, duration_s=1.0, cause=Cause.OK, steps=steps, reached=True)


@needs_sshd
async def test_the_policy_tries_one_canary_and_nobody_after_it_failed_also_in_another_run(tmp_path: Path) -> None:
    """The nodes' keys are gone, so that the restart fails: a real one would find every agent on this machine."""
    settings: dict[str, Any] = {
        "heartbeat_s": 0.1,
        "stale_after_s": 0.2,
        "lost_after_s": 0.3,
        "reconnect_spread_s": 0.1,
    }
    async with fleet(tmp_path, ssh_recover_labels="*", ssh_probe_after_s=1e6, **settings) as all_:
        nodes = [await all_.node(f"node-{number}", authorized=False) for number in range(2)]
        app, watch = all_.hub.app, all_.hub.app[ports.SSH_WATCH]
        unasked = unasked_of(all_)
        await unasked.tick()
        assert unasked.last.reason == "nobody needs it", "a node that never came is not lost"
        for node in nodes:
            async with node.connect():
                pass
        await until(lambda: all(app[ports.REGISTRY].state(node.id) is NodeState.LOST for node in nodes), 60.0)
        assert unasked.suspects() == [], "nobody has looked after them"
        for node in nodes:
            watch._ladders[node.id] = dead_agent(node, app[ports.CLOCK].time_ms())
        assert {suspect.node_id for suspect in unasked.suspects()} == {node.id for node in nodes}
        await until(lambda: not watch.paused, 60.0)
        await unasked.tick()
        canary = unasked.last.node_id
        assert (canary is None, unasked.last.reason) == (False, "canary")
        await unasked.tick()
        assert "did not come back" in unasked.last.reason
        tried = [
            r for node in nodes for r in await all_.hub.store.ssh_attempts(node.id) if r.purpose == "restart-agent"
        ]
        assert [(record.node_id, record.origin.asked_by) for record in tried] == [(canary, "hub")]
        again = unasked_of(all_)
        await again._remember()
        await again.tick()
        assert "did not come back" in again.last.reason
        for node in nodes:
            watch._ladders[node.id] = dead_agent(node, 0)
        assert unasked.suspects() == []


def unasked_of(all_: Fleet) -> Unasked:
    app = all_.hub.app
    return Unasked(
        config=app[ports.CONFIG],
        clock=app[ports.CLOCK],
        registry=app[ports.REGISTRY],
        watch=app[ports.SSH_WATCH],
        recovery=recovery_of(all_),
        store=all_.hub.store,
    )
