from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py_ecc import optimized_bn128

from kernels.curves import BN254, Fq2
from kernels.reference.group import Group, group1, group2

R = BN254.r
G1, G2 = group1(BN254), group2(BN254)

scalars = st.sampled_from([0, 1, 2, R - 1, R, R + 1, (R - 1) // 2, 1 << 253]) | st.integers(0, 2 * R)


@given(a=scalars, b=scalars)
@settings(max_examples=40, deadline=None)
def test_the_first_group_agrees_with_py_ecc(a: int, b: int) -> None:
    def affine(point: Any) -> tuple[int, int] | None:
        if optimized_bn128.is_inf(point):
            return None
        x, y = optimized_bn128.normalize(point)
        return int(x), int(y)

    x, y = (optimized_bn128.multiply(optimized_bn128.G1, k % R) for k in (a, b))
    assert G1.add(G1.multiply(BN254.g1, a), G1.multiply(BN254.g1, b)) == affine(optimized_bn128.add(x, y))


@given(a=scalars, b=scalars)
@settings(max_examples=15, deadline=None)
def test_the_second_group_agrees_with_py_ecc(a: int, b: int) -> None:
    def affine(point: Any) -> tuple[Fq2, Fq2] | None:
        if optimized_bn128.is_inf(point):
            return None
        x, y = optimized_bn128.normalize(point)
        return (int(x.coeffs[0]), int(x.coeffs[1])), (int(y.coeffs[0]), int(y.coeffs[1]))

    x, y = (optimized_bn128.multiply(optimized_bn128.G2, k % R) for k in (a, b))
    assert G2.add(G2.multiply(BN254.g2, a), G2.multiply(BN254.g2, b)) == affine(optimized_bn128.add(x, y))


@pytest.mark.parametrize("group", [G1, G2], ids=["first", "second"])
def test_the_exceptional_sums(group: Group[int]) -> None:
    point = group.generator
    assert group.add(point, point) == group.multiply(point, 2)
    assert group.add(point, group.neg(point)) is None
    assert group.add(None, point) == group.add(point, None) == point
    assert group.add(None, None) is None
    assert group.neg(None) is None
    assert group.multiply(point, 0) is group.multiply(point, R) is group.multiply(None, 5) is None
    assert group.contains(None)
    assert group.contains(point)
    assert group.in_subgroup(point)


@given(terms=st.lists(st.tuples(st.integers(0, 6), scalars), max_size=12))
@settings(max_examples=30, deadline=None)
def test_buckets_sum_as_the_specification_does(terms: list[tuple[int, int]]) -> None:
    """Points repeat, cancel and are infinity: few multiples of the generator, both signs."""
    choice = [None, *(G1.multiply(BN254.g1, k) for k in (1, 2, 3, -1, -2, -3))]
    points, factors = [choice[index] for index, _ in terms], [factor for _, factor in terms]
    assert G1.sum(points, factors) == G1.sum_naive(points, factors)


def test_sums_need_a_scalar_for_each_point() -> None:
    with pytest.raises(ValueError, match="zip"):
        G1.sum([BN254.g1], [])
    with pytest.raises(ValueError, match="zip"):
        G1.sum_naive([BN254.g1], [])
