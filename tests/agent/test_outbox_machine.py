"""Appends, acknowledgements, restarts and time in any order."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent.outbox_bounds import Bounds
from agent.outbox_file import OutboxFile
from agent.outbox_rows import stream_of
from tests.agent.samples import JOB
from tests.agent.virtual_time import VirtualClock
from wire.frames import EventBody, Gap, JobStarted, LogRecord, NodeEvent, Readings, Stream
from wire.readings import HostReading

SAMPLE = Readings(host=HostReading(cpu_used_ratio=0.5, memory_used_bytes=1 << 30))


def event(text: str) -> NodeEvent:
    return NodeEvent(kind="test.event", detail=text)


class OutboxMachine(RuleBasedStateMachine):
    """Numbers have no holes, and what is held is all there."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = VirtualClock()
        self.epochs = 0
        self.last: dict[tuple[str, Stream], int] = {}
        self.acked: dict[tuple[str, Stream], int] = {}
        self.open()

    def open(self) -> None:
        self.epochs += 1
        self.epoch = f"01890a5d-ac96-774b-bcce-{self.epochs:012x}"
        self.outbox = OutboxFile(
            Path(self.folder.name) / "outbox.sqlite", self.epoch, Bounds(bytes_max=30_000), self.clock
        )

    @rule(
        bodies=st.lists(
            st.sampled_from(
                [
                    event("e" * 700),
                    SAMPLE,
                    LogRecord(source="s", text="l" * 900),
                    JobStarted(job=JOB, attempt=1, device="host", pid=1),
                ]
            ),
            min_size=1,
            max_size=12,
        )
    )
    def append(self, bodies: list[EventBody]) -> None:
        now = self.clock.unix_ms(), self.clock.monotonic_ns()
        numbers = self.outbox.append([(body, *now) for body in bodies])
        for body, number in zip(bodies, numbers, strict=True):
            key = (self.epoch, stream_of(body))
            assert number == self.last.get(key, 0) + 1
            self.last[key] = number

    @precondition(lambda self: self.last)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.last)))
        seq = data.draw(st.integers(0, self.last[key]))
        self.outbox.acknowledge(*key, seq)
        self.acked[key] = max(seq, self.acked.get(key, 0))

    @rule(hours=st.sampled_from([0.1, 5.0, 25.0]))
    def time_passes(self, hours: float) -> None:
        self.clock.now_s += hours * 3600.0

    @rule()
    def restart(self) -> None:
        self.outbox.close()
        self.open()

    @invariant()
    def everything_not_acknowledged_is_there(self) -> None:
        total = 0
        for (epoch, stream), last in self.last.items():
            position = acked = self.acked.get((epoch, stream), 0)
            for each in self.outbox.read(epoch, stream, 0, 10_000, 1 << 30):
                body = each.body
                first = body.first if isinstance(body, Gap) else each.seq
                assert first <= position + 1 if position == acked else first == position + 1
                assert not (isinstance(body, Gap) and stream is Stream.JOBS)
                position = each.seq
                total += 1
            assert position == last
        assert self.outbox.reading().events_held == total
        assert self.outbox.bytes_held <= 30_000 or all(
            held.stream is Stream.JOBS or held.first == held.last for held in self.outbox.held()
        )

    def teardown(self) -> None:
        self.outbox.close()
        self.folder.cleanup()


OutboxMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
TestOutboxMachine = OutboxMachine.TestCase
