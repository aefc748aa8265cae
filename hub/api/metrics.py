"""What Prometheus reads: gauges from memory at the moment of the scrape, and one count from the store.

Labels are a fixed set: states, kinds, outcomes, node ids, card ids. No job ids, no names or texts of nodes. A node's
series vanish while nothing is heard of it, so that no old value is taken for a present one.
"""

import asyncio
from collections.abc import Iterable, Iterator
from http import HTTPStatus

from aiohttp import web
from msgspec import UNSET
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.process_collector import ProcessCollector

from hub import ports, verify
from hub.api import feed, keeping_metrics, models
from hub.api.artifacts import UPLOADS, UPLOADS_MAX
from hub.api.route import Answer, Route
from hub.faults import FAULTS, PARTS
from hub.liveness import NodeState
from hub.registry import Node
from wire.jobs import JobState
from wire.readings import GpuState
from wire.status import WorkerState

LAG_TICK_S = 0.5
MEDIA = "text/plain"


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


LAG = web.AppKey("LAG", LoopLag)


class Scrape:
    """One scrape's collector."""

    def __init__(self, app: web.Application, jobs: dict[JobState, int]) -> None:
        self._app = app
        self._jobs = jobs

    def collect(self) -> Iterator[Metric]:
        """Every family of ours."""
        nodes = self._app[ports.REGISTRY].nodes()
        yield _labelled(
            "provewire_build",
            "Version of the hub; always 1.",
            {(models.VERSION, self._app[ports.HUB].id): 1},
            ("version", "hub"),
        )
        yield _labelled(
            "provewire_nodes",
            "Nodes by state.",
            {(state.value,): sum(node.state is state for node in nodes) for state in NodeState},
            ("state",),
        )
        yield _labelled(
            "provewire_jobs", "Jobs by state.", {(state.value,): n for state, n in self._jobs.items()}, ("state",)
        )
        yield _plain("provewire_sessions", "Open sessions of agents.", self._app[ports.SESSIONS].count())
        yield from self._queues()
        yield from self._store()
        yield from self._checks()
        yield from keeping_metrics.families(self._app)
        yield self._faults()
        lag = self._app[LAG]
        yield _plain("provewire_loop_lag_seconds", "How late the event loop woke its last sleeper.", lag.last_s)
        yield _plain("provewire_loop_lag_max_seconds", "The same, at most since the start.", lag.max_s)
        yield from _node_series([node for node in nodes if node.state is NodeState.ONLINE], self._app)

    def _queues(self) -> Iterator[Metric]:
        """Everything that can fill up, beside its bound."""
        store = self._app[ports.STORE].stats()
        artifacts = self._app[ports.ARTIFACTS]
        uploads = UPLOADS_MAX - self._app[UPLOADS]._value  # noqa: SLF001 - a semaphore has no public count
        levels = {
            "store_writes": (store.waiting, store.waiting_max),
            "checks_waiting": (self._app[ports.VERIFIER].waiting, verify.WAITING_MAX),
            "uploads": (uploads, UPLOADS_MAX),
            "live_streams": (self._app[feed.FEED].viewers, feed.VIEWERS_MAX),
            "artifact_bytes": (artifacts.total_bytes, artifacts.total_bytes_max),
            "jobs_open": (
                sum(n for state, n in self._jobs.items() if state.value not in {"done", "failed", "cancelled"}),
                self._app[ports.CONFIG].jobs_open_max,
            ),
        }
        yield _labelled(
            "provewire_queue_depth", "What waits or is taken.", {(k,): v for k, (v, _) in levels.items()}, ("queue",)
        )
        yield _labelled(
            "provewire_queue_bound", "At most this much.", {(k,): v for k, (_, v) in levels.items()}, ("queue",)
        )

    def _store(self) -> Iterator[Metric]:
        stats = self._app[ports.STORE].stats()
        commits = SummaryMetricFamily("provewire_store_commit_seconds", "Transactions, fsync included.")
        commits.add_metric((), stats.commits, stats.commit_s_total)
        yield commits
        operations = CounterMetricFamily("provewire_store_operations", "Writes committed.")
        operations.add_metric((), stats.operations)
        yield operations

    def _checks(self) -> Iterator[Metric]:
        checks = CounterMetricFamily(
            "provewire_checks", "Proofs, keys and witnesses checked in a child.", labels=("kind", "outcome")
        )
        for (kind, outcome), count in sorted(self._app[ports.VERIFIER].outcomes.items()):
            checks.add_metric((kind, outcome), count)
        yield checks

    def _faults(self) -> Metric:
        faults = CounterMetricFamily(
            "provewire_internal_faults", "Faults of the hub's own; its log has each with its cause.", labels=("part",)
        )
        counts = FAULTS.counts()
        for part in PARTS:
            faults.add_metric((part,), counts.get(part, 0))
        return faults


def _plain(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _labelled(name: str, text: str, values: dict[tuple[str, ...], float], labels: tuple[str, ...]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _node_series(nodes: Iterable[Node], app: web.Application) -> Iterator[Metric]:
    """What nodes that are heard said of themselves; unknown values have no sample."""
    samples: dict[str, dict[tuple[str, ...], float]] = {}

    def add(name: str, key: tuple[str, ...], value: float | None) -> None:
        if value is not None:
            samples.setdefault(name, {})[key] = value

    for node in nodes:
        key = (node.id,)
        add("last_frame_age_seconds", key, app[ports.REGISTRY].frame_age_s(node))
        add("clock_skew_seconds", key, None if node.clock_skew_ms is None else node.clock_skew_ms / 1000)
        if node.status.host is not UNSET:
            host = node.status.host
            add("cpu_used_ratio", key, host.cpu_used_ratio)
            add("memory_used_bytes", key, host.memory_used_bytes)
            add("memory_total_bytes", key, host.memory_total_bytes)
            add("disk_free_bytes", key, host.disk_free_bytes)
        if node.status.outbox is not UNSET:
            add("outbox_events", key, node.status.outbox.events_held)
            add("outbox_dropped", key, node.status.outbox.dropped)
        if node.status.workers is not UNSET:
            add("workers_down", key, sum(item.state is WorkerState.DOWN for item in node.status.workers))
        for gpu in () if node.status.gpus is UNSET else node.status.gpus:
            add("gpu_memory_used_bytes", (node.id, gpu.uuid), gpu.memory_used_bytes)
            add("gpu_ok", (node.id, gpu.uuid), float(gpu.state is GpuState.OK))
    for name, values in samples.items():
        labels = ("node", "gpu") if name.startswith("gpu_") else ("node",)
        yield _labelled(f"provewire_node_{name}", f"{name.replace('_', ' ')}, as the node said.", values, labels)


async def metrics(request: web.Request) -> web.Response:
    """The text of one scrape."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Scrape(request.app, await request.app[ports.STORE].job_counts()))
    ProcessCollector(registry=registry)
    return web.Response(body=generate_latest(registry), headers={"Content-Type": "text/plain; version=0.0.4"})


ROUTES = (
    Route(
        method="GET",
        path="/metrics",
        handler=metrics,
        summary="Metrics, in Prometheus's text format",
        tag="metrics",
        answers={HTTPStatus.OK: Answer("One scrape", media=MEDIA)},
    ),
)
