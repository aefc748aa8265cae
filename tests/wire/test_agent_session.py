"""The agent's side of an open session."""

import pytest

from tests.wire.examples import EPOCH, FULL_STATUS, HUB_FRAMES, JOB, OLDER_EPOCH
from tests.wire.pair import SessionPair, hello_with, open_pair
from wire.codec import decode_agent, encode
from wire.errors import LocalProtocolError
from wire.frames import (
    Ack,
    AssignJob,
    Bye,
    CancelJob,
    Event,
    Events,
    HeldRange,
    JobHeld,
    JobReply,
    JobStopped,
    LeaseRenew,
    LogRecord,
    NodeEvent,
    ReportFull,
    Status,
    Stream,
    StreamHave,
    Unsupported,
)
from wire.limits import (
    CONTROL_FRAMES_QUEUED_MAX,
    FRAME_BYTES_UNAUTHENTICATED_MAX,
    HEARTBEAT_S,
    HEARTBEATS_UNHEARD_MAX,
    TIMER_LATE_S,
)
from wire.reasons import Reason
from wire.session import (
    Acknowledged,
    AgentSession,
    Ended,
    FullStatusWanted,
    Heard,
    HeartbeatDue,
    JobAssigned,
    JobCancelled,
    PeerUnsupported,
)
from wire.status import NodeStatus


def sent(agent: AgentSession) -> list[object]:
    return [decode_agent(data) for data in agent.frames_to_send()]


def statuses(agent: AgentSession) -> list[Status]:
    frames = sent(agent)
    assert all(isinstance(frame, Status) for frame in frames)
    return [frame for frame in frames if isinstance(frame, Status)]


# --- status -----------------------------------------------------------------------------------------------------------


def test_the_first_status_is_full_and_the_next_say_what_changed() -> None:
    agent = open_pair().agent
    agent.send_status(FULL_STATUS, 1.0, 10, 20)
    assert statuses(agent) == [Status(status_seq=1, full=True, time_ms=10, monotonic_ns=20, status=FULL_STATUS)]
    agent.send_status(FULL_STATUS, 2.0, 11, 21)
    agent_beat = statuses(agent)
    assert agent_beat == [Status(status_seq=2, full=False, time_ms=11, monotonic_ns=21, status=NodeStatus())]
    agent.send_status(NodeStatus(draining=False), 3.0, 12, 22)
    assert [frame.status for frame in statuses(agent)] == [NodeStatus(draining=False)]


def test_a_status_that_was_not_yet_sent_is_replaced() -> None:
    pair = open_pair()
    for hostname in ("a", "b", "c"):
        pair.agent.send_status(NodeStatus(hostname=hostname), 1.0, 1, 1)
    (frame,) = statuses(pair.agent)
    assert (frame.status_seq, frame.full, frame.status) == (1, True, NodeStatus(hostname="c"))
    pair.agent.send_status(NodeStatus(hostname="d"), 1.0, 1, 1)
    pair.agent.send_status(NodeStatus(hostname="c"), 1.0, 1, 1)
    (frame,) = statuses(pair.agent)
    assert (frame.status_seq, frame.full, frame.status) == (2, False, NodeStatus())


def test_a_full_status_is_sent_when_the_hub_asks() -> None:
    pair = open_pair()
    pair.agent.send_status(FULL_STATUS, 1.0, 1, 1)
    pair.agent.frames_to_send()
    pair.agent.send_status(FULL_STATUS, 1.5, 1, 1)
    assert pair.agent.receive(encode(ReportFull(detail="why")), 2.0) == [FullStatusWanted("why")]
    (draft,) = statuses(pair.agent)
    assert not draft.full
    pair.agent.send_status(NodeStatus(draining=False), 2.0, 1, 1)
    (frame,) = statuses(pair.agent)
    assert frame.full
    assert frame.status == NodeStatus(draining=False).merged_into(FULL_STATUS)
    pair.agent.send_status(FULL_STATUS, 2.0, 1, 1)
    assert not statuses(pair.agent)[0].full


def test_a_status_out_of_its_ranges_is_the_callers_fault() -> None:
    agent = open_pair().agent
    with pytest.raises(LocalProtocolError, match="hn"):
        agent.send_status(NodeStatus(hostname=""), 1.0, 1, 1)
    assert agent.frames_to_send() == []


# --- timers -----------------------------------------------------------------------------------------------------------


