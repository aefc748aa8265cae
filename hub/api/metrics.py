"""What Prometheus reads: the hub's own gauges and counts, and the nodes' series of `hub.api.node_metrics`.

Everything comes from memory at the moment of the scrape, but for one count of the store's. Labels are fixed sets:
states, kinds, outcomes, reasons, node ids, card ids, engines. No job ids, no names or texts of nodes.
"""

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from itertools import accumulate
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.process_collector import ProcessCollector

from hub import bus, ports, verify
from hub.api import alert_metrics, feed, keeping_metrics, log_follow, models, node_metrics, ssh_metrics
from hub.api.artifacts import UPLOADS, UPLOADS_MAX
from hub.api.route import Answer, Route
from hub.api.scrapes import READERS_MAX, SCRAPES, Pieces
from hub.api.views import reason_name
from hub.faults import FAULTS, PARTS
from hub.liveness import NodeState
from hub.outlet import REASONS
from hub.traffic import KINDS, TURNED_AWAY
from wire.jobs import JobState

LAG_TICK_S = 0.5
LAG_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
MEDIA = "text/plain"
CONTENT_TYPE = f"{MEDIA}; version=0.0.4; charset=utf-8"


class LoopLag:
    """How late the event loop wakes a sleeper, in seconds."""

    def __init__(self) -> None:
        self.last_s = 0.0
        self.max_s = 0.0
        self.total_s = 0.0
        self.counts = [0] * (len(LAG_BUCKETS_S) + 1)
        """Wake-ups by bucket, the last one beyond all."""

    async def run(self, every_s: float = LAG_TICK_S) -> None:
        """Measure, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + every_s
            await asyncio.sleep(every_s)
            self.woke(max(0.0, loop.time() - due_s))

    def woke(self, late_s: float) -> None:
        """A sleeper woke that late."""
        self.last_s = late_s
        self.max_s = max(self.max_s, late_s)
        self.total_s += late_s
        self.counts[bisect_left(LAG_BUCKETS_S, late_s)] += 1

    def buckets(self) -> list[tuple[str, float]]:
        """As Prometheus wants them: cumulative."""
        edges = [*(str(edge) for edge in LAG_BUCKETS_S), "+Inf"]
        return list(zip(edges, accumulate(self.counts), strict=True))


LAG = web.AppKey("LAG", LoopLag)
WORDS = web.AppKey("WORDS", node_metrics.Words)


class Scrape:
    """One scrape's collector."""

    def __init__(self, app: web.Application, jobs: dict[JobState, int]) -> None:
        self._app = app
        self._jobs = jobs

    def collect(self) -> Iterator[Metric]:
        """Every family of ours."""
        states = Counter(node.state for node in self._app[ports.REGISTRY].nodes())
        yield _labelled(
            "provewire_build",
            "Version of the hub; always 1.",
            {(models.VERSION, self._app[ports.HUB].id): 1},
            ("version", "hub"),
        )
        yield _labelled(
            "provewire_nodes",
            "Nodes by state.",
            {(state.value,): states[state] for state in NodeState},
            ("state",),
        )
        yield _labelled(
            "provewire_jobs", "Jobs by state.", {(state.value,): n for state, n in self._jobs.items()}, ("state",)
        )
        yield _plain("provewire_sessions", "Open sessions of agents.", self._app[ports.SESSIONS].count())
        yield from self._queues()
        yield from self._store()
        yield from keeping_metrics.families(self._app)
        yield from self._checks()
        yield from self._traffic()
        yield from self._fleet()
        yield from self._viewers()
        yield from ssh_metrics.families(self._app)
        yield from alert_metrics.families(self._app)
        skipped = CounterMetricFamily("provewire_log_records_skipped", "Passed over in streams of readers too slow.")
        skipped.add_metric((), self._app[log_follow.LOG_FOLLOWERS].skipped)
        yield skipped
        yield self._faults()
        lag = self._app[LAG]
        yield _plain("provewire_loop_lag_last_seconds", "How late the event loop woke its last sleeper.", lag.last_s)
        yield _plain("provewire_loop_lag_max_seconds", "The same, at most since the start.", lag.max_s)
        histogram = HistogramMetricFamily("provewire_loop_lag_seconds", "How late the event loop woke sleepers.")
        histogram.add_metric((), lag.buckets(), lag.total_s)
        yield histogram

    def _queues(self) -> Iterator[Metric]:
        """Everything that can fill up, beside its bound."""
        store = self._app[ports.STORE].stats()
        artifacts = self._app[ports.ARTIFACTS]
        uploads = UPLOADS_MAX - self._app[UPLOADS]._value  # noqa: SLF001 - a semaphore has no public count
        levels = {
            "store_writes": (store.waiting, store.waiting_max),
            "checks_waiting": (self._app[ports.VERIFIER].waiting, verify.WAITING_MAX),
            "uploads": (uploads, UPLOADS_MAX),
            "scrapes": (self._app[SCRAPES].readers, READERS_MAX),
            "live_streams": (self._app[feed.FEED].viewers, feed.VIEWERS_MAX),
            "bus_messages": (self._app[ports.BUS].waiting, bus.QUEUE_MESSAGES_MAX),
            "handshakes": (self._app[ports.SESSIONS].unauthenticated, self._app[ports.CONFIG].unauthenticated_max),
            "log_streams": (len(self._app[log_follow.LOG_FOLLOWERS]), log_follow.FOLLOWERS_MAX),
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
        yield _count("provewire_store_operations", "Writes committed.", {(): stats.operations})

    def _checks(self) -> Iterator[Metric]:
        checks = CounterMetricFamily(
            "provewire_checks", "Proofs, keys and witnesses checked in a child.", labels=("kind", "outcome")
        )
        for (kind, outcome), count in sorted(self._app[ports.VERIFIER].outcomes.items()):
            checks.add_metric((kind, outcome), count)
        yield checks

    def _traffic(self) -> Iterator[Metric]:
        """What goes over the agents' sockets, and who was not let in."""
        traffic = self._app[ports.SESSIONS].traffic
        frames = {(kind,): traffic.frames_in[kind] for kind in (*KINDS.values(), "other")}
        yield _count("provewire_agent_frames_received", "Frames of agents, by what they meant.", frames, ("kind",))
        yield _count("provewire_agent_received_bytes", "Their bytes.", {(): traffic.bytes_in})
        yield _count("provewire_agent_frames_sent", "Frames to agents.", {(): traffic.frames_out})
        yield _count("provewire_agent_sent_bytes", "Their bytes.", {(): traffic.bytes_out})
        yield _count(
            "provewire_agent_held_back", "Frames after which a flood was left waiting.", {(): traffic.held_back}
        )
        yield _count("provewire_sessions_opened", "Sessions opened: nodes that came back, too.", {(): traffic.opened})
        ended = Counter[tuple[str, str]]()
        for (opened, code), number in traffic.ends.items():
            ended["session" if opened else "handshake", reason_name(code) if code in REASONS else "other"] += number
        yield _count("provewire_sessions_ended", "Sessions and handshakes ended, by reason.", ended, ("of", "reason"))
        away = {(code,): traffic.turned_away[code] for code in TURNED_AWAY}
        yield _count("provewire_agents_turned_away", "Refused before the upgrade.", away, ("code",))

    def _fleet(self) -> Iterator[Metric]:
        """What the hub makes of all nodes together."""
        registry, now_s = self._app[ports.REGISTRY], self._app[ports.CLOCK].monotonic()
        yield _plain(
            "provewire_mass_drop", "1 while a good part of the fleet dropped just now.", registry.drops.under_way(now_s)
        )
        yield _count("provewire_mass_drops", "How often that was.", {(): registry.drops.mass_drops})
        listened_s = now_s - registry.listening.since_s
        yield _plain("provewire_listening_seconds", "Since the hub started or last was late itself.", listened_s)
        yield _plain("provewire_nodes_clock_skewed", "Nodes whose clock is far off.", registry.remarks.skewed)
        doubted = registry.remarks.hub_clock_doubted
        refused = {(): self._app[WORDS].refused}
        yield _count("provewire_node_series_refused", "Left out: their node used too many labels.", refused)
        yield _plain("provewire_hub_clock_doubted", "1 while most nodes' clocks differ from the hub's.", doubted)

    def _viewers(self) -> Iterator[Metric]:
        """Who looks on."""
        dropped = {("bus",): self._app[ports.BUS].dropped, ("viewer",): self._app[feed.FEED].dropped}
        text = "Messages dropped on the bus, and viewers too slow that got the whole picture again."
        yield _count("provewire_live_dropped", text, dropped, ("where",))

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


def _count(name: str, text: str, values: Mapping[Any, float], labels: tuple[str, ...] = ()) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


async def make(app: web.Application) -> Pieces:
    """The text of one scrape."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Scrape(app, await app[ports.STORE].job_counts()))
    ProcessCollector(registry=registry)
    fleet = app[ports.REGISTRY]
    heard = [node for node in fleet.nodes() if node.state is NodeState.ONLINE]
    return [generate_latest(registry), *await node_metrics.text(heard, fleet, app[WORDS])]


async def metrics(request: web.Request) -> web.StreamResponse:
    """Answer one scrape."""
    return await request.app[SCRAPES].answer(request, CONTENT_TYPE)


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
