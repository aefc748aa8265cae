from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.errors import ConfigFault
from agent.outbox import Outbox, clip, open_outbox
from agent.outbox_bounds import Bounds
from agent.outbox_file import OutboxRefused
from agent.outbox_jobs import JobRecord
from tests.agent.samples import EPOCHS, JOB, assignment
from tests.agent.virtual_time import VirtualClock
from wire.frames import JobStarted, JobStopped, Level, LogRecord, NodeEvent, Stream
from wire.limits import TEXT_CHARS_MAX


@pytest.fixture
async def outbox(tmp_path: Path) -> AsyncIterator[Outbox]:
    opened = await open_outbox(tmp_path / "outbox.sqlite", EPOCHS[0], VirtualClock(), Bounds(bytes_max=1 << 20))
    yield opened
    await opened.close()


async def bodies(outbox: Outbox, stream: Stream) -> list[object]:
    return [each.body for each in await outbox.read(EPOCHS[0], stream, 0, 1000, 1 << 20)]


async def test_events_are_stamped_with_the_clock_and_announced(outbox: Outbox) -> None:
    announced: list[int] = []
    outbox.on_append = lambda: announced.append(outbox.reading.events_held)
    await outbox.say("agent.started", "hello", pid=7)
    await outbox.keep([LogRecord("worker:host", "a line", Level.WARNING)])
    assert announced == [1, 2]
    (stored,) = await outbox.read(EPOCHS[0], Stream.EVENTS, 0, 10, 1 << 20)
    assert stored.time_ms == VirtualClock().unix_ms()
    assert stored.body == NodeEvent(kind="agent.started", detail="hello", fields={"pid": 7})
    assert await bodies(outbox, Stream.LOGS) == [LogRecord(source="worker:host", text="a line", level=Level.WARNING)]
    assert outbox.held[0].last == 1


async def test_acknowledging_frees(outbox: Outbox) -> None:
    await outbox.say("a", "b")
    await outbox.acknowledge(EPOCHS[0], Stream.EVENTS, 1)
    assert (outbox.held, outbox.reading.events_held) == ([], 0)


async def test_a_full_disk_loses_no_job_and_says_what_else_was_lost(outbox: Outbox) -> None:
    (pages,) = outbox._file._database.execute("PRAGMA page_count").fetchone()
    outbox._file._database.execute(f"PRAGMA max_page_count={pages}")
    for _ in range(30):
        await outbox.say("noise", "x" * 8000)
    with pytest.raises(OutboxRefused):
        await outbox.append([JobStarted(job=JOB, attempt=number + 1, device="host", pid=1) for number in range(500)])
    outbox._file._database.execute("PRAGMA max_page_count=1073741823")
    assert await outbox.end_job(JobStopped(job=JOB, attempt=1))
    await outbox.say("after", "the disk has room again")
    events = await bodies(outbox, Stream.EVENTS)
    lost = next(body for body in events if isinstance(body, NodeEvent) and body.kind == "outbox.refused")
    kept = sum(isinstance(body, NodeEvent) and body.kind == "noise" for body in events)
    assert lost.fields["count"] == 30 - kept
    assert lost.level is Level.ERROR
    assert [body.kind for body in events if isinstance(body, NodeEvent)][-1] == "after"


async def test_a_batch_keeps_its_times_and_costs_one_transaction(outbox: Outbox) -> None:
    commits: list[str] = []
    outbox._file._database.set_trace_callback(lambda said: commits.append(said) if said == "COMMIT" else None)
    batch = [(LogRecord(source="s", text=str(number)), 1000 + number, 5 + number) for number in range(300)]
    assert await outbox.keep_stamped(batch)
    assert commits == ["COMMIT"]
    stored = await outbox.read(EPOCHS[0], Stream.LOGS, 0, 1000, 1 << 20)
    assert [(each.body, each.time_ms, each.monotonic_ns) for each in stored] == batch
    assert outbox.counts.held[Stream.LOGS].events == 300
    assert await outbox.keep_stamped([])
    assert commits == ["COMMIT"]


async def test_what_the_disk_refused_is_counted_by_stream(outbox: Outbox) -> None:
    (pages,) = outbox._file._database.execute("PRAGMA page_count").fetchone()
    outbox._file._database.execute(f"PRAGMA max_page_count={pages}")
    assert not await outbox.keep([LogRecord(source="s", text="x" * 8000)] * 100)
    assert not await outbox.keep([NodeEvent(kind="a", detail="x" * 8000)] * 100)
    assert outbox.counts.refused == {Stream.LOGS: 100, Stream.EVENTS: 100}
    outbox._file._database.execute("PRAGMA max_page_count=1073741823")
    assert await outbox.keep([LogRecord(source="s", text="again")])
    (said,) = await bodies(outbox, Stream.EVENTS)
    assert isinstance(said, NodeEvent)
    assert (said.kind, said.fields["count"]) == ("outbox.refused", 200)
    assert outbox.counts.refused == {Stream.LOGS: 100, Stream.EVENTS: 100}


async def test_jobs_by_way_of_the_loop(outbox: Outbox) -> None:
    await outbox.hold_job(JobRecord(assignment=assignment(), device="host", pid=3))
    assert [record.pid for record in await outbox.jobs_held()] == [3]
    assert await outbox.end_job(JobStopped(job=JOB, attempt=1))
    assert not await outbox.end_job(JobStopped(job=JOB, attempt=1))
    assert await outbox.jobs_held() == []
    assert await outbox.jobs_ended() == [(JOB, 1)]
    assert await outbox.results_held() == [(JOB, 1)]


async def test_an_outbox_that_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    (tmp_path / "outbox.sqlite").mkdir()
    with pytest.raises(ConfigFault):
        await open_outbox(tmp_path / "outbox.sqlite", EPOCHS[0], VirtualClock(), Bounds(bytes_max=1 << 20))


def test_texts_are_cut_in_the_middle() -> None:
    assert clip("short") == "short"
    long = clip("head" + "x" * (2 * TEXT_CHARS_MAX) + "tail")
    assert len(long) <= TEXT_CHARS_MAX
    assert long.startswith("head")
    assert long.endswith("tail")
    assert "left out" in long
