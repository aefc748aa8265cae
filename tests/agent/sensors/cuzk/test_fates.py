"""What became of jobs: one test for each way in which the daemon keeps it to itself."""

import pytest

from agent.sensors.cuzk.fates import ORPHAN_S, OVERTAKEN_S, STALLED_S, WHOLE_S
from agent.sensors.cuzk.job import Sure
from tests.agent.sensors.cuzk.story import DONE, FAILED, RUNNING, Story
from wire.engines import PartitionState


@pytest.fixture
def story() -> Story:
    made = Story()
    made.engine.submit("a")
    made.look()
    return made


# --- done -----------------------------------------------------------------------------------------------------------


def test_a_job_is_done_when_the_daemon_counts_it(story: Story) -> None:
    story.passes(40)
    story.engine.run("a")
    story.passes(3)
    assert story.fates() == []  # not yet assembled
    story.engine.complete("a")
    story.passes(1)
    (done,) = story.told
    assert (done.id, done.fate.value, done.sure, done.partitions, done.kind) == ("a", DONE, Sure.CERTAIN, 4, "porep-c2")
    assert done.elapsed_s == pytest.approx(41)
    assert (story.reading.completed, story.reading.failed) == (1, 0)


def test_a_job_is_told_once_though_it_stays_listed(story: Story) -> None:
    story.engine.run("a")
    story.engine.complete("a")
    story.passes(60)
    assert story.fates() == [("a", DONE)]
    assert story.reading.jobs == ()


def test_a_whole_job_that_goes_without_being_counted_is_done(story: Story) -> None:
    story.engine.run("a")
    story.passes(1)
    del story.engine.jobs["a"]
    story.passes(1)
    assert story.fates() == [("a", DONE)]


def test_a_job_that_ends_while_the_daemon_cannot_be_read_is_done_by_its_count(story: Story) -> None:
    story.engine.run("a")
    story.engine.complete("a")
    story.now_s += 60
    story.look()
    (done,) = story.told
    assert (done.fate.value, done.sure) == (DONE, Sure.LIKELY)


def test_finished_jobs_that_nobody_polled_away_are_no_news(story: Story) -> None:
    """They are listed until the first poll, however long ago they ended."""
    story.engine.run("a")
    story.engine.complete("a")
    fresh = Story()
    fresh.engine = story.engine
    fresh.engine.now_s = lambda: fresh.now_s
    fresh.now_s = story.now_s + 29
    fresh.look()
    fresh.passes(10)
    assert fresh.fates() == [("a", DONE)]
    assert fresh.told[0].elapsed_s is None


def test_two_jobs_of_different_kinds_are_counted_apart(story: Story) -> None:
    story.engine.submit("s", kind="snap-update", partitions=16)
    story.engine.run("a")
    story.engine.run("s")
    story.look()
    story.engine.complete("s")
    story.passes(1)
    assert story.fates() == [("s", DONE)]


# --- failures the daemon counts -------------------------------------------------------------------------------------


def test_a_failed_self_check_is_told_and_counted_once(story: Story) -> None:
    story.engine.run("a")
    story.passes(2)
    story.engine.complete("a", good=False)
    story.passes(40)
    (failed,) = story.told
    assert (failed.fate.value, failed.sure) == (FAILED, Sure.CERTAIN)
    assert "own check" in failed.why
    assert (story.reading.failed, story.reading.failed_by_kind) == (1, {"porep-c2": 1})


def test_a_count_is_not_given_to_a_job_that_failed_unsaid(story: Story) -> None:
    """Both look finished; one is counted. Which one, only the list tells, 30 s later."""
    story.engine.run("a")
    story.engine.fail_gpu_finish("a", 3)
    story.passes(5)
    story.engine.submit("b")
    story.engine.run("b")
    story.passes(1)
    story.engine.complete("b")
    story.passes(5)
    assert story.fates() == []
    story.passes(30)
    assert story.fates() == [("b", DONE)]
    story.passes(WHOLE_S)
    assert story.fates() == [("b", DONE), ("a", FAILED)]


def test_a_failed_check_is_not_given_to_a_job_that_failed_unsaid(story: Story) -> None:
    story.engine.run("a")
    story.passes(5)
    story.engine.submit("b")
    story.engine.run("b")
    story.passes(1)
    story.engine.complete("b", good=False)
    story.passes(40)
    assert story.fates() == [("b", FAILED)]
    assert story.told[0].sure is Sure.CERTAIN
    story.passes(WHOLE_S)
    assert (story.fates()[1], story.told[1].sure) == (("a", FAILED), Sure.LIKELY)
    assert story.reading.failed == 2


