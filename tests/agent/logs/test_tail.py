"""Following real files through everything that happens to logs."""

import os
import shutil
from pathlib import Path

import pytest

from agent.logs.tail import CHUNK_BYTES, LINE_BYTES_MAX, LINGER_S, Chunk, FileTail, Place


class Reader:
    """A tail that reads on until there is nothing more, and can be killed and begun anew at its last place."""

    def __init__(self, path: Path, *, from_end: bool = False) -> None:
        self.path = path
        self.now_s = 100.0
        self.place: Place | None = None
        self.missed = 0
        self.problem = ""
        self._tail = FileTail(path, None, from_end=from_end)

    def lines(self, *, wait_s: float = 0.0) -> list[str]:
        self.now_s += wait_s
        found: list[str] = []
        while True:
            chunk: Chunk = self._tail.read(self.now_s)
            found += [line.data.decode("utf-8", "backslashreplace") for line in chunk.lines]
            self.place, self.problem = chunk.place, chunk.problem
            self.missed += chunk.missed
            if not chunk.more:
                return found

    def after_rotation(self) -> list[str]:
        return self.lines() + self.lines(wait_s=LINGER_S) + self.lines()

    def restart(self) -> None:
        self._tail.close()
        self._tail = FileTail(self.path, self.place, from_end=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.log"


def add(path: Path, *lines: str, end: str = "\n") -> None:
    with path.open("a") as file:
        file.write("".join(line + end for line in lines))


def test_a_file_that_was_there_is_followed_from_its_end_and_one_that_comes_from_its_beginning(path: Path) -> None:
    add(path, "before")
    old = Reader(path, from_end=True)
    assert old.lines() == []
    add(path, "after")
    assert old.lines() == ["after"]
    new = Reader(path.with_name("new.log"), from_end=True)
    assert new.lines() == []
    assert "does not exist (yet)" in new.problem
    add(new.path, "first")
    assert new.lines() == ["first"]
    assert new.problem == ""


def test_the_end_in_the_middle_of_a_line_begins_with_the_next_one(path: Path) -> None:
    add(path, "half a li", end="")
    reader = Reader(path, from_end=True)
    assert reader.lines() == []
    reader.restart()
    add(path, "ne", "whole")
    assert reader.lines() == ["whole"]


def test_a_partial_line_waits_for_its_end_across_a_restart(path: Path) -> None:
    add(path, "one", "tw", end="")
    add(path, "x")
    path.write_text("one\ntw")
    reader = Reader(path)
    assert reader.lines() == ["one"]
    reader.restart()
    assert reader.lines() == []
    add(path, "o")
    assert reader.lines() == ["two"]


def test_rotation_by_rename_loses_nothing_though_the_program_writes_on_for_a_while(path: Path) -> None:
    reader = Reader(path)
    add(path, "1")
    assert reader.lines() == ["1"]
    rotated = path.rename(path.with_name("app.log.1"))
    add(rotated, "2")
    add(path, "4")
    assert reader.lines() == ["2"]
    assert reader.lines(wait_s=LINGER_S / 2) == []
    add(rotated, "3")
    assert reader.lines() == ["3"]
    assert reader.after_rotation() == ["4"]
    assert reader.missed == 0


def test_a_last_line_without_an_end_is_told_when_its_file_is_left(path: Path) -> None:
    reader = Reader(path)
    add(path, "no end", end="")
    assert reader.lines() == []
    path.rename(path.with_name("app.log.1"))
    add(path, "new")
    assert reader.after_rotation() == ["no end", "new"]


def test_between_two_files_of_the_name_nothing_is_lost(path: Path) -> None:
    reader = Reader(path)
    add(path, "1", "2")
    assert reader.lines() == ["1", "2"]
    add(path, "3")
    add(path, "no end", end="")
    path.rename(path.with_name("app.log.1"))
    add(path, "4")
    reader.restart()
    assert reader.lines() == ["3"]
    path.rename(path.with_name("elsewhere"))
    assert reader.after_rotation() == []
    assert reader.problem
    path.with_name("elsewhere").rename(path)
    assert reader.lines() == ["no end", "4"]


def test_several_rotations_while_nobody_looked_are_read_in_their_order(path: Path) -> None:
    reader = Reader(path)
    add(path, "1", "2")
    assert reader.lines() == ["1", "2"]
    add(path, "3")
    for number, line in ((2, "4"), (1, "5")):
        shutil.move(path, path.with_name(f"app.log.{number}"))
        os.utime(path.with_name(f"app.log.{number}"), ns=(number, 10**18 - number * 10**9))
        add(path, line)
    add(path.with_name("app.log.errors"), "another program's")
    path.with_name("app.log.3.gz").write_bytes(b"packed")
    reader.restart()
    read = reader.lines()
    for _ in range(3):
        read += reader.after_rotation()
    assert read == ["3", "4", "5"]
    assert reader.missed == 0


def test_a_copy_and_truncation_while_nobody_looked_loses_nothing(path: Path) -> None:
    reader = Reader(path)
    add(path, "a line that is long enough", "2")
    assert len(reader.lines()) == 2
    add(path, "3")
    shutil.copyfile(path, path.with_name("app.log.1"))
    os.truncate(path, 0)
    add(path, "4")
    assert reader.after_rotation() == ["3", "4"]
    assert reader.missed == 0


@pytest.mark.parametrize("restarted", [False, True])
def test_a_truncated_file_that_grew_anew_beyond_our_place_is_noticed(path: Path, *, restarted: bool) -> None:
    reader = Reader(path)
    add(path, "old", "old")
    assert reader.lines() == ["old", "old"]
    os.truncate(path, 0)
    add(path, "new 1", "new 2", "new 3")
    if restarted:
        reader.restart()
    assert reader.lines() == ["new 1", "new 2", "new 3"]


def test_an_inode_used_again_for_another_file_is_not_taken_for_the_old_one(path: Path) -> None:
    reader = Reader(path)
    add(path, "old 1", "old 2")
    reader.lines()
    inode = path.stat().st_ino
    path.write_text("new 1\nnew 2\nnew 3\n")
    assert path.stat().st_ino == inode
    reader.restart()
    assert reader.lines() == ["new 1", "new 2", "new 3"]


def test_a_rest_that_is_gone_is_said(path: Path) -> None:
    reader = Reader(path)
    add(path, "1")
    reader.lines()
    add(path, "2")
    path.rename(path.with_name("app.log.1"))
    path.with_name("app.log.1").unlink()
    add(path, "3")
    reader.restart()
    assert reader.lines() == ["3"]
    assert reader.missed == 1


def test_every_place_is_one_to_go_on_from(path: Path) -> None:
    path.write_bytes(b"one\n\ntwo\r\nth\0ree\n\xff\xfe\n" + "späte\n".encode() * 40)
    reader = Reader(path)
    whole = reader.lines()
    assert whole[:5] == ["one", "", "two", "three", "\\xff\\xfe"]
    tail = FileTail(path, None, from_end=False)
    lines = tail.read(1.0).lines
    for number, line in enumerate(lines):
        again = FileTail(path, line.place, from_end=True)
        rest = [each.data for each in again.read(1.0).lines]
        assert rest == [each.data for each in lines[number + 1 :]]
        again.close()
    tail.close()


def test_a_very_long_line_is_told_by_its_beginning_and_costs_no_memory(path: Path) -> None:
    with path.open("wb") as file:
        file.writelines(b"x" * 65536 for _ in range(200))
        file.write(b"\nafter\n")
    reader = Reader(path)
    long, after = reader.lines()
    assert len(long) < LINE_BYTES_MAX + 100
    assert long.endswith("[... a longer line]")
    assert after == "after"
    assert len(reader._tail._partial) < LINE_BYTES_MAX + CHUNK_BYTES


def test_within_a_very_long_line_a_restart_does_not_make_two_of_it(path: Path) -> None:
    path.write_bytes(b"x" * 3 * CHUNK_BYTES)
    reader = Reader(path)
    assert len(reader.lines()) == 1
    reader.restart()
    add(path, "its end", "after")
    assert reader.lines() == ["after"]


def test_the_zeros_of_a_sparse_file_are_passed_over(path: Path) -> None:
    with path.open("wb") as file:
        file.seek(4 * 1024**3)
        file.write(b"\0\0written behind a hole\n")
    reader = Reader(path)
    assert reader.lines() == ["written behind a hole"]


def test_a_device_a_pipe_and_a_folder_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe", tmp_path):
        reader = Reader(path)
        assert reader.lines() == []
        assert "no regular file" in reader.problem


def test_what_stands_in_the_way_of_one_look_does_not_stand_in_the_next(path: Path) -> None:
    path.mkdir()
    reader = Reader(path)
    assert reader.lines() == []
    assert reader.problem
    path.rmdir()
    add(path, "1")
    assert reader.lines() == ["1"]
    assert reader.problem == ""
