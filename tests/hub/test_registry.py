import pytest

from hub.liveness import Limits, NodeState
from hub.registry import Node, Registry
from hub.store.records import Agent
from tests.hub.rig import FakeClock
from wire.frames import Hello
from wire.status import JobProgress, NodeStatus

LIMITS = Limits(stale_after_s=30.0, lost_after_s=45.0, reconnect_spread_s=10.0, lag_tolerated_s=5.0)
ID = "01900000-0000-7000-8000-000000000001"
JOB = "01900000-0000-7000-8000-000000000002"


def an_agent(**changes: object) -> Agent:
    values: dict[str, object] = {
        "id": ID,
        "name": "n",
        "public_key": b"k" * 32,
        "enrollment_id": "e",
        "token_id": "t",
        "created_at_ms": 1,
    }
    return Agent(**(values | changes))  # type: ignore[arg-type]  # each test names fields of the record


def a_hello(*capabilities: str) -> Hello:
    return Hello(
        agent_id=ID,
        epoch=ID,
        boot_id="b",
        nonce=b"n" * 32,
        version="1",
        minor=0,
        time_ms=1,
        name="said",
        capabilities=list(capabilities or ("groth16.host",)),
    )


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def registry(clock: FakeClock) -> Registry:
    made = Registry(clock, LIMITS)
    made.add(an_agent())
    return made


def seen(registry: Registry) -> Node:
    node = registry.node(ID)
    assert node is not None
    return node


def ticks(registry: Registry, clock: FakeClock, seconds: int) -> list[NodeState]:
    """The states a node goes through, tick by tick."""
    states = []
    for _ in range(seconds):
        clock.move(1.0)
        states += [node.state for node in registry.tick(clock.monotonic())]
    return states


def test_the_life_of_a_node(registry: Registry, clock: FakeClock) -> None:
    assert seen(registry).state is NodeState.NEVER
    assert ticks(registry, clock, 100) == []
    registry.opened(ID, "s1", a_hello(), "10.0.0.1")
    assert (seen(registry).state, seen(registry).name, seen(registry).remote) == (NodeState.ONLINE, "said", "10.0.0.1")
    assert ticks(registry, clock, 50) == [NodeState.STALE, NodeState.LOST]
    registry.heard(ID)
    assert ticks(registry, clock, 1) == [NodeState.ONLINE]
    registry.closed(ID, "s1", 22, "cut")
    assert (seen(registry).state, seen(registry).last_reason_code) == (NodeState.RECONNECTING, 22)
    assert ticks(registry, clock, 50) == [NodeState.LOST]
    registry.opened(ID, "s2", a_hello(), "10.0.0.1")
    assert seen(registry).state is NodeState.ONLINE


def test_the_end_of_an_old_session_does_not_end_the_new_one(registry: Registry) -> None:
    registry.opened(ID, "s1", a_hello(), "a")
    registry.opened(ID, "s2", a_hello(), "b")
    assert registry.closed(ID, "s1", 18, "replaced") is None
    assert seen(registry).session == "s2"
    assert seen(registry).last_reason_code is None


def test_a_restarted_hub_shows_what_was_last_known_and_calls_nobody_lost_too_soon(clock: FakeClock) -> None:
    heard_at_ms = clock.time_ms() - 7000
    registry = Registry(clock, LIMITS)
    registry.restore([(an_agent(last_heard_at_ms=heard_at_ms, last_reason_code=1), NodeStatus(hostname="h"))])
    node = seen(registry)
    assert (node.state, node.status.hostname, node.last_reason_code) == (NodeState.RECONNECTING, "h", 1)
    assert registry.frame_age_s(node) == pytest.approx(7.0)
    assert ticks(registry, clock, 74) == []
    assert ticks(registry, clock, 2) == [NodeState.LOST]


def test_a_hitch_of_the_hub_makes_nobody_lost(registry: Registry, clock: FakeClock) -> None:
    registry.opened(ID, "s1", a_hello(), "a")
    due_s = clock.monotonic() + 1.0
    clock.move(3600.0)
    assert registry.tick(due_s) == []
    assert seen(registry).state is NodeState.ONLINE


def test_the_skew_of_a_nodes_clock_and_the_age_of_its_last_frame(registry: Registry, clock: FakeClock) -> None:
    assert registry.frame_age_s(seen(registry)) is None
    registry.opened(ID, "s1", a_hello(), "a")
    registry.reported(ID, NodeStatus(hostname="h"), clock.time_ms() - 2500)
    clock.move(4.0)
    assert seen(registry).clock_skew_ms == -2500
    assert registry.frame_age_s(seen(registry)) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("capabilities", "draining", "proves"),
    [
        (("groth16.host",), None, True),
        (("groth16.cuda",), False, True),
        (("groth16.host",), True, False),
        (("groth16.host", "observe"), None, False),
        (("something.new",), None, False),
    ],
)
def test_who_may_be_given_jobs(
    registry: Registry, capabilities: tuple[str, ...], *, draining: bool | None, proves: bool
) -> None:
    registry.opened(ID, "s1", a_hello(*capabilities), "a")
    if draining is not None:
        registry.reported(ID, NodeStatus(draining=draining), 1)
    assert seen(registry).proves is proves


def test_progress_is_of_one_attempt_and_of_the_node_that_holds_it(registry: Registry) -> None:
    registry.opened(ID, "s1", a_hello(), "a")
    progress = JobProgress(JOB, 2, "msm", 3, 10)
    registry.reported(ID, NodeStatus(jobs=[progress]), 1)
    assert registry.progress(ID, JOB, 2) == progress
    assert registry.progress(ID, JOB, 1) is None
    assert registry.progress(None, JOB, 2) is None


def test_a_revoked_node_is_gone_and_news_of_it_is_passed_over(registry: Registry) -> None:
    assert registry.remove(ID)
    assert not registry.remove(ID)
    assert registry.reported(ID, NodeStatus(), 1) is None
    registry.heard(ID)
    assert registry.add(an_agent(revoked_at_ms=5)) is None
    assert len(registry) == 0
