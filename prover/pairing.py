"""Groups and pairings of a verification: by native functions where they have been built, else in plain Python.

Nothing is compiled here: who only verifies, as a hub does, needs no compiler. Both ways give the same answers. The
plain one is imported where it is wanted, for it takes as long to load as the native one to answer.
"""

from collections.abc import Sequence

from kernels.curves import Curve, G1Point, G2Point
from prover.formats.points import g1_from_bytes, g1_to_bytes, g2_to_bytes
from prover.native import built


def lies_in_g1(curve: Curve, point: G1Point) -> bool:
    """Whether a point with coordinates below q lies in the first group's subgroup of order r; infinity does."""
    functions = built(curve)
    if functions is None:
        from kernels.reference.group import group1  # noqa: PLC0415 - see above

        group = group1(curve)
        return group.contains(point) and group.in_subgroup(point)
    octets, b = g1_to_bytes(curve, point), base_field_bytes(curve, curve.b1)
    if curve.g1_cofactor == 1:  # every point of the curve does
        return functions.call("g1_first_off_curve", octets, 1, b, 1) == 1
    return bool(functions.call("g1_is_in_group", octets, b))


def lies_in_g2(curve: Curve, point: G2Point) -> bool:
    """Whether a point with coordinates below q lies in the second group's subgroup of order r; infinity does."""
    functions = built(curve)
    if functions is None:
        from kernels.reference.group import group2  # noqa: PLC0415 - see above

        group = group2(curve)
        return group.contains(point) and group.in_subgroup(point)
    b = base_field_bytes(curve, *curve.b2)
    return bool(functions.call("g2_is_in_group", g2_to_bytes(curve, point), b))


def lies_on_curve(curve: Curve, point: G1Point | G2Point) -> bool:
    """Whether a point lies on the curve of its group, whatever its order: to say what is wrong with one."""
    from kernels.reference.group import group1, group2  # noqa: PLC0415 - see above

    if point is None:
        return True
    x, y = point
    if isinstance(x, int) and isinstance(y, int):
        return group1(curve).contains((x, y))
    return isinstance(x, tuple) and isinstance(y, tuple) and group2(curve).contains((x, y))


def product_is_one(curve: Curve, pairs: Sequence[tuple[G1Point, G2Point]]) -> bool:
    """Whether the product of the pairings of all pairs is 1.

    Args:
        curve: the curve.
        pairs: points of the first group with points of the second group, in their subgroups of order r.
    """
    functions = built(curve)
    if functions is None:
        from kernels.reference.pairing import pairing_product_is_one  # noqa: PLC0415 - see above

        return pairing_product_is_one(curve, pairs)
    first = b"".join(g1_to_bytes(curve, p) for p, _ in pairs)
    second = b"".join(g2_to_bytes(curve, q) for _, q in pairs)
    return bool(functions.call("pairing_product_is_one", first, second, len(pairs)))


def statement(curve: Curve, points: Sequence[G1Point], scalars: Sequence[int]) -> G1Point:
    """Return the first point plus the sum of scalar times point over the others.

    Args:
        curve: the curve.
        points: one more than there are scalars.
        scalars: each below r.
    """
    functions = built(curve)
    if functions is None:
        from kernels.reference.group import group1  # noqa: PLC0415 - see above

        group = group1(curve)
        return group.add(points[0], group.sum(points[1:], scalars))
    octets = b"".join(g1_to_bytes(curve, point) for point in points)
    plain = b"".join(scalar.to_bytes(curve.n8r, "little") for scalar in scalars)
    return g1_from_bytes(curve, functions.output("statement", curve.g1_bytes, octets, plain, len(scalars)))


def base_field_bytes(curve: Curve, *values: int) -> bytes:
    """Return base field elements as the native functions take them."""
    return b"".join(((value << 8 * curve.n8q) % curve.q).to_bytes(curve.n8q, "little") for value in values)
