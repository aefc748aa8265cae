"""Positions and windows: contiguity, gaps, and what may be in flight."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.examples import EPOCH, JOB
from tests.wire.strategies import patiently
from wire.codec import decode_agent, encode_event
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.frames import Event, Events, Gap, JobSucceeded, LogRecord, Stream
from wire.jobs import Output
from wire.limits import (
    EVENTS_BYTES_PER_FRAME,
    EVENTS_IN_FLIGHT_BYTES_MAX,
    EVENTS_IN_FLIGHT_MAX,
    EVENTS_PER_FRAME_MAX,
    FRAME_BYTES_MAX,
)
from wire.reasons import Reason
from wire.streams import ReceivedStream, SentStream, Want, Window


def log(seq: int, text: str = "") -> Event:
    return Event(seq=seq, time_ms=1, monotonic_ns=1, body=LogRecord(source="a", text=text))


def gap(first: int, last: int) -> Event:
    body = Gap(first=first, last=last, count=last - first + 1, reason="full")
    return Event(seq=last, time_ms=1, monotonic_ns=1, body=body)


def proof(seq: int) -> Event:
    """As large as an event can be, nearly."""
    output = Output(role="proof", sha256="0" * 64, bytes_=1, data=bytes(64 * 1024))
    return Event(
        seq=seq, time_ms=1, monotonic_ns=1, body=JobSucceeded(job=JOB, attempt=1, outputs=[output, output, output])
    )


def sent(stored: int = 0, last: int | None = None, stream: Stream = Stream.LOGS) -> SentStream:
    return SentStream(EPOCH, stream, stored_seq=stored, last_seq=last)


def received(stored: int = 0, stream: Stream = Stream.LOGS) -> ReceivedStream:
    return ReceivedStream(stream, stored_seq=stored)


def events_of(data: bytes) -> list[Event]:
    frame = decode_agent(data)
    assert isinstance(frame, Events)
    return frame.events


# --- sending ----------------------------------------------------------------------------------------------------------


def test_a_range_is_wanted_to_its_end_and_a_running_stream_for_ever() -> None:
    older, running = sent(4, last=6), sent(4)
    assert older.want() == Want(EPOCH, Stream.LOGS, 4, EVENTS_PER_FRAME_MAX, EVENTS_BYTES_PER_FRAME)
    older.take([log(5), log(6)])
    running.take([log(5), log(6)])
    assert older.want() is None
    want = running.want()
    assert want is not None
    assert want.after_seq == 6


def test_events_must_follow() -> None:
    cursor = sent(4)
    for events in ([log(6)], [log(4)], [log(5), log(7)], [log(5), log(5)], [gap(6, 8)], [gap(2, 4)]):
        with pytest.raises(LocalProtocolError, match="does not follow"):
            cursor.take(events)
    assert cursor.sent_seq == 4
    assert cursor.take([]) == []


def test_a_gap_is_cut_to_what_the_hub_does_not_have() -> None:
    cursor = sent(4)
    (frame,) = cursor.take([gap(2, 9), log(10)])
    assert events_of(frame) == [gap(5, 9), log(10)]
    assert cursor.sent_seq == 10


def test_events_are_split_into_frames_of_a_bounded_size() -> None:
    cursor = sent(stream=Stream.JOBS)
    frames = cursor.take([proof(1), proof(2), proof(3)])
    assert [[event.seq for event in events_of(frame)] for frame in frames] == [[1], [2], [3]]
    assert all(len(frame) <= FRAME_BYTES_MAX for frame in frames)
    cursor = sent()
    frames = cursor.take([log(seq) for seq in range(1, EVENTS_PER_FRAME_MAX + 2)])
    assert [len(events_of(frame)) for frame in frames] == [EVENTS_PER_FRAME_MAX, 1]


def test_what_is_in_flight_is_bounded_in_number() -> None:
    cursor, other = sent(), received()
    while (want := cursor.want()) is not None:
        events = [log(want.after_seq + 1 + n) for n in range(want.count_max)]
        for frame in cursor.take(events):
            other.take(events_of(frame), len(frame))
    assert cursor.sent_seq == other.received_seq == EVENTS_IN_FLIGHT_MAX
    with pytest.raises(LocalProtocolError, match="window"):
        cursor.take([log(EVENTS_IN_FLIGHT_MAX + 1)])
    with pytest.raises(RemoteProtocolError) as caught:
        other.take([log(EVENTS_IN_FLIGHT_MAX + 1)], 10)
    assert caught.value.reason == Reason.QUOTA
    assert cursor.acknowledge(EVENTS_PER_FRAME_MAX)
    assert cursor.want() is not None


def test_what_is_in_flight_is_bounded_in_bytes() -> None:
    cursor, other = sent(stream=Stream.JOBS), received(stream=Stream.JOBS)
    sent_bytes = 0
    while (want := cursor.want()) is not None:
        for frame in cursor.take([proof(want.after_seq + 1)]):
            other.take(events_of(frame), len(frame))
            sent_bytes += len(frame)
    assert EVENTS_IN_FLIGHT_BYTES_MAX - 2 * FRAME_BYTES_MAX < sent_bytes <= EVENTS_IN_FLIGHT_BYTES_MAX
    while sent_bytes + FRAME_BYTES_MAX <= EVENTS_IN_FLIGHT_BYTES_MAX:
        other.take([proof(other.received_seq + 1)], FRAME_BYTES_MAX)
        sent_bytes += FRAME_BYTES_MAX
    with pytest.raises(RemoteProtocolError) as caught:
        other.take([proof(other.received_seq + 1)], FRAME_BYTES_MAX)
    assert caught.value.reason == Reason.QUOTA


def test_a_window_always_has_room_for_what_it_asked() -> None:
    """The first event may be larger than ``bytes_max``, the rest fill it: two frames at most."""
    cursor = sent(stream=Stream.JOBS)
    while (want := cursor.want()) is not None:
        small = Event(
            seq=want.after_seq + 2, time_ms=1, monotonic_ns=1, body=JobSucceeded(job=JOB, attempt=1, outputs=[])
        )
        cursor.take([proof(want.after_seq + 1), small])


def test_acknowledgements_are_cumulative_and_never_ahead() -> None:
    cursor = sent(4)
    cursor.take([log(5), log(6)])
    assert cursor.acknowledge(5)
    assert not cursor.acknowledge(5)
    assert not cursor.acknowledge(3)
    with pytest.raises(RemoteProtocolError, match="only 6 sent") as caught:
        cursor.acknowledge(7)
    assert caught.value.reason == Reason.OUT_OF_ORDER
    assert cursor.acknowledged_seq == 5


# --- receiving --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([log(4)], Reason.REPLAYED),
        ([log(1)], Reason.REPLAYED),
        ([log(5), log(5)], Reason.REPLAYED),
        ([log(6), log(5)], Reason.OUT_OF_ORDER),
        ([log(6)], Reason.OUT_OF_ORDER),
        ([log(5), log(7)], Reason.OUT_OF_ORDER),
        ([gap(4, 8)], Reason.OUT_OF_ORDER),
        ([gap(6, 8)], Reason.OUT_OF_ORDER),
        ([gap(1, 4)], Reason.REPLAYED),
        ([gap(5, 8), log(10)], Reason.OUT_OF_ORDER),
    ],
)
def test_holes_and_repetitions_are_told_apart_and_take_nothing(events: list[Event], reason: Reason) -> None:
    cursor = received(4)
    with pytest.raises(RemoteProtocolError) as caught:
        cursor.take(events, 10)
    assert caught.value.reason == reason
    assert cursor.received_seq == 4
    cursor.take([log(5), gap(6, 9), log(10)], 10)
    assert cursor.received_seq == 10


def test_only_what_was_received_can_be_stored() -> None:
    cursor = received(4)
    cursor.take([log(5)], 10)
    with pytest.raises(LocalProtocolError, match="only 5 came"):
        cursor.acknowledge(6)
    assert cursor.acknowledge(5)
    assert not cursor.acknowledge(5)


def test_a_frame_acknowledged_in_part_still_counts() -> None:
    window = Window()
    window.add(3, 3, 30)
    window.add(5, 2, 20)
    window.settle(2)
    assert (window.count, window.size_bytes) == (5, 50)
    window.settle(4)
    assert (window.count, window.size_bytes) == (2, 20)
    window.settle(5)
    assert (window.count, window.size_bytes) == (0, 0)


# --- both -------------------------------------------------------------------------------------------------------------


@patiently(80)
@given(st.data())
def test_an_agent_that_keeps_to_its_window_never_meets_the_hubs_limit(data: st.DataObject) -> None:
    """Whatever the sizes, and however late and coarse the acknowledgements are."""
    cursor, other = sent(stream=Stream.JOBS), received(stream=Stream.JOBS)
    in_flight: list[bytes] = []
    acknowledgements: list[int] = []
    for _ in range(data.draw(st.integers(1, 25))):
        want = cursor.want()
        if want is not None:
            count = data.draw(st.sampled_from([1, 2, want.count_max]))
            kind = proof if data.draw(st.booleans()) else _small
            in_flight += cursor.take(_cut([kind(want.after_seq + 1 + n) for n in range(count)], want.bytes_max))
        for frame in in_flight[: data.draw(st.integers(0, 3))]:
            other.take(events_of(frame), len(frame))
            in_flight.pop(0)
        if data.draw(st.booleans()):
            seq = data.draw(st.integers(other.acknowledged_seq, other.received_seq))
            if other.acknowledge(seq):
                acknowledgements.append(seq)
        if data.draw(st.booleans()) and acknowledgements:
            cursor.acknowledge(acknowledgements.pop(0))
    assert cursor.sent_seq >= other.received_seq >= other.acknowledged_seq >= cursor.acknowledged_seq


def _small(seq: int) -> Event:
    return Event(seq=seq, time_ms=1, monotonic_ns=1, body=JobSucceeded(job=JOB, attempt=1, outputs=[]))


def _cut(events: list[Event], bytes_max: int) -> list[Event]:
    """As an outbox reads: up to ``bytes_max``, and one event at least."""
    taken: list[Event] = []
    size_bytes = 0
    for event in events:
        size_bytes += len(encode_event(event))
        if taken and size_bytes > bytes_max:
            break
        taken.append(event)
    return taken
