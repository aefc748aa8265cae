"""The bare server that the hub is measured against: aiohttp's WebSocket on uvloop, which counts messages and no more.

With ``--unpack`` it also takes each apart with ``msgpack.unpackb``. Everything else is as at the hub: no compression,
the same limit of a message, the same backlog.
"""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

import msgpack
import uvloop
from aiohttp import WSMsgType, web

from bench.descriptors import take_descriptors
from hub.channels.websocket import MESSAGE_BYTES_MAX
from wire.limits import PROTOCOL

BACKLOG = 2048
COUNTED = web.AppKey("COUNTED", list[int])


async def count(request: web.Request) -> web.WebSocketResponse:
    """Count what comes."""
    socket = web.WebSocketResponse(protocols=(PROTOCOL,), compress=False, max_msg_size=MESSAGE_BYTES_MAX)
    await socket.prepare(request)
    counted = request.app[COUNTED]
    async for message in socket:
        if message.type is WSMsgType.BINARY:
            counted[0] += 1
    return socket


async def unpack(request: web.Request) -> web.WebSocketResponse:
    """Unpack what comes."""
    socket = web.WebSocketResponse(protocols=(PROTOCOL,), compress=False, max_msg_size=MESSAGE_BYTES_MAX)
    await socket.prepare(request)
    counted = request.app[COUNTED]
    async for message in socket:
        if message.type is WSMsgType.BINARY:
            msgpack.unpackb(message.data)
            counted[0] += 1
    return socket


async def serve(port_file: Path, *, unpacks: bool) -> None:
    """Listen on a free port, which is written into ``port_file``, until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    app = web.Application()
    app[COUNTED] = [0]
    app.router.add_get("/agent", unpack if unpacks else count)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=BACKLOG).start()
    fresh = port_file.with_suffix(".new")
    fresh.write_text(str(runner.addresses[0][1]))
    fresh.replace(port_file)
    await stop.wait()
    await runner.cleanup()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port-file", type=Path, required=True)
    parser.add_argument("--unpack", action="store_true")
    args = parser.parse_args()
    take_descriptors()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(args.port_file, unpacks=args.unpack))
    return 0


if __name__ == "__main__":
    sys.exit(main())
