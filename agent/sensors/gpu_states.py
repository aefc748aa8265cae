"""The state of every card, from what a round told of it. Pure: no clock, no process, no file.

A card is `ok` or `degraded` when it was read; what else it can be, and which change is which event, is in the tables
below. A card that was once seen stays listed, keyed by its UUID, whatever becomes of it.
"""

from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from agent.sensors import gpu_health, xids
from agent.sensors.gpu_health import GpuEvent, Health
from agent.sensors.kmsg import KernelXid, pci_key
from agent.sensors.nvml_messages import (
    ERROR_GPU_IS_LOST,
    ERROR_MISMATCH,
    ERROR_NO_PERMISSION,
    ERROR_NOT_SUPPORTED,
    ERROR_RESET_REQUIRED,
    Begin,
    Card,
    End,
    Problem,
    XidSeen,
)
from agent.sensors.xids import Source, XidCounts
from wire.events import Level
from wire.limits import GPUS_MAX
from wire.readings import GpuReading, GpuState
from wire.text import clipped

WITHDRAWN_S = 30.0
"""Readings older than this are not shown any more, whatever hinders new ones."""
LIVE = frozenset({GpuState.OK, GpuState.DEGRADED})
"""States of a card that answers."""
STATIC = (
    "uuid",
    "name",
    "index",
    "pci_bus_id",
    "driver_version",
    "cuda_version",
    "vbios_version",
    "memory_total_bytes",
)
"""What stays true of a card that does not answer."""

BAD = {
    GpuState.LOST: "gpu.lost",
    GpuState.ABSENT: "gpu.lost",
    GpuState.DRIVER_HUNG: "gpu.hung",
    GpuState.DRIVER_MISMATCH: "gpu.mismatch",
}
"""The event when a card comes into a state in which it does not answer. When it answers again: ``gpu.returned``."""
SILENT = frozenset({(GpuState.LOST, GpuState.ABSENT)})
"""Changes that are no news: the driver stops listing a lost card at its next start."""


class Heard(NamedTuple):
    """All that one round told."""

    cards: list[Card]
    end: End | None
    """None where the child hung, died, or could not be started."""
    at: Begin | None = None
    """The card the child was at when it hung or died."""
    problem: Problem = Problem.NONE
    """Why there is no end."""
    said: str = ""
    stuck: bool = False
    """A hung child cannot be killed: the whole driver hangs."""
    waiting: bool = False
    """Nobody was asked this time; ``end``, ``problem`` and ``said`` are what was told last."""
    skipped: frozenset[int] = frozenset()
    """Indices of cards that were left alone on purpose."""
    xids: tuple[XidSeen, ...] = ()
    kernel_xids: tuple[KernelXid, ...] = ()
    kernel_readable: bool = False


class Report(Struct, frozen=True):
    """What the round comes to."""

    problem: Problem
    detail: str
    gpus: list[GpuReading]
    events: list[GpuEvent]


class _Known:
    """A card that was seen once."""

    def __init__(self, uuid: str, now_s: float) -> None:
        self.reading = GpuReading(uuid=uuid)
        self.read_s = now_s
        self.first = True
        self.state = GpuState.OK
        self.detail = ""
        self.asleep = False
        self.fresh = False
        self.health = Health()


