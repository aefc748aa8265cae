"""What is wrong with a card that answers: the faults that make it `degraded`, and the events they are. Pure.

Beginnings and ends of throttling are debounced, counters are compared with what they were, and everything is said once.
"""

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from agent.sensors import xids
from agent.sensors.nvml_messages import Card
from agent.sensors.xids import Sighting
from wire.events import Fields, Level
from wire.readings import GpuReading
from wire.text import clipped

THROTTLE_NAMES = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}
THROTTLE_SAID = 0x8 | 0x20 | 0x40 | 0x80
"""Reasons that are events: the card is held back by heat or by its supply. The power cap is how a busy card lives."""
THROTTLE_ROUNDS = 2
"""Rounds in a row that make a beginning."""
THROTTLE_END_S = 30.0
"""Without any of the reasons: the end."""
STRUCK_S = 3600.0
"""A card stays degraded for this long after an XID of the hardware kind."""

ECC_COUNTERS = {
    "ecc_uncorrected_volatile": ("uncorrected ECC errors", Level.ERROR),
    "ecc_uncorrected_aggregate": ("uncorrected ECC errors in its lifetime", Level.ERROR),
    "ecc_corrected_volatile": ("corrected ECC errors", Level.INFO),
    "remapped_rows_uncorrected": ("rows remapped after uncorrected errors", Level.WARNING),
    "remapped_rows_corrected": ("rows remapped after corrected errors", Level.INFO),
    "retired_pages": ("retired pages", Level.WARNING),
}
"""Counters whose increase is an event ``gpu.ecc``. The lifetime's corrected errors would only say the same again."""


class GpuEvent(Struct, frozen=True):
    """Something that happened to a card; becomes a `wire.events.NodeEvent`."""

    kind: str
    detail: str
    level: Level = Level.INFO
    fields: Fields = {}


def throttle_names(bits: int) -> str:
    """The reasons in words."""
    return ", ".join(name for bit, name in THROTTLE_NAMES.items() if bits & bit) or "none"


def xid_event(sighting: Sighting) -> GpuEvent:
    """The event of an XID that was seen, once or several times, since the last round."""
    row = xids.meaning(sighting.xid)
    times = "" if sighting.new == 1 else f", {sighting.new} times"
    said = f" [{sighting.said}]" if sighting.said else ""
    return GpuEvent(
        kind="gpu.xid",
        detail=clipped(f"GPU {sighting.card}: XID {sighting.xid}{times}, {row.name} ({row.kind}): {row.action}{said}"),
        level=Level.ERROR if row.kind is xids.Kind.HARDWARE else Level.WARNING,
        fields={
            "uuid": sighting.card,
            "xid": sighting.xid,
            "name": row.name,
            "severity": row.kind.value,
            "action": row.action,
            "count": sighting.new,
            "total": sighting.total,
        },
    )


