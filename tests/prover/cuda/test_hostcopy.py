"""The host's copy of a key's points: made once, shared, gone with its last user."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from prover.errors import DeviceError
from prover.hostcopy import PAGE, HostCopy, name_of

SIZE = 3 * PAGE + 100


def fill(view: memoryview) -> None:
    view[:] = b"points" * (SIZE // 6) + b"!" * (SIZE % 6)


def never(_view: memoryview) -> None:
    pytest.fail("it was made already")


def read(copy: HostCopy) -> bytes:
    return ctypes.string_at(copy.address, SIZE)


def test_it_is_made_once_and_goes_with_its_last_user(tmp_path: Path) -> None:
    folder = tmp_path / "copies"
    first = HostCopy.open("key", SIZE, fill, folder)
    assert first.address % PAGE == 0
    assert first.nbytes == 4 * PAGE
    assert (folder.stat().st_mode & 0o777) == 0o700
    second = HostCopy.open("key", SIZE, never, folder)
    assert read(first) == read(second) == b"points" * (SIZE // 6) + b"!" * (SIZE % 6)
    first.close()
    first.close()
    assert (folder / "key.points").exists()
    second.close()
    assert not (folder / "key.points").exists()


def test_processes_share_it(tmp_path: Path) -> None:
    """The one that comes second finds it; the first one's end does not take it away."""
    folder = tmp_path / "copies"
    ours = HostCopy.open("key", SIZE, fill, folder)
    program = (
        "import sys; from pathlib import Path; from prover.hostcopy import HostCopy; import ctypes\n"
        f"copy = HostCopy.open('key', {SIZE}, lambda view: sys.exit(3), Path({str(folder)!r}))\n"
        "print(ctypes.string_at(copy.address, 6).decode(), flush=True); sys.stdin.read(); copy.close()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "points\n"
        ours.close()
        assert (folder / "key.points").exists()
        child.communicate(timeout=30)
    assert child.returncode == 0
    assert not (folder / "key.points").exists()


def test_a_process_that_died_leaves_nothing_that_is_half_made(tmp_path: Path) -> None:
    folder = tmp_path / "copies"

    def die(_view: memoryview) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        HostCopy.open("key", SIZE, die, folder)
    assert [path.name for path in folder.iterdir()] == ["lock"]
    (folder / "key.points").write_bytes(b"of another size")
    copy = HostCopy.open("key", SIZE, fill, folder)
    assert read(copy).startswith(b"points")
    copy.close()


def test_folders_that_cannot_be_used_or_trusted(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(DeviceError, match="can be written by others"):
        HostCopy.open("key", SIZE, fill, tmp_path / "open")
    (tmp_path / "file").touch()
    with pytest.raises(DeviceError, match=r"cannot be kept there: .*; give the host, or its shared memory, more room"):
        HostCopy.open("key", SIZE, fill, tmp_path / "file")
    with pytest.raises(DeviceError, match="cannot be kept there"):
        HostCopy.open("key", 1 << 60, fill, tmp_path / "copies")


def test_names_change_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "k.zkey"
    path.write_bytes(b"1")
    first = name_of(str(path), 1)
    assert name_of(str(path), 1) == first != name_of(str(path), 2)
    path.write_bytes(b"22")
    assert name_of(str(path), 1) != first
    assert name_of("absent", 1) != first
