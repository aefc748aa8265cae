"""What nodes say of their sshd over a real session: checked, put before the operator, never more than a suggestion."""

from pathlib import Path

import pytest

from hub.ssh import hints
from hub.ssh.reach import Source
from hub.ssh.targets import Target
from tests.hub.ssh.fleet import fleet, until
from tests.hub.ssh.sshd import make_key, needs_sshd
from wire.frames import Capability
from wire.inputs import Heard
from wire.status import NodeStatus, SshHint

pytestmark = needs_sshd


def public(path: Path) -> str:
    return " ".join(make_key(path).with_suffix(".pub").read_text("ascii").split()[:2])


async def test_a_nodes_word_is_kept_as_a_suggestion_with_its_host_keys_pinned(tmp_path: Path) -> None:
    key = public(tmp_path / "host")
    async with fleet(tmp_path) as all_:
        peer = await all_.hub.enroll()
        capabilities = [Capability.GROTH16_HOST.value, Capability.KEY_INSTALL.value]
        async with peer.connect(capabilities=capabilities) as connection:
            await connection.status(NodeStatus(ssh=SshHint(port=2222, user="worker", host_keys=(key, "no key"))))
            await until(lambda: all_.desk.readiness(peer.id).suggested is not None)
        reach = all_.desk.readiness(peer.id)
        assert reach.suggested is not None
        assert reach.suggested.target == Target("127.0.0.1", 2222, "worker")
        assert reach.suggested.key_install
        assert (reach.target, reach.host_keys, reach.pinned_by) == (None, (key,), Source.NODE)


@pytest.mark.parametrize(
    "said",
    [
        SshHint(address="-oProxyCommand=touch /tmp/x"),
        SshHint(address="a b"),
        SshHint(address="$(id)"),
        SshHint(user="-F/etc/passwd"),
        SshHint(user="root;id"),
        SshHint(address="h\n"),
    ],
)
async def test_a_hostile_word_is_no_suggestion_and_harms_nobody(tmp_path: Path, said: SshHint) -> None:
    async with fleet(tmp_path, ssh_accept_suggestions=True) as all_:
        hostile, honest = await all_.hub.enroll("hostile"), await all_.hub.enroll("honest")
        async with hostile.connect() as one, honest.connect() as other:
            await one.status(NodeStatus(ssh=said))
            await other.status(NodeStatus(ssh=SshHint()))
            await until(lambda: all_.desk.target(honest.id) is not None)
        assert all_.desk.readiness(hostile.id).suggested is None
        assert all_.desk.target(hostile.id) is None


async def test_by_policy_only_the_address_its_session_comes_from_is_accepted(tmp_path: Path) -> None:
    async with fleet(tmp_path, ssh_accept_suggestions=True) as all_:
        own, foreign = await all_.hub.enroll("own"), await all_.hub.enroll("foreign")
        async with own.connect() as one, foreign.connect() as other:
            await other.status(NodeStatus(ssh=SshHint(address="203.0.113.5")))
            await one.status(NodeStatus(ssh=SshHint(port=2222)))
            await until(lambda: all_.desk.target(own.id) is not None)
        assert all_.desk.target(own.id) == Target("127.0.0.1", 2222)
        reach = all_.desk.readiness(foreign.id)
        assert reach.suggested is not None
        assert (reach.target, reach.suggested.target) == (None, Target("203.0.113.5"))


async def test_a_node_that_changes_its_mind_all_the_time_is_written_down_now_and_then(tmp_path: Path) -> None:
    async with fleet(tmp_path) as all_:
        fickle, other = await all_.hub.enroll("fickle"), await all_.hub.enroll("other")
        async with fickle.connect() as one, other.connect() as two:
            for port in range(1000, 1050):
                await one.status(NodeStatus(ssh=SshHint(port=port)))
            await one.until(Heard)
            await two.status(NodeStatus(ssh=SshHint()))
            await until(lambda: all_.desk.readiness(other.id).suggested is not None)
        events = [event for event in await all_.hub.store.hub_events(fickle.id) if event.kind == "ssh.suggested"]
        assert len(events) == 1


async def test_what_was_said_too_soon_is_taken_over_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "CHANGE_EVERY_S", 0.3)
    monkeypatch.setattr(hints, "AGAIN_S", 0.05)
    async with fleet(tmp_path) as all_:
        peer = await all_.hub.enroll()

        def said(port: int) -> bool:
            suggested = all_.desk.readiness(peer.id).suggested
            return suggested is not None and suggested.target.port == port

        async with peer.connect() as connection:
            for port in (1001, 1002):
                await connection.status(NodeStatus(ssh=SshHint(port=port)))
                await until(lambda port=port: said(port))  # type: ignore[misc]  # bound now
