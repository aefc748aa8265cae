"""A time of the history in at most so many points."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.downsampling import Chart, Plan, Span, chart, plan
from hub.rollups import TIERS, Rollup, Tier, of_sample
from hub.store.records import HistoryRow

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOW_MS = 1_700_000_000_000 // HOUR_MS * HOUR_MS
WHOLE = dict.fromkeys(TIERS, 0)
KEY = (1, 0)


def planned(back_ms: int, **changes: object) -> Plan:
    usual: dict[str, object] = {
        "from_ms": NOW_MS - back_ms,
        "to_ms": NOW_MS,
        "now_ms": NOW_MS,
        "points_max": 600,
        "sample_ms": 10_000,
        "rows_max": 10_000,
        "horizons_ms": WHOLE,
    }
    return plan(**(usual | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("back_ms", "tier"),
    [
        (HOUR_MS, Tier.RAW),
        (9 * HOUR_MS, Tier.RAW),
        (12 * HOUR_MS, Tier.MINUTE),
        (4 * DAY_MS, Tier.MINUTE),
        (5 * DAY_MS, Tier.TEN_MINUTES),
        (24 * DAY_MS, Tier.TEN_MINUTES),
        (26 * DAY_MS, Tier.HOUR),
        (700 * DAY_MS, Tier.HOUR),
    ],
)
def test_the_tier_is_as_wide_as_a_point_allows(back_ms: int, tier: Tier) -> None:
    assert planned(back_ms).tier is tier


def test_what_is_given_up_already_comes_from_the_tier_above() -> None:
    horizons = {Tier.RAW: NOW_MS - DAY_MS, Tier.MINUTE: NOW_MS - 14 * DAY_MS, Tier.TEN_MINUTES: 0, Tier.HOUR: 0}
    assert planned(HOUR_MS, horizons_ms=horizons).tier is Tier.RAW
    from_ms = NOW_MS - 3 * DAY_MS
    assert planned(0, from_ms=from_ms, to_ms=from_ms + HOUR_MS, horizons_ms=horizons).tier is Tier.MINUTE
    from_ms = NOW_MS - 30 * DAY_MS
    assert planned(0, from_ms=from_ms, to_ms=from_ms + HOUR_MS, horizons_ms=horizons).tier is Tier.TEN_MINUTES


def test_no_coarser_tier_is_taken_that_reaches_back_no_further() -> None:
    assert planned(HOUR_MS, horizons_ms=dict.fromkeys(TIERS, NOW_MS)).tier is Tier.RAW


def test_more_rows_than_may_be_read_come_from_the_tier_above() -> None:
    assert planned(HOUR_MS, sample_ms=100).tier is Tier.MINUTE
    assert planned(HOUR_MS, tier_min=Tier.TEN_MINUTES).tier is Tier.TEN_MINUTES


def test_the_last_minutes_come_from_the_tiers_below() -> None:
    now_ms = NOW_MS + 25 * 60_000 + 40_000
    hours = planned(26 * DAY_MS, to_ms=now_ms, now_ms=now_ms).spans
    assert hours[1:] == (
        Span(Tier.TEN_MINUTES, NOW_MS, NOW_MS + 20 * 60_000),
        Span(Tier.MINUTE, NOW_MS + 20 * 60_000, NOW_MS + 25 * 60_000),
        Span(Tier.RAW, NOW_MS + 25 * 60_000, now_ms),
    )
    assert hours[0].to_ms == NOW_MS


@given(
    st.integers(0, 800 * DAY_MS),
    st.integers(1, 800 * DAY_MS),
    st.integers(2, 2000),
    st.integers(100, 60_000),
    st.sampled_from(TIERS),
)
def test_spans_cover_the_time_once_and_points_are_not_too_many(
    back_ms: int, length_ms: int, points_max: int, sample_ms: int, tier_min: Tier
) -> None:
    from_ms = NOW_MS - back_ms
    to_ms = min(from_ms + length_ms, NOW_MS + 1)
    found = planned(0, from_ms=from_ms, to_ms=to_ms, points_max=points_max, sample_ms=sample_ms, tier_min=tier_min)
    assert found.spans[0].from_ms == found.tier.start_of(from_ms)
    assert found.spans[-1].to_ms == to_ms
    for before, after in zip(found.spans, found.spans[1:], strict=False):
        assert before.to_ms == after.from_ms
        assert after.tier < before.tier
    drawn = chart([], [KEY], from_ms=from_ms, to_ms=to_ms, step_ms=found.step_ms, points_max=points_max)
    assert len(drawn.times_ms) <= points_max
    if found.tier is not Tier.RAW:
        assert found.step_ms % found.tier.width_ms == 0


def rows(*samples: tuple[int, float]) -> list[HistoryRow]:
    return [HistoryRow(at_ms, of_sample({1: {0: value}})) for at_ms, value in samples]


def drawn(some: list[HistoryRow], *, step_ms: int, points_max: int, to_ms: int) -> Chart:
    return chart(some, [KEY], from_ms=0, to_ms=to_ms, step_ms=step_ms, points_max=points_max)


def test_few_samples_are_shown_as_they_are_and_a_hole_is_a_gap() -> None:
    some = rows((0, 1.0), (10, 2.0), (20, 3.0), (90, 4.0), (101, 5.0))
    found = drawn(some, step_ms=20, points_max=100, to_ms=110)
    assert found.times_ms == [0, 10, 20, 55, 90, 101]
    values = [None if point is None else point.last for point in found.points[KEY]]
    assert values == [1.0, 2.0, 3.0, None, 4.0, 5.0]


def test_many_samples_are_put_together_and_keep_their_extremes() -> None:
    some = rows(*((at_ms, 100.0 if at_ms == 37 else 1.0) for at_ms in range(60)))
    found = drawn(some, step_ms=20, points_max=10, to_ms=100)
    assert found.times_ms == [0, 20, 40, 60, 80]
    points = found.points[KEY]
    assert points[0] == Rollup(20, 1.0, 1.0, 1.0, 1.0)
    assert points[1] is not None
    assert points[1]._replace(mean=0.0) == Rollup(20, 1.0, 0.0, 100.0, 1.0)
    assert points[1].mean == pytest.approx(5.95)
    assert points[3:] == [None, None]


def test_a_series_that_a_row_does_not_have_is_a_gap_there() -> None:
    some = [*rows((0, 1.0)), HistoryRow(10, {2: {0: Rollup(1, 1, 1.0, 1, 1)}})]
    found = drawn(some, step_ms=10, points_max=100, to_ms=20)
    assert [point is None for point in found.points[KEY]] == [False, True]


def test_nothing_is_a_chart_too() -> None:
    found = drawn([], step_ms=10, points_max=100, to_ms=20)
    assert found.points == {KEY: []}