class Health:
    """One card's faults."""

    def __init__(self) -> None:
        self._counters: dict[str, int] = {}
        self._standing: dict[str, str] = {}
        """Faults by their name, in words."""
        self._struck: tuple[int, float, int] | None = None
        self._throttled = False
        self._throttle_rounds = 0
        self._throttle_bits = 0
        self._throttle_s = 0.0
        self.crashes = False
        """NVML cannot read it without dying."""

    def faults(self) -> list[str]:
        """Why it is degraded; empty if it is not."""
        faults = list(self._standing.values())
        if self._throttled and self._throttle_bits & ~0x80:
            faults.append(f"slowed down: {throttle_names(self._throttle_bits)}")
        if self._struck is not None:
            xid, _, unix_ms = self._struck
            at = datetime.fromtimestamp(unix_ms / 1000, UTC)
            faults.append(f"XID {xid} at {at:%H:%M:%S} UTC ({xids.meaning(xid).name}): {xids.meaning(xid).action}")
        return faults

    def struck(self, xid: int, *, now_s: float, unix_ms: int) -> None:
        """An XID of the hardware kind."""
        self._struck = (xid, now_s, unix_ms)

    def unreadable(self, reading: GpuReading, said: str) -> list[GpuEvent]:
        """The card cannot be read; said once."""
        if self.crashes:
            return []
        self.crashes = True
        return [_event("gpu.unreadable", reading, said, Level.ERROR)]

    def forget_throttling(self) -> None:
        """It does not answer any more: whatever held it back is over."""
        self._throttled, self._throttle_rounds = False, 0

    def take(self, reading: GpuReading, card: Card, *, now_s: float) -> list[GpuEvent]:
        """What has happened since the last reading."""
        events: list[GpuEvent] = []
        if self.crashes:
            self.crashes = False
            events.append(_event("gpu.readable", reading, "it can be read again"))
        if self._struck is not None and now_s - self._struck[1] > STRUCK_S:
            self._struck = None
        increases = self._increases(reading)
        counted = any(event.fields["counter"] == "ecc_uncorrected_volatile" for event in increases)
        events += [*increases, *self._stand(reading, card, counted=counted)]
        events += self._throttle(reading, now_s)
        return events

    def _increases(self, reading: GpuReading) -> list[GpuEvent]:
        events: list[GpuEvent] = []
        for field, (what, level) in ECC_COUNTERS.items():
            value = getattr(reading, field)
            if value is None:
                continue
            before = self._counters.get(field)
            self._counters[field] = value
            if before is not None and value > before:
                said = f"{value - before} more {what}, now {value}"
                events.append(_event("gpu.ecc", reading, said, level, counter=field, new=value - before, total=value))
        return events

    def _stand(self, reading: GpuReading, card: Card, *, counted: bool) -> list[GpuEvent]:
        """Faults that stand in the card's own registers; ``counted`` if an increase has just told of the first."""
        standing: dict[str, str] = {}
        if reading.ecc_uncorrected_volatile:
            standing["ecc"] = (
                f"{reading.ecc_uncorrected_volatile} uncorrected ECC errors since the driver was loaded; "
                "reset the card when it is idle, replace it if they come back"
            )
        if reading.remapped_rows_failed:
            standing["remap_failed"] = "its memory has no spare rows left: have the card replaced"
        if reading.remapped_rows_pending:
            standing["remap_pending"] = "a row remapping is pending: reset the card when it is idle"
        if card.pages_pending:
            standing["pages_pending"] = "retired pages are pending: reboot the node when it is idle"
        if card.said:
            standing["reading"] = f"NVML cannot read what every card has: {card.said}"
        fresh = [name for name in standing if name not in self._standing]
        self._standing = standing
        return [
            _event(
                "gpu.unreadable" if name == "reading" else "gpu.ecc", reading, standing[name], Level.ERROR, fault=name
            )
            for name in fresh
            if name != "ecc" or not counted
        ]

    def _throttle(self, reading: GpuReading, now_s: float) -> list[GpuEvent]:
        if reading.throttle_reasons is None:
            return []
        bits = reading.throttle_reasons & THROTTLE_SAID
        if bits:
            self._throttle_rounds += 1
            self._throttle_s = now_s
            self._throttle_bits = bits if not self._throttled else self._throttle_bits | bits
        else:
            self._throttle_rounds = 0
        if not self._throttled and self._throttle_rounds >= THROTTLE_ROUNDS:
            self._throttled = True
            said = f"slowed down: {throttle_names(bits)}; look after its cooling and its power supply"
            return [_event("gpu.throttled", reading, said, Level.WARNING, active=True, bits=bits)]
        if self._throttled and now_s - self._throttle_s >= THROTTLE_END_S:
            self._throttled = False
            said = f"not slowed down any more (it was: {throttle_names(self._throttle_bits)})"
            return [_event("gpu.throttled", reading, said, active=False, bits=self._throttle_bits)]
        return []


def _event(kind: str, reading: GpuReading, said: str, level: Level = Level.INFO, **fields: Any) -> GpuEvent:
    who = f"GPU {reading.index if reading.index is not None else '?'} ({reading.uuid})"
    return GpuEvent(kind=kind, detail=clipped(f"{who}: {said}"), level=level, fields={"uuid": reading.uuid, **fields})
