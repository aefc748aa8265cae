"""What becomes a fact: of nodes, of cards, of the hub itself."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from hub.alerts.disks import Forecast
from hub.alerts.facts import Condition, Fact, Picture, Rule
from hub.alerts.gather import Gatherer, Level, Own
from hub.alerts.rules import RULES, Change, changed, judged
from hub.liveness import Limits as Times
from hub.liveness import NodeState
from hub.registry import Registry
from hub.ssh.cause import Cause
from hub.ssh.reach import Reach, State
from hub.ssh.targets import Target
from hub.ssh.verdict import Incident, Problem
from hub.store.alerts import FailingCircuit, JobsGlance
from tests.hub.rig import FakeClock
from tests.hub.test_registry import a_hello, an_agent
from wire.readings import GpuReading, GpuState
from wire.reasons import Reason
from wire.status import NodeStatus, OutboxReading, WorkerReading, WorkerState

LIMITS = {rule: declared.limits for rule, declared in RULES.items()}
NODE = "01900000-0000-7000-8000-000000000001"
QUIET = Own(late_s=0.0, levels={}, keeping=None, failing={}, glance=JobsGlance(oldest_queued_at_ms=None, failing=()))


class World:
    """One node, and what the hub knows beside it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        times = Times(stale_after_s=30, lost_after_s=45, reconnect_spread_s=2, lag_tolerated_s=5)
        self.registry = Registry(self.clock, times)
        self.reach = Reach(node_id=NODE)
        self.examined_at_ms: int | None = 1
        self.told: tuple[list[Incident], list[Problem]] = ([], [])
        self.forecast: Forecast | None = None
        self.registry.add(msgspec.structs.replace(an_agent(), id=NODE))
        self.registry.opened(NODE, "s", a_hello(), "127.0.0.1")
        self.gatherer = Gatherer(
            clock=self.clock, registry=self.registry, ways=self, side=self, forecast=lambda _: self.forecast
        )

    def readiness(self, node_id: str) -> Reach:
        assert node_id == NODE
        return self.reach

    def says(self, **status: Any) -> None:
        self.registry.reported(NODE, NodeStatus(**status), self.clock.time_ms())

    async def look(self, own: Own = QUIET, watched: Mapping[Any, object] | None = None) -> Picture:
        return await self.gatherer.look(LIMITS, watched or {}, own)

    async def bad(self, own: Own = QUIET) -> dict[Rule, Fact]:
        facts = (await self.look(own)).facts
        assert all(fact.condition is Condition.BAD for fact in facts), "of what is well nothing is said"
        return {fact.rule: fact for fact in facts}


@pytest.fixture
def world() -> World:
    return World()


def gpu(**reading: Any) -> GpuReading:
    return GpuReading(**{"uuid": "GPU-1", "index": 3, "throttle_reasons": 0, "temperature_c": 50, **reading})


async def test_of_a_node_that_is_well_nothing_is_said(world: World) -> None:
    world.says(gpus=[gpu()], outbox=OutboxReading(events_held=3, bytes_held=100))
    assert await world.bad() == {}


async def test_what_is_watched_is_looked_at_though_it_is_well(world: World) -> None:
    world.says(gpus=[gpu()])
    facts = (await world.look(watched={(rule, NODE): None for rule in Rule})).facts
    assert {fact.rule: fact.condition for fact in facts} == {
        Rule.NODE_LOST: Condition.GOOD,
        Rule.CLOCK_SKEW: Condition.GOOD,
        Rule.DUPLICATE_IDENTITY: Condition.GOOD,
        Rule.DISK_FORECAST: Condition.HOLD,
        Rule.GPU_FAULT: Condition.GOOD,
        Rule.GPU_TEMPERATURE: Condition.GOOD,
        Rule.GPU_THROTTLING: Condition.GOOD,
        Rule.OUTBOX_GROWING: Condition.HOLD,
    }


