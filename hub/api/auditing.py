"""Every action is written down before it is answered: who, from where, what, and what came of it; refusals too.

What was done is kept for sure: its entry is committed before the answer goes out. Refusals could be made a million
times by strangers, so those are kept only so many a minute; what is left out is counted, and the next one says so.
"""

import asyncio

import msgspec
import structlog
from aiohttp import web

from hub import ports
from hub.access.records import AuditEntry
from hub.access.redaction import kept
from hub.access.roles import NOBODY
from hub.api import auth
from hub.api.errors import Handler, Problem
from hub.api.idempotency import REPLAYED
from hub.api.route import BODY, READING, route_of
from hub.ids import uuid7
from hub.store.base import StoreError

log = structlog.get_logger(__name__)

TARGET_CHARS_MAX = 200
WHO_CHARS_MAX = 64
REFUSED = frozenset({401, 403, 421, 429})
"""Refusals of somebody, whatever they asked for."""
PENDING_MAX = 1000
REFUSALS_BURST = 60.0
REFUSALS_PER_S = 0.5
"""Of one address."""
ALL_BURST = 600.0
ALL_PER_S = 5.0
"""Of all addresses together."""
FLUSH_S = 1.0

AS = web.RequestKey("AS", str)
"""Whom a request without a credential names."""


class Auditor:
    """Writes down what was done."""

    def __init__(self, app: web.Application) -> None:
        self._app = app
        now_s = app[ports.CLOCK].monotonic
        self._of_one = auth.Limiter(per_s=REFUSALS_PER_S, burst=REFUSALS_BURST, now_s=now_s)
        self._of_all = auth.Limiter(per_s=ALL_PER_S, burst=ALL_BURST, now_s=now_s)
        self._pending: list[AuditEntry] = []
        self._wake = asyncio.Event()
        self._writing = asyncio.Lock()
        self._last_ms = 0
        self._left_out = 0
        self.left_out = 0
        """Refusals that were not kept, for the metrics."""

    async def done(self, entry: AuditEntry) -> None:
        """Keep what was done; returns when it is kept."""
        await self._app[ports.STORE].access.add_audit([entry])

    def refused(self, entry: AuditEntry, peer: str) -> None:
        """Keep a refusal, soon, unless there are too many."""
        if len(self._pending) >= PENDING_MAX or self._of_one.take(peer) or self._of_all.take(""):
            self._left_out += 1
            self.left_out += 1
            return
        if self._left_out:
            left_out, self._left_out = self._left_out, 0
            detail = msgspec.json.encode({"left_out_before": left_out}).decode()
            entry = msgspec.structs.replace(entry, detail=entry.detail or detail)
        self._pending.append(entry)
        self._wake.set()

    async def run(self) -> None:
        """Keep refusals, some at a time, for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self.flush()
            await asyncio.sleep(FLUSH_S)

    async def flush(self) -> None:
        """Keep what waits; what cannot be kept waits on."""
        async with self._writing:
            entries, self._pending = self._pending, []
            try:
                await self._app[ports.STORE].access.add_audit(entries)
            except StoreError as error:
                log.warning("refusals wait for the store", error=str(error))
                self._pending = [*entries, *self._pending][:PENDING_MAX]

    def new_id(self, now_ms: int) -> str:
        """Ids that sort as things happened, within a millisecond too."""
        self._last_ms = max(now_ms, self._last_ms + 1)
        return uuid7(self._last_ms)


AUDITOR = web.AppKey("AUDITOR", Auditor)


@web.middleware
async def audited(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Write down every change that was asked for, and everybody who was refused."""
    if request.path == auth.AGENT_PATH:
        return await handler(request)
    try:
        response = await handler(request)
    except Problem as problem:
        if request.method not in READING or problem.status in REFUSED:
            _note(request, problem.status, str(problem.code))
        raise
    except web.HTTPException as error:
        if request.method not in READING:
            _note(request, error.status, f"http_{error.status}")
        raise
    except Exception as error:
        if request.method not in READING:
            _note(request, 500, type(error).__name__)
        raise
    again = REPLAYED in response.headers
    if request.method not in READING and not again and (route := route_of(request)) is not None and route.audited:
        await request.app[AUDITOR].done(entry_of(request, response.status))
    return response


def _note(request: web.Request, status: int, code: str) -> None:
    request.app[AUDITOR].refused(entry_of(request, status, code), auth.peer(request))


def entry_of(request: web.Request, status: int, code: str = "") -> AuditEntry:
    """What a request was about."""
    identity = request.get(auth.IDENTITY, NOBODY)
    resource = request.match_info.route.resource
    now_ms = request.app[ports.CLOCK].time_ms()
    body = request.get(BODY)
    who = identity.name or request.get(AS, "")
    return AuditEntry(
        id=request.app[AUDITOR].new_id(now_ms),
        time_ms=now_ms,
        who=_plain(who, WHO_CHARS_MAX),
        kind=identity.kind.value,
        role="" if identity.role is None else identity.role.value,
        actor_id=identity.id,
        remote=request.remote or "",
        action=f"{request.method} {'unknown' if resource is None else resource.canonical}",
        target=_plain(request.path, TARGET_CHARS_MAX),
        status=status,
        code=code,
        detail="" if body is None else kept(body),
    )


def _plain(text: str, chars_max: int) -> str:
    return "".join(char if char.isprintable() else "?" for char in text[:chars_max])
