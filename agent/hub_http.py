"""HTTP to the hub: one aiohttp session with our certificates, our limits and our deadlines."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from agent.errors import ConfigFault

CONNECT_S = 10.0
REQUEST_S = 30.0
"""A small request, whole."""
STALL_S = 30.0
"""A download that brings no byte for this long is broken."""
USER_AGENT = f"provewire/{version('provewire')}"


class BodyTooLarge(aiohttp.ClientError):
    """An answer is larger than what was asked for may be."""


def tls_context(ca: Path | None) -> ssl.SSLContext:
    """The system's certificates, and those of ``ca``; verification is always on.

    Raises:
        ConfigFault: ``ca`` holds no certificate.
    """
    context = ssl.create_default_context()
    if ca is not None:
        try:
            context.load_verify_locations(cafile=ca)
        except (OSError, ssl.SSLError) as error:
            raise ConfigFault(f"--ca {ca} holds no certificate in PEM: {error}") from None
    return context


class HttpClient:
    """Requests to the hub. An async context manager."""

    def __init__(self, *, ca: Path | None, proxies: bool) -> None:
        self.tls = tls_context(ca)
        self._proxies = proxies
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self.tls, limit=4),
            timeout=aiohttp.ClientTimeout(total=REQUEST_S, sock_connect=CONNECT_S),
            headers={"User-Agent": USER_AGENT},
            trust_env=self._proxies,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """The open session."""
        if self._session is None:
            raise RuntimeError("HttpClient is used outside its context")
        return self._session

    async def post_json(self, url: str, body: bytes, limit_bytes: int) -> tuple[int, bytes]:
        """POST ``body`` as JSON: (status, at most ``limit_bytes`` of the answer). Redirects are not followed.

        Raises:
            aiohttp.ClientError, OSError, TimeoutError: no usable answer.
        """
        headers = {"Content-Type": "application/json"}
        async with self.session.post(url, data=body, headers=headers, allow_redirects=False) as response:
            raw = bytearray()
            async for chunk in response.content.iter_chunked(16 * 1024):
                raw += chunk
                if len(raw) > limit_bytes:
                    raise BodyTooLarge(f"{url} answered more than {limit_bytes} bytes")
            return response.status, bytes(raw)

    @asynccontextmanager
    async def download(self, url: str, *, token: str, first_byte: int) -> AsyncIterator[aiohttp.ClientResponse]:
        """GET ``url`` from ``first_byte`` on, with a bearer token; the response, its body not yet read.

        Raises:
            aiohttp.ClientError, OSError, TimeoutError: the connection failed or stalled.
        """
        headers = {"Authorization": f"Bearer {token}"}
        if first_byte:
            headers["Range"] = f"bytes={first_byte}-"
        # No total: a proving key of many GB takes as long as it takes; what counts is that bytes arrive.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=STALL_S)
        async with self.session.get(url, headers=headers, timeout=timeout, allow_redirects=False) as response:
            yield response
