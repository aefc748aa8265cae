"""The hub's side of an open session."""

from typing import Any

import pytest
from msgpack import packb, unpackb

from tests.wire.examples import EPOCH, HUB_FRAMES, JOB, OLDER_EPOCH
from tests.wire.pair import open_pair
from wire.codec import decode_hub, encode, encode_event, encode_events
from wire.errors import LocalProtocolError
from wire.frames import (
    Ack,
    AssignJob,
    Bye,
    CancelJob,
    Event,
    Events,
    Gap,
    JobHeld,
    JobReply,
    JobStopped,
    LeaseRenew,
    LogRecord,
    ReportFull,
    Status,
    Stream,
    StreamHave,
    UnknownBody,
    Unsupported,
)
from wire.limits import (
    EVENT_BYTES_MAX,
    EVENTS_IN_FLIGHT_MAX,
    FRAME_BYTES_MAX,
    HEARTBEAT_S,
    LOST_AFTER_S,
    TEXT_CHARS_MAX,
    TIMER_LATE_S,
)
from wire.reasons import Reason
from wire.session import (
    Ended,
    EventsReceived,
    HubSession,
    JobCancelled,
    PeerUnsupported,
    Renewed,
    Replied,
    StatusReceived,
)
from wire.status import NodeStatus
from wire.streams import PRESSING


def sent(hub: HubSession) -> list[object]:
    return [decode_hub(data) for data in hub.frames_to_send()]


def end_of(inputs: list[Any]) -> Reason:
    assert len(inputs) == 1
    assert isinstance(inputs[0], Ended)
    assert not inputs[0].by_peer
    return Reason(inputs[0].reason)


def status(seq: int, *, full: bool = False, **fields: Any) -> bytes:
    return encode(Status(status_seq=seq, full=full, time_ms=seq, monotonic_ns=seq, status=NodeStatus(**fields)))


def log(seq: int) -> Event:
    return Event(seq=seq, time_ms=1, monotonic_ns=1, body=LogRecord(source="a", text=""))


def logs(*seqs: int, epoch: str = EPOCH) -> bytes:
    return encode(Events(epoch=epoch, stream=Stream.LOGS, events=[log(seq) for seq in seqs]))


def test_an_event_that_fits_its_frame_and_not_the_store_is_the_agents_fault() -> None:
    hub = open_pair().hub
    padding = EVENT_BYTES_MAX - len(encode(Events(epoch=EPOCH, stream=Stream.JOBS, events=[unknown(1, 0)])))
    assert hub.receive(events_of(unknown(1, padding)), 1.0) != []
    (end,) = hub.receive(events_of(unknown(2, EVENT_BYTES_MAX + 100)), 1.0)
    assert isinstance(end, Ended)
    assert end.reason == Reason.FRAME_TOO_LARGE


