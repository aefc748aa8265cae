"""The local view: what the agent knows, as JSON on a unix socket and on loopback. No credentials, so nothing secret.

``/status`` is the whole picture, ``/metrics`` what Prometheus reads of it. ``/healthz`` is 200 only while the hub
acknowledges: running alone is not health. ``/frame`` is the picture signed with the agent's key, for a hub that asks by
another way than the session; on the unix socket only, so that nobody but the agent's own user and root has it signed.
"""

import asyncio
import errno
import os
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import aiohttp
import msgspec
import structlog
from aiohttp import web
from msgspec import Struct

from agent.clock import Clock
from agent.config import is_loopback
from agent.errors import ConfigFault, StatusUnreachable
from agent.local_status import Health, LocalStatus
from wire.signed_status import NONCE_BYTES

log = structlog.get_logger(__name__)

RETRY_S = 30.0
"""Between attempts to have the loopback port, while something else has it."""
SHUTDOWN_S = 1.0
SWEEP_S = 1.0
CONNECTION_S = 10.0
"""A connection's life: an answer takes milliseconds, and whoever wants another may connect again."""
CONNECTIONS_MAX = 64
ASK_S = 5.0
ANSWER_BYTES_MAX = 1024 * 1024
METRICS_TYPE = "text/plain; version=0.0.4"
NONCE = re.compile(rf"[0-9a-f]{{{2 * NONCE_BYTES}}}")
BAD_REQUEST = 400
FORBIDDEN = 403
NOT_ENROLLED = 409
UNHEALTHY = 503
OK = 200

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class LocalView:
    """Serves the view. ``start`` once, ``close`` once."""

    def __init__(
        self,
        snapshot: Callable[[], LocalStatus],
        *,
        metrics: Callable[[], bytes],
        frame: Callable[[bytes], str | None],
        socket_path: Path,
        local: tuple[str, int] | None,
        clock: Clock,
    ) -> None:
        self._snapshot = snapshot
        self._metrics_text = metrics
        self._signed = frame
        self._socket_path = socket_path
        self._local = local
        self._clock = clock
        application = web.Application(middlewares=[_loopback_only], client_max_size=1024)
        application.add_routes(
            [
                web.get("/status", self._status),
                web.get("/healthz", self._healthz),
                web.get("/metrics", self._metrics),
                web.get("/frame", self._frame),
            ]
        )
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_S)
        self.address: tuple[str, int] | None = None
        """Where it listens on loopback, once it does."""

    async def start(self) -> None:
        """Listen on the unix socket.

        Raises:
            OSError: it cannot be made.
        """
        await self._runner.setup()
        self._socket_path.unlink(missing_ok=True)  # of a run that was killed; ours alone, because the lock is
        old_umask = os.umask(0o177)
        try:
            await web.UnixSite(self._runner, self._socket_path).start()
        finally:
            os.umask(old_umask)

    async def serve_loopback(self) -> None:
        """Listen on the loopback port too, as soon as it is free; returns when it does, or at once if it is off."""
        if self._local is None:
            return
        host, port = self._local
        said = False
        while True:
            site = web.TCPSite(self._runner, host, port)
            try:
                await site.start()
            except OSError as error:
                if not said:
                    log.warning("local.port_taken", host=host, port=port, error=str(error), retry_s=RETRY_S)
                said = True
                await self._clock.sleep(RETRY_S)
                continue
            addresses = [address for address in self._runner.addresses if isinstance(address, tuple)]
            self.address = (str(addresses[0][0]), int(addresses[0][1]))
            log.info("local.listening", host=self.address[0], port=self.address[1])
            return

    async def keep_clear(self) -> None:
        """Cut connections that had time enough for any answer, for ever: other users of the machine keep nobody out."""
        first_seen_s: dict[web.RequestHandler, float] = {}
        while True:
            await self._clock.sleep(SWEEP_S)
            now_s = self._clock.monotonic()
            connections = [] if self._runner.server is None else self._runner.server.connections
            first_seen_s = {each: first_seen_s.get(each, now_s) for each in connections}
            newest_first = sorted(connections, key=lambda each: -first_seen_s[each])
            for number, each in enumerate(newest_first):
                late = number >= CONNECTIONS_MAX or now_s - first_seen_s[each] >= CONNECTION_S
                if late and each.transport is not None:
                    each.transport.abort()

    async def close(self) -> None:
        """Stop serving."""
        await self._runner.cleanup()
        with suppress(FileNotFoundError):
            self._socket_path.unlink()

    async def _status(self, _: web.Request) -> web.StreamResponse:
        return _json(self._snapshot(), OK)

    async def _metrics(self, _: web.Request) -> web.StreamResponse:
        return web.Response(body=self._metrics_text(), headers={"Content-Type": METRICS_TYPE})

    async def _frame(self, request: web.Request) -> web.StreamResponse:
        """The picture, signed for the nonce that the hub made."""
        if not _over_unix(request):
            return web.Response(status=FORBIDDEN, text="signed for whoever may use the unix socket only\n")
        nonce = request.query.get("nonce", "")
        if not NONCE.fullmatch(nonce):
            return web.Response(status=BAD_REQUEST, text=f"nonce must be {NONCE_BYTES} bytes in lower-case hex\n")
        signed = self._signed(bytes.fromhex(nonce))
        if signed is None:
            return web.Response(
                status=NOT_ENROLLED, text="this agent is not enrolled yet, so that nobody knows its key\n"
            )
        return web.Response(text=f"{signed}\n", headers={"Cache-Control": "no-store"})

    async def _healthz(self, _: web.Request) -> web.StreamResponse:
        status = self._snapshot()
        hub = status.hub
        answer = Health(
            healthy=status.healthy,
            hub_state=hub.state,
            last_ack_age_s=hub.last_ack_age_s,
            last_reason=hub.last_reason,
        )
        return _json(answer, OK if status.healthy else UNHEALTHY)


