"""What the outbox gives up, by size and by age, and how it says so."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.outbox_bounds import Bounds, DropReason, Row, StreamHeld, Times, oldest_bytes, outlived
from agent.outbox_file import OutboxFile
from tests.agent.samples import EPOCHS, JOB
from tests.agent.virtual_time import VirtualClock
from wire.frames import Event, EventBody, Gap, JobFailed, LogRecord, NodeEvent, Readings, Stream
from wire.readings import HostReading

DAY_S = 24 * 3600.0
JOB_END = JobFailed(job=JOB, attempt=1, code=6, detail="f" * 900)
EVENT = NodeEvent(kind="test", detail="e" * 900)
SAMPLE = Readings(host=HostReading(kernel="k" * 100, cpu_used_ratio=0.5))
LOG = LogRecord(source="s", text="l" * 900)

Open = Callable[..., OutboxFile]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def reopen(tmp_path: Path, clock: VirtualClock) -> Iterator[Open]:
    opened: list[OutboxFile] = []

    def open_one(epoch: str = EPOCHS[0], bytes_max: int = 1 << 20) -> OutboxFile:
        close()
        opened.append(OutboxFile(tmp_path / "outbox.sqlite", epoch, Bounds(bytes_max=bytes_max), clock))
        return opened[-1]

    def close() -> None:
        while opened:
            opened.pop().close()

    yield open_one
    close()


def append(outbox: OutboxFile, clock: VirtualClock, *bodies: EventBody) -> None:
    outbox.append([(body, clock.unix_ms(), clock.monotonic_ns()) for body in bodies])


def read(outbox: OutboxFile, stream: Stream, epoch: str = EPOCHS[0]) -> list[Event]:
    return outbox.read(epoch, stream, 0, 10_000, 1 << 30)


def gap_of(outbox: OutboxFile, stream: Stream, epoch: str = EPOCHS[0]) -> Gap | None:
    events = read(outbox, stream, epoch)
    assert not any(isinstance(each.body, Gap) for each in events[1:])
    body = events[0].body if events else None
    return body if isinstance(body, Gap) else None


@pytest.mark.parametrize(
    ("kept", "gone"),
    [
        ((), {Stream.LOGS}),
        ((Stream.LOGS,), {Stream.READINGS}),
        ((Stream.LOGS, Stream.READINGS), {Stream.EVENTS}),
        ((Stream.LOGS, Stream.READINGS, Stream.EVENTS), set()),
    ],
)
def test_logs_go_first_then_readings_then_events_and_jobs_never(
    reopen: Open, clock: VirtualClock, kept: tuple[Stream, ...], gone: set[Stream]
) -> None:
    """Streams that are not there (``kept`` names them) leave the turn to the next."""
    bodies: dict[Stream, EventBody] = {
        Stream.JOBS: JOB_END,
        Stream.EVENTS: EVENT,
        Stream.READINGS: SAMPLE,
        Stream.LOGS: LOG,
    }
    outbox = reopen(bytes_max=20_000)
    for _ in range(21):
        append(outbox, clock, *(body for stream, body in bodies.items() if stream not in kept))
        if outbox.counts().dropped:
            break
    assert {stream for stream in Stream if gap_of(outbox, stream)} == gone
    assert {stream for stream, _ in outbox.counts().dropped} == gone
    assert gap_of(outbox, Stream.JOBS) is None


def test_a_batch_larger_than_everything_leaves_no_more_than_the_bound(reopen: Open, clock: VirtualClock) -> None:
    outbox = reopen(bytes_max=20_000)
    append(outbox, clock, *[LOG] * 500)
    assert outbox.bytes_held <= 20_000
    gap = gap_of(outbox, Stream.LOGS)
    assert gap is not None
    assert outbox.counts().dropped == {(Stream.LOGS, DropReason.SIZE): gap.count}
    assert outbox.reading().dropped == gap.count
    assert read(outbox, Stream.LOGS)[-1].seq == 500


def test_what_was_dropped_twice_is_counted_once(reopen: Open, clock: VirtualClock) -> None:
    outbox = reopen(bytes_max=10_000)
    for _ in range(60):
        append(outbox, clock, LOG)
    gap = gap_of(outbox, Stream.LOGS)
    assert gap is not None
    assert gap.first == 1
    assert outbox.counts().dropped == {(Stream.LOGS, DropReason.SIZE): gap.count}


def test_after_a_day_logs_and_readings_go_and_events_and_jobs_stay(reopen: Open, clock: VirtualClock) -> None:
    outbox = reopen()
    for _ in range(3):
        append(outbox, clock, JOB_END, EVENT, SAMPLE, LOG)
    clock.now_s += DAY_S - 1
    append(outbox, clock, SAMPLE)
    assert outbox.counts().dropped == {}
    clock.now_s += 100
    append(outbox, clock, LOG)
    for stream in (Stream.LOGS, Stream.READINGS):
        gap = gap_of(outbox, stream)
        assert gap is not None
        assert (gap.first, gap.last, gap.reason) == (1, 3, "older than 86400 s")
        assert [each.seq for each in read(outbox, stream)] == [3, 4]
    assert [len(read(outbox, stream)) for stream in (Stream.JOBS, Stream.EVENTS)] == [3, 3]
    assert outbox.counts().dropped == {
        (Stream.LOGS, DropReason.AGE): 3,
        (Stream.READINGS, DropReason.AGE): 3,
    }
    held = outbox.counts().held
    assert (held[Stream.READINGS].events, held[Stream.EVENTS].events) == (2, 3)
    assert sum(each.bytes_ for each in held.values()) == outbox.bytes_held
    assert held[Stream.JOBS] == StreamHeld(events=3, bytes_=held[Stream.JOBS].bytes_)


def test_a_gap_stands_at_the_time_of_what_it_covers_and_grows(reopen: Open, clock: VirtualClock) -> None:
    outbox = reopen()
    times_ms = []
    for _ in range(4):
        append(outbox, clock, SAMPLE)
        times_ms.append(clock.unix_ms())
        clock.now_s += 3600.0
    clock.now_s += DAY_S - 2.5 * 3600
    append(outbox, clock, SAMPLE)
    first, *_ = read(outbox, Stream.READINGS)
    assert (first.seq, first.time_ms) == (2, times_ms[1])
    clock.now_s += 3600.0
    append(outbox, clock, SAMPLE)
    first, *_ = read(outbox, Stream.READINGS)
    assert (first.seq, first.time_ms) == (3, times_ms[2])
    assert outbox.counts().dropped == {(Stream.READINGS, DropReason.AGE): 3}


def test_older_epochs_age_by_the_wall_clock(reopen: Open, clock: VirtualClock) -> None:
    append(reopen(EPOCHS[0]), clock, *[SAMPLE] * 3)
    clock.now_s += DAY_S + 100
    outbox = reopen(EPOCHS[1])
    append(outbox, clock, SAMPLE)
    gap = gap_of(outbox, Stream.READINGS)
    assert gap is not None
    assert gap.count == 3
    assert gap_of(outbox, Stream.READINGS, EPOCHS[1]) is None


def test_nothing_is_dropped_when_the_disk_refuses(reopen: Open, clock: VirtualClock) -> None:
    outbox = reopen()
    append(outbox, clock, *[LOG] * 3)
    clock.now_s += DAY_S + 100
    outbox._database.execute("PRAGMA query_only=1")
    with pytest.raises(Exception, match="did not take a record"):
        append(outbox, clock, LOG)
    outbox._database.execute("PRAGMA query_only=0")
    assert outbox.counts().dropped == {}
    append(outbox, clock, LOG)
    assert outbox.counts().dropped == {(Stream.LOGS, DropReason.AGE): 3}


# --- the rules, pure ------------------------------------------------------------------------------------------------

NOW = Times(unix_ms=1_800_000_000_000, monotonic_ns=5_000_000_000, opened_ns=2_000_000_000)


def row(seq: int = 1, *, size_bytes: int = 10, time_ms: int = 0, monotonic_ns: int = 0) -> Row:
    return Row(seq, seq, size_bytes, time_ms, monotonic_ns)


@pytest.mark.parametrize(
    ("each", "of", "age_s"),
    [
        (
            row(monotonic_ns=1_000_000_000, time_ms=NOW.unix_ms - 999_000),
            "this run",
            4.0,
        ),  # whatever the wall clock says
        (row(time_ms=NOW.unix_ms - 60_000, monotonic_ns=1), "an older one", 60.0),
        (row(time_ms=0), "an older one", 3.0),  # stored by a version that kept no times
        (row(time_ms=7_000), "an older one", 3.0),  # of a node whose clock was not set yet
        (row(time_ms=NOW.unix_ms + 1), "an older one", 3.0),  # of a clock that was ahead
    ],
)
def test_ages(each: Row, of: str, age_s: float) -> None:
    assert NOW.age_s(each, own=of == "this run") == age_s


def test_the_oldest_are_taken_until_it_is_enough() -> None:
    rows = [row(seq) for seq in range(1, 6)]
    assert [each.seq for each in oldest_bytes(rows, 25)] == [1, 2, 3]
    assert oldest_bytes(rows, 1000) == rows
    old = [row(seq, monotonic_ns=seq * 1_000_000_000) for seq in range(1, 6)]
    assert [each.seq for each in outlived(old, NOW, 2.5, own=True)] == [1, 2]
    assert outlived(old, NOW, 60.0, own=True) == []
