"""The verdict on a node, over its whole table; `test_registry` has it over time."""

import pytest

from hub.liveness import Limits, Listening, NodeState, judge

LIMITS = Limits(stale_after_s=30.0, lost_after_s=45.0, reconnect_spread_s=10.0, lag_tolerated_s=5.0)
LISTENING = Listening(0.0)


@pytest.mark.parametrize(
    ("connected", "last_frame_s", "now_s", "state"),
    [
        (True, 1000.0, 1000.0, NodeState.ONLINE),
        (True, 1000.0, 1029.9, NodeState.ONLINE),
        (True, 1000.0, 1030.0, NodeState.STALE),
        (True, 1000.0, 1045.0, NodeState.LOST),
        (False, 1000.0, 1000.0, NodeState.RECONNECTING),
        (False, 1000.0, 1044.9, NodeState.RECONNECTING),
        (False, 1000.0, 1045.0, NodeState.LOST),
        (False, None, 0.0, NodeState.RECONNECTING),
        (False, None, 54.9, NodeState.RECONNECTING),
        (False, None, 55.0, NodeState.LOST),
    ],
)
def test_silence_decides(*, connected: bool, last_frame_s: float | None, now_s: float, state: NodeState) -> None:
    verdict = judge(
        ever_seen=True, connected=connected, last_frame_s=last_frame_s, now_s=now_s, listening=LISTENING, limits=LIMITS
    )
    assert verdict is state


def test_a_node_that_never_came_is_not_lost() -> None:
    verdict = judge(ever_seen=False, connected=False, last_frame_s=None, now_s=1e9, listening=LISTENING, limits=LIMITS)
    assert verdict is NodeState.NEVER


@pytest.mark.parametrize("connected", [True, False])
def test_nobody_is_lost_because_the_hub_itself_was_away(*, connected: bool) -> None:
    after = LISTENING.after_tick(due_s=1001.0, now_s=4600.0, limits=LIMITS)
    assert after == Listening(4600.0)

    def at(now_s: float) -> NodeState:
        return judge(
            ever_seen=True, connected=connected, last_frame_s=1000.0, now_s=now_s, listening=after, limits=LIMITS
        )

    assert at(4600.0) is (NodeState.ONLINE if connected else NodeState.RECONNECTING)
    assert at(4600.0 + 44.9) is not NodeState.LOST
    assert at(4600.0 + 55.0) is NodeState.LOST


def test_a_tick_a_little_late_is_no_hitch() -> None:
    assert LISTENING.after_tick(due_s=1.0, now_s=6.0, limits=LIMITS) is LISTENING
