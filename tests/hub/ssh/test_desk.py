"""The desk of a real hub against real sshds: every attempt kept whole, the way's state true, turns taken."""

import asyncio
import getpass
import os
import time
from pathlib import Path

import pytest

from hub import ports
from hub.bus import NodeChanged, SshAttempted
from hub.ssh.book import alias
from hub.ssh.cause import Cause
from hub.ssh.client import listeners
from hub.ssh.desk import OPERATORS_MAX, WAITING_MAX, Busy, NoWayIn
from hub.ssh.reach import Source, State, Suggestion
from hub.ssh.side import IDENTITY_FILE
from hub.ssh.targets import Target, TargetRefused
from tests.hub.rig import running_hub
from tests.hub.ssh.fleet import OPERATOR, fleet, host_key_of, until
from tests.hub.ssh.sshd import free_port, make_key, needs_sshd

pytestmark = needs_sshd


async def test_an_attempt_is_kept_with_everything_and_proves_the_way(tmp_path: Path) -> None:
    async with fleet(tmp_path, watching=False) as all_:
        node = await all_.node()
        desk = all_.desk
        assert desk.sentence(node.id) == "fallback unproved"
        with all_.hub.app[ports.BUS].subscribe(kinds=(SshAttempted, NodeChanged)) as told:
            record = await all_.run(node, "echo out; echo err >&2", asked_by="alice", asked_from="203.0.113.9")
            messages = await told.take()
        assert (record.cause, record.stdout, record.stderr) == (Cause.OK, b"out\n", b"err\n")
        assert (record.origin.asked_by, record.origin.asked_from) == ("alice", "203.0.113.9")
        assert (record.origin.user, record.origin.pid) == (getpass.getuser(), os.getpid())
        assert record.origin.ssh_version.startswith("OpenSSH_")
        assert len(record.origin.fingerprints) == 1
        assert record.fresh
        assert record.differs == ()
        assert await all_.hub.store.ssh_attempt(record.id) == record
        assert SshAttempted(node.id, record.id) in messages
        assert any(isinstance(message, NodeChanged) and message.node.id == node.id for message in messages)
        assert desk.sentence(node.id).startswith("fallback proved ")
        assert [event.kind for event in await all_.hub.store.hub_events(node.id)] == [
            "ssh.proved",
            "ssh.host_keys",
            "ssh.target",
        ]


async def test_a_refused_key_is_told_whole_with_what_was_offered_and_what_differs(tmp_path: Path) -> None:
    async with fleet(tmp_path, watching=False) as all_:
        node = await all_.node()
        await all_.run(node, fresh=True)
        server = all_.sshds[node.id]
        server.authorized_keys.write_text("", encoding="ascii")
        all_.identity.unlink()
        make_key(all_.identity)
        record = await all_.run(node, fresh=True)
        assert record.cause is Cause.IDENTITY_REFUSED
        assert b"Permission denied (publickey)" in record.stderr
        assert "Offering public key" in record.verbose
        (differs,) = record.differs
        assert differs.startswith("the hub's key: SHA256:")
        assert record.origin.fingerprints[0] in differs
        assert all_.desk.sentence(node.id) == "fallback broken: Permission denied (publickey)"
        assert await all_.hub.store.ssh_attempt(record.id) == record
        (failure,) = all_.desk.failures()
        assert (failure.node_id, failure.cause) == (node.id, Cause.IDENTITY_REFUSED)
        again = await all_.run(node, fresh=True)
        assert all_.desk.failures() == [failure]  # broken since the first time
        assert again.id != record.id
        events = [event for event in await all_.hub.store.hub_events(node.id) if event.kind == "ssh.broken"]
        assert len(events) == 1


async def test_a_standing_connection_proves_nothing_and_a_fresh_login_goes_past_it(tmp_path: Path) -> None:
    async with fleet(tmp_path, watching=False) as all_:
        node = await all_.node()
        await all_.run(node)
        all_.sshds[node.id].authorized_keys.write_text("", encoding="ascii")
        through = await all_.run(node)
        assert (through.cause, through.fresh) == (Cause.OK, False)
        assert all_.desk.readiness(node.id).state is State.PROVED
        assert (await all_.run(node, fresh=True)).cause is Cause.IDENTITY_REFUSED
        assert (await all_.run(node)).cause is Cause.OK
        assert all_.desk.readiness(node.id).state is State.BROKEN


async def test_a_command_that_fails_or_hangs_does_not_break_the_way(tmp_path: Path) -> None:
    async with fleet(tmp_path, watching=False) as all_:
        node = await all_.node()
        failed = await all_.run(node, "exit 3", fresh=True)
        hung = await all_.run(node, "echo begun; sleep 600", fresh=True, deadline_s=3.0)
        assert (failed.cause, failed.remote_exit_code) == (Cause.REMOTE_FAILED, 3)
        assert (hung.cause, hung.began) == (Cause.DEADLINE, True)
        assert all_.desk.readiness(node.id).state is State.PROVED


