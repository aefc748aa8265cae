"""The picture: one test for each thing the daemon is known to say wrong of what is now."""

import itertools

import msgspec
import pytest

from agent.sensors.cuzk.mend import ANSWERED_EVERY_S, FAILED_SHOWN_S, IDLE_SHOWN_S, SRS_UNSEEN_MAX_S
from tests.agent.sensors.cuzk.fake_engine import GIB, WRAPPED, FakeKey
from tests.agent.sensors.cuzk.story import Story
from wire.engines import EngineJobState, EngineState, PartitionState
from wire.limits import ENGINE_JOBS_MAX

PERIOD_S = ANSWERED_EVERY_S - 1


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_quiet_daemon(story: Story) -> None:
    reading = story.reading
    assert (reading.engine, reading.state, reading.source, reading.detail) == ("cuzk", EngineState.OK, "http", "")
    assert (reading.answered_at_ms or 0) - (reading.started_at_ms or 0) == 1_000_000
    assert (reading.memory_total_bytes, reading.memory_used_bytes) == (251 * GIB, 0)
    assert (reading.queued, reading.completed, reading.failed, reading.jobs) == (0, 0, 0, ())
    assert [(worker.id, worker.gpu_ordinal, worker.proving) for worker in reading.workers] == [
        (0, 0, False),
        (1, 0, False),
    ]


def test_a_job_under_way_with_each_state_of_a_partition(story: Story) -> None:
    engine = story.engine
    engine.submit("a", partitions=5)
    began_ms = story.look().jobs[0].started_at_ms
    engine.run_partition("a", 0)
    engine.synthesize("a", 1)
    engine.synthesized("a", 1)
    engine.on_gpu("a", 1, worker=1)
    engine.synthesize("a", 2)
    engine.synthesized("a", 2)
    engine.synthesize("a", 3)
    story.passes(3)
    job = story.job("a")
    assert (job.state, job.kind, job.started_at_ms) == (EngineJobState.RUNNING, "porep-c2", began_ms)
    assert (job.partitions_total, job.partitions_done) == (5, 1)
    assert [(each.state, each.synthesis_ms, each.gpu_ms) for each in job.partitions] == [
        (PartitionState.DONE, 30_000, 1_400),
        (PartitionState.GPU, 30_001, None),
        (PartitionState.SYNTHESIZED, 30_002, None),
        (PartitionState.SYNTHESIZING, None, None),
        (PartitionState.PENDING, None, None),
    ]
    worker = story.reading.workers[1]
    assert (worker.proving, worker.job, worker.partition) == (True, "a", 1)
    assert worker.since_ms == began_ms


def test_the_queue_is_the_pending_partitions_of_all_jobs(story: Story) -> None:
    story.engine.submit("a", partitions=10)
    story.engine.submit("b", partitions=16, kind="snap-update")
    story.engine.run_partition("a", 0)
    assert story.look().queued == 9 + 16
    assert story.engine.status()["counters"]["queue_depth"] == 0


def test_partitions_of_a_failed_job_are_no_queue(story: Story) -> None:
    story.engine.submit("a", partitions=10)
    story.engine.fail_partition("a", 0)
    assert story.look().queued == 0


def test_active_syntheses_are_those_that_run(story: Story) -> None:
    story.engine.submit("a")
    story.engine.synthesize("a", 0)
    story.engine.fail_synthesis("a", 0)
    story.engine.submit("b")
    story.engine.synthesize("b", 0)
    assert story.engine.status()["synthesis"]["active"] == 2
    assert story.look().synthesis_active == 1


def test_the_most_syntheses_at_once_are_not_given(story: Story) -> None:
    assert story.reading.synthesis_max is None
    assert "synthesis_cap" in story.reading.limits


def test_jobs_that_are_never_listed_are_a_limit(story: Story) -> None:
    story.engine.run_unlisted()
    assert "post_jobs" in story.look().limits


def test_a_worker_that_stays_proving_on_a_failed_job_is_idle(story: Story) -> None:
    story.engine.submit("a")
    story.engine.fail_partition("a", 0)
    story.engine.pass_over("a", 1)
    assert story.engine.status()["gpu_workers"][0]["state"] == "proving"
    assert not story.look().workers[0].proving


def test_a_worker_that_stays_proving_on_a_job_that_is_gone_is_idle(story: Story) -> None:
    story.engine.pass_over("gone", 0)
    assert not story.look().workers[0].proving


def test_a_worker_that_stays_proving_on_a_partition_that_is_done_is_idle(story: Story) -> None:
    story.engine.submit("a")
    story.engine.run_partition("a", 0)
    story.engine.pass_over("a", 0)
    assert not story.look().workers[0].proving


