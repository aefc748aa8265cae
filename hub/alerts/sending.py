"""Starts the process that hands notices over, and ends it in time: a service that hangs costs nobody anything."""

import asyncio
import contextlib
import os
import signal
import sys

import msgspec
import structlog

from hub.alerts.messenger import REQUEST_BYTES_MAX, Errand, Outcome

log = structlog.get_logger(__name__)

DEADLINE_S = 30.0
"""From the start of the process to its answer; some seconds of it go into loading Apprise."""
AT_ONCE_MAX = 2
ANSWER_BYTES_MAX = 64 * 1024
STDERR_BYTES_MAX = 8 * 1024


class Sender:
    """Runs errands, a few at the same time.

    Args:
        deadline_s: for each.
    """

    def __init__(self, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._places = asyncio.Semaphore(AT_ONCE_MAX)
        self.under_way = 0

    async def run(self, errand: Errand) -> Outcome:
        """What became of it; never raises for what a service or the process does."""
        undelivered = (False,) * len(errand.messages)
        request = msgspec.json.encode(errand)
        if len(request) > REQUEST_BYTES_MAX:
            return Outcome(undelivered, f"the notices have {len(request)} bytes together, which is too much")
        async with self._places:
            self.under_way += 1
            try:
                async with asyncio.timeout(self._deadline_s):
                    return await _converse(request, undelivered)
            except TimeoutError:
                return Outcome(undelivered, f"the service did not take it within {self._deadline_s:g} s")
            except OSError as error:
                return Outcome(undelivered, f"the process that sends notices could not be started: {error.strerror}")
            finally:
                self.under_way -= 1


async def _converse(request: bytes, undelivered: tuple[bool, ...]) -> Outcome:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-m",
        "hub.alerts.messenger",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={},
        cwd="/",
        start_new_session=True,
    )
    try:
        said, complaint = await _spoken(child, request)
        status = await child.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        await child.wait()
    try:
        if status == 0:
            return msgspec.json.decode(said, type=Outcome)
    except msgspec.MsgspecError:
        pass
    # What it printed may hold an address, so it is told to nobody: how it ended has to do.
    log.error("the process that sends notices failed", status=status, stderr_bytes=len(complaint))
    return Outcome(undelivered, f"the process that sends notices failed (exit status {status})")


async def _spoken(child: asyncio.subprocess.Process, request: bytes) -> tuple[bytes, bytes]:
    assert child.stdin is not None  # noqa: S101 - all three are pipes
    assert child.stdout is not None  # noqa: S101 - same
    assert child.stderr is not None  # noqa: S101 - same
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        child.stdin.write(request)
        await child.stdin.drain()
    child.stdin.close()
    async with asyncio.TaskGroup() as tasks:
        said = tasks.create_task(_bounded(child.stdout, ANSWER_BYTES_MAX))
        complaint = tasks.create_task(_bounded(child.stderr, STDERR_BYTES_MAX))
    return said.result(), complaint.result()


async def _bounded(stream: asyncio.StreamReader, bytes_max: int) -> bytes:
    """The beginning of a stream; the rest is read and dropped, so that its writer never hangs."""
    kept = bytearray()
    while chunk := await stream.read(64 * 1024):
        kept += chunk[: bytes_max - len(kept)]
    return bytes(kept)
