"""A small HTTP/1.1 server: GET and HEAD, one answer a connection, bounded in size, time and number.

All that the local view needs. aiohttp is loaded by what an idle agent does not do, and is a sixth of a daemon's memory.
"""

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple, cast
from urllib.parse import parse_qsl, urlsplit

import structlog

from agent.clock import Clock
from agent.faults import FAULTS

log = structlog.get_logger(__name__)

HEAD_BYTES_MAX = 8 * 1024
BLANK_LINE = b"\r\n\r\n"
SWEEP_S = 1.0
CONNECTION_S = 10.0
"""A connection's life: an answer takes milliseconds, and whoever wants another may connect again."""
CONNECTIONS_MAX = 64
REQUEST_LINE = re.compile(r"([A-Z]{1,16}) (/[!-~]*) HTTP/1\.[01]")
HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:]*))(?::[0-9]*)?")


class Request(NamedTuple):
    """What is asked for."""

    path: str
    query: Mapping[str, str]
    host: str
    """Of the ``Host`` header, without the port; empty if there is none."""
    over_unix: bool


class Answer(NamedTuple):
    """What is said to it."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = {}

    def encode(self, *, with_body: bool) -> bytes:
        """As it goes out."""
        fields = {
            "Content-Type": self.content_type,
            "Content-Length": str(len(self.body)),
            "Connection": "close",
            **self.headers,
        }
        lines = [f"HTTP/1.1 {self.status.value} {self.status.phrase}", *(f"{k}: {v}" for k, v in fields.items())]
        return "\r\n".join(lines).encode("latin-1") + BLANK_LINE + (self.body if with_body else b"")


Handler = Callable[[Request], Answer]


class LocalHttp:
    """Answers requests on the addresses it listens on. ``close`` once."""

    def __init__(self, handler: Handler, clock: Clock) -> None:
        self._handler = handler
        self._clock = clock
        self._servers: list[asyncio.Server] = []
        self._opened_s: dict[_Connection, float] = {}

    @property
    def connections(self) -> int:
        """Those open."""
        return len(self._opened_s)

    async def listen_unix(self, path: Path) -> None:
        """Listen on a socket that only this user and root may use.

        Raises:
            OSError: it cannot be made.
        """
        loop = asyncio.get_running_loop()
        old_umask = os.umask(0o177)
        try:
            self._servers.append(await loop.create_unix_server(lambda: _Connection(self, over_unix=True), str(path)))
        finally:
            os.umask(old_umask)

    async def listen_tcp(self, host: str, port: int) -> tuple[str, int]:
        """Listen on a port; the address it has.

        Raises:
            OSError: it is taken.
        """
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Connection(self, over_unix=False), host, port, reuse_address=True)
        self._servers.append(server)
        address = server.sockets[0].getsockname()
        return str(address[0]), int(address[1])

    async def keep_clear(self) -> None:
        """Cut connections that had time enough for any answer, for ever: other users of the machine keep nobody out."""
        while True:
            await self._clock.sleep(SWEEP_S)
            now_s = self._clock.monotonic()
            newest_first = sorted(self._opened_s.items(), key=lambda each: -each[1])
            for number, (connection, opened_s) in enumerate(newest_first):
                if number >= CONNECTIONS_MAX or now_s - opened_s >= CONNECTION_S:
                    connection.abort()

    async def close(self) -> None:
        """Take no more connections and end those that are there."""
        for server in self._servers:
            server.close()
        for connection in list(self._opened_s):
            connection.abort()

    def opened(self, connection: "_Connection") -> None:
        """One more connection."""
        self._opened_s[connection] = self._clock.monotonic()

    def closed(self, connection: "_Connection") -> None:
        """One less."""
        self._opened_s.pop(connection, None)

    def answer(self, head: str, *, over_unix: bool) -> bytes:
        """What is said to a request, whose head this is."""
        first, *lines = head.split("\r\n")
        asked = REQUEST_LINE.fullmatch(first)
        hosts = [value.strip() for name, _, value in (line.partition(":") for line in lines) if name.lower() == "host"]
        host = HOST.fullmatch(hosts[0] if hosts else "")
        if asked is None or host is None or len(hosts) > 1:
            return _refusal(HTTPStatus.BAD_REQUEST).encode(with_body=True)
        if asked[1] not in {"GET", "HEAD"}:
            return _refusal(HTTPStatus.METHOD_NOT_ALLOWED).encode(with_body=True)
        target = urlsplit(asked[2])
        query = dict(parse_qsl(target.query, keep_blank_values=True))
        request = Request(target.path, query, host[1] or host[2] or "", over_unix)
        try:
            answer = self._handler(request)
        except Exception:  # outermost line of a request: it is answered all the same
            log.exception("local.fault", path=request.path)
            FAULTS["local"] += 1
            answer = _refusal(HTTPStatus.INTERNAL_SERVER_ERROR)
        return answer.encode(with_body=asked[1] == "GET")


class _Connection(asyncio.Protocol):
    """One connection: a head comes in, an answer goes out, and that is all."""

    def __init__(self, server: LocalHttp, *, over_unix: bool) -> None:
        self._server = server
        self._over_unix = over_unix
        self._head = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._server.closed(self)

    def abort(self) -> None:
        """End it now."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._head += data
        end = self._head.find(BLANK_LINE)
        if end < 0 and len(self._head) <= HEAD_BYTES_MAX:
            return
        if end < 0:
            said = _refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE).encode(with_body=True)
        else:
            said = self._server.answer(self._head[:end].decode("latin-1"), over_unix=self._over_unix)
        self._transport.write(said)
        self._transport.close()


def _refusal(status: HTTPStatus) -> Answer:
    return Answer(f"{status.phrase}\n".encode(), status)
