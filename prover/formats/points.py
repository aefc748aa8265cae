"""Affine points between integers and the bytes of proving keys.

In the file a coordinate is little-endian and in Montgomery form (times R = 2^(8 * bytes of the field) mod q), a
point of the second group is ``x.c0 | x.c1 | y.c0 | y.c1``, and infinity is all zero bytes.
"""

from functools import cache

from kernels.curves import Curve, G1Point, G2Point


@cache
def _montgomery(curve: Curve) -> tuple[int, int]:
    """Return R and 1 / R modulo q."""
    radix = (1 << 8 * curve.n8q) % curve.q
    return radix, pow(radix, -1, curve.q)


def _coordinates(curve: Curve, octets: bytes | memoryview) -> list[int]:
    """Return the canonical value of each coordinate."""
    size, inverse = curve.n8q, _montgomery(curve)[1]
    return [
        int.from_bytes(octets[start : start + size], "little") * inverse % curve.q
        for start in range(0, len(octets), size)
    ]


def _octets(curve: Curve, coordinates: tuple[int, ...]) -> bytes:
    """Return the bytes of canonical coordinates."""
    size, radix = curve.n8q, _montgomery(curve)[0]
    return b"".join((value * radix % curve.q).to_bytes(size, "little") for value in coordinates)


def g1_from_bytes(curve: Curve, octets: bytes | memoryview) -> G1Point:
    """Return the point of the first group in ``curve.g1_bytes`` bytes; whether it is on the curve is not checked."""
    if not any(octets):
        return None
    x, y = _coordinates(curve, octets)
    return x, y


def g2_from_bytes(curve: Curve, octets: bytes | memoryview) -> G2Point:
    """Return the point of the second group in ``curve.g2_bytes`` bytes; whether it is on the twist is not checked."""
    if not any(octets):
        return None
    x0, x1, y0, y1 = _coordinates(curve, octets)
    return (x0, x1), (y0, y1)


def g1_to_bytes(curve: Curve, point: G1Point) -> bytes:
    """Return the ``curve.g1_bytes`` bytes of a point of the first group."""
    return bytes(curve.g1_bytes) if point is None else _octets(curve, point)


def g2_to_bytes(curve: Curve, point: G2Point) -> bytes:
    """Return the ``curve.g2_bytes`` bytes of a point of the second group."""
    return bytes(curve.g2_bytes) if point is None else _octets(curve, (*point[0], *point[1]))
