"""The node's cards, read by NVML in a child process that may be thrown away.

NVML can hang for ever inside the driver, or crash its process: so it never runs in ours. One child lives for an hour
and answers a round per request. One that misses its deadline is killed and not waited for, and no other is started
before it is gone; one that dies is named with its signal and its last words, and started anew. A card that NVML hangs
or crashes on is left alone for a while, so that the others go on being read.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import structlog

from agent import processes
from agent.clock import Clock
from agent.sensors.gpu_child import Child, Told
from agent.sensors.gpu_health import GpuEvent
from agent.sensors.gpu_states import Fleet, Heard, Report
from agent.sensors.kmsg import KernelLog, KernelXid
from agent.sensors.nvml_messages import Ask, Problem

__all__ = ["GpuEvent", "GpuSensor", "Problem", "Report"]

log = structlog.get_logger(__name__)

SILENCE_S = 4.0
"""For each answer of the child, so that a hang is told within two of the agent's rounds (5 s each)."""
FIRST_SILENCE_S = 10.0
"""The same in a child's first round, at least: the first look at a card without persistence mode takes seconds."""
ROUND_S = 60.0
"""For a whole round, however many cards are slow."""
RECYCLE_S = 3600.0
"""A child's life: its successor sees new cards and upgraded drivers."""
RECYCLE_LOST_S = (30.0, 60.0, 300.0, 600.0)
"""The same while a card is lost or not listed, one child after the other: an old one may not see that it came back."""
MISMATCH_RECHECK_S = 60.0
MISSING_RECHECK_S = 600.0
"""Unless something of the driver's appears or changes before."""
FAILED_WAIT_S = (0.0, 5.0, 15.0, 60.0, 300.0)
"""Before another child is started, after so many in a row that died or hung."""
SUSPECT_WAIT_S = (30.0, 120.0, 600.0)
"""Before a card that NVML hung or crashed on is tried again, after so many times in a row."""


STUCK = Told([], None, None, Problem.HUNG, "the last NVML process still hangs in the driver")


class Looked(NamedTuple):
    """What was seen without NVML."""

    driver: tuple[str, ...]
    """Changes when a driver or a card comes or goes."""
    xids: tuple[KernelXid, ...]


class _Suspect:
    """A card that NVML hung or crashed on."""

    def __init__(self) -> None:
        self.times = 0
        self.again_s = 0.0


