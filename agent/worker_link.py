"""One connection to a worker's unix socket: frames in and out, and whether it answers."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from agent.clock import Clock
from wire import codec
from wire.codec import UnknownFrame
from wire.limits import SEND_DEADLINE_S
from wire.worker import PONG_DEADLINE_S, FromWorker, Ping, Pong, ToWorker

READ_BYTES = 64 * 1024
CONNECT_S = 5.0
_UCRED = "iII"
"""``struct ucred``: pid, uid, gid."""


class Unknown(Struct, frozen=True):
    """A frame of a newer worker."""

    tag: str


class WorkerLink:
    """An open connection. ``pid`` is the process that listens, as the kernel says."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pid: int, clock: Clock) -> None:
        self._reader = reader
        self._writer = writer
        self._clock = clock
        self._splitter = codec.StreamReader()
        self._number = 0
        self._asked_s: float | None = clock.monotonic()
        """When the ping in flight was sent; the greeting counts as the first answer."""
        self.pid = pid

    @property
    def answering(self) -> bool:
        """Whether the worker answered, or still has time to."""
        return self._asked_s is None or self._clock.monotonic() - self._asked_s <= PONG_DEADLINE_S

    async def frames(self) -> AsyncIterator[FromWorker | UnknownFrame]:
        """Every frame until the worker closes the connection.

        Raises:
            OSError: the connection broke.
            RemoteProtocolError: what comes is no frame; the connection cannot be followed any further.
        """
        while data := await self._reader.read(READ_BYTES):
            for body in self._splitter.feed(data):
                frame = codec.decode_from_worker(body)
                if isinstance(frame, Pong):
                    if frame.number == self._number:
                        self._asked_s = None
                else:
                    if self._number == 0:
                        self._asked_s = None
                    yield frame

    async def ping(self) -> None:
        """Ask whether it is there, unless the last question is open.

        Raises:
            OSError, TimeoutError: it could not be sent.
        """
        if self._asked_s is None:
            self._number += 1
            self._asked_s = self._clock.monotonic()
            await self.send(Ping(number=self._number))

    async def send(self, frame: ToWorker) -> None:
        """Send one frame.

        Raises:
            OSError, TimeoutError: it could not be sent.
        """
        self._writer.write(codec.length_prefixed(frame))
        async with asyncio.timeout(SEND_DEADLINE_S):
            await self._writer.drain()

    def close(self) -> None:
        """Drop the connection."""
        self._writer.transport.abort()


@asynccontextmanager
async def connect(path: Path, clock: Clock) -> AsyncIterator[WorkerLink | None]:
    """A connection to the worker listening at ``path``; None if nobody does."""
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        opened.setblocking(False)  # noqa: FBT003 - the standard library's signature
        async with asyncio.timeout(CONNECT_S):
            await asyncio.get_running_loop().sock_connect(opened, str(path))
        pid, _, _ = struct.unpack(
            _UCRED, opened.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(_UCRED))
        )
        reader, writer = await asyncio.open_unix_connection(sock=opened)
    except (OSError, TimeoutError):
        opened.close()
        yield None
        return
    try:
        yield WorkerLink(reader, writer, pid, clock)
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
