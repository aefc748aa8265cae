"""The hub's key, let in by the agent: appended to real files by the rules of the hub's own writer."""

import os
import pwd
from pathlib import Path

import pytest

from agent import ssh_keys
from agent.ssh_keys import KeyNotInstalled, checked, install, with_key
from hub.ssh import authorized
from tests.hub.ssh.test_authorized import CASES, ED, HUB, OTHER

USER = "prover"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, of the user the test runs as: only where the account is looked up is replaced."""
    path = tmp_path / "home"
    path.mkdir(mode=0o755)
    account = pwd.struct_passwd((USER, "x", os.geteuid(), os.getegid(), "", str(path), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwnam", lambda name: {USER: account}[name])
    return path


def keys(home: Path) -> Path:
    return home / ".ssh" / "authorized_keys"


def prepared(home: Path, text: str) -> Path:
    keys(home).parent.mkdir(mode=0o700)
    keys(home).write_text(text, newline="")
    keys(home).chmod(0o600)
    return keys(home)


@pytest.mark.parametrize("name", CASES)
def test_it_appends_by_the_rules_of_the_hubs_own_writer(name: str) -> None:
    text, _, _ = CASES[name]
    for key in (HUB, f"{ED} comment"):
        assert with_key(text, key) == authorized.with_key(text, key)


@pytest.mark.parametrize("name", CASES)
def test_a_key_is_appended_once_a_copy_stays_and_modes_are_right(home: Path, name: str) -> None:
    text, _, _ = CASES[name]
    path = prepared(home, text)
    path.chmod(0o664)
    path.parent.chmod(0o777)
    home.chmod(0o775)
    was_there = authorized.read(text).entry(HUB) is not None
    assert ("already" in install(USER, HUB)) is was_there
    with path.open(newline="") as file:
        assert file.read() == authorized.with_key(text, HUB)
    assert [p.stat().st_mode & 0o777 for p in (path, path.parent, home)] == [0o600, 0o755, 0o755]
    copies = [p for p in path.parent.iterdir() if p != path]
    assert [copy.read_bytes().decode() for copy in copies] == ([] if was_there else [text])
    assert "already" in install(USER, HUB)
    assert len(list(path.parent.iterdir())) == 1 + len(copies)


def test_a_first_key_makes_folder_and_file(home: Path) -> None:
    assert "appended" in install(USER, HUB)
    assert keys(home).read_text() == f"{HUB}\n"
    assert keys(home).parent.stat().st_mode & 0o777 == 0o700


def test_bytes_that_are_no_text_stay_as_they_are(home: Path) -> None:
    path = prepared(home, "")
    path.write_bytes(b"# \xff\xfe old\n")
    install(USER, HUB)
    assert path.read_bytes() == b"# \xff\xfe old\n" + f"{HUB}\n".encode()


@pytest.mark.parametrize(
    "public",
    [
        "",
        "ssh-ed25519",
        "ssh-ed25519 AAAA",
        f"{ED}\n{OTHER}",
        f'command="id" {ED}',
        ED.replace("ssh-ed25519", "ssh-rsa"),
        f"{ED} \x1b[2J",
        f"{ED} {'x' * 2000}",
        ED.replace("ssh-ed25519", "ssh-dss"),
    ],
)
def test_only_a_key_is_let_in(home: Path, public: str) -> None:
    with pytest.raises(KeyNotInstalled, match="no public key"):
        install(USER, public)
    assert list(home.iterdir()) == []


def test_what_is_no_file_of_the_users_is_left_alone(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("somebody else's\n")
    prepared(home, "").unlink()
    keys(home).symlink_to(elsewhere)
    with pytest.raises(KeyNotInstalled, match="nothing was changed"):
        install(USER, HUB)
    keys(home).unlink()
    keys(home).mkdir()
    with pytest.raises(KeyNotInstalled, match="nothing was changed"):
        install(USER, HUB)
    keys(home).rmdir()
    keys(home).parent.rmdir()
    (tmp_path / "folder").mkdir()
    keys(home).parent.symlink_to(tmp_path / "folder")
    with pytest.raises(KeyNotInstalled, match="nothing was changed"):
        install(USER, HUB)
    assert elsewhere.read_text() == "somebody else's\n"
    assert list((tmp_path / "folder").iterdir()) == []


def test_a_file_that_is_too_large_is_left_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_keys, "FILE_BYTES_MAX", 100)
    path = prepared(home, "#" * 101)
    with pytest.raises(KeyNotInstalled, match="more than 100 bytes"):
        install(USER, HUB)
    assert path.read_text() == "#" * 101


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_a_home_that_belongs_to_another_is_left_alone(home: Path) -> None:
    os.chown(home, 4242, 4242)
    with pytest.raises(KeyNotInstalled, match="does not belong"):
        install(USER, HUB)


def test_an_unknown_user_and_another_ones_file_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyNotInstalled, match="no user"):
        install("nobody-of-that-name", HUB)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    with pytest.raises(KeyNotInstalled, match="may not write"):
        install("root", HUB)


def test_a_key_is_taken_as_one_line() -> None:
    assert checked(f"  {HUB}\n") == HUB
