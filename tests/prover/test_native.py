"""The CPU's own multi-exponentiation against sums of known logarithms, for every shape of scalars."""

import struct
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from kernels.curves import BN254, CURVES, Curve
from prover.backends.base import Scope
from prover.backends.host import HostBackend
from prover.digits import Group, SortedDigits
from prover.formats.limbs import element_out_of_range, index_out_of_range
from prover.native import native
from prover.plan import ceil_div
from tests.kernels.multiples import affine_multiples, times_generator
from tests.kernels.operands import edges, g1_bytes, g2_bytes, plain

TABLE = 120
PACK: dict[str, Any] = {"g1": g1_bytes, "g2": g2_bytes}


def signed(point: Any, sign: int, curve: Curve) -> Any:
    """The point of a logarithm whose sign may be negative."""
    if point is None or sign >= 0:
        return point
    x, y = point
    return x, tuple(-part % curve.q for part in y) if isinstance(y, tuple) else -y % curve.q


def packed(curve: Curve, group: str, logarithms: Sequence[int]) -> bytes:
    table = affine_multiples(group, TABLE, curve)
    return PACK[group]([signed(table[abs(i)], i, curve) for i in logarithms], curve)


def summed(*args: Any, **options: Any) -> bytes:
    """See ``summed_and_counted``."""
    return summed_and_counted(*args, **options)[0]


def summed_and_counted(
    curve: Curve,
    group: Group,
    octets: bytes,
    scalars: Sequence[int],
    window_bits: int,
    *,
    skip: int = 0,
    threads: int = 2,
) -> tuple[bytes, int]:
    """The sum of scalar times point, points from scalar ``skip`` on, and how many additions of two points it took.

    The points lie at an odd address as in a file.
    """
    size = curve.g1_bytes if group == "g1" else curve.g2_bytes
    with HostBackend(files=("counters",)) as backend, Scope(backend) as scope:
        given, numbers = scope.uploaded(b"x" * 12 + octets), scope.uploaded(plain(scalars))
        digits = SortedDigits(
            backend, scope, curve, numbers.address, len(scalars), threads=threads, window_bits=window_bits
        )
        out = scope.allocate(size)
        additions = digits.sum(group, given.address + 12, skip, len(octets) // size, out.address)
        return backend.download(out, 0, size), additions


def expected(curve: Curve, group: str, logarithms: Sequence[int], scalars: Sequence[int]) -> bytes:
    total = sum(i * scalar for i, scalar in zip(logarithms, scalars, strict=True))
    return PACK[group]([times_generator(group, total, curve)], curve)


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)
def test_every_small_number_of_points(curve: Curve) -> None:
    """Icicle's and sppark's reports: numbers that are no multiple of something gave wrong sums."""
    random, special, wrong = Random("small"), edges(curve.r), []
    for count in [*range(1, 70), 127, 128, 129, 237, 300]:
        logarithms = [random.choice([0, *[random.randint(1 - TABLE, TABLE - 1)] * 9]) for _ in range(count)]
        scalars = [random.choice([random.choice(special), random.randrange(curve.r)]) for _ in range(count)]
        found = summed(curve, "g1", packed(curve, "g1", logarithms), scalars, 6)
        if found != expected(curve, "g1", logarithms, scalars):
            wrong.append(count)
    assert wrong == []


def distributions(curve: Curve) -> dict[str, list[int]]:
    """Scalars that fill few buckets, or the edges of all."""
    random, r, count = Random("distributions"), curve.r, 9000
    return {
        "all one": [1] * count,
        "all minus one": [r - 1] * count,
        "all zero": [0] * count,
        "all equal": [random.randrange(r)] * count,
        "powers of two": [pow(2, i, r) for i in range(count)],
        "bits": [random.randrange(2) for _ in range(count)],
        "half of the modulus": [(r - 1) // 2 + i % 2 for i in range(count)],
        "uniform": [random.randrange(r) for _ in range(count)],
    }


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)
@pytest.mark.parametrize("group", ["g1", "g2"])
@pytest.mark.parametrize("name", distributions(BN254))
def test_any_distribution_of_scalars(curve: Curve, group: Group, name: str) -> None:
    """Points with infinity, equal and opposite neighbours among them; large buckets are split between tasks."""
    random, scalars = Random(name), distributions(curve)[name]
    logarithms = [random.randint(-3, 3) for _ in scalars]
    found = summed(curve, group, packed(curve, group, logarithms), scalars, 13 if name == "uniform" else 9)
    assert found == expected(curve, group, logarithms, scalars)


