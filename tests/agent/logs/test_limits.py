import pytest

from agent.logs.limits import (
    DAY_MS,
    PATIENCE_S,
    PAUSE_S,
    WINDOW_S,
    WINDOW_S_MAX,
    Limits,
    Rates,
    Reason,
    by_kind,
)
from wire.frames import NodeEvent

NOW_MS = 20_000 * DAY_MS
WITHOUT_DAY = Rates(records_per_s=10.0, burst=20, bytes_per_day=10**12)
RATES = Rates(records_per_s=10.0, burst=20, bytes_per_day=1000)


class Player:
    """Limits and a time that is moved."""

    def __init__(self, rates: Rates = RATES, kept: bytes | None = None) -> None:
        self.now_s = 50.0
        self.now_ms = NOW_MS
        self.limits = Limits(rates, self.now_s, kept)

    def move(self, seconds: float) -> None:
        self.now_s += seconds
        self.now_ms += int(seconds * 1000)

    def admits(self, count: int, source: str = "agent", size_bytes: int = 1) -> int:
        return sum(self.limits.admits(source, size_bytes, now_s=self.now_s, now_ms=self.now_ms) for _ in range(count))

    def told(self) -> list[tuple[object, ...]]:
        return [
            tuple(event.fields[name] for name in ("source", "reason", "count", "bytes", "first_ms", "last_ms"))
            for event in self.limits.take_due(self.now_s)
        ]


def test_a_burst_then_the_rate_for_each_source_by_itself() -> None:
    player = Player()
    assert player.admits(100) == 20
    assert player.admits(100, "worker:host") == 20
    player.move(1.0)
    assert player.admits(100) == 10
    player.move(3600.0)
    assert player.admits(100) == 20


def test_what_is_left_out_is_told_once_for_each_source_and_window() -> None:
    player = Player()
    player.admits(25)
    player.move(2.0)
    player.admits(23)
    player.admits(21, "file:x")
    assert player.told() == []
    player.move(WINDOW_S)
    assert player.told() == [
        ("agent", "rate", 8, 8, NOW_MS, NOW_MS + 2000),
        ("file:x", "rate", 1, 1, NOW_MS + 2000, NOW_MS + 2000),
    ]
    player.move(WINDOW_S)
    assert player.told() == []
    assert sorted(by_kind(player.limits.suppressed)) == [("agent", Reason.RATE, 8), ("file", Reason.RATE, 1)]


def test_a_flood_of_hours_is_a_handful_of_events_and_none_of_it_is_uncounted() -> None:
    player = Player(WITHOUT_DAY)
    told: list[NodeEvent] = []
    for _ in range(6 * 3600):
        player.admits(15)
        player.move(1.0)
        told += player.limits.take_due(player.now_s)
    player.move(WINDOW_S_MAX)
    told += player.limits.take_due(player.now_s)
    assert len(told) < 30
    counts = [event.fields["count"] for event in told]
    assert sum(count for count in counts if isinstance(count, int)) == sum(player.limits.suppressed.values())
    assert sum(player.limits.suppressed.values()) > 5 * 21_000


def test_a_quiet_time_makes_the_windows_short_again() -> None:
    player = Player(WITHOUT_DAY)
    for _ in range(300):
        player.admits(15)
        player.move(1.0)
        player.limits.take_due(player.now_s)
    player.move(WINDOW_S_MAX)
    player.told()
    player.move(WINDOW_S_MAX)
    player.admits(30)
    player.move(WINDOW_S)
    assert [told[2] for told in player.told()] == [10]


def test_the_bytes_of_a_day_are_of_all_sources_and_begin_anew_at_midnight() -> None:
    player = Player(Rates(records_per_s=1e6, burst=10**6, bytes_per_day=1000))
    assert player.admits(7, size_bytes=100) == 7
    assert player.admits(7, "file:x", size_bytes=100) == 3
    assert player.limits.bytes_today == 1000
    player.move(WINDOW_S)
    assert [told[:4] for told in player.told()] == [("file:x", "day", 4, 400)]
    player.move(DAY_MS / 1000)
    assert player.admits(1, size_bytes=100) == 1
    assert player.limits.bytes_today == 100


def test_a_restart_keeps_the_day_and_tells_what_was_not_told() -> None:
    first = Player(Rates(records_per_s=1e6, burst=10**6, bytes_per_day=1000))
    first.admits(12, size_bytes=100)
    second = Player(Rates(records_per_s=1e6, burst=10**6, bytes_per_day=1000), first.limits.kept())
    assert second.told() == [("agent", "day", 2, 200, NOW_MS, NOW_MS)]
    assert second.told() == []
    assert second.admits(1) == 0


@pytest.mark.parametrize("kept", [b"", b"\xff", b"[]", b'{"day": "x"}'])
def test_a_damaged_memory_is_an_empty_one(kept: bytes) -> None:
    assert Player(RATES, kept).limits.bytes_today == 0


def test_a_source_that_can_wait_waits_first_but_not_for_ever() -> None:
    player = Player(WITHOUT_DAY)
    sent = 0
    waited_s = 0.0
    for _ in range(int((PATIENCE_S + 60) * 15)):
        while pause_s := player.limits.pause_s("file:x", player.now_s):
            player.move(pause_s)
            waited_s += pause_s
        sent += player.admits(1, "file:x", size_bytes=0)
        player.move(1 / 1000)
    assert waited_s == pytest.approx(PATIENCE_S, abs=PAUSE_S)
    assert sent >= 20 + PATIENCE_S * 10
    assert player.limits.suppressed["file:x", Reason.RATE] > 0
    player.move(60.0)
    player.admits(30, "file:x", size_bytes=0)
    assert player.limits.pause_s("file:x", player.now_s) == PAUSE_S
