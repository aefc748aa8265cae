"""A TCP line between agents and their hub with every fault of a network, and a record of what passed; in this process.

Seeded where chance is asked: where a frame is cut.
"""

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import Any, Self

READ_BYTES = 16 * 1024
DRIP_BYTES = 1
DRIP_S = 1.0
STOP_S = 10.0
UP, DOWN = "up", "down"
"""From the agent to the hub, and back."""


class FaultyLine:
    """Listens on ``port`` and passes everything on to ``target_port``, as well as its faults let it.

    What is held up is not lost: it arrives when the line is whole again, unless the line is cut first. TCP knows no
    other way: either bytes come, late, or the connection ends.
    """

    def __init__(self, target_port: int, seed: int = 1, *, record: bool = False) -> None:
        self.passed: list[tuple[str, int, bytes]] | None = [] if record else None
        """(direction, connection, bytes) of everything that passed, when asked to record."""
        self._target_port = target_port
        self._rng = random.Random(seed)
        self._connections = 0
        self._late_s = 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._flows = {UP: asyncio.Event(), DOWN: asyncio.Event()}
        self._drips = False
        self._cut_next = False
        self._half_open = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._far: set[asyncio.StreamWriter] = set()
        """Those towards the hub."""
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
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=STOP_S)

    # --- faults, called from the test's thread ---

    def hold(self, *directions: str) -> None:
        """Nothing passes this way any more; new connections are accepted and as silent."""
        for direction in directions:
            self._loop.call_soon_threadsafe(self._flows[direction].clear)

    def drip(self) -> None:
        """One byte a second, each way of each connection."""
        self._drips = True

    def delay(self, seconds: float) -> None:
        """Everything comes so much later."""
        self._late_s = seconds

    def half_open(self) -> None:
        """One end goes and the other is not told: the hub sees its connections reset, the agents see silence."""

        def forget() -> None:
            self._half_open = True
            for direction in self._flows.values():
                direction.clear()
            for writer in self._far:
                _abort(writer)

        self._loop.call_soon_threadsafe(forget)

    def cut_in_mid_frame(self) -> None:
        """A part of what comes next passes, then the connection is reset."""
        self._cut_next = True

    def reset(self) -> None:
        """Reset every connection."""
        self._loop.call_soon_threadsafe(self._reset)

    def heal(self) -> None:
        """Everything passes again; a connection of which one end is gone is reset."""
        self._drips = self._cut_next = False
        self._late_s = 0.0
        if self._half_open:
            self._half_open = False
            self.reset()
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
        self._far.add(far_writer)
        self._connections += 1
        number = self._connections
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pass_on(UP, number, reader, far_writer))
                tasks.create_task(self._pass_on(DOWN, number, far_reader, writer))
        except* (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers -= ends
            self._far.discard(far_writer)
            for end in ends:
                _abort(end)

    async def _pass_on(
        self, direction: str, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await self._read(direction, reader):
            await self._flows[direction].wait()
            if self._late_s:
                await asyncio.sleep(self._late_s)
            if self._cut_next:
                self._cut_next = False
                writer.write(data[: self._rng.randrange(len(data))])
                await writer.drain()
                raise ConnectionResetError
            while self._drips and data:
                writer.write(data[:DRIP_BYTES])
                data = data[DRIP_BYTES:]
                await asyncio.sleep(DRIP_S)
            if self.passed is not None:
                self.passed.append((direction, number, data))
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    async def _read(self, direction: str, reader: asyncio.StreamReader) -> bytes:
        """What comes next. While one end is forgotten its end is no end: the other must find out by itself."""
        try:
            data = await reader.read(READ_BYTES)
        except OSError:
            if not self._half_open:
                raise
            data = b""
        if not data and self._half_open:
            await self._flows[direction].wait()
            raise ConnectionResetError
        return data

    def _reset(self) -> None:
        for writer in self._writers:
            _abort(writer)


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close by RST, as a router that forgot the connection does."""
    raw = writer.get_extra_info("socket")
    if raw is not None and raw.fileno() >= 0:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
