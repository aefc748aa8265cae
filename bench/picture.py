"""A picture of time against size, as SVG: both axes logarithmic, a line for each prover and kind of circuit."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 800, 420, 60, 46, 34, 190
COLOURS = ("#0b6bcb", "#c2410c", "#15803d", "#7e22ce", "#b91c1c", "#0f766e", "#a16207", "#475569", "#be185d", "#365314")

Line = Sequence[tuple[int, float]]
"""Logarithm of the size, and the value."""


def write_picture(path: Path, title: str, unit: str, lines: Mapping[str, Line]) -> None:
    """Write the picture of at least one line with at least one point."""
    points = [point for line in lines.values() for point in line]
    first, last = min(size for size, _ in points), max(size for size, _ in points)
    low, high = _decade(min(value for _, value in points)), _decade(max(value for _, value in points)) + 1

    def x(size: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (size - first) / max(1, last - first)

    def y(exponent: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (exponent - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" ',
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/><text x="{LEFT}" y="20" font-size="14">{title}</text>',
    ]
    for exponent in range(low, high + 1):
        parts.append(f'<path d="M{LEFT} {y(exponent):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        at = f'x="{LEFT - 6}" y="{y(exponent) + 4:.1f}" text-anchor="end"'
        parts.append(f"<text {at}>{10.0**exponent:g} {unit}</text>")
    foot = f'y="{HEIGHT - BOTTOM + 18}" text-anchor="middle"'
    parts += [f'<text x="{x(size):.1f}" {foot}>2^{size}</text>' for size in range(first, last + 1, 2)]
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [(x(size), y(_log10(value))) for size, value in sorted(line)]
        drawn = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in places]
        below = TOP + 10 + 18 * number
        parts.append(f'<text x="{WIDTH - RIGHT + 12}" y="{below}" fill="{colour}">{name}</text>')
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="ascii")


def _log10(value: float) -> float:
    """The logarithm of a time, which a clock may have found to be nothing."""
    return math.log10(max(value, 1e-6))


def _decade(value: float) -> int:
    """The power of ten at or below a value."""
    return math.floor(_log10(value))
