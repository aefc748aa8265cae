"""The token bucket; the gate itself is met over sockets in `test_sessions`."""

import pytest

from hub.gate import TokenBucket
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
