"""What `/metrics` tells of the store's contents: how much is taken in, kept, rolled up, given up and left out."""

from collections.abc import Iterable, Iterator

from aiohttp import web
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from hub import ports


def families(app: web.Application) -> Iterator[Metric]:
    """Every family. What is kept is as of retention's last sweep; before the first nothing is told of it."""
    keepers, store = app[ports.KEEPERS], app[ports.STORE].stats()
    quotas, roller, retention = keepers.quotas, keepers.roller, keepers.retention
    yield _counter("provewire_rollups_made", "Rollups made.", roller.made_total)
    yield _counters("provewire_retention_deleted", "Rows given up.", "kind", retention.deleted.items())
    yield _counters(
        "provewire_quota_left_out",
        "Events left out, their node being beyond its bytes of a day.",
        "stream",
        ((stream.value, count) for stream, count in quotas.left_out_total.items()),
    )
    yield _counter("provewire_quota_wait_seconds", "How long nodes beyond a quota were held up.", quotas.waited_s_total)
    yield _counter("provewire_samples_late", "Samples that came when their time was given up.", store.samples_late)
    yield _counter("provewire_sources_refused", "Sources of samples beyond their node's limit.", store.sources_refused)
    keeping = retention.keeping
    if keeping is None:
        return
    volumes = keeping.usage.volumes
    yield _gauges("provewire_store_rows", "Rows kept.", "kind", ((kind, item.rows) for kind, item in volumes.items()))
    yield _gauges(
        "provewire_store_bytes", "Bytes kept.", "kind", ((kind, item.size_bytes) for kind, item in volumes.items())
    )
    for name, text, value in (
        ("provewire_store_file_bytes", "Size of the database.", keeping.usage.file_bytes),
        ("provewire_store_free_bytes", "Of the database, free for later rows.", keeping.usage.free_bytes),
        ("provewire_store_growth_bytes_per_second", "How fast what is kept grows.", keeping.growth_bytes_per_s),
        ("provewire_disk_free_bytes", "Free on the data directory's file system.", keeping.disk_free_bytes),
        (
            "provewire_rollups_due",
            "Rollups to be made, also of a time not over.",
            keeping.usage.rollups_due,
        ),
    ):
        yield GaugeMetricFamily(name, text, value=value)
    if keeping.full_in_s is not None:
        yield GaugeMetricFamily(
            "provewire_disk_full_in_seconds",
            "When the disk is full, should it go on like this.",
            value=keeping.full_in_s,
        )


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _counters(name: str, text: str, label: str, values: Iterable[tuple[str, float]]) -> Metric:
    family = CounterMetricFamily(name, text, labels=(label,))
    for key, value in values:
        family.add_metric((key,), value)
    return family


def _gauges(name: str, text: str, label: str, values: Iterable[tuple[str, float]]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=(label,))
    for key, value in values:
        family.add_metric((key,), value)
    return family
