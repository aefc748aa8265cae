"""What a node says of its own sshd: from its files, its provider's variables, and its operator."""

import os
from pathlib import Path

import pytest

from agent.board import Board
from agent.config import load
from agent.errors import ConfigFault
from agent.ssh_hint import READ_EVERY_S, keep_hint, read_hint
from agent.ssh_settings import SshSettings, ssh_settings
from tests.agent.virtual_time import VirtualClock, eventually
from wire.status import SshHint

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPaR3vXEAYSFDJEFc5mUz2NTOZPWZD4Iu9A2f9aTN1yD"
RSA = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQC7"
NOTHING_SAID = SshSettings()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with an sshd."""
    folder = tmp_path / "etc/ssh"
    folder.mkdir(parents=True)
    (folder / "ssh_host_ed25519_key.pub").write_text(f"{ED25519} root@node\n")
    (folder / "ssh_host_rsa_key.pub").write_text(f"{RSA} root@node\n")
    return tmp_path


def test_a_machine_without_an_sshd_says_nothing(tmp_path: Path) -> None:
    assert read_hint(NOTHING_SAID, {}, tmp_path) is None
    assert read_hint(NOTHING_SAID, {"PUBLIC_IPADDR": "203.0.113.5", "VAST_TCP_PORT_22": "40022"}, tmp_path) is None


def test_host_keys_without_their_comments_the_best_first(root: Path) -> None:
    assert read_hint(NOTHING_SAID, {}, root) == SshHint(port=22, user="root", host_keys=(ED25519, RSA), address="")


@pytest.mark.parametrize(
    "text", ["", "garbage", "ssh-dss AAAA root", "ssh-ed25519 !!!", "-oProxyCommand=x AAAA", "ssh-rsa " + "A" * 2000]
)
def test_a_file_that_is_no_public_key_is_left_out(root: Path, text: str) -> None:
    (root / "etc/ssh/ssh_host_ed25519_key.pub").write_text(text)
    hint = read_hint(NOTHING_SAID, {}, root)
    assert hint is not None
    assert hint.host_keys == (RSA,)


def test_a_folder_or_a_pipe_in_the_place_of_a_key_stops_nobody(root: Path) -> None:
    for name, make in (("ssh_host_ed25519_key.pub", os.mkfifo), ("sshd_config", os.mkfifo)):
        path = root / "etc/ssh" / name
        path.unlink(missing_ok=True)
        make(path)
    (root / "etc/ssh/ssh_host_ecdsa_key.pub").mkdir()
    hint = read_hint(NOTHING_SAID, {}, root)
    assert hint is not None
    assert (hint.host_keys, hint.port) == ((RSA,), 22)


@pytest.mark.parametrize(
    ("main", "part", "port"),
    [
        ("Port 2222\nPort 2223\n", "", 2222),
        ("  port=2222\n", "", 2222),
        ("#Port 2222\n", "", 22),
        ("Port 2222\n", "Port 2022\n", 2022),
        ("Match User x\nPort 2222\n", "", 22),
        ("Port 70000\nPort x\n", "", 22),
    ],
)
def test_the_port_of_sshds_own_configuration(root: Path, main: str, part: str, port: int) -> None:
    (root / "etc/ssh/sshd_config.d").mkdir()
    (root / "etc/ssh/sshd_config").write_text(main)
    (root / "etc/ssh/sshd_config.d/10-own.conf").write_text(part)
    hint = read_hint(NOTHING_SAID, {}, root)
    assert hint is not None
    assert hint.port == port


def test_the_providers_mapping_counts_more_than_the_file_and_the_operator_more_than_both(root: Path) -> None:
    (root / "etc/ssh/sshd_config").write_text("Port 2222\n")
    rented = {"PUBLIC_IPADDR": " 203.0.113.5\n", "VAST_TCP_PORT_22": "40022"}
    hint = read_hint(NOTHING_SAID, rented, root)
    assert hint is not None
    assert (hint.address, hint.port) == ("203.0.113.5", 40022)
    told = read_hint(ssh_settings("node.example.org:2022", "prover"), rented, root)
    assert told is not None
    assert (told.address, told.port, told.user) == ("node.example.org", 2022, "prover")
    only_name = read_hint(ssh_settings("node.example.org", ""), rented, root)
    assert only_name is not None
    assert (only_name.address, only_name.port) == ("node.example.org", 2222)


@pytest.mark.parametrize(
    "environ",
    [
        {"PUBLIC_IPADDR": "203.0.113.5"},
        {"VAST_TCP_PORT_22": "40022"},
        {"PUBLIC_IPADDR": "$(reboot)", "VAST_TCP_PORT_22": "40022"},
        {"PUBLIC_IPADDR": "fe80::1%eth0", "VAST_TCP_PORT_22": "40022"},
        {"PUBLIC_IPADDR": "203.0.113.5", "VAST_TCP_PORT_22": "0"},
        {"PUBLIC_IPADDR": "203.0.113.5", "VAST_TCP_PORT_22": "-p22"},
    ],
)
def test_half_a_mapping_or_one_that_cannot_be_is_none(root: Path, environ: dict[str, str]) -> None:
    hint = read_hint(NOTHING_SAID, environ, root)
    assert hint is not None
    assert (hint.address, hint.port) == ("", 22)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("", "", None),
        (":2022", "", 2022),
        ("203.0.113.5", "203.0.113.5", None),
        ("[2001:db8::1]:2022", "2001:db8::1", 2022),
        ("2001:db8::1", "2001:db8::1", None),
    ],
)
def test_addresses_as_an_operator_writes_them(text: str, host: str, port: int | None) -> None:
    assert ssh_settings(text, "") == SshSettings(address=host, port=port)


@pytest.mark.parametrize(
    "text", ["-oProxyCommand=x", "a b", "host:", "host:0", "host:x", "a:b:c", "host;x", "[::1", "é"]
)
def test_an_address_that_cannot_be_one_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigFault, match="--ssh-address"):
        ssh_settings(text, "")


@pytest.mark.parametrize("text", ["-l", "a b", "x\n", "$x", "u" * 300])
def test_a_user_that_cannot_be_one_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigFault, match="--ssh-user"):
        ssh_settings("", text)


def test_settings_come_from_options_then_from_the_environment(root: Path) -> None:
    environ = {"PROVEWIRE_DATA_DIR": "/tmp/pw", "PROVEWIRE_SSH_ADDRESS": "env:1", "PROVEWIRE_SSH_USER": "one"}  # noqa: S108 - never made
    assert load(environ).ssh == SshSettings(address="env", port=1, user="one")
    assert load(environ, ssh_address="given:2", ssh_user="two").ssh == SshSettings(address="given", port=2, user="two")
    assert read_hint(load(environ, ssh_address="off").ssh, {}, root) is None


async def test_it_stands_in_the_nodes_picture_and_is_read_anew(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.ssh_hint.read_hint", lambda told, environ: read_hint(told, environ, root))
    import asyncio  # noqa: PLC0415 - same

    from agent.tasks import Tasks  # noqa: PLC0415 - used here only

    board, clock, changes = Board(), VirtualClock(), []
    board.on_change = lambda: changes.append(board.ssh)
    tasks = Tasks(asyncio.Event())
    tasks.start(keep_hint(board, NOTHING_SAID, {}, clock=clock))
    try:
        await eventually(lambda: changes, "the first hint")
        assert board.picture().ssh == SshHint(host_keys=(ED25519, RSA))
        (root / "etc/ssh/sshd_config").write_text("Port 2222\n")
        await eventually(lambda: len(changes) > 1, "the changed hint", clock=clock, step_s=READ_EVERY_S)
        assert board.picture().ssh == SshHint(port=2222, host_keys=(ED25519, RSA))
        assert len(changes) == 2, "what stays the same is not told again"
    finally:
        await tasks.close()
