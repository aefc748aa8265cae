"""Many nodes and one cause are one incident."""

from hypothesis import given
from hypothesis import strategies as st

from hub.ssh.cause import REMEDIES, Cause
from hub.ssh.verdict import FLEET_SHARE, NODES_MIN, OURS, Failure, Problem, incidents
from tests.wire.strategies import patiently

T0 = 1_764_000_000_000


def failing(count: int, cause: Cause = Cause.IDENTITY_REFUSED, *, every_ms: int = 100, first: int = 0) -> list[Failure]:
    return [Failure(f"node-{first + n:03}", cause, T0 + n * every_ms) for n in range(count)]


def test_the_day_every_node_refused_the_key() -> None:
    replaced = Problem(Cause.IDENTITY_REFUSED, "the hub's key was replaced: SHA256:a before, SHA256:b now", T0 - 60_000)
    (found,) = incidents(failing(58), 60, [replaced])
    assert found.headline == "58 of 60 nodes, one cause: identity refused"
    assert (found.since_ms, len(found.nodes)) == (T0, 58)
    assert found.problems == (replaced,)
    assert "ssh-key install --all" in replaced.remedy
    assert found.remedy == REMEDIES[Cause.IDENTITY_REFUSED]
    assert not found.ours, "what the hub found stands beside it, and is not said to be the reason"


def test_few_or_slow_or_unlike_failures_are_no_incident() -> None:
    assert incidents(failing(2), 5) == []
    assert incidents(failing(11), 60) == []
    assert len(incidents(failing(12), 60)) == 1
    assert incidents(failing(12, every_ms=10_000), 60) == []
    mixed = failing(8) + failing(8, Cause.REFUSED, first=20)
    assert incidents(mixed, 60) == []


def test_two_causes_are_two_incidents_the_larger_first() -> None:
    both = failing(12) + failing(20, Cause.CONNECT_TIMED_OUT, first=20)
    assert [len(found.nodes) for found in incidents(both, 60)] == [20, 12]


def test_nodes_that_follow_later_belong_to_it_and_it_keeps_its_beginning() -> None:
    late = Failure("node-900", Cause.IDENTITY_REFUSED, T0 + 3_600_000)
    early = Failure("node-800", Cause.IDENTITY_REFUSED, T0 - 3_600_000)
    (found,) = incidents([early, *failing(12), late], 60)
    assert len(found.nodes) == 14
    assert found.since_ms == T0


def test_a_cause_of_ours_is_said_to_be_ours() -> None:
    (found,) = incidents(failing(12, Cause.KEY_MISSING), 60)
    assert found.ours
    assert found.remedy == REMEDIES[Cause.KEY_MISSING]
    assert Cause.HOST_KEY_CHANGED not in OURS


@patiently(200)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from(list(Cause)), st.integers(0, 200_000)), max_size=60),
    st.integers(1, 100),
)
def test_an_incident_has_enough_nodes_and_the_order_of_failures_does_not_matter(
    drawn: list[tuple[int, Cause, int]], fleet: int
) -> None:
    failures = list({node: Failure(f"n{node}", cause, T0 + at) for node, cause, at in drawn}.values())
    found = incidents(failures, fleet)
    assert found == incidents(failures[::-1], fleet)
    for incident in found:
        assert len(incident.nodes) >= max(NODES_MIN, fleet * FLEET_SHARE)
        assert len(set(incident.nodes)) == len(incident.nodes)
