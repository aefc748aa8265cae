"""Lost nodes are looked after a while later, ever more seldom, and not while the hub is in trouble. In virtual time."""

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from hub.ssh.probing import DELAYS_S, JITTER, Probes, trouble
from tests.wire.strategies import patiently


def looks(probes: Probes, lost: set[str], *, until_s: float, takes_s: float = 1.0) -> list[tuple[float, str]]:
    """When who was looked at, if looks are made as soon as they are due."""
    found, now_s = [], 0.0
    while now_s <= until_s:
        for node_id in probes.due(lost, now_s):
            found.append((now_s, node_id))
            probes.looked(node_id, now_s + takes_s)
        now_s += 1.0
    return found


def test_the_first_look_and_those_after_it() -> None:
    times = [at for at, _ in looks(Probes(60.0, random.Random(1)), {"a"}, until_s=7200)]
    assert 60.0 <= times[0] <= 60.0 * (1 + JITTER) + 1
    waits = [after - before for before, after in itertools.pairwise(times)]
    for wait, meant in zip(waits, (*DELAYS_S, DELAYS_S[-1], DELAYS_S[-1]), strict=False):
        assert meant * (1 - JITTER) <= wait - 1.0 <= meant * (1 + JITTER) + 1.0
    assert len(waits) >= len(DELAYS_S)


def test_a_node_that_is_back_is_forgotten_and_begins_anew_when_lost_again() -> None:
    probes = Probes(60.0, random.Random(1))
    probes.due({"a"}, 0.0)
    assert probes.due({"a"}, 70.0) == ["a"]
    probes.looked("a", 71.0)
    assert probes.due(set(), 72.0) == []
    assert probes.next_s("a") is None
    probes.looked("a", 73.0)
    assert len(probes) == 0
    assert probes.due({"a"}, 200.0) == []
    assert probes.due({"a"}, 270.0) == ["a"]


@patiently(50)
@given(st.integers(0, 2**32), st.integers(1, 80))
def test_a_fleet_lost_at_once_is_due_within_a_tenth_of_the_wait_and_not_in_one_instant(seed: int, count: int) -> None:
    probes = Probes(60.0, random.Random(seed))
    lost = {f"node-{number:03}" for number in range(count)}
    probes.due(lost, 0.0)
    assert probes.due(lost, 59.9) == []
    assert set(probes.due(lost, 66.1)) == lost
    times = [at for node_id in lost if (at := probes.next_s(node_id)) is not None]
    assert len(set(times)) == count
    due = probes.due(lost, 66.1)
    assert due == sorted(due, key=lambda node_id: probes.next_s(node_id) or 0.0)


def test_a_node_whose_way_in_works_again_is_due_at_once() -> None:
    probes = Probes(60.0, random.Random(1))
    probes.due({"a"}, 0.0)
    probes.looked("a", 70.0)
    assert probes.due({"a"}, 71.0) == []
    probes.hasten("a", 71.0)
    assert probes.due({"a"}, 71.0) == ["a"]
    probes.hasten("stranger", 71.0)
    assert len(probes) == 1


def test_trouble_of_the_hub() -> None:
    def why(**changes: object) -> str:
        usual: dict[str, object] = {"now_s": 100.0, "listening_since_s": 0.0, "settle_s": 10.0, "mass_drop": False}
        return trouble(**(usual | changes))  # type: ignore[arg-type]  # a test's own fields

    assert why() == ""
    assert "just started" in why(listening_since_s=95.0)
    assert "dropped at once" in why(mass_drop=True)
    assert why(listening_since_s=90.0) == ""
