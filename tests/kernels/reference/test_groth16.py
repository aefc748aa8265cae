"""The reference prover against the algebra: with known secrets every point of a proof has a known logarithm."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.curves import BN254
from kernels.reference.groth16 import ProvingKey, evaluate_terms, prove
from kernels.reference.group import group1, group2
from prover.formats.plain import plain_key
from prover.formats.zkey import ZKey
from tests.prover.toy import MIXED, MULTIPLY, MULTIPLY_WITNESS, Circuit, Secrets, lagrange, mixed_witness, setup

R = BN254.r
SECRETS = Secrets()

scalars = st.integers(0, R - 1)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[int, ProvingKey]:
    found = {}
    for circuit in (MIXED, MULTIPLY):
        path = tmp_path_factory.mktemp("groth16") / "k.zkey"
        path.write_bytes(setup(circuit).file())
        with ZKey.open(path) as key:
            found[id(circuit)] = plain_key(key)
    return found


def rows_of(circuit: Circuit, witness: list[int]) -> list[list[int]]:
    """Return A, B and C in every row of the domain, straight from the constraints."""
    rows = [*circuit.constraints, *(({wire: 1}, {}, {}) for wire in range(circuit.n_public + 1))]
    rows += [({}, {}, {})] * (circuit.domain_size - len(rows))
    return [[sum(f * witness[w] for w, f in row[matrix].items()) % R for row in rows] for matrix in range(3)]


def logarithms(circuit: Circuit, witness: list[int], r: int, s: int) -> tuple[int, int, int]:
    """Return the logarithms of a, b and c by the paper's formulas."""
    base = lagrange(BN254, circuit.domain_size.bit_length() - 1, SECRETS.tau)
    a_tau, b_tau, c_tau = (
        sum(value * weight for value, weight in zip(values, base, strict=True)) % R
        for values in rows_of(circuit, witness)
    )
    a = (SECRETS.alpha + a_tau + r * SECRETS.delta) % R
    b = (SECRETS.beta + b_tau + s * SECRETS.delta) % R
    # Of the whole statement, minus what the verifier adds for the public wires.
    public = [value if wire <= circuit.n_public else 0 for wire, value in enumerate(witness)]
    pa, pb, pc = (
        sum(value * weight for value, weight in zip(values, base, strict=True)) % R
        for values in rows_of(circuit, public)
    )
    private = SECRETS.beta * (a_tau - pa) + SECRETS.alpha * (b_tau - pb) + (c_tau - pc)
    per_delta = pow(SECRETS.delta, -1, R)
    quotient = a_tau * b_tau - c_tau
    c = (private + quotient) * per_delta + s * a + r * b - r * s * SECRETS.delta
    return a, b, c % R


@given(x=scalars, y=scalars, z=scalars, r=scalars, s=scalars)
@settings(max_examples=12, deadline=None)
def test_every_point_of_a_proof_has_the_logarithm_that_the_formulas_say(
    keys: dict[int, ProvingKey], x: int, y: int, z: int, r: int, s: int
) -> None:
    for circuit, witness in ((MIXED, mixed_witness(x, y, z)), (MULTIPLY, [*MULTIPLY_WITNESS])):
        a, b, c = logarithms(circuit, witness, r, s)
        first, second = group1(BN254), group2(BN254)
        assert prove(keys[id(circuit)], witness, r, s) == (
            first.multiply(BN254.g1, a),
            second.multiply(BN254.g2, b),
            first.multiply(BN254.g1, c),
        )


def test_repeated_terms_accumulate(keys: dict[int, ProvingKey]) -> None:
    assert len(keys[id(MIXED)].terms) > sum(len(a) + len(b) for a, b, _ in MIXED.constraints) + 3
    a, b, _ = rows_of(MIXED, mixed_witness())
    found = evaluate_terms(keys[id(MIXED)], mixed_witness())
    assert found[:2] == (a, b)
    assert found[2] == [x * y % R for x, y in zip(a, b, strict=True)]
