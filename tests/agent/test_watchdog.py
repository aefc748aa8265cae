import asyncio
from collections.abc import Callable

import pytest

from agent.backoff import Fault, Kind
from agent.uplink import State, UplinkView
from agent.watchdog import CONFIRM_S, LOOK_EVERY_S, UNHEARD_S, Stuck, Watch, watch
from cli.main import report
from tests.agent.virtual_time import VirtualClock
from wire.reasons import Reason

NOW_S = 10_000.0
NETWORK = Fault(Kind.UNREACHABLE, "network", "nobody there")
STOPPING = Fault(Kind.UNREACHABLE, "HUB_STOPPING", "it restarts", code=Reason.HUB_STOPPING)


@pytest.mark.parametrize(
    ("state", "heard_s", "fault", "fault_s", "next_s", "probes"),
    [
        (State.OPEN, 301, None, 0, None, True),
        (State.OPEN, 299, None, 0, None, False),
        (State.OPEN, None, None, 0, None, True),
        (State.OPEN, 301, STOPPING, 10, None, True),  # an older reason: now a session is open and silent
        (State.CONNECTING, 301, NETWORK, 5, None, True),
        (State.WAITING, 301, NETWORK, 5, 10, True),
        (State.WAITING, 301, STOPPING, 5, 10, False),  # the hub speaks
        (State.WAITING, 900, STOPPING, 301, -280, True),  # it spoke once, and nothing came after it
        (State.WAITING, 301, NETWORK, 5, 600, False),  # it keeps away as it was told
        (State.REFUSED, 900, NETWORK, 5, 10, False),
        (State.ENROLLING, 900, NETWORK, 5, 10, False),
        (State.STOPPED, 900, None, 0, None, False),
    ],
)
def test_when_it_asks_from_outside(
    state: State,
    heard_s: float | None,
    fault: Fault | None,
    fault_s: float,
    next_s: float | None,
    probes: bool,  # noqa: FBT001
) -> None:
    view = UplinkView(
        state=state,
        last_ack_s=None if heard_s is None else NOW_S - heard_s,
        last_reason=fault,
        last_reason_s=NOW_S - fault_s,
        next_attempt_s=None if next_s is None else NOW_S + next_s,
    )
    assert Watch(NOW_S - UNHEARD_S - 1000).wants_probe(view, NOW_S) is probes


def test_it_gives_a_fresh_agent_its_time() -> None:
    assert not Watch(NOW_S - 10).wants_probe(UplinkView(state=State.CONNECTING), NOW_S)


class Watched:
    """The watchdog over an uplink that tests make up, and a way that is free or not."""

    def __init__(self, free: Callable[[float], bool]) -> None:
        self.clock = VirtualClock()
        self.view = UplinkView(state=State.CONNECTING, last_ack_s=self.clock.now_s)
        self.free = free
        self.probes: list[float] = []
        self.begun_s = self.clock.now_s

    async def probe(self) -> bool:
        self.probes.append(self.clock.now_s - self.begun_s)
        return self.free(self.probes[-1])

    async def run(self, seconds: float) -> BaseException | None:
        task = asyncio.create_task(watch(self.view, self.probe, clock=self.clock))
        await self.clock.advance(seconds)
        if not task.done():
            task.cancel()
        (result,) = await asyncio.gather(task, return_exceptions=True)
        return None if isinstance(result, asyncio.CancelledError) else result


async def test_stuck_while_the_way_is_free_ends_the_agent_with_75(capsys: pytest.CaptureFixture[str]) -> None:
    watched = Watched(lambda _: True)
    stuck = await watched.run(UNHEARD_S + CONFIRM_S + LOOK_EVERY_S)
    assert isinstance(stuck, Stuck)
    assert watched.probes[0] == UNHEARD_S
    assert watched.probes[-1] == UNHEARD_S + CONFIRM_S
    assert report(stuck) == 75
    assert "nothing was acknowledged for 420 s although a fresh connection" in capsys.readouterr().err


async def test_a_hub_that_is_away_for_a_day_ends_nothing() -> None:
    watched = Watched(lambda _: False)
    assert await watched.run(24 * 3600.0) is None
    assert watched.probes


async def test_one_probe_that_fails_begins_the_count_anew() -> None:
    watched = Watched(lambda at_s: at_s % 90 != 0)
    assert await watched.run(3600.0) is None


async def test_an_acknowledgement_ends_the_suspicion() -> None:
    def free(at_s: float) -> bool:
        if at_s >= UNHEARD_S + CONFIRM_S - LOOK_EVERY_S:
            watched.view.last_ack_s = watched.clock.now_s
        return True

    watched = Watched(free)
    assert await watched.run(UNHEARD_S + CONFIRM_S + 5 * LOOK_EVERY_S) is None


async def test_an_acknowledgement_during_the_last_probe_counts() -> None:
    def free(at_s: float) -> bool:
        if at_s >= UNHEARD_S + CONFIRM_S:
            watched.view.last_ack_s = watched.clock.now_s
        return True

    watched = Watched(free)
    assert await watched.run(UNHEARD_S + CONFIRM_S + LOOK_EVERY_S) is None
