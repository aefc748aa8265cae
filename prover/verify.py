"""Verification of Groth16 proofs.

2 ms or less where the native functions have been built, else 0.1 s. Proofs come from rented machines and strangers,
so every value is checked before it enters a formula.
"""

from collections.abc import Sequence

from prover.formats.snarkjson import Proof, VerifyingKey
from prover.pairing import lies_in_g1, lies_in_g2, lies_on_curve, product_is_one, statement


def verify(vkey: VerifyingKey, public: Sequence[int], proof: Proof) -> bool:
    """Whether a proof shows the statement that the public signals make; see ``why_rejected``."""
    return why_rejected(vkey, public, proof) is None


def why_rejected(vkey: VerifyingKey, public: Sequence[int], proof: Proof) -> str | None:
    """Return None where a proof verifies, else a clause that says why not.

    Args:
        vkey: the verification key; its points were checked when it was read.
        public: the public signals, any integers.
        proof: the proof, any integers as coordinates.
    """
    problem = _wrong_public(vkey, public) or _wrong_points(vkey, proof)
    if problem is not None:
        return problem
    # e(A, B) = e(alpha, beta) e(sum of public_i IC_i, gamma) e(C, delta)
    holds = product_is_one(
        vkey.curve,
        [
            (proof.a and (proof.a[0], -proof.a[1] % vkey.curve.q), proof.b),
            (vkey.alpha1, vkey.beta2),
            (statement(vkey.curve, vkey.ic, public), vkey.gamma2),
            (proof.c, vkey.delta2),
        ],
    )
    return None if holds else "the pairing equation does not hold"


def _wrong_public(vkey: VerifyingKey, public: Sequence[int]) -> str | None:
    """Say what is wrong with the public signals, or return None."""
    if len(public) != vkey.n_public:
        return f"there are {len(public)} public signals, and the verification key is for {vkey.n_public}"
    wrong = next((index for index, value in enumerate(public) if not 0 <= value < vkey.curve.r), None)
    return None if wrong is None else f"public signal {wrong + 1} is not below the scalar field's modulus"


def _wrong_points(vkey: VerifyingKey, proof: Proof) -> str | None:
    """Say which point of a proof is not what it must be, or return None."""
    curve = vkey.curve
    if proof.curve != curve:
        return f"the proof is of {proof.curve.name}, the verification key of {curve.name}"
    for name, point in (("pi_a", proof.a), ("pi_c", proof.c)):
        if point is not None and not all(0 <= value < curve.q for value in point):
            return f"a coordinate of {name} is not below the base field's modulus"
        if not lies_in_g1(curve, point):
            place = "in the subgroup of order r" if lies_on_curve(curve, point) else "on the curve"
            return f"{name} does not lie {place}"
    if not all(0 <= value < curve.q for part in proof.b or () for value in part):
        return "a coordinate of pi_b is not below the base field's modulus"
    if not lies_in_g2(curve, proof.b):
        return "pi_b does not lie in the twist's subgroup of order r"
    return None
