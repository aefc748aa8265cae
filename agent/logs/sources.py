"""What logs there are: each source reads, hands its lines over, and goes on when they are stored."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
import structlog
from msgspec import Struct

from agent.clock import Clock
from agent.logs.journal import Entry, JournalChild, JournalFault, JournalPlace
from agent.logs.limits import Reason
from agent.logs.own import OwnLog
from agent.logs.records import Line, parsed
from agent.logs.tail import FileTail, Place
from wire.frames import Level

log = structlog.get_logger(__name__)

FILE_POLL_S = 0.5
"""Between two looks at a file with nothing new."""
OWN_RECORDS_MAX = 500
"""Of the agent's own, in one submission."""
RESTART_S = 1.0
RESTART_S_MAX = 60.0
STABLE_S = 60.0
"""A journalctl that ran this long starts again at once."""
SETTLED_S = 5.0
"""One that ran this long can read, though there may be nothing to read yet."""

Mark = TypeVar("Mark", bound=Struct)


class SourceState(StrEnum):
    """How a source is."""

    READING = "reading"
    WAITING = "waiting"
    """There is nothing to read from yet."""
    UNREADABLE = "unreadable"


class SourceReading(Struct, frozen=True):
    """One source, for the local view."""

    source: str
    state: SourceState
    detail: str = ""


class Taken(Struct, frozen=True):
    """One line, and the mark to keep with it: where its source goes on."""

    line: Line
    mark: bytes | None = None


class Shipping(Protocol):
    """Where sources hand over what they read: the shipper."""

    async def ship(
        self, source: str, taken: Sequence[Taken], *, mark_name: str = "", mark: bytes | None = None, waits: bool
    ) -> None:
        """Store what is within the limits, with its marks, and finally ``mark``; returns when that is on the disk."""
        ...

    def left_out(self, source: str, reason: Reason, count: int, size_bytes: int) -> None:
        """Count what could not be handed over."""
        ...

    async def say(self, kind: str, detail: str, level: Level, **fields: str) -> None:
        """Tell of a source's trouble."""
        ...


class OwnSource:
    """The agent's own log."""

    def __init__(self, own: OwnLog) -> None:
        self.name = "agent"
        self._own = own

    def reading(self) -> SourceReading:
        """How it is."""
        return SourceReading(self.name, SourceState.READING)

    async def run(self, shipping: Shipping) -> None:
        """Hand over; for ever."""
        while True:
            await self._own.wait()
            lines, left_out = self._own.take(OWN_RECORDS_MAX)
            if left_out:
                shipping.left_out(self.name, Reason.BACKLOG, left_out, 0)
            await shipping.ship(self.name, [Taken(line) for line in lines], waits=False)


