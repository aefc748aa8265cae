"""What Prometheus reads of alerts and their notices: rules are a fixed set, channels are only counted."""

from collections import Counter
from collections.abc import Iterator

from aiohttp import web
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from hub import ports
from hub.alerts.facts import Rule


def families(app: web.Application) -> Iterator[Metric]:
    """From memory."""
    desk = app[ports.ALERTS]
    firing = Counter(alert.rule for alert in desk.firing())
    rules = GaugeMetricFamily("provewire_alerts_firing", "Alerts that fire now.", labels=("rule",))
    for rule in Rule:
        rules.add_metric((rule.value,), firing[rule])
    yield rules
    pending = "Subjects that are bad, and not yet for long enough."
    yield GaugeMetricFamily("provewire_alerts_pending", pending, value=desk.book.pending())
    told = CounterMetricFamily("provewire_alerts_told", "Alerts told, and told to be over.", labels=("kind",))
    told.add_metric(("fire",), desk.counts.fired)
    told.add_metric(("resolve",), desk.counts.resolved)
    yield told
    yield CounterMetricFamily("provewire_alert_looks", "Looks at everything.", value=desk.counts.looks)
    counts = desk.outbox.counts
    notices = CounterMetricFamily(
        "provewire_alert_notices", "Tries to hand a notice over, by outcome.", labels=("outcome",)
    )
    for outcome, count in (("sent", counts.sent), ("failed", counts.failed), ("given_up", counts.given_up)):
        notices.add_metric((outcome,), count)
    yield notices
    waiting = "Notices that wait for their channel."
    yield GaugeMetricFamily("provewire_alert_notices_waiting", waiting, value=desk.outbox.waiting)
    channels = desk.book.channels()
    failing = sum(channel.failed_at_ms is not None for channel in channels)
    yield GaugeMetricFamily("provewire_alert_channels", "Channels.", value=len(channels))
    yield GaugeMetricFamily(
        "provewire_alert_channels_failing", "Channels whose last notice came to nothing.", value=failing
    )
    answered = desk.deadman.answered_at_ms
    yield GaugeMetricFamily(
        "provewire_deadman_answered_timestamp_seconds",
        "When the dead-man's ping was last answered; 0 for never.",
        value=0 if answered is None else answered / 1000,
    )
