"""The daemon's gRPC, for where its HTTP status is off: does it answer at all, and its GetStatus.

Whether something speaks HTTP/2 there needs no library. The call itself needs ``h2`` (the extra ``cuzk``), imported when
it is first made. No more flow-control window is ever given than the first one, so that an answer is bounded by it.
"""

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING

from agent.config import GrpcAddress
from agent.sensors.cuzk.protobuf import Malformed, StatusMessage, status_message

if TYPE_CHECKING:
    from h2.connection import H2Connection
    from h2.events import Event

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
EMPTY_SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
FRAME_HEAD_BYTES = 9
SETTINGS_TYPE = 4
SETTINGS_BYTES_MAX = 16_384
PATH = "/cuzk.v1.ProvingEngine/GetStatus"
EMPTY_MESSAGE = bytes(5)
MESSAGE_HEAD_BYTES = 5
READ_BYTES = 16 * 1024
RAW_BYTES_MAX = 256 * 1024
"""Frames of all kinds: four times what the window lets through as data."""
EXTRA = "provewire[cuzk]"


class CallFailed(Exception):
    """GetStatus gave no status; one sentence says why."""


def can_call() -> bool:
    """Whether the extra is installed."""
    return find_spec("h2") is not None


async def _connect(address: GrpcAddress) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.path:
        return await asyncio.open_unix_connection(address.path)
    return await asyncio.open_connection(address.host, address.port)


async def speaks_http2(address: GrpcAddress, deadline_s: float) -> bool:
    """Whether what listens at ``address`` opens an HTTP/2 connection, as every gRPC server does.

    Raises:
        PermissionError: the socket is there, and not for us.
    """
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(deadline_s):
            reader, writer = await _connect(address)
            writer.write(PREFACE + EMPTY_SETTINGS)
            head = await reader.readexactly(FRAME_HEAD_BYTES)
    except PermissionError:
        raise
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return False
    finally:
        if writer is not None:
            writer.transport.abort()
    size_bytes, stream = int.from_bytes(head[:3], "big"), int.from_bytes(head[5:], "big")
    return head[3] == SETTINGS_TYPE and stream == 0 and size_bytes <= SETTINGS_BYTES_MAX


async def get_status(address: GrpcAddress, deadline_s: float) -> StatusMessage:
    """One GetStatus. The daemon runs nvidia-smi for each: call it seldom.

    Raises:
        CallFailed: no usable answer within the deadline.
    """
    from h2.exceptions import ProtocolError  # noqa: PLC0415 - an extra, and only where it is needed

    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(deadline_s):
            reader, writer = await _connect(address)
            return await _Call().run(reader, writer)
    except TimeoutError:
        raise CallFailed(f"no answer within {deadline_s:g} s") from None
    except OSError as error:
        raise CallFailed(f"the connection failed: {error}") from None
    except ProtocolError as error:
        raise CallFailed(f"it breaks HTTP/2: {error}") from None
    except Malformed as error:
        raise CallFailed(f"its message is malformed: {error}") from None
    finally:
        if writer is not None:
            writer.transport.abort()


class _Call:
    """One unary call over one connection."""

    def __init__(self) -> None:
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._ended = False

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> StatusMessage:
        from h2.config import H2Configuration  # noqa: PLC0415 - an extra, and only where it is needed
        from h2.connection import H2Connection  # noqa: PLC0415 - same

        connection = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        connection.initiate_connection()
        stream = connection.get_next_available_stream_id()
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "localhost"),
            (":path", PATH),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
        ]
        connection.send_headers(stream, headers)
        connection.send_data(stream, EMPTY_MESSAGE, end_stream=True)
        raw_bytes = 0
        while not self._ended:
            await _flush(connection, writer)
            data = await reader.read(READ_BYTES)
            raw_bytes += len(data)
            if not data:
                raise CallFailed("it closed the connection in the middle")
            if raw_bytes > RAW_BYTES_MAX:
                raise CallFailed(f"it sent more than {RAW_BYTES_MAX} bytes")
            for event in connection.receive_data(data):
                self._take(event)
        return self._result()

    def _take(self, event: "Event") -> None:
        from h2 import events  # noqa: PLC0415 - an extra, and only where it is needed

        match event:
            case events.ResponseReceived() | events.TrailersReceived():
                self._headers |= {str(key): str(value) for key, value in event.headers or ()}
            case events.DataReceived():
                self._body += event.data or b""
            case events.StreamEnded():
                self._ended = True
            case events.StreamReset():
                raise CallFailed(f"it reset the call with HTTP/2 error {event.error_code}")
            case events.ConnectionTerminated():
                raise CallFailed(f"it closed the connection with HTTP/2 error {event.error_code}")

    def _result(self) -> StatusMessage:
        http, code = self._headers.get(":status"), self._headers.get("grpc-status")
        if http != "200":
            raise CallFailed(f"it answers HTTP {http}: no gRPC server")
        if code != "0":
            raise CallFailed(f"gRPC status {code or 'missing'}: {self._headers.get('grpc-message', '')[:200]}")
        body = bytes(self._body)
        size_bytes = int.from_bytes(body[1:MESSAGE_HEAD_BYTES], "big")
        if len(body) != MESSAGE_HEAD_BYTES + size_bytes or body[0] != 0:
            raise CallFailed("its answer is not one uncompressed message")
        return status_message(body[MESSAGE_HEAD_BYTES:])


async def _flush(connection: "H2Connection", writer: asyncio.StreamWriter) -> None:
    writer.write(connection.data_to_send())
    await writer.drain()