def unknown(seq: int, size: int) -> Event:
    """An event of a newer version with about so many bytes."""
    halves = [b"x" * (size // 2), b"x" * (size - size // 2)]
    return Event(
        seq=seq, time_ms=1, monotonic_ns=1, body=UnknownBody(kind="new", packed=packb({"k": "new", "x": halves}))
    )


def events_of(event: Event) -> bytes:
    """As a careless agent would pack it, without our own check."""
    body = event.body
    assert isinstance(body, UnknownBody)
    plain = {"s": event.seq, "w": 1, "m": 1, "b": unpackb(body.packed)}
    return packb({"t": "ev", "e": EPOCH, "st": "jobs", "x": [plain]})


# --- status -----------------------------------------------------------------------------------------------------------


def test_changes_are_merged_into_the_picture_and_each_is_acknowledged() -> None:
    hub = open_pair().hub
    hub.receive(status(1, full=True, hostname="a", draining=False), 1.0)
    assert sent(hub) == [Ack(status_seq=1)]
    (item,) = hub.receive(status(2, draining=True), 2.0)
    assert isinstance(item, StatusReceived)
    assert (item.status_seq, item.full, item.time_ms, item.monotonic_ns) == (2, False, 2, 2)
    assert (item.told, item.changes) == ({"dr": True}, None)
    assert item.tells("draining", "jobs")
    assert not item.tells("gpus")
    assert item.status == NodeStatus(hostname="a", draining=True)
    assert sent(hub) == [Ack(status_seq=2)]
    assert hub.frames_to_send() == []


def test_a_full_status_takes_the_place_of_the_picture() -> None:
    hub = open_pair().hub
    hub.receive(status(1, full=True, hostname="a"), 1.0)
    (item,) = hub.receive(status(2, full=True, draining=True), 1.0)
    assert isinstance(item, StatusReceived)
    assert item.status == NodeStatus(draining=True)


def test_after_a_hole_changes_are_held_back_until_a_full_status() -> None:
    hub = open_pair().hub
    hub.receive(status(1, full=True, hostname="a"), 1.0)
    assert hub.receive(status(3, draining=True), 1.0) == []
    assert hub.receive(status(4, draining=False), 1.0) == []
    assert sent(hub) == [ReportFull(detail="status 3 does not follow a known one"), Ack(status_seq=4)]
    assert hub.receive(status(5), 1.0) == []
    assert sent(hub) == [Ack(status_seq=5)]
    (item,) = hub.receive(status(7, full=True, hostname="b"), 1.0)
    assert isinstance(item, StatusReceived)
    assert item.status == NodeStatus(hostname="b")
    assert len(hub.receive(status(8), 1.0)) == 1
    assert hub.receive(status(10), 1.0) == []
    assert ReportFull(detail="status 10 does not follow a known one") in sent(hub)


def test_a_session_that_begins_with_a_change_is_asked_for_a_full_status() -> None:
    hub = open_pair().hub
    assert hub.receive(status(1, draining=True), 1.0) == []
    assert isinstance(sent(hub)[0], ReportFull)


@pytest.mark.parametrize("seq", [1, 2])
def test_a_repeated_status_is_a_replay(seq: int) -> None:
    hub = open_pair().hub
    hub.receive(status(1, full=True), 1.0)
    hub.receive(status(2), 1.0)
    assert end_of(hub.receive(status(seq), 1.0)) == Reason.REPLAYED


def test_the_shell_may_ask_for_a_full_status_too() -> None:
    hub = open_pair().hub
    hub.want_full("first")
    hub.want_full("second")
    assert sent(hub) == [ReportFull(detail="second")]


# --- events -----------------------------------------------------------------------------------------------------------


def test_events_are_acknowledged_once_stored_and_together() -> None:
    hub = open_pair().hub
    assert hub.receive(logs(1, 2), 1.0) == [EventsReceived(EPOCH, Stream.LOGS, [log(1), log(2)], len(logs(1, 2)))]
    assert hub.frames_to_send() == []
    hub.receive(logs(3), 1.0)
    hub.receive(status(1, full=True), 1.0)
    hub.acknowledge(EPOCH, Stream.LOGS, 2)
    hub.acknowledge(EPOCH, Stream.LOGS, 3)
    hub.acknowledge(EPOCH, Stream.LOGS, 1)
    have = StreamHave(epoch=EPOCH, stream=Stream.LOGS, seq=3)
    assert sent(hub) == [Ack(streams=[have], status_seq=1)]
    assert hub.frames_to_send() == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (logs(1, 2), Reason.REPLAYED),
        (logs(2), Reason.REPLAYED),
        (logs(4), Reason.OUT_OF_ORDER),
        (logs(3, 5), Reason.OUT_OF_ORDER),
        (logs(1, epoch=OLDER_EPOCH), Reason.OUT_OF_ORDER),
        (logs(3)[:-1], Reason.MALFORMED_FRAME),
        (bytes(FRAME_BYTES_MAX + 1), Reason.FRAME_TOO_LARGE),
    ],
    ids=["replayed", "repeated", "hole", "hole inside", "epoch unknown", "cut", "oversized"],
)
def test_events_that_do_not_fit_end_the_session_and_touch_nothing(data: bytes, reason: Reason) -> None:
    hub = open_pair().hub
    hub.receive(logs(1, 2), 1.0)
    assert end_of(hub.receive(data, 1.0)) == reason
    (farewell,) = sent(hub)
    assert isinstance(farewell, Bye)
    assert farewell.code == reason
    assert hub.receive(logs(3), 1.0) == []


def test_a_gap_in_the_stream_of_jobs_ends_the_session() -> None:
    hub = open_pair().hub
    gap = Event(seq=3, time_ms=1, monotonic_ns=1, body=Gap(first=1, last=3, count=3, reason="full"))
    data = encode_events(EPOCH, Stream.JOBS, [encode_event(gap)])
    assert end_of(hub.receive(data, 1.0)) == Reason.MALFORMED_FRAME


def test_a_gap_elsewhere_covers_its_range() -> None:
    hub = open_pair().hub
    gap = Event(seq=3, time_ms=1, monotonic_ns=1, body=Gap(first=1, last=3, count=3, reason="full"))
    data = encode(Events(epoch=EPOCH, stream=Stream.LOGS, events=[gap, log(4)]))
    assert hub.receive(data, 1.0) == [EventsReceived(EPOCH, Stream.LOGS, [gap, log(4)], len(data))]


