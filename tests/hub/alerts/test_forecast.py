"""When a disk is full: trends count, steps do not."""

import random
from math import inf, isclose

import pytest

from hub.alerts.forecast import HOUR_MS, Point, hours_until_full

NOW_MS = 1_700_000_000_000
GB = 1e9
STEP_MS = 600_000


def course(free_at_hours: object, hours: float = 6.0) -> list[Point]:
    """Points every ten minutes until now, by a function of the hours that passed."""
    assert callable(free_at_hours)
    count = int(hours * 6)
    return [(NOW_MS - (count - n) * STEP_MS, free_at_hours((n - count) / 6)) for n in range(count + 1)]


def test_a_steady_trend_is_carried_on() -> None:
    hours = hours_until_full(course(lambda h: 100 * GB - 5 * GB * h), NOW_MS, 1000 * GB)
    assert hours is not None
    assert isclose(hours, 20.0, rel_tol=0.01)


def test_noise_hides_no_trend() -> None:
    noise = random.Random(5)
    hours = hours_until_full(course(lambda h: (100 - 5 * h + noise.uniform(-3, 3)) * GB), NOW_MS, 1000 * GB)
    assert hours is not None
    assert 14 < hours < 30


@pytest.mark.parametrize("at_h", [-5.5, -4, -3, -2.5, -1.7, -0.3])
def test_a_file_that_came_at_once_is_no_trend(at_h: float) -> None:
    assert hours_until_full(course(lambda h: (100 if h < at_h else 40) * GB), NOW_MS, 1000 * GB) == inf


def test_what_ended_two_hours_ago_goes_on_no_more() -> None:
    assert hours_until_full(course(lambda h: (100 - 10 * min(h, -2.1)) * GB), NOW_MS, 1000 * GB) == inf


def test_what_becomes_emptier_is_never_full() -> None:
    assert hours_until_full(course(lambda h: (100 + 5 * h) * GB), NOW_MS, 1000 * GB) == inf


def test_full_is_full_whatever_the_trend() -> None:
    assert hours_until_full([(NOW_MS, 0.0)], NOW_MS, 100 * GB) == 0.0
    assert hours_until_full([(NOW_MS, 0.5 * GB)], NOW_MS, 100 * GB) == 0.0


def test_too_little_says_nothing() -> None:
    def trend(h: float) -> float:
        return 100 * GB - 50 * GB * h

    assert hours_until_full([], NOW_MS, None) is None
    assert hours_until_full(course(trend, hours=0.5), NOW_MS, None) is None
    assert hours_until_full([(at - HOUR_MS, free) for at, free in course(trend)], NOW_MS, None) is None
