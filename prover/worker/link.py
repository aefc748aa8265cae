"""The worker's end of one connection with its agent: frames in, frames out, every queue bounded.

Of progress only the latest is kept while the agent does not read; everything else waits in a short queue. An agent
that does not take it in time loses the connection and gets everything again on the next one.
"""

import asyncio
from collections import deque
from collections.abc import Callable

import structlog

from wire import codec
from wire.codec import UnknownFrame
from wire.errors import RemoteProtocolError
from wire.limits import SEND_DEADLINE_S
from wire.worker import Ended, FromWorker, Progress, ToWorker

log = structlog.get_logger(__name__)

READ_BYTES = 64 * 1024
QUEUE_FRAMES_MAX = 256
"""Pongs and results an agent has not read; a live one reads at once."""


class AgentLink:
    """One accepted connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._queue: deque[FromWorker] = deque()
        self._progress: Progress | None = None
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def send(self, frame: FromWorker) -> None:
        """Queue a frame."""
        if len(self._queue) >= QUEUE_FRAMES_MAX:
            log.warning("worker.agent_slow", frames=len(self._queue))
            self.close()
            return
        if isinstance(frame, Ended):
            self._progress = None  # nothing is said about a job after its end
        self._queue.append(frame)
        self._idle.clear()
        self._wake.set()

    def send_progress(self, progress: Progress) -> None:
        """Queue the latest progress, in place of one that was not taken yet."""
        self._progress = progress
        self._idle.clear()
        self._wake.set()

    def close(self) -> None:
        """Drop the connection now."""
        self._writer.transport.abort()

    async def flush_and_close(self) -> None:
        """Send what is queued, within the deadline, and close."""
        try:
            async with asyncio.timeout(SEND_DEADLINE_S):
                await self._idle.wait()
        except TimeoutError:
            log.warning("worker.agent_slow", frames=len(self._queue))
        self._writer.close()

    async def run(self, on_frame: Callable[[ToWorker], None]) -> None:
        """Move frames until the connection ends, for whichever reason; never raises for what the agent does."""
        sender = asyncio.create_task(self._send_all())
        try:
            await self._receive_all(on_frame)
        except RemoteProtocolError as error:
            log.warning("worker.bad_frame", error=str(error))
        except OSError as error:
            log.debug("worker.connection_broke", error=str(error))
        finally:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)
            self._idle.set()
            self._writer.close()

    async def _receive_all(self, on_frame: Callable[[ToWorker], None]) -> None:
        splitter = codec.StreamReader()
        while data := await self._reader.read(READ_BYTES):
            for body in splitter.feed(data):
                frame = codec.decode_to_worker(body)
                if isinstance(frame, UnknownFrame):
                    log.warning("worker.unknown_frame", tag=frame.tag)
                else:
                    on_frame(frame)

    async def _send_all(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._drain_queue()
                self._idle.set()
        except (OSError, TimeoutError) as error:
            log.debug("worker.connection_broke", error=str(error) or "the agent does not read")
            self.close()

    async def _drain_queue(self) -> None:
        while self._queue or self._progress is not None:
            if self._queue:
                frame = self._queue.popleft()
            elif self._progress is not None:
                frame, self._progress = self._progress, None
            self._writer.write(codec.length_prefixed(frame))
            async with asyncio.timeout(SEND_DEADLINE_S):
                await self._writer.drain()
