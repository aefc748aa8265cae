"""Looks through the nodes' history, one after the other, for disks that fill up."""

import asyncio
from collections.abc import Mapping, Sequence

import structlog
from msgspec import Struct

from hub.alerts.forecast import WINDOW_MS, hours_until_full
from hub.clock import Clock
from hub.liveness import NodeState
from hub.registry import Registry
from hub.rollups import Rollup, Tier
from hub.series import HOST, HOST_FIELDS
from hub.store.base import Store, StoreError

log = structlog.get_logger(__name__)

ROUND_S = 600.0
"""For all nodes once."""
PAUSE_MIN_S = 0.02
PAUSE_MAX_S = 10.0
STALE_MS = 3 * 3_600_000
"""A forecast that could not be made anew for so long counts no more."""
WIDTH_MS = Tier.TEN_MINUTES.width_ms
"""A rollup's last value is of its end."""
_NUMBERS = {field.name: field.number for field in HOST_FIELDS}
_DISKS = {
    "data": (_NUMBERS["disk_free_bytes"], _NUMBERS["disk_total_bytes"]),
    "root": (_NUMBERS["root_disk_free_bytes"], _NUMBERS["root_disk_total_bytes"]),
}


class Forecast(Struct, frozen=True):
    """Of a node's fullest disk."""

    hours: float
    disk: str
    free_bytes: float
    made_at_ms: int


class Disks:
    """The forecasts of all nodes."""

    def __init__(self, *, clock: Clock, registry: Registry, store: Store) -> None:
        self._clock = clock
        self._registry = registry
        self._store = store
        self._known: dict[str, Forecast] = {}

    def of(self, node_id: str) -> Forecast | None:
        """The latest; None where too little is known."""
        known = self._known.get(node_id)
        return known if known is not None and self._clock.time_ms() - known.made_at_ms < STALE_MS else None

    async def run(self) -> None:
        """Round after round."""
        while True:
            nodes = [node.id for node in self._registry.nodes() if node.state is NodeState.ONLINE]
            self._known = {node_id: self._known[node_id] for node_id in nodes if node_id in self._known}
            for node_id in nodes:
                try:
                    await self.look(node_id)
                except StoreError as error:
                    log.warning("a node's disks could not be looked at", node=node_id, error=str(error))
                await asyncio.sleep(min(PAUSE_MAX_S, max(PAUSE_MIN_S, ROUND_S / len(nodes))))
            if not nodes:
                await asyncio.sleep(PAUSE_MAX_S)

    async def look(self, node_id: str) -> None:
        """Make one node's forecast.

        Raises:
            StoreError: the history cannot be read.
        """
        now_ms = self._clock.time_ms()
        number = next((one.number for one in await self._store.sources(node_id) if one.name == HOST), None)
        if number is None:
            return
        rows = await self._store.history(node_id, Tier.TEN_MINUTES, now_ms - WINDOW_MS, now_ms + 1)
        hosts = [(row.time_ms, row.rolled.get(number, {})) for row in rows]
        made = [one for disk in _DISKS if (one := _forecast(disk, hosts, now_ms)) is not None]
        if made:
            self._known[node_id] = min(made, key=lambda one: one.hours)


def _forecast(disk: str, hosts: Sequence[tuple[int, Mapping[int, Rollup]]], now_ms: int) -> Forecast | None:
    free, total = _DISKS[disk]
    points = [(time_ms, float(host[free].last)) for time_ms, host in hosts if free in host]
    size_bytes = next((float(host[total].last) for _, host in reversed(hosts) if total in host), None)
    hours = hours_until_full([(min(at_ms + WIDTH_MS, now_ms), value) for at_ms, value in points], now_ms, size_bytes)
    return None if hours is None else Forecast(hours, disk, points[-1][1], now_ms)
