"""What Prometheus reads of the ways in by SSH: how they are, what the hub does about them, and what is wrong here."""

from collections import Counter
from collections.abc import Iterator, Mapping

from aiohttp import web
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from hub import ports
from hub.api.fallback import NO_TARGET
from hub.ssh.cause import Cause
from hub.ssh.reach import State


def families(app: web.Application) -> Iterator[Metric]:
    """From memory."""
    desk, watch = app[ports.SSH], app[ports.SSH_WATCH]
    states = Counter[str]()
    proved = GaugeMetricFamily(
        "provewire_node_fallback_proved", "Whether the way in was proved; of nodes that have one.", labels=("node",)
    )
    for node in app[ports.REGISTRY].nodes():
        reach = desk.readiness(node.id)
        states[NO_TARGET if reach.target is None else reach.state.value] += 1
        if reach.target is not None:
            proved.add_metric((node.id,), reach.state is State.PROVED)
    yield proved
    wanted = (NO_TARGET, *(state.value for state in State))
    yield _gauge(
        "provewire_fallback_nodes", "Nodes by how the way in to them is.", {k: states[k] for k in wanted}, "state"
    )
    attempts = CounterMetricFamily(
        "provewire_ssh_attempts", "Attempts by ssh, by what came of them.", labels=("cause",)
    )
    for cause in Cause:
        attempts.add_metric((cause.value,), desk.outcomes[cause.value])
    yield attempts
    yield _plain("provewire_ssh_running", "Attempts under way, operators' too.", desk.running)
    looks = CounterMetricFamily("provewire_ssh_looks", "Looks at lost nodes, begun by the hub itself.")
    looks.add_metric((), watch.looks_made)
    yield looks
    yield _plain("provewire_ssh_lost_watched", "Lost nodes with a way in: those the hub looks after.", watch.lost)
    yield _plain("provewire_ssh_paused", "1 while the hub tries nothing by itself.", bool(watch.paused))
    incidents, problems = watch.told
    yield _gauge(
        "provewire_incident_nodes",
        "Nodes of each incident there is now.",
        {incident.cause.value: float(len(incident.nodes)) for incident in incidents},
        "cause",
    )
    yield _plain("provewire_incidents", "Incidents now: many nodes with one cause.", len(incidents))
    wrong = Counter(problem.cause.value for problem in problems)
    yield _gauge("provewire_ssh_problems", "What is wrong on this side of the ways in.", wrong, "cause")


def _plain(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _gauge(name: str, text: str, values: Mapping[str, float], label: str) -> Metric:
    family = GaugeMetricFamily(name, text, labels=(label,))
    for key, value in values.items():
        family.add_metric((key,), value)
    return family
