"""The hub's own heartbeat: judges the nodes once a second, and tells systemd that the loop runs."""

import asyncio
from collections.abc import Callable

import structlog

from hub.bus import Bus, NodeChanged
from hub.clock import Clock
from hub.config import Config
from hub.desk import Desk
from hub.liveness import NodeState
from hub.registry import Registry
from hub.tempo import limits_of, tempo

log = structlog.get_logger(__name__)

TICK_S = 1.0
SAY_EVERY_TICKS = 10


class Pulse:
    """Ticks for ever."""

    def __init__(
        self,
        *,
        config: Config,
        clock: Clock,
        registry: Registry,
        bus: Bus,
        desk: Desk,
        tell_systemd: Callable[[str], None],
    ) -> None:
        self._config = config
        self._clock = clock
        self._registry = registry
        self._bus = bus
        self._desk = desk
        self._tell_systemd = tell_systemd
        self._due_s = clock.monotonic()
        self._mass_drops = 0

    async def run(self) -> None:
        """Tick once a second."""
        ticks = 0
        while True:
            self._due_s = self._clock.monotonic() + TICK_S
            await asyncio.sleep(TICK_S)
            self.tick()
            if ticks % SAY_EVERY_TICKS == 0:
                self._tell_systemd(f"WATCHDOG=1\nSTATUS={self.status()}")
            ticks += 1

    def tick(self) -> None:
        """Judge every node; what changed is published, and may free or lose a place for jobs."""
        agents = self._registry.expected
        self._registry.limits = limits_of(self._config, tempo(self._config, agents), agents)
        changed = self._registry.tick(self._due_s)
        for node in changed:
            log.info("a node's state changed", agent=node.id, name=node.name, state=node.state.value)
            self._bus.publish(NodeChanged(node))
        if changed:
            self._desk.wake()
        if self._registry.drops.mass_drops > self._mass_drops:
            self._mass_drops = self._registry.drops.mass_drops
            log.warning("a good part of the fleet dropped at once: the network, or a proxy; nobody of it is lost yet")

    def status(self) -> str:
        """One line for an operator."""
        nodes = self._registry.nodes()
        online = sum(node.state is NodeState.ONLINE for node in nodes)
        return f"{online} of {len(nodes)} nodes online, {len(self._desk.dispatch)} jobs open"
