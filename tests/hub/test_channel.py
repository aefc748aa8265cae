"""The shortcut past a WebSocket's queue, over real sockets: what it takes and what it leaves stay in order."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from bench.players import PING, masked
from hub.channels.base import ChannelClosed
from hub.channels.websocket import QUEUED_BYTES_MAX, WebSocketChannel
from wire.errors import MalformedFrame, RemoteProtocolError
from wire.limits import FRAME_BYTES_MAX, PROTOCOL
from wire.reasons import Reason

WAIT_S = 10.0
TEXT = 1


class Host:
    """Serves one socket: what came past the queue and what came by ``receive``, in one list."""

    def __init__(self) -> None:
        self.came: list[tuple[str, bytes]] = []
        self.taking = True
        self.after = asyncio.Event()
        self.reading = asyncio.Event()
        self.reading.set()
        self.ended: Exception | None = None
        self.wanted = 0

    def take(self, frame: bytes) -> bool:
        if self.taking:
            self._note("taken", frame)
        return self.taking

    async def handle(self, request: web.Request) -> web.StreamResponse:
        channel = await WebSocketChannel.accept(request)
        channel.offer_to(self.take)
        try:
            while True:
                self._note("received", await channel.receive())
                await self.reading.wait()
        except (ChannelClosed, RemoteProtocolError) as error:
            self.ended = error
            await channel.close(4000, "")
        self.after.set()
        return channel.response

    def _note(self, way: str, frame: bytes) -> None:
        self.came.append((way, frame))
        if len(self.came) >= self.wanted:
            self.after.set()

    async def has(self, count: int) -> list[bytes]:
        """The first so many frames, once they are there."""
        self.wanted = count
        async with asyncio.timeout(WAIT_S):
            while len(self.came) < count:
                self.after.clear()
                await self.after.wait()
        return [frame for _, frame in self.came]

    async def end(self) -> Exception:
        async with asyncio.timeout(WAIT_S):
            while self.ended is None:
                self.after.clear()
                await self.after.wait()
        return self.ended


@asynccontextmanager
async def connected(first: bytes = b"") -> AsyncIterator[tuple[Host, asyncio.StreamWriter]]:
    """A host and a raw socket that has asked for the upgrade; ``first`` is written in the same breath."""
    host = Host()
    app = web.Application()
    app.router.add_get("/agent", host.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    reader, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])
    key = base64.b64encode(os.urandom(16)).decode()
    lines = ("GET /agent HTTP/1.1", "Host: h", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
    more = (f"Sec-WebSocket-Key: {key}", f"Sec-WebSocket-Protocol: {PROTOCOL}")
    writer.write("\r\n".join((*lines, *more, "", "")).encode() + first)
    try:
        assert b" 101 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S)
        yield host, writer
    finally:
        writer.close()
        await runner.cleanup()


def frames(count: int, first: int = 0, size_bytes: int = 8) -> list[bytes]:
    return [number.to_bytes(8, "big").ljust(size_bytes, b".") for number in range(first, first + count)]


async def test_frames_that_come_while_the_reader_waits_never_wake_it() -> None:
    async with connected() as (host, writer):
        for frame in frames(20):
            writer.write(masked(frame))
            await writer.drain()
        assert await host.has(20) == frames(20)
        assert {way for way, _ in host.came[1:]} == {"taken"}


async def test_frames_that_come_with_the_request_are_first() -> None:
    async with connected(b"".join(map(masked, frames(3)))) as (host, writer):
        await host.has(3)
        writer.write(masked(frames(1, first=3)[0]))
        assert await host.has(4) == frames(4)


async def test_what_is_not_taken_waits_and_nothing_goes_past_it() -> None:
    async with connected() as (host, writer):
        host.taking = False
        host.reading.clear()
        writer.writelines(map(masked, frames(2)))
        await host.has(1)
        host.taking = True
        writer.writelines(map(masked, frames(8, first=2)))
        writer.write(masked(b"", PING))
        writer.writelines(map(masked, frames(3, first=10)))
        await writer.drain()
        host.reading.set()
        assert await host.has(13) == frames(13)
        writer.write(masked(frames(1, first=13)[0]))
        assert await host.has(14) == frames(14)


async def test_a_reader_that_does_not_take_holds_the_peer_back() -> None:
    """Its queue fills, then the socket's buffers: the hub's memory for one peer stays what it is."""
    async with connected() as (host, writer):
        host.taking = False
        host.reading.clear()
        large = [masked(frame) for frame in frames(400, size_bytes=QUEUED_BYTES_MAX)]
        writer.writelines(large)
        await host.has(1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await writer.drain()
        host.taking = True
        host.reading.set()
        assert await host.has(400) == frames(400, size_bytes=QUEUED_BYTES_MAX)


async def test_a_text_and_a_close_are_the_readers() -> None:
    async with connected() as (host, writer):
        writer.write(masked(b"hello", TEXT))
        assert isinstance(await host.end(), MalformedFrame)
    async with connected() as (host, writer):
        writer.write(masked(frames(1)[0]))
        await host.has(1)
        writer.close()
        assert isinstance(await host.end(), ChannelClosed)


async def test_a_message_over_the_limit_is_refused_by_its_number() -> None:
    async with connected() as (host, writer):
        writer.write(masked(frames(1)[0]))
        writer.write(masked(bytes(FRAME_BYTES_MAX + 2048)))
        ended = await host.end()
        assert isinstance(ended, RemoteProtocolError)
        assert ended.reason == Reason.FRAME_TOO_LARGE
        assert host.came[0][1] == frames(1)[0]