def test_a_good_and_a_bad_end_in_one_answer_are_told_as_a_guess(story: Story) -> None:
    story.engine.submit("b")
    story.engine.run("a")
    story.look()
    story.engine.run("b")
    story.passes(1)
    story.engine.complete("a")
    story.engine.complete("b", good=False)
    story.passes(1)
    assert sorted(fate for _, fate in story.fates()) == [DONE, FAILED]
    assert {each.sure for each in story.told} == {Sure.SUSPECTED}


# --- failures it does not count -------------------------------------------------------------------------------------


def test_a_partition_that_says_failed_ends_its_job(story: Story) -> None:
    story.engine.fail_partition("a", 2)
    story.look()
    (failed,) = story.told
    assert (failed.fate.value, failed.sure, failed.culprit) == (FAILED, Sure.CERTAIN, 2)
    story.passes(1000, every_s=10)
    assert story.fates() == [("a", FAILED)]
    assert (story.reading.failed, story.reading.failed_by_kind) == (1, {"porep-c2": 1})


def test_a_failed_gpu_start_leaves_its_partition_on_the_gpu(story: Story) -> None:
    for index in range(4):
        story.engine.synthesize("a", index)
        story.engine.synthesized("a", index)
    story.engine.on_gpu("a", 1)
    story.passes(30)
    assert story.fates() == []
    story.engine.fail_gpu_start("a", 1)
    story.passes(ORPHAN_S - 1)
    assert story.fates() == []
    story.passes(2)
    (failed,) = story.told
    assert (failed.fate.value, failed.sure, failed.culprit) == (FAILED, Sure.LIKELY, 1)
    assert story.job("a").partitions[1].state is PartitionState.FAILED


def test_a_partition_that_a_worker_has_is_not_stuck(story: Story) -> None:
    story.engine.on_gpu("a", 0)
    story.passes(ORPHAN_S * 3)
    assert story.fates() == []


def test_a_failed_gpu_finish_is_shown_done_and_its_job_never_ends(story: Story) -> None:
    story.engine.run("a")
    story.engine.fail_gpu_finish("a", 3)
    story.passes(WHOLE_S - 1)
    assert story.fates() == []
    story.passes(2)
    (failed,) = story.told
    assert (failed.fate.value, failed.sure) == (FAILED, Sure.LIKELY)
    assert "shown done" in failed.why
    assert story.reading.failed == 1


def test_a_failed_synthesis_is_known_by_younger_jobs_that_pass_by(story: Story) -> None:
    story.engine.synthesize("a", 0)
    story.passes(20)
    story.engine.fail_synthesis("a", 0)
    story.look()
    seconds = 0
    for number in range(12):
        story.engine.submit(f"young-{number}")
        story.passes(10)
        story.engine.run(f"young-{number}")
        story.engine.complete(f"young-{number}")
        story.passes(10)
        seconds += 20
        if seconds < OVERTAKEN_S:
            assert ("a", FAILED) not in story.fates()
    failed = next(each for each in story.told if each.id == "a")
    assert (failed.fate.value, failed.sure) == (FAILED, Sure.LIKELY)
    assert "younger jobs" in failed.why
    assert [each for each in story.fates() if each[0] == "a"] == [("a", FAILED)]


def test_a_job_that_waits_while_an_older_one_works_has_not_failed(story: Story) -> None:
    story.passes(10)
    story.engine.submit("b")
    for index in range(4):
        story.passes(100)
        story.engine.run_partition("a", index)
    assert story.fates() == []


def test_young_jobs_that_only_arrive_pass_nobody_by(story: Story) -> None:
    for number in range(30):
        story.engine.submit(f"young-{number}")
        story.passes(10)
    assert story.fates() == []


def test_a_younger_job_of_another_kind_passes_nobody_by(story: Story) -> None:
    for number in range(20):
        story.engine.submit(f"snap-{number}", kind="snap-update")
        story.passes(10)
        story.engine.run(f"snap-{number}")
        story.engine.complete(f"snap-{number}")
        story.passes(10)
    assert ("a", FAILED) not in story.fates()


def test_a_job_that_stands_still_for_ever_is_suspected(story: Story) -> None:
    story.engine.synthesize("a", 0)
    story.passes(STALLED_S - 5, every_s=5)
    assert story.fates() == []
    story.passes(20, every_s=5)
    (failed,) = story.told
    assert (failed.fate.value, failed.sure) == (FAILED, Sure.SUSPECTED)


