"""One GET of the daemon's status: bounded in time and size, no redirects, no proxies, no decompression.

The daemon's server is hand-written: it reads once, compares the first bytes with ``GET /status``, answers and closes.
"""

import asyncio
import errno
from http import HTTPStatus

import aiohttp

from agent.sensors.cuzk.trouble import Refused, Unreadable, quoted
from wire.engines import EngineState

ANSWER_BYTES_MAX = 4 * 1024 * 1024
"""A status with a thousand jobs has about one MiB."""
CHUNK_BYTES = 64 * 1024
ELSEWHERE = "find out what listens there (ss -ltnp) and set daemon.status_listen of cuzk.toml and --cuzk to a free port"


class HttpStatus:
    """Asks one address. ``close`` when done.

    Args:
        host: a loopback address.
        port: of ``daemon.status_listen``.
    """

    def __init__(self, host: str, port: int) -> None:
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._session: aiohttp.ClientSession | None = None

    async def fetch(self, deadline_s: float) -> bytes:
        """The JSON of one status, within ``deadline_s`` from the connection to the last byte.

        Raises:
            Refused: nobody listens.
            Unreadable: what came is no status; the state says why.
        """
        try:
            async with asyncio.timeout(deadline_s):
                return await self._fetch()
        except TimeoutError:
            raise Unreadable(
                EngineState.SILENT,
                f"no whole answer from {self.address} within {deadline_s:g} s; the daemon hangs, is stopped, or its "
                "machine is overloaded: look at its log and its CPU before restarting it, a restart ends its proofs",
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise self._explained(error) from None

    async def close(self) -> None:
        """Give the connections back."""
        if self._session is not None:
            await self._session.close()

    async def _fetch(self) -> bytes:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=1, force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=False,
                trust_env=False,
                headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            )
        async with self._session.get(f"http://{self.address}/status", allow_redirects=False) as response:
            raw = bytearray()
            async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                raw += chunk
                if len(raw) > ANSWER_BYTES_MAX:
                    raise self._bad(
                        f"answered more than {ANSWER_BYTES_MAX} bytes; if it is a cuzk-daemon, its list of failed jobs "
                        "has grown over all bounds and only a restart of the daemon empties it"
                    )
            return self._judged(response, bytes(raw))

    def _judged(self, response: aiohttp.ClientResponse, raw: bytes) -> bytes:
        server = response.headers.get("Server", "")
        said = f"HTTP {response.status}" + (f" of {quoted(server.encode())}" if server else "")
        if response.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            raise self._bad(f"answered {said}: {quoted(raw)}; see the daemon's log")
        if response.status != HTTPStatus.OK:
            raise self._wrong(f"answers {said} to GET /status: {quoted(raw)}")
        if response.content_type != "application/json":
            raise self._wrong(f"answers {said} with {response.content_type} in place of JSON: {quoted(raw)}")
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise self._wrong(f"answers {said} compressed, which a cuzk-daemon does not do")
        return raw

    def _explained(self, error: aiohttp.ClientError | OSError) -> Exception:
        """An error of the connection as what it means."""
        if isinstance(error, aiohttp.ClientConnectorError):
            if error.os_error.errno == errno.ECONNREFUSED:
                return Refused(self.address)
            return Unreadable(
                EngineState.SILENT,
                f"the agent cannot open a connection to {self.address}: {error.os_error}; this is the agent's own "
                "trouble and says nothing about the daemon",
            )
        if isinstance(error, aiohttp.ClientResponseError):
            return self._wrong(f"answers with what is no HTTP: {quoted(error.message.encode())}")
        if isinstance(error, aiohttp.ClientPayloadError):
            return self._bad("broke its answer off in the middle; the daemon may just have ended")
        return self._bad(f"closed the connection without an answer ({error}); the daemon may just have ended")

    def _bad(self, what: str) -> Unreadable:
        return Unreadable(EngineState.BAD_ANSWER, f"{self.address} {what}")

    def _wrong(self, what: str) -> Unreadable:
        return Unreadable(
            EngineState.WRONG_SERVICE, f"something else than a cuzk-daemon at {self.address}: it {what}; {ELSEWHERE}"
        )
