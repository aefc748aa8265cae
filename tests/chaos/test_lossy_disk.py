"""The disk that loses what was not fsynced, tried with small programs whose every step is known."""

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.lossy_disk import Cut, LossyDisk, Side, files_of

RNG = random.Random(1)
SYNCED = """
import os
def put(name, data, flags=os.O_CREAT | os.O_WRONLY, sync=True):
    fd = os.open(name, flags, 0o600)
    os.write(fd, data)
    if sync: os.fsync(fd)
    os.close(fd)
def sync_names(name="."):
    fd = os.open(name, os.O_RDONLY); os.fsync(fd); os.close(fd)
"""


@pytest.fixture
def disk(tmp_path: Path, lossy_library: Path) -> Iterator[LossyDisk]:
    with LossyDisk(tmp_path / "data", tmp_path / "beside", lossy_library) as made:
        yield made


def run(disk: LossyDisk, program: str) -> int:
    return subprocess.run(
        [sys.executable, "-c", SYNCED + program], cwd=disk.root, env=disk.env, check=False, timeout=60
    ).returncode


def left(disk: LossyDisk, cut: Cut = Cut.LEAST, seed: int = 1) -> dict[str, bytes]:
    disk.power_cut(cut, random.Random(seed))
    return dict(files_of(disk.root))


def test_bytes_and_names_stay_only_if_fsynced(disk: LossyDisk) -> None:
    assert run(disk, "put('whole', b'x'); put('nameless', b'y', sync=True); sync_names()") == 0
    assert run(disk, "put('later', b'z'); put('whole', b'XX', sync=False)") == 0
    assert left(disk) == {"whole": b"x", "nameless": b"y"}


def test_a_rename_without_its_folder_is_lost(disk: LossyDisk) -> None:
    assert run(disk, "put('old', b'1'); sync_names(); put('new', b'2'); os.rename('new', 'old')") == 0
    assert dict(files_of(disk.root)) == {"old": b"2"}
    assert left(disk) == {"old": b"1"}
    assert run(disk, "put('new', b'2'); os.rename('new', 'old'); sync_names()") == 0
    assert left(disk) == {"old": b"2"}


def test_a_renamed_file_that_was_not_fsynced_is_empty(disk: LossyDisk) -> None:
    assert run(disk, "put('a', b'content', sync=False); os.rename('a', 'b'); sync_names()") == 0
    assert left(disk) == {"b": b""}


def test_a_removed_file_comes_back(disk: LossyDisk) -> None:
    assert run(disk, "put('a', b'1'); sync_names(); os.unlink('a')") == 0
    assert left(disk) == {"a": b"1"}
    assert run(disk, "os.unlink('a'); sync_names()") == 0
    assert left(disk) == {}


def test_a_file_in_a_folder_whose_name_is_not_durable_is_lost(disk: LossyDisk) -> None:
    assert run(disk, "os.mkdir('d'); put('d/f', b'1'); sync_names('d')") == 0
    assert left(disk) == {}
    assert run(disk, "os.mkdir('d'); put('d/f', b'1'); sync_names('d'); sync_names()") == 0
    assert left(disk) == {"d/f": b"1"}


def test_appending_writing_in_the_middle_and_cutting(disk: LossyDisk) -> None:
    program = """
put('f', b'abcdef')
put('f', b'ghi', os.O_WRONLY | os.O_APPEND)
fd = os.open('f', os.O_RDWR)
os.pwrite(fd, b'CD', 2); os.writev(fd, [b'A', b'B']); os.ftruncate(fd, 8); os.fdatasync(fd); os.pwrite(fd, b'zz', 0)
sync_names()
"""
    assert run(disk, program) == 0
    assert left(disk) == {"f": b"ABCDefgh"}


def test_a_torn_cut_leaves_whole_sectors_and_is_decided_by_its_seed(disk: LossyDisk) -> None:
    seen = set()
    for seed in range(12):
        assert run(disk, "put('f', b'o' * 2048); sync_names(); put('f', b'n' * 2048, sync=False)") == 0
        content = left(disk, Cut.TORN, seed)["f"]
        new = len(content) - len(content.lstrip(b"n"))
        assert content == b"n" * new + b"o" * (2048 - new)
        assert new % 512 == 0
        seen.add(new)
    assert len(seen) > 2


def test_sqlite_keeps_what_it_committed_and_may_lose_the_rest(disk: LossyDisk) -> None:
    program = """
import sqlite3
db = sqlite3.connect(os.path.realpath('db'), isolation_level=None)
db.execute('PRAGMA journal_mode=WAL'); db.execute('PRAGMA synchronous={}')
db.execute('CREATE TABLE IF NOT EXISTS t (n)')
for n in range(20): db.execute('INSERT INTO t VALUES (?)', (n,))
os.kill(os.getpid(), 9)
"""
    count = "import sqlite3; raise SystemExit(sqlite3.connect('db').execute('SELECT count(*) FROM t').fetchone()[0])"
    assert run(disk, program.format("FULL")) == -signal.SIGKILL
    disk.power_cut(Cut.LEAST, RNG)
    assert run(disk, count) == 20
    # The layer shows what it is for: with synchronous=OFF the same program loses what it committed.
    disk.power_cut(Cut.LEAST, RNG)
    assert run(disk, program.format("OFF")) == -signal.SIGKILL
    disk.power_cut(Cut.LEAST, RNG)
    assert run(disk, count) == 20


@pytest.mark.parametrize("side", Side)
def test_the_nth_durable_effect_kills(disk: LossyDisk, side: Side) -> None:
    program = "put('a', b'1'); sync_names(); put('b', b'2'); sync_names(); put('c', b'3'); sync_names()"
    durable_after = []
    for number in range(1, 10):
        disk.arm(number, side)
        assert run(disk, program) == -signal.SIGKILL
        disk.disarm()
        durable_after.append("".join(left(disk)))
        for file in disk.root.iterdir():
            file.unlink()
        disk.begin_anew()
    # Each of the three makes a name, fsyncs the file, fsyncs the folder: the third effect is what keeps it.
    expected = {Side.BEFORE: ["", "", "", "a", "a", "a", "ab", "ab", "ab"]}
    expected[Side.AFTER] = [*expected[Side.BEFORE][1:], "abc"]
    assert durable_after == expected[side]
    disk.arm(10, side)
    assert run(disk, program) == 0


def test_a_full_disk_refuses_growth_and_nothing_else(disk: LossyDisk) -> None:
    assert run(disk, "put('a', b'12345'); sync_names()") == 0
    disk.control.full = 1
    assert run(disk, "put('a', b'54321')") == 0
    for program in ("put('a', b'1', os.O_WRONLY | os.O_APPEND)", "put('b', b'')", "os.mkdir('d')"):
        assert run(disk, f"import errno\ntry: {program}\nexcept OSError as e: raise SystemExit(e.errno)") == 28
    disk.control.full = 0
    assert left(disk) == {"a": b"54321"}


def test_the_wall_clock_moves_and_durations_do_not(disk: LossyDisk) -> None:
    program = """
import time
print(int(time.time()), flush=True)
began = time.monotonic()
input()
print(int(time.time()), time.monotonic() - began)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        env=disk.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        first = int(child.stdout.readline())
        disk.control.ahead_s = -3600
        second, took_s = child.communicate("\n", timeout=60)[0].split()
    assert -3600 <= int(second) - first <= -3540
    assert 0 <= float(took_s) < 60
