"""Alerts at work: looks every few seconds, and keeps what it finds in one transaction with the notices about it.

What the engine decided holds only once it is committed: after a failed commit the next look decides the same anew.
While the store itself cannot be written, `hub.alerts.trouble` tells.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

import structlog
from msgspec import Struct

from hub.alerts import engine
from hub.alerts.book import AlertBook
from hub.alerts.deadman import Deadman, Word
from hub.alerts.disks import Disks
from hub.alerts.facts import Rule, Severity
from hub.alerts.gather import Gatherer, Level, Own
from hub.alerts.notices import notices, trial
from hub.alerts.outbox import Outbox, message_of
from hub.alerts.records import Alert, Kind, Notice
from hub.alerts.sealed import Seal
from hub.alerts.sending import Sender
from hub.alerts.targets import Allowed
from hub.alerts.trouble import Trouble
from hub.bus import AlertsChanged, Bus
from hub.clock import Clock
from hub.config import Config
from hub.faults import FAULTS
from hub.ids import uuid7
from hub.liveness import NodeState
from hub.registry import Registry
from hub.retention import Retention
from hub.ssh.desk import SshDesk
from hub.ssh.watch import Watch
from hub.store.alerts import AlertChange
from hub.store.base import Store, StoreError

log = structlog.get_logger(__name__)

TICK_S = 5.0
FAILING_WINDOW_MS = 3_600_000
KEEP_S = 30.0
"""Between two writes, however quiet it is: a full disk can still be read."""
WELL_S = 60.0
"""After so long without a look the hub does not call itself well."""
LATE_TICKS = 3
"""The loop's lateness is the worst of so many ticks."""

Levels = Callable[[], Mapping[str, Level]]


class Counts(Struct):
    """For the metrics, since the start."""

    looks: int = 0
    fired: int = 0
    resolved: int = 0


