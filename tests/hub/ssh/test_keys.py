"""The hub's key, installed and rotated, with a whole hub and real sshds; files of the tests' own."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from hub import ports
from hub.ssh.authorized import Fault, read
from hub.ssh.cause import Cause
from hub.ssh.install import Installed, Plan, Way, diff, next_text
from hub.ssh.keys import KeyDesk, KeyRefused, NotLookedAt, with_canary
from hub.ssh.previews import KEPT_MAX, KEPT_S, PreviewGone, Previews
from hub.ssh.reach import State
from hub.ssh.rotating import Rotator
from hub.ssh.rotation import RotationDamaged
from hub.ssh.symptoms import Kind
from hub.ssh.targets import Target
from tests.hub.rig import FakeClock, Peer
from tests.hub.ssh.fleet import OPERATOR, Fleet, fleet, host_key_of
from tests.hub.ssh.sshd import make_key, needs_sshd, running
from tests.hub.ssh.test_authorized import CASES, ED, HUB, OTHER
from tests.hub.ssh.test_doctor import Cell, needs_cell


def keys_of(all_: Fleet) -> KeyDesk:
    app = all_.hub.app
    return KeyDesk(
        ssh=all_.desk,
        clock=app[ports.CLOCK],
        registry=app[ports.REGISTRY],
        messenger=app[ports.SESSIONS],
    )


def public_of(path: Path) -> str:
    return path.with_name(path.name + ".pub").read_text("ascii").strip()


class Operator:
    """Somebody with a key of their own that gets in at every node of the test."""

    def __init__(self, all_: Fleet, folder: Path) -> None:
        self.all = all_
        self.key = make_key(folder / "operators_key")

    async def node(self, text: str, name: str = "node") -> tuple[Peer, Path]:
        """A node that lets the operator in, with this before or after it; its file."""
        node = await self.all.node(name, authorized=False)
        path = self.all.sshds[node.id].authorized_keys
        path.write_text(f"{public_of(self.key)}\n{text}", "ascii")
        return node, path


# --- what would be written


@pytest.mark.parametrize("name", CASES)
def test_other_lines_stay_as_they_are_unless_the_hubs_own_key_is_hidden_in_them(name: str) -> None:
    text, faults, _ = CASES[name]
    after = next_text(text, HUB, mend=False)
    assert read(after).entry(HUB) is not None
    hidden = read(text).entry(HUB) is None and OTHER in text and Fault.FUSED in faults
    assert after.startswith(text) or hidden
    mended = next_text(text, HUB, mend=True)
    assert {finding.fault for finding in read(mended).findings} <= {Fault.LIMITED, Fault.UNREADABLE}
    assert next_text(after, HUB, mend=False) == after


def test_a_diff_shows_what_an_eye_would_miss() -> None:
    shown = diff("f", "a\r\nb", "a\nb\nc\n")
    assert "-a\\r" in shown
    assert "-b\\ (no end of line)" in shown
    assert "+c" in shown
    assert diff("f", "a\n", "a\n") == ""


# --- previews


def test_a_preview_is_used_once_and_not_for_ever() -> None:
    clock = FakeClock()
    previews: Previews[str] = Previews(clock)
    token = previews.keep("plan")
    assert previews.take(token) == "plan"
    with pytest.raises(PreviewGone, match="used already"):
        previews.take(token)
    token = previews.keep("plan")
    clock.move(KEPT_S + 1)
    with pytest.raises(PreviewGone):
        previews.take(token)
    tokens = [previews.keep(str(number)) for number in range(KEPT_MAX + 1)]
    with pytest.raises(PreviewGone):
        previews.take(tokens[0])
    assert previews.take(tokens[1]) == "1"


# --- one node


@needs_sshd
@pytest.mark.parametrize("end", [" root@vm", ""], ids=["comment", "bare"])
async def test_a_fused_line_is_found_shown_mended_and_proved(tmp_path: Path, end: str) -> None:
    async with fleet(tmp_path) as all_:
        operator = Operator(all_, tmp_path)
        public = public_of(all_.identity)
        before = f"{ED}{end}{public}"
        node, path = await operator.node(before)
        refused = await all_.run(node, fresh=True)
        assert refused.cause is Cause.IDENTITY_REFUSED
        keys = keys_of(all_)
        plan = await keys.plan(node.id, OPERATOR, via_key=operator.key)
        assert plan.way is Way.VIA_KEY
        assert [symptom.kind for symptom in plan.symptoms if symptom.blocks] == [Kind.FUSED]
        assert [why.split(":")[0] for why in plan.passed_over] == ["the hub's own key", "the live session"]
        assert "Permission denied (publickey)" in plan.passed_over[0]
        assert f"+{public}" in plan.diff
        assert str(path) in plan.commands[0]
        assert path.read_text("ascii").endswith(before), "a preview changes nothing"
        made = await keys.apply(plan, OPERATOR)
        assert made.ok, made.sentence
        assert path.read_text("ascii").splitlines()[-1] == public
        assert read(path.read_text("ascii")).entry(ED) is not None
        assert path.with_name(made.backup.rpartition("/")[2]).read_text("ascii").endswith(before)
        assert path.stat().st_mode & 0o777 == 0o600
        assert all_.desk.readiness(node.id).state is State.PROVED
        proof = await all_.hub.store.ssh_attempt(made.attempts[-1])
        assert proof is not None
        assert proof.fresh
        [event] = [e for e in await all_.hub.store.hub_events(node.id) if e.kind == "ssh.key_install"]
        assert "the test from 127.0.0.1: by via_key" in event.detail
        assert plan.write is not None
        assert plan.write.sum_before[:12] in event.detail
        again = await keys.plan(node.id, OPERATOR, via_key=operator.key)
        assert (again.way, again.diff, again.commands) == (Way.NOTHING, "", ())
        assert (await keys.apply(again, OPERATOR)).ok
        assert len([p for p in path.parent.iterdir() if "before-provewire" in p.name]) == 1


@needs_sshd
async def test_what_changed_after_the_preview_is_not_written_over(tmp_path: Path) -> None:
    async with fleet(tmp_path) as all_:
        operator = Operator(all_, tmp_path)
        node, path = await operator.node("")
        keys = keys_of(all_)
        plan = await keys.plan(node.id, OPERATOR, via_key=operator.key)
        path.write_text(f"{path.read_text('ascii')}{ED} somebody\n", "ascii")
        text = path.read_text("ascii")
        made = await keys.apply(plan, OPERATOR)
        assert not made.ok
        assert "changed meanwhile" in made.sentence
        assert path.read_text("ascii") == text


@needs_sshd
async def test_other_lines_are_mended_only_when_asked(tmp_path: Path) -> None:
    async with fleet(tmp_path) as all_:
        operator = Operator(all_, tmp_path)
        fused = f"{ED} a{OTHER} b\n"
        node, path = await operator.node(f"{public_of(all_.identity)}\n{fused}")
        keys = keys_of(all_)
        assert (await keys.plan(node.id, OPERATOR)).way is Way.NOTHING
        plan = await keys.plan(node.id, OPERATOR, mend=True)
        assert plan.way is Way.OWN
        assert (await keys.apply(plan, OPERATOR)).ok
        assert path.read_text("ascii").splitlines()[-2:] == [f"{ED} a", f"{OTHER} b"]


@needs_sshd
async def test_without_another_way_in_there_is_a_line_for_the_console(tmp_path: Path) -> None:
    async with fleet(tmp_path) as all_:
        node = await all_.node(authorized=False)
        keys = keys_of(all_)
        plan = await keys.plan(node.id, OPERATOR)
        assert plan.way is Way.CONSOLE
        assert public_of(all_.identity) in plan.commands[0]
        assert len(plan.passed_over) == 3
        assert not (await keys.apply(plan, OPERATOR)).ok
        nowhere = await all_.hub.enroll("no target")
        assert (await keys.plan(nowhere.id, OPERATOR)).way is Way.CONSOLE


@needs_sshd
async def test_a_login_that_still_fails_is_told_with_what_the_doctor_sees(tmp_path: Path) -> None:
    async with fleet(tmp_path) as all_:
        operator = Operator(all_, tmp_path)
        node, path = await operator.node(f'from="192.0.2.1" {public_of(all_.identity)}\n')
        keys = keys_of(all_)
        plan = await keys.plan(node.id, OPERATOR, via_key=operator.key)
        [limit] = plan.left
        assert limit.kind is Kind.FROM
        made = await keys.apply(plan, OPERATOR)
        assert not made.ok
        assert "Permission denied" in made.sentence
        assert [symptom.kind for symptom in made.symptoms if symptom.blocks] == [Kind.FROM]
        assert path.read_text("ascii").count(public_of(all_.identity)) == 1


@needs_sshd
async def test_a_key_that_cannot_be_used_is_named_before_anything_is_tried(tmp_path: Path) -> None:
    async with fleet(tmp_path) as all_:
        node = await all_.node(authorized=False)
        keys = keys_of(all_)
        locked = make_key(tmp_path / "locked", passphrase="a passphrase")  # noqa: S106 - a test's key
        for path, words in ((tmp_path / "absent", "No such file"), (locked, "passphrase"), (Path("r"), "whole path")):
            with pytest.raises(KeyRefused, match=words):
                await keys.plan(node.id, OPERATOR, via_key=path)
        stranger = make_key(tmp_path / "stranger")
        with pytest.raises(NotLookedAt, match="Permission denied") as told:
            await keys.plan(node.id, OPERATOR, via_key=stranger)
        assert told.value.record.cause is Cause.IDENTITY_REFUSED
        all_.identity.unlink()
        with pytest.raises(KeyRefused, match="no key to install"):
            await keys.plan(node.id, OPERATOR)


@needs_sshd
@needs_cell
async def test_root_installs_for_another_user_whose_file_stays_theirs(tmp_path: Path) -> None:
    async with fleet(tmp_path) as all_:
        cell, key = Cell(tmp_path / "cell"), make_key(tmp_path / "roots")
        home = cell.add("prover", 4242)
        (home / ".ssh").rmdir()
        roots = cell.etc / "ssh" / "root_keys"
        roots.write_text(public_of(key))
        roots.chmod(0o600)
        ending = ("Match User root", "  AuthorizedKeysFile /etc/ssh/root_keys")
        settings = ("StrictModes yes", "AuthorizedKeysFile .ssh/authorized_keys")
        async with running(tmp_path / "s", *settings, around=cell.around, ending=ending) as server:
            node = await all_.hub.enroll("node")
            await all_.desk.set_target(node.id, Target("127.0.0.1", server.port, "prover"), OPERATOR)
            await all_.desk.book.pin(node.id, [host_key_of(server)], OPERATOR)
            keys = keys_of(all_)
            chart = await keys.look(node.id, OPERATOR, via_key=key, via_user="root")
            assert (chart.place.user, chart.place.path) == ("prover", "/home/prover/.ssh/authorized_keys")
            plan = await keys.plan(node.id, OPERATOR, via_key=key, via_user="root")
            made = await keys.apply(plan, OPERATOR)
            assert made.ok, (made, server.log.read_text())
        file = home / ".ssh" / "authorized_keys"
        assert file.read_text("ascii").strip() == public_of(all_.identity)
        assert [(p.stat().st_uid, p.stat().st_mode & 0o777) for p in (file.parent, file)] == [
            (4242, 0o700),
            (4242, 0o600),
        ]
        assert all_.desk.readiness(node.id).state is State.PROVED


# --- many nodes


async def test_a_canary_that_fails_leaves_the_rest_alone() -> None:
    done: list[str] = []

    async def do(plan: Plan) -> Installed:
        done.append(plan.node_id)
        return Installed(node_id=plan.node_id, ok=plan.node_id != "b", way=plan.way, sentence="")

    def plans(*names: str) -> Sequence[Plan]:
        ways = {"a": Way.NOTHING}
        return [Plan(node_id=name, way=ways.get(name, Way.OWN), public=HUB) for name in names]

    made = await with_canary(plans("a", "b", "c"), do)
    assert done == ["b"]
    assert [(one.node_id, one.ok) for one in made] == [("b", False), ("c", False), ("a", False)]
    assert "canary, b, failed" in made[1].sentence
    done.clear()
    assert all(one.ok for one in await with_canary(plans("c", "d", "a"), do))
    assert done[0] == "c"
    assert await with_canary([], do) == []


# --- rotation


def rotator_of(all_: Fleet) -> Rotator:
    app = all_.hub.app
    return Rotator(keys=keys_of(all_), registry=app[ports.REGISTRY], clock=app[ports.CLOCK])


@needs_sshd
async def test_a_key_is_rotated_without_a_moment_outside_across_a_restart(tmp_path: Path) -> None:
    async with fleet(tmp_path) as all_:
        nodes = [await all_.node(f"node-{number}") for number in range(3)]
        for node in nodes:
            await all_.run(node, fresh=True)
        old, path = public_of(all_.identity), all_.identity
        away = all_.sshds[nodes[2].id]
        away.stop()
        rotator = rotator_of(all_)
        await rotator.start()
        progress = await rotator.advance(OPERATOR)
        assert progress.unproved == (nodes[2].id,)
        assert progress.rotation is not None
        assert "Connection refused" in progress.rotation.nodes[nodes[2].id].detail
        assert public_of(path) == old, "the old key stays while a node does not know the new one"
        assert len(all_.desk.way.identities) == 2
        for node in nodes[:2]:
            assert all_.sshds[node.id].authorized_keys.read_text("ascii").count("ssh-ed25519") == 2
            assert (await all_.run(node, fresh=True)).ok
        await all_.desk.examine()
        assert all_.desk.problems() == []
        # The hub's restart: another rotator finds what was written down, and goes on.
        away.start()
        await away.listening()
        all_.desk.use_identities([path])
        rotator = rotator_of(all_)
        await rotator.start()
        assert len(all_.desk.way.identities) == 2
        progress = await rotator.advance(OPERATOR)
        assert progress.done
        assert list(all_.desk.way.identities) == [path]
        assert public_of(path) != old
        assert progress.rotation is not None
        aside = path.with_name(progress.rotation.retired_to.rpartition("/")[2])
        assert aside.stat().st_mode & 0o777 == 0o600
        for node in nodes:
            text = all_.sshds[node.id].authorized_keys.read_text("ascii")
            assert text.strip() == progress.rotation.new_public
            assert (await all_.run(node, fresh=True)).ok
            assert (await all_.run(node, fresh=True, via_key=aside)).cause is Cause.IDENTITY_REFUSED
        await all_.desk.examine()
        assert all_.desk.problems() == []
        assert (await rotator.progress()).done


@needs_sshd
async def test_a_rotation_stops_at_its_canary(tmp_path: Path) -> None:
    async with fleet(tmp_path) as all_:
        nodes = [await all_.node(f"node-{number}") for number in range(3)]
        all_.sshds[nodes[0].id].authorized_keys.write_text("", "ascii")
        progress = await rotator_of(all_).advance(OPERATOR)
        assert set(progress.unproved) == {node.id for node in nodes}
        assert progress.rotation is not None
        assert "canary" in progress.rotation.nodes[nodes[1].id].detail
        assert all_.sshds[nodes[1].id].authorized_keys.read_text("ascii").count("ssh-ed25519") == 1


@needs_sshd
async def test_a_rotation_cut_off_in_its_swap_is_finished(tmp_path: Path) -> None:
    async with fleet(tmp_path) as all_:
        node = await all_.node()
        rotator = rotator_of(all_)
        files = rotator._files
        rotation = files.begin(1, "x", "hub")
        old = all_.identity.read_bytes()
        aside = all_.identity.with_name(
            f"{all_.identity.name}.retired-{rotation.old_fingerprint[7:15].replace('/', '_')}"
        )
        aside.hardlink_to(all_.identity)
        all_.identity.with_name(all_.identity.name + ".pub").unlink()
        progress = await rotator.advance(OPERATOR)
        assert progress.done
        assert aside.read_bytes() == old
        assert (await all_.run(node, fresh=True)).ok


@needs_sshd
async def test_a_damaged_record_stops_a_rotation_and_says_what_to_do(tmp_path: Path) -> None:
    async with fleet(tmp_path) as all_:
        (all_.desk.way.known_hosts.parent / "rotation.json").write_text("{")
        rotator = rotator_of(all_)
        await rotator.start()
        with pytest.raises(RotationDamaged, match="move it away"):
            await rotator.advance(OPERATOR)