def test_no_distribution_takes_twice_the_work_of_uniform_scalars() -> None:
    """Icicle's reports: scalars that fall into few buckets took many times as long. Work here is additions."""
    random, counted = Random("work"), {}
    for name, scalars in distributions(BN254).items():
        octets = packed(BN254, "g1", [random.randint(1, TABLE - 1) for _ in scalars])
        _, counted[name] = summed_and_counted(BN254, "g1", octets, scalars, 10)
    windows, count = ceil_div(BN254.r.bit_length(), 10), len(distributions(BN254)["uniform"])
    # A point for each digit, and two for each bucket, of which there are 2^9.
    assert windows * count * 0.9 < counted["uniform"] < windows * (count + 2 * 2**9)
    assert counted["all zero"] == 0
    assert {name for name, additions in counted.items() if additions > 2 * counted["uniform"]} == set()
    # Digits of zero take none: a sum of ones is one addition for each.
    assert counted["all one"] == counted["all minus one"] < count + 2 * 2**9


@pytest.mark.parametrize("window_bits", [5, 7, 8, 12, 13, 15, 16])
@pytest.mark.parametrize("threads", [1, 3, 40])
def test_windows_and_threads_change_nothing(window_bits: int, threads: int) -> None:
    random = Random("windows")
    scalars = [random.choice([*edges(BN254.r), random.randrange(BN254.r)]) for _ in range(700)]
    logarithms = [random.randint(1 - TABLE, TABLE - 1) for _ in scalars]
    octets = packed(BN254, "g1", logarithms)
    assert summed(BN254, "g1", octets, scalars, window_bits, threads=threads) == expected(
        BN254, "g1", logarithms, scalars
    )


def test_points_that_begin_behind_the_first_scalars() -> None:
    """As C's do, which the public signals have no part in."""
    random = Random("skip")
    scalars = [random.randrange(BN254.r) for _ in range(100)]
    logarithms = [random.randint(1, TABLE - 1) for _ in range(60)]
    found = summed(BN254, "g1", packed(BN254, "g1", logarithms), scalars, 5, skip=40)
    assert found == expected(BN254, "g1", logarithms, scalars[40:])


def test_keys_full_of_infinity() -> None:
    assert summed(BN254, "g1", bytes(64 * 50), list(range(50)), 6) == bytes(64)


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)
def test_numbers_out_of_range_are_found_as_plain_python_finds_them(curve: Curve) -> None:
    """The first of them, at the ends of threads' parts too; what shares the limit's highest word is looked at whole."""
    random, functions, limit, size = Random("ranges"), native(curve), curve.r, 45000
    share = limit >> 192 << 192
    numbers = [random.choice([random.randrange(limit), share, limit - 1, 0]) for _ in range(size)]
    for wrong in [[], [0], [size - 1], [16383, 16384], [16384], [40000, 20000], [32767, 32769]]:
        given = list(numbers)
        for place in wrong:
            given[place] = random.choice([limit, limit + 1, (1 << 256) - 1])
        records = memoryview(b"".join(b"x" * 12 + number.to_bytes(32, "little") for number in given))
        expected_at = min(wrong) if wrong else None
        assert element_out_of_range(records, 11, 3, 8, limit, functions) == expected_at
        assert element_out_of_range(records, 11, 3, 8, limit) == expected_at
    words = memoryview(struct.pack("<9I", 1, 2, 3, 4, 5, 6, 7, 8, 9))
    for bound in (1, 2, 5, 8, 9):
        assert index_out_of_range(words, 3, 1, bound, functions) == index_out_of_range(words, 3, 1, bound)
