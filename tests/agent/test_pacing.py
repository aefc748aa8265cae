import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.pacing import FRAME_BYTES_FIRST, FRAME_BYTES_MIN, FRAMES_PER_S_MAX, LINK_RATIO, PAUSE_S_MAX, Pace
from tests.agent.samples import EPOCHS
from wire.frames import Stream
from wire.limits import EVENTS_BYTES_PER_FRAME

EPOCH = EPOCHS[0]


def begun(latency_s: float = 0.0) -> Pace:
    """A pace that has seen one status acknowledged."""
    pace = Pace()
    pace.status_sent(1, -latency_s)
    pace.status_heard(1, 0.0)
    return pace


def roundtrip(pace: Pace, now_s: float, took_s: float) -> float:
    """One frame sent and acknowledged; when the next may go."""
    pace.sent(EPOCH, Stream.LOGS, 5, now_s)
    assert pace.next_s() is None
    pace.acknowledged(EPOCH, Stream.LOGS, 5, now_s + took_s)
    next_s = pace.next_s()
    assert next_s is not None
    return next_s


def test_one_frame_at_a_time_until_all_of_it_is_acknowledged() -> None:
    pace = begun()
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
    pace, now_s = begun(), 0.0
    for took_s in took:
        now_s = roundtrip(pace, now_s, took_s)
    assert sum(took) <= LINK_RATIO * now_s * 1.000001
    assert len(took) <= FRAMES_PER_S_MAX * now_s * 1.000001


@pytest.mark.parametrize(("took_s", "ends_at"), [(0.01, EVENTS_BYTES_PER_FRAME), (3.0, FRAME_BYTES_MIN)])
def test_frames_fit_the_link(took_s: float, ends_at: int) -> None:
    pace = begun()
    assert pace.bytes_max == FRAME_BYTES_FIRST
    for _ in range(10):
        roundtrip(pace, 0.0, took_s)
    assert pace.bytes_max == ends_at


def test_a_hub_that_takes_minutes_does_not_stop_it() -> None:
    assert roundtrip(begun(), 0.0, 600.0) == 600.0 + PAUSE_S_MAX


def test_it_waits_for_the_first_status_to_be_acknowledged() -> None:
    pace = Pace()
    assert pace.next_s() is None
    pace.status_sent(1, 0.0)
    pace.status_heard(0, 0.1)
    assert pace.next_s() is None
    pace.status_heard(1, 0.2)
    assert pace.next_s() == float("-inf")


def test_what_an_acknowledgement_takes_by_itself_is_not_the_links() -> None:
    pace = begun(latency_s=0.3)
    assert roundtrip(pace, 10.0, 0.29) == 10.29
    assert roundtrip(pace, 20.0, 0.4) == pytest.approx(20.4 + 4 * 0.1)
    assert pace.bytes_max == 4 * FRAME_BYTES_FIRST


def test_only_statuses_with_nothing_in_their_way_tell_it() -> None:
    pace = begun(latency_s=0.1)
    pace.status_sent(2, 10.0)
    pace.sent(EPOCH, Stream.LOGS, 5, 10.0)  # in its way
    pace.status_sent(3, 10.1)  # behind it
    pace.status_heard(3, 15.0)
    pace.acknowledged(EPOCH, Stream.LOGS, 5, 15.0)
    assert pace.next_s() == pytest.approx(15.0 + 4 * (5.0 - 0.1))
    pace.status_sent(4, 40.0)
    pace.status_heard(4, 40.5)
    assert roundtrip(pace, 50.0, 0.2) == pytest.approx(50.2)  # the mean is 0.2 now
