import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.errors import ConfigFault
from agent.outbox_bounds import Bounds
from agent.outbox_file import OutboxFile, OutboxRefused
from agent.outbox_jobs import JobRecord
from agent.outbox_rows import stream_of
from tests.agent.samples import EPOCHS, JOB, JOB_2, assignment
from tests.agent.virtual_time import VirtualClock
from wire.frames import (
    Event,
    EventBody,
    Gap,
    HeldRange,
    JobFailed,
    JobStarted,
    JobStopped,
    JobSucceeded,
    LogRecord,
    NodeEvent,
    Readings,
    Stream,
)
from wire.limits import HELD_RANGES_MAX
from wire.readings import HostReading

BYTES_MAX = 1024 * 1024
CLOCK = VirtualClock()
SAMPLE = Readings(host=HostReading(cpu_used_ratio=0.5, memory_used_bytes=1 << 30))

Open = Callable[..., OutboxFile]


def event(text: str) -> NodeEvent:
    return NodeEvent(kind="test.event", detail=text)


def append(outbox: OutboxFile, *bodies: EventBody) -> list[int]:
    return outbox.append([(body, 1_700_000_000_000, 5) for body in bodies])


def read(outbox: OutboxFile, stream: Stream, after_seq: int = 0, epoch: str = EPOCHS[0]) -> list[Event]:
    return outbox.read(epoch, stream, after_seq, 10_000, 1 << 30)


def texts(events: list[Event]) -> list[str]:
    return [each.body.detail for each in events if isinstance(each.body, NodeEvent)]


def fill_disk(outbox: OutboxFile) -> None:
    """From now on the file cannot grow: SQLite answers as it does on a full disk."""
    (pages,) = outbox._database.execute("PRAGMA page_count").fetchone()
    outbox._database.execute(f"PRAGMA max_page_count={pages}")


def free_disk(outbox: OutboxFile) -> None:
    outbox._database.execute("PRAGMA max_page_count=1073741823")


def test_each_stream_is_numbered_from_one_without_holes(reopen: Open) -> None:
    outbox = reopen()
    assert append(outbox, event("a"), event("b")) == [1, 2]
    assert append(outbox, LogRecord(source="worker", text="x"), event("c")) == [1, 3]
    assert append(outbox, JobStarted(job=JOB, attempt=1, device="host", pid=1)) == [1]
    assert texts(read(outbox, Stream.EVENTS)) == ["a", "b", "c"]
    assert [each.seq for each in read(outbox, Stream.EVENTS, after_seq=1)] == [2, 3]


def test_every_body_has_its_stream() -> None:
    assert stream_of(JobStopped(job=JOB, attempt=1)) is Stream.JOBS
    assert stream_of(JobFailed(job=JOB, attempt=1, code=6, detail="")) is Stream.JOBS
    assert stream_of(event("")) is Stream.EVENTS
    assert stream_of(LogRecord(source="s", text="")) is Stream.LOGS


def test_a_restart_keeps_what_was_not_acknowledged_and_begins_a_new_epoch(reopen: Open) -> None:
    append(reopen(EPOCHS[0]), event("old 1"), event("old 2"))
    append(reopen(EPOCHS[1]), event("new 1"))
    outbox = reopen(EPOCHS[2])
    append(outbox, event("newest 1"))
    assert outbox.held() == [
        HeldRange(epoch=EPOCHS[0], stream=Stream.EVENTS, first=1, last=2),
        HeldRange(epoch=EPOCHS[1], stream=Stream.EVENTS, first=1, last=1),
        HeldRange(epoch=EPOCHS[2], stream=Stream.EVENTS, first=1, last=1),
    ]
    assert texts(read(outbox, Stream.EVENTS, epoch=EPOCHS[0])) == ["old 1", "old 2"]


