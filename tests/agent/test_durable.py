import errno
from pathlib import Path

import pytest

from agent.durable import write_file


def test_a_file_is_replaced_whole_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_file(path, b"old")
    write_file(path, b"new", mode=0o640)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_refusing_disk_leaves_the_old_content_and_no_litter(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.mkdir()
    (target / "occupied").touch()
    with pytest.raises(OSError, match=r"directory|not empty") as error:
        write_file(target, b"new")
    assert error.value.errno in (errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = open_files()
    for number in range(20):
        write_file(tmp_path / "file", bytes([number]))
    assert open_files() == before
