"""What an outbox holds for an identity that is given up: told under the new one, at the same hub and at no other."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.outbox_bounds import Bounds, DropReason
from agent.outbox_file import OutboxFile, OutboxRefused
from agent.outbox_owner import Owner
from tests.agent.samples import EPOCHS, JOB, JOB_2
from tests.agent.test_outbox_file import CLOCK, append, event, read, texts
from wire.frames import Gap, HeldRange, JobFailed, LogRecord, Stream

HUB, OTHER_HUB = "hub-1", "hub-2"
OLD, NEW = Owner(HUB, "agent-1"), Owner(HUB, "agent-2")

Open = Callable[..., OutboxFile]


def failed(job: str) -> JobFailed:
    return JobFailed(job=job, attempt=1, code=6, detail="it was killed")


def test_a_new_identity_tells_what_is_held_from_number_one_and_loses_nothing(reopen: Open) -> None:
    old = reopen(EPOCHS[0])
    assert not old.belongs_to(OLD)
    append(old, *(event(f"e{number}") for number in range(5)), LogRecord(source="worker", text="x"))
    old.end_job(JOB, 1, failed(JOB), 1, 1)
    old.end_job(JOB_2, 1, failed(JOB_2), 2, 2)
    old.acknowledge(EPOCHS[0], Stream.EVENTS, 3)
    old.acknowledge(EPOCHS[0], Stream.JOBS, 1)
    new = reopen(EPOCHS[1])
    append(new, event("started"))
    assert not new.belongs_to(NEW)
    assert new.held() == [
        HeldRange(epoch=EPOCHS[0], stream=Stream.JOBS, first=1, last=1),
        HeldRange(epoch=EPOCHS[0], stream=Stream.EVENTS, first=1, last=2),
        HeldRange(epoch=EPOCHS[0], stream=Stream.LOGS, first=1, last=1),
        HeldRange(epoch=EPOCHS[1], stream=Stream.EVENTS, first=1, last=1),
    ]
    assert texts(read(new, Stream.EVENTS)) == ["e3", "e4"]
    assert new.results_held() == [(JOB_2, 1)]
    assert new.reading().events_held == 5
    again = reopen(EPOCHS[2])
    assert not again.belongs_to(NEW)
    assert texts(read(again, Stream.EVENTS)) == ["e3", "e4"]
    again.acknowledge(EPOCHS[0], Stream.JOBS, 1)
    assert again.results_held() == []


def test_another_hub_is_told_nothing_of_what_was_held_before(reopen: Open) -> None:
    old = reopen(EPOCHS[0])
    old.belongs_to(OLD)
    append(old, event("secret"), LogRecord(source="worker", text="secret"))
    new = reopen(EPOCHS[1])
    append(new, event("started"))
    assert new.belongs_to(Owner(OTHER_HUB, "agent-9")) == {Stream.EVENTS: 1, Stream.LOGS: 1}
    assert new.held() == [HeldRange(epoch=EPOCHS[1], stream=Stream.EVENTS, first=1, last=1)]
    assert new.counts().dropped == {(Stream.EVENTS, DropReason.OTHER_HUB): 1, (Stream.LOGS, DropReason.OTHER_HUB): 1}
    assert [held.epoch for held in reopen(EPOCHS[2]).held()] == [EPOCHS[1]]


def test_an_outbox_of_a_version_that_noted_no_owner_goes_on_where_it_was(reopen: Open) -> None:
    old = reopen(EPOCHS[0])
    append(old, event("a"), event("b"))
    old.acknowledge(EPOCHS[0], Stream.EVENTS, 1)
    new = reopen(EPOCHS[1])
    assert not new.belongs_to(OLD)
    assert new.held() == [HeldRange(epoch=EPOCHS[0], stream=Stream.EVENTS, first=2, last=2)]


def test_what_is_garbled_keeps_its_place_under_its_new_number(reopen: Open) -> None:
    old = reopen(EPOCHS[0])
    old.belongs_to(OLD)
    append(old, *(event(f"e{number}") for number in range(4)), failed(JOB), failed(JOB_2))
    old.acknowledge(EPOCHS[0], Stream.EVENTS, 1)
    old.acknowledge(EPOCHS[0], Stream.JOBS, 1)
    old._database.execute("UPDATE events SET packed = x'c1' WHERE seq = 3 OR stream = 'jobs'")
    new = reopen(EPOCHS[1])
    new.belongs_to(NEW)
    first, hole, last = read(new, Stream.EVENTS)
    assert (first.seq, last.seq) == (1, 3)
    assert hole.body == Gap(first=2, last=2, count=1, reason="the outbox file was damaged")
    assert [one.seq for one in read(new, Stream.JOBS)] == [1]


def test_a_disk_that_takes_nothing_changes_nothing_and_it_can_be_tried_again(reopen: Open) -> None:
    old = reopen(EPOCHS[0])
    old.belongs_to(OLD)
    append(old, event("a"), event("b"))
    old.acknowledge(EPOCHS[0], Stream.EVENTS, 1)
    new = reopen(EPOCHS[1])
    new._database.execute("PRAGMA query_only=1")
    with pytest.raises(OutboxRefused):
        new.belongs_to(NEW)
    assert new.held() == [HeldRange(epoch=EPOCHS[0], stream=Stream.EVENTS, first=2, last=2)]
    new._database.execute("PRAGMA query_only=0")
    new.belongs_to(NEW)
    assert new.held() == [HeldRange(epoch=EPOCHS[0], stream=Stream.EVENTS, first=1, last=1)]


@settings(max_examples=30)
@given(count=st.integers(1, 60), delivered=st.integers(0, 60), bytes_max=st.integers(2_000, 20_000))
def test_whatever_was_delivered_and_dropped_the_new_numbers_have_no_holes(
    tmp_path_factory: pytest.TempPathFactory, count: int, delivered: int, bytes_max: int
) -> None:
    path = tmp_path_factory.mktemp("outbox") / "outbox.sqlite"
    old = OutboxFile(path, EPOCHS[0], Bounds(bytes_max=bytes_max), CLOCK)
    old.belongs_to(OLD)
    append(old, *(event(f"{number:0400}") for number in range(count)))
    old.acknowledge(EPOCHS[0], Stream.EVENTS, min(delivered, count))
    kept = texts(read(old, Stream.EVENTS))
    old.close()
    new = OutboxFile(path, EPOCHS[1], Bounds(bytes_max=bytes_max), CLOCK)
    new.belongs_to(NEW)
    position = 0
    for told in read(new, Stream.EVENTS):
        assert (told.body.first if isinstance(told.body, Gap) else told.seq) == position + 1
        position = told.seq
    assert position == max(count - delivered, 0)
    assert texts(read(new, Stream.EVENTS)) == kept
    new.close()
