"""Constraint systems as files, written from the format's definition, of any size and for either curve."""

import struct
from collections.abc import Sequence
from random import Random

from kernels.curves import Curve
from tests.prover.toy import Circuit, Combination, Sections, container

Terms = Sequence[tuple[int, int]]
"""Wire and coefficient; a wire may stand several times."""


def r1cs_file(circuit: Circuit, curve: Curve) -> bytes:
    """Return a circuit's file; sections stand in the order that circom writes them in."""
    rows = [tuple(tuple(part.items()) for part in constraint) for constraint in circuit.constraints]
    return r1cs_of_rows(curve, circuit.n_vars, circuit.n_public, rows)


def r1cs_of_rows(curve: Curve, n_wires: int, n_public: int, rows: Sequence[Sequence[Terms]]) -> bytes:
    """Return a file with constraints of three lists of terms each, for shapes that a mapping cannot have."""
    body = b"".join(_combination(part, curve) for row in rows for part in row)
    return r1cs_of(curve, n_wires, n_public, len(rows), body)


def r1cs_of(curve: Curve, n_wires: int, n_public: int, n_constraints: int, body: bytes) -> bytes:
    """Return a file with the given constraints' bytes."""
    header = struct.pack("<I", curve.n8r) + curve.r.to_bytes(curve.n8r, "little")
    header += struct.pack("<IIIIQI", n_wires, 0, n_public, 0, n_wires, n_constraints)
    return container(b"r1cs", 1, [(2, body), (1, header), (3, bytes(8 * n_wires))])


def wtns_file(values: Sequence[int], curve: Curve) -> bytes:
    """Return a witness's file."""
    header = struct.pack("<I", curve.n8r) + curve.r.to_bytes(curve.n8r, "little") + struct.pack("<I", len(values))
    body = b"".join(value.to_bytes(curve.n8r, "little") for value in values)
    return Sections({1: header, 2: body}, order=(1, 2), magic=b"wtns", version=2).file()


def chain(log2_domain: int, curve: Curve, *, bits: bool) -> tuple[Circuit, list[int]]:
    """Return a circuit that fills a domain, and a witness of it.

    Args:
        log2_domain: logarithm of the domain.
        curve: the curve.
        bits: all wires are 0 or 1, as in a hash's circuit; else they are dense.
    """
    random, r = Random(f"{log2_domain} {bits}"), curve.r
    values = [1, *(random.randrange(2 if bits else r) for _ in range(4))]
    constraints: list[tuple[Combination, Combination, Combination]] = []
    for _ in range((1 << log2_domain) - 2):
        i, j, k = (random.randrange(1, len(values)) for _ in range(3))
        out = len(values)
        if bits:
            constraints.append(({i: 1}, {j: 1}, {out: 1}))
            values.append(values[i] * values[j])
        else:
            factor = random.randrange(r)
            left = {i: factor}
            left[k] = left.get(k, 0) + 1
            constraints.append((left, {j: 1, 0: 3}, {out: 1}))
            values.append((factor * values[i] + values[k]) * (values[j] + 3) % r)
    return Circuit(n_vars=len(values), n_public=1, constraints=constraints), values


def _combination(terms: Terms, curve: Curve) -> bytes:
    """Return a linear combination's bytes."""
    return struct.pack("<I", len(terms)) + b"".join(
        struct.pack("<I", wire) + (factor % curve.r).to_bytes(curve.n8r, "little") for wire, factor in terms
    )
