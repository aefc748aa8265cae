"""A node's log: pages of JSON, a range as NDJSON, or a stream that follows it, as NDJSON or Server-Sent Events."""

import asyncio
import re
from collections.abc import Sequence
from http import HTTPStatus

import msgspec
from aiohttp import hdrs, web
from msgspec import Struct

from hub import ports
from hub.api import auth
from hub.api.errors import Problem, not_found, shortened
from hub.api.log_follow import LOG_FOLLOWERS, Follower, TooManyFollowers
from hub.api.log_views import (
    FILTER_PARAMETERS,
    LogBeat,
    LogPageView,
    LogSkipped,
    invalid,
    log_view,
    read_filter,
)
from hub.api.nodes import NO_NODE, find_node
from hub.api.route import DEADLINE_S, PAGE_MAX, PAGE_PARAMETERS, Answer, Parameter, Route, answer, read_page, send
from hub.registry import Node
from hub.store.log_records import LogFilter, StoredLog
from wire.frames import Level

NDJSON = "application/x-ndjson"
EVENT_STREAM = "text/event-stream"
FORMATS = {"json": "", "ndjson": NDJSON, "sse": EVENT_STREAM}
SEND_DEADLINE_S = 10.0
"""A reader that takes nothing for this long is cut off; it can come back with the id of the last record it has."""
BEAT_S = 10.0
WELCOME_CHECK_S = 5.0
"""How long a stream may outlive its session or token."""
RETRY_MS = 2000
TAIL_MAX = 10_000
"""Records told before a stream follows what is new."""
TAIL_PAGES_MAX = 20
"""Looked through for them: with a filter they may lie far back."""
BEHIND_MAX = 10_000
"""Records a stream may be behind the node; beyond, it goes on with the newest and says what it passed over."""
KEPT = 500
"""Records it then goes on with."""
ID = re.compile(r"[0-9]{1,18}")


async def get_logs(request: web.Request) -> web.StreamResponse:
    """Records of a node, in the form asked for."""
    node = _node(request)
    wanted = read_filter(request, request.app[ports.CLOCK].time_ms())
    media = _media(request)
    if request.query.get("follow", "0") not in {"", "0"}:
        if wanted.until_ms is not None:
            raise invalid("a log that is followed has no until")
        return await _follow(request, node, wanted, media or NDJSON)
    if media == EVENT_STREAM:
        raise invalid("Server-Sent Events are for follow=1")
    newest_first = _newest_first(request, default="oldest" if media else "newest")
    if media:
        return await _range(request, node, wanted, newest_first=newest_first)
    limit, after = read_page(request)
    async with asyncio.timeout(DEADLINE_S):
        page = await request.app[ports.STORE].log_page(
            node.id, wanted, after=_id("after", after), newest_first=newest_first, limit=limit
        )
    return answer(
        LogPageView([log_view(row) for row in page.logs], None if page.next is None else str(page.next)),
        headers={hdrs.CACHE_CONTROL: "no-store"},
    )


def _node(request: web.Request) -> Node:
    """The node of the path; for reading its log the beginning of a name is enough, where it is the only one."""
    wanted = request.match_info["id"]
    try:
        return find_node(request)
    except Problem as problem:
        if problem.status not in NO_NODE:
            raise
        nodes = request.app[ports.REGISTRY].nodes()
        exact = [node for node in nodes if node.name == wanted]
        found = exact or [node for node in nodes if node.name.startswith(wanted) or node.id.startswith(wanted)]
    if not found:
        raise not_found("node", wanted)
    if len(found) == 1:
        return found[0]
    shown = ", ".join(f"{node.name} ({node.id})" for node in found[:8])
    more = "" if len(found) <= 8 else f" and {len(found) - 8} more"  # noqa: PLR2004 - as many as are shown
    raise Problem(
        HTTPStatus.CONFLICT,
        "ambiguous",
        f"{len(found)} nodes go by {shortened(wanted)}: {shown}{more}; give more of the name, or the id",
    )