def test_a_counter_of_buffers_that_wraps_is_left_out_from_then_on(story: Story) -> None:
    assert story.reading.in_flight["synth_in_flight"] == 0
    story.engine.run_unlisted()
    assert story.engine.status()["buffers"]["synth_in_flight"] == WRAPPED
    assert "synth_in_flight" not in story.look().in_flight
    story.engine.submit("a")
    story.engine.synthesize("a", 0)
    assert story.engine.status()["buffers"]["synth_in_flight"] == 0  # and one is in flight
    assert "synth_in_flight" not in story.look().in_flight


def test_a_restart_of_the_daemon_makes_the_wrapped_counter_good_again(story: Story) -> None:
    story.engine.run_unlisted()
    story.look()
    story.passes(1)
    story.restart()
    assert story.look().in_flight["synth_in_flight"] == 0


def test_counters_that_only_rise_are_left_out(story: Story) -> None:
    story.engine.submit("a")
    story.engine.run("a")
    assert story.engine.status()["buffers"]["aux_in_flight"] == 4
    assert set(story.look().in_flight) == {"synth_in_flight", "provers_in_flight", "pending_handles"}


def test_a_counter_beyond_what_can_be_is_none(story: Story) -> None:
    counters = {
        "total_completed": WRAPPED,
        "total_failed": -1,
        "completed_by_kind": {"porep-c2": WRAPPED, "snap-update": 3},
        "failed_by_kind": {"porep-c2": -2},
    }
    reading = story.look(counters=counters)
    assert (reading.completed, reading.failed) == (None, None)
    assert (reading.completed_by_kind, reading.failed_by_kind) == ({"snap-update": 3}, {})


def test_counters_start_anew_with_the_daemon(story: Story) -> None:
    story.engine.submit("a")
    story.engine.fail_partition("a", 0)
    assert (story.look().failed, story.reading.failed_by_kind) == (1, {"porep-c2": 1})
    before_ms = story.reading.started_at_ms
    story.passes(1)
    story.restart()
    reading = story.look()
    assert (reading.failed, reading.failed_by_kind, reading.jobs) == (0, {}, ())
    assert (reading.started_at_ms or 0) > (before_ms or 0)


def test_memory_in_use_is_never_more_than_all_of_it(story: Story) -> None:
    reading = story.look(memory={"total_bytes": GIB, "used_bytes": GIB + 5, "available_bytes": 0})
    assert (reading.memory_total_bytes, reading.memory_used_bytes) == (GIB, GIB)


def test_memory_is_given_in_whole_mebibytes(story: Story) -> None:
    one = story.look(memory={"total_bytes": GIB, "used_bytes": 5_000_000, "available_bytes": 0})
    assert one.memory_used_bytes == 4 << 20


def test_memory_that_wraps_is_none(story: Story) -> None:
    reading = story.look(memory={"total_bytes": GIB, "used_bytes": WRAPPED, "available_bytes": 0})
    assert reading.memory_used_bytes is None


# --- keys -----------------------------------------------------------------------------------------------------------


def test_srs_are_kept_while_one_loads_and_the_list_is_empty(story: Story) -> None:
    story.engine.srs["porep-32g"] = FakeKey(44 * GIB, story.now_s, in_use=True)
    story.look()
    story.engine.srs_loading = True
    reading = story.passes(60)
    assert [(key.id, key.kind, key.bytes_) for key in reading.keys] == [("porep-32g", "srs", 44 * GIB)]
    assert "srs_list" in reading.limits
    story.engine.srs_loading = False
    story.engine.srs["snap-32g"] = FakeKey(33 * GIB, story.now_s, in_use=True)
    assert [key.id for key in story.look().keys] == ["porep-32g", "snap-32g"]
    assert "srs_list" not in story.reading.limits


def test_srs_that_are_evicted_go_when_the_budget_says_so(story: Story) -> None:
    story.engine.srs["porep-32g"] = FakeKey(44 * GIB, story.now_s)
    story.look()
    story.engine.srs.clear()
    assert story.look().keys == ()
    assert "srs_list" not in story.reading.limits


def test_srs_are_not_kept_for_ever(story: Story) -> None:
    story.engine.srs["porep-32g"] = FakeKey(44 * GIB, story.now_s)
    story.look()
    story.engine.srs_loading = True
    assert story.passes(SRS_UNSEEN_MAX_S + 1, every_s=10).keys == ()


def test_a_pce_in_use_is_kept_though_only_idle_ones_are_listed(story: Story) -> None:
    story.engine.pce["porep-32g"] = FakeKey(26 * GIB, story.now_s)
    assert story.look().keys[0].evictable
    story.engine.pce["porep-32g"].in_use = True
    (key,) = story.passes(5).keys
    assert (key.id, key.kind, key.evictable) == ("porep-32g", "pce", False)
    story.engine.pce["porep-32g"] = FakeKey(26 * GIB, story.now_s)
    assert story.look().keys[0].evictable


