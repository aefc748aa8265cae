"""Files of an older version, damaged files, and agents killed in the middle of it."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from agent.outbox_bounds import Bounds, DropReason
from agent.outbox_file import OutboxFile
from agent.outbox_jobs import JobRecord
from agent.outbox_salvage import Restored, Salvaged, restored
from tests.agent.samples import EPOCHS, JOB, JOB_2, assignment
from tests.agent.virtual_time import VirtualClock
from wire import codec
from wire.frames import (
    Event,
    Gap,
    HeldRange,
    JobStarted,
    JobStopped,
    LogRecord,
    NodeEvent,
    Readings,
    Stream,
    UnknownBody,
)
from wire.readings import HostReading

ROOT = Path(__file__).parents[2]
CLOCK = VirtualClock()
OLD, NEW = EPOCHS[0], EPOCHS[1]
SAMPLE = Readings(host=HostReading(cpu_used_ratio=0.5))


def opened(path: Path, epoch: str) -> OutboxFile:
    return OutboxFile(path, epoch, Bounds(), CLOCK)


def read(outbox: OutboxFile, stream: Stream, epoch: str) -> list[Event]:
    return outbox.read(epoch, stream, 0, 100_000, 1 << 30)


def spans(events: list[Event]) -> list[tuple[int, int]]:
    """The numbers each event stands for."""
    return [(each.body.first if isinstance(each.body, Gap) else each.seq, each.seq) for each in events]


def note(number: int) -> NodeEvent:
    return NodeEvent(kind="test", detail=f"{number} " + "x" * 1500)


# --- an older version -----------------------------------------------------------------------------------------------

VERSION_1 = """
CREATE TABLE epochs (ordinal INTEGER PRIMARY KEY AUTOINCREMENT, epoch TEXT NOT NULL UNIQUE);
CREATE TABLE heads (epoch TEXT NOT NULL, stream TEXT NOT NULL, last INTEGER NOT NULL, acked INTEGER NOT NULL,
    PRIMARY KEY (epoch, stream));
CREATE TABLE events (epoch TEXT NOT NULL, stream TEXT NOT NULL, seq INTEGER NOT NULL, first INTEGER NOT NULL,
    packed BLOB NOT NULL, PRIMARY KEY (epoch, stream, seq));
CREATE TABLE jobs (job TEXT NOT NULL, attempt INTEGER NOT NULL, assignment BLOB NOT NULL, device TEXT, pid INTEGER,
    PRIMARY KEY (job, attempt));
CREATE TABLE ended (ordinal INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL, attempt INTEGER NOT NULL,
    epoch TEXT NOT NULL, seq INTEGER NOT NULL, UNIQUE (job, attempt));
