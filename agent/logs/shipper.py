"""Ships logs: what the sources read, within the limits, into the outbox, with the places the sources have reached.

What holds: a record of a file or a unit is stored exactly once, whenever the agent is killed, because its place is kept
in the transaction that stores it. The agent's own records are stored once or, if it is killed, perhaps not at all.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from agent.clock import Clock
from agent.logs.batches import BATCH_BYTES_MAX, Batches
from agent.logs.limits import Limits, Reason, by_kind
from agent.logs.own import OwnLog
from agent.logs.records import ORDER, Line, record, size_of
from agent.logs.settings import LogSettings
from agent.logs.sources import OWN_RECORDS_MAX, FileSource, OwnSource, SourceReading, Taken, UnitSource
from agent.outbox import Outbox, Stamped
from agent.outbox_file import OutboxRefused
from wire.frames import EventBody, Level, LogRecord, NodeEvent
from wire.limits import NAME_CHARS_MAX

LIMITS_MARK = "log:limits"
WINDOWS_S = 1.0
"""Between two looks for what was left out and is to be told."""
CLOSE_S = 2.0


class WorkerLog(Struct, frozen=True):
    """Where one worker's log is: a file, or a unit's journal."""

    device: str
    file: Path | None = None
    unit: str = ""


class LogCounts(Struct, frozen=True):
    """For the metrics, since the start. Sources by their kind: agent, worker, file, unit."""

    shipped: Mapping[str, int]
    suppressed: Mapping[tuple[str, Reason], int]
    bytes_today: int
    bytes_per_day: int
    waiting_for_disk: bool


Source = OwnSource | FileSource | UnitSource


class LogShipper:
    """The sources, the limits, and the way into the outbox. Made by `open_shipper`."""

    def __init__(
        self,
        *,
        sources: Sequence[Source],
        own: OwnLog,
        outbox: Outbox,
        clock: Clock,
        limits: Limits,
        settings: LogSettings,
    ) -> None:
        self._sources = sources
        self._own = own
        self._outbox = outbox
        self._clock = clock
        self._limits = limits
        self._settings = settings
        self._batches = Batches(outbox, clock)
        self._shipped: Counter[str] = Counter()

    async def run(self) -> None:
        """Ship; for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._batches.run())
            tasks.create_task(self._tell_windows())
            for source in self._sources:
                tasks.create_task(source.run(self))

    async def close(self) -> None:
        """Store what the agent itself has said until now, if the disk takes it. ``run`` has ended before."""
        lines, _ = self._own.take(OWN_RECORDS_MAX)
        stamped, _ = self._admitted("agent", lines)
        with suppress(OutboxRefused, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._outbox.append_stamped(stamped, {LIMITS_MARK: self._limits.kept()})

    def readings(self) -> list[SourceReading]:
        """Every source, for the local view."""
        return [source.reading() for source in self._sources]

    def counts(self) -> LogCounts:
        """For the metrics."""
        shipped: Counter[str] = Counter()
        for source, count in self._shipped.items():
            shipped[source.partition(":")[0]] += count
        return LogCounts(
            shipped=shipped,
            suppressed={(kind, reason): count for kind, reason, count in by_kind(self._limits.suppressed)},
            bytes_today=self._limits.bytes_today,
            bytes_per_day=self._settings.rates.bytes_per_day,
            waiting_for_disk=self._batches.refused,
        )

    # --- what sources hand over -------------------------------------------------------------------------------------

    async def ship(
        self, source: str, taken: Sequence[Taken], *, mark_name: str = "", mark: bytes | None = None, waits: bool
    ) -> None:
        """See `agent.logs.sources.Shipping`."""
        stamped: list[Stamped] = []
        size_bytes, reached = 0, None

        async def store(reached: bytes | None) -> None:
            nonlocal size_bytes
            marks = {LIMITS_MARK: self._limits.kept()}
            if reached is not None:
                marks[mark_name] = reached
            self._shipped[source] += len(stamped)
            await self._batches.submit(tuple(stamped), marks, size_bytes)
            stamped.clear()
            size_bytes = 0

        for one in taken:
            if waits and self._wanted(one.line):
                while pause_s := self._limits.pause_s(source, self._clock.monotonic()):
                    if stamped:
                        await store(reached)
                    await self._clock.sleep(pause_s)
            more, more_bytes = self._admitted(source, [one.line])
            if stamped and size_bytes + more_bytes > BATCH_BYTES_MAX:
                await store(reached)
            stamped += more
            size_bytes += more_bytes
            reached = one.mark or reached
        await store(mark if mark is not None else reached)

    def left_out(self, source: str, reason: Reason, count: int, size_bytes: int) -> None:
        """See `agent.logs.sources.Shipping`."""
        now_s, now_ms = self._clock.monotonic(), self._clock.unix_ms()
        self._limits.left_out(source, reason, count, size_bytes, now_s=now_s, now_ms=now_ms)

    async def say(self, kind: str, detail: str, level: Level, **fields: str) -> None:
        """See `agent.logs.sources.Shipping`."""
        await self._outbox.say(kind, detail, level, **fields)

    def _wanted(self, line: Line) -> bool:
        return ORDER[line.level] >= ORDER[self._settings.level]

    def _admitted(self, source: str, lines: Sequence[Line]) -> tuple[list[Stamped], int]:
        """The records of these lines that are shipped, and their size."""
        now_s, now_ms, now_ns = self._clock.monotonic(), self._clock.unix_ms(), self._clock.monotonic_ns()
        stamped: list[Stamped] = []
        total_bytes = 0
        for line in lines:
            if not self._wanted(line):
                continue
            body, time_ms = record(source, line, now_ms)
            size_bytes = size_of(body)
            if self._limits.admits(source, size_bytes, now_s=now_s, now_ms=now_ms):
                stamped.append((body, time_ms, now_ns))
                total_bytes += size_bytes
        return stamped, total_bytes

    async def _tell_windows(self) -> None:
        while True:
            await self._clock.sleep(WINDOWS_S)
            events = self._limits.take_due(self._clock.monotonic())
            if events:
                await self._tell(events)

    async def _tell(self, events: Sequence[NodeEvent]) -> None:
        """As events, and in the logs themselves: whoever reads one has to see that there was more."""
        now_ms, now_ns = self._clock.unix_ms(), self._clock.monotonic_ns()
        bodies: list[EventBody] = [*events]
        bodies += [LogRecord(str(event.fields["source"]), event.detail, event.level) for event in events]
        await self._batches.submit([(body, now_ms, now_ns) for body in bodies], {LIMITS_MARK: self._limits.kept()}, 0)


async def open_shipper(
    settings: LogSettings,
    *,
    workers: Sequence[WorkerLog],
    own: OwnLog,
    outbox: Outbox,
    clock: Clock,
    environ: Mapping[str, str],
) -> LogShipper:
    """A shipper that goes on where the last run's stopped."""
    marks = await outbox.marks()
    sources: list[Source] = [OwnSource(own)]
    for worker in workers:
        name = f"worker:{worker.device}"
        # Its own records are JSON; what else it says, it says because something went wrong.
        if worker.file is not None:
            kept, there = marks.get(f"log:{worker.file}"), worker.file.exists()
            sources.append(
                FileSource(
                    name, worker.file, kept=kept, from_end=there, named=False, clock=clock, plain_level=Level.WARNING
                )
            )
        elif worker.unit:
            kept = marks.get(f"log:unit:{worker.unit}")
            sources.append(
                UnitSource(name, worker.unit, kept=kept, environ=environ, clock=clock, plain_level=Level.WARNING)
            )
    for path in settings.files:
        kept = marks.get(f"log:{path}")
        sources.append(
            FileSource(
                file_source(path), path, kept=kept, from_end=True, named=True, clock=clock, plain_level=Level.INFO
            )
        )
    for unit in settings.units:
        kept = marks.get(f"log:unit:{unit}")
        sources.append(UnitSource(f"unit:{unit}"[:NAME_CHARS_MAX], unit, kept=kept, environ=environ, clock=clock))
    limits = Limits(settings.rates, clock.monotonic(), marks.get(LIMITS_MARK))
    return LogShipper(sources=sources, own=own, outbox=outbox, clock=clock, limits=limits, settings=settings)


def file_source(path: Path) -> str:
    """The source's name of a file: its path, the end of a long one."""
    text = str(path).encode("utf-8", "backslashreplace").decode()
    return f"file:{text}" if len(text) <= NAME_CHARS_MAX - len("file:") else f"file:...{text[8 - NAME_CHARS_MAX :]}"
