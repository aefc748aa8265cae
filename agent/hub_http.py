"""HTTP to the hub: one aiohttp session with our certificates, our limits and our deadlines.

aiohttp is loaded by the first request: an agent that is enrolled and proves nothing makes none, and does without what
would be a sixth of its memory. So what fails is told in the language's own exceptions.
"""

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from agent.errors import ConfigFault

if TYPE_CHECKING:
    import aiohttp

CONNECT_S = 10.0
REQUEST_S = 30.0
"""A small request, whole."""
STALL_S = 30.0
"""A download that brings no byte for this long is broken."""
USER_AGENT = f"provewire/{version('provewire')}"


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
    """Requests to the hub. An async context manager.

    Raises:
        ConfigFault: ``ca`` holds no certificate.
    """

    def __init__(self, *, ca: Path | None, proxies: bool) -> None:
        self._ca = ca
        self._proxies = proxies
        self._open = False
        self._session: aiohttp.ClientSession | None = None
        if ca is not None:
            self.tls  # noqa: B018 - a file that holds no certificate is said at once

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """Made when first wanted: the system's certificates are 2 MiB, and a hub on loopback needs none."""
        return tls_context(self._ca)

    async def __aenter__(self) -> Self:
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        if self._session is not None:
            await self._session.close()

    @property
    def session(self) -> "aiohttp.ClientSession":
        """The open session."""
        if not self._open:
            raise RuntimeError("HttpClient is used outside its context")
        if self._session is None:
            import aiohttp  # noqa: PLC0415 - see the module

            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self.tls, limit=4),
                timeout=aiohttp.ClientTimeout(total=REQUEST_S, sock_connect=CONNECT_S),
                headers={"User-Agent": USER_AGENT},
                trust_env=self._proxies,
            )
        return self._session

    async def post_json(self, url: str, body: bytes, limit_bytes: int) -> tuple[int, bytes]:
        """POST ``body`` as JSON: (status, at most ``limit_bytes`` of the answer). Redirects are not followed.

        Raises:
            ssl.SSLError: the way could not be secured.
            OSError, TimeoutError: no usable answer.
        """
        headers = {"Content-Type": "application/json"}
        with _own_errors():
            async with self.session.post(url, data=body, headers=headers, allow_redirects=False) as response:
                raw = bytearray()
                async for chunk in response.content.iter_chunked(16 * 1024):
                    raw += chunk
                    if len(raw) > limit_bytes:
                        raise ConnectionError(f"{url} answered more than {limit_bytes} bytes")
                return response.status, bytes(raw)

    @asynccontextmanager
    async def download(self, url: str, *, token: str, first_byte: int) -> "AsyncIterator[aiohttp.ClientResponse]":
        """GET ``url`` from ``first_byte`` on, with a bearer token; the response, its body not yet read.

        Raises:
            ssl.SSLError: the way could not be secured.
            OSError, TimeoutError: the connection failed or stalled, now or while the body is read.
        """
        import aiohttp  # noqa: PLC0415 - see the module

        headers = {"Authorization": f"Bearer {token}"}
        if first_byte:
            headers["Range"] = f"bytes={first_byte}-"
        # No total: a proving key of many GB takes as long as it takes; what counts is that bytes arrive.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=STALL_S)
        with _own_errors():
            async with self.session.get(url, headers=headers, timeout=timeout, allow_redirects=False) as response:
                yield response


@contextmanager
def _own_errors() -> Iterator[None]:
    """What aiohttp raises, as what the language has for it."""
    import aiohttp  # noqa: PLC0415 - see the module

    try:
        yield
    except TimeoutError:  # some of aiohttp's are both
        raise
    except aiohttp.ClientSSLError as error:
        raise ssl.SSLError(ssl.SSL_ERROR_SSL, str(error)) from error
    except aiohttp.ClientError as error:
        raise ConnectionError(f"{type(error).__name__}: {error}") from error
