"""A TCP relay on loopback that counts what passes: what an agent really puts on the wire, HTTP and all."""

import asyncio
import contextlib
import ssl
from types import TracebackType
from typing import Self

CHUNK_BYTES = 64 * 1024


class Relay:
    """Every connection to ``port`` goes on to ``target_port``. An async context manager.

    Args:
        target_port: where to.
        tls: ends TLS here; what is counted is what is inside.
    """

    def __init__(self, target_port: int, tls: ssl.SSLContext | None = None) -> None:
        self.up_bytes = 0
        """From those who dial."""
        self.down_bytes = 0
        self.port = 0
        self._target_port = target_port
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._open:
            writer.transport.abort()
        await self._idle.wait()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.close()
            return
        self._open |= {writer, far_writer}
        self._idle.clear()
        await asyncio.gather(self._pass(reader, far_writer, up=True), self._pass(far_reader, writer, up=False))
        self._open -= {writer, far_writer}
        if not self._open:
            self._idle.set()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, up: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                if up:
                    self.up_bytes += len(data)
                else:
                    self.down_bytes += len(data)
                writer.write(data)
                await writer.drain()
        writer.close()
