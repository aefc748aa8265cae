"""Operands of the laws, and their bytes: edge values first, then random ones from a fixed seed."""

from collections.abc import Sequence
from itertools import product
from random import Random

from kernels.curves import BN254, Curve
from prover.backends.base import Traits


def size_of(modulus: int) -> int:
    """Bytes of a field element; the Montgomery radix is 2 to the power of their bits."""
    return -(-modulus.bit_length() // 64) * 8


GPU = Traits(kind="gpu", parallel=132, shared_bytes_max=48 * 1024, memory_bytes=1 << 34)
"""Plans for this give blocks of many threads, tiles and slices, which the host then runs phase by phase."""

OPERANDS = 10_000
"""How many operands a law is tried on, at least."""


def edges(modulus: int) -> list[int]:
    """Field elements whose limbs, or whose Montgomery form's limbs, are at an edge."""
    raw = {0, 1, 2, 3, (modulus - 1) // 2, (modulus + 1) // 2}
    size, bits = size_of(modulus), modulus.bit_length()
    for bit in (31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 160, 191, 192, 193, 224, bits - 2, bits - 1):
        raw |= {(1 << bit) - 1, 1 << bit, (1 << bit) + 1}
    for limb in range(size // 4):
        raw |= {0xFFFF_FFFF << 32 * limb, ~(0xFFFF_FFFF << 32 * limb) % (1 << (bits - 1))}
    for limb in range(size // 8):
        raw.add(modulus & ~((1 << 64 * limb) - 1))
    raw |= {modulus - value for value in tuple(raw)}
    reduced = {value % modulus for value in raw}
    # In kernels an element x is x * R: these are the elements whose limbs there are the numbers above.
    return sorted(reduced | {value * pow(1 << 8 * size, -1, modulus) % modulus for value in reduced})


def pairs(modulus: int, count: int = OPERANDS) -> list[tuple[int, int]]:
    """Every pair of edge values, or as many of them as ``count`` has room for, and as many random pairs again."""
    random = Random(f"pairs {modulus}")
    values = edges(modulus)
    every = list(product(values, values))
    chosen = every if len(every) <= count else random.sample(every, count)
    return chosen + [(random.randrange(modulus), random.randrange(modulus)) for _ in range(count)]


def plain(values: Sequence[int], size: int = 32) -> bytes:
    """Numbers as kernels read scalars."""
    return b"".join(value.to_bytes(size, "little") for value in values)


def montgomery(values: Sequence[int], modulus: int) -> bytes:
    """Field elements as kernels keep them."""
    size = size_of(modulus)
    return plain([(value << 8 * size) % modulus for value in values], size)


def numbers(octets: bytes, size: int = 32) -> list[int]:
    """The numbers in some bytes."""
    return [int.from_bytes(octets[i : i + size], "little") for i in range(0, len(octets), size)]


def from_montgomery(octets: bytes, modulus: int) -> list[int]:
    """Field elements out of kernels' bytes."""
    size = size_of(modulus)
    inverse = pow(1 << 8 * size, -1, modulus)
    return [value * inverse % modulus for value in numbers(octets, size)]


def g1_bytes(points: Sequence[tuple[int, int] | None], curve: Curve = BN254) -> bytes:
    """Affine points of the first group as kernels keep them."""
    return montgomery([value for point in points for value in (point or (0, 0))], curve.q)


def g2_bytes(points: Sequence[tuple[tuple[int, int], tuple[int, int]] | None], curve: Curve = BN254) -> bytes:
    """Affine points of the second group as kernels keep them."""
    zero = ((0, 0), (0, 0))
    return montgomery([value for point in points for part in (point or zero) for value in part], curve.q)
