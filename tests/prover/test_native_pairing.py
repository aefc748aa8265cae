"""The native groups and pairings against the algebra and against plain Python, on both curves.

Points outside the groups are multiplied into every part of the curve that has its own order: those are the ones that
a check by an endomorphism could take for members.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from kernels.curves import BN254, CURVES, Curve, Fq2, G2Point
from kernels.reference.field import QuadraticField
from kernels.reference.group import group1, group2
from kernels.reference.pairing import pairing_product_is_one
from prover.backends.host import build_for
from prover.native import _built
from prover.native import built as built_functions
from prover.pairing import lies_in_g1, lies_in_g2, product_is_one

SMALL_FACTORS = [13, 23, 2713, 11953, 262069, 10069, 5864401, 1875725156269]
"""Primes of the twists' cofactors."""


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """The native functions, without which plain Python would be compared with itself."""
    for curve in CURVES:
        build_for(curve)


def points_of_the_twist(curve: Curve, random: Random) -> Iterator[tuple[Fq2, Fq2]]:
    """Points of all of the twist, nearly none of them of order r."""
    field, q = QuadraticField(curve.q), curve.q
    while True:
        x = (random.randrange(q), random.randrange(q))
        square = field.add(field.mul(field.mul(x, x), x), curve.b2)
        y = square_root(field, square, q)
        if y is not None:
            yield x, y


def square_root(field: QuadraticField, value: Fq2, q: int) -> Fq2 | None:
    """A square root in Fq2 for q = 3 mod 4, by the norm."""
    c0, c1 = value
    root = pow((c0 * c0 + c1 * c1) % q, (q + 1) // 4, q)
    for norm in (root, q - root):
        half = (c0 + norm) * pow(2, -1, q) % q
        a = pow(half, (q + 1) // 4, q)
        if a * a % q == half and a:
            found = (a, c1 * pow(2 * a, -1, q) % q)
            if field.mul(found, found) == value:
                return found
    return None


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)
def test_the_pairing_is_bilinear_and_not_degenerate(curve: Curve) -> None:
    random, first, second, r = Random("bilinear"), group1(curve), group2(curve), curve.r
    for pairs in range(1, 6):
        scalars = [(random.randrange(r), random.randrange(r)) for _ in range(pairs)]
        product = sum(a * b for a, b in scalars) % r
        points = [(first.multiply(curve.g1, a), second.multiply(curve.g2, b)) for a, b in scalars]
        closing = (first.multiply(curve.g1, r - product), curve.g2)
        assert product_is_one(curve, [*points, closing])
        for wrong in (points, [*points, (curve.g1, curve.g2), closing], [*points, (closing[0], points[0][1])]):
            assert not product_is_one(curve, wrong)


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)
def test_infinity_and_equal_points_pair_as_in_plain_python(curve: Curve) -> None:
    first, second = group1(curve), group2(curve)
    p, q = first.multiply(curve.g1, 5), second.multiply(curve.g2, 7)
    for pairs in (
        [],
        [(None, q)],
        [(p, None)],
        [(p, q), (p, q)],
        [(p, q), (first.neg(p), q)],
        [(p, q), (p, second.neg(q)), (None, None)],
        [(curve.g1, q), (first.multiply(curve.g1, curve.r - 7), curve.g2)],
    ):
        assert product_is_one(curve, pairs) == pairing_product_is_one(curve, pairs)


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)
def test_only_points_of_order_r_lie_in_the_second_group(curve: Curve) -> None:
    random, group, order = Random("twist"), group2(curve), curve.r * curve.g2_cofactor
    # Scalars are taken modulo the order that a group states.
    whole = replace(group, order=2 * order)
    points = points_of_the_twist(curve, random)
    checked = 0
    for factor in [1, *SMALL_FACTORS]:
        point = next(points)
        assert whole.multiply(point, order) is None
        inside = whole.multiply(point, curve.g2_cofactor)
        # Of the twist's full order, of the factor's part of it, and that part beside a member.
        outside: list[G2Point] = [point]
        if factor > 1 and curve.g2_cofactor % factor == 0:
            small = whole.multiply(point, order // factor)
            outside += [small, group.add(small, inside)]
        for candidate in outside:
            if candidate is None:
                continue
            assert lies_in_g2(curve, candidate) == group.in_subgroup(candidate)
            checked += not group.in_subgroup(candidate)
        assert lies_in_g2(curve, inside)
    assert checked > len(SMALL_FACTORS)
    assert lies_in_g2(curve, None)
    (x0, x1), y = curve.g2
    assert not lies_in_g2(curve, ((x0 + 1, x1), y))


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)
def test_only_points_of_order_r_lie_in_the_first_group(curve: Curve) -> None:
    random, group, q = Random("first"), group1(curve), curve.q
    outside = 0
    for _ in range(40):
        x = random.randrange(q)
        square = (x**3 + curve.b1) % q
        y = pow(square, (q + 1) // 4, q)
        on_curve = y * y % q == square
        assert lies_in_g1(curve, (x, y)) == (on_curve and group.in_subgroup((x, y)))
        outside += on_curve and not group.in_subgroup((x, y))
    assert (outside > 0) == (curve is not BN254)  # whose first group is the whole curve


def test_what_is_built_later_is_found_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that opens a key before anything has been built does not verify in plain Python for ever."""
    monkeypatch.setattr("prover.native.find_built", lambda _names: None)
    _built.cache_clear()
    assert built_functions(BN254) is None
    monkeypatch.undo()
    assert built_functions(BN254) is not None
