"""Constraint systems written by hand, for shapes that circom's optimiser would not leave alone."""

import struct
from collections.abc import Sequence

from kernels.curves import BN254
from tests.prover.toy import container

Terms = Sequence[tuple[int, int]]
"""Wire and coefficient; a wire may stand several times."""


def r1cs(n_wires: int, n_public: int, constraints: Sequence[tuple[Terms, Terms, Terms]]) -> bytes:
    """Return an `.r1cs` file: wire 0 is the constant, then public inputs, then private ones."""
    width = BN254.n8r
    header = struct.pack("<I", width) + BN254.r.to_bytes(width, "little")
    header += struct.pack("<IIIIQI", n_wires, 0, n_public, n_wires - n_public - 1, n_wires, len(constraints))
    body = b"".join(
        struct.pack("<I", len(terms))
        + b"".join(struct.pack("<I", wire) + (factor % BN254.r).to_bytes(width, "little") for wire, factor in terms)
        for constraint in constraints
        for terms in constraint
    )
    labels = b"".join(struct.pack("<Q", wire) for wire in range(n_wires))
    return container(b"r1cs", 1, [(1, header), (2, body), (3, labels)])
