"""Pure: how a time of the history is shown in at most so many points.

The tier is the coarsest whose rows are not wider than a point, or coarser still where finer rows are given up already.
What is not rolled up yet, the last minutes of the time, comes from the tiers below. Each point has the least, the
average and the greatest of its samples; a point without samples is a gap and is null.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from msgspec import Struct

from hub.rollups import TIERS, Rollup, Tier, merged
from hub.store.records import HistoryRow

UNROLLED_MS = 30_000
"""After its time is over, a rollup is made within this."""
GAP_RATIO = 2.5
"""Of the usual time between two samples: a longer one is a gap."""

SeriesId = tuple[int, int]
"""Number of the source, and of its field."""


class Span(NamedTuple):
    """Which rows of a tier belong to a chart."""

    tier: Tier
    from_ms: int
    to_ms: int


class Plan(Struct, frozen=True):
    """What to read, finest rows last, and how wide a point is."""

    tier: Tier
    step_ms: int
    spans: tuple[Span, ...]


class Chart(Struct, frozen=True):
    """Points of all series at the same times."""

    times_ms: Sequence[int]
    """Beginnings of points that are ``step_ms`` wide, or the times of the samples themselves."""
    points: Mapping[SeriesId, Sequence[Rollup | None]]


def plan(
    *,
    from_ms: int,
    to_ms: int,
    now_ms: int,
    points_max: int,
    sample_ms: int,
    rows_max: int,
    horizons_ms: Mapping[Tier, int],
    tier_min: Tier = Tier.RAW,
) -> Plan:
    """How to show the time from ``from_ms`` to ``to_ms``.

    Args:
        from_ms: its beginning, Unix milliseconds.
        to_ms: its end.
        now_ms: by the hub's clock.
        points_max: points of a series, at most; 2 or more.
        sample_ms: the usual time between two samples of a node.
        rows_max: rows of a tier that are read, at most.
        horizons_ms: how far each tier reaches back.
        tier_min: nothing finer, although it would fit.
    """
    wide_ms = max(1, -(-(to_ms - from_ms) // (points_max - 1)))  # points begin at whole steps: one may be cut in two
    tier = max(tier_min, *(item for item in TIERS if item.width_ms <= wide_ms))
    while (above := tier.above) is not None and (
        (to_ms - from_ms) // (tier.width_ms or sample_ms) > rows_max
        or (from_ms < horizons_ms[tier] and horizons_ms[above] < horizons_ms[tier])
    ):
        tier = above
    base_ms = tier.width_ms or 2 * sample_ms
    step_ms = -(-max(wide_ms, base_ms) // tier.width_ms) * tier.width_ms if tier.width_ms else max(wide_ms, base_ms)
    return Plan(tier, step_ms, tuple(_spans(tier, tier.start_of(from_ms), to_ms, now_ms)))


def _spans(tier: Tier, from_ms: int, to_ms: int, now_ms: int) -> list[Span]:
    """The tier up to where it is made, then the one below."""
    if tier is Tier.RAW:
        return [Span(tier, from_ms, to_ms)] if from_ms < to_ms else []
    made_ms = min(to_ms, max(from_ms, tier.start_of(now_ms - UNROLLED_MS)))
    rolled = [Span(tier, from_ms, made_ms)] if from_ms < made_ms else []
    return rolled + _spans(tier.below, made_ms, to_ms, now_ms)


def chart(
    rows: Sequence[HistoryRow], wanted: Sequence[SeriesId], *, from_ms: int, to_ms: int, step_ms: int, points_max: int
) -> Chart:
    """The points of these series. Few samples are shown as they are, more are put together."""
    if len(rows) <= points_max // 2 and all(_is_sample(row) for row in rows):
        return _exact(rows, wanted)
    first_ms = from_ms - from_ms % step_ms
    times_ms = list(range(first_ms, to_ms, step_ms))
    parts: dict[SeriesId, list[list[Rollup]]] = {key: [[] for _ in times_ms] for key in wanted}
    for row in rows:
        place = bisect_right(times_ms, row.time_ms) - 1
        if place < 0:
            continue
        for key in wanted:
            rollup = row.rolled.get(key[0], {}).get(key[1])
            if rollup is not None:
                parts[key][place].append(rollup)
    points = {key: [merged(some) if some else None for some in lists] for key, lists in parts.items()}
    return Chart(times_ms, points)


def _is_sample(row: HistoryRow) -> bool:
    return all(rollup.samples == 1 for fields in row.rolled.values() for rollup in fields.values())


def _exact(rows: Sequence[HistoryRow], wanted: Sequence[SeriesId]) -> Chart:
    """Each sample a point, and one without values where samples are missing."""
    gaps_ms = [after.time_ms - before.time_ms for before, after in pairwise(rows)]
    usual_ms = median(gaps_ms) if gaps_ms else 0
    shown: list[HistoryRow] = []
    for row in rows:
        if shown and row.time_ms - shown[-1].time_ms > GAP_RATIO * usual_ms:
            shown.append(HistoryRow((shown[-1].time_ms + row.time_ms) // 2, {}))
        shown.append(row)
    points = {key: [row.rolled.get(key[0], {}).get(key[1]) for row in shown] for key in wanted}
    return Chart([row.time_ms for row in shown], points)