def test_a_heartbeat_is_due_at_once_and_then_when_nothing_was_sent() -> None:
    agent = open_pair().agent
    assert agent.next_deadline() == 0.0
    assert agent.on_deadline(0.0) == [HeartbeatDue()]
    agent.send_status(NodeStatus(), 1.0, 1, 1)
    assert agent.next_deadline() == 1.0 + HEARTBEAT_S
    assert agent.on_deadline(HEARTBEAT_S) == []
    assert agent.on_deadline(1.0 + HEARTBEAT_S) == [HeartbeatDue()]
    assert agent.on_deadline(1.0 + HEARTBEAT_S) == []


def test_a_hub_that_acknowledges_nothing_for_3_heartbeats_is_given_up() -> None:
    agent = open_pair().agent
    limit_s = HEARTBEATS_UNHEARD_MAX * HEARTBEAT_S
    agent.send_status(NodeStatus(), 5.0, 1, 1)
    agent.frames_to_send()
    assert agent.receive(encode(Ack(status_seq=1)), 5.0) == [Heard(1)]
    agent.receive(encode(ReportFull()), 20.0)  # talk that acknowledges nothing
    assert not any(isinstance(item, Ended) for item in agent.on_deadline(5.0 + limit_s - 0.1))
    (end,) = agent.on_deadline(5.0 + limit_s)
    assert isinstance(end, Ended)
    assert (end.reason, end.by_peer) == (Reason.SILENT_PEER, False)
    assert isinstance(sent(agent)[-1], Bye)
    assert agent.next_deadline() is None


def test_an_agent_that_was_asleep_itself_gives_the_hub_one_more_heartbeat() -> None:
    agent = open_pair().agent
    late = HEARTBEATS_UNHEARD_MAX * HEARTBEAT_S + TIMER_LATE_S + 1.0
    assert agent.on_deadline(late) == [HeartbeatDue()]
    assert agent.is_open
    assert any(isinstance(item, Ended) for item in agent.on_deadline(late + HEARTBEAT_S + TIMER_LATE_S + 1.0))


# --- events -----------------------------------------------------------------------------------------------------------


def job(seq: int) -> Event:
    return Event(seq=seq, time_ms=1, monotonic_ns=1, body=JobStopped(job=JOB, attempt=1))


def note(seq: int) -> Event:
    return Event(seq=seq, time_ms=1, monotonic_ns=1, body=NodeEvent(kind="a", detail=""))


def log(seq: int) -> Event:
    return Event(seq=seq, time_ms=1, monotonic_ns=1, body=LogRecord(source="a", text=""))


def held(epoch: str, stream: Stream, first: int, last: int) -> HeldRange:
    return HeldRange(epoch=epoch, stream=stream, first=first, last=last)


def test_replay_goes_by_stream_and_in_each_by_age() -> None:
    hello = hello_with(held=[held(OLDER_EPOCH, Stream.LOGS, 1, 2), held(OLDER_EPOCH, Stream.JOBS, 1, 1)])
    agent = open_pair(hello).agent
    assert [(want.stream, want.epoch) for want in agent.wants_events()] == [
        (Stream.JOBS, OLDER_EPOCH),
        (Stream.JOBS, EPOCH),
        (Stream.EVENTS, EPOCH),
        (Stream.READINGS, EPOCH),
        (Stream.LOGS, OLDER_EPOCH),
        (Stream.LOGS, EPOCH),
    ]


def test_replies_and_the_status_go_before_events_and_these_by_stream() -> None:
    agent = open_pair().agent
    agent.send_events(EPOCH, Stream.LOGS, [log(1)])
    agent.send_events(EPOCH, Stream.EVENTS, [note(1)])
    agent.send_events(EPOCH, Stream.JOBS, [job(1)])
    agent.send_status(NodeStatus(), 1.0, 1, 1)
    agent.renew([JobHeld(job=JOB, attempt=1)])
    agent.send_reply(JobReply(job=JOB, attempt=1, accepted=True))
    agent.say_bye(Reason.GOODBYE, "stopping")
    assert sent(agent) == [
        LeaseRenew(jobs=[JobHeld(job=JOB, attempt=1)]),
        JobReply(job=JOB, attempt=1, accepted=True),
        Status(status_seq=1, full=True, time_ms=1, monotonic_ns=1, status=NodeStatus()),
        Events(epoch=EPOCH, stream=Stream.JOBS, events=[job(1)]),
        Events(epoch=EPOCH, stream=Stream.EVENTS, events=[note(1)]),
        Events(epoch=EPOCH, stream=Stream.LOGS, events=[log(1)]),
        Bye(code=0, detail="stopping"),
    ]
    assert agent.frames_to_send() == []


