import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.pacing import FRAME_BYTES_FIRST, FRAME_BYTES_MIN, FRAMES_PER_S_MAX, LINK_RATIO, PAUSE_S_MAX, Pace
from tests.agent.samples import EPOCHS
from wire.frames import Stream
from wire.limits import EVENTS_BYTES_PER_FRAME

EPOCH = EPOCHS[0]


def roundtrip(pace: Pace, now_s: float, took_s: float) -> float:
    """One frame sent and acknowledged; when the next may go."""
    pace.sent(EPOCH, Stream.LOGS, 5, now_s)
    assert pace.next_s() is None
    pace.acknowledged(EPOCH, Stream.LOGS, 5, now_s + took_s)
    next_s = pace.next_s()
    assert next_s is not None
    return next_s


def test_one_frame_at_a_time_until_all_of_it_is_acknowledged() -> None:
    pace = Pace()
    pace.sent(EPOCH, Stream.LOGS, 5, 10.0)
    for other in ((EPOCH, Stream.LOGS, 4), (EPOCH, Stream.READINGS, 9), (EPOCHS[1], Stream.LOGS, 9)):
        pace.acknowledged(*other, 11.0)
        assert pace.next_s() is None
    pace.acknowledged(EPOCH, Stream.LOGS, 6, 11.0)
    assert pace.next_s() == 15.0
    pace.acknowledged(EPOCH, Stream.LOGS, 7, 12.0)  # of nothing under way
    assert pace.next_s() == 15.0


@given(took=st.lists(st.floats(0.0, PAUSE_S_MAX * LINK_RATIO), min_size=1, max_size=50))
def test_it_takes_a_fifth_of_the_link_and_at_most_fifty_frames_a_second(took: list[float]) -> None:
    pace, now_s = Pace(), 0.0
    for took_s in took:
        now_s = roundtrip(pace, now_s, took_s)
    assert sum(took) <= LINK_RATIO * now_s * 1.000001
    assert len(took) <= FRAMES_PER_S_MAX * now_s * 1.000001


@pytest.mark.parametrize(("took_s", "ends_at"), [(0.01, EVENTS_BYTES_PER_FRAME), (3.0, FRAME_BYTES_MIN)])
def test_frames_fit_the_link(took_s: float, ends_at: int) -> None:
    pace = Pace()
    assert pace.bytes_max == FRAME_BYTES_FIRST
    for _ in range(10):
        roundtrip(pace, 0.0, took_s)
    assert pace.bytes_max == ends_at


def test_a_hub_that_takes_minutes_does_not_stop_it() -> None:
    assert roundtrip(Pace(), 0.0, 600.0) == 600.0 + PAUSE_S_MAX
