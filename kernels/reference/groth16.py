"""The Groth16 prover over plain integers: what every backend must compute, bit for bit.

Keys are those of snarkjs: constraints carry A and B only, C is their product, and the quotient is committed to in
the basis of the doubled domain's odd points, so that no division by the vanishing polynomial is needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kernels.curves import Curve, G1Point, G2Point
from kernels.reference.group import group1, group2
from kernels.reference.ntt import shift_to_odd_points


@dataclass(frozen=True, slots=True)
class Term:
    """One coefficient: ``matrix[constraint] += value * witness[signal]``; matrix 0 is A, 1 is B."""

    matrix: int
    constraint: int
    signal: int
    value: int


@dataclass(frozen=True, slots=True)
class ProvingKey:
    """A proving key as integers and tuples; lengths as in the key's file."""

    curve: Curve
    n_public: int
    domain_size: int
    alpha1: G1Point
    beta1: G1Point
    delta1: G1Point
    beta2: G2Point
    delta2: G2Point
    terms: Sequence[Term]
    points_a: Sequence[G1Point]
    points_b1: Sequence[G1Point]
    points_b2: Sequence[G2Point]
    points_c: Sequence[G1Point]
    points_h: Sequence[G1Point]


def evaluate_terms(key: ProvingKey, witness: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Return the values of A, B and C = A * B in every row of the domain."""
    r = key.curve.r
    rows = [0] * key.domain_size, [0] * key.domain_size
    for term in key.terms:
        values = rows[term.matrix]
        values[term.constraint] = (values[term.constraint] + term.value * witness[term.signal]) % r
    return *rows, [a * b % r for a, b in zip(*rows, strict=True)]


def quotient_scalars(key: ProvingKey, witness: Sequence[int]) -> list[int]:
    """Return the scalars of the H points: ``A B - C`` at the doubled domain's odd points."""
    a, b, c = (shift_to_odd_points(key.curve, values) for values in evaluate_terms(key, witness))
    return [(x * y - z) % key.curve.r for x, y, z in zip(a, b, c, strict=True)]


def prove(key: ProvingKey, witness: Sequence[int], r: int, s: int) -> tuple[G1Point, G2Point, G1Point]:
    """Return the proof's points (a, b, c) for given blinding.

    Args:
        key: the proving key.
        witness: all wires, the constant 1 first.
        r: blinding of a, in [0, order).
        s: blinding of b, in [0, order).
    """
    first, second = group1(key.curve), group2(key.curve)
    a = first.sum([*key.points_a, key.alpha1, key.delta1], [*witness, 1, r])
    b = second.sum([*key.points_b2, key.beta2, key.delta2], [*witness, 1, s])
    b1 = first.sum([*key.points_b1, key.beta1, key.delta1], [*witness, 1, s])
    c = first.sum(
        [*key.points_c, *key.points_h, a, b1, key.delta1],
        [*witness[key.n_public + 1 :], *quotient_scalars(key, witness), s, r, -r * s],
    )
    return a, b, c
