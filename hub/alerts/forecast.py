"""When a disk is full, if it goes on filling as it did; pure.

A straight line through the history, by the median of all slopes between two points (Theil and Sen): a file that came or
went at once, however large, is an outlier and no trend. Six hours and the last two of them must agree: what ended two
hours ago is no forecast.
"""

from collections.abc import Sequence
from itertools import combinations
from math import inf
from statistics import median

HOUR_MS = 3_600_000
WINDOW_MS = 6 * HOUR_MS
RECENT_MS = 2 * HOUR_MS
POINTS_MIN = 6
SPAN_MIN_MS = HOUR_MS
FRESH_MS = HOUR_MS // 2
"""The last point may be so old."""
FULL_RATIO = 0.01
"""With less than this free it is full already."""

Point = tuple[int, float]
"""Unix milliseconds, and bytes free."""


def hours_until_full(points: Sequence[Point], now_ms: int, total_bytes: float | None) -> float | None:
    """Hours; infinite while it does not fill up, None where too little is known.

    Args:
        points: by time; those older than the window are left out.
        now_ms: Unix milliseconds.
        total_bytes: of the file system; None if unknown.
    """
    window = [point for point in points if now_ms - WINDOW_MS <= point[0] <= now_ms]
    if not window or now_ms - window[-1][0] > FRESH_MS:
        return None
    free_bytes = window[-1][1]
    if free_bytes <= (total_bytes or 0) * FULL_RATIO:
        return 0.0
    if len(window) < POINTS_MIN or window[-1][0] - window[0][0] < SPAN_MIN_MS:
        return None
    recent = [point for point in window if point[0] >= window[-1][0] - RECENT_MS]
    slope = max(_slope(part) for part in (window, recent) if len(part) > 1)  # the slower of the two
    return inf if slope >= 0 else free_bytes / -slope / HOUR_MS


def _slope(points: Sequence[Point]) -> float:
    """Bytes a millisecond."""
    return median((later[1] - earlier[1]) / (later[0] - earlier[0]) for earlier, later in combinations(points, 2))
