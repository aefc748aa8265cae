"""Agents that dial in: one binary WebSocket message is one frame.

No permessage-deflate (it costs tens to hundreds of KiB a connection, and delta status does that work better). What the
library itself refuses, a message too large or a broken one, is closed with a numbered reason like everything else.

aiohttp hands a message over through a future, a task's next turn and three coroutines, which costs as much as all that
the session does with it. So its queue of messages is one of ours, which offers a frame to the session on the spot.
"""

import asyncio

from aiohttp import ClientConnectionResetError, WebSocketError, WSCloseCode, WSMessage, WSMsgType, web
from aiohttp._websocket.models import WSMessageTextBytes
from aiohttp._websocket.reader import WebSocketDataQueue
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import WebSocketReader, WebSocketWriter

from hub.channels.base import ChannelClosed, Taker
from wire.errors import MalformedFrame, RemoteProtocolError
from wire.limits import FRAME_BYTES_MAX, PROTOCOL
from wire.reasons import Reason

MESSAGE_BYTES_MAX = FRAME_BYTES_MAX + 1024
"""A little above the wire's own limit, so that a frame just over it gets the wire's own answer."""
QUEUED_BYTES_MAX = 64 * 1024
"""Received and not yet taken: beyond twice that the socket is read no further."""
UNSENT_BYTES_MAX = 64 * 1024
"""Kept for a peer that takes nothing, before a send waits."""
CLOSE_S = 2.0
"""For the peer to answer a close; then the transport is cut."""
CLOSE_TEXT_BYTES_MAX = 123
"""What a close frame holds beside its code (RFC 6455 section 5.5)."""

_NUMBERED = {
    WSCloseCode.MESSAGE_TOO_BIG: Reason.FRAME_TOO_LARGE,
    WSCloseCode.PROTOCOL_ERROR: Reason.MALFORMED_FRAME,
    WSCloseCode.INVALID_TEXT: Reason.MALFORMED_FRAME,
}


class _Inlet(WebSocketDataQueue):
    """aiohttp's queue of received messages, past which a frame can go when nothing is in it."""

    __slots__ = ("open", "taker")

    def __init__(self, protocol: BaseProtocol, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(protocol, QUEUED_BYTES_MAX, loop=loop)
        self.open = False
        """Whether somebody waits for the next message and none is there before it."""
        self.taker: Taker | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no message waits in it."""
        return not self._buffer

    def feed_data(self, data: WSMessage | WSMessageTextBytes, size: int) -> None:
        """A message came: called by the parser."""
        if self.open:
            taker = self.taker
            if taker is not None and data.type is WSMsgType.BINARY and taker(data.data):
                return
            self.open = False
        super().feed_data(data, size)


class _Socket(web.WebSocketResponse):
    """aiohttp's WebSocket, with our queue, and our numbers where the library closes by itself."""

    inlet: _Inlet

    def _post_start(self, request: web.BaseRequest, protocol: str | None, writer: WebSocketWriter) -> None:
        """As the library's own, but for the queue; compression and its heartbeat are never asked for here."""
        self._ws_protocol, self._writer = protocol, writer
        self.inlet = self._reader = _Inlet(request.protocol, asyncio.get_running_loop())
        self._parser = WebSocketReader(self.inlet, MESSAGE_BYTES_MAX, compress=False, decode_text=True)
        request.protocol.set_parser(self._parser)
        request.protocol.keep_alive(False)  # noqa: FBT003 - the library's own signature

    async def close(self, *, code: int = WSCloseCode.OK, message: bytes = b"", drain: bool = True) -> bool:
        """Close; the library's own code for a fault of the peer becomes the number of its reason."""
        reason = _NUMBERED.get(WSCloseCode(code)) if code in WSCloseCode.__members__.values() else None
        if reason is not None:
            code, message = reason.close_code, shortened(reason.sentence)
        return await super().close(code=code, message=message, drain=drain)


class WebSocketChannel:
    """`hub.channels.base.Channel` over an upgraded request."""

    __slots__ = ("_inlet", "_socket", "_transport", "remote")

    def __init__(self, socket: _Socket, transport: asyncio.WriteTransport, remote: str) -> None:
        self._socket = socket
        self._inlet = socket.inlet
        self._transport = transport
        self.remote = remote

    @classmethod
    async def accept(cls, request: web.Request) -> "WebSocketChannel":
        """Upgrade a request; the caller has checked that it asks for our subprotocol."""
        socket = _Socket(
            protocols=(PROTOCOL,),
            compress=False,
            max_msg_size=MESSAGE_BYTES_MAX,
            writer_limit=UNSENT_BYTES_MAX,
            timeout=CLOSE_S,
            autoping=True,
        )
        await socket.prepare(request)
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the connection was lost in the upgrade")
        return cls(socket, transport, request.remote or "")

    @property
    def response(self) -> web.WebSocketResponse:
        """What the request's handler returns in the end."""
        return self._socket

    async def receive(self) -> bytes:
        """The next binary message."""
        self._inlet.open = self._inlet.is_empty
        try:
            message = await self._socket.receive()
        finally:
            self._inlet.open = False
        match message.type:
            case WSMsgType.BINARY:
                return bytes(message.data)
            case WSMsgType.TEXT:
                raise MalformedFrame("a text message came; frames are binary")
            case WSMsgType.ERROR if isinstance(message.data, WebSocketError):
                reason = _NUMBERED.get(WSCloseCode(message.data.code), Reason.MALFORMED_FRAME)
                raise RemoteProtocolError(reason, str(message.data))
            case WSMsgType.ERROR:
                raise ChannelClosed(self._code, f"the connection failed: {message.data}")
            case _:
                said = message.extra if isinstance(message.extra, str) else ""
                raise ChannelClosed(self._code, said)

    def offer_to(self, taker: Taker) -> None:
        """Past the queue, when it is empty."""
        self._inlet.taker = taker

    @property
    def _code(self) -> int:
        return self._socket.close_code or 0

    def send_now(self, frame: bytes) -> bool:
        """One binary message, written at once: the library's sending waits only after the frame is in the buffer."""
        if self._transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            return False
        sending = self._socket.send_bytes(frame)
        try:
            sending.send(None)
        except StopIteration:
            return True
        except (ClientConnectionResetError, ConnectionError, RuntimeError) as error:
            raise ChannelClosed(self._code, str(error)) from error
        sending.close()  # it has written the frame, and would now wait for the buffer: the next frame does
        return True

    async def send(self, frame: bytes) -> None:
        """One binary message."""
        try:
            await self._socket.send_bytes(frame)
        except (ClientConnectionResetError, ConnectionError, RuntimeError) as error:
            raise ChannelClosed(self._code, str(error)) from error

    async def close(self, code: int, detail: str) -> None:
        """Close, within a deadline; then the transport is cut."""
        try:
            async with asyncio.timeout(2 * CLOSE_S):
                await self._socket.close(code=code, message=shortened(detail))
        except (TimeoutError, ConnectionError):
            pass  # the library cuts the transport when its close is interrupted
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Undo what refers to this in turn: else it stays in memory, closed, until cycles are looked for."""
        self._inlet.taker = None
        for error in (self._socket.exception(), self._inlet.exception()):
            if error is not None:
                error.__traceback__ = error.__context__ = None


def shortened(text: str) -> bytes:
    """A text as a close frame can hold it: UTF-8, cut at a character."""
    return text.encode()[:CLOSE_TEXT_BYTES_MAX].decode(errors="ignore").encode()
