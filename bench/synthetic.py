"""Keys and witnesses of any size without a setup: points that lie on no curve take as long to add as points that do.

What is proved with them does not verify; what they show is how long each part takes and how much memory.
"""

import os
import struct
from dataclasses import dataclass

from kernels.curves import BN254, Curve
from prover.formats.strategy import SNARKJS

BLOCK = 1 << 12
"""Different points and scalars; they are repeated."""
_RECORD = struct.Struct("<III")


def random_elements(count: int, size: int) -> memoryview:
    """Field elements of ``size`` bytes, the highest byte zero, so that they are below any modulus."""
    block = bytearray(os.urandom(min(count, BLOCK) * size))
    block[size - 1 :: size] = bytes(len(block) // size)
    times = -(-count // BLOCK)
    return memoryview(bytes(block) * times)[: count * size]


@dataclass
class SyntheticKey:
    """A key of ``2^log2_domain`` rows and wires, no point at infinity, a term of A and one of B in each row."""

    log2_domain: int
    curve: Curve = BN254

    format = SNARKJS
    path = "synthetic"
    n_public = 1

    def __post_init__(self) -> None:
        curve, size = self.curve, 1 << self.log2_domain
        self.n_vars = self.domain_size = size
        first = random_elements(2 * size, curve.n8q)
        second = random_elements(4 * size, curve.n8q)
        self.points_a = self.points_b1 = self.points_h = first
        self.points_c = first[: (size - 2) * curve.g1_bytes]
        self.points_b2 = second
        self.ic = first[: 2 * curve.g1_bytes]
        self.alpha1 = self.beta1 = self.delta1 = bytes(first[: curve.g1_bytes])
        self.beta2 = self.gamma2 = self.delta2 = bytes(second[: curve.g2_bytes])
        values = random_elements(8, curve.n8r)
        packed = [bytes(values[i * curve.n8r : (i + 1) * curve.n8r]) for i in range(8)]
        pack = _RECORD.pack
        records = (
            pack(matrix, row, (row * 5 + matrix) % size) + packed[row % 8] for row in range(size) for matrix in (0, 1)
        )
        self.coefficients = memoryview(b"".join(records))
        self.n_coefficients = 2 * size


@dataclass
class SyntheticWitness:
    """A witness of full-width values."""

    n_witness: int
    curve: Curve = BN254

    def __post_init__(self) -> None:
        self.values = random_elements(self.n_witness, self.curve.n8r)
