"""Circuits by what is special about them, each with a witness, for either curve."""

from kernels.curves import Curve
from tests.prover.r1cs_writer import chain
from tests.prover.toy import MIXED, MULTIPLY, Circuit, mixed_witness

Shape = tuple[Circuit, list[int]]


def shapes(curve: Curve, *, log2_chain: int = 7) -> dict[str, Shape]:
    """Return every shape that other provers have stumbled over; the two last ones fill a domain of a given size."""
    r = curve.r
    many = Circuit(n_vars=3, n_public=0, constraints=[({1: 1}, {1: 1}, {2: 1})] * 9)
    unused = Circuit(n_vars=40, n_public=1, constraints=[({2: 1}, {2: 1}, {1: 1})])
    public = Circuit(n_vars=3, n_public=2, constraints=[({1: 1}, {1: 1}, {2: 1})])
    zeros = Circuit(n_vars=4, n_public=1, constraints=[({1: 1, 3: 0}, {2: 1, 1: 0}, {3: 1, 0: 0})])
    no_b = Circuit(n_vars=3, n_public=1, constraints=[({1: 1, 0: -4}, {}, {})])
    return {
        "no public signals, two rows": (MULTIPLY, [1, 3, 11, 33]),
        "all public": (public, [1, r - 3, 9]),
        "two constraints": (Circuit(5, 1, [({1: 1}, {2: 1}, {3: 1}), ({3: 1}, {3: 1}, {4: 1})]), [1, 2, 3, 6, 36]),
        "rows far above wires": (many, [1, 5, 25]),
        "wires far above rows": (unused, [1, 49, 7, *range(37)]),
        "repeated wires": (MIXED, mixed_witness(curve=curve)),
        "zero coefficients": (zeros, [1, 5, 7, 35]),
        "no B": (no_b, [1, 4, 123]),
        "a witness of zeros": (MULTIPLY, [1, 0, 0, 0]),
        "a witness of minus ones": (MULTIPLY, [1, r - 1, r - 1, 1]),
        "dense": chain(log2_chain, curve, bits=False),
        "bits": chain(log2_chain, curve, bits=True),
    }
