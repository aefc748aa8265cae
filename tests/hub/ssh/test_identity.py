"""The hub's own key: made, looked at, and what is wrong with it named."""

import subprocess
from pathlib import Path

import pytest

from hub.ssh.cause import Cause
from hub.ssh.identity import fingerprint, look, make
from hub.ssh.pins import KeyRefused, host_key, known_hosts
from hub.ssh.targets import Target
from tests.hub.ssh.sshd import make_key, needs_sshd


@needs_sshd
def test_a_made_key_is_one_that_ssh_reads(tmp_path: Path) -> None:
    made = make(tmp_path / "ssh" / "key", "provewire hub")
    assert made.usable
    assert made.path.stat().st_mode & 0o777 == 0o600
    listed = subprocess.run(
        ["ssh-keygen", "-lf", str(made.path)], capture_output=True, text=True, check=True
    ).stdout.split()
    assert listed[1] == made.fingerprint
    assert made.path.with_name("key.pub").read_text() == f"{made.public} provewire hub\n"


def test_what_is_wrong_with_a_key_is_named(tmp_path: Path) -> None:
    good = make(tmp_path / "good", "x").path.read_bytes()

    def written(name: str, data: bytes, mode: int = 0o600) -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        path.chmod(mode)
        return path

    for path, cause in (
        (tmp_path / "absent", Cause.KEY_MISSING),
        (tmp_path, Cause.KEY_DAMAGED),
        (written("open", good, 0o644), Cause.KEY_UNPROTECTED),
        (written("crlf", good.replace(b"\n", b"\r\n")), Cause.KEY_DAMAGED),
        (written("cut", good[: len(good) // 2]), Cause.KEY_DAMAGED),
        (written("empty", b""), Cause.KEY_DAMAGED),
        (written("garbage", bytes(range(256))), Cause.KEY_DAMAGED),
    ):
        found = look(path)
        assert found.cause is cause, path
        assert str(path) in found.detail
        assert not found.usable


@needs_sshd
@pytest.mark.parametrize(
    "kind", [("-t", "ed25519"), ("-t", "rsa", "-b", "2048"), ("-t", "ecdsa")], ids=lambda kind: kind[1]
)
def test_keys_of_ssh_keygen_with_and_without_a_passphrase(tmp_path: Path, kind: tuple[str, ...]) -> None:
    assert look(make_key(tmp_path / "plain", *kind)).usable
    locked = make_key(tmp_path / "locked", *kind, passphrase="not told")  # noqa: S106 - the test's own
    assert look(locked).cause is Cause.KEY_PASSPHRASE


def test_a_fingerprint_wants_a_key() -> None:
    for text in ("", "ssh-ed25519", "ssh-ed25519 !!!"):
        with pytest.raises(ValueError, match=r"."):
            fingerprint(text)


def test_host_keys_are_pinned_by_type_and_body_alone(tmp_path: Path) -> None:
    public = make(tmp_path / "k", "x").public
    assert host_key(f"{public} comment\n") == public
    target = Target("203.0.113.5", 22022)
    assert known_hosts([(target, [host_key(public)])]) == f"[203.0.113.5]:22022 {public}\n"
    assert known_hosts([(Target("h"), [public])]) == f"h {public}\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ssh-ed25519",
        "ssh-ed25519 AAAA",
        "@cert-authority * ssh-ed25519 AAAA",
        "ssh-dss AAAA",
        "x y",
        "ssh-rsa " + "A" * 3000,
    ],
)
def test_what_is_no_host_key_is_refused(text: str) -> None:
    with pytest.raises(KeyRefused):
        host_key(text)