def test_a_suspicion_is_taken_back_when_the_job_moves_again(story: Story) -> None:
    story.engine.synthesize("a", 0)
    story.passes(STALLED_S + 10, every_s=5)
    assert story.reading.failed == 1
    story.engine.synthesized("a", 0)
    story.passes(1)
    assert story.fates() == [("a", FAILED), ("a", RUNNING)]
    assert story.reading.failed == 0
    story.engine.run("a")
    story.passes(1)
    story.engine.complete("a")
    story.passes(1)
    assert story.fates()[2:] == [("a", DONE)]
    assert (story.reading.completed, story.reading.failed) == (1, 0)


def test_what_is_certain_is_not_taken_back_when_partitions_under_way_end(story: Story) -> None:
    story.engine.on_gpu("a", 1)
    story.engine.fail_partition("a", 0)
    story.look()
    story.engine.gpu_done("a", 1)
    story.passes(5)
    assert story.fates() == [("a", FAILED)]


def test_a_whole_job_taken_for_failed_that_is_counted_in_the_end_is_done(story: Story) -> None:
    story.engine.run("a")
    story.passes(WHOLE_S + 5)
    story.engine.complete("a")
    story.passes(1)
    assert story.fates() == [("a", FAILED), ("a", DONE)]
    assert (story.reading.completed, story.reading.failed) == (1, 0)


def test_a_job_that_goes_unfinished_is_suspected(story: Story) -> None:
    del story.engine.jobs["a"]
    story.passes(1)
    (failed,) = story.told
    assert (failed.fate.value, failed.sure) == (FAILED, Sure.SUSPECTED)
    assert story.reading.failed == 1


def test_a_job_that_begins_anew_under_the_same_id_is_another(story: Story) -> None:
    story.passes(100)
    story.engine.submit("a")
    story.passes(1)
    assert story.fates() == [("a", FAILED)]
    story.engine.run("a")
    story.look()
    story.engine.complete("a")
    story.passes(1)
    assert story.fates() == [("a", FAILED), ("a", DONE)]


@pytest.mark.parametrize("stuck", ["orphan", "whole", "still"])
def test_time_in_which_the_daemon_was_stopped_is_not_held_against_its_jobs(story: Story, stuck: str) -> None:
    if stuck == "orphan":
        story.engine.fail_gpu_start("a", 0)
    elif stuck == "whole":
        story.engine.run("a")
    else:
        story.engine.synthesize("a", 0)
    story.passes(2)
    story.now_s += 2 * STALLED_S  # stopped, and going on now
    story.passes(60)
    assert story.fates() == []


# --- restarts -------------------------------------------------------------------------------------------------------


def test_a_restart_of_the_daemon_ends_what_ran(story: Story) -> None:
    story.engine.submit("b")
    story.engine.run_partition("b", 0)
    story.look()
    story.passes(1)
    story.restart()
    story.passes(1)
    assert sorted(story.fates()) == [("a", FAILED), ("b", FAILED)]
    assert {each.sure for each in story.told} == {Sure.CERTAIN}
    assert all("restarted" in each.why for each in story.told)


def test_a_restart_soon_after_the_start_is_noticed(story: Story) -> None:
    story.restart()
    story.passes(2)
    story.engine.submit("b")
    story.passes(1)
    story.told.clear()
    story.restart()
    story.passes(1)
    assert story.fates() == [("b", FAILED)]


def test_what_a_restarted_daemon_has_counted_before_the_first_look_is_new(story: Story) -> None:
    story.restart()
    story.engine.submit("b")
    story.engine.run("b")
    story.engine.complete("b")
    story.passes(1)
    assert story.fates() == [("a", FAILED), ("b", DONE)]


def test_another_agent_tells_nothing_twice(story: Story) -> None:
    story.engine.submit("b")
    story.engine.fail_partition("a", 0)
    story.engine.run("b")
    story.look()
    story.engine.complete("b")
    story.passes(1)
    story.told.clear()
    story.agent_restarts()
    story.passes(600, every_s=5)
    assert story.fates() == []
    assert (story.reading.failed, story.reading.failed_by_kind) == (1, {"porep-c2": 1})


def test_another_agent_after_a_restart_of_the_daemon_starts_afresh(story: Story) -> None:
    story.engine.fail_partition("a", 0)
    story.look()
    story.agent_restarts()
    story.now_s += 30
    story.restart()
    story.engine.submit("a")
    story.engine.fail_partition("a", 0)
    story.told.clear()
    story.look()
    assert story.fates() == [("a", FAILED)]
