"""What the hub knows, as facts for the rules. From memory alone, in bounded pieces; nothing here decides about time.

A fact is made where something is bad, and of a subject that is watched already. Of the others nothing is said, and so
nothing is kept: a fleet that is well costs a look.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Protocol

from msgspec import UNSET, Struct

from hub.alerts.disks import Forecast
from hub.alerts.engine import Key
from hub.alerts.facts import HUB, Condition, Fact, Picture, Rule
from hub.alerts.rules import Limits, judged
from hub.alerts.trend import Trend
from hub.clock import Clock
from hub.liveness import NodeState
from hub.registry import Node, Registry
from hub.retention import Keeping
from hub.series import THROTTLE_HARDWARE, THROTTLE_THERMAL
from hub.ssh.reach import Reach, State
from hub.ssh.verdict import Incident, Problem
from hub.store.alerts import JobsGlance
from wire.readings import GpuReading, GpuState
from wire.reasons import Reason
from wire.text import clipped

NODES_AT_ONCE = 50
"""Nodes looked at before others get their turn on the loop."""
STATUSES_AT_A_LOOK = 400
"""Statuses are put together when asked for: of a larger fleet so many at one look, in turn."""
CARDS_NAMED_MAX = 4
FREE_BYTES_MIN = 1024**3
"""With less the hub's disk is all but full, whatever the forecast."""
HOUR_S = 3600.0
MINUTES_FROM_S = 120.0
_GPU_RULES = (Rule.GPU_FAULT, Rule.GPU_TEMPERATURE, Rule.GPU_THROTTLING, Rule.OUTBOX_GROWING)
_WORST = (
    GpuState.LOST,
    GpuState.ABSENT,
    GpuState.DRIVER_HUNG,
    GpuState.DRIVER_MISMATCH,
    GpuState.DEGRADED,
)


class Ways(Protocol):
    """What is known of the ways in by ssh."""

    def readiness(self, node_id: str) -> Reach:
        """Of one node."""


class Side(Protocol):
    """What the hub found about itself and about many nodes."""

    examined_at_ms: int | None

    @property
    def told(self) -> tuple[list[Incident], list[Problem]]:
        """Incidents and problems."""


class Level(Struct, frozen=True):
    """How full something of the hub is."""

    value: float
    bound: float


class Own(Struct, frozen=True, kw_only=True):
    """What the hub knows of itself at this moment."""

    late_s: float
    """How late its own loop ran at worst, lately."""
    levels: Mapping[str, Level]
    keeping: Keeping | None
    failing: Mapping[str, tuple[str, str]]
    """Channels that take no notices: by id, their name and the last failure."""
    glance: JobsGlance | None
    """None: the store could not be read."""


