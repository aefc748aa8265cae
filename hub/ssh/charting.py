"""Has the doctor look by itself where a node refuses the hub's key: by another key, if the operator named one.

To ssh's client all refusals are one; whose fault this one is stands in a file at the node. The doctor only reads. It
looks once each time a way breaks, at one node after the other, and not where many break alike: there the reason is
looked for on this side first.
"""

import asyncio
from pathlib import Path

import structlog

from hub.bus import Bus, NodeChanged
from hub.clock import Clock
from hub.registry import Registry
from hub.ssh.book import HUB
from hub.ssh.cause import Cause
from hub.ssh.desk import Busy, NoWayIn
from hub.ssh.keys import KeyDesk, KeyRefused, NotLookedAt
from hub.ssh.reach import State
from hub.ssh.watch import Watch

log = structlog.get_logger(__name__)

AGAIN_MS = 10 * 60_000
"""Before a doctor that was not let in either tries again."""
TICK_S = 1.0
SETTLE_MS = 3000
"""For others to break alike first."""


class Charting:
    """Ticks for ever."""

    def __init__(
        self, *, key: Path | None, keys: KeyDesk, watch: Watch, registry: Registry, bus: Bus, clock: Clock
    ) -> None:
        self._key = key
        self._keys = keys
        self._watch = watch
        self._registry = registry
        self._bus = bus
        self._clock = clock
        self._tried: dict[str, tuple[int, int]] = {}
        """Of each way since when it was broken, and when the doctor last tried it."""

    async def run(self) -> None:
        """Look where it is due, for ever; without a key nowhere."""
        if self._key is None:
            await asyncio.Event().wait()
        while True:
            await asyncio.sleep(TICK_S)
            for node_id in self.due():
                await self._look(node_id)

    def due(self) -> list[str]:
        """The nodes to look at now."""
        if self._watch.paused:
            return []
        now_ms = self._clock.time_ms()
        alike = {node_id for incident in self._watch.told[0] for node_id in incident.nodes}
        refused = {
            reach.node_id: reach.broken_since_ms or 0
            for reach in self._keys.ssh.book.reaches()
            if reach.state is State.BROKEN
            and reach.cause is Cause.IDENTITY_REFUSED
            and self._registry.node(reach.node_id) is not None
        }
        self._tried = {node_id: tried for node_id, tried in self._tried.items() if node_id in refused}
        return [
            node_id
            for node_id, since_ms in refused.items()
            if node_id not in alike and now_ms - since_ms >= SETTLE_MS and self._fresh(node_id, since_ms, now_ms)
        ]

    def _fresh(self, node_id: str, since_ms: int, now_ms: int) -> bool:
        tried = self._tried.get(node_id)
        return tried is None or tried[0] != since_ms or now_ms - tried[1] >= AGAIN_MS

    async def _look(self, node_id: str) -> None:
        self._tried[node_id] = (self._keys.ssh.readiness(node_id).broken_since_ms or 0, self._clock.time_ms())
        try:
            chart = await self._keys.look(node_id, HUB, via_key=self._key)
        except (NotLookedAt, KeyRefused, NoWayIn, Busy) as error:
            log.info("the doctor could not look at a node's keys", node=node_id, why=str(error))
            return
        log.info("the doctor looked at a node's keys", node=node_id, healthy=chart.healthy)
        if (node := self._registry.node(node_id)) is not None:
            self._bus.publish(NodeChanged(node))
