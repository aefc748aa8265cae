"""From a line of any log to a bounded `LogRecord`: JSON recognised, times judged, secrets left out. Pure."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from wire.frames import Level, LogRecord
from wire.limits import FIELDS_MAX, INTEGER_MAX, INTEGER_MIN, NAME_CHARS_MAX, TEXT_CHARS_MAX

RECORD_BYTES_MAX = 8 * 1024
"""Of one record, everything counted."""
FIELDS_BYTES_MAX = 3 * 1024
"""Of its fields: the text is what is read first."""
FIELD_BYTES_MAX = 1024
RECORD_OVERHEAD_BYTES = 48
"""Numbers, times and keys around the texts of a packed record."""
FIELD_OVERHEAD_BYTES = 12
PAST_MS_MAX = 3600_000
"""A time this far back is told as a field: the outbox gives up what is old by its own count, and a log may say any."""
FUTURE_MS_MAX = 60_000
CUT_NOTE_BYTES = 40

Field = str | int | float | bool | None

MESSAGE_KEYS = ("event", "message", "msg", "text")
LEVEL_KEYS = ("level", "severity", "lvl", "levelname")
TIME_KEYS = ("timestamp", "time", "ts", "@timestamp")
LEVELS = {
    "trace": Level.DEBUG,
    "debug": Level.DEBUG,
    "info": Level.INFO,
    "notice": Level.INFO,
    "warn": Level.WARNING,
    "warning": Level.WARNING,
    "err": Level.ERROR,
    "error": Level.ERROR,
    "critical": Level.ERROR,
    "fatal": Level.ERROR,
    "panic": Level.ERROR,
    "emerg": Level.ERROR,
    "alert": Level.ERROR,
}
ORDER = {level: number for number, level in enumerate(Level)}
PINO_STEPS = ((50, Level.ERROR), (40, Level.WARNING), (30, Level.INFO))
"""Levels as numbers of tens, as some loggers write them."""
CONSOLE_LEVEL = re.compile(r"^\S{10,32} (?:\S{8,20} )?\[(debug|info|warning|error|critical) *\] ")
"""The console form of structlog, after its time."""
SECRET_KEY = re.compile(r"token|secret|password|passwd|authorization|api_?key|private_?key|cookie", re.IGNORECASE)
NO_SECRET = re.compile(r"_file$|_path$|^tokens?_|_id$", re.IGNORECASE)
SECRET_TEXT = re.compile(r"pw1\.[\w.=-]{8,}|pwj\.[\w.-]{8,}|(?i:bearer)\s+[\w.~+/=-]{12,}")
SHIPPED_NOT = "[not shipped]"
EPOCH_UNITS = ((1e17, 1e6), (1e14, 1e3), (1e11, 1.0))
"""A number of time as nanoseconds, microseconds or milliseconds, told apart by their size; below, seconds."""

_JSON = msgspec.json.Decoder()


class Line(Struct, frozen=True):
    """One record as its source gave it."""

    text: str
    level: Level = Level.INFO
    time_ms: int | None = None
    """By the record itself; None if it says nothing."""
    fields: Mapping[str, Any] = {}


def parsed(text: str, *, plain_level: Level = Level.INFO) -> Line:
    """The record in a line: JSON if it is an object, else as it stands."""
    if text.startswith("{"):
        try:
            value = _JSON.decode(text)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            value = None
        if isinstance(value, dict):
            return _from_object(value, text)
    told = CONSOLE_LEVEL.match(text[:80])
    return Line(text, plain_level if told is None else LEVELS[told[1]])


def _from_object(value: dict[str, Any], whole: str) -> Line:
    level, time_ms = Level.INFO, None
    for key in LEVEL_KEYS:
        if key in value:
            level = level_of(value[key]) or level
            del value[key]
            break
    for key in TIME_KEYS:
        if key in value and (time_ms := time_of(value[key])) is not None:
            break
    for key in MESSAGE_KEYS:
        if isinstance(value.get(key), str):
            return Line(value.pop(key), level, time_ms, value)
    return Line(whole, level, time_ms)


def level_of(value: object) -> Level | None:
    """A level by its name, or by a number of tens; None for what is neither."""
    if isinstance(value, str):
        return LEVELS.get(value.lower())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return next((level for least, level in PINO_STEPS if value >= least), Level.DEBUG)
    return None


def time_of(value: object) -> int | None:
    """Unix milliseconds of a time as logs write it; None for what is none. Without a zone it is the node's own."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip().replace(",", "."))
            return int(moment.astimezone(UTC).timestamp() * 1000)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            for least, divisor in EPOCH_UNITS:
                if value >= least:
                    return int(value / divisor)
            return int(value * 1000)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def record(source: str, line: Line, now_ms: int) -> tuple[LogRecord, int]:
    """The bounded record of a line, and its time: its own if that is near, else now with its own as a field."""
    fields, time_ms = dict(line.fields), now_ms
    if line.time_ms is not None:
        if -FUTURE_MS_MAX <= now_ms - line.time_ms <= PAST_MS_MAX:
            time_ms = line.time_ms
            for key in TIME_KEYS:
                if key in fields and time_of(fields[key]) == line.time_ms:
                    del fields[key]
        elif not any(key in fields for key in TIME_KEYS):
            fields["time_ms"] = line.time_ms
    kept = bounded_fields(fields)
    room_bytes = RECORD_BYTES_MAX - RECORD_OVERHEAD_BYTES - len(source) - _fields_bytes(kept)
    text = cut(SECRET_TEXT.sub(SHIPPED_NOT, line.text), room_bytes)
    return LogRecord(source=source, text=text, level=line.level, fields=kept), time_ms


