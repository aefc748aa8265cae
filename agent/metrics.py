"""What Prometheus reads of one agent: gauges from memory at the moment of the scrape, and counters since its start.

Labels are a fixed set: states, streams, reasons, sensors, kinds of sources, UUIDs of cards. No job ids and no texts. A
series whose value is not known now is not there: no old value is taken for a present one.

The library is imported at the first scrape: an agent that nobody scrapes does not pay for it.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from agent.board import Board
from agent.clock import Clock
from agent.faults import FAULTS
from agent.local_status import is_healthy
from agent.logs.shipper import LogCounts
from agent.outbox import Outbox
from agent.tally import Timing
from agent.uplink import State, UplinkView
from wire.engines import EngineReading, EngineState
from wire.events import Stream
from wire.limits import JOBS_HELD_MAX
from wire.readings import GpuReading, GpuState, HostReading
from wire.status import WorkerState

if TYPE_CHECKING:
    from prometheus_client.core import Metric

PREFIX = "provewire_agent_"
LAG_TICK_S = 0.5
STALE_S = 60.0
"""Readings of a sensor that gave none for this long are withdrawn."""
HOST_GAUGES = (
    "cpu_used_ratio",
    "cpu_limit_cores",
    "load_1min",
    "memory_total_bytes",
    "memory_used_bytes",
    "memory_limit_bytes",
    "memory_limit_used_bytes",
    "swap_used_bytes",
    "disk_total_bytes",
    "disk_free_bytes",
    "root_disk_free_bytes",
    "disk_inodes_free",
    "temperature_c",
    "open_files_used",
    "open_files_limit",
)
HOST_COUNTERS = ("network_rx_bytes", "network_tx_bytes", "network_errors")
GPU_GAUGES = (
    "utilization_ratio",
    "memory_utilization_ratio",
    "memory_total_bytes",
    "memory_used_bytes",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "temperature_c",
    "memory_temperature_c",
    "power_draw_mw",
    "power_limit_mw",
    "fan_ratio",
    "pcie_generation",
    "pcie_width",
    "pcie_rx_bytes_per_s",
    "pcie_tx_bytes_per_s",
    "nvlinks_active",
    "throttle_reasons",
    "retired_pages",
)
GPU_COUNTERS = (
    "energy_mj",
    "pcie_replays",
    "ecc_corrected_aggregate",
    "ecc_uncorrected_aggregate",
    "remapped_rows_uncorrected",
    "xid_count",
)
ENGINE_GAUGES = ("queued", "synthesis_active", "memory_total_bytes", "memory_used_bytes", "completed", "failed")


class LoopLag:
    """How late the event loop wakes a sleeper, in seconds."""

    def __init__(self) -> None:
        self.last_s = 0.0
        self.max_s = 0.0

    async def run(self) -> None:
        """Measure, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + LAG_TICK_S
            await asyncio.sleep(LAG_TICK_S)
            self.last_s = max(0.0, loop.time() - due_s)
            self.max_s = max(self.max_s, self.last_s)


class Parts(Struct, frozen=True):
    """Where the figures come from."""

    version: str
    started_s: float
    clock: Clock
    view: UplinkView
    board: Board
    outbox: Outbox
    outbox_bytes_max: int
    lag: LoopLag
    logs: LogCounts | None
    """None before the first log is shipped."""


