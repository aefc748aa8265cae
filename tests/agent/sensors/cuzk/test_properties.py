"""What holds whatever the daemon says and whatever happens in it."""

import json
from collections import Counter
from typing import Any

import hypothesis.strategies as st
import msgspec
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent.sensors.cuzk.answer import parse
from agent.sensors.cuzk.job import Sure
from agent.sensors.cuzk.mend import Known, Mender
from agent.sensors.cuzk.steady import Moment
from tests.agent.sensors.cuzk.story import DONE, FAILED, RUNNING, Story
from wire.codec import encode
from wire.engines import EngineReading
from wire.frames import Status
from wire.limits import FRAME_BYTES_MAX
from wire.status import NodeStatus

NUMBER = st.one_of(st.integers(-5, 20), st.integers(-(2**70), 2**70))
AGE = st.floats(allow_nan=False, allow_infinity=False)
NAME = st.one_of(st.sampled_from(["a", "b", "porep-c2"]), st.text(max_size=200).filter(lambda s: s < "\ud800" or True))
STATE = st.one_of(st.sampled_from(["pending", "synthesizing", "synth_done", "gpu", "done", "failed"]), NAME)
PARTITION = st.fixed_dictionaries(
    {"index": NUMBER, "state": STATE, "synth_ms": st.none() | NUMBER, "gpu_ms": st.none() | NUMBER}
)
PIPELINE = st.fixed_dictionaries(
    {
        "job_id": NAME,
        "proof_kind": NAME,
        "started_secs_ago": AGE,
        "total_partitions": NUMBER,
        "partitions_done": NUMBER,
        "partitions": st.lists(PARTITION, max_size=5),
    }
)
WORKER = st.fixed_dictionaries(
    {
        "worker_id": NUMBER,
        "gpu_ordinal": NUMBER,
        "state": st.sampled_from(["idle", "proving", "?"]),
        "current_job": st.none() | NAME,
        "current_partition": st.none() | NUMBER,
        "busy_secs": st.none() | AGE,
    }
)
KEY = st.fixed_dictionaries(
    {"circuit_id": NAME, "bytes": NUMBER, "last_used_secs_ago": AGE, "evictable": st.booleans()}
)
KINDS = st.dictionaries(NAME, NUMBER, max_size=5)
ANSWER = st.fixed_dictionaries(
    {
        "uptime_secs": AGE,
        "memory": st.fixed_dictionaries({"total_bytes": NUMBER, "used_bytes": NUMBER}),
        "pipelines": st.lists(PIPELINE, max_size=6),
        "gpu_workers": st.lists(WORKER, max_size=4),
        "allocations": st.fixed_dictionaries({"srs": st.lists(KEY, max_size=3), "pce": st.lists(KEY, max_size=3)}),
        "counters": st.fixed_dictionaries(
            {
                "total_completed": NUMBER,
                "total_failed": NUMBER,
                "completed_by_kind": KINDS,
                "failed_by_kind": KINDS,
            }
        ),
        "buffers": KINDS,
    }
)


def sendable(reading: EngineReading) -> bytes:
    status = NodeStatus(engines=[reading])
    return encode(Status(status_seq=1, full=True, time_ms=1, monotonic_ns=1, status=status))


@given(st.lists(st.tuples(ANSWER, st.floats(0, 1000)), max_size=6))
@settings(max_examples=80, deadline=None)
def test_whatever_is_answered_makes_a_reading_a_frame_can_carry(answers: list[tuple[dict[str, Any], float]]) -> None:
    mender = Mender()
    now_s = 100.0
    for answer, passes_s in answers:
        now_s += passes_s
        reading, outcomes = mender.take(
            parse(json.dumps(answer).encode()), Moment(now_s, 1_800_000_000_000 + int(now_s * 1000))
        )
        assert len(sendable(reading)) < FRAME_BYTES_MAX
        assert all(outcome.partitions >= 0 for outcome in outcomes)
        known = mender.known()
        assert msgspec.json.decode(msgspec.json.encode(known), type=Known | None) == known


