"""The token bucket."""

import pytest

from hub.rates import TokenBucket
from tests.hub.rig import FakeClock


def test_a_bucket_gives_its_burst_then_its_rate() -> None:
    clock = FakeClock()
    bucket = TokenBucket(clock, per_s=2.0, burst=3)
    assert [bucket.take() for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    clock.move(0.25)
    assert bucket.take() == pytest.approx(0.25)
    clock.move(0.25)
    assert bucket.take() == 0.0
    clock.move(3600.0)
    assert [bucket.take() for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


def test_what_has_happened_already_is_paid_on_credit() -> None:
    clock = FakeClock()
    bucket = TokenBucket(clock, per_s=2.0, burst=3)
    assert [bucket.pay(1) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert bucket.pay(4) == 2.0
    clock.move(2.0)
    assert bucket.pay(1) == 0.5
    clock.move(3600.0)
    assert bucket.pay(3) == 0.0