def test_acknowledged_events_are_forgotten_and_numbers_go_on(reopen: Open) -> None:
    outbox = reopen()
    append(outbox, *(event(str(number)) for number in range(5)))
    outbox.acknowledge(EPOCHS[0], Stream.EVENTS, 3)
    outbox.acknowledge(EPOCHS[0], Stream.EVENTS, 2)  # an older one, late
    assert [each.seq for each in read(outbox, Stream.EVENTS)] == [4, 5]
    outbox.acknowledge(EPOCHS[0], Stream.EVENTS, 99)  # more than was ever numbered
    assert (outbox.held(), outbox.bytes_held, outbox.reading().events_held) == ([], 0, 0)
    assert append(outbox, event("next")) == [6]
    outbox = reopen()
    assert append(outbox, event("after a restart")) == [7]
    assert outbox.held()[0].first == 6


def test_an_older_epoch_is_gone_when_its_last_event_is_acknowledged(reopen: Open) -> None:
    outbox = reopen(EPOCHS[0])
    append(outbox, event("a"), LogRecord(source="s", text="l"))
    outbox = reopen(EPOCHS[1])
    outbox.acknowledge(EPOCHS[0], Stream.EVENTS, 1)
    assert [held.stream for held in outbox.held()] == [Stream.LOGS]
    outbox.acknowledge(EPOCHS[0], Stream.LOGS, 1)
    assert outbox.held() == []
    outbox.acknowledge(EPOCHS[0], Stream.LOGS, 1)  # of an epoch no longer known
    outbox = reopen(EPOCHS[2])
    assert outbox._database.execute("SELECT count(*) FROM epochs").fetchone() == (1,)


def test_reading_is_bounded_by_count_and_bytes_but_gives_one(reopen: Open) -> None:
    outbox = reopen()
    append(outbox, *(event("x" * 1000) for _ in range(10)))
    assert len(outbox.read(EPOCHS[0], Stream.EVENTS, 0, 3, 1 << 20)) == 3
    assert len(outbox.read(EPOCHS[0], Stream.EVENTS, 0, 100, 2500)) == 2
    assert len(outbox.read(EPOCHS[0], Stream.EVENTS, 0, 100, 1)) == 1


def test_the_hello_lists_at_most_what_fits_jobs_first(reopen: Open) -> None:
    ids = [f"01890a5d-ac96-774b-bcce-{number:012x}" for number in range(20)]
    for epoch in ids:
        outbox = reopen(epoch)
        append(outbox, event("e"), LogRecord(source="s", text="l"), JobStopped(job=JOB, attempt=1), SAMPLE)
    held = outbox.held()
    assert len(held) == HELD_RANGES_MAX
    assert [each.epoch for each in held if each.stream is Stream.JOBS] == ids
    assert {each.stream for each in held if each.epoch == ids[-1]} == set(Stream)


# --- the bound ------------------------------------------------------------------------------------------------------


def test_when_it_is_full_logs_go_first_and_a_gap_says_so(reopen: Open) -> None:
    outbox = reopen(bytes_max=20_000)
    append(outbox, JobFailed(job=JOB, attempt=1, code=6, detail="f" * 2000), event("e" * 1000))
    for number in range(40):
        append(outbox, LogRecord(source="s", text=f"{number} " + "x" * 1000))
    assert outbox.bytes_held <= 20_000
    logs = read(outbox, Stream.LOGS)
    gap = logs[0].body
    assert isinstance(gap, Gap)
    assert (gap.first, gap.last, gap.count) == (1, logs[0].seq, logs[0].seq)
    assert [each.seq for each in logs[1:]] == list(range(gap.last + 1, 41))
    assert outbox.reading().dropped >= gap.count
    assert len(read(outbox, Stream.EVENTS)) == 1
    assert len(read(outbox, Stream.JOBS)) == 1


def test_events_go_next_and_jobs_never(reopen: Open) -> None:
    outbox = reopen(bytes_max=10_000)
    for number in range(30):
        append(outbox, JobFailed(job=JOB, attempt=number + 1, code=6, detail="f" * 1000))
        append(outbox, event("e" * 1000))
    jobs = read(outbox, Stream.JOBS)
    assert [each.seq for each in jobs] == list(range(1, 31))
    assert not any(isinstance(each.body, Gap) for each in jobs)
    events = read(outbox, Stream.EVENTS)
    assert isinstance(events[0].body, Gap)
    assert events[-1].seq == 30