def _media(request: web.Request) -> str:
    """What the answer is to be; empty for a page of JSON."""
    told = request.query.get("format")
    if told is not None:
        if told not in FORMATS:
            raise invalid(f"format must be json, ndjson or sse, not {shortened(told)}")
        return FORMATS[told]
    accepted = request.headers.get(hdrs.ACCEPT, "")
    return next((media for media in (NDJSON, EVENT_STREAM) if media in accepted), "")


def _newest_first(request: web.Request, *, default: str) -> bool:
    order = request.query.get("order", default)
    if order not in {"newest", "oldest"}:
        raise invalid(f"order must be newest or oldest, not {shortened(order)}")
    return order == "newest"


def _id(name: str, text: str) -> int | None:
    if not text:
        return None
    if not ID.fullmatch(text):
        raise invalid(f"{name} must be the id of a record, not {shortened(text)}")
    return int(text)


def _count(request: web.Request, name: str, most: int) -> int | None:
    text = request.query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and int(text) <= most):
        raise invalid(f"{name} must be 0 to {most}, not {shortened(text)}")
    return int(text)


# --- a range


async def _range(request: web.Request, node: Node, wanted: LogFilter, *, newest_first: bool) -> web.StreamResponse:
    """Every record of the range, page by page: no transaction is held open, and no more than a page is in memory."""
    left = _count(request, "limit", 10**9)
    after = _id("after", request.query.get("after", ""))
    response = await _begin(request, NDJSON)
    while left is None or left > 0:
        limit = PAGE_MAX if left is None else min(left, PAGE_MAX)
        page = await request.app[ports.STORE].log_page(
            node.id, wanted, after=after, newest_first=newest_first, limit=limit
        )
        if page.logs:
            await send(request, response, b"".join(map(_line, map(log_view, page.logs))), SEND_DEADLINE_S)
        if page.next is None:
            break
        if not page.logs:  # a long search shows that it lives, and how far it got
            beat = LogBeat(request.app[ports.CLOCK].time_ms(), page.next)
            await send(request, response, _line(beat), SEND_DEADLINE_S)
        left = None if left is None else left - len(page.logs)
        after = page.next
    await response.write_eof()
    return response


async def _begin(request: web.Request, media: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={hdrs.CACHE_CONTROL: "no-store", "X-Accel-Buffering": "no"})
    response.content_type = media
    if media == EVENT_STREAM:
        response.charset = "utf-8"
    await response.prepare(request)
    return response


def _line(told: Struct) -> bytes:
    return msgspec.json.encode(told) + b"\n"


# --- following


async def _follow(request: web.Request, node: Node, wanted: LogFilter, media: str) -> web.StreamResponse:
    after = _id("Last-Event-ID", request.headers.get("Last-Event-ID", "")) or _id(
        "after", request.query.get("after", "")
    )
    tail = _count(request, "tail", TAIL_MAX)
    try:
        with request.app[LOG_FOLLOWERS].follow(node.id) as follower:
            # Before the answer begins: what is stored once a reader has it is told, for sure.
            newest = await request.app[ports.STORE].newest_log(node.id)
            response = await _begin(request, media)
            stream = _Stream(request, response, media, wanted, follower)
            await stream.run(after, tail, newest)
            return response
    except TooManyFollowers as error:
        raise Problem(
            HTTPStatus.SERVICE_UNAVAILABLE, "busy", f"{error}; close one", {hdrs.RETRY_AFTER: "30"}
        ) from error


