"""What is known of alerts now, in memory as in the store, and what operators change of it.

One lock orders changes and looks: what a look decides from, nobody changes under it. Whatever holds is committed first.
"""

import asyncio
from collections.abc import Mapping

import msgspec

from hub.alerts import engine
from hub.alerts.facts import Rule
from hub.alerts.messenger import NO_APPRISE, Errand, shown
from hub.alerts.records import Alert, Channel, Phase, Silence
from hub.alerts.rules import RULES, Change, Limits, changed
from hub.alerts.sealed import Seal
from hub.alerts.sending import Sender
from hub.alerts.targets import Allowed
from hub.bus import AlertsChanged, Bus
from hub.clock import Clock
from hub.store.alerts import AlertChange
from hub.store.base import Store

CHANNELS_MAX = 50
SILENCES_MAX = 500


class Unknown(LookupError):
    """There is no such thing; the sentence says which."""


class Refused(Exception):
    """What was asked cannot be done; the sentence says why."""


class AlertBook:
    """State, rules, silences and channels."""

    def __init__(self, *, clock: Clock, store: Store, bus: Bus, seal: Seal, sender: Sender, allowed: Allowed) -> None:
        self._clock = clock
        self._store = store
        self._bus = bus
        self._seal = seal
        self._sender = sender
        self._allowed = allowed
        self._silences: list[Silence] = []
        self._channels: dict[str, Channel] = {}
        self._limits: dict[Rule, Limits] = {rule: declared.limits for rule, declared in RULES.items()}
        self._began = (clock.monotonic(), clock.time_ms())
        self.lock = asyncio.Lock()
        self.state = engine.State()
        """Changed by looks, under the lock."""

    async def load(self) -> None:
        """Take over what the store holds."""
        now_ms = self.now_ms()
        kept = await self._store.alerts.load(now_ms)
        before = engine.State({one.key: one for one in kept.watched}, {alert.id: alert for alert in kept.alerts})
        self.state = engine.restarted(before, now_ms)
        self._limits |= kept.limits
        self._silences = list(kept.silences)
        self._channels = {channel.id: channel for channel in kept.channels}

    def now_ms(self) -> int:
        """Wall time that never jumps while the hub runs: what has to last is measured by it."""
        began_s, began_ms = self._began
        return began_ms + int((self._clock.monotonic() - began_s) * 1000)

    # --- what there is

    def pending(self) -> int:
        """Subjects that are bad, and not yet for long enough."""
        return sum(one.phase is Phase.PENDING for one in self.state.watched.values())

    def limits(self) -> Mapping[Rule, Limits]:
        """Of every rule, as they hold now."""
        return self._limits

    def channels(self) -> list[Channel]:
        """All, by id."""
        return list(self._channels.values())

    def channel(self, channel_id: str) -> Channel:
        """One.

        Raises:
            Unknown: there is none.
        """
        channel = self._channels.get(channel_id)
        if channel is None:
            raise Unknown("there is no such channel")
        return channel

    def silences(self) -> list[Silence]:
        """Those that are not over."""
        now_ms = self.now_ms()
        self._silences = [silence for silence in self._silences if now_ms < silence.until_ms]
        return self._silences

    # --- what operators change

    async def acknowledge(self, alert_id: str, by: str, note: str, for_s: float | None) -> Alert:
        """Somebody looks after it: until it ends, or for a time.

        Raises:
            Unknown: it does not fire.
        """
        now_ms = self.now_ms()
        until_ms = None if for_s is None else now_ms + int(for_s * 1000)
        return await self._ack(
            alert_id, {"acked_by": by, "acked_at_ms": now_ms, "acked_until_ms": until_ms, "ack_note": note}
        )

    async def unacknowledge(self, alert_id: str) -> Alert:
        """Nobody looks after it any more.

        Raises:
            Unknown: it does not fire.
        """
        return await self._ack(alert_id, {"acked_by": "", "acked_at_ms": None, "acked_until_ms": None, "ack_note": ""})

    async def _ack(self, alert_id: str, fields: Mapping[str, object]) -> Alert:
        async with self.lock:
            before = self.state.alerts.get(alert_id)
            if before is None:
                raise Unknown("no alert of this id fires now")
            alert = msgspec.structs.replace(before, **fields)
            await self._store.alerts.keep(AlertChange(alerts=[alert]))
            self.state = engine.State(self.state.watched, {**self.state.alerts, alert_id: alert})
        self._bus.publish(AlertsChanged())
        return alert

    async def silence(self, silence: Silence, for_s: float) -> Silence:
        """No notices about what it matches, for a time; its own ``until_ms`` is set here.

        Raises:
            Refused: there are too many.
        """
        async with self.lock:
            if len(self.silences()) >= SILENCES_MAX:
                raise Refused(f"there are {SILENCES_MAX} silences already; end some")
            now_ms = self.now_ms()
            silence = msgspec.structs.replace(silence, created_at_ms=now_ms, until_ms=now_ms + int(for_s * 1000))
            await self._store.alerts.save_silence(silence)
            self._silences.append(silence)
        self._bus.publish(AlertsChanged())
        return silence

    async def end_silence(self, silence_id: str) -> Silence:
        """Now instead of later.

        Raises:
            Unknown: there is none, or it is over.
        """
        async with self.lock:
            before = next((one for one in self.silences() if one.id == silence_id), None)
            if before is None:
                raise Unknown("there is no such silence, or it is over")
            ended = msgspec.structs.replace(before, until_ms=self.now_ms())
            await self._store.alerts.save_silence(ended)
            self._silences = [one for one in self._silences if one.id != silence_id]
        self._bus.publish(AlertsChanged())
        return ended

    async def change_rule(self, rule: Rule, change: Change | None) -> Limits:
        """Other limits; None: as declared.

        Raises:
            Refused: they make no sense.
        """
        async with self.lock:
            try:
                after = RULES[rule].limits if change is None else changed(rule, self._limits[rule], change)
            except ValueError as error:
                raise Refused(str(error)) from None
            await self._store.alerts.save_limits(rule, None if after == RULES[rule].limits else after)
            self._limits[rule] = after
        self._bus.publish(AlertsChanged())
        return after

    async def save_channel(self, channel: Channel, url: str | None) -> Channel:
        """A new channel, or one changed; with another address if one is given.

        Raises:
            Refused: the name is taken, there are too many, or the address is none.
        """
        if url is not None:
            outcome = await self._sender.run(Errand(url, self._allowed))
            if outcome.error == NO_APPRISE or not outcome.service:
                raise Refused(outcome.error or "the address is none that Apprise knows")
            channel = msgspec.structs.replace(channel, address=self._seal.close(url), shown=shown(url))
        async with self.lock:
            if any(one.name == channel.name and one.id != channel.id for one in self._channels.values()):
                raise Refused("another channel has this name")
            if channel.id not in self._channels and len(self._channels) >= CHANNELS_MAX:
                raise Refused(f"there are {CHANNELS_MAX} channels already; remove one")
            await self._store.alerts.save_channel(channel)
            self._channels[channel.id] = channel
        self._bus.publish(AlertsChanged())
        return channel

    async def delete_channel(self, channel_id: str) -> None:
        """With what waits for it.

        Raises:
            Unknown: there is none.
        """
        async with self.lock:
            self.channel(channel_id)
            await self._store.alerts.delete_channel(channel_id)
            del self._channels[channel_id]
        self._bus.publish(AlertsChanged())

    def settled(self, channel: Channel) -> None:
        """A try is over; what was changed of the channel meanwhile stays."""
        now = self._channels.get(channel.id)
        if now is None:
            return
        fate = {name: getattr(channel, name) for name in ("delivered_at_ms", "failed_at_ms", "failure")}
        self._channels[channel.id] = msgspec.structs.replace(now, **fate)
        self._bus.publish(AlertsChanged())