class GpuSensor:
    """Asks one child at a time; never blocks the event loop, never raises.

    Args:
        folder: where the child's complaints are kept.
        environ: the child's environment.
        clock: for all waits but the deadlines of a process, which are real time.
        argv: the child's command line.
        silence_s: for each of the child's answers.
        first_silence_s: the same in its first round, at least.
        kernel_log: the kernel's log.
        proc, sysfs, dev: where the kernel shows driver and cards.
    """

    def __init__(
        self,
        folder: Path,
        *,
        environ: Mapping[str, str],
        clock: Clock,
        argv: Sequence[str] = (sys.executable, "-m", "agent.sensors.nvml_child"),
        silence_s: float = SILENCE_S,
        first_silence_s: float = FIRST_SILENCE_S,
        kernel_log: Path = Path("/dev/kmsg"),
        proc: Path = Path("/proc"),
        sysfs: Path = Path("/sys"),
        dev: Path = Path("/dev"),
    ) -> None:
        self._log_path = folder / "gpu.log"
        self._environ = environ
        self._clock = clock
        self._argv = [*argv, str(proc), str(sysfs)]
        self._silence_s = silence_s
        self._first_silence_s = first_silence_s
        self._proc = proc
        self._dev = dev
        self._kernel_log_path = kernel_log
        self._kernel_log: KernelLog | None = None
        self._kernel_closed = False
        self._child: Child | None = None
        self._abandoned: Child | None = None
        self._fleet = Fleet()
        self._suspects: dict[int, _Suspect] = {}
        self._count: int | None = None
        self._failures = 0
        self._lost_lives = 0
        self._start_s = 0.0
        """No child is started before."""
        self._last = Told([], None)
        self._driver: tuple[str, ...] = ()
        self._stale = False

    @property
    def child_pid(self) -> int | None:
        """The running child's process, for the agent's own figures."""
        return None if self._child is None else self._child.pid

    async def read(self) -> Report:
        """One reading of all cards."""
        looked = await asyncio.to_thread(self._look)
        if looked.driver != self._driver:
            self._driver, self._stale, self._start_s = looked.driver, True, 0.0
        now_s = self._clock.monotonic()
        skip, last = self._left_alone(now_s)
        if self._abandoned is not None and self._abandoned.gone:
            self._abandoned = None
        failures = self._failures
        child = await self._ready(now_s) if self._abandoned is None else None
        stuck = child is None and self._abandoned is not None
        if child is not None:
            told = await self._round(child, Ask(skip=sorted(skip), last=sorted(last)))
        else:
            told = STUCK if stuck else self._last._replace(cards=[], at=None, xids=())
        heard = Heard(
            told.cards,
            told.end,
            told.at,
            told.problem,
            told.said,
            stuck=stuck,
            waiting=child is None and self._failures == failures,
            skipped=frozenset(skip),
            xids=told.xids,
            kernel_xids=looked.xids,
            kernel_readable=not self._kernel_closed,
        )
        return self._fleet.take(heard, now_s=self._clock.monotonic(), unix_ms=self._clock.unix_ms())

    async def close(self) -> None:
        """Let the child go. One that hangs in the driver cannot be made to end, and stays behind."""
        if self._child is not None:
            await self._child.leave()
        for child in (self._child, self._abandoned):
            if child is not None:
                await child.forget()
        self._child = self._abandoned = None
        if self._kernel_log is not None:
            self._kernel_log.close()

    # --- the child ------------------------------------------------------------------------------------------------

    async def _ready(self, now_s: float) -> Child | None:
        """The child to ask, if there is one. An old one may not go: then none."""
        child = self._child
        if child is not None and (self._stale or now_s - child.started_s >= self._life_s()):
            await self._dismiss(child)
            child = None
        if child is not None or self._abandoned is not None or now_s < self._start_s:
            return child
        try:
            self._child = await Child.start(
                self._argv, environ=self._environ, log_path=self._log_path, clock=self._clock
            )
        except OSError as error:
            self._failed(Told([], None, None, Problem.FAILED, f"the NVML process cannot be started: {error}"))
            return None
        self._stale = False
        return self._child

    def _life_s(self) -> float:
        """How long this child lives."""
        return RECYCLE_LOST_S[min(self._lost_lives, len(RECYCLE_LOST_S) - 1)] if self._fleet.any_lost else RECYCLE_S

    async def _dismiss(self, child: Child) -> None:
        self._child = None
        self._lost_lives = self._lost_lives + 1 if self._fleet.any_lost else 0
        await child.leave()
        if not child.gone:
            self._abandoned = child

    async def _round(self, child: Child, ask: Ask) -> Told:
        silence_s = self._silence_s if child.settled else max(self._silence_s, self._first_silence_s)
        told = await child.ask(ask, silence_s=silence_s, round_s=ROUND_S)
        if told.end is None:
            self._child = None
            if told.at is not None:
                self._suspect(told.at.index)
            if not child.gone:
                self._abandoned = child
            self._failed(told)
            return told
        self._last = told
        for card in told.cards:
            self._suspects.pop(card.index, None)
        problem = told.end.problem
        if problem is Problem.NONE:
            self._failures = 0
            if self._count not in (None, told.end.count):
                self._suspects.clear()  # indices have moved
            self._count = told.end.count
            self._stale = self._stale or told.end.stale
        else:
            await self._let_go(child, problem)
        return told

    async def _let_go(self, child: Child, problem: Problem) -> None:
        """End a child whose NVML could not begin: what it could not find, or not fit, it will not find later."""
        await self._dismiss(child)
        wait_s = {Problem.MISSING: MISSING_RECHECK_S, Problem.MISMATCH: MISMATCH_RECHECK_S}.get(problem)
        if wait_s is None:
            wait_s = FAILED_WAIT_S[min(self._failures, len(FAILED_WAIT_S) - 1)]
            self._failures += 1
        self._start_s = self._clock.monotonic() + wait_s

    def _failed(self, told: Told) -> None:
        """A child hung, died, or could not be started."""
        log.warning("gpu.child_failed", problem=told.problem.value, detail=told.said, failures=self._failures + 1)
        self._last = told
        wait_s = FAILED_WAIT_S[min(self._failures, len(FAILED_WAIT_S) - 1)]
        self._failures += 1
        self._start_s = self._clock.monotonic() + wait_s

    # --- cards to leave alone -------------------------------------------------------------------------------------

    def _suspect(self, index: int) -> None:
        suspect = self._suspects.setdefault(index, _Suspect())
        wait_s = SUSPECT_WAIT_S[min(suspect.times, len(SUSPECT_WAIT_S) - 1)]
        suspect.times += 1
        suspect.again_s = self._clock.monotonic() + wait_s

    def _left_alone(self, now_s: float) -> tuple[set[int], set[int]]:
        """Cards to skip, and of the suspects the one to try again, after all others: two would hide each other."""
        due = [index for index, suspect in self._suspects.items() if now_s >= suspect.again_s]
        last = {min(due, key=lambda index: self._suspects[index].again_s)} if due else set()
        return set(self._suspects) - last, last

    # --- without NVML ---------------------------------------------------------------------------------------------

    def _look(self) -> Looked:
        """Not for the event loop: it opens files."""
        processes.trim_log(self._log_path)
        if self._kernel_log is None:
            self._kernel_log = KernelLog(self._kernel_log_path)
        xids = tuple(self._kernel_log.xids())
        if self._kernel_log.closed and not self._kernel_closed:
            self._kernel_closed = True
            log.info(
                "gpu.kernel_log_closed",
                path=str(self._kernel_log_path),
                error=self._kernel_log.closed,
                effect="XIDs come from NVML only",
            )
        try:
            version = (self._proc / "driver/nvidia/version").read_text(encoding="ascii", errors="replace")[:512]
        except OSError:
            version = ""
        try:
            devices = sorted(path.name for path in self._dev.glob("nvidia*"))
        except OSError:
            devices = []
        return Looked((version, *devices), xids)
