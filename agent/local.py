"""The local view: what the agent knows, as JSON on a unix socket and on loopback. No credentials, so nothing secret.

``/status`` is the whole picture, ``/metrics`` what Prometheus reads of it. ``/healthz`` is 200 only while the hub
acknowledges: running alone is not health. ``/frame`` is the picture signed with the agent's key, for a hub that asks by
another way than the session; on the unix socket only, so that nobody but the agent's own user and root has it signed.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

from agent.clock import Clock
from agent.config import is_loopback
from agent.local_http import Answer, LocalHttp, Request
from agent.local_status import Health, LocalStatus
from wire.signed_status import NONCE_BYTES

log = structlog.get_logger(__name__)

RETRY_S = 30.0
"""Between attempts to have the loopback port, while something else has it."""
METRICS_TYPE = "text/plain; version=0.0.4"
NONCE = re.compile(rf"[0-9a-f]{{{2 * NONCE_BYTES}}}")


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
        self._pages = {
            "/status": self._status,
            "/healthz": self._healthz,
            "/metrics": self._metrics,
            "/frame": self._frame,
        }
        self.http = LocalHttp(self._answer, clock)
        self.address: tuple[str, int] | None = None
        """Where it listens on loopback, once it does."""

    async def start(self) -> None:
        """Listen on the unix socket.

        Raises:
            OSError: it cannot be made.
        """
        self._socket_path.unlink(missing_ok=True)  # of a run that was killed; ours alone, because the lock is
        await self.http.listen_unix(self._socket_path)

    async def serve_loopback(self) -> None:
        """Listen on the loopback port too, as soon as it is free; returns when it does, or at once if it is off."""
        if self._local is None:
            return
        host, port = self._local
        said = False
        while self.address is None:
            try:
                self.address = await self.http.listen_tcp(host, port)
            except OSError as error:
                if not said:
                    log.warning("local.port_taken", host=host, port=port, error=str(error), retry_s=RETRY_S)
                said = True
                await self._clock.sleep(RETRY_S)
        log.info("local.listening", host=self.address[0], port=self.address[1])

    async def close(self) -> None:
        """Stop serving."""
        await self.http.close()
        with suppress(FileNotFoundError):
            self._socket_path.unlink()

    def _answer(self, request: Request) -> Answer:
        """Refuse a browser that was lured here under another name (DNS rebinding); else the page."""
        if not request.over_unix and not is_loopback(request.host):
            return Answer(b"this view is for this machine only\n", HTTPStatus.FORBIDDEN)
        page = self._pages.get(request.path)
        return Answer(b"no such page\n", HTTPStatus.NOT_FOUND) if page is None else page(request)

    def _status(self, _: Request) -> Answer:
        return _json(self._snapshot(), HTTPStatus.OK)

    def _metrics(self, _: Request) -> Answer:
        return Answer(self._metrics_text(), content_type=METRICS_TYPE)

    def _frame(self, request: Request) -> Answer:
        """The picture, signed for the nonce that the hub made."""
        if not request.over_unix:
            return Answer(b"signed for whoever may use the unix socket only\n", HTTPStatus.FORBIDDEN)
        nonce = request.query.get("nonce", "")
        if not NONCE.fullmatch(nonce):
            sentence = f"nonce must be {NONCE_BYTES} bytes in lower-case hex\n"
            return Answer(sentence.encode(), HTTPStatus.BAD_REQUEST)
        signed = self._signed(bytes.fromhex(nonce))
        if signed is None:
            return Answer(b"this agent is not enrolled yet, so that nobody knows its key\n", HTTPStatus.CONFLICT)
        return Answer(f"{signed}\n".encode(), headers={"Cache-Control": "no-store"})

    def _healthz(self, _: Request) -> Answer:
        status = self._snapshot()
        hub = status.hub
        answer = Health(
            healthy=status.healthy,
            hub_state=hub.state,
            last_ack_age_s=hub.last_ack_age_s,
            last_reason=hub.last_reason,
        )
        return _json(answer, HTTPStatus.OK if status.healthy else HTTPStatus.SERVICE_UNAVAILABLE)


def _json(value: Struct, status: HTTPStatus) -> Answer:
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return Answer(msgspec.json.encode(value) + b"\n", status, "application/json", headers)
