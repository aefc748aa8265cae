"""When something happened at a node, on the hub's clock."""

from hub.node_time import JUMP_MS, WINDOW_MS, NodeClock, NodeClocks
from wire.events import Event, NodeEvent

HOUR_MS = 3600 * 1000
HUB_MS = 1_700_000_000_000


def event(wall_ms: int, monotonic_ms: int) -> Event:
    return Event(seq=1, time_ms=wall_ms, monotonic_ns=monotonic_ms * 1_000_000, body=NodeEvent("k", "d"))


def heard(clock: NodeClock, monotonic_ms: int, now_ms: int) -> None:
    clock.heard(monotonic_ms * 1_000_000, now_ms)


def test_an_hours_jump_of_the_nodes_wall_clock_does_not_bend_the_series() -> None:
    clock = NodeClock("e")
    heard(clock, 5_000, HUB_MS)
    times = []
    for second in range(60):
        wall_ms = HUB_MS + second * 1000 + (HOUR_MS if second >= 30 else 0)
        times.append(clock.time_ms("e", event(wall_ms, 5_000 + second * 1000), HUB_MS + 120_000))
    assert times == [HUB_MS + second * 1000 for second in range(60)]


def test_the_frame_that_was_least_under_way_counts() -> None:
    clock = NodeClock("e")
    for delay_ms, at_ms in ((900, 1_000), (20, 2_000), (700, 3_000)):
        heard(clock, at_ms, HUB_MS + at_ms + delay_ms)
    assert clock.time_ms("e", event(0, 1_500), HUB_MS + HOUR_MS) == HUB_MS + 1_520


def test_clocks_that_drift_apart_are_followed() -> None:
    clock = NodeClock("e")
    for minute in range(240):  # 100 ppm: the hub's clock gains 6 ms a minute
        heard(clock, minute * 60_000, HUB_MS + minute * 60_006)
    newest_ms = 239 * 60_000
    error_ms = HUB_MS + 239 * 60_006 - clock.time_ms("e", event(0, newest_ms), HUB_MS + 10 * HOUR_MS)
    assert 0 <= error_ms <= 2 * 6 * WINDOW_MS / 60_000


def test_a_node_that_was_suspended_is_placed_anew_at_once() -> None:
    clock = NodeClock("e")
    heard(clock, 1_000, HUB_MS)
    heard(clock, 2_000, HUB_MS + HOUR_MS)
    assert clock.time_ms("e", event(0, 2_000), HUB_MS + 2 * HOUR_MS) == HUB_MS + HOUR_MS


def test_the_hubs_clock_may_be_set_back() -> None:
    clock = NodeClock("e")
    heard(clock, 1_000, HUB_MS)
    heard(clock, 2_000, HUB_MS - HOUR_MS)
    assert clock.time_ms("e", event(0, 2_000), HUB_MS) == HUB_MS - HOUR_MS
    heard(clock, 3_000, HUB_MS - HOUR_MS + 1_000 + JUMP_MS // 2)
    assert clock.time_ms("e", event(0, 3_000), HUB_MS) == HUB_MS - HOUR_MS + 1_000


def test_another_epoch_has_only_its_wall_clock() -> None:
    clock = NodeClock("e")
    heard(clock, 1_000, HUB_MS)
    assert clock.time_ms("before", event(HUB_MS - 7, 900), HUB_MS) == HUB_MS - 7
    assert NodeClock("e").time_ms("e", event(HUB_MS - 7, 900), HUB_MS) == HUB_MS - 7


def test_nothing_happened_in_the_future() -> None:
    clock = NodeClock("e")
    assert clock.time_ms("e", event(HUB_MS + HOUR_MS, 900), HUB_MS) == HUB_MS
    heard(clock, 1_000, HUB_MS)
    assert clock.time_ms("e", event(0, 50_000), HUB_MS + 3) == HUB_MS + 3


def test_a_node_that_runs_a_new_epoch_has_a_new_clock() -> None:
    clocks = NodeClocks()
    first = clocks.of("a", "e1")
    assert clocks.of("a", "e1") is first
    assert clocks.of("a", "e2") is not first
    clocks.forget("a")
    clocks.forget("a")
    assert clocks.of("a", "e2").epoch == "e2"
