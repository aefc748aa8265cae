"""One GET of the daemon's status: bounded in time and size, no redirects, no proxies, no compression.

The daemon's server is hand-written: it reads once, compares the first bytes with ``GET /status``, answers with a
length and closes. That little is spoken here too, over a plain connection: aiohttp is a sixth of a daemon's memory.
"""

import asyncio
import re
from contextlib import suppress
from http import HTTPStatus
from typing import NamedTuple

from agent.sensors.cuzk.trouble import Refused, Unreadable, quoted
from wire.engines import EngineState

ANSWER_BYTES_MAX = 4 * 1024 * 1024
"""A status with a thousand jobs has about one MiB."""
HEAD_BYTES_MAX = 16 * 1024
CHUNK_BYTES = 64 * 1024
BLANK_LINE = b"\r\n\r\n"
PROTOCOL = b"HTTP/1."
STATUS_LINE = re.compile(r"HTTP/1\.[01] ([1-9][0-9]{2})(?: .*)?")
LENGTH = re.compile(r"[0-9]{1,18}")
ELSEWHERE = "find out what listens there (ss -ltnp) and set daemon.status_listen of cuzk.toml and --cuzk to a free port"


class Answer(NamedTuple):
    """One answer, the names of its headers in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class HttpStatus:
    """Asks one address.

    Args:
        host: a loopback address.
        port: of ``daemon.status_listen``.
    """

    def __init__(self, host: str, port: int) -> None:
        self._hosts = ("127.0.0.1", "::1") if host == "localhost" else (host,)
        self._port = port
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def fetch(self, deadline_s: float) -> bytes:
        """The JSON of one status, within ``deadline_s`` from the connection to the last byte.

        Raises:
            Refused: nobody listens.
            Unreadable: what came is no status; the state says why.
        """
        try:
            async with asyncio.timeout(deadline_s):
                return self._judged(await self._fetch())
        except TimeoutError:
            raise Unreadable(
                EngineState.SILENT,
                f"no whole answer from {self.address} within {deadline_s:g} s; the daemon hangs, is stopped, or its "
                "machine is overloaded: look at its log and its CPU before restarting it, a restart ends its proofs",
            ) from None

    async def _fetch(self) -> Answer:
        try:
            reader, writer = await self._connect()
        except ConnectionRefusedError:
            raise Refused(self.address) from None
        except OSError as error:
            raise Unreadable(
                EngineState.SILENT,
                f"the agent cannot open a connection to {self.address}: {error}; this is the agent's own "
                "trouble and says nothing about the daemon",
            ) from None
        try:
            writer.write(
                f"GET /status HTTP/1.1\r\nHost: {self.address}\r\nAccept: application/json\r\n"
                "Accept-Encoding: identity\r\nConnection: close\r\n\r\n".encode()
            )
            return await self._answer(reader)
        except OSError as error:
            raise self._bad(f"closed the connection ({error}); the daemon may just have ended") from None
        finally:
            writer.transport.abort()  # nothing is left to be said

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """To the first of the hosts that takes the connection."""
        for host in self._hosts[:-1]:
            with suppress(ConnectionRefusedError):
                return await asyncio.open_connection(host, self._port, limit=CHUNK_BYTES)
        return await asyncio.open_connection(self._hosts[-1], self._port, limit=CHUNK_BYTES)

    async def _answer(self, reader: asyncio.StreamReader) -> Answer:
        raw = bytearray()
        while (end := raw.find(BLANK_LINE)) < 0:
            chunk = await reader.read(CHUNK_BYTES)
            raw += chunk
            if not PROTOCOL.startswith(bytes(raw[: len(PROTOCOL)])) or len(raw) > HEAD_BYTES_MAX + CHUNK_BYTES:
                raise self._wrong(f"answers with what is no HTTP: {quoted(bytes(raw))}")
            if not chunk:
                raise (
                    self._broken_off()
                    if raw
                    else self._bad("closed the connection without an answer; the daemon may just have ended")
                )
        status, headers = self._head(bytes(raw[:end]))
        body = raw[end + len(BLANK_LINE) :]
        length = int(headers["content-length"]) if LENGTH.fullmatch(headers.get("content-length", "")) else None
        while length is None or len(body) < length:
            if len(body) > ANSWER_BYTES_MAX:
                raise self._bad(
                    f"answered more than {ANSWER_BYTES_MAX} bytes; if it is a cuzk-daemon, its list of failed jobs "
                    "has grown over all bounds and only a restart of the daemon empties it"
                )
            chunk = await reader.read(CHUNK_BYTES)
            if not chunk and length is not None:
                raise self._broken_off()
            if not chunk:
                break
            body += chunk
        return Answer(status, headers, bytes(body[:length]))

    def _head(self, raw: bytes) -> tuple[int, dict[str, str]]:
        first, *lines = raw.decode("latin-1").split("\r\n")
        status = STATUS_LINE.fullmatch(first)
        fields = [line.partition(":") for line in lines]
        if status is None or not all(name and colon for name, colon, _ in fields):
            raise self._wrong(f"answers with what is no HTTP: {quoted(raw)}")
        headers = {name.lower(): value.strip() for name, _, value in fields}
        if "transfer-encoding" in headers:
            raise self._wrong("answers in pieces without a length, which a cuzk-daemon does not do")
        return int(status[1]), headers

    def _judged(self, answer: Answer) -> bytes:
        raw, server = answer.body, answer.headers.get("server", "")
        said = f"HTTP {answer.status}" + (f" of {quoted(server.encode())}" if server else "")
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if answer.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            raise self._bad(f"answered {said}: {quoted(raw)}; see the daemon's log")
        if answer.status != HTTPStatus.OK:
            raise self._wrong(f"answers {said} to GET /status: {quoted(raw)}")
        if kind != "application/json":
            raise self._wrong(f"answers {said} with {quoted(kind.encode())} in place of JSON: {quoted(raw)}")
        if answer.headers.get("content-encoding", "identity") != "identity":
            raise self._wrong(f"answers {said} compressed, which a cuzk-daemon does not do")
        return raw

    def _broken_off(self) -> Unreadable:
        return self._bad("broke its answer off in the middle; the daemon may just have ended")

    def _bad(self, what: str) -> Unreadable:
        return Unreadable(EngineState.BAD_ANSWER, f"{self.address} {what}")

    def _wrong(self, what: str) -> Unreadable:
        return Unreadable(
            EngineState.WRONG_SERVICE, f"something else than a cuzk-daemon at {self.address}: it {what}; {ELSEWHERE}"
        )
