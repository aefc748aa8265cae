"""The history of a node: which series it has, and their points over a time."""

import asyncio
import csv
import io
from fnmatch import fnmatchcase
from http import HTTPStatus

import msgspec
from aiohttp import web
from msgspec import Struct

from hub import ports
from hub.api.errors import Problem, shortened
from hub.api.nodes import NO_NODE, find_node
from hub.api.route import JSON, Answer, Parameter, Route, answer
from hub.downsampling import Chart, SeriesId, chart, plan
from hub.rollups import Rollup, Tier
from hub.series import Field, Kind, named
from hub.store.base import HISTORY_ROWS_MAX, Store
from hub.store.records import HistoryRow

POINTS_DEFAULT = 600
POINTS_MIN = 2
POINTS_MAX = 2000
SERIES_MAX = 128
"""In one answer."""
PATTERNS_MAX = 16
PATTERN_CHARS_MAX = 256
RANGE_DEFAULT_MS = 3600 * 1000
CHARTS_AT_ONCE_MAX = 2
"""A chart takes up to a second of a core; agents come first."""
TIME_DIGITS_MAX = 15
CSV = "text/csv"

CHARTS = web.AppKey("CHARTS", asyncio.Semaphore)


class SeriesView(Struct, frozen=True):
    """One series."""

    name: str
    kind: Kind
    unit: str
    seen_at_ms: int
    """The last day it was heard of."""


class NodeSeries(Struct, frozen=True):
    """Every series of a node, by name."""

    series: list[SeriesView]


class PointsView(Struct, frozen=True):
    """The points of one series, one for each of ``times_ms``; null where there was no sample."""

    name: str
    kind: Kind
    unit: str
    min: list[float | None]
    avg: list[float | None]
    max: list[float | None]
    last: list[float | None]
    """The difference of two is what a counter counted in between."""
    samples: list[int]


class NodeMetrics(Struct, frozen=True):
    """Some series over a time."""

    node: str
    from_ms: int
    to_ms: int
    tier: str
    """What the points were made from: ``raw``, ``minute``, ``ten_minutes`` or ``hour``."""
    step_ms: int
    """Width of a point, at most."""
    times_ms: list[int]
    series: list[PointsView]


class _Asked(Struct, frozen=True):
    """What a request asks for."""

    patterns: tuple[str, ...]
    from_ms: int
    to_ms: int
    points_max: int
    as_csv: bool


async def list_series(request: web.Request) -> web.Response:
    """Every series of a node."""
    node = find_node(request)
    sources = await request.app[ports.STORE].sources(node.id)
    found = [
        SeriesView(name, field.kind, field.unit, source.seen_at_ms)
        for source in sources
        for name, field in named(source.name, source.fields)
    ]
    return answer(NodeSeries(sorted(found, key=lambda item: item.name)))


async def get_metrics(request: web.Request) -> web.Response:
    """Points of the series that are asked for."""
    node = find_node(request)
    asked = _read(request, request.app[ports.CLOCK].time_ms())
    async with request.app[CHARTS]:
        wanted = await _wanted(request.app[ports.STORE], node.id, asked.patterns)
        tier, step_ms, drawn = await _draw(request.app, node.id, asked, list(wanted))
        return await asyncio.to_thread(_answer, node.id, asked, tier, step_ms, wanted, drawn)


def _read(request: web.Request, now_ms: int) -> _Asked:
    query = request.query
    patterns = tuple(part for text in query.getall("series", ["*"]) for part in text.split(",") if part)
    if not 1 <= len(patterns) <= PATTERNS_MAX or max(map(len, patterns)) > PATTERN_CHARS_MAX:
        raise _invalid(
            f"series must be 1 to {PATTERNS_MAX} names or patterns of at most {PATTERN_CHARS_MAX} characters"
        )
    to_ms = _number(query.get("to", str(now_ms)), "to", 0, 10**TIME_DIGITS_MAX)
    from_ms = _number(query.get("from", str(max(0, to_ms - RANGE_DEFAULT_MS))), "from", 0, 10**TIME_DIGITS_MAX)
    to_ms = min(to_ms, now_ms + 1)
    if from_ms >= to_ms:
        raise _invalid("from must be before to, and not in the future")
    points_max = _number(query.get("points_max", str(POINTS_DEFAULT)), "points_max", POINTS_MIN, POINTS_MAX)
    format_ = query.get("format", "json")
    if format_ not in {"json", "csv"}:
        raise _invalid(f"format must be json or csv, not {shortened(format_)}")
    return _Asked(patterns, from_ms, to_ms, points_max, format_ == "csv")


def _number(text: str, name: str, least: int, greatest: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= TIME_DIGITS_MAX and least <= int(text) <= greatest):
        raise _invalid(f"{name} must be a whole number from {least} to {greatest}, not {shortened(text)}")
    return int(text)


def _invalid(detail: str) -> Problem:
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", detail)


