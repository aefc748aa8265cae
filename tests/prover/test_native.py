"""The CPU's own multi-exponentiation against sums of known logarithms, for every shape of scalars."""

import struct
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from kernels.curves import BN254, CURVES, Curve
from prover.backends.base import Scope
from prover.backends.host import HostBackend
from prover.native import native
from prover.plan import ceil_div
from tests.kernels.multiples import affine_multiples, times_generator
from tests.kernels.operands import edges, g1_bytes, g2_bytes, plain

TABLE = 120
PACK: dict[str, Any] = {"g1": g1_bytes, "g2": g2_bytes}
FOLDED_LENGTHS = 257


def signed(point: Any, sign: int, curve: Curve) -> Any:
    """The point of a logarithm whose sign may be negative."""
    if point is None or sign >= 0:
        return point
    x, y = point
    return x, tuple(-part % curve.q for part in y) if isinstance(y, tuple) else -y % curve.q


def packed(curve: Curve, group: str, logarithms: Sequence[int]) -> bytes:
    table = affine_multiples(group, TABLE, curve)
    return PACK[group]([signed(table[abs(i)], i, curve) for i in logarithms], curve)


def summed(
    curve: Curve,
    group: str,
    octets: bytes,
    scalars: Sequence[int],
    window_bits: int,
    *,
    skip: int = 0,
    threads: int = 2,
) -> bytes:
    """The sum of scalar times point, points from scalar ``skip`` on; the points lie at an odd address as in a file."""
    functions, count = native(curve), len(scalars)
    size = curve.g1_bytes if group == "g1" else curve.g2_bytes
    windows = ceil_div(curve.r.bit_length(), window_bits)
    with HostBackend(files=("counters",)) as backend, Scope(backend) as scope:
        given = scope.uploaded(b"x" * 12 + octets)
        numbers, folded = scope.uploaded(plain(scalars)), scope.allocate(32 * count)
        lengths = scope.allocate(8 * FOLDED_LENGTHS)
        entries = scope.allocate(4 * windows * count)
        ends = scope.allocate(4 * windows << (window_bits - 1))
        out = scope.allocate(size)
        functions.call("fold", numbers.address, count, folded.address, lengths.address, threads)
        found = struct.unpack(f"<{FOLDED_LENGTHS}Q", backend.download(lengths, 0, 8 * FOLDED_LENGTHS))
        assert sum(found) == count
        functions.call("sort", folded.address, count, window_bits, windows, entries.address, ends.address, threads)
        functions.call(
            f"{group}_sum",
            given.address + 12,
            skip,
            len(octets) // size,
            count,
            window_bits,
            windows,
            entries.address,
            ends.address,
            out.address,
            threads,
        )
        return backend.download(out, 0, size)


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
def test_any_distribution_of_scalars(curve: Curve, group: str, name: str) -> None:
    """Points with infinity, equal and opposite neighbours among them; large buckets are split between tasks."""
    random, scalars = Random(name), distributions(curve)[name]
    logarithms = [random.randint(-3, 3) for _ in scalars]
    found = summed(curve, group, packed(curve, group, logarithms), scalars, 13 if name == "uniform" else 9)
    assert found == expected(curve, group, logarithms, scalars)


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