PRAGMA user_version=1;
"""


def test_a_file_of_version_1_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "outbox.sqlite"
    database = sqlite3.connect(path, isolation_level=None)
    database.executescript(VERSION_1)
    database.execute("INSERT INTO epochs (epoch) VALUES (?)", (OLD,))
    for stream, body in ((Stream.LOGS, LogRecord(source="s", text="old")), (Stream.EVENTS, note(1))):
        packed = codec.encode_event(Event(seq=1, time_ms=5, monotonic_ns=6, body=body))
        database.execute("INSERT INTO heads VALUES (?, ?, 1, 0)", (OLD, stream.value))
        database.execute("INSERT INTO events VALUES (?, ?, 1, 1, ?)", (OLD, stream.value, packed))
    database.execute("INSERT INTO ended (job, attempt, epoch, seq) VALUES (?, 1, ?, 1)", (JOB, OLD))
    database.close()
    clock = VirtualClock()
    outbox = OutboxFile(path, NEW, Bounds(), clock)
    try:
        assert outbox.damage is None
        outbox.append([(SAMPLE, clock.unix_ms(), clock.monotonic_ns())])
        assert outbox.held() == [
            HeldRange(epoch=OLD, stream=Stream.EVENTS, first=1, last=1),
            HeldRange(epoch=OLD, stream=Stream.LOGS, first=1, last=1),
            HeldRange(epoch=NEW, stream=Stream.READINGS, first=1, last=1),
        ]
        assert [each.body for each in read(outbox, Stream.LOGS, OLD)] == [LogRecord(source="s", text="old")]
        assert outbox.jobs_ended() == [(JOB, 1)]
        assert outbox._database.execute("PRAGMA user_version").fetchone() == (2,)
    finally:
        outbox.close()


# --- a damaged file -------------------------------------------------------------------------------------------------


def filled(path: Path) -> None:
    """A file with 300 events and samples, some acknowledged, a job held and one ended."""
    outbox = opened(path, OLD)
    outbox.hold_job(JobRecord(assignment=assignment(JOB)))
    outbox.end_job(JOB_2, 1, JobStopped(job=JOB_2, attempt=1), 1, 1)
    for number in range(300):
        outbox.append([(note(number), 1_800_000_000_000, 7), (SAMPLE, 1_800_000_000_000, 7)])
    outbox.acknowledge(OLD, Stream.EVENTS, 20)
    outbox._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    outbox.close()


def garble(path: Path, first_ratio: float, last_ratio: float) -> None:
    raw, noise = bytearray(path.read_bytes()), random.Random(7)
    pages = len(raw) // 4096
    for page in range(int(pages * first_ratio), int(pages * last_ratio)):
        raw[page * 4096 : (page + 1) * 4096] = noise.randbytes(4096)
    path.write_bytes(raw)


@pytest.mark.parametrize("damage", ["garbled in the middle", "garbled at the end", "cut off"])
def test_what_can_be_read_is_saved_in_its_place_and_the_rest_is_a_gap(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "outbox.sqlite"
    filled(path)
    if damage == "cut off":
        os.truncate(path, path.stat().st_size // 2 // 4096 * 4096)
    elif damage == "garbled at the end":
        garble(path, 0.9, 1.0)
    else:
        garble(path, 0.4, 0.5)
    outbox = opened(path, NEW)
    try:
        assert outbox.damage is not None
        assert "records were saved, known to be lost: " in outbox.damage
        assert (tmp_path / "outbox.sqlite.damaged-1").exists()
        for stream, first in ((Stream.EVENTS, 21), (Stream.READINGS, 1)):
            covered = spans(read(outbox, stream, OLD))
            assert covered[0][0] == first
            assert covered[-1][1] == 300
            assert all(before[1] + 1 == after[0] for before, after in pairwise(covered))
            gaps = [each.body.count for each in read(outbox, stream, OLD) if isinstance(each.body, Gap)]
            assert gaps
            assert sum(gaps) < 250
            assert outbox.counts().dropped[stream, DropReason.DAMAGE] == sum(gaps)
        saved = [each for each in read(outbox, Stream.EVENTS, OLD) if not isinstance(each.body, Gap)]
        assert [each.body for each in saved] == [note(each.seq - 1) for each in saved]
        assert [record.assignment.job for record in outbox.jobs_held()] == [JOB]
        assert outbox.jobs_ended() == [(JOB_2, 1)]
        assert [each.body for each in read(outbox, Stream.JOBS, OLD)] == [JobStopped(job=JOB_2, attempt=1)]
    finally:
        outbox.close()
    again = opened(path, EPOCHS[2])
    assert again.damage is None
    again.close()


def test_a_disk_too_full_to_save_into_leaves_the_damaged_file_for_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "outbox.sqlite"
    filled(path)
    garble(path, 0.4, 0.5)
    damaged = path.read_bytes()
    connect = sqlite3.connect

    def full(*args: object, **kwargs: object) -> sqlite3.Connection:
        database: sqlite3.Connection = connect(*args, **kwargs)  # type: ignore[call-overload]
        database.execute("PRAGMA max_page_count=30")
        return database

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", full)
        with pytest.raises(Exception, match="disk is full"):
            opened(path, NEW)
    assert path.read_bytes() == damaged
    outbox = opened(path, NEW)
    assert len(read(outbox, Stream.EVENTS, OLD)) > 100
    outbox.close()


def test_a_garbled_event_in_a_sound_file_keeps_its_number_and_stops_nothing(tmp_path: Path) -> None:
    outbox = opened(tmp_path / "outbox.sqlite", OLD)
    try:
        for attempt in (1, 2, 3):
            outbox.append([(note(attempt), 5, 6), (JobStopped(job=JOB, attempt=attempt), 5, 6)])
        outbox._database.execute("UPDATE events SET packed = ? WHERE seq = 2", (os.urandom(50),))
        assert spans(read(outbox, Stream.EVENTS, OLD)) == [(1, 1), (2, 2), (3, 3)]
        gap = read(outbox, Stream.EVENTS, OLD)[1].body
        assert gap == Gap(first=2, last=2, count=1, reason="the outbox file was damaged")
        jobs = read(outbox, Stream.JOBS, OLD)
        assert [each.seq for each in jobs] == [1, 2, 3]
        assert isinstance(jobs[1].body, UnknownBody)
        # What goes over the wire comes out of it as the same.
        assert codec.decode_event(codec.encode_event(jobs[1])) == jobs[1]
        outbox.acknowledge(OLD, Stream.JOBS, 3)
        assert read(outbox, Stream.JOBS, OLD) == []
    finally:
        outbox.close()


def stored(seq: int, body: object) -> Event:
    return Event(seq=seq, time_ms=1, monotonic_ns=2, body=body)  # type: ignore[arg-type]


def test_jobs_with_a_hole_get_new_numbers_because_they_have_no_gaps() -> None:
    key = (OLD, Stream.JOBS)
    first, third = (stored(seq, JobStopped(job=JOB, attempt=seq)) for seq in (1, 3))
    found = Salvaged(epochs=[OLD], heads={key: (3, 0)}, events={key: [first, third]})
    assert restored(found, Bounds()) == Restored(renumbered=[first, third], lost={Stream.JOBS: 1})


def test_of_streams_without_a_head_jobs_and_events_are_said_again() -> None:
    started = stored(1, JobStarted(job=JOB, attempt=1, device="host", pid=1))
    said, gap = stored(9, note(1)), stored(8, Gap(first=1, last=8, count=8, reason="x"))
    sample = stored(4, SAMPLE)
    found = Salvaged(
        epochs=[OLD],
        events={(OLD, Stream.JOBS): [started], (OLD, Stream.EVENTS): [gap, said], (OLD, Stream.READINGS): [sample]},
    )
    assert restored(found, Bounds()) == Restored(renumbered=[started, said], lost={Stream.READINGS: 1})


def test_a_stream_of_which_only_the_head_is_left_is_one_gap() -> None:
    key = (OLD, Stream.EVENTS)
    made = restored(Salvaged(epochs=[OLD], heads={key: (9, 4)}), Bounds())
    assert spans(made.streams[key]) == [(5, 9)]
    assert made.lost == {Stream.EVENTS: 5}


def test_numbers_said_to_be_acknowledged_or_never_given_are_not_taken() -> None:
    key = (OLD, Stream.EVENTS)
    events = [stored(seq, note(seq)) for seq in (3, 4, 5, 6, 5)]
    made = restored(Salvaged(epochs=[OLD], heads={key: (5, 3)}, events={key: events}), Bounds())
    assert [each.seq for each in made.streams[key]] == [4, 5]


# --- kill -9 --------------------------------------------------------------------------------------------------------

APPENDING = """
import sys
from itertools import pairwise
from pathlib import Path
from agent.outbox_bounds import Bounds
from agent.outbox_file import OutboxFile
from tests.agent.virtual_time import VirtualClock
from wire.frames import LogRecord
outbox = OutboxFile(Path(sys.argv[1]), sys.argv[2], Bounds(), VirtualClock())
while True:
    print(outbox.append([(LogRecord(source="s", text="x" * 500), 1, 1)] * 7)[-1], flush=True)
"""


@pytest.mark.parametrize("appends", [1, 40])
def test_what_was_stored_before_a_kill_is_there_and_in_order(tmp_path: Path, appends: int) -> None:
    path = tmp_path / "outbox.sqlite"
    argv = [sys.executable, "-c", APPENDING, str(path), OLD]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        promised = [int(child.stdout.readline()) for _ in range(appends)][-1]
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read().split("\n")
    promised = max([promised, *(int(line) for line in rest[:-1] if line)])
    outbox = opened(path, NEW)
    try:
        assert outbox.damage is None
        numbers = [each.seq for each in read(outbox, Stream.LOGS, OLD)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) >= promised
        assert len(numbers) % 7 == 0  # a batch is there whole or not at all
    finally:
        outbox.close()
