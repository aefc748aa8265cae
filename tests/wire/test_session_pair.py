"""Whatever is lost, repeated, cut or killed: every event is stored once, in order, and gaps say what was dropped.

A model of the agent (a durable outbox, an epoch per run) and of the hub (a durable store, a generation per run) talk
through real sessions over a link that hypothesis tortures. What a kill keeps is what the models call durable.
"""

import itertools
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.wire.examples import JOB
from tests.wire.pair import AGENT_KEY, agent_session, hello_with, hub_session, welcome_for
from wire.events import streams_of
from wire.frames import Event, EventBody, Gap, HeldRange, JobStopped, LogRecord, NodeEvent, Readings, Stream
from wire.limits import HELD_RANGES_MAX
from wire.readings import HostReading
from wire.reasons import Reason
from wire.session import (
    Acknowledged,
    AgentSession,
    Ended,
    EventsReceived,
    FullStatusWanted,
    HeartbeatDue,
    HelloReceived,
    HubSession,
    Opened,
    StatusReceived,
    Want,
)
from wire.status import NodeStatus

Key = tuple[str, Stream]
SEEN: Counter[str] = Counter()
"""What the machine went through, over all examples: the test demands that nothing is missing."""


def body_of(stream: Stream, number: int) -> EventBody:
    match stream:
        case Stream.JOBS:
            return JobStopped(job=JOB, attempt=1 + number)
        case Stream.EVENTS:
            return NodeEvent(kind="a", detail=str(number))
        case Stream.READINGS:
            return Readings(host=HostReading(cpu_count=number))
        case Stream.LOGS:
            return LogRecord(source="a", text=str(number))


def first_seq(event: Event) -> int:
    return event.body.first if isinstance(event.body, Gap) else event.seq


@dataclass
class Agent:
    """A node: what is above the line survives a kill."""

    rows: dict[Key, list[Event]] = field(default_factory=lambda: defaultdict(list))
    acknowledged: dict[Key, int] = field(default_factory=lambda: defaultdict(int))
    written: dict[Key, dict[int, Event]] = field(default_factory=lambda: defaultdict(dict))
    """All that ever happened, by number: the truth the store is checked against."""
    dropped: dict[Key, set[int]] = field(default_factory=lambda: defaultdict(set))
    generation_seen: int = 0
    runs: int = 0
    # ------------------------------------------------------------------------
    session: AgentSession | None = None

    @property
    def epoch(self) -> str:
        return f"0197b2a4-0000-7000-8000-{self.runs:012x}"

    def append(self, stream: Stream) -> None:
        key = (self.epoch, stream)
        seq = len(self.written[key]) + 1
        event = Event(seq=seq, time_ms=seq, monotonic_ns=seq, body=body_of(stream, seq))
        self.written[key][seq] = event
        self.rows[key].append(event)

    def drop(self, key: Key, start: int, count: int) -> None:
        """Drop a run of rows for one gap; rows that were gaps already are merged into it."""
        rows = self.rows[key]
        victims = rows[start : start + count]
        first, last = first_seq(victims[0]), victims[-1].seq
        gap = Gap(first=first, last=last, count=last - first + 1, reason="full")
        rows[start : start + count] = [Event(seq=last, time_ms=1, monotonic_ns=1, body=gap)]
        self.dropped[key] |= set(range(first, last + 1))

    def forget(self, key: Key, seq: int) -> None:
        self.acknowledged[key] = max(self.acknowledged[key], seq)
        self.rows[key] = [event for event in self.rows[key] if event.seq > seq]

    def held(self) -> list[HeldRange]:
        ranges = [
            HeldRange(epoch=epoch, stream=stream, first=self.acknowledged[epoch, stream] + 1, last=rows[-1].seq)
            for (epoch, stream), rows in sorted(self.rows.items())
            if rows
        ]
        return ranges[:HELD_RANGES_MAX]

    def read(self, want: Want, limit: int) -> list[Event]:
        rows = self.rows[want.epoch, want.stream]
        return [event for event in rows if event.seq > want.after_seq][: min(limit, want.count_max)]