async def test_a_lost_nodes_cards_are_neither_well_nor_not(world: World) -> None:
    world.says(gpus=[gpu(state=GpuState.LOST, detail="fell off the bus")])
    assert (await world.bad())[Rule.GPU_FAULT].cause == "lost"
    world.registry.closed(NODE, "s", Reason.GOODBYE, "")
    world.clock.move(1000)
    world.registry.tick(world.clock.monotonic())
    assert world.registry.state(NODE) is NodeState.LOST
    facts = {fact.rule: fact for fact in (await world.look(watched={(rule, NODE): None for rule in Rule})).facts}
    assert facts[Rule.NODE_LOST].condition is Condition.BAD
    assert "goodbye" in facts[Rule.NODE_LOST].detail
    assert {facts[rule].condition for rule in (Rule.GPU_FAULT, Rule.GPU_TEMPERATURE)} == {Condition.HOLD}


async def test_the_worst_card_is_told_with_those_like_it(world: World) -> None:
    degraded = gpu(uuid="GPU-0", index=0, state=GpuState.DEGRADED)
    lost = [gpu(uuid=f"GPU-{n}", index=n, state=GpuState.LOST, detail="fell off the bus") for n in (3, 5)]
    world.says(gpus=[degraded, *lost])
    fact = (await world.bad())[Rule.GPU_FAULT]
    assert fact.detail.endswith("GPU 3, GPU 5 lost: fell off the bus")


async def test_a_card_that_its_worker_does_not_use_is_faulty_whatever_it_says_of_itself(world: World) -> None:
    worker = WorkerReading("cuda:0", WorkerState.IDLE, 1, on_host="the package pycuda is missing")
    world.says(gpus=[gpu()], workers=[worker])
    fact = (await world.bad())[Rule.GPU_FAULT]
    assert fact.cause == "worker_on_host"
    assert fact.detail.endswith(
        "the worker of cuda:0 proves on the CPU instead of its card: the package pycuda is missing"
    )
    world.says(gpus=[gpu()], workers=[WorkerReading("cuda:0", WorkerState.IDLE, 1)])
    assert Rule.GPU_FAULT not in await world.bad()


async def test_heat_and_brakes(world: World) -> None:
    world.says(gpus=[gpu(temperature_c=91), gpu(uuid="GPU-2", index=4, throttle_reasons=0x40)])
    bad = await world.bad()
    assert "GPU 3 has 91 °C" in bad[Rule.GPU_TEMPERATURE].detail
    assert "GPU 4 slowed down (reason bits 0x40)" in bad[Rule.GPU_THROTTLING].detail
    world.says(gpus=[gpu(temperature_c=91, age_s=60.0), gpu(uuid="GPU-2", throttle_reasons=0x4)])
    assert await world.bad() == {}, "stale readings and a power limit in force are no reason"


async def test_an_outbox_that_empties_is_no_matter(world: World) -> None:
    for held in (20_000, 15_000, 10_000):
        world.says(outbox=OutboxReading(events_held=held, bytes_held=held))
        bad = await world.bad()
        world.clock.move(10)
    assert bad == {}
    for held in (10_000, 12_000, 25_000):
        world.says(outbox=OutboxReading(events_held=held, bytes_held=held))
        bad = await world.bad()
        world.clock.move(10)
    assert "holds 25000 events" in bad[Rule.OUTBOX_GROWING].detail


async def test_a_broken_way_in_is_common_while_there_is_an_incident_of_its_cause(world: World) -> None:
    target = Target(host="h", port=22, user="u")
    world.reach = msgspec.structs.replace(
        Reach(node_id=NODE, target=target),
        state=State.BROKEN,
        cause=Cause.IDENTITY_REFUSED,
        evidence="Permission denied",
    )
    fact = (await world.bad())[Rule.FALLBACK_BROKEN]
    assert (fact.cause, fact.common) == ("identity_refused", False)
    assert "Permission denied" in fact.detail
    incident = Incident(cause=Cause.IDENTITY_REFUSED, nodes=(NODE,), fleet=1, since_ms=1, ours=False, problems=())
    world.told = ([incident], [])
    assert (await world.bad())[Rule.FALLBACK_BROKEN].common