class _Stream:
    """One answer that follows a log."""

    def __init__(
        self, request: web.Request, response: web.StreamResponse, media: str, wanted: LogFilter, follower: Follower
    ) -> None:
        self._request = request
        self._response = response
        self._sse = media == EVENT_STREAM
        self._wanted = wanted
        self._follower = follower
        self._agent_id = follower.agent_id
        self._store = request.app[ports.STORE]
        self._clock = request.app[ports.CLOCK]
        self._checked_s = self._clock.monotonic()

    async def run(self, after: int | None, tail: int | None, newest: int) -> None:
        """Until the reader goes, the node is revoked or the hub stops; "now" is after the record ``newest``."""
        if self._sse:
            await self._send(b"retry: %d\n\n" % RETRY_MS)
        if after is None and (tail is not None or self._wanted.since_ms is None):
            await self._tail(tail or 0, newest)
            after = newest
            behind_counts = True
        else:
            behind_counts = after is not None  # a range of time that was asked for is told whole
        while not self._follower.closed and self._allowed():
            page = await self._store.log_page(self._agent_id, self._wanted, after=after, newest_first=False, limit=KEPT)
            await self._tell(page.logs)
            after = max(page.reached, after or 0)
            if page.next is None:
                behind_counts = True
                if not await self._follower.more(BEAT_S):
                    await self._say("beat", LogBeat(self._clock.time_ms(), after))
                continue
            if not page.logs:  # a long search shows that it lives
                await self._say("beat", LogBeat(self._clock.time_ms(), after))
            if behind_counts:
                after = await self._caught_up(after)

    async def _tail(self, count: int, newest: int) -> None:
        """Tell the last records up to one."""
        found: list[StoredLog] = []
        after: int | None = newest + 1
        for _ in range(TAIL_PAGES_MAX):
            if len(found) >= count or after is None:
                break
            page = await self._store.log_page(
                self._agent_id, self._wanted, after=after, newest_first=True, limit=min(count - len(found), PAGE_MAX)
            )
            found += page.logs
            after = page.next
        for start in range(len(found), 0, -KEPT):
            await self._tell(found[max(0, start - KEPT) : start][::-1])

    async def _caught_up(self, after: int) -> int:
        """A reader that is too far behind goes on with the newest; where it goes on."""
        behind = await self._store.logs_behind(self._agent_id, after, BEHIND_MAX + 1)
        if behind <= BEHIND_MAX:
            return after
        newest = await self._store.log_page(
            self._agent_id, LogFilter(level=Level.DEBUG), after=None, newest_first=True, limit=KEPT
        )
        until = newest.logs[-1].id - 1
        skipped = behind - len(newest.logs)
        self._request.app[LOG_FOLLOWERS].skipped += skipped
        await self._say("skipped", LogSkipped(skipped, after, until))
        return until

    def _allowed(self) -> bool:
        """Whether the session or token still holds."""
        now_s = self._clock.monotonic()
        if now_s - self._checked_s > WELCOME_CHECK_S:
            self._checked_s = now_s
            return auth.still_welcome(self._request)
        return True

    async def _tell(self, rows: Sequence[StoredLog]) -> None:
        if not rows:
            return
        if self._sse:
            told = [b"id: %d\nevent: log\ndata: %b\n\n" % (row.id, msgspec.json.encode(log_view(row))) for row in rows]
        else:
            told = [_line(log_view(row)) for row in rows]
        await self._send(b"".join(told))

    async def _say(self, event: str, told: Struct) -> None:
        data = msgspec.json.encode(told)
        await self._send(b"event: %b\ndata: %b\n\n" % (event.encode(), data) if self._sse else data + b"\n")

    async def _send(self, data: bytes) -> None:
        await send(self._request, self._response, data, SEND_DEADLINE_S)


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/nodes/{id}/logs",
        handler=get_logs,
        summary="A node's log: pages newest first; ranges and streams of LogView, LogBeat, LogSkipped oldest first",
        tag="nodes",
        answers={
            HTTPStatus.OK: Answer(
                "A page of records; or a stream, one JSON object a line or event",
                LogPageView,
                also=(NDJSON, EVENT_STREAM),
            )
        },
        problems=(*NO_NODE, HTTPStatus.UNPROCESSABLE_ENTITY),
        parameters=(
            *PAGE_PARAMETERS,
            *FILTER_PARAMETERS,
            Parameter("order", "of pages and ranges", schema={"type": "string", "enum": ["newest", "oldest"]}),
            Parameter(
                "format",
                "else by Accept: application/x-ndjson, text/event-stream, or JSON",
                schema={"type": "string", "enum": list(FORMATS)},
            ),
            Parameter(
                "follow",
                "1: tell what comes, without end; from `after`, else from `since`, else from now",
                schema={"type": "string", "enum": ["0", "1"]},
            ),
            Parameter(
                "tail",
                "when following: first the newest so many there are",
                schema={"type": "integer", "minimum": 0, "maximum": TAIL_MAX},
            ),
            Parameter("Last-Event-ID", "the id of the last record that was seen, to go on from", where="header"),
        ),
        deadline_s=None,
    ),
)
