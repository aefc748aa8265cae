"""A TCP line between an agent and its hub that can be cut, held up one way, or slowed to a drip; in this process."""

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import Any, Self

READ_BYTES = 16 * 1024
DRIP_BYTES = 8
DRIP_S = 0.01
UP, DOWN = "up", "down"
"""From the agent to the hub, and back."""


class FaultyLine:
    """Listens on ``port`` and passes everything on to ``target_port``, as well as its faults let it.

    What is held up is not lost: it arrives when the line is whole again, unless the line is cut first. TCP knows no
    other way: either bytes come, late, or the connection ends.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._flows = {UP: asyncio.Event(), DOWN: asyncio.Event()}
        self._drips = False
        self._cut_next = False
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._ask(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._ask(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _ask(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=10)

    # --- faults, called from the test's thread ---

    def hold(self, *directions: str) -> None:
        """Nothing passes this way any more; new connections are accepted and as silent."""
        for direction in directions:
            self._loop.call_soon_threadsafe(self._flows[direction].clear)

    def drip(self) -> None:
        """A few bytes at a time."""
        self._drips = True

    def cut_in_mid_frame(self) -> None:
        """Half of what comes next passes, then the connection is reset."""
        self._cut_next = True

    def reset(self) -> None:
        """Reset every connection."""
        self._loop.call_soon_threadsafe(self._reset)

    def heal(self) -> None:
        """Everything passes again."""
        self._drips = self._cut_next = False
        for flow in self._flows.values():
            self._loop.call_soon_threadsafe(flow.set)

    # --- on the loop ---

    async def _listen(self) -> None:
        for flow in self._flows.values():
            flow.set()
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        self._server.close()
        self._drips = False
        for flow in self._flows.values():
            flow.set()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            self._reset()
            await asyncio.wait(others, timeout=0.1)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            _abort(writer)
            return
        ends = {writer, far_writer}
        self._writers |= ends
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pass_on(UP, reader, far_writer))
                tasks.create_task(self._pass_on(DOWN, far_reader, writer))
        except* (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers -= ends
            for end in ends:
                _abort(end)

    async def _pass_on(self, direction: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(READ_BYTES):
            await self._flows[direction].wait()
            if self._cut_next:
                self._cut_next = False
                writer.write(data[: len(data) // 2])
                await writer.drain()
                raise ConnectionResetError
            while self._drips and data:
                writer.write(data[:DRIP_BYTES])
                data = data[DRIP_BYTES:]
                await asyncio.sleep(DRIP_S)
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    def _reset(self) -> None:
        for writer in self._writers:
            _abort(writer)


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close by RST, as a router that forgot the connection does."""
    raw = writer.get_extra_info("socket")
    if raw is not None and raw.fileno() >= 0:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