async def test_another_key_says_nothing_of_the_hubs_own_way(tmp_path: Path) -> None:
    async with fleet(tmp_path, watching=False) as all_:
        node = await all_.node(authorized=False)
        other = make_key(tmp_path / "other")
        all_.sshds[node.id].authorize(other)
        record = await all_.run(node, via_key=other)
        assert record.cause is Cause.OK
        assert all_.desk.readiness(node.id).state is State.UNPROVED
        assert (await all_.run(node, fresh=True)).cause is Cause.IDENTITY_REFUSED
        assert (await all_.run(node, via_key=other)).cause is Cause.OK
        assert all_.desk.readiness(node.id).state is State.BROKEN


async def test_another_user_says_nothing_of_the_hubs_own_way_and_must_be_a_name(tmp_path: Path) -> None:
    async with fleet(tmp_path, watching=False) as all_:
        node = await all_.node()
        record = await all_.run(node, via_user="nobody-of-that-name")
        assert (record.cause, record.target.split("@")[0]) == (Cause.IDENTITY_REFUSED, "nobody-of-that-name")
        assert all_.desk.readiness(node.id).state is State.UNPROVED
        with pytest.raises(TargetRefused):
            await all_.run(node, via_user="-oProxyCommand=id")


async def test_records_and_ways_outlive_the_hub_and_its_key_is_the_same(tmp_path: Path) -> None:
    async with fleet(tmp_path, watching=False) as all_:
        node = await all_.node()
        record = await all_.run(node)
        before = all_.desk.readiness(node.id)
        identity = all_.identity.read_bytes()
        assert all_.identity.stat().st_mode & 0o077 == 0
        known_hosts = all_.desk.way.known_hosts.read_text()
    (tmp_path / "hub" / "ssh" / "known_hosts").unlink()
    async with running_hub(tmp_path / "hub") as hub:
        desk = hub.app[ports.SSH]
        assert desk.readiness(node.id) == before
        assert await hub.store.ssh_attempt(record.id) == record
        assert (tmp_path / "hub" / "ssh" / IDENTITY_FILE).read_bytes() == identity
        assert desk.way.known_hosts.read_text() == known_hosts
    assert known_hosts.startswith(f"{alias(node.id)} ssh-ed25519 ")


async def test_a_key_that_is_gone_is_not_replaced_silently(tmp_path: Path) -> None:
    async with fleet(tmp_path, watching=False) as all_:
        node = await all_.node()
        await all_.run(node)
        path = all_.identity
    path.unlink()
    path.with_name(path.name + ".pub").unlink()
    async with running_hub(tmp_path / "hub") as hub:
        assert not path.exists()
        await hub.app[ports.SSH].examine()
        assert Cause.KEY_MISSING in {problem.cause for problem in hub.app[ports.SSH].problems()}


async def test_a_replaced_key_is_told_before_a_node_is_lost_and_after_a_restart_too(tmp_path: Path) -> None:
    async with fleet(tmp_path, watching=False) as all_:
        node = await all_.node()
        await all_.run(node)
        await all_.desk.examine()
        assert Cause.IDENTITY_REFUSED not in {problem.cause for problem in all_.desk.problems()}
        path = all_.identity
    path.unlink()
    make_key(path)
    async with running_hub(tmp_path / "hub") as hub:
        await hub.app[ports.SSH].examine()
        (problem,) = [p for p in hub.app[ports.SSH].problems() if p.cause is Cause.IDENTITY_REFUSED]
        assert "replaced" in problem.sentence


async def test_a_changed_target_or_host_key_is_unproved_again_and_known_hosts_follows(tmp_path: Path) -> None:
    async with fleet(tmp_path, watching=False) as all_:
        node = await all_.node(known=False)
        unknown = await all_.run(node)
        assert unknown.cause is Cause.HOST_KEY_UNKNOWN
        server = all_.sshds[node.id]
        await all_.desk.book.pin(node.id, [host_key_of(server)], OPERATOR)
        assert all_.desk.readiness(node.id).state is State.UNPROVED
        assert (await all_.run(node)).cause is Cause.OK
        other = make_key(tmp_path / "other_host").with_suffix(".pub").read_text("ascii").split()
        await all_.desk.book.pin(node.id, [" ".join(other[:2])], OPERATOR)
        changed = await all_.run(node, fresh=True)
        assert changed.cause is Cause.HOST_KEY_CHANGED
        assert any(line.startswith("pinned host keys: ") for line in changed.differs)
        await all_.desk.set_target(node.id, Target("127.0.0.1", free_port()), OPERATOR)
        assert all_.desk.readiness(node.id).state is State.UNPROVED
        await all_.desk.set_target(node.id, None, OPERATOR)
        assert all_.desk.sentence(node.id) == "no way in"
        with pytest.raises(NoWayIn, match="ssh-target set"):
            await all_.run(node)