def bounded_fields(fields: Mapping[str, Any]) -> dict[str, Field]:
    """Fields as a frame can carry them: scalars as they are, structures as JSON, long ones cut, secrets left out."""
    kept: dict[str, Field] = {}
    left_bytes = FIELDS_BYTES_MAX
    for key, value in fields.items():
        name = cut(str(key), NAME_CHARS_MAX) or "_"
        field = _field(value)
        if SECRET_KEY.search(name) and not NO_SECRET.search(name) and field is not None:
            field = SHIPPED_NOT
        size_bytes = _fields_bytes({name: field})
        if len(kept) >= FIELDS_MAX - 1 or size_bytes > left_bytes:
            kept["fields_left_out"] = len(fields) - len(kept)
            break
        left_bytes -= size_bytes
        kept[name] = field
    return kept


def _field(value: object) -> Field:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int) and INTEGER_MIN <= value <= INTEGER_MAX:
        return value
    if isinstance(value, float) and value - value == 0:  # finite
        return value
    if isinstance(value, dict | list | tuple):
        try:
            value = msgspec.json.encode(value).decode()
        except (TypeError, ValueError, RecursionError):
            value = str(value)
    return cut(SECRET_TEXT.sub(SHIPPED_NOT, str(value)), FIELD_BYTES_MAX)


def cut(text: str, bytes_max: int) -> str:
    """``text`` as valid Unicode of at most ``bytes_max`` bytes of UTF-8; what is cut off is said at its end."""
    raw = text.encode("utf-8", "backslashreplace")
    if len(raw) <= bytes_max and len(text) <= TEXT_CHARS_MAX:
        return raw.decode()
    keep = max(0, bytes_max - CUT_NOTE_BYTES)
    return f"{raw[:keep].decode('utf-8', 'ignore')} [... {len(raw) - keep} bytes cut off]"[: max(bytes_max, 0)]


def size_of(body: LogRecord) -> int:
    """About as many bytes as the packed record has; never fewer."""
    return RECORD_OVERHEAD_BYTES + len(body.source) + len(body.text.encode()) + _fields_bytes(body.fields)


def _fields_bytes(fields: Mapping[str, Field]) -> int:
    return sum(
        FIELD_OVERHEAD_BYTES + len(key.encode()) + (len(value.encode()) if isinstance(value, str) else 0)
        for key, value in fields.items()
    )