class Fleet:
    """The cards of this node."""

    def __init__(self) -> None:
        self._cards: dict[str, _Known] = {}
        self._xids = XidCounts()
        self._xid_last: dict[str, tuple[int, int]] = {}
        self._watched = False
        self._problem = Problem.NONE
        self._events: list[GpuEvent] = []

    @property
    def any_lost(self) -> bool:
        """Whether a card is lost or absent, so that a new look at the driver's list may find it again."""
        return any(known.state in (GpuState.LOST, GpuState.ABSENT) for known in self._cards.values())

    def take(self, heard: Heard, *, now_s: float, unix_ms: int) -> Report:
        """The picture after one more round."""
        self._events = []
        for known in self._cards.values():
            known.fresh = False
        problem = heard.problem if heard.end is None else heard.end.problem
        said = clipped(heard.said if heard.end is None else heard.end.said)
        listed = self._take_cards(heard, now_s)
        self._take_xids(heard, now_s=now_s, unix_ms=unix_ms)
        if heard.end is None:
            self._broken(heard, now_s)
        elif problem is not Problem.NONE:
            self._unreadable(problem, said, listed=listed, now_s=now_s)
        else:
            self._unlisted(heard.skipped, listed)
        readable = any(known.fresh for known in self._cards.values())
        if heard.end is None and not heard.stuck and (readable or heard.at is not None):
            problem = Problem.NONE  # the cards themselves say which of them it is
        elif heard.end is None and heard.waiting and not heard.stuck:
            problem = self._problem
        self._say_problem(problem, said, count=heard.end.count if heard.end is not None else len(heard.cards))
        return Report(
            problem=problem,
            detail=said if problem is not Problem.NONE else "",
            gpus=[self._shown(known, now_s) for known in self._in_order()],
            events=self._events,
        )

    # --- cards ----------------------------------------------------------------------------------------------------

    def _take_cards(self, heard: Heard, now_s: float) -> set[str]:
        """Take in what was told of each card; the UUIDs told of."""
        named = {card.uuid for card in heard.cards if card.uuid is not None}
        listed: set[str] = set()
        for card in heard.cards:
            uuid = card.uuid or self._uuid_at(card.index, named) or f"index-{card.index}"
            if uuid in listed:
                continue
            listed.add(uuid)
            known = self._known(uuid, now_s)
            if card.uuid is not None and (stand_in := self._cards.get(f"index-{card.index}")) is not None:
                del self._cards[stand_in.reading.uuid]
            if card.error == 0 and card.reading is not None:
                self._read(known, card, card.reading, now_s)
                continue
            if known.first:
                known.reading = msgspec.structs.replace(known.reading, index=card.index)
            self._move(known, *_failing(card))
        return listed

    def _read(self, known: _Known, card: Card, reading: GpuReading, now_s: float) -> None:
        known.reading = msgspec.structs.replace(reading, uuid=known.reading.uuid, state=GpuState.OK, detail="")
        known.read_s, known.fresh, known.first, known.asleep = now_s, True, False, card.asleep
        if card.asleep:
            self._move(known, GpuState.OK, "asleep: not read, so as not to wake it")
            return
        self._events += known.health.take(known.reading, card, now_s=now_s)
        faults = known.health.faults()
        self._move(known, GpuState.DEGRADED if faults else GpuState.OK, "; ".join(faults))

    def _uuid_at(self, index: int, named: set[str]) -> str | None:
        """The UUID of a card that does not say it any more: the one last seen at its index."""
        there = [uuid for uuid, known in self._cards.items() if known.reading.index == index and uuid not in named]
        return max(there, key=lambda uuid: self._cards[uuid].read_s, default=None)

    def _known(self, uuid: str, now_s: float) -> _Known:
        if uuid not in self._cards and len(self._cards) >= GPUS_MAX:
            gone = [key for key, known in self._cards.items() if known.state is GpuState.ABSENT]
            del self._cards[min(gone or self._cards, key=lambda key: self._cards[key].read_s)]
        return self._cards.setdefault(uuid, _Known(uuid, now_s))

    def _move(self, known: _Known, state: GpuState, detail: str) -> None:
        """Set a card's state; a change of it is an event."""
        before, known.state, known.detail = known.state, state, clipped(detail)
        if before is state or (before, state) in SILENT:
            return
        who = {"uuid": known.reading.uuid, "index": known.reading.index, "pci": known.reading.pci_bus_id}
        name = f"GPU {known.reading.index if known.reading.index is not None else '?'} ({known.reading.uuid})"
        if state in BAD:
            known.health.forget_throttling()
            self._say(BAD[state], f"{name}: {detail}", Level.ERROR, **who, state=state.value, before=before.value)
        elif before in BAD:
            self._say("gpu.returned", f"{name} answers again", Level.INFO, **who, before=before.value)

    def _say(self, kind: str, detail: str, level: Level, **fields: Any) -> None:
        self._events.append(GpuEvent(kind=kind, detail=clipped(detail), level=level, fields=fields))

    # --- rounds without an end, or without cards ------------------------------------------------------------------

    def _broken(self, heard: Heard, now_s: float) -> None:
        """The child hung, died, or was not there. The card it was at is known; of the others there is no news."""
        hung = heard.problem is Problem.HUNG
        culprit = None
        if heard.at is not None:
            named = {card.uuid for card in heard.cards if card.uuid is not None}
            uuid = heard.at.uuid or self._uuid_at(heard.at.index, named) or f"index-{heard.at.index}"
            culprit = self._known(uuid, now_s)
            if culprit.first:
                culprit.reading = msgspec.structs.replace(culprit.reading, index=heard.at.index)
            if hung:
                self._move(culprit, GpuState.DRIVER_HUNG, heard.said)
            else:
                self._events += culprit.health.unreadable(culprit.reading, heard.said)
                self._move(culprit, GpuState.DEGRADED, heard.said)
        for known in self._cards.values():
            if known.fresh or known is culprit or known.state not in LIVE:
                continue
            if hung and not heard.waiting and (heard.stuck or heard.at is None):
                self._move(known, GpuState.DRIVER_HUNG, heard.said)
            elif now_s - known.read_s > WITHDRAWN_S:
                self._move(known, GpuState.DEGRADED, f"it cannot be read: {heard.said}")

    def _unreadable(self, problem: Problem, said: str, *, listed: set[str], now_s: float) -> None:
        """NVML itself gave an error."""
        for uuid, known in self._cards.items():
            if uuid in listed:
                continue
            if problem is Problem.MISMATCH:
                self._move(known, GpuState.DRIVER_MISMATCH, _mismatch(said))
            elif problem is Problem.MISSING:
                self._move(known, GpuState.ABSENT, f"there is no driver any more: {said}")
            elif known.state in LIVE and now_s - known.read_s > WITHDRAWN_S:
                self._move(known, GpuState.DEGRADED, f"it cannot be read: {said}")

    def _unlisted(self, skipped: frozenset[int], listed: set[str]) -> None:
        """A whole round: whoever was not in it, and not left alone on purpose, is not there."""
        for uuid, known in self._cards.items():
            if uuid not in listed and known.reading.index not in skipped:
                self._move(known, GpuState.ABSENT, "it was there and is not listed any more")

    def _say_problem(self, problem: Problem, said: str, *, count: int) -> None:
        """Say what is wrong with the node as a whole, where no card of its own says it."""
        before, self._problem = self._problem, problem
        if problem is before:
            return
        if problem is Problem.NONE:
            self._say("gpu.readable", f"{count} cards can be read", Level.INFO, gpus=count)
        elif problem is Problem.FAILED:
            self._say("gpu.unreadable", said, Level.ERROR, problem=problem.value)
        elif problem is not Problem.MISSING and not self._cards:
            kind = "gpu.hung" if problem is Problem.HUNG else "gpu.mismatch"
            self._say(kind, said if problem is Problem.HUNG else _mismatch(said), Level.ERROR, problem=problem.value)

    # --- XIDs -----------------------------------------------------------------------------------------------------

    def _take_xids(self, heard: Heard, *, now_s: float, unix_ms: int) -> None:
        at_pci = {
            key: uuid
            for uuid, known in self._cards.items()
            if known.reading.pci_bus_id is not None and (key := pci_key(known.reading.pci_bus_id)) is not None
        }
        self._watched = heard.kernel_readable or (self._watched if heard.end is None else heard.end.watches_xids)
        for each in heard.kernel_xids:
            self._xids.add(at_pci.get(each.pci, each.pci), each.xid, Source.KERNEL, now_s, each.said)
        for seen in heard.xids:
            if seen.uuid is not None:
                self._xids.add(seen.uuid, seen.xid, Source.NVML, now_s)
        for sighting in self._xids.take():
            self._xid_last[sighting.card] = (sighting.xid, unix_ms)
            self._events.append(gpu_health.xid_event(sighting))
            known = self._cards.get(sighting.card)
            if known is not None and xids.meaning(sighting.xid).kind is xids.Kind.HARDWARE:
                known.health.struck(sighting.xid, now_s=now_s, unix_ms=unix_ms)
                if known.state in LIVE:
                    self._move(known, GpuState.DEGRADED, "; ".join(known.health.faults()))
        while len(self._xid_last) > xids.KEYS_MAX:
            del self._xid_last[next(iter(self._xid_last))]

    # --- what is shown --------------------------------------------------------------------------------------------

    def _in_order(self) -> list[_Known]:
        def place(known: _Known) -> tuple[int, str]:
            index = known.reading.index
            return (GPUS_MAX if index is None or known.state is GpuState.ABSENT else index, known.reading.uuid)

        return sorted(self._cards.values(), key=place)

    def _shown(self, known: _Known, now_s: float) -> GpuReading:
        reading, age_s = known.reading, None if known.fresh else now_s - known.read_s
        if known.state not in LIVE or known.health.crashes or (age_s is not None and age_s > WITHDRAWN_S):
            # Nothing is left that has an age; one that grew for ever would change the status each round.
            age_s = None
            reading = GpuReading(**{name: getattr(reading, name) for name in STATIC})
        last = self._xid_last.get(reading.uuid)
        return msgspec.structs.replace(
            reading,
            state=known.state,
            detail=known.detail,
            index=None if known.state is GpuState.ABSENT else reading.index,
            xid_count=self._xids.total(reading.uuid) if self._watched or last is not None else None,
            xid_last=None if last is None else last[0],
            xid_last_time_ms=None if last is None else last[1],
            age_s=None if age_s is None or known.first else float(round(age_s)),
        )


def _failing(card: Card) -> tuple[GpuState, str]:
    """The state of a card that gave an error instead of readings."""
    if card.error == ERROR_GPU_IS_LOST:
        return GpuState.LOST, f"{card.said}: it has fallen off the bus; reset the card or reboot the node"
    if card.error == ERROR_RESET_REQUIRED:
        return GpuState.LOST, f"{card.said}: drain the node and reset the card"
    if card.error == ERROR_MISMATCH:
        return GpuState.DRIVER_MISMATCH, _mismatch(card.said)
    if card.error in (ERROR_NO_PERMISSION, ERROR_NOT_SUPPORTED):
        return GpuState.OK, f"NVML does not let the agent look at it: {card.said}"
    return GpuState.DEGRADED, f"NVML cannot open it: {card.said}"


def _mismatch(said: str) -> str:
    return f"{said}: the driver was upgraded under the running kernel module; reboot the node"