def test_a_gap_survives_a_restart_and_is_acknowledged_like_an_event(reopen: Open) -> None:
    outbox = reopen(bytes_max=5_000)
    for _ in range(20):
        append(outbox, LogRecord(source="s", text="x" * 1000))
    outbox = reopen(EPOCHS[1], bytes_max=5_000)
    gap = read(outbox, Stream.LOGS)[0]
    assert isinstance(gap.body, Gap)
    outbox.acknowledge(EPOCHS[0], Stream.LOGS, gap.seq)
    assert read(outbox, Stream.LOGS)[0].seq == gap.seq + 1


# --- a disk that refuses or destroys --------------------------------------------------------------------------------


def test_a_full_disk_refuses_and_changes_nothing(reopen: Open) -> None:
    outbox = reopen()
    append(outbox, event("before"))
    before = (outbox.held(), outbox.reading())
    fill_disk(outbox)
    with pytest.raises(OutboxRefused, match="did not take a record: database or disk is full"):
        append(outbox, *(event("x" * 8000) for _ in range(50)))
    assert (outbox.held(), outbox.reading()) == before
    with pytest.raises(OutboxRefused):
        outbox.end_job(JOB, 1, JobFailed(job=JOB, attempt=1, code=6, detail="x" * 8000), 1, 1)
    free_disk(outbox)
    assert append(outbox, event("after")) == [2]
    assert outbox.end_job(JOB, 1, JobStopped(job=JOB, attempt=1), 1, 1)
    assert texts(read(outbox, Stream.EVENTS)) == ["before", "after"]


