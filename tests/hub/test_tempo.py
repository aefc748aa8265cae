"""What fleets of different sizes are told."""

from pathlib import Path

import pytest

from hub.config import Config
from hub.tempo import Tempo, limits_of, tempo
from tests.hub.rig import running_hub
from wire.limits import READINGS_S, SAMPLE_S

CONFIG = Config(data_dir=Path("unused"))


def told(agents: int, **changes: float) -> Tempo:
    return tempo(CONFIG.with_changes(**changes), agents)


def test_a_small_fleet_is_told_what_is_configured() -> None:
    assert (
        told(0)
        == told(100)
        == Tempo(
            heartbeat_s=10.0,
            stale_after_s=30.0,
            lost_after_s=45.0,
            reconnect_spread_s=2.0,
            readings_s=2.0,
            sample_s=10.0,
        )
    )
    assert (told(2000).heartbeat_s, told(2000).sample_s, told(2000).reconnect_spread_s) == (10.0, 10.0, 40.0)


@pytest.mark.parametrize("agents", [2001, 4000, 12_000, 50_000])
def test_a_large_fleet_sends_no_more_than_the_hub_can_take_and_its_limits_go_along(agents: int) -> None:
    slow = told(agents)
    assert agents / slow.heartbeat_s <= 201.0 or slow.heartbeat_s == 60.0
    assert agents / slow.readings_s <= 501.0 or slow.readings_s == 60.0
    assert slow.stale_after_s / slow.heartbeat_s == pytest.approx(3.0)
    assert slow.lost_after_s / slow.heartbeat_s == pytest.approx(4.5)
    assert slow.reconnect_spread_s <= 120.0
    limits = limits_of(CONFIG, slow, agents)
    assert limits.lost_after_s == slow.lost_after_s
    assert limits.return_s >= agents / CONFIG.accept_per_s + max(slow.reconnect_spread_s, 20.0) + 10.0


def test_a_configured_interval_is_never_shortened() -> None:
    slow = told(
        4000, heartbeat_s=25.0, stale_after_s=75.0, lost_after_s=100.0, readings_s=30.0, reconnect_spread_s=300.0
    )
    assert (slow.heartbeat_s, slow.stale_after_s, slow.lost_after_s) == (25.0, 75.0, 100.0)
    assert (slow.readings_s, slow.reconnect_spread_s) == (30.0, 300.0)


async def test_the_welcome_says_it(tmp_path: Path) -> None:
    async with running_hub(tmp_path, readings_s=7.0, sample_s=33.0) as hub:
        peer = await hub.enroll()
        async with peer.connect() as connection:
            assert connection.session.welcome is not None
            welcome = connection.session.welcome
            assert (welcome.readings_s, welcome.sample_s) == (7.0, 33.0)
            assert READINGS_S != 7.0 != SAMPLE_S
            assert welcome.heartbeat_s == 10.0