async def test_a_second_machine_with_the_nodes_key(world: World) -> None:
    world.registry.refused(NODE, Reason.DUPLICATE_IDENTITY, "another machine has this key")
    assert (await world.bad())[Rule.DUPLICATE_IDENTITY].detail == "another machine has this key"
    world.clock.move(700)
    world.says()
    assert Rule.DUPLICATE_IDENTITY not in await world.bad()


async def test_the_hub_itself(world: World) -> None:
    world.told = ([], [Problem(Cause.KEY_MISSING, "there is no key", 1)])
    world.forecast = Forecast(5.0, "root", 2e9, 1)
    own = Own(
        late_s=2.0,
        levels={"store_writes": Level(900, 1000), "handshakes": Level(1, 256)},
        keeping=None,
        failing={"c": ("on call", "refused")},
        glance=JobsGlance(
            oldest_queued_at_ms=world.clock.time_ms() - 1_000_000,
            failing=(FailingCircuit(circuit_id="x", name="merkle8", failed=2, last_job="j", last_detail="no memory"),),
        ),
    )
    bad = await world.bad(own)
    assert bad.keys() == {
        Rule.DISK_FORECAST,
        Rule.HUB_LAG,
        Rule.HUB_OVERLOAD,
        Rule.HUB_SELFCHECK,
        Rule.JOB_FAILING,
        Rule.NOTICE_UNDELIVERED,
        Rule.QUEUE_AGE,
    }
    assert bad[Rule.HUB_OVERLOAD].subject == "store_writes"
    assert bad[Rule.JOB_FAILING].detail == "2 failed, the last j: no memory"
    assert "root disk is full in 5 h" in bad[Rule.DISK_FORECAST].detail


async def test_what_the_hub_cannot_know_yet_is_said_to_be_unknown(world: World) -> None:
    world.examined_at_ms = None
    picture = await world.look(msgspec.structs.replace(QUIET, glance=None))
    assert picture.unsure == {Rule.HUB_SELFCHECK, Rule.JOB_FAILING, Rule.QUEUE_AGE}


def test_thresholds_come_in_pairs_and_either_way() -> None:
    hot, full = LIMITS[Rule.GPU_TEMPERATURE], LIMITS[Rule.DISK_FORECAST]
    assert [judged(Rule.GPU_TEMPERATURE, hot, value) for value in (90, 87, 85, 84, None)] == [
        Condition.BAD,
        Condition.HOLD,
        Condition.GOOD,
        Condition.GOOD,
        Condition.HOLD,
    ]
    assert [judged(Rule.DISK_FORECAST, full, value) for value in (24, 30, 36, 37)] == [
        Condition.BAD,
        Condition.HOLD,
        Condition.GOOD,
        Condition.GOOD,
    ]
    assert judged(Rule.JOB_FAILING, LIMITS[Rule.JOB_FAILING], 1) is Condition.BAD
    assert judged(Rule.JOB_FAILING, LIMITS[Rule.JOB_FAILING], 0) is Condition.GOOD


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        (Rule.GPU_TEMPERATURE, Change(clear=95.0)),
        (Rule.DISK_FORECAST, Change(clear=1.0)),
        (Rule.NODE_LOST, Change(bad=1.0)),
        (Rule.NODE_LOST, Change(hold_s=float("nan"))),
        (Rule.GPU_TEMPERATURE, Change(bad=float("inf"))),
    ],
)
def test_changes_that_make_no_sense_are_refused(rule: Rule, change: Change) -> None:
    with pytest.raises(ValueError, match=r"must|no thresholds"):
        changed(rule, LIMITS[rule], change)
