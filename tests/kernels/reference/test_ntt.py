import random

import pytest

from kernels.curves import BN254
from kernels.reference.ntt import inverse_transform, shift_to_odd_points, transform, transform_naive

R = BN254.r


def values(count: int) -> list[int]:
    chance = random.Random(count)
    return [chance.choice([0, 1, R - 1, chance.randrange(R)]) for _ in range(count)]


@pytest.mark.parametrize("log2_size", range(8))
def test_the_fast_form_is_the_definition_and_has_an_inverse(log2_size: int) -> None:
    root = BN254.fr_root_of_order(log2_size)
    given = values(1 << log2_size)
    there = transform(given, root, R)
    assert there == transform_naive(given, root, R)
    assert inverse_transform(there, root, R) == given


@pytest.mark.parametrize("log2_size", range(1, 6))
def test_odd_points_are_the_other_half_of_the_doubled_domain(log2_size: int) -> None:
    size = 1 << log2_size
    coefficients = values(size)
    doubled = transform([*coefficients, *[0] * size], BN254.fr_root_of_order(log2_size + 1), R)
    assert shift_to_odd_points(BN254, doubled[0::2]) == doubled[1::2]