async def test_a_nodes_own_word_is_pinned_once_and_never_takes_an_operators_place(tmp_path: Path) -> None:
    key, other = (" ".join(make_key(tmp_path / n).with_suffix(".pub").read_text("ascii").split()[:2]) for n in "ab")
    async with fleet(tmp_path, watching=False) as all_:
        node = await all_.hub.enroll()
        desk = all_.desk
        await desk.suggested(node.id, Suggestion(target=Target("203.0.113.5", 2222), host_keys=(key,)))
        reach = desk.readiness(node.id)
        assert (reach.target, reach.host_keys, reach.pinned_by) == (None, (key,), Source.NODE)
        assert desk.sentence(node.id) == "no way in"
        await desk.book.accept(node.id, OPERATOR)
        assert desk.target(node.id) == Target("203.0.113.5", 2222)
        await desk.suggested(node.id, Suggestion(target=Target("203.0.113.6", 2222), host_keys=(other,)))
        reach = desk.readiness(node.id)
        assert (reach.target, reach.host_keys) == (Target("203.0.113.5", 2222), (key,))
        assert reach.host_keys_differ
        await desk.book.accept(node.id, OPERATOR, host_keys=True)
        reach = desk.readiness(node.id)
        assert (reach.target, reach.host_keys, reach.host_keys_differ) == (Target("203.0.113.6", 2222), (other,), False)
        events = len(await all_.hub.store.hub_events(node.id))
        await desk.suggested(node.id, Suggestion(target=Target("203.0.113.6", 2222), host_keys=(other,)))
        assert len(await all_.hub.store.hub_events(node.id)) == events


async def test_by_policy_a_suggested_address_is_accepted_but_not_in_place_of_an_operators(tmp_path: Path) -> None:
    async with fleet(tmp_path, watching=False, ssh_accept_suggestions=True) as all_:
        node, other = await all_.hub.enroll("a"), await all_.hub.enroll("b")
        for host in ("203.0.113.5", "203.0.113.6"):
            await all_.desk.suggested(node.id, Suggestion(target=Target(host)))
            assert all_.desk.target(node.id) == Target(host)
        await all_.desk.set_target(other.id, Target("mine"), OPERATOR)
        await all_.desk.suggested(other.id, Suggestion(target=Target("203.0.113.6")))
        assert all_.desk.target(other.id) == Target("mine")


async def test_one_node_cannot_have_its_host_key_taken_for_anothers(tmp_path: Path) -> None:
    async with fleet(tmp_path, watching=False) as all_:
        node, hostile = await all_.node("good", known=False), await all_.hub.enroll("hostile")
        target = all_.desk.target(node.id)
        assert target is not None
        server = all_.sshds[node.id]
        await all_.desk.suggested(hostile.id, Suggestion(target=target, host_keys=(host_key_of(server),)))
        assert (await all_.run(node)).cause is Cause.HOST_KEY_UNKNOWN


async def test_attempts_take_turns_at_a_node_and_stay_within_bounds(tmp_path: Path) -> None:
    async with fleet(tmp_path, watching=False, ssh_probes_max=2) as all_:
        nodes = [await all_.node(f"n{number}") for number in range(4)]
        script = "echo $$ >> {0}/begun; while [ ! -e {0}/go ]; do sleep 0.05; done"

        async def held(node_id: str, by: str) -> object:
            return await all_.desk.run(node_id, "hold", script.format(tmp_path), asked_by=by, deadline_s=30.0)

        begun = tmp_path / "begun"
        probes = [asyncio.create_task(held(node.id, "hub")) for node in nodes]
        await until(lambda: begun.exists() and len(begun.read_text().split()) == 2)
        assert all_.desk.running == 2
        operator = asyncio.create_task(all_.desk.run(nodes[3].id, "login", ":", asked_by="alice"))
        waiting = [asyncio.create_task(held(nodes[0].id, "bob")) for _ in range(WAITING_MAX - 1)]
        await asyncio.sleep(0)
        with pytest.raises(Busy, match="at this node"):
            await held(nodes[0].id, "carol")
        assert all_.desk.running <= 2 + OPERATORS_MAX
        (tmp_path / "go").touch()
        await asyncio.gather(*probes, operator, *waiting)
        assert all_.desk.running == 0


