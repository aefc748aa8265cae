"""Restarts dead agents unasked where the operator's policy says so: looks, has `hub.ssh.policy` decide, does one.

What it did in the last hour is read back from what was kept with the nodes, so that a hub that restarts in a loop does
not restart agents in a loop.
"""

import asyncio

import msgspec
import structlog

from hub.clock import Clock
from hub.config import Config
from hub.faults import FAULTS
from hub.liveness import NodeState
from hub.registry import Registry
from hub.ssh import policy
from hub.ssh.book import HUB
from hub.ssh.desk import Busy, NoWayIn
from hub.ssh.ladder import Rung, State
from hub.ssh.policy import HOUR_MS, Decision, Done, Suspect
from hub.ssh.recovery import Action, Recovery, RecoveryRefused
from hub.ssh.watch import Watch
from hub.store.base import Store, StoreError

log = structlog.get_logger(__name__)

EVERY_S = 5.0
FRESH_MS = 15 * 60_000
"""A look older than this says nothing of now."""
KIND = f"ssh.{Action.RESTART_AGENT.value}"


class Unasked:
    """Ticks for ever."""

    def __init__(
        self, *, config: Config, clock: Clock, registry: Registry, watch: Watch, recovery: Recovery, store: Store
    ) -> None:
        self._rule = policy.rule(config.ssh_recover_labels, config.ssh_recover_per_hour)
        self._clock = clock
        self._registry = registry
        self._watch = watch
        self._recovery = recovery
        self._store = store
        self._done: list[Done] = []
        self.last = Decision(None, "the policy is off")
        """What was decided last, and why."""

    async def run(self) -> None:
        """Decide and do, for ever; with the policy off do nothing for as long."""
        if not self._rule.labels and not self._rule.everybody:
            await asyncio.Event().wait()
        await self._remember()
        while True:
            try:
                await self.tick()
            except StoreError as error:
                log.warning("a restart could not be kept", error=str(error))
            except Exception:
                FAULTS.count("recovery")
                log.exception("the policy that restarts agents failed; it goes on")
            await asyncio.sleep(EVERY_S)

    async def _remember(self) -> None:
        now_ms = self._clock.time_ms()
        for node in self._registry.nodes():
            for event in await self._store.hub_events(node.id):
                if event.kind == KIND and event.detail.startswith(f"{HUB}:") and now_ms - event.time_ms < HOUR_MS:
                    self._done.append(
                        Done(node_id=node.id, at_ms=event.time_ms, ok=event.level == "info", back=node.connected)
                    )

    def suspects(self) -> list[Suspect]:
        """Lost nodes whose shell answered a fresh look, and whose agent did not run then."""
        now_ms, found = self._clock.time_ms(), []
        for node in self._registry.nodes():
            if self._registry.state(node.id) is not NodeState.LOST:
                continue
            ladder = self._watch.known_ladder(node.id)
            if ladder is None or not ladder.reached or now_ms - ladder.at_ms > FRESH_MS:
                continue
            if ladder.step(Rung.AGENT).state is State.FAILED:
                found.append(Suspect(node_id=node.id, labels=node.labels, since_ms=node.last_heard_at_ms or 0))
        return found

    async def tick(self) -> None:
        """One decision and, if it says so, one restart."""
        now_ms = self._clock.time_ms()
        self._done = [self._seen(item) for item in self._done if now_ms - item.at_ms < HOUR_MS]
        if self._watch.paused:
            self.last = Decision(None, f"nothing is tried now: {self._watch.paused}")
            return
        self.last = policy.decide(self._rule, self.suspects(), self._done, now_ms)
        if self.last.node_id is None:
            return
        node_id, ok = self.last.node_id, False
        log.info("an agent is restarted unasked", node=node_id, why=self.last.reason)
        try:
            plan = await self._recovery.plan(node_id, Action.RESTART_AGENT)
            ok = (await self._recovery.apply(plan, HUB)).ok
        except (Busy, NoWayIn, RecoveryRefused) as error:
            log.warning("an agent could not be restarted", node=node_id, error=str(error))
        self._done.append(Done(node_id=node_id, at_ms=now_ms, ok=ok, back=False))

    def _seen(self, item: Done) -> Done:
        """Whether its node is here again."""
        node = self._registry.node(item.node_id)
        return msgspec.structs.replace(item, back=item.back or (node is not None and node.connected))