@web.middleware
async def _loopback_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse a browser that was lured here under another name (DNS rebinding)."""
    host = (request.host or "").rpartition(":")[0] or request.host or ""
    if not _over_unix(request) and not is_loopback(host):
        return web.Response(status=FORBIDDEN, text="this view is for this machine only\n")
    return await handler(request)


def _over_unix(request: web.Request) -> bool:
    return request.transport is not None and not isinstance(request.transport.get_extra_info("peername"), tuple)


def _json(value: Struct, status: int) -> web.Response:
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return web.Response(
        body=msgspec.json.encode(value) + b"\n", status=status, content_type="application/json", headers=headers
    )


async def ask(socket_path: Path) -> bytes:
    """The ``/status`` JSON of the agent that listens at ``socket_path``.

    Raises:
        StatusUnreachable: none answers.
    """
    status, raw = await _get(socket_path, "/status")
    if status != OK:
        raise StatusUnreachable(f"the agent at {socket_path} answered HTTP {status}")
    return raw


async def ask_frame(socket_path: Path, nonce: str) -> str:
    """The signed status of the agent that listens at ``socket_path``: one word.

    Raises:
        StatusUnreachable: none answers, or it has none to give.
        ConfigFault: the nonce is none.
    """
    if not NONCE.fullmatch(nonce):
        raise ConfigFault(f"--nonce must be {NONCE_BYTES} bytes in lower-case hex, {2 * NONCE_BYTES} digits")
    status, raw = await _get(socket_path, f"/frame?nonce={nonce}")
    text = raw.decode("utf-8", "replace").strip()
    if status != OK:
        raise StatusUnreachable(f"the agent at {socket_path} gives no signed status: {text.splitlines()[0][:200]}")
    return text


async def _get(socket_path: Path, path: str) -> tuple[int, bytes]:
    """Status and body of one answer."""
    timeout = aiohttp.ClientTimeout(total=ASK_S)
    try:
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket_path)), timeout=timeout) as session,
            session.get(f"http://localhost{path}") as response,
        ):
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > ANSWER_BYTES_MAX:
                    raise StatusUnreachable(f"the agent at {socket_path} answers without end")
            return response.status, bytes(body)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        if isinstance(error, PermissionError) or getattr(error, "errno", None) == errno.EACCES:
            raise StatusUnreachable(
                f"{socket_path} is another user's; run this as the user of the agent, or as root"
            ) from None
        raise StatusUnreachable(
            f"no agent answers at {socket_path}; is it running, and is --data-dir the one it uses?"
        ) from None


def ask_now(socket_path: Path) -> bytes:
    """`ask`, for a command that has no event loop."""
    return asyncio.run(ask(socket_path))


def ask_frame_now(socket_path: Path, nonce: str) -> str:
    """`ask_frame`, for a command that has no event loop."""
    return asyncio.run(ask_frame(socket_path, nonce))
