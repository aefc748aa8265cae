"""The scripts, run by real shells on files of the test's own."""

import base64
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from hub.ssh import scripts
from hub.ssh.authorized import with_key
from hub.ssh.scripts import console_line, read_keys, sections, write_keys
from tests.hub.ssh.test_authorized import ED, HUB

SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]


def shell(name: str, script: str, stdin: bytes = b"", **environ: str) -> subprocess.CompletedProcess[bytes]:
    argv = ["busybox", "sh", "-c", script] if name == "busybox" else [name, "-c", script]
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return subprocess.run(argv, input=stdin, capture_output=True, check=False, env={"PATH": path, **environ})


@pytest.fixture(params=SHELLS)
def sh(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "home" / ".ssh" / "authorized_keys"
    path.parent.mkdir(parents=True)
    return path


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write(sh: str, path: Path, before: str, text: str) -> subprocess.CompletedProcess[bytes]:
    data = text.encode()
    return shell(sh, write_keys(before, digest(data), str(path)), base64.b64encode(data))


def test_a_file_is_read_with_its_sum_and_modes(sh: str, keys: Path) -> None:
    keys.write_text(f"{ED} root@vm")
    found = sections(shell(sh, read_keys(str(keys))).stdout.decode())
    assert base64.b64decode(found["keys"]).decode() == f"{ED} root@vm"
    assert found["sum"] == digest(keys.read_bytes())
    assert found["where"].splitlines()[0] == str(keys)
    assert f" {keys}" in found["modes"]
    keys.unlink()
    found = sections(shell(sh, read_keys(str(keys))).stdout.decode())
    assert (found["sum"], found["keys"]) == ("none", "")


def test_a_key_is_written_beside_the_old_one_whole_and_private(sh: str, keys: Path) -> None:
    before = f"{ED} root@vm"
    keys.write_text(before)
    keys.chmod(0o664)
    keys.parent.chmod(0o775)
    done = write(sh, keys, digest(before.encode()), with_key(before, HUB))
    assert done.returncode == 0, done.stderr
    assert keys.read_text() == f"{ED} root@vm\n{HUB}\n"
    assert keys.stat().st_mode & 0o777 == 0o600
    assert keys.parent.stat().st_mode & 0o022 == 0
    backup = Path(done.stdout.decode().splitlines()[0])
    assert backup.read_text() == before
    assert {path.name for path in keys.parent.iterdir()} == {"authorized_keys", backup.name}


def test_a_folder_that_is_everybodys_stays_so(sh: str, keys: Path) -> None:
    keys.touch()
    keys.parent.chmod(0o1777)
    done = write(sh, keys, digest(b""), f"{HUB}\n")
    assert done.returncode == 0, done.stderr
    assert keys.parent.stat().st_mode & 0o7777 == 0o1777


def test_a_first_key_makes_the_file(sh: str, keys: Path) -> None:
    keys.parent.rmdir()
    done = write(sh, keys, "none", f"{HUB}\n")
    assert done.returncode == 0, done.stderr
    assert keys.read_text() == f"{HUB}\n"


def test_a_file_that_changed_meanwhile_is_left_alone(sh: str, keys: Path) -> None:
    keys.write_text(f"{ED} somebody was faster\n")
    done = write(sh, keys, digest(b"as it was read"), f"{HUB}\n")
    assert done.returncode == 75
    assert b"changed meanwhile" in done.stderr
    assert keys.read_text() == f"{ED} somebody was faster\n"


def test_a_file_that_arrives_in_part_is_not_written(sh: str, keys: Path) -> None:
    keys.write_text(f"{ED}\n")
    script = write_keys(digest(keys.read_bytes()), digest(b"another text"), str(keys))
    done = shell(sh, script, base64.b64encode(b"cut"))
    assert done.returncode == 1
    assert keys.read_text() == f"{ED}\n"
    assert [path.name for path in keys.parent.iterdir()] == ["authorized_keys"]


def test_a_linked_file_is_written_where_it_lies(sh: str, keys: Path, tmp_path: Path) -> None:
    real = tmp_path / "real" / "keys"
    real.parent.mkdir()
    real.write_text(f"{ED}\n")
    keys.symlink_to(real)
    done = write(sh, keys, digest(real.read_bytes()), f"{ED}\n{HUB}\n")
    assert done.returncode == 0, done.stderr
    assert keys.is_symlink()
    assert real.read_text() == f"{ED}\n{HUB}\n"


@pytest.mark.parametrize("before", ["", f"{ED} root@vm", f"{ED} root@vm\n", f"{ED} root@vm\n{HUB}\n"])
def test_the_line_for_the_console_appends_once(sh: str, tmp_path: Path, before: str) -> None:
    (tmp_path / ".ssh").mkdir()
    keys = tmp_path / ".ssh" / "authorized_keys"
    keys.write_text(before)
    for _ in range(2):
        done = shell(sh, console_line(HUB), HOME=str(tmp_path))
        assert done.returncode == 0, done.stderr
    assert keys.read_text() == with_key(before, HUB)


def test_the_look_names_every_section_and_changes_nothing(sh: str, tmp_path: Path) -> None:
    done = shell(sh, scripts.LOOK, HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = sections(done.stdout.decode("utf-8", "replace"))
    assert list(found) == [
        "system", "processes", "gpu_processes", "gpus", "cuzk", "unit", "log", "disk", "memory", "kernel", "clock",
    ]  # fmt: skip
    assert "Linux" in found["system"]
    assert "MemTotal" in found["memory"]
    assert found["clock"].isdigit()
    assert list(tmp_path.iterdir()) == []


def test_a_section_named_twice_keeps_its_first_text() -> None:
    assert sections("noise\n== a\none\n== b\n\n== a\nforged\n") == {"a": "one", "b": ""}


def test_only_digests_guard_a_write() -> None:
    with pytest.raises(ValueError, match="SHA-256"):
        write_keys("$(id)", "none")
