import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.curves import BN254
from kernels.reference.groth16 import prove
from kernels.reference.group import group1, group2
from prover.formats.plain import plain_key
from prover.formats.snarkjson import Proof, VerifyingKey, vkey_from_zkey
from prover.formats.zkey import ZKey
from prover.verify import verify, why_rejected
from tests.prover.toy import MIXED, MULTIPLY, MULTIPLY_WITNESS, mixed_witness, setup

R, Q = BN254.r, BN254.q
WITNESS = mixed_witness()
PUBLIC = WITNESS[1:3]
FIRST, SECOND = group1(BN254), group2(BN254)
OUTSIDE = (
    (2, 0),
    (
        10993830646704400342460079956282858283368423716262815588736825818221725267450,
        19651196284784701048630008112400756208183277717409031481820775712594563219220,
    ),
)
"""A point of the twist outside of the subgroup of order r."""


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> ZKey:
    path = tmp_path_factory.mktemp("verify") / "k.zkey"
    path.write_bytes(setup(MIXED).file())
    return ZKey.open(path)


@pytest.fixture(scope="module")
def vkey(key: ZKey) -> VerifyingKey:
    return vkey_from_zkey(key)


@pytest.fixture(scope="module")
def proof(key: ZKey) -> Proof:
    return Proof(*prove(plain_key(key), WITNESS, 123, R - 456))


def test_a_proof_verifies_in_less_than_a_second(vkey: VerifyingKey, proof: Proof) -> None:
    begin = time.process_time()
    assert verify(vkey, PUBLIC, proof)
    assert time.process_time() - begin < 1


@pytest.mark.parametrize("blinding", [(0, 0), (1, R - 1), (R - 1, R - 1), (0, 5)])
def test_any_blinding_yields_a_proof(key: ZKey, vkey: VerifyingKey, blinding: tuple[int, int]) -> None:
    assert why_rejected(vkey, PUBLIC, Proof(*prove(plain_key(key), WITNESS, *blinding))) is None


def test_a_key_without_public_signals(tmp_path: Path) -> None:
    (tmp_path / "k.zkey").write_bytes(setup(MULTIPLY).file())
    with ZKey.open(tmp_path / "k.zkey") as key:
        proof = Proof(*prove(plain_key(key), MULTIPLY_WITNESS, 1, 2))
        assert verify(vkey_from_zkey(key), [], proof)
        assert not verify(vkey_from_zkey(key), [], proof._replace(c=proof.a))


@pytest.mark.parametrize("wire", range(1, 7))
def test_a_witness_that_violates_a_constraint_yields_no_proof(key: ZKey, vkey: VerifyingKey, wire: int) -> None:
    witness = [*WITNESS]
    witness[wire] = (witness[wire] + 1) % R
    assert not MIXED.holds(witness)
    assert not verify(vkey, witness[1:3], Proof(*prove(plain_key(key), witness, 3, 4)))


@given(st.lists(st.integers(-1, R) | st.just(PUBLIC[0]), min_size=2, max_size=2))
@settings(max_examples=10, deadline=None)
def test_other_public_signals_are_rejected(vkey: VerifyingKey, proof: Proof, public: list[int]) -> None:
    assert verify(vkey, public, proof) == (public == PUBLIC)


def test_public_signals_are_one_number_each_and_not_a_residue(vkey: VerifyingKey, proof: Proof) -> None:
    assert why_rejected(vkey, [PUBLIC[0], PUBLIC[1] + R], proof) == (
        "public signal 2 is not below the scalar field's modulus"
    )
    assert why_rejected(vkey, [PUBLIC[0] - R, PUBLIC[1]], proof) is not None
    assert why_rejected(vkey, PUBLIC[:1], proof) == ("there are 1 public signals, and the verification key is for 2")


def test_each_point_is_checked_before_the_pairing(vkey: VerifyingKey, proof: Proof) -> None:
    assert proof.a is not None
    assert proof.b is not None
    assert proof.c is not None
    (x, y), (bx, by) = proof.a, proof.b
    for wrong, reason in (
        (proof._replace(a=(x, y + Q)), "a coordinate of pi_a is not below"),
        (proof._replace(a=(x - Q, y)), "a coordinate of pi_a is not below"),
        (proof._replace(a=(x, y + 1)), "pi_a does not lie on the curve"),
        (proof._replace(c=(y, x)), "pi_c does not lie on the curve"),
        (proof._replace(b=((bx[0], bx[1] + Q), by)), "a coordinate of pi_b is not below"),
        (proof._replace(b=(by, bx)), "pi_b does not lie in the twist's subgroup"),
        (proof._replace(b=OUTSIDE), "pi_b does not lie in the twist's subgroup"),
    ):
        assert (why_rejected(vkey, PUBLIC, wrong) or "").startswith(reason)


def test_proofs_that_lie_in_their_groups_and_prove_nothing_are_rejected(vkey: VerifyingKey, proof: Proof) -> None:
    for wrong in (
        proof._replace(a=None),
        proof._replace(b=None),
        proof._replace(c=None),
        Proof(None, None, None),
        proof._replace(a=FIRST.neg(proof.a)),
        proof._replace(c=FIRST.add(proof.c, BN254.g1)),
        proof._replace(b=SECOND.add(proof.b, BN254.g2)),
        Proof(vkey.alpha1, vkey.beta2, None),
    ):
        assert why_rejected(vkey, PUBLIC, wrong) == "the pairing equation does not hold"


def test_the_known_rerandomisation_of_a_proof_still_verifies(vkey: VerifyingKey, proof: Proof) -> None:
    """Groth16 proofs are malleable: (kA, B/k, C) is a proof of the same statement. So a proof is no unique name."""
    k = 12345
    other = proof._replace(a=FIRST.multiply(proof.a, k), b=SECOND.multiply(proof.b, pow(k, -1, R)))
    assert verify(vkey, PUBLIC, other)


def test_many_public_signals_are_summed_quickly() -> None:
    points = [FIRST.multiply(BN254.g1, i + 1) for i in range(300)]
    scalars = [pow(7, i, R) for i in range(300)]
    expected = FIRST.multiply(BN254.g1, sum((i + 1) * scalar for i, scalar in enumerate(scalars)))
    assert FIRST.sum(points, scalars) == expected
