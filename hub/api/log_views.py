"""What the API tells of log records, and how a request says which ones are wanted."""

import re
from datetime import datetime
from http import HTTPStatus
from typing import Annotated

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from hub.api.errors import Problem, shortened
from hub.api.models import UnixMs
from hub.api.route import Parameter
from hub.store.log_records import LogFilter, StoredLog
from wire.frames import Level

DURATION = re.compile(r"(\d{1,9})(s|m|h|d)")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
MILLISECONDS = re.compile(r"\d{1,16}")
TEXT_CHARS_MAX = 256
SOURCE_CHARS_MAX = 128


class LogView(Struct, frozen=True, tag_field="kind", tag="log"):
    """One record of a node's log. Within a node records are in the order the node numbered them."""

    id: Annotated[int, Meta(description="grows with every record; `after` and Last-Event-ID take it")]
    received_at_ms: UnixMs
    node_time_ms: Annotated[int, Meta(description="Unix time in milliseconds, by the node's clock")]
    level: Level
    source: Annotated[str, Meta(description="agent, worker:DEVICE, file:PATH, unit:NAME; provewire for what we add")]
    text: str
    fields: Annotated[msgspec.Raw, Meta(description="an object")]
    epoch: str
    seq: int
    given_up: Annotated[int | None, Meta(description="here so many records were given up, as the text says")]


class LogPageView(Struct, frozen=True):
    """A page of records. It may be empty and have a `next`: only so many records are looked at for one page."""

    logs: list[LogView]
    next: str | None


class LogBeat(Struct, frozen=True, tag_field="kind", tag="beat"):
    """A sign of life of a stream that has nothing to tell, or of a range that is searched and has not ended."""

    time_ms: UnixMs
    after: Annotated[int, Meta(description="the id to go on from, though nothing was told")]


class LogSkipped(Struct, frozen=True, tag_field="kind", tag="skipped"):
    """The reader was too slow: these records were passed over in the stream. They can still be read as a range."""

    records: Annotated[int, Meta(description="at least so many")]
    after: Annotated[int, Meta(description="the id of the last record before them")]
    until: Annotated[int, Meta(description="the id of the last of them")]


LOG_MODELS = (LogBeat, LogSkipped)

FILTER_PARAMETERS = (
    Parameter("since", "received at or after: Unix ms, RFC 3339, or a time before now like 10m, 2h, 1d"),
    Parameter("until", "received before; the same forms"),
    Parameter("level", "of this level or above", schema={"type": "string", "enum": [each.value for each in Level]}),
    Parameter("source", "from this source; `worker` and the like name all of a kind"),
    Parameter("contains", "with this in the text, whatever the case of its letters"),
)


def log_view(row: StoredLog) -> LogView:
    """A stored record as it is told."""
    return LogView(
        id=row.id,
        received_at_ms=row.received_at_ms,
        node_time_ms=row.time_ms,
        level=row.level,
        source=row.source,
        text=row.text,
        fields=msgspec.Raw(row.fields.encode()),
        epoch=row.epoch,
        seq=row.seq,
        given_up=row.gap,
    )


def read_filter(request: web.Request, now_ms: int) -> LogFilter:
    """Which records a request wants.

    Raises:
        Problem: 422.
    """
    query = request.query
    level, source, contains = query.get("level", "debug"), query.get("source", ""), query.get("contains", "")
    if level not in {each.value for each in Level}:
        raise invalid(f"level must be debug, info, warning or error, not {shortened(level)}")
    if len(source) > SOURCE_CHARS_MAX:
        raise invalid(f"source has at most {SOURCE_CHARS_MAX} characters")
    if len(contains) > TEXT_CHARS_MAX or "\0" in contains:
        raise invalid(f"contains has at most {TEXT_CHARS_MAX} characters, and no zero among them")
    return LogFilter(
        since_ms=_time_ms("since", query.get("since"), now_ms),
        until_ms=_time_ms("until", query.get("until"), now_ms),
        level=Level(level),
        source=source,
        contains=contains,
    )


def _time_ms(name: str, text: str | None, now_ms: int) -> int | None:
    if not text:
        return None
    if MILLISECONDS.fullmatch(text):
        return int(text)
    if (length := DURATION.fullmatch(text)) is not None:
        return now_ms - int(length[1]) * SECONDS[length[2]] * 1000
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        pass
    raise invalid(
        f"{name} must be Unix milliseconds, a time with its zone like 2026-11-30T12:00:00Z, or a time before now "
        f"like 10m, not {shortened(text)}"
    )


def invalid(detail: str) -> Problem:
    """422."""
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", detail)