async def test_the_hubs_loop_goes_on_while_attempts_flood_and_hang(tmp_path: Path) -> None:
    async with fleet(tmp_path, watching=False) as all_:
        nodes = [await all_.node(f"n{number}") for number in range(4)]
        scripts = [
            "head -c 50000000 /dev/zero >&2",
            "sleep 60",
            "head -c 50000000 /dev/urandom",
            "exec >&-; echo gone >&2; sleep 1",
        ]
        late_s: list[float] = []

        async def watch() -> None:
            while True:
                due_s = time.monotonic() + 0.01
                await asyncio.sleep(0.01)
                late_s.append(time.monotonic() - due_s)

        watching = asyncio.create_task(watch())
        records = await asyncio.gather(
            *(
                all_.run(node, script, deadline_s=4.0 if script.startswith("sleep") else 120.0)
                for node, script in zip(nodes, scripts, strict=True)
            )
        )
        watching.cancel()
        assert [record.cause for record in records[:3]] == [Cause.OK, Cause.DEADLINE, Cause.OK]
        assert records[0].stderr_bytes == 50_000_000
        assert len(records[0].stderr) < 1024 * 1024 + 100
        assert len(late_s) > 50  # it was never held up for long: else there were few
        for record in records:
            assert await all_.hub.store.ssh_attempt(record.id) is not None


async def test_an_attempt_whose_asker_is_gone_leaves_no_turn_taken(tmp_path: Path) -> None:
    async with fleet(tmp_path, watching=False) as all_:
        node = await all_.node()
        begun = tmp_path / "begun"
        asking = asyncio.create_task(all_.run(node, f"touch {begun}; sleep 60"))
        await until(begun.exists)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert all_.desk.running == 0
        assert (await all_.run(node)).ok


async def test_many_nodes_with_one_cause_are_one_incident(tmp_path: Path) -> None:
    async with fleet(tmp_path, watching=False) as all_:
        nodes = [await all_.node(f"n{number}") for number in range(4)]
        for node in nodes:
            await all_.run(node)
        all_.identity.unlink()
        make_key(all_.identity)
        for node in nodes[:3]:
            await all_.run(node, fresh=True)
        await all_.desk.examine()
        (incident,) = all_.desk.incidents()
        assert incident.headline == "3 of 4 nodes, one cause: identity refused"
        assert any("replaced" in problem.sentence for problem in incident.problems)


async def test_a_way_over_another_host_needs_the_host_keys_of_both(tmp_path: Path) -> None:
    async with fleet(tmp_path, watching=False) as all_:
        gate, node = await all_.node("gate"), await all_.node("node")
        gate_target, target = all_.desk.target(gate.id), all_.desk.target(node.id)
        assert gate_target is not None
        assert target is not None
        through = Target(target.host, target.port, target.user, (gate_target,))
        await all_.desk.set_target(node.id, through, OPERATOR)
        refused = await all_.run(node, fresh=True)
        assert refused.cause is Cause.HOST_KEY_UNKNOWN
        assert f"[127.0.0.1]:{gate_target.port}".encode() in refused.stderr
        await all_.desk.book.pin_jump(node.id, gate_target, [host_key_of(all_.sshds[gate.id])], OPERATOR)
        assert (await all_.run(node, fresh=True)).cause is Cause.OK
        all_.sshds[gate.id].stop()
        assert not (await all_.run(node, fresh=True)).way_works


async def test_an_endless_line_makes_no_endless_sentence(tmp_path: Path) -> None:
    program = tmp_path / "ssh"
    said = "printf '\\033[2J' >&2; head -c 300000 /dev/zero | tr '\\0' x >&2; echo ' Permission denied (publickey)' >&2"
    program.write_text(f"#!/bin/sh\n{said}\nexit 255\n", encoding="ascii")
    program.chmod(0o755)
    async with fleet(tmp_path, watching=False, ssh_program=str(program)) as all_:
        node = await all_.node()
        record = await all_.run(node, fresh=True)
        assert record.cause is Cause.IDENTITY_REFUSED
        assert len(record.evidence) <= 1000
        assert len(record.stderr) == record.stderr_bytes > 300_000
        sentence = all_.desk.sentence(node.id)
        assert len(sentence) < 300
        assert sentence.isprintable()


async def test_a_hub_that_stops_leaves_no_connection_and_no_folder_behind(tmp_path: Path) -> None:
    async with fleet(tmp_path, watching=False, ssh_runtime_dir=None) as all_:
        node = await all_.node()
        await all_.run(node)
        folder = all_.desk.way.runtime_dir
        (socket,) = folder.iterdir()
        assert listeners(socket)
    assert not folder.exists()
    await until(lambda: listeners(socket) == [])  # it has said that it ends