@dataclass
class Hub:
    """The service: its store and generation survive a kill, what waits for its disk does not."""

    store: dict[Key, list[Event]] = field(default_factory=lambda: defaultdict(list))
    generation: int = 1
    # ------------------------------------------------------------------------
    session: HubSession | None = None
    waiting: deque[tuple[HubSession, EventsReceived]] = field(default_factory=deque)

    def stored_seq(self, key: Key) -> int:
        return self.store[key][-1].seq if self.store[key] else 0

    def commit(self) -> None:
        """One batch reaches the disk; only then, and only in its own session, is it acknowledged."""
        session, batch = self.waiting.popleft()
        key = (batch.epoch, batch.stream)
        for event in batch.events:
            assert first_seq(event) == self.stored_seq(key) + 1, "stored twice, or out of order"
            self.store[key].append(event)
        session.acknowledge(batch.epoch, batch.stream, batch.events[-1].seq)

    def give_up_waiting(self) -> None:
        self.waiting.clear()


class SessionPairMachine(RuleBasedStateMachine):
    """Everything that may happen to the two, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.agent = Agent()
        self.hub = Hub()
        self.to_hub: deque[bytes] = deque()
        self.to_agent: deque[bytes] = deque()
        self.now = 0.0
        self.nonces = itertools.count(1)
        self.pictures: dict[int, NodeStatus] = {}
        self.picture = NodeStatus(hostname="h0", draining=False)

    # --- what the agent does ------------------------------------------------------------------------------------------

    @rule(
        streams=st.lists(st.sampled_from(Stream), max_size=6),
        limit=st.integers(1, 3),
        rounds=st.integers(0, 4),
        steps=st.sampled_from([0, 1, 2, 3, 3, 3, 3, 3]),
        echo=st.integers(0, 7).map(lambda number: number == 7),
    )
    def work(self, streams: list[Stream], limit: int, rounds: int, steps: int, *, echo: bool) -> None:
        """Things happen on the node; the uplink dials when it has no connection, and sends when it has."""
        for stream in streams:
            self.agent.append(stream)
        if self.agent.session is None:
            self.connect(steps, echo=echo)
        self.push(limit, rounds)

    @rule(pick=st.integers(0, 50), start=st.integers(0, 6), count=st.integers(1, 5))
    def drop(self, pick: int, start: int, count: int) -> None:
        keys = [key for key, rows in sorted(self.agent.rows.items()) if rows and key[1] is not Stream.JOBS]
        if keys:
            key = keys[pick % len(keys)]
            self.agent.drop(key, start % len(self.agent.rows[key]), count)
            SEEN["drop"] += 1

    def push(self, limit: int, rounds: int) -> None:
        """The uplink: the first want that has anything, again and again."""
        session = self.agent.session
        for _ in range(rounds if session is not None and session.is_open else 0):
            assert session is not None
            for want in session.wants_events():
                events = self.agent.read(want, limit)
                if not events:
                    continue
                SEEN["gap cut"] += first_seq(events[0]) <= want.after_seq
                SEEN["older epoch replayed"] += want.epoch != self.agent.epoch
                session.send_events(want.epoch, want.stream, events)
                break
        self.flush()

    @rule(hostnames=st.lists(st.integers(0, 3), min_size=1, max_size=4), draining=st.booleans())
    def change(self, hostnames: list[int], *, draining: bool) -> None:
        for hostname in hostnames:
            self.picture = NodeStatus(hostname=f"h{hostname}", draining=draining)
            self.send_status()
            self.flush()

    def send_status(self) -> None:
        session = self.agent.session
        if session is not None and session.is_open:
            session.send_status(self.picture, self.now, 1, 1)
            self.pictures[session._status_seq + 1] = self.picture

    # --- the link -----------------------------------------------------------------------------------------------------

    def connect(self, steps: int, *, echo: bool = False) -> None:
        """Dial, and go some steps of the handshake; with an echo the link says every frame of it twice."""
        agent, nonce = self.agent, next(self.nonces).to_bytes(32, "big")
        hello = hello_with(epoch=agent.epoch, held=agent.held(), nonce=nonce)
        agent.session = agent_session(hello, generation_seen=agent.generation_seen, now=self.now)
        self.hub.session = hub_session(nonce=nonce[::-1], now=self.now)
        self.pictures.clear()
        self.flush()
        for _ in range(steps):
            self.to_agent += list(self.to_agent) if echo else []
            self.deliver_to_agent(1)
            self.to_hub += list(self.to_hub) if echo else []
            self.deliver_to_hub(9)
            self.deliver_to_agent(0 if echo else 9)

    def flush(self) -> None:
        """Each side puts on the link what it has to send."""
        if self.agent.session is not None:
            self.to_hub += self.agent.session.frames_to_send()
        if self.hub.session is not None:
            self.to_agent += self.hub.session.frames_to_send()

    @precondition(lambda self: self.to_hub or self.to_agent)
    @rule(
        towards_hub=st.booleans(),
        count=st.integers(1, 4),
        trouble=st.sampled_from([None, None, "duplicated", "swapped", "lost", "truncated"]),
        place=st.integers(0, 5),
        keep=st.floats(0, 0.99),
    )
    def deliver(self, *, towards_hub: bool, count: int, trouble: str | None, place: int, keep: float) -> None:
        link = self.to_hub if towards_hub else self.to_agent
        if trouble is not None and len(link) > (trouble == "swapped"):
            self.mangle(link, trouble, place % len(link), keep)
        if towards_hub:
            self.deliver_to_hub(count)
        else:
            self.deliver_to_agent(count)

    def deliver_to_hub(self, count: int) -> None:
        for _ in range(min(count, len(self.to_hub))):
            self.hub_hears(self.to_hub.popleft())
        self.settle_ends()

    def deliver_to_agent(self, count: int) -> None:
        for _ in range(min(count, len(self.to_agent))):
            self.agent_hears(self.to_agent.popleft())
        self.settle_ends()

    def mangle(self, link: deque[bytes], trouble: str, at: int, keep: float) -> None:
        """What no WebSocket does, but a faulty or hostile peer could: the session may end, the store stays true."""
        SEEN[trouble] += 1
        match trouble:
            case "duplicated":
                link.insert(at, link[at])
            case "swapped":
                link[at - 1], link[at] = link[at], link[at - 1]
            case "lost":
                del link[at]
            case _:
                link[at] = link[at][: int(len(link[at]) * keep)]

    def settle_ends(self) -> None:
        """A side that ended closes the socket once its last frames are on the way; what it sent may still arrive."""
        self.flush()
        agent, hub = self.agent.session, self.hub.session
        hub_is_done = hub is not None and hub.has_ended and not self.to_agent
        agent_is_done = agent is not None and agent.has_ended and not self.to_hub
        if hub_is_done or agent_is_done:
            self.cut()

    def cut(self) -> None:
        """The connection breaks; whatever is under way is lost."""
        SEEN["cut with frames under way"] += bool(self.to_hub or self.to_agent)
        SEEN["cut in the handshake"] += self.agent.session is not None and not self.agent.session.is_open
        self.agent.session = self.hub.session = None
        self.to_hub.clear()
        self.to_agent.clear()

    # --- what the two make of it --------------------------------------------------------------------------------------

    def agent_hears(self, data: bytes) -> None:
        session = self.agent.session
        if session is not None:
            self.agent_acts(session.receive(data, self.now))

    def agent_acts(self, inputs: list[Any]) -> None:
        for item in inputs:
            match item:
                case Opened(welcome):
                    assert welcome.generation >= self.agent.generation_seen
                    self.agent.generation_seen = welcome.generation
                    self.send_status()
                    SEEN["opened"] += 1
                case Acknowledged(epoch, stream, seq):
                    assert seq <= self.hub.stored_seq((epoch, stream)), "acknowledged before it was stored"
                    self.agent.forget((epoch, stream), seq)
                    SEEN["acknowledged"] += 1
                case FullStatusWanted() | HeartbeatDue():
                    SEEN[type(item).__name__] += 1
                    self.send_status()
                case Ended(reason, _, _, by_peer):
                    assert by_peer or reason not in {Reason.GENERATION_WENT_BACK, Reason.WRONG_HUB_KEY}
                    SEEN[f"agent ended {Reason(reason).name}"] += not by_peer
        self.flush()

    def hub_hears(self, data: bytes) -> None:
        session = self.hub.session
        if session is not None:
            self.hub_acts(session, session.receive(data, self.now))

    def hub_acts(self, session: HubSession, inputs: list[Any]) -> None:
        for item in inputs:
            match item:
                case HelloReceived(hello):
                    # A newer session of the agent: what its earlier ones left waiting is written or given up first.
                    self.hub.give_up_waiting()
                    if session.authenticate(AGENT_KEY):
                        keys = [(entry.epoch, entry.stream) for entry in hello.held]
                        keys += [(hello.epoch, stream) for stream in streams_of(session.minor)]
                        have = {key: self.hub.stored_seq(key) for key in keys}
                        session.welcome(welcome_for(hello, have, generation=self.hub.generation))
                case EventsReceived():
                    self.hub.waiting.append((session, item))
                case StatusReceived(status_seq=status_seq):
                    assert item.status == self.pictures[status_seq]
                    SEEN["status"] += 1
                case Ended(reason, _, _, by_peer):
                    SEEN[f"hub ended {Reason(reason).name}"] += not by_peer
        self.flush()

    @rule(count=st.integers(1, 3))
    def commit(self, count: int) -> None:
        for _ in range(min(count, len(self.hub.waiting))):
            SEEN["committed after the session"] += self.hub.waiting[0][0] is not self.hub.session
            self.hub.commit()
        self.flush()

    @rule(seconds=st.sampled_from([0.5, 0.5, 0.5, 5.0, 11.0, 31.0, 46.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        agent, hub = self.agent.session, self.hub.session
        if agent is not None:
            self.agent_acts(list(agent.on_deadline(self.now)))
            deadline = agent.next_deadline()
            assert deadline is None or deadline > self.now, "a timer that spins"
        if hub is not None:
            self.hub_acts(hub, list(hub.on_deadline(self.now)))
            deadline = hub.next_deadline()
            assert deadline is None or deadline > self.now, "a timer that spins"
        self.settle_ends()

    @precondition(lambda self: self.agent.session is not None)
    @rule(kind=st.sampled_from(["cut", "kill the agent", "kill the hub", "stop the hub"]))
    def interrupt(self, kind: str) -> None:
        """One side is killed, or says goodbye, or the wire breaks, between any two steps."""
        match kind:
            case "cut":
                self.cut()
            case "kill the agent":
                SEEN["agent killed in session"] += self.agent.session is not None and self.agent.session.is_open
                self.cut()
                self.agent.runs += 1
            case "kill the hub":
                SEEN["hub killed with events not yet stored"] += bool(self.hub.waiting)
                self.cut()
                self.hub.waiting.clear()
                self.hub.generation += 1
            case _ if self.hub.session is not None:
                self.hub.session.say_bye(Reason.HUB_STOPPING, "stopping", 1.0)
                self.settle_ends()

    # --- what always holds --------------------------------------------------------------------------------------------

    @invariant()
    def the_store_is_a_true_prefix(self) -> None:
        for key, stored in self.hub.store.items():
            position = 0
            for event in stored:
                assert first_seq(event) == position + 1
                position = event.seq
                if isinstance(event.body, Gap):
                    covered = set(range(event.body.first, event.body.last + 1))
                    assert key[1] is not Stream.JOBS
                    assert event.body.count == len(covered)
                    assert covered <= self.agent.dropped[key], "a gap over what was never dropped"
                else:
                    assert event == self.agent.written[key][event.seq]

    @invariant()
    def nothing_is_forgotten_that_is_not_stored(self) -> None:
        for key, written in self.agent.written.items():
            rows = self.agent.rows[key]
            safe = {seq for event in rows for seq in range(first_seq(event), event.seq + 1)}
            assert set(range(self.hub.stored_seq(key) + 1, len(written) + 1)) <= safe

    def teardown(self) -> None:
        """Peace: one undisturbed session after another until the outbox is empty, then the account."""
        self.cut()
        self.hub.give_up_waiting()
        for _ in range(2 + len(self.agent.rows) // 8):
            self.cut()
            self.connect(3)
            assert self.agent.session is not None
            assert self.agent.session.is_open
            self.quiesce()
        self.cut()
        self.the_store_is_a_true_prefix()
        for key, written in self.agent.written.items():
            assert self.agent.rows[key] == []
            assert self.hub.stored_seq(key) == len(written), "lost at the end of a stream"
        SEEN["examples"] += 1

    def quiesce(self) -> None:
        before = None
        while before != (state := self.progress()):
            before = state
            self.push(3, 5)
            self.deliver_to_hub(99)
            self.commit(99)
            self.deliver_to_agent(99)

    def progress(self) -> tuple[int, int]:
        return sum(map(len, self.agent.rows.values())), sum(map(len, self.hub.store.values()))


EVERYTHING = {
    "opened",
    "acknowledged",
    "drop",
    "gap cut",
    "older epoch replayed",
    "cut with frames under way",
    "cut in the handshake",
    "duplicated",
    "swapped",
    "lost",
    "truncated",
    "status",
    "FullStatusWanted",
    "HeartbeatDue",
    "committed after the session",
    "agent killed in session",
    "hub killed with events not yet stored",
    "hub ended REPLAYED",
    "hub ended OUT_OF_ORDER",
    "hub ended MALFORMED_FRAME",
    "hub ended UNEXPECTED_FRAME",
    "hub ended HANDSHAKE_TIMEOUT",
    "hub ended SILENT_PEER",
    "agent ended MALFORMED_FRAME",
    "agent ended UNEXPECTED_FRAME",
    "agent ended HANDSHAKE_TIMEOUT",
    "agent ended SILENT_PEER",
}


def torture(machine: type[SessionPairMachine], examples: int, steps: int, *, derandomize: bool) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=derandomize,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink] if machine is SessionPairMachine else [Phase.generate],
        ),
    )


def test_every_event_is_stored_exactly_once_whatever_happens() -> None:
    """Examples are added until everything has happened that is meant to; the first round is enough for most of it."""
    SEEN.clear()
    missing = EVERYTHING
    for examples in (450, 900):
        torture(SessionPairMachine, examples, 80, derandomize=True)
        assert SEEN["examples"] >= examples
        missing = {name for name in EVERYTHING if not SEEN[name]}
        if not missing:
            return
    pytest.fail(f"never happened: {missing}; {dict(SEEN)}")


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_same_for_long_and_at_random() -> None:
    torture(SessionPairMachine, 3_000, 120, derandomize=False)


def test_a_model_that_acknowledges_too_early_is_caught() -> None:
    """The machine can fail: a hub that acknowledges what it has not stored does not pass."""

    class Hasty(SessionPairMachine):
        def hub_acts(self, session: HubSession, inputs: list[Any]) -> None:
            super().hub_acts(session, inputs)
            for item in inputs:
                if isinstance(item, EventsReceived):
                    session.acknowledge(item.epoch, item.stream, item.events[-1].seq)
            self.flush()

    with pytest.raises(AssertionError):
        torture(Hasty, 500, 60, derandomize=True)