class AlertDesk:
    """Everything about alerts."""

    def __init__(
        self,
        *,
        config: Config,
        clock: Clock,
        store: Store,
        registry: Registry,
        bus: Bus,
        ssh: SshDesk,
        watch: Watch,
        retention: Retention,
        levels: Levels,
        key: bytes,
        hub_id: str,
    ) -> None:
        self._clock = clock
        self._store = store
        self._registry = registry
        self._bus = bus
        self._retention = retention
        self._levels = levels
        self._hub_id = hub_id
        seal, sender, allowed = Seal(key), Sender(), Allowed.parse(config.alert_private_hosts)
        self.book = AlertBook(clock=clock, store=store, bus=bus, seal=seal, sender=sender, allowed=allowed)
        self.disks = Disks(clock=clock, registry=registry, store=store)
        self._gatherer = Gatherer(clock=clock, registry=registry, ways=ssh, side=watch, forecast=self.disks.of)
        self.outbox = Outbox(
            clock=clock,
            store=store,
            seal=seal,
            allowed=allowed,
            sender=sender,
            channels=self.book.channels,
            settled=self.book.settled,
        )
        self.deadman = Deadman(
            url=config.deadman_url, every_s=config.deadman_every_s, allowed=allowed, clock=clock, word=self.word
        )
        self.trouble = Trouble()
        self._late_s = [0.0] * LATE_TICKS
        self._looked_s: float | None = None
        self._kept_ms = 0
        self.counts = Counts()

    async def start(self) -> None:
        """Take over what the store holds."""
        await self.book.load()

    async def run(self) -> None:
        """Look, deliver, forecast and say that all is well, for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._looks())
            tasks.create_task(self.outbox.run())
            tasks.create_task(self.disks.run())
            tasks.create_task(self.deadman.run())

    async def _looks(self) -> None:
        while True:
            due_s = self._clock.monotonic() + TICK_S
            await asyncio.sleep(TICK_S)
            self._late_s = [*self._late_s[1:], max(0.0, self._clock.monotonic() - due_s)]
            try:
                await self.look()
            except Exception:
                FAULTS.count("alerts")
                log.exception("a look for alerts failed by a fault of ours")

    async def look(self) -> None:
        """Once. A store that cannot be read or written is what it may find."""
        now_ms = self.book.now_ms()
        try:
            async with self.book.lock:
                await self._look(now_ms)
                await self._works_again(now_ms)
        except StoreError as error:
            await self._in_trouble(str(error), now_ms)
            return
        self._looked_s = self._clock.monotonic()
        self.counts.looks += 1

    async def _look(self, now_ms: int) -> None:
        own = Own(
            late_s=max(self._late_s),
            levels=self._levels(),
            keeping=self._retention.keeping,
            failing={one.id: (one.name, one.failure) for one in self.book.channels() if one.failed_at_ms is not None},
            glance=await self._store.alerts.glance(self._clock.time_ms() - FAILING_WINDOW_MS),
        )
        before, limits = self.book.state, self.book.limits()
        picture = await self._gatherer.look(limits, before.watched, own)
        new_id = partial(uuid7, self._clock.time_ms())
        step = engine.step(before, picture, now_ms, limits, self.book.silences(), new_id)
        made = notices(step.told, self.book.channels(), now_ms, new_id)
        if step.watched or step.gone or step.alerts or now_ms - self._kept_ms >= KEEP_S * 1000:
            await self._store.alerts.keep(
                AlertChange(watched=step.watched, gone=step.gone, alerts=step.alerts, notices=made, looked_at_ms=now_ms)
            )
            self._kept_ms = now_ms
        self.book.state = step.state
        for told in step.told:
            self._say(told)
        if made:
            self.outbox.wake()
        if step.alerts:
            self._bus.publish(AlertsChanged())

    def _say(self, told: engine.Told) -> None:
        """In the log."""
        alert = told.alert
        if told.kind is Kind.RESOLVE:
            self.counts.resolved += 1
            log.info("an alert is over", alert=alert.id, rule=alert.rule.value, headline=alert.headline)
            return
        self.counts.fired += told.kind is Kind.FIRE
        log.warning(
            "an alert fires",
            alert=alert.id,
            rule=alert.rule.value,
            severity=alert.severity.value,
            headline=alert.headline,
            cause=alert.cause,
            again=told.kind is Kind.REMIND,
        )

    # --- while the store fails

    async def _in_trouble(self, why: str, now_ms: int) -> None:
        """Nothing can be kept: what has to be told goes straight to the channels."""
        log.error("alerts cannot be kept for want of the store", error=why)
        alert = self.trouble.failed(why, now_ms, self.book.limits()[Rule.HUB_STORE])
        if alert is None:
            return
        told = engine.Told(Kind.FIRE, alert)
        self._bus.publish(AlertsChanged())
        for notice in notices([told], self.book.channels(), now_ms, uuid7):
            delivered, _ = await self.outbox.send_now(self.book.channel(notice.channel_id), [message_of(notice)])
            if any(delivered):
                self.trouble.told(now_ms)
        self._say(told)

    async def _works_again(self, now_ms: int) -> None:
        """What was told without the store is written down, and its end told."""
        alert = self.trouble.works(now_ms)
        if alert is None:
            return
        told = engine.Told(Kind.RESOLVE, alert)
        said = [told] if alert.notified_at_ms is not None else []
        made = notices(said, self.book.channels(), now_ms, uuid7)
        await self._store.alerts.keep(AlertChange(alerts=[alert], notices=made))
        self.trouble.forget()
        self._say(told)
        self.outbox.wake()
        self._bus.publish(AlertsChanged())

    # --- for operators, and for whoever waits for a sign of life

    def firing(self) -> list[Alert]:
        """What fires now, the worst first."""
        alerts = [*self.book.state.alerts.values(), *([self.trouble.alert] if self.trouble.alert is not None else [])]
        return sorted(alerts, key=lambda one: (-one.severity.rank, one.fired_at_ms))

    async def test_channel(self, channel_id: str, by: str) -> Notice:
        """Send a notice now and wait for what becomes of it; it is kept beside the others.

        Raises:
            hub.alerts.book.Unknown: there is no such channel.
        """
        channel = self.book.channel(channel_id)
        now_ms = self._clock.time_ms()
        return await self.outbox.try_out(channel, trial(channel, now_ms, by, uuid7(now_ms)))

    def word(self) -> Word | None:
        """What the dead-man's ping says; None while the hub does not look."""
        if self._looked_s is None or self._clock.monotonic() - self._looked_s > WELL_S:
            return None
        nodes = self._registry.nodes()
        firing = self.firing()
        online = sum(node.state is NodeState.ONLINE for node in nodes)
        return Word(_WORDS[firing[0].severity] if firing else "ok", self._hub_id, len(nodes), online, len(firing))


_WORDS = {Severity.INFO: "ok", Severity.WARNING: "warn", Severity.CRITICAL: "error"}
