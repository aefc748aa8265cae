"""The NVML child as the agent sees it: a process, a socket to it, and a deadline for each of its answers.

A child that is killed may be in the driver, where no signal reaches it: nobody waits for it. It counts as gone when
the kernel says so.
"""

import asyncio
import contextlib
import errno
import os
import signal
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from agent import processes
from agent.clock import Clock
from agent.sensors.nvml_messages import (
    CARDS_MAX,
    PACKET_BYTES_MAX,
    Answer,
    Ask,
    Begin,
    Card,
    End,
    Problem,
    Xids,
    XidSeen,
    decode_answer,
    encode,
)
from wire.limits import TIMER_LATE_S

LOG_BYTES = 1200
ANSWERS_MAX = 2 * CARDS_MAX + 3
LEAVE_S = 2.0
"""For a child that was told to go, before it is killed."""
DEATH_S = 2.0
"""Between the end of its socket and the end of the process."""


class Told(NamedTuple):
    """What a child answered to one `Ask`."""

    cards: list[Card]
    end: End | None
    at: Begin | None = None
    """The card it was at when it hung or died."""
    problem: Problem = Problem.NONE
    said: str = ""
    xids: tuple[XidSeen, ...] = ()


class Child:
    """One running child. Made by `start`."""

    def __init__(self, pid: int, talk: socket.socket, *, log_path: Path, clock: Clock) -> None:
        self._pid = pid
        self._talk = talk
        self._log_path = log_path
        self._exit = asyncio.create_task(processes.wait_exit(pid, clock))
        self.started_s = clock.monotonic()
        self.settled = False
        """Whether it has answered a whole round: then the driver holds every card open, and answers fast."""

    @classmethod
    async def start(cls, argv: Sequence[str], *, environ: Mapping[str, str], log_path: Path, clock: Clock) -> "Child":
        """Start one.

        Raises:
            OSError: it cannot be started.
        """
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid = await asyncio.to_thread(_spawn, argv, environ, log_path, its)
        except BaseException:
            ours.close()
            its.close()  # nothing, unless we are told to stop before a thread has taken it
            raise
        ours.setblocking(False)  # noqa: FBT003 - the standard library's own way
        return cls(pid, ours, log_path=log_path, clock=clock)

    @property
    def gone(self) -> bool:
        """Whether the process is no more."""
        return self._exit.done()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._pid

    async def ask(self, ask: Ask, *, silence_s: float, round_s: float) -> Told:
        """One round: each answer within ``silence_s`` of the one before, all within ``round_s``. Never raises."""
        cards: list[Card] = []
        xids: list[XidSeen] = []
        at: Begin | None = None
        try:
            async with contextlib.aclosing(self._answers(ask, silence_s=silence_s, round_s=round_s)) as answers:
                async for answer in answers:
                    match answer:
                        case Begin():
                            at = answer
                        case Card():
                            cards.append(answer)
                            at = None
                        case Xids():
                            xids += answer.seen
                        case End():
                            self.settled = True
                            return Told(cards, answer, xids=tuple(xids))
            problem, said = Problem.FAILED, await self._death(at)
        except TimeoutError:
            problem, said = Problem.HUNG, f"NVML did not answer within {silence_s:g} s{_where(at)}"
        except OSError:
            problem, said = Problem.FAILED, await self._death(at)
        except msgspec.DecodeError as error:
            problem, said = Problem.FAILED, f"the NVML process cannot be understood{_where(at)}: {error}"
        self.kill()
        return Told(cards, None, at, problem, said, tuple(xids))

    async def _answers(self, ask: Ask, *, silence_s: float, round_s: float) -> AsyncGenerator[Answer, None]:
        """Answers until the child's end; at most as many as a round can have."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + round_s
        await loop.sock_sendall(self._talk, encode(ask))
        for _ in range(ANSWERS_MAX):
            packet = await self._packet(silence_s, end_s)
            if not packet:
                return
            yield decode_answer(packet)

    async def _packet(self, silence_s: float, end_s: float) -> bytes:
        """The next packet.

        Raises:
            TimeoutError: it did not come in time, and we were there to hear it.
        """
        loop = asyncio.get_running_loop()
        receiving = asyncio.ensure_future(loop.sock_recv(self._talk, PACKET_BYTES_MAX))
        try:
            while True:
                due_s = min(loop.time() + silence_s, end_s)
                await asyncio.wait({receiving}, timeout=max(0.0, due_s - loop.time()))
                if receiving.done():
                    return receiving.result()
                if loop.time() - due_s < TIMER_LATE_S:
                    raise TimeoutError
                # We, or the whole machine, were stopped meanwhile: that is no silence of the child's.
                end_s = max(end_s, loop.time() + silence_s)
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)

    async def _death(self, at: Begin | None) -> str:
        done, _ = await asyncio.wait({self._exit}, timeout=DEATH_S)
        if not done:
            return f"the NVML process broke off{_where(at)} and did not end"
        how = self._exit.result()
        said = await asyncio.to_thread(processes.log_tail, self._log_path, LOG_BYTES)
        return f"the NVML process ended{_where(at)} with {how}" + (f": {said}" if said else "")

    def kill(self) -> None:
        """Kill it, and do not wait."""
        if not self._exit.done():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        self._talk.close()

    async def leave(self) -> None:
        """Let it end by itself, which is kinder to a driver than a kill; kill it if it does not."""
        self._talk.close()
        if not (await asyncio.wait({self._exit}, timeout=LEAVE_S))[0]:
            self.kill()

    async def forget(self) -> None:
        """Stop watching; for the end of the agent. A process that hangs in the driver stays behind."""
        self._exit.cancel()
        await asyncio.gather(self._exit, return_exceptions=True)


def _where(at: Begin | None) -> str:
    return "" if at is None else f", at GPU {at.index}" + (f" ({at.uuid})" if at.uuid else "")


def _spawn(argv: Sequence[str], environ: Mapping[str, str], log_path: Path, its: socket.socket) -> int:
    descriptor = its.detach()  # ours from here: the loop may be told to stop meanwhile, and closes what nobody took
    if descriptor < 0:
        raise OSError(errno.ECANCELED, "nobody waits for the child any more")
    try:
        log_path.unlink(missing_ok=True)
        return processes.start_detached(argv, environ=environ, log_path=log_path, stdin=descriptor)
    finally:
        os.close(descriptor)
