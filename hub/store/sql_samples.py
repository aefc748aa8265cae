"""Readings into the store: one row a sample and node, and the mark that their rollups are to be made."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, bindparam, exists, insert, select, update

from hub.rollups import Sample, Tier, mask_of, pack_sample
from hub.series import Values, values_of
from hub.store.schema import HISTORY_SOURCES, ROLLUPS_DUE, SAMPLES, VOLUMES
from wire.frames import Event, Readings

SAMPLE_ROW_BYTES = 130
"""What a row of ``samples`` takes beside its packed values: ids and numbers, and once more in the indices."""
SOURCES_PER_NODE_MAX = 256
"""Sources a node may have series of: its host, and every card it had since `HISTORY_SOURCES` forgets."""
SEEN_EVERY_MS = 24 * 3600 * 1000
"""A source's last day is noted, not its last second."""

SampledAt = Callable[[Event], int]
"""When an event happened, in Unix milliseconds of the hub's clock."""


class _Source(Struct):
    """A row of `HISTORY_SOURCES`, as remembered."""

    number: int
    fields: int
    seen_at_ms: int


class SampleIntake:
    """Makes rows of readings; remembers what is asked for again and again. Runs on the writer's thread only."""

    def __init__(self) -> None:
        self._sources: dict[str, dict[str, _Source]] = {}
        self._horizon_ms: int | None = None
        self.late_total = 0
        """For the metrics: samples older than what is kept, ..."""
        self.sources_refused_total = 0
        """... and sources beyond the limit, counted at each sample."""

    def forget(self) -> None:
        """What is remembered may not be so any more."""
        self._sources.clear()
        self._horizon_ms = None

    def horizon_moved(self) -> None:
        """Old samples were given up."""
        self._horizon_ms = None

    def rows(
        self,
        connection: Connection,
        agent_id: str,
        events: Iterable[Event],
        received_at_ms: int,
        sampled_at: SampledAt | None,
    ) -> Iterator[dict[str, Any]]:
        """Rows of `SAMPLES` of the readings among the events."""
        horizon_ms = self._horizon(connection)
        for event in events:
            if not isinstance(event.body, Readings):
                continue
            time_ms = min(event.time_ms, received_at_ms) if sampled_at is None else sampled_at(event)
            if time_ms < horizon_ms:
                self.late_total += 1
                continue
            sample = self._numbered(connection, agent_id, values_of(event.body), received_at_ms)
            if sample:
                yield {"agent_id": agent_id, "time_ms": time_ms, "packed": pack_sample(sample)}

    def _horizon(self, connection: Connection) -> int:
        """Before this nothing is taken any more: it would be given up at once, and its rollups are made."""
        if self._horizon_ms is None:
            self._horizon_ms = connection.scalar(select(VOLUMES.c.horizon_ms).where(VOLUMES.c.tier_s == Tier.RAW)) or 0
        return self._horizon_ms

    def _numbered(self, connection: Connection, agent_id: str, found: dict[str, Values], now_ms: int) -> Sample:
        """The values by the number of their source; new sources and fields are written down."""
        known = self._sources.get(agent_id)
        if known is None:
            known = self._sources[agent_id] = _load_sources(connection, agent_id)
        sample: Sample = {}
        for name, values in found.items():
            mask = mask_of(values)
            source = known.get(name)
            if source is None:
                if len(known) >= SOURCES_PER_NODE_MAX:
                    self.sources_refused_total += 1
                    continue
                number = 1 + max((item.number for item in known.values()), default=0)
                source = known[name] = _Source(number, mask, now_ms)
                row = {"agent_id": agent_id, "name": name} | msgspec.structs.asdict(source)
                connection.execute(insert(HISTORY_SOURCES), row)
            elif mask | source.fields != source.fields or now_ms - source.seen_at_ms > SEEN_EVERY_MS:
                source.fields |= mask
                source.seen_at_ms = max(now_ms, source.seen_at_ms)
                connection.execute(
                    update(HISTORY_SOURCES)
                    .where(HISTORY_SOURCES.c.agent_id == agent_id, HISTORY_SOURCES.c.number == source.number)
                    .values(fields=source.fields, seen_at_ms=source.seen_at_ms)
                )
            sample[source.number] = values
        return sample


_MARK_DUE = insert(ROLLUPS_DUE).from_select(
    ["tier_s", "start_ms", "agent_id"],
    select(bindparam("in_tier"), bindparam("from_ms"), bindparam("of_agent")).where(
        ~exists().where(
            ROLLUPS_DUE.c.tier_s == bindparam("in_tier"),
            ROLLUPS_DUE.c.start_ms == bindparam("from_ms"),
            ROLLUPS_DUE.c.agent_id == bindparam("of_agent"),
        )
    ),
)
_GROW = (
    update(VOLUMES)
    .where(VOLUMES.c.tier_s == bindparam("in_tier"))
    .values(rows=VOLUMES.c.rows + bindparam("more_rows"), bytes=VOLUMES.c.bytes + bindparam("more_bytes"))
)


def _load_sources(connection: Connection, agent_id: str) -> dict[str, _Source]:
    rows = connection.execute(select(HISTORY_SOURCES).where(HISTORY_SOURCES.c.agent_id == agent_id))
    return {row.name: _Source(row.number, row.fields, row.seen_at_ms) for row in rows}


def store_samples(connection: Connection, samples: Sequence[dict[str, Any]]) -> None:
    """Store rows of `SAMPLES`, mark their minutes and count them."""
    connection.execute(insert(SAMPLES), samples)
    mark_due(connection, Tier.MINUTE, {(Tier.MINUTE.start_of(row["time_ms"]), row["agent_id"]) for row in samples})
    grow(connection, Tier.RAW, len(samples), sum(len(row["packed"]) + SAMPLE_ROW_BYTES for row in samples))


def mark_due(connection: Connection, tier: Tier, buckets: Iterable[tuple[int, str]]) -> None:
    """Rollups of a tier, by start and agent, are to be made anew."""
    connection.execute(
        _MARK_DUE,
        [{"in_tier": tier, "from_ms": start_ms, "of_agent": agent_id} for start_ms, agent_id in sorted(buckets)],
    )


def grow(connection: Connection, tier: Tier, rows: int, size_bytes: int) -> None:
    """Count rows that were added to a tier, or taken from it."""
    connection.execute(_GROW, {"in_tier": tier, "more_rows": rows, "more_bytes": size_bytes})
