"""Ways in by SSH and attempts to go them, for Prometheus."""

from collections import Counter
from collections.abc import Iterator

from aiohttp import web
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from hub import ports
from hub.api.fallback import NO_TARGET
from hub.ssh.cause import Cause
from hub.ssh.desk import OPERATORS_MAX
from hub.ssh.reach import State


def families(app: web.Application) -> Iterator[Metric]:
    """From memory."""
    desk, now_ms = app[ports.SSH], app[ports.CLOCK].time_ms()
    reaches = [desk.readiness(node.id) for node in app[ports.REGISTRY].nodes()]
    counts = Counter(NO_TARGET if reach.target is None else reach.state.value for reach in reaches)
    ways = GaugeMetricFamily("provewire_ssh_ways", "Nodes by the state of their way in by SSH.", labels=("state",))
    for state in (NO_TARGET, *State):
        ways.add_metric((str(state),), counts[str(state)])
    yield ways
    proved = GaugeMetricFamily(
        "provewire_node_fallback_proved",
        "Whether the way in by SSH was proved; of nodes that have one.",
        labels=("node",),
    )
    age = GaugeMetricFamily(
        "provewire_node_fallback_proved_age_seconds", "Since a login by SSH last worked.", labels=("node",)
    )
    for reach in reaches:
        if reach.target is not None:
            proved.add_metric((reach.node_id,), reach.state is State.PROVED)
        if reach.target is not None and reach.proved_at_ms is not None:
            age.add_metric((reach.node_id,), max(0, now_ms - reach.proved_at_ms) / 1000)
    yield proved
    yield age
    attempts = CounterMetricFamily("provewire_ssh_attempts", "Tries by SSH, by what came of them.", labels=("cause",))
    for cause in Cause:
        attempts.add_metric((cause.value,), desk.outcomes[cause.value])
    yield attempts
    yield GaugeMetricFamily("provewire_ssh_running", "Attempts by SSH under way.", value=desk.running)
    bound = app[ports.CONFIG].ssh_probes_max + OPERATORS_MAX
    yield GaugeMetricFamily("provewire_ssh_running_max", "At most so many at the same time.", value=bound)