def render(parts: Parts) -> bytes:
    """The text of one scrape."""
    from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415 - see the module
    from prometheus_client.process_collector import ProcessCollector  # noqa: PLC0415 - same

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Scrape(parts))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Scrape:
    """One scrape's collector."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._now_s = parts.clock.monotonic()

    def collect(self) -> "Iterator[Metric]":
        """Every family of ours."""
        parts = self._parts
        yield _gauge("build", "Version of the agent; always 1.", [((parts.version,), 1.0)], ("version",))
        yield _gauge("uptime_seconds", "Since its start.", [((), self._now_s - parts.started_s)])
        yield _gauge("loop_lag_seconds", "How late the event loop woke its last sleeper.", [((), parts.lag.last_s)])
        yield _gauge("loop_lag_max_seconds", "The same, at most since the start.", [((), parts.lag.max_s)])
        yield from self._hub()
        yield from self._queues()
        yield from self._outbox()
        yield from self._logs()
        yield from self._sensors()
        if self._is_fresh("host") and parts.board.host is not None:
            yield from _host(parts.board.host)
        if self._is_fresh("gpu"):
            yield from _gpus(parts.board.gpus)
        yield from _engines(parts.board.engines)
        workers = [worker.state for worker in parts.board.workers()]
        counts = {(state.value,): float(workers.count(state)) for state in WorkerState}
        yield _gauge("workers", "Workers by state.", counts.items(), ("state",))
        faults = {(part,): float(count) for part, count in FAULTS.items()}
        yield _counter("internal_faults", "Bugs; the log has each with its cause.", faults.items(), ("part",))

    def _hub(self) -> "Iterator[Metric]":
        view = self._parts.view
        states = {(state.value,): float(view.state is state) for state in State}
        yield _gauge("session_state", "1 for the state the way to the hub is in.", states.items(), ("state",))
        yield _gauge("healthy", "Whether the hub hears the agent.", [((), float(is_healthy(view, self._now_s)))])
        if view.last_ack_s is not None:
            age_s = max(0.0, self._now_s - view.last_ack_s)
            yield _gauge("last_acknowledged_age_seconds", "Since the hub acknowledged anything.", [((), age_s)])
        if view.clock_skew_ms is not None:
            skew_s = view.clock_skew_ms / 1000
            yield _gauge("clock_skew_seconds", "The hub's clock less this one's, at the last welcome.", [((), skew_s)])
        yield _counter("sessions", "Sessions opened.", [((), view.tally.opened)])
        ends = {(name,): float(count) for name, count in view.tally.ends.items()}
        yield _counter("session_ends", "Sessions, and attempts to have one, that ended.", ends.items(), ("reason",))
        yield _summary("frame_send_seconds", "Until the socket took a frame.", [((), view.tally.sends)])
        yield _counter("sent_bytes", "In frames the socket took.", [((), view.tally.bytes_sent)])

    def _queues(self) -> "Iterator[Metric]":
        """Everything that can fill up, beside its bound."""
        parts = self._parts
        levels = {
            "outbox_bytes": (parts.outbox.reading.bytes_held, parts.outbox_bytes_max),
            "jobs": (len(parts.board.jobs()), JOBS_HELD_MAX),
        }
        if parts.logs is not None:
            levels["log_bytes_today"] = (parts.logs.bytes_today, parts.logs.bytes_per_day)
        depths = {(name,): float(depth) for name, (depth, _) in levels.items()}
        bounds = {(name,): float(bound) for name, (_, bound) in levels.items()}
        yield _gauge("queue_depth", "What waits or is taken.", depths.items(), ("queue",))
        yield _gauge("queue_bound", "At most this much.", bounds.items(), ("queue",))

    def _outbox(self) -> "Iterator[Metric]":
        outbox = self._parts.outbox
        counts = outbox.counts
        held = {stream: counts.held.get(stream) for stream in Stream}
        events = {(stream.value,): float(each.events) if each else 0.0 for stream, each in held.items()}
        sizes = {(stream.value,): float(each.bytes_) if each else 0.0 for stream, each in held.items()}
        yield _gauge("outbox_events", "Held and not acknowledged.", events.items(), ("stream",))
        yield _gauge("outbox_bytes", "The same in bytes.", sizes.items(), ("stream",))
        dropped = {(stream.value, reason.value): float(n) for (stream, reason), n in counts.dropped.items()}
        yield _counter("outbox_dropped", "Given up; each is covered by a gap.", dropped.items(), ("stream", "reason"))
        refused = {(stream.value,): float(n) for stream, n in counts.refused.items()}
        yield _counter("outbox_refused", "Never stored: the disk took nothing.", refused.items(), ("stream",))
        yield _summary("outbox_commit_seconds", "Until a batch was durable.", [((), outbox.commits)])

    def _logs(self) -> "Iterator[Metric]":
        logs = self._parts.logs
        if logs is None:
            return
        shipped = {(source,): float(count) for source, count in logs.shipped.items()}
        yield _counter("log_records_shipped", "By kind of source.", shipped.items(), ("source",))
        suppressed = {(source, reason.value): float(n) for (source, reason), n in logs.suppressed.items()}
        yield _counter("log_records_suppressed", "Not shipped.", suppressed.items(), ("source", "reason"))
        waits = float(logs.waiting_for_disk)
        yield _gauge("logs_waiting_for_disk", "1 while the disk takes no log records.", [((), waits)])

    def _sensors(self) -> "Iterator[Metric]":
        sensors = self._parts.board.sensors.by_name
        reads = {(name,): tally.reads for name, tally in sensors.items()}
        failures = {(name,): float(tally.failures) for name, tally in sensors.items()}
        yield _summary("sensor_read_seconds", "Reads of a sensor.", reads.items(), ("sensor",))
        yield _counter("sensor_failures", "Reads that gave nothing.", failures.items(), ("sensor",))
        ages = {
            (name,): max(0.0, self._now_s - tally.last_s) for name, tally in sensors.items() if tally.last_s is not None
        }
        yield _gauge("sensor_last_good_age_seconds", "Since the last good read.", ages.items(), ("sensor",))

    def _is_fresh(self, sensor: str) -> bool:
        tally = self._parts.board.sensors.by_name.get(sensor)
        return tally is not None and tally.last_s is not None and self._now_s - tally.last_s < STALE_S


def _host(host: HostReading) -> "Iterator[Metric]":
    for name in HOST_GAUGES:
        yield from _known(_gauge, f"host_{name}", [((), getattr(host, name))])
    for name in HOST_COUNTERS:
        yield from _known(_counter, f"host_{name}", [((), getattr(host, name))])


def _gpus(gpus: Iterable[GpuReading]) -> "Iterator[Metric]":
    """Cards by UUID; those whose readings are of an earlier round show their state alone."""
    cards = list(gpus)
    states = {(gpu.uuid, state.value): float(gpu.state is state) for gpu in cards for state in GpuState}
    yield _gauge("gpu_state", "1 for the state a card is in.", states.items(), ("gpu", "state"))
    fresh = [gpu for gpu in cards if gpu.age_s is None]
    for name in GPU_GAUGES:
        yield from _known(_gauge, f"gpu_{name}", [((gpu.uuid,), getattr(gpu, name)) for gpu in fresh], ("gpu",))
    for name in GPU_COUNTERS:
        yield from _known(_counter, f"gpu_{name}", [((gpu.uuid,), getattr(gpu, name)) for gpu in fresh], ("gpu",))


def _engines(engines: Iterable[EngineReading]) -> "Iterator[Metric]":
    """Engines by name; the figures of one that cannot be read now are withdrawn."""
    all_ = list(engines)
    states = {(each.engine, state.value): float(each.state is state) for each in all_ for state in EngineState}
    yield _gauge("engine_state", "1 for the state an engine is in.", states.items(), ("engine", "state"))
    readable = [each for each in all_ if each.state is EngineState.OK]
    for name in ENGINE_GAUGES:
        values = [((each.engine,), getattr(each, name)) for each in readable]
        yield from _known(_gauge, f"engine_{name}", values, ("engine",))


# --- families -------------------------------------------------------------------------------------------------------

Values = Iterable[tuple[tuple[str, ...], float]]
"""(labels, value) of each sample."""
Family = Callable[[str, str, Values, tuple[str, ...]], "Metric"]


def _known(
    family: Family, name: str, values: Iterable[tuple[tuple[str, ...], float | None]], labels: tuple[str, ...] = ()
) -> "Iterator[Metric]":
    """A family of the values that are known, if there is one."""
    known = [(key, float(value)) for key, value in values if value is not None]
    if known:
        yield family(name, f"{name.replace('_', ' ')}, as the sensor reads it.", known, labels)


def _gauge(name: str, text: str, values: Values, labels: tuple[str, ...] = ()) -> "Metric":
    from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 - see the module

    family = GaugeMetricFamily(PREFIX + name, text, labels=labels)
    for key, value in values:
        family.add_metric(key, value)
    return family


def _counter(name: str, text: str, values: Values, labels: tuple[str, ...] = ()) -> "Metric":
    from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415 - see the module

    family = CounterMetricFamily(PREFIX + name, text, labels=labels)
    for key, value in values:
        family.add_metric(key, value)
    return family


def _summary(
    name: str, text: str, values: Iterable[tuple[tuple[str, ...], Timing]], labels: tuple[str, ...] = ()
) -> "Metric":
    from prometheus_client.core import SummaryMetricFamily  # noqa: PLC0415 - see the module

    family = SummaryMetricFamily(PREFIX + name, text, labels=labels)
    for key, timing in values:
        family.add_metric(key, timing.count, timing.total_s)
    return family