def test_the_largest_reading_leaves_room_in_a_frame() -> None:
    big, name = 2**63 - 1, "n" * 128
    pipelines = [
        {
            "job_id": f"{number:03}" + name,
            "proof_kind": name,
            "started_secs_ago": 1.0,
            "total_partitions": 256,
            "partitions_done": 0,
            "partitions": [{"index": i, "state": "done", "synth_ms": big, "gpu_ms": big} for i in range(256)],
        }
        for number in range(100)
    ]
    workers = [
        {"worker_id": n, "gpu_ordinal": 1, "state": "proving", "current_job": name, "busy_secs": 1.0}
        for n in range(256)
    ]
    keys = [
        {"circuit_id": f"{n:03}" + name, "bytes": 2**60 // 512, "last_used_secs_ago": 99.0, "evictable": True}
        for n in range(256)
    ]
    kinds = {f"{n:02}" + name: big for n in range(60)}
    answer = {
        "uptime_secs": 5.0,
        "memory": {"total_bytes": big, "used_bytes": big},
        "pipelines": pipelines,
        "gpu_workers": workers,
        "allocations": {"srs": keys, "pce": keys},
        "counters": {"total_completed": big, "total_failed": big, "completed_by_kind": kinds, "failed_by_kind": kinds},
        "buffers": dict.fromkeys(kinds, 5),
    }
    reading, _ = Mender().take(parse(json.dumps(answer).encode()), Moment(100.0, 1_800_000_000_000))
    assert len(sendable(reading)) < FRAME_BYTES_MAX * 3 // 4


class Life(RuleBasedStateMachine):
    """Jobs in any order, with failures of every kind and restarts of both sides."""

    def __init__(self) -> None:
        super().__init__()
        self.story = Story()
        self.submitted = 0
        self.good: set[str] = set()
        self.bad: set[str] = set()
        self.lost: set[str] = set()

    def open_jobs(self) -> list[str]:
        ended = self.good | self.bad
        return sorted(job for job in self.story.engine.jobs if job not in ended)

    @rule(kind=st.sampled_from(["porep-c2", "snap-update"]), partitions=st.integers(1, 4))
    def submit(self, kind: str, partitions: int) -> None:
        self.submitted += 1
        self.story.engine.submit(f"job-{self.submitted}", kind=kind, partitions=partitions)
        self.story.look()

    @precondition(lambda self: self.open_jobs())
    @rule()
    def works(self) -> None:
        """The oldest job goes one partition further, as the daemon does it."""
        job = self.open_jobs()[0]
        engine = self.story.engine
        pending = [i for i, each in enumerate(engine.jobs[job].partitions) if each.state == "pending"]
        if pending:
            engine.synthesize(job, pending[0])
            self.story.passes(30)
            engine.synthesized(job, pending[0])
            engine.on_gpu(job, pending[0])
            self.story.passes(2)
            engine.gpu_done(job, pending[0])
        else:
            self.story.passes(5)
            engine.complete(job)
            self.good.add(job)
        self.story.passes(1)

    @precondition(lambda self: self.open_jobs())
    @rule(how=st.sampled_from(["partition", "check", "start", "finish"]))
    def fails(self, how: str) -> None:
        job = self.open_jobs()[0]
        engine = self.story.engine
        if how == "partition":
            engine.fail_partition(job, 0)
        elif how == "start":
            engine.fail_gpu_start(job, 0)
        else:
            for index, partition in enumerate(engine.jobs[job].partitions):
                if partition.state != "done":
                    engine.run_partition(job, index)
            self.story.passes(1)
            if how == "check":
                engine.complete(job, good=False)
        self.bad.add(job)
        self.story.passes(1)

    @rule(seconds=st.integers(1, 200))
    def waits(self, seconds: int) -> None:
        self.story.passes(seconds, every_s=2)

    @rule()
    def the_daemon_restarts(self) -> None:
        self.lost |= set(self.open_jobs())
        self.bad |= set(self.open_jobs())
        self.story.passes(1)
        self.story.restart()
        self.story.look()

    @rule()
    def the_agent_restarts(self) -> None:
        self.story.passes(1)
        self.story.agent_restarts()
        self.story.look()

    @invariant()
    def every_end_is_told_once_and_truly(self) -> None:
        told = Counter(self.story.fates())
        for (job, fate), times in told.items():
            if (job, RUNNING) not in told:
                assert times == 1, (job, fate, times)
        for outcome in self.story.told:
            if outcome.fate.value == DONE and outcome.sure is not Sure.SUSPECTED:
                assert outcome.id in self.good, outcome

    @invariant()
    def the_picture_fits_a_frame(self) -> None:
        sendable(self.story.reading)

    @invariant()
    def nothing_ended_runs(self) -> None:
        shown = {job.id: job.state.value for job in self.story.reading.jobs}
        for job in self.lost:
            assert job not in shown

    def teardown(self) -> None:
        """After a long time each failure has been told, and each success."""
        self.story.passes(300, every_s=2)
        guessed = {outcome.id for outcome in self.story.told if outcome.sure is Sure.SUSPECTED}
        told = self.story.fates()
        for job in self.good - guessed:
            assert (job, DONE) in told, job
        for job in self.bad - guessed:
            assert (job, FAILED) in told, job
        assert {job for job, _ in told} >= self.good | self.bad


def test_a_failure_that_was_counted_before_the_agent_started_is_not_told_as_a_success_for_certain() -> None:
    life = Life()
    life.submit(kind="porep-c2", partitions=1)
    life.fails(how="finish")
    life.submit(kind="porep-c2", partitions=1)
    life.fails(how="check")
    life.the_agent_restarts()
    life.waits(seconds=28)
    life.every_end_is_told_once_and_truly()
    life.teardown()


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
