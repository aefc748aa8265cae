import base64
import errno
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import identity
from agent.errors import AgentError, ConfigFault, DiskFault, of_disk
from agent.identity import Enrolled, load_enrolled, load_key, save_enrolled, verify

ENROLLED = Enrolled(
    agent_id="01890a5d-ac96-774b-bcce-b302099a8057",
    hub_id="01890a5d-ac96-774b-bcce-b302099a8058",
    hub_key="ab" * 32,
    hub_url="https://hub.example.org",
    generation=7,
)


def test_a_key_is_made_once_and_found_again(tmp_path: Path) -> None:
    key = load_key(tmp_path)
    assert (tmp_path / "agent.key").stat().st_mode & 0o777 == 0o600
    again = load_key(tmp_path)
    assert again.public == key.public
    assert verify(key.public, b"message", again.sign(b"message"))


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 31, b"x" * 33])
def test_a_truncated_key_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "agent.key"
    path.write_bytes(content)
    with pytest.raises(ConfigFault, match=f"holds {len(content)} bytes instead of 32; restore it"):
        load_key(tmp_path)
    assert path.read_bytes() == content


def test_a_key_that_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "agent.key").mkdir()
    with pytest.raises(ConfigFault, match="cannot be read"):
        load_key(tmp_path)


def test_what_enrolment_gave_is_found_again(tmp_path: Path) -> None:
    assert load_enrolled(tmp_path) is None
    save_enrolled(tmp_path, ENROLLED)
    assert load_enrolled(tmp_path) == ENROLLED
    assert (tmp_path / "agent.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("keep", range(0, 200, 13))
def test_a_truncated_identity_is_refused_in_one_sentence(tmp_path: Path, keep: int) -> None:
    save_enrolled(tmp_path, ENROLLED)
    path = tmp_path / "agent.json"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ConfigFault, match=r"is damaged .*; restore it from a copy, or remove it and enrol") as fault:
        load_enrolled(tmp_path)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("change", [{"hub_key": "ab" * 31}, {"hub_key": "zz" * 32}, {"agent_id": "me"}])
def test_an_identity_with_a_wrong_field_names_it(tmp_path: Path, change: dict[str, str]) -> None:
    save_enrolled(tmp_path, ENROLLED)
    path = tmp_path / "agent.json"
    (field,) = change
    path.write_text(path.read_text().replace(getattr(ENROLLED, field), change[field]))
    with pytest.raises(ConfigFault, match=field):
        load_enrolled(tmp_path)


def test_the_fingerprint_is_the_sha256_of_the_hubs_key() -> None:
    assert ENROLLED.hub_fingerprint == hashlib.sha256(b"\xab" * 32).hexdigest()


@given(st.binary(max_size=64), st.binary(max_size=80), st.binary(max_size=40))
def test_no_bytes_make_verify_raise(message: bytes, signature: bytes, public_key: bytes) -> None:
    assert not verify(public_key, message, signature)


def test_the_data_dir_is_for_its_owner_only(tmp_path: Path) -> None:
    identity.prepare_data_dir(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_a_data_dir_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigFault, match=r"--data-dir .* cannot be used"):
        identity.prepare_data_dir(tmp_path / "file")


def test_a_second_agent_on_the_same_folder_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    with identity.lock_data_dir(tmp_path):
        script = (
            "import sys; from pathlib import Path; from agent import identity, errors\n"
            "try: identity.lock_data_dir(Path(sys.argv[1]))\n"
            "except errors.ConfigFault as fault: print(fault); sys.exit(fault.exit_code)"
        )
        second = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False
        )
    assert second.returncode == 64
    assert "another agent (pid " in second.stdout
    with identity.lock_data_dir(tmp_path):
        pass


def test_the_boot_id_is_one_name() -> None:
    assert identity.boot_id() == identity.boot_id()
    assert 1 <= len(identity.boot_id()) <= 64


def test_without_a_boot_id_of_the_kernel_one_is_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(identity, "BOOT_ID", tmp_path / "none")
    assert len(identity.boot_id()) == 36


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, DiskFault), (errno.EIO, DiskFault), (errno.EACCES, ConfigFault)]
)
def test_a_full_disk_passes_and_a_forbidden_one_does_not(number: int, kind: type[AgentError]) -> None:
    fault = of_disk(OSError(number, os.strerror(number)), "the file cannot be written")
    assert type(fault) is kind
    assert str(fault) == f"the file cannot be written: {os.strerror(number)}"


def test_an_agent_whose_disk_takes_no_more_says_so_and_may_be_started_again(tmp_path: Path) -> None:
    token = b'{"u":"http://127.0.0.1:1","f":"%s","s":"secret-of-a-token"}' % (b"ab" * 32)
    (tmp_path / "token").write_text("pw1." + base64.urlsafe_b64encode(token).decode().rstrip("="))
    program = (
        "import resource, sys; from cli.main import main; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)); sys.exit(main(sys.argv[1:]))"
    )
    options = ("--data-dir", str(tmp_path / "d"), "--token-file", str(tmp_path / "token"), "--local", "off")
    done = subprocess.run(
        [sys.executable, "-c", program, "agent", *options], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 6
    assert done.stderr.startswith(f"provewire: the outbox {tmp_path / 'd' / 'outbox.sqlite'}")
    assert done.stderr.count("\n") == 1
