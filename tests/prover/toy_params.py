"""A second format of proving keys, in miniature: all that bellman's `.params` does in another way than snarkjs.

Big-endian plain coordinates, the second one of an extension field first; no magic; points at infinity of A and B left
out, so that only the constraints tell whose points are there; roots of unity and coset from the generator 7; H in
monomials. Constraints are not in such a file, so the parser takes them beside it.
"""

import struct
from array import array
from collections.abc import Sequence
from typing import Any

from kernels.curves import BLS12_381, Curve
from kernels.reference.group import group1, group2
from prover.formats.points import g1_to_bytes, g2_to_bytes
from prover.formats.strategy import HBasis, ProvingKey, Section
from tests.prover.toy import Circuit, Secrets, record

CURVE = BLS12_381
GENERATOR = 7
Q_BYTES = CURVE.n8q


class ToyParamsFormat:
    """The strategy."""

    h_basis = HBasis.MONOMIALS

    def root(self, curve: Curve, log2_domain: int) -> int:
        return pow(GENERATOR, (curve.r - 1) >> log2_domain, curve.r)

    def coset(self, _curve: Curve, _log2_domain: int) -> int:
        return GENERATOR

    def wires(self, key: ProvingKey, section: Section) -> Sequence[int]:
        """Inputs always have a point in A; any other wire has one where it stands in a constraint."""
        matrix = 0 if section == "a" else 1
        used = set(range(key.n_public + 1)) if matrix == 0 else set()
        for place, _, signal, value in struct.iter_unpack(f"<III{key.curve.n8r}s", key.coefficients):
            if place == matrix and any(value):
                used.add(signal)
        return array("I", sorted(used))


class ToyParams:
    """A parsed key; an instance of ``prover.formats.strategy.ProvingKey``."""

    def __init__(self, data: bytes, circuit: Circuit, *, strategy: Any = None) -> None:
        self.path = "toy.params"
        self.curve = CURVE
        self.format = ToyParamsFormat() if strategy is None else strategy
        self.n_vars, self.n_public = circuit.n_vars, circuit.n_public
        self.domain_size = circuit.domain_size
        self.log2_domain = self.domain_size.bit_length() - 1
        rows = [*circuit.constraints, *(({wire: 1}, {}, {}) for wire in range(circuit.n_public + 1))]
        records = [
            record(CURVE, matrix, row, wire, factor)
            for row, parts in enumerate(rows)
            for matrix in (0, 1)
            for wire, factor in parts[matrix].items()
        ]
        self.n_coefficients, self.coefficients = len(records), memoryview(b"".join(records))
        self._data, self._position = data, 0
        self.alpha1, self.beta1 = (self._points(1, 1) for _ in range(2))
        self.beta2, self.gamma2 = (self._points(1, 2) for _ in range(2))
        self.delta1, self.delta2 = self._points(1, 1), self._points(1, 2)
        self.ic, self.points_h, self.points_c, self.points_a, self.points_b1, self.points_b2 = (
            memoryview(self._points(self._count(), degree)) for degree in (1, 1, 1, 1, 1, 2)
        )
        assert self._position == len(data)

    def _count(self) -> int:
        (count,) = struct.unpack_from(">I", self._data, self._position)
        self._position += 4
        return int(count)

    def _points(self, count: int, degree: int) -> bytes:
        """Return points as kernels have them."""
        return b"".join(self._point(degree) for _ in range(count))

    def _point(self, degree: int) -> bytes:
        numbers = []
        for _ in range(2 * degree):
            numbers.append(int.from_bytes(self._data[self._position : self._position + Q_BYTES], "big"))
            self._position += Q_BYTES
        if degree == 1:
            return g1_to_bytes(CURVE, (numbers[0], numbers[1]))
        x1, x0, y1, y0 = numbers
        return g2_to_bytes(CURVE, ((x0, x1), (y0, y1)))


def toy_params(circuit: Circuit, secrets: Secrets) -> bytes:
    """Return the file of a circuit, made from the definition and not from the prover's code."""
    r, size, tau = CURVE.r, circuit.domain_size, secrets.tau
    root = pow(GENERATOR, (r - 1) // size, r)
    vanishing = (pow(tau, size, r) - 1) % r
    base = [
        vanishing * pow(root, i, r) * pow(size * (tau - pow(root, i, r)), -1, r) % r  # Lagrange at tau
        for i in range(size)
    ]
    at_tau = [[0] * circuit.n_vars for _ in range(3)]
    rows = [*circuit.constraints, *(({wire: 1}, {}, {}) for wire in range(circuit.n_public + 1))]
    for row, parts in enumerate(rows):
        for matrix, part in enumerate(parts):
            for wire, factor in part.items():
                at_tau[matrix][wire] = (at_tau[matrix][wire] + factor * base[row]) % r
    wires = [(secrets.beta * a + secrets.alpha * b + c) % r for a, b, c in zip(*at_tau, strict=True)]
    per_gamma, per_delta = pow(secrets.gamma, -1, r), pow(secrets.delta, -1, r)
    inputs = circuit.n_public + 1
    h = [pow(tau, i, r) * vanishing * per_delta for i in range(size - 1)]
    used_b = [wire for wire in range(circuit.n_vars) if at_tau[1][wire]]
    used_a = [wire for wire in range(circuit.n_vars) if wire < inputs or at_tau[0][wire]]
    fixed = _g1([secrets.alpha, secrets.beta]) + _g2([secrets.beta, secrets.gamma])
    fixed += _g1([secrets.delta]) + _g2([secrets.delta])
    lists = (
        [value * per_gamma for value in wires[:inputs]],
        h,
        [value * per_delta for value in wires[inputs:]],
        [at_tau[0][wire] for wire in used_a],
        [at_tau[1][wire] for wire in used_b],
    )
    body = b"".join(struct.pack(">I", len(scalars)) + _g1(scalars) for scalars in lists)
    return fixed + body + struct.pack(">I", len(used_b)) + _g2([at_tau[1][wire] for wire in used_b])


def _g1(scalars: Sequence[int]) -> bytes:
    points = [group1(CURVE).multiply(CURVE.g1, scalar) for scalar in scalars]
    assert None not in points
    return b"".join(value.to_bytes(Q_BYTES, "big") for point in points if point for value in point)


def _g2(scalars: Sequence[int]) -> bytes:
    points = [group2(CURVE).multiply(CURVE.g2, scalar) for scalar in scalars]
    assert None not in points
    return b"".join(
        value.to_bytes(Q_BYTES, "big")
        for point in points
        if point
        for c0, c1 in point
        for value in (c1, c0)  # the second one first
    )
