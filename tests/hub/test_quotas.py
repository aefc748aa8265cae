"""How much of each node is taken in."""

import msgspec
import pytest

from hub.quotas import DAY_S, EPOCHS_BURST, WAIT_MAX_S, QuotaLimits, Quotas
from tests.hub.rig import FakeClock
from wire.events import Stream

LIMITS = QuotaLimits(
    events_per_s=10.0,
    events_burst=100,
    event_bytes_per_day=86_400,
    log_bytes_per_day=8_640,
    reading_bytes_per_day=8_640,
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def quotas(clock: FakeClock) -> Quotas:
    return Quotas(clock, LIMITS)


@pytest.mark.parametrize("stream", Stream)
def test_a_burst_passes_and_what_is_beyond_the_rate_waits(stream: Stream, quotas: Quotas, clock: FakeClock) -> None:
    assert quotas.judge("a", "e", stream, 120, 1) == (0.0, "", "")
    assert quotas.judge("a", "e", stream, 20, 1)[:2] == (2.0, ""), "it waits for what came before it"
    clock.move(2.0)
    assert quotas.judge("a", "e", stream, 0, 1).wait_s == 2.0
    clock.move(2.0)
    assert quotas.judge("a", "e", stream, 1, 1).wait_s == 0.0
    assert quotas.judge("b", "e", stream, 100, 1).wait_s == 0.0, "another node's debt"


def test_jobs_and_events_are_slowed_down_and_never_left_out(quotas: Quotas) -> None:
    for stream in (Stream.JOBS, Stream.EVENTS):
        for _ in range(5):
            verdict = quotas.judge("a", "e", stream, 1, 86_400)
            assert verdict.left_out == ""
    assert verdict.wait_s == WAIT_MAX_S


@pytest.mark.parametrize("stream", [Stream.LOGS, Stream.READINGS])
def test_bytes_beyond_a_day_are_left_out_with_a_reason(stream: Stream, quotas: Quotas, clock: FakeClock) -> None:
    assert quotas.judge("a", "e", stream, 1, 8_000).left_out == ""
    assert quotas.judge("a", "e", stream, 1, 8_000).left_out == "", "the last that fits may be larger than what is left"
    verdict = quotas.judge("a", "e", stream, 5, 8_000)
    assert verdict == (0.0, f"the node sent more {stream} than 8640 bytes a day", "")
    assert quotas.left_out_total[stream] == 5
    clock.move(DAY_S)
    assert quotas.judge("a", "e", stream, 1, 8_000).left_out == ""


def test_over_many_days_no_more_is_taken_than_the_days_bytes_and_one_batch(quotas: Quotas, clock: FakeClock) -> None:
    taken = 0
    for _ in range(10_000):
        clock.move(30.0)
        if not quotas.judge("a", "e", Stream.LOGS, 1, 500).left_out:
            taken += 500
    days = 10_000 * 30.0 / DAY_S
    assert 0.9 * days * 8_640 <= taken <= (days + 1) * 8_640 + 500


def test_a_day_away_may_be_brought_at_once(quotas: Quotas, clock: FakeClock) -> None:
    quotas.judge("a", "e", Stream.READINGS, 1, 8_640)
    clock.move(DAY_S)
    assert quotas.judge("a", "e", Stream.READINGS, 1, 8_640) == (0.0, "", "")


def test_new_epochs_without_end_are_slowed_down(quotas: Quotas) -> None:
    quotas.judge("a", "e0", Stream.LOGS, 0, 10**9)
    waits = [quotas.judge("a", f"e{number}", Stream.LOGS, 0, 0).wait_s for number in range(2 * EPOCHS_BURST)]
    assert max(waits[: EPOCHS_BURST + 1]) == 0.0
    assert min(waits[EPOCHS_BURST + 1 :]) == WAIT_MAX_S
    fresh = Quotas(FakeClock(), LIMITS)
    assert {fresh.judge("a", "e", Stream.EVENTS, 0, 0).wait_s for _ in range(2 * EPOCHS_BURST)} == {0.0}


def test_that_a_node_is_slowed_down_is_told_once_an_hour(quotas: Quotas, clock: FakeClock) -> None:
    quotas.judge("a", "e", Stream.EVENTS, 105, 1)
    assert quotas.judge("a", "e", Stream.EVENTS, 10_000_000, 1).news == "", "half a second is nobody's business"
    told = []
    for _ in range(10):
        told.append(quotas.judge("a", "e", Stream.EVENTS, 1, 1).news)
        clock.move(1000.0)
    assert [bool(news) for news in told] == [n in {0, 4, 8} for n in range(10)]
    assert "sends events faster than its quota" in told[0]


def test_a_forgotten_node_begins_anew(quotas: Quotas) -> None:
    quotas.judge("a", "e", Stream.EVENTS, 1_000, 1)
    quotas.forget("a")
    quotas.forget("a")
    assert quotas.judge("a", "e", Stream.EVENTS, 100, 1).wait_s == 0.0


def test_what_was_waited_and_left_out_is_counted(clock: FakeClock) -> None:
    quotas = Quotas(clock, msgspec.structs.replace(LIMITS, log_bytes_per_day=1))
    quotas.judge("a", "e", Stream.LOGS, 110, 2)
    assert quotas.judge("a", "e", Stream.LOGS, 7, 2).wait_s == 0.0, "what is left out holds nothing up"
    quotas.judge("a", "e", Stream.EVENTS, 110, 0)
    assert quotas.judge("a", "e", Stream.EVENTS, 1, 0).wait_s == 1.0
    assert quotas.waited_s_total == pytest.approx(1.0)
    assert quotas.left_out_total == {Stream.LOGS: 7, Stream.READINGS: 0}


@pytest.mark.parametrize("stream", Stream)
def test_what_is_admitted_is_what_would_neither_wait_nor_be_left_out(
    stream: Stream, quotas: Quotas, clock: FakeClock
) -> None:
    assert not quotas.admits("a", "e", stream, 1, 1), "nothing is known of it yet"
    quotas.judge("a", "e", stream, 1, 1)
    assert not quotas.admits("a", "another", stream, 1, 1), "a new epoch is judged"
    assert quotas.admits("a", "e", stream, 120, 1)
    assert not quotas.admits("a", "e", stream, 1, 1)
    assert quotas.judge("a", "e", stream, 0, 1).wait_s > 0.0
    clock.move(10.0)
    assert quotas.admits("a", "e", stream, 1, 10**6)
    assert not quotas.admits("a", "e", stream, 1, 1), "the bytes of the day are used up"


def test_what_was_admitted_in_vain_is_given_back(quotas: Quotas) -> None:
    quotas.judge("a", "e", Stream.LOGS, 0, 0)
    for _ in range(10):
        assert quotas.admits("a", "e", Stream.LOGS, 200, 10**6)
        quotas.give_back("a", Stream.LOGS, 200, 10**6)
    assert quotas.judge("a", "e", Stream.LOGS, 1, 1) == (0.0, "", "")