async def _wanted(store: Store, node_id: str, patterns: tuple[str, ...]) -> dict[SeriesId, tuple[str, Field]]:
    """Which series of the node match, by name.

    Raises:
        Problem: too many do.
    """
    found = [
        (name, (source.number, field.number), field)
        for source in await store.sources(node_id)
        for name, field in named(source.name, source.fields)
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    ]
    if len(found) > SERIES_MAX:
        raise _invalid(
            f"{len(found)} series match; ask for at most {SERIES_MAX}, for example series=gpu.*.temperature_c"
        )
    return {key: (name, field) for name, key, field in sorted(found, key=lambda item: item[0])}


async def _draw(app: web.Application, node_id: str, asked: _Asked, wanted: list[SeriesId]) -> tuple[Tier, int, Chart]:
    """Read the rows and make the points; from a coarser tier when there are more rows than expected."""
    store, now_ms = app[ports.STORE], app[ports.CLOCK].time_ms()
    horizons_ms = await store.horizons()
    tier: Tier | None = Tier.RAW
    while tier is not None:
        planned = plan(
            from_ms=asked.from_ms,
            to_ms=asked.to_ms,
            now_ms=now_ms,
            points_max=asked.points_max,
            sample_ms=max(1, int(app[ports.CONFIG].sample_s * 1000)),
            rows_max=HISTORY_ROWS_MAX,
            horizons_ms=horizons_ms,
            tier_min=tier,
        )
        rows: list[HistoryRow] = []
        for span in planned.spans:
            rows += await store.history(node_id, span.tier, span.from_ms, span.to_ms)
        if len(rows) < HISTORY_ROWS_MAX:
            break
        tier = planned.tier.above
    drawn = await asyncio.to_thread(
        chart,
        rows,
        wanted,
        from_ms=asked.from_ms,
        to_ms=asked.to_ms,
        step_ms=planned.step_ms,
        points_max=asked.points_max,
    )
    return planned.tier, planned.step_ms, drawn


def _answer(
    node_id: str,
    asked: _Asked,
    tier: Tier,
    step_ms: int,
    wanted: dict[SeriesId, tuple[str, Field]],
    drawn: Chart,
) -> web.Response:
    if asked.as_csv:
        body, media = _csv(wanted, drawn), CSV
    else:
        body, media = _json(node_id, asked, tier, step_ms, wanted, drawn), JSON
    return web.Response(body=body, content_type=media, charset="utf-8" if asked.as_csv else None)


def _json(
    node_id: str,
    asked: _Asked,
    tier: Tier,
    step_ms: int,
    wanted: dict[SeriesId, tuple[str, Field]],
    drawn: Chart,
) -> bytes:
    series = []
    for key, (name, field) in wanted.items():
        points = drawn.points[key]
        series.append(
            PointsView(
                name=name,
                kind=field.kind,
                unit=field.unit,
                min=[None if point is None else point.low for point in points],
                avg=[None if point is None else point.mean for point in points],
                max=[None if point is None else point.high for point in points],
                last=[None if point is None else point.last for point in points],
                samples=[0 if point is None else point.samples for point in points],
            )
        )
    return msgspec.json.encode(
        NodeMetrics(
            node=node_id,
            from_ms=asked.from_ms,
            to_ms=asked.to_ms,
            tier=tier.name.lower(),
            step_ms=step_ms,
            times_ms=list(drawn.times_ms),
            series=series,
        )
    )


def _csv(wanted: dict[SeriesId, tuple[str, Field]], drawn: Chart) -> bytes:
    """A line for each point; a gap has empty values."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("time_ms", "series", "unit", "min", "avg", "max", "last", "samples"))
    for key, (name, field) in wanted.items():
        for time_ms, point in zip(drawn.times_ms, drawn.points[key], strict=True):
            writer.writerow((time_ms, name, field.unit, *_cells(point)))
    return text.getvalue().encode()


def _cells(point: Rollup | None) -> tuple[object, ...]:
    return ("", "", "", "", 0) if point is None else (point.low, point.mean, point.high, point.last, point.samples)


_TIME = {"type": "integer", "minimum": 0, "maximum": 10**TIME_DIGITS_MAX}

ROUTES = (
    Route(
        method="GET",
        path="/api/v1/nodes/{id}/series",
        handler=list_series,
        summary="What is kept of a node's readings, by name",
        tag="history",
        answers={HTTPStatus.OK: Answer("Every series", NodeSeries)},
        problems=NO_NODE,
    ),
    Route(
        method="GET",
        path="/api/v1/nodes/{id}/metrics",
        handler=get_metrics,
        summary="A node's readings over a time, in at most so many points",
        tag="history",
        answers={HTTPStatus.OK: Answer("Points of each series", NodeMetrics, also=(CSV,))},
        problems=(*NO_NODE, HTTPStatus.UNPROCESSABLE_ENTITY),
        parameters=(
            Parameter("series", "names, or patterns with * and ?, with commas between; all series if left out"),
            Parameter("from", "Unix milliseconds; an hour before `to` if left out", schema=_TIME),
            Parameter("to", "Unix milliseconds; now if left out", schema=_TIME),
            Parameter(
                "points_max",
                "points of a series",
                schema={"type": "integer", "minimum": POINTS_MIN, "maximum": POINTS_MAX, "default": POINTS_DEFAULT},
            ),
            Parameter(
                "format",
                "json, or csv with a line for each point",
                schema={"type": "string", "enum": ["json", "csv"], "default": "json"},
            ),
        ),
    ),
)