def test_a_pce_that_goes_after_a_long_idle_time_is_evicted(story: Story) -> None:
    story.engine.pce["porep-32g"] = FakeKey(26 * GIB, story.now_s)
    story.engine.srs["porep-32g"] = FakeKey(44 * GIB, story.now_s, in_use=True)
    story.passes(301, every_s=10)
    story.engine.pce.clear()
    assert [key.kind for key in story.look().keys] == ["srs"]


def test_the_last_use_of_a_key_is_a_moment_once_it_is_idle(story: Story) -> None:
    story.engine.srs["porep-32g"] = FakeKey(44 * GIB, story.now_s)
    used_ms = story.reading.answered_at_ms
    assert story.look().keys[0].last_used_at_ms is None
    assert story.passes(IDLE_SHOWN_S + 1).keys[0].last_used_at_ms == used_ms
    assert story.passes(30).keys[0].last_used_at_ms == used_ms


# --- steadiness -----------------------------------------------------------------------------------------------------


def test_an_answer_in_which_nothing_happened_is_the_same_reading_to_the_byte(story: Story) -> None:
    engine = story.engine
    engine.srs["porep-32g"] = FakeKey(44 * GIB, story.now_s - 100)
    engine.submit("a")
    engine.submit("b", kind="snap-update", partitions=16)
    engine.run_partition("a", 0)
    engine.synthesize("a", 1)
    engine.synthesized("a", 1)
    engine.on_gpu("a", 1)
    engine.synthesize("a", 2)
    story.passes(ANSWERED_EVERY_S + 1)
    first = story.reading
    for second in range(int(PERIOD_S)):
        # An answer's way takes longer or shorter: ages jitter.
        story.now_s += 1.0 + (0.4 if second % 2 else -0.4)
        assert story.look() is first or msgspec.json.encode(story.reading) == msgspec.json.encode(first)


def test_the_time_of_the_last_answer_moves_in_steps(story: Story) -> None:
    seen = sorted({story.passes(1).answered_at_ms or 0 for _ in range(60)})
    assert {later - earlier for earlier, later in itertools.pairwise(seen)} == {ANSWERED_EVERY_S * 1000}


def test_a_clock_that_is_set_moves_no_beginning(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    story.engine.submit("a")
    first = story.look()
    monkeypatch.setattr("tests.agent.sensors.cuzk.story.WALL_MS", 1_800_003_600_000)
    reading = story.passes(20)
    assert reading.started_at_ms == first.started_at_ms
    assert story.job("a").started_at_ms == first.jobs[0].started_at_ms


def test_the_order_of_the_daemon_s_lists_does_not_matter(story: Story) -> None:
    for name in ("b", "a", "c"):
        story.engine.submit(name)
        story.passes(1)
    assert [job.id for job in story.reading.jobs] == ["b", "a", "c"]
    pipelines = story.engine.status()["pipelines"]
    one = story.look(pipelines=pipelines)
    assert story.look(pipelines=pipelines[::-1]) == one


# --- bounds ---------------------------------------------------------------------------------------------------------


def test_more_jobs_than_a_frame_carries_are_counted(story: Story) -> None:
    for number in range(ENGINE_JOBS_MAX + 5):
        story.engine.submit(f"job-{number:03}", partitions=10)
        story.now_s += 0.01
    reading = story.look()
    assert (len(reading.jobs), reading.jobs_left_out) == (ENGINE_JOBS_MAX, 5)
    assert reading.jobs[0].id == "job-000"
    assert reading.queued == (ENGINE_JOBS_MAX + 5) * 10


def test_running_jobs_come_before_those_that_ended(story: Story) -> None:
    for number in range(ENGINE_JOBS_MAX):
        story.engine.submit(f"old-{number}")
        story.engine.fail_partition(f"old-{number}", 0)
    story.engine.submit("running")
    assert story.look().jobs[0].id == "running"
    assert story.reading.jobs_left_out == 1


def test_a_failed_job_is_shown_for_a_while_and_not_for_ever(story: Story) -> None:
    story.engine.submit("a")
    story.engine.fail_partition("a", 2)
    story.look()
    assert story.job("a").partitions[2].state is PartitionState.FAILED
    assert story.passes(FAILED_SHOWN_S + 1, every_s=10).jobs == ()
    assert len(story.engine.status()["pipelines"]) == 1
    assert story.reading.failed == 1


def test_names_of_any_length_and_kind_are_cut_to_what_a_frame_carries(story: Story) -> None:
    story.engine.submit("x" * 5000, kind="")
    job = story.look().jobs[0]
    assert len(job.id) == 128
    assert job.kind == "(none)"


def test_a_state_of_a_newer_daemon_is_unknown(story: Story) -> None:
    story.engine.submit("a")
    story.engine.jobs["a"].partitions[0].state = "teleporting"
    story.look()
    assert story.job("a").partitions[0].state is PartitionState.UNKNOWN
