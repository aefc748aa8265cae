"""The outbox as the event loop sees it: the file's calls, each made in one thread of its own and awaited.

Also the one door for things that happened: `Outbox.say` for what an operator wants to know later, `Outbox.end_job`
for results. A full disk loses no result (the caller tries again) and makes the loss of the rest an event of its own.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

import msgspec
import structlog

from agent.clock import Clock
from agent.outbox_bounds import Bounds, Counts
from agent.outbox_file import OutboxFile, OutboxRefused
from agent.outbox_jobs import JobRecord
from agent.outbox_owner import Owner
from agent.outbox_rows import stream_of
from agent.tally import Timing
from wire.frames import (
    Event,
    EventBody,
    HeldRange,
    JobFailed,
    JobStopped,
    JobSucceeded,
    Level,
    NodeEvent,
    Stream,
)
from wire.limits import TEXT_CHARS_MAX
from wire.status import OutboxReading

log = structlog.get_logger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
Field = str | int | float | bool | None
Stamped = tuple[EventBody, int, int]
"""A body, the wall time in Unix milliseconds and the monotonic nanoseconds at which it happened."""
JobEnd = JobSucceeded | JobFailed | JobStopped


class Outbox:
    """Durable events and jobs of one agent. Open with `open_outbox`, close with `close`."""

    def __init__(self, file: OutboxFile, executor: ThreadPoolExecutor, clock: Clock) -> None:
        self._file = file
        self._executor = executor
        self._clock = clock
        self._refused: Counter[Stream] = Counter()
        self._unsaid = 0
        self.epoch = file.epoch
        self.damage = file.damage
        self.held: list[HeldRange] = file.held()
        """Ranges held, as of the last completed call."""
        self.reading: OutboxReading = file.reading()
        self._counts = file.counts()
        self.commits = Timing()
        """From the call to what is durable."""
        self.on_append: Callable[[], None] = lambda: None
        """Called on the loop after something was stored."""

    async def _call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        def work() -> tuple[R, list[HeldRange], OutboxReading, Counts]:
            result = function(*args, **kwargs)
            return result, self._file.held(), self._file.reading(), self._file.counts()

        loop = asyncio.get_running_loop()
        result, self.held, self.reading, self._counts = await loop.run_in_executor(self._executor, work)
        return result

    @property
    def counts(self) -> Counts:
        """What is held, was dropped and was refused by the disk, by stream; as of the last completed call."""
        return msgspec.structs.replace(self._counts, refused=dict(self._refused))

    async def close(self) -> None:
        """Finish what is under way and close the file."""
        await asyncio.get_running_loop().run_in_executor(self._executor, self._file.close)
        self._executor.shutdown()

    # --- what happened --------------------------------------------------------------------------------------------

    async def say(self, kind: str, detail: str, level: Level = Level.INFO, **fields: Field) -> None:
        """Store a `NodeEvent`. Never raises for a full disk: what is lost is counted, and said when it is over."""
        await self.keep([NodeEvent(kind=kind, detail=clip(detail), level=level, fields=fields)])

    async def keep(self, bodies: Sequence[EventBody]) -> bool:
        """Store events as having happened now, with the promise of `say`; whether they are stored."""
        return await self.keep_stamped(self._stamped(bodies))

    async def keep_stamped(self, stamped: Sequence[Stamped]) -> bool:
        """Store events that happened at their own times, with the promise of `say`; whether they are stored.

        One fsync, however many they are: for what comes by hundreds a second and waits a moment to be stored together.
        """
        if not stamped:
            return True
        unsaid = self._unsaid
        batch = list(stamped)
        if unsaid:
            detail = f"{unsaid} events were lost because the disk took nothing"
            lost = NodeEvent(kind="outbox.refused", detail=detail, level=Level.ERROR, fields={"count": unsaid})
            batch = [*self._stamped([lost]), *batch]
        try:
            await self.append_stamped(batch)
        except OutboxRefused as refused:
            self._refused.update(stream_of(body) for body, _, _ in stamped)
            self._unsaid += len(stamped)
            log.warning("outbox.refused", error=str(refused), lost=self._unsaid)
            return False
        self._unsaid -= unsaid
        return True

    def _stamped(self, bodies: Sequence[EventBody]) -> list[Stamped]:
        unix_ms, monotonic_ns = self._clock.unix_ms(), self._clock.monotonic_ns()
        return [(body, unix_ms, monotonic_ns) for body in bodies]

    async def append(self, bodies: Sequence[EventBody]) -> list[int]:
        """Store events durably, all or none, as having happened now; their numbers. One fsync, however many they are.

        Raises:
            OutboxRefused: the disk did not take them.
        """
        return await self.append_stamped(self._stamped(bodies))

    async def append_stamped(self, stamped: Sequence[Stamped], marks: Mapping[str, bytes] | None = None) -> list[int]:
        """Store events that happened at their own times, and marks with them, durably, all or none; their numbers.

        Raises:
            OutboxRefused: the disk did not take them.
        """
        began_s = self._clock.monotonic()
        numbers = await self._call(self._file.append, stamped, marks)
        self.commits.add(self._clock.monotonic() - began_s)
        if stamped:
            self.on_append()
        return numbers

    async def marks(self) -> dict[str, bytes]:
        """See `OutboxFile.marks`."""
        return await self._call(self._file.marks)

    async def belongs_to(self, owner: Owner) -> None:
        """See `OutboxFile.belongs_to`; what was left behind is said.

        Raises:
            OutboxRefused: the disk did not take it.
        """
        if left := await self._call(self._file.belongs_to, owner):
            told = ", ".join(f"{count} of {stream}" for stream, count in left.items())
            detail = f"this node was enrolled at another hub: what it still held for the one before was dropped: {told}"
            log.warning("outbox.left_behind", detail=detail)
            await self.say("outbox.left_behind", detail, Level.WARNING)

    # --- replay ---------------------------------------------------------------------------------------------------

    async def read(self, epoch: str, stream: Stream, after_seq: int, count_max: int, bytes_max: int) -> list[Event]:
        """See `OutboxFile.read`."""
        return await self._call(self._file.read, epoch, stream, after_seq, count_max, bytes_max)

    async def acknowledge(self, epoch: str, stream: Stream, seq: int) -> None:
        """See `OutboxFile.acknowledge`; a full disk only delays it."""
        try:
            await self._call(self._file.acknowledge, epoch, stream, seq)
        except OutboxRefused as refused:
            log.warning("outbox.refused", error=str(refused), lost=0)

    # --- jobs -----------------------------------------------------------------------------------------------------

    async def hold_job(self, record: JobRecord) -> None:
        """See `OutboxFile.hold_job`."""
        await self._call(self._file.hold_job, record)

    async def jobs_held(self) -> list[JobRecord]:
        """See `OutboxFile.jobs_held`."""
        return await self._call(self._file.jobs_held)

    async def jobs_ended(self) -> list[tuple[str, int]]:
        """See `OutboxFile.jobs_ended`."""
        return await self._call(self._file.jobs_ended)

    async def results_held(self) -> list[tuple[str, int]]:
        """See `OutboxFile.results_held`."""
        return await self._call(self._file.results_held)

    async def end_job(self, body: JobEnd) -> bool:
        """Store the end of an attempt, once; False if it was stored before.

        Raises:
            OutboxRefused: the disk did not take it.
        """
        unix_ms, monotonic_ns = self._clock.unix_ms(), self._clock.monotonic_ns()
        new = await self._call(self._file.end_job, body.job, body.attempt, body, unix_ms, monotonic_ns)
        if new:
            self.on_append()
        return new


async def open_outbox(path: Path, epoch: str, clock: Clock, bounds: Bounds) -> Outbox:
    """Open or make the outbox file.

    Raises:
        ConfigFault: it cannot be opened at all. A damaged file is put aside instead (`Outbox.damage`).
    """
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="outbox")
    try:
        file = await asyncio.get_running_loop().run_in_executor(executor, OutboxFile, path, epoch, bounds, clock)
    except BaseException:
        executor.shutdown()
        raise
    return Outbox(file, executor, clock)


def clip(text: str) -> str:
    """``text`` as a frame can carry it: head and tail of what is too long."""
    if len(text) <= TEXT_CHARS_MAX:
        return text
    half = TEXT_CHARS_MAX // 2 - 20
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
