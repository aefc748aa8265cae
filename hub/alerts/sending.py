"""Starts the process that hands notices over, and ends it in time: a service that hangs costs nobody anything."""

import asyncio
import sys

import msgspec
import structlog

from hub.alerts.messenger import REQUEST_BYTES_MAX, Errand, Outcome
from hub.children import Bounded, child

log = structlog.get_logger(__name__)

ARGV = (sys.executable, "-I", "-m", "hub.alerts.messenger")
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
                    return await _converse(request, undelivered, self._deadline_s)
            except TimeoutError:
                return Outcome(undelivered, f"the service did not take it within {self._deadline_s:g} s")
            except OSError as error:
                return Outcome(undelivered, f"the process that sends notices could not be started: {error.strerror}")
            finally:
                self.under_way -= 1


async def _converse(request: bytes, undelivered: tuple[bool, ...], deadline_s: float) -> Outcome:
    said, complaint = Bounded(ANSWER_BYTES_MAX), Bounded(STDERR_BYTES_MAX)
    async with child(ARGV, said.add, complaint.add, env={}, stdin=request) as running:
        status = await running.wait()
        await running.heard(deadline_s)
    try:
        if status == 0:
            return msgspec.json.decode(said.kept(), type=Outcome)
    except msgspec.MsgspecError:
        pass
    # What it printed may hold an address, so it is told to nobody: how it ended has to do.
    log.error("the process that sends notices failed", status=status, stderr_bytes=len(complaint.kept()))
    return Outcome(undelivered, f"the process that sends notices failed (exit status {status})")