@pytest.mark.parametrize("damage", ["truncated", "overwritten", "no database"])
def test_a_damaged_file_is_kept_as_evidence_and_a_new_one_begun(reopen: Open, tmp_path: Path, damage: str) -> None:
    outbox = reopen()
    append(outbox, *(event("x" * 2000) for _ in range(200)))
    outbox._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    outbox.close()
    path = tmp_path / "outbox.sqlite"
    raw = path.read_bytes()
    if damage == "truncated":
        path.write_bytes(raw[: len(raw) // 2])
    elif damage == "overwritten":
        path.write_bytes(raw[:4096] + b"\xff" * (len(raw) - 4096))
    else:
        path.write_bytes(b"this is no database, it is a text about one" * 100)
    again = OutboxFile(path, EPOCHS[1], Bounds(bytes_max=BYTES_MAX), CLOCK)
    try:
        assert again.damage is not None
        assert "outbox.sqlite.damaged-1" in again.damage
        assert (tmp_path / "outbox.sqlite.damaged-1").exists()
        assert append(again, event("goes on")) == [1]
    finally:
        again.close()
    path.write_bytes(b"again" * 1000)
    third = OutboxFile(path, EPOCHS[2], Bounds(bytes_max=BYTES_MAX), CLOCK)
    third.close()
    assert third.damage is not None
    assert (tmp_path / "outbox.sqlite.damaged-2").exists()


def test_a_torn_write_ahead_log_loses_only_what_was_not_committed(reopen: Open, tmp_path: Path) -> None:
    outbox = reopen()
    append(outbox, event("committed"))
    wal = tmp_path / "outbox.sqlite-wal"
    saved = wal.read_bytes()
    append(outbox, event("torn"))
    torn = wal.read_bytes()
    folder = tmp_path / "after the power loss"
    folder.mkdir()
    (folder / "outbox.sqlite").write_bytes((tmp_path / "outbox.sqlite").read_bytes())
    (folder / "outbox.sqlite-wal").write_bytes(torn[: len(saved) + (len(torn) - len(saved)) // 2])
    again = OutboxFile(folder / "outbox.sqlite", EPOCHS[1], Bounds(bytes_max=BYTES_MAX), CLOCK)
    try:
        assert again.damage is None
        assert texts(read(again, Stream.EVENTS)) == ["committed"]
    finally:
        again.close()


def test_a_file_of_a_newer_version_is_left_alone(reopen: Open, tmp_path: Path) -> None:
    outbox = reopen()
    outbox._database.execute("PRAGMA user_version=99")
    with pytest.raises(ConfigFault, match="newer version"):
        reopen(EPOCHS[1])
    assert not list(tmp_path.glob("*damaged*"))


def test_a_file_that_cannot_be_opened_is_a_fault_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "outbox.sqlite").mkdir()
    with pytest.raises(ConfigFault, match="cannot be opened"):
        OutboxFile(tmp_path / "outbox.sqlite", EPOCHS[0], Bounds(bytes_max=BYTES_MAX), CLOCK)


# --- jobs -----------------------------------------------------------------------------------------------------------


def test_jobs_are_held_until_their_end_is_stored(reopen: Open) -> None:
    outbox = reopen()
    outbox.hold_job(JobRecord(assignment=assignment(JOB)))
    outbox.hold_job(JobRecord(assignment=assignment(JOB_2)))
    outbox.hold_job(JobRecord(assignment=assignment(JOB), device="host", pid=42))
    outbox = reopen(EPOCHS[1])
    held = {record.assignment.job: (record.device, record.pid) for record in outbox.jobs_held()}
    assert held == {JOB: ("host", 42), JOB_2: (None, None)}
    assert outbox.jobs_held()[0].assignment == assignment(JOB_2)
    assert outbox.end_job(JOB, 1, JobSucceeded(job=JOB, attempt=1, outputs=[]), 1, 1)
    assert [record.assignment.job for record in outbox.jobs_held()] == [JOB_2]


def test_the_end_of_an_attempt_is_stored_once(reopen: Open) -> None:
    outbox = reopen()
    body = JobFailed(job=JOB, attempt=1, code=4, detail="bad witness")
    assert outbox.end_job(JOB, 1, body, 1, 1)
    assert not outbox.end_job(JOB, 1, body, 1, 1)
    outbox = reopen(EPOCHS[1])
    assert not outbox.end_job(JOB, 1, body, 1, 1)
    assert outbox.end_job(JOB, 2, JobStopped(job=JOB, attempt=2), 1, 1)
    assert outbox.jobs_ended() == [(JOB, 1), (JOB, 2)]
    assert len(read(outbox, Stream.JOBS)) == 1


def test_results_are_held_until_acknowledged(reopen: Open) -> None:
    outbox = reopen()
    outbox.end_job(JOB, 1, JobStopped(job=JOB, attempt=1), 1, 1)
    outbox.end_job(JOB, 2, JobStopped(job=JOB, attempt=2), 1, 1)
    assert outbox.results_held() == [(JOB, 2), (JOB, 1)]
    outbox.acknowledge(EPOCHS[0], Stream.JOBS, 1)
    outbox = reopen(EPOCHS[1])
    assert outbox.results_held() == [(JOB, 2)]
    outbox.acknowledge(EPOCHS[0], Stream.JOBS, 2)
    assert outbox.results_held() == []


def test_sqlite_runs_as_durably_as_promised(reopen: Open) -> None:
    database: sqlite3.Connection = reopen()._database
    assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert database.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


def test_marks_are_kept_with_the_events_they_came_with_or_not_at_all(reopen: Open) -> None:
    outbox = reopen()
    outbox.append([(event("x"), 1, 1)], {"file:a": b"12", "file:b": b"7"})
    outbox.append([], {"file:a": b"20"})
    fill_disk(outbox)
    with pytest.raises(OutboxRefused):
        outbox.append([(event("x" * 8000), 1, 1)] * 100, {"file:a": b"99"})
    assert reopen().marks() == {"file:a": b"20", "file:b": b"7"}