def test_events_of_a_stream_not_in_the_hello_are_the_callers_fault() -> None:
    with pytest.raises(LocalProtocolError, match="hello"):
        open_pair().agent.send_events(OLDER_EPOCH, Stream.JOBS, [job(1)])


def have(seq: int, epoch: str = EPOCH) -> StreamHave:
    return StreamHave(epoch=epoch, stream=Stream.JOBS, seq=seq)


def test_an_ack_is_news_once() -> None:
    agent = open_pair().agent
    agent.send_events(EPOCH, Stream.JOBS, [job(1), job(2)])
    agent.frames_to_send()
    assert agent.receive(encode(Ack(streams=[have(1)])), 1.0) == [Heard(0), Acknowledged(EPOCH, Stream.JOBS, 1)]
    assert agent.receive(encode(Ack(streams=[have(1)])), 1.0) == [Heard(0)]
    assert agent.receive(encode(Ack(streams=[have(2)])), 1.0) == [Heard(0), Acknowledged(EPOCH, Stream.JOBS, 2)]


@pytest.mark.parametrize("ack", [Ack(streams=[have(3)]), Ack(streams=[have(1, OLDER_EPOCH)]), Ack(status_seq=1)])
def test_an_ack_of_what_was_never_sent_ends_the_session(ack: Ack) -> None:
    agent = open_pair().agent
    agent.send_events(EPOCH, Stream.JOBS, [job(1), job(2)])
    (end,) = agent.receive(encode(ack), 1.0)
    assert isinstance(end, Ended)
    assert end.reason == Reason.OUT_OF_ORDER


# --- commands and the end ---------------------------------------------------------------------------------------------


def test_commands_are_handed_on_as_often_as_they_come() -> None:
    agent = open_pair().agent
    assign, cancel = HUB_FRAMES["assign"], HUB_FRAMES["cancel"]
    assert isinstance(assign, AssignJob)
    assert isinstance(cancel, CancelJob)
    for _ in range(2):
        assert agent.receive(encode(assign), 1.0) == [JobAssigned(assign)]
        assert agent.receive(encode(cancel), 1.0) == [JobCancelled(cancel)]
    assert agent.receive(encode(Unsupported(tag="x")), 1.0) == [PeerUnsupported("x")]


def test_after_the_hubs_goodbye_nothing_more_is_sent() -> None:
    agent = open_pair().agent
    agent.send_status(NodeStatus(), 1.0, 1, 1)
    agent.send_events(EPOCH, Stream.JOBS, [job(1)])
    assert agent.receive(encode(Bye(code=1, detail="stopping", wait_s=2.5)), 1.0) == [
        Ended(Reason.HUB_STOPPING, "stopping", 2.5, by_peer=True)
    ]
    assert agent.frames_to_send() == []


def test_a_shell_that_never_sends_cannot_fill_the_memory() -> None:
    agent = open_pair().agent
    for _ in range(CONTROL_FRAMES_QUEUED_MAX):
        agent.renew([])
    with pytest.raises(LocalProtocolError, match="queued"):
        agent.renew([])
    assert len(agent.frames_to_send()) == CONTROL_FRAMES_QUEUED_MAX
    agent.renew([])


@pytest.mark.parametrize("text", ["x" * 100_000, "\U0001f600" * 5_000, "\udc80" * 5_000], ids=["x", "wide", "wrong"])
def test_a_goodbye_of_any_length_is_cut_to_fit(text: str) -> None:
    """Also before authentication, when 4 KiB are all."""
    for pair in (open_pair(), SessionPair()):
        pair.agent.say_bye(Reason.INTERNAL, text)
        pair.hub.say_bye(Reason.INTERNAL, text)
        frames = [*pair.agent.frames_to_send(), *pair.hub.frames_to_send()]
        assert all(len(data) <= FRAME_BYTES_UNAUTHENTICATED_MAX for data in frames)
        assert all(text[:9] in str(decode_agent(frames[0])) for _ in range(text[0] != "\udc80"))