class Gatherer:
    """Looks at everything in turn."""

    def __init__(
        self,
        *,
        clock: Clock,
        registry: Registry,
        ways: Ways,
        side: Side,
        forecast: Callable[[str], Forecast | None],
    ) -> None:
        self._clock = clock
        self._registry = registry
        self._ways = ways
        self._side = side
        self._forecast = forecast
        self._trend = Trend(clock)
        self._read: dict[str, tuple[Fact, ...]] = {}
        """What the status of each node last gave."""
        self._next = 0

    async def look(self, limits: Mapping[Rule, Limits], watched: Mapping[Key, object], own: Own) -> Picture:
        """All facts that matter now."""

        def wanted(fact: Fact) -> bool:
            return fact.condition is Condition.BAD or (fact.rule, fact.subject) in watched

        facts: list[Fact] = []
        nodes = self._registry.nodes()
        self._read = {node.id: self._read[node.id] for node in nodes if node.id in self._read}
        self._trend.keep(self._read)
        turn = {nodes[(self._next + step) % len(nodes)].id for step in range(min(STATUSES_AT_A_LOOK, len(nodes)))}
        self._next += len(turn)
        common = {incident.cause.value for incident in self._side.told[0]}
        for number, node in enumerate(nodes):
            if node.id in turn or any((rule, node.id) in watched for rule in _GPU_RULES):
                self._read[node.id] = tuple(self._from_status(node, limits))
            facts += filter(wanted, (*self._from_node(node, limits, common), *self._read.get(node.id, ())))
            if number % NODES_AT_ONCE == NODES_AT_ONCE - 1:
                await asyncio.sleep(0)
        facts += filter(wanted, self._from_hub(limits, own))
        unsure = {Rule.HUB_SELFCHECK} if self._side.examined_at_ms is None else set()
        if own.glance is None:
            unsure |= {Rule.JOB_FAILING, Rule.QUEUE_AGE}
        return Picture(facts=tuple(facts), unsure=frozenset(unsure))

    # --- of nodes

    def _from_node(self, node: Node, limits: Mapping[Rule, Limits], common: set[str]) -> Iterator[Fact]:
        yield self._lost(node)
        reach = self._ways.readiness(node.id)
        if reach.target is not None:
            yield self._fallback(node, reach, common)
        skew_s = None if node.clock_skew_ms is None or not node.connected else abs(node.clock_skew_ms) / 1000
        doubted = self._registry.remarks.hub_clock_doubted
        yield self._fact(
            Rule.CLOCK_SKEW,
            node,
            judged(Rule.CLOCK_SKEW, limits[Rule.CLOCK_SKEW], skew_s),
            f"{node.name}'s clock is {(node.clock_skew_ms or 0) / 1000:+.0f} s from the hub's",
            cause="hub_clock" if doubted else "",
            common=doubted,
        )
        if node.last_reason_code == Reason.DUPLICATE_IDENTITY and node.last_reason_at_ms is not None:
            ago_s = (self._clock.time_ms() - node.last_reason_at_ms) / 1000
            condition = judged(Rule.DUPLICATE_IDENTITY, limits[Rule.DUPLICATE_IDENTITY], max(0.0, ago_s))
            yield self._fact(Rule.DUPLICATE_IDENTITY, node, condition, node.last_reason_detail)
        else:
            yield self._fact(Rule.DUPLICATE_IDENTITY, node, Condition.GOOD, "")
        forecast = self._forecast(node.id)
        yield self._fact(
            Rule.DISK_FORECAST,
            node,
            judged(Rule.DISK_FORECAST, limits[Rule.DISK_FORECAST], None if forecast is None else forecast.hours),
            "" if forecast is None else _until(forecast),
        )

    def _lost(self, node: Node) -> Fact:
        condition = {
            NodeState.LOST: Condition.BAD,
            NodeState.ONLINE: Condition.GOOD,
            NodeState.NEVER: Condition.GOOD,
        }.get(node.state, Condition.HOLD)
        mass = node.dropped_s is not None and self._registry.drops.spares(node.dropped_s)
        age_s = self._registry.frame_age_s(node) or 0.0
        said = ", after a goodbye" if node.last_reason_code == Reason.GOODBYE else ""
        age = f"{age_s:.0f} s" if age_s < MINUTES_FROM_S else f"{age_s / 60:.0f} min"
        return self._fact(
            Rule.NODE_LOST,
            node,
            condition,
            f"nothing was heard of {node.name} for {age}{said}",
            cause="mass_drop" if mass else "",
            common=mass,
        )

    def _fallback(self, node: Node, reach: Reach, common: set[str]) -> Fact:
        condition = {State.BROKEN: Condition.BAD, State.PROVED: Condition.GOOD}.get(reach.state, Condition.HOLD)
        broken = condition is Condition.BAD
        return self._fact(
            Rule.FALLBACK_BROKEN,
            node,
            condition,
            f"{node.name}: {reach.why_broken}" if broken else "",
            cause=reach.cause.value if broken else "",
            common=broken and reach.cause.value in common,
        )

    def _from_status(self, node: Node, limits: Mapping[Rule, Limits]) -> Iterator[Fact]:
        """What a node said of its cards and its outbox. While nothing is heard of it, it is not known."""
        if node.state is not NodeState.ONLINE:
            for rule in _GPU_RULES:
                yield self._fact(rule, node, Condition.HOLD, "")
            return
        status = node.status
        gpus: list[GpuReading] = [] if status.gpus is UNSET else list(status.gpus)
        yield self._faulty(node, gpus)
        fresh = [gpu for gpu in gpus if gpu.age_s is None]
        hottest = max((gpu for gpu in fresh if gpu.temperature_c is not None), key=_celsius, default=None)
        yield self._fact(
            Rule.GPU_TEMPERATURE,
            node,
            judged(Rule.GPU_TEMPERATURE, limits[Rule.GPU_TEMPERATURE], _celsius(hottest) if hottest else None)
            if gpus
            else Condition.GOOD,
            f"{node.name}: {_card(hottest)} has {_celsius(hottest)} °C" if hottest else "",
        )
        slowed = [gpu for gpu in fresh if (gpu.throttle_reasons or 0) & (THROTTLE_THERMAL | THROTTLE_HARDWARE)]
        unknown = bool(gpus) and all(gpu.throttle_reasons is None for gpu in fresh)
        yield self._fact(
            Rule.GPU_THROTTLING,
            node,
            Condition.BAD if slowed else Condition.HOLD if unknown else Condition.GOOD,
            f"{node.name}: {_cards(slowed)} slowed down (reason bits {slowed[0].throttle_reasons:#x})"
            if slowed
            else "",
        )
        held = None if status.outbox is UNSET else status.outbox.events_held
        condition = judged(Rule.OUTBOX_GROWING, limits[Rule.OUTBOX_GROWING], held)
        if self._trend.falls(node.id, held) and condition is Condition.BAD:
            condition = Condition.HOLD
        yield self._fact(Rule.OUTBOX_GROWING, node, condition, f"{node.name} holds {held} events unacknowledged")

    def _faulty(self, node: Node, gpus: list[GpuReading]) -> Fact:
        bad = [gpu for gpu in gpus if gpu.state is not GpuState.OK]
        worst = min(bad, key=lambda gpu: _WORST.index(gpu.state), default=None)
        if worst is None:
            return self._unused(node)
        alike = [gpu for gpu in bad if gpu.state is worst.state]
        why = f": {worst.detail}" if worst.detail else ""
        return self._fact(
            Rule.GPU_FAULT,
            node,
            Condition.BAD,
            f"{node.name}: {_cards(alike)} {worst.state.value.replace('_', ' ')}{why}",
            cause=worst.state.value,
        )

    def _unused(self, node: Node) -> Fact:
        """No card says that it is faulty; the worker of one may prove on the CPU all the same."""
        workers = () if node.status.workers is UNSET else node.status.workers
        found = next((worker for worker in workers if worker.on_host), None)
        if found is None:
            return self._fact(Rule.GPU_FAULT, node, Condition.GOOD, "")
        said = f"{node.name}: the worker of {found.device} proves on the CPU instead of its card: {found.on_host}"
        return self._fact(Rule.GPU_FAULT, node, Condition.BAD, clipped(said), cause="worker_on_host")

    def _fact(
        self, rule: Rule, node: Node, condition: Condition, detail: str, *, cause: str = "", common: bool = False
    ) -> Fact:
        return Fact(
            rule=rule,
            subject=node.id,
            name=node.name,
            condition=condition,
            node_id=node.id,
            detail=detail,
            cause=cause,
            common=common,
        )

    # --- of the hub

    def _from_hub(self, limits: Mapping[Rule, Limits], own: Own) -> Iterator[Fact]:
        late = judged(Rule.HUB_LAG, limits[Rule.HUB_LAG], own.late_s)
        yield _of_hub(Rule.HUB_LAG, late, f"the loop ran {own.late_s:.1f} s late")
        for name, level in own.levels.items():
            condition = judged(Rule.HUB_OVERLOAD, limits[Rule.HUB_OVERLOAD], level.value / max(level.bound, 1.0))
            said = f"{name}: {level.value:.0f} of {level.bound:.0f}"
            yield _of_hub(Rule.HUB_OVERLOAD, condition, said, subject=name)
        if own.keeping is not None:
            hours = None if own.keeping.full_in_s is None else own.keeping.full_in_s / HOUR_S
            free = f"{own.keeping.disk_free_bytes / 1e9:.1f} GB free on the hub's disk"
            full = own.keeping.disk_free_bytes < FREE_BYTES_MIN
            yield _of_hub(Rule.HUB_STORE, Condition.BAD if full else Condition.GOOD, free)
            hours = inf if hours is None else hours
            said = f"{free}; full in {hours:.0f} h"
            yield _of_hub(Rule.HUB_DISK, judged(Rule.HUB_DISK, limits[Rule.HUB_DISK], hours), said)
        else:
            for rule in (Rule.HUB_STORE, Rule.HUB_DISK):
                yield _of_hub(rule, Condition.HOLD, "")
        for problem in self._side.told[1]:
            yield Fact(
                rule=Rule.HUB_SELFCHECK,
                subject=problem.cause.value,
                name=problem.cause.value.replace("_", " "),
                condition=Condition.BAD,
                detail=problem.sentence,
                remedy=problem.remedy,
            )
        for channel_id, (name, failure) in own.failing.items():
            yield Fact(
                rule=Rule.NOTICE_UNDELIVERED, subject=channel_id, name=name, condition=Condition.BAD, detail=failure
            )
        if own.glance is not None:
            yield from self._from_jobs(limits, own.glance)

    def _from_jobs(self, limits: Mapping[Rule, Limits], glance: JobsGlance) -> Iterator[Fact]:
        oldest_ms = glance.oldest_queued_at_ms
        age_s = 0.0 if oldest_ms is None else max(0.0, (self._clock.time_ms() - oldest_ms) / 1000)
        waits = f"the oldest queued job waits for {age_s / 60:.0f} min"
        yield _of_hub(Rule.QUEUE_AGE, judged(Rule.QUEUE_AGE, limits[Rule.QUEUE_AGE], age_s), waits)
        for one in glance.failing:
            yield Fact(
                rule=Rule.JOB_FAILING,
                subject=one.circuit_id,
                name=one.name,
                condition=judged(Rule.JOB_FAILING, limits[Rule.JOB_FAILING], one.failed),
                detail=f"{one.failed} failed, the last {one.last_job}: {one.last_detail}",
            )
        for circuit_id, name in glance.well:
            yield Fact(rule=Rule.JOB_FAILING, subject=circuit_id, name=name, condition=Condition.GOOD)


def _of_hub(rule: Rule, condition: Condition, detail: str, *, subject: str = HUB) -> Fact:
    return Fact(rule=rule, subject=subject, name=subject.replace("_", " "), condition=condition, detail=detail)


def _celsius(gpu: GpuReading) -> int:
    return gpu.temperature_c or 0


def _card(gpu: GpuReading) -> str:
    return f"GPU {gpu.uuid if gpu.index is None else gpu.index}"


def _cards(gpus: list[GpuReading]) -> str:
    more = len(gpus) - CARDS_NAMED_MAX
    return ", ".join(map(_card, gpus[:CARDS_NAMED_MAX])) + (f" and {more} more" if more > 0 else "")


def _until(forecast: Forecast) -> str:
    left = "is full" if forecast.hours == 0 else f"is full in {forecast.hours:.0f} h if it goes on like this"
    return f"the {forecast.disk} disk {left}; {forecast.free_bytes / 1e9:.1f} GB free"