class _Trouble:
    """A source's problem, said once when it begins and once when it is over."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._said = ""
        self.text = ""

    async def now(self, text: str, shipping: Shipping, *, expected: bool = False) -> None:
        """The present trouble, empty for none. What is ``expected`` is shown, and no event."""
        if text == self.text:
            return
        before, self.text = self._said, text
        if expected:
            return
        self._said = text
        if text:
            log.warning("logs.unreadable", source=self._name, detail=text)
            await shipping.say("log.unreadable", f"{self._name}: {text}", Level.WARNING, source=self._name)
        elif before:
            log.info("logs.readable", source=self._name)
            await shipping.say("log.readable", f"{self._name} can be read again", Level.INFO, source=self._name)


class FileSource:
    """A file followed by name. Its reads run in a thread of its own: a dead network drive holds up nobody else."""

    def __init__(
        self,
        name: str,
        path: Path,
        *,
        kept: bytes | None,
        from_end: bool,
        named: bool,
        clock: Clock,
        plain_level: Level,
    ) -> None:
        self.name = name
        self.mark_name = f"log:{path}"
        place = _decoded(kept, Place)
        self._kept = kept if place is not None else None
        self._tail = FileTail(path, place, from_end=from_end)
        self._missing = True
        """Or not looked for yet."""
        self._named = named
        """By the operator, who may have misspelt it; a worker's log is made when the worker is."""
        self._clock = clock
        self._plain_level = plain_level
        self._trouble = _Trouble(name)
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="log-file")

    def reading(self) -> SourceReading:
        """How it is."""
        trouble = self._trouble.text
        state = SourceState.UNREADABLE if trouble else SourceState.READING
        if self._missing:
            state = SourceState.WAITING
        return SourceReading(self.name, state, trouble)

    async def run(self, shipping: Shipping) -> None:
        """Follow; for ever."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                chunk = await loop.run_in_executor(self._executor, self._tail.read, self._clock.monotonic())
                self._missing = chunk.missing
                if chunk.missed:
                    detail = (
                        f"{self.name}: lines were missed: the file was replaced, and the rest of the old one is gone"
                    )
                    await shipping.say("log.missed", detail, Level.WARNING, source=self.name)
                await self._trouble.now(chunk.problem, shipping, expected=chunk.missing and not self._named)
                taken = [
                    Taken(parsed(text, plain_level=self._plain_level), msgspec.json.encode(line.place))
                    for line in chunk.lines
                    if (text := line.data.decode("utf-8", "backslashreplace")).strip()
                ]
                mark = None if chunk.place is None else msgspec.json.encode(chunk.place)
                if mark != self._kept:
                    await shipping.ship(self.name, taken, mark_name=self.mark_name, mark=mark, waits=True)
                    self._kept = mark
                if not chunk.more:
                    await self._clock.sleep(FILE_POLL_S)
        finally:
            self._executor.submit(self._tail.close)
            self._executor.shutdown(wait=False)


class UnitSource:
    """A journald unit."""

    def __init__(
        self,
        name: str,
        unit: str,
        *,
        kept: bytes | None,
        environ: Mapping[str, str],
        clock: Clock,
        plain_level: Level = Level.INFO,
    ) -> None:
        self.name = name
        self.mark_name = f"log:unit:{unit}"
        self._unit = unit
        self._environ = environ
        self._clock = clock
        self._plain_level = plain_level
        self._place = _decoded(kept, JournalPlace)
        self._trouble = _Trouble(name)

    def reading(self) -> SourceReading:
        """How it is."""
        state = SourceState.UNREADABLE if self._trouble.text else SourceState.READING
        return SourceReading(self.name, state, self._trouble.text)

    async def run(self, shipping: Shipping) -> None:
        """Follow; for ever, however often journalctl ends."""
        if self._place is None:
            await self._keep(JournalPlace(since_s=self._clock.unix_ms() // 1000), [], shipping)
        wait_s = RESTART_S
        while True:
            began_s = self._clock.monotonic()
            try:
                await self._follow(shipping)
            except JournalFault as fault:
                await self._trouble.now(str(fault), shipping)
                if "cursor" in str(fault) and self._place is not None and self._place.cursor:
                    # A journal made anew knows no cursor of the old one: go on by the time of the last record.
                    await self._keep(JournalPlace(since_s=self._place.since_s), [], shipping)
            if self._clock.monotonic() - began_s >= STABLE_S:
                wait_s = RESTART_S
            await self._clock.sleep(wait_s)
            wait_s = min(2 * wait_s, RESTART_S_MAX)

    async def _follow(self, shipping: Shipping) -> None:
        assert self._place is not None  # noqa: S101 - set before
        async with JournalChild(self._unit, self._place, self._environ, self._plain_level) as child:
            settling = asyncio.create_task(self._settle(child, shipping))
            try:
                async for entries in child.batches():
                    await self._hand_over(entries, shipping)
            finally:
                settling.cancel()
                await asyncio.gather(settling, return_exceptions=True)

    async def _settle(self, child: JournalChild, shipping: Shipping) -> None:
        await self._clock.sleep(SETTLED_S)
        await self._trouble.now(child.hint, shipping)

    async def _hand_over(self, entries: Sequence[Entry], shipping: Shipping) -> None:
        assert self._place is not None  # noqa: S101 - set before
        place, taken = self._place, []
        for entry in entries:
            if entry.cursor:
                place = JournalPlace(_since_s(entry.line, place), entry.cursor)
            if entry.line is None:
                shipping.left_out(self.name, Reason.UNREADABLE, 1, entry.size_bytes)
            else:
                taken.append(Taken(entry.line, msgspec.json.encode(place)))
        await self._keep(place, taken, shipping)

    async def _keep(self, place: JournalPlace, taken: Sequence[Taken], shipping: Shipping) -> None:
        mark = msgspec.json.encode(place)
        await shipping.ship(self.name, taken, mark_name=self.mark_name, mark=mark, waits=True)
        self._place = place


def _since_s(line: Line | None, place: JournalPlace) -> int:
    return place.since_s if line is None or line.time_ms is None else line.time_ms // 1000


def _decoded(kept: bytes | None, kind: type[Mark]) -> Mark | None:
    """A mark; None if there is none, or it is damaged."""
    if kept is None:
        return None
    try:
        return msgspec.json.decode(kept, type=kind)
    except msgspec.MsgspecError:
        return None