def test_an_acknowledgement_presses_when_much_of_the_window_is_in_flight() -> None:
    hub = open_pair().hub
    few, many = EVENTS_IN_FLIGHT_MAX // PRESSING - 1, EVENTS_IN_FLIGHT_MAX // PRESSING
    hub.receive(logs(*range(1, few + 1)), 1.0)
    assert not hub.acknowledge(EPOCH, Stream.LOGS, few)
    hub.receive(logs(*range(few + 1, few + many + 1)), 1.0)
    assert hub.acknowledge(EPOCH, Stream.LOGS, few + 1)
    assert hub.acknowledge(EPOCH, Stream.LOGS, few + many)
    assert not hub.acknowledge(EPOCH, Stream.LOGS, few + many), "nothing is in flight"


def test_only_what_came_can_be_acknowledged() -> None:
    hub = open_pair().hub
    hub.receive(logs(1), 1.0)
    with pytest.raises(LocalProtocolError, match="only 1 came"):
        hub.acknowledge(EPOCH, Stream.LOGS, 2)
    with pytest.raises(LocalProtocolError, match="not of this session"):
        hub.acknowledge(OLDER_EPOCH, Stream.LOGS, 1)


# --- commands, timers, the end ----------------------------------------------------------------------------------------


def test_commands_go_out_and_answers_come_in() -> None:
    hub = open_pair().hub
    assign, cancel = HUB_FRAMES["assign"], HUB_FRAMES["cancel"]
    assert isinstance(assign, AssignJob)
    assert isinstance(cancel, CancelJob)
    hub.assign(assign)
    hub.cancel(cancel)
    assert sent(hub) == [assign, cancel]
    reply = JobReply(job=JOB, attempt=1, accepted=True)
    assert hub.receive(encode(reply), 1.0) == [Replied(reply)]
    held = [JobHeld(job=JOB, attempt=1)]
    assert hub.receive(encode(LeaseRenew(jobs=held)), 1.0) == [Renewed(held)]
    assert hub.receive(encode(Unsupported(tag="x")), 1.0) == [PeerUnsupported("x")]


def test_an_agent_that_says_nothing_is_given_up() -> None:
    hub = open_pair().hub
    assert hub.next_deadline() == LOST_AFTER_S
    hub.receive(status(1, full=True), 7.0)
    assert hub.next_deadline() == 7.0 + LOST_AFTER_S
    assert hub.on_deadline(6.0 + LOST_AFTER_S) == []
    assert end_of(list(hub.on_deadline(7.0 + LOST_AFTER_S))) == Reason.SILENT_PEER


def test_a_hub_that_was_asleep_itself_does_not_blame_the_agent() -> None:
    hub = open_pair().hub
    late = LOST_AFTER_S + TIMER_LATE_S + 1.0
    assert hub.on_deadline(late) == []
    assert hub.next_deadline() == late + HEARTBEAT_S
    assert end_of(list(hub.on_deadline(late + HEARTBEAT_S))) == Reason.SILENT_PEER


def test_a_hub_that_stops_says_so_after_its_last_acknowledgements() -> None:
    hub = open_pair().hub
    hub.receive(logs(1), 1.0)
    hub.acknowledge(EPOCH, Stream.LOGS, 1)
    hub.say_bye(Reason.HUB_STOPPING, "restart", 3.0)
    frames = sent(hub)
    assert isinstance(frames[0], Ack)
    assert frames[1:] == [Bye(code=1, detail="restart", wait_s=3.0)]


def test_the_agents_goodbye_ends_it_without_an_answer() -> None:
    hub = open_pair().hub
    hub.receive(status(1, full=True), 1.0)
    assert hub.receive(encode(Bye(code=0, detail="stopping")), 1.0) == [
        Ended(Reason.GOODBYE, "stopping", 0.0, by_peer=True)
    ]
    assert hub.frames_to_send() == []


def test_a_job_event_passes_through_whole() -> None:
    pair = open_pair()
    stopped = Event(seq=1, time_ms=1, monotonic_ns=1, body=JobStopped(job=JOB, attempt=1))
    pair.agent.send_events(EPOCH, Stream.JOBS, [stopped])
    (item,) = pair.to_hub()
    assert isinstance(item, EventsReceived)
    assert (item.epoch, item.stream, item.events) == (EPOCH, Stream.JOBS, [stopped])


def test_once_open_frames_of_256_kib_are_taken_both_ways() -> None:
    pair = open_pair()
    text = "x" * TEXT_CHARS_MAX
    events = [Event(seq=seq, time_ms=1, monotonic_ns=1, body=LogRecord(source="a", text=text)) for seq in range(1, 23)]
    pair.agent.send_events(EPOCH, Stream.LOGS, events)
    (item,) = pair.to_hub()
    assert isinstance(item, EventsReceived)
    assert item.events == events
    cancel = CancelJob(job=JOB, attempt=1, detail=text)
    pair.hub.cancel(cancel)
    assert pair.to_agent() == [JobCancelled(cancel)]
