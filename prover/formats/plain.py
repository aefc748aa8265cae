"""Keys and witnesses as integers, for the reference prover. Slow; for tests and for looking into files."""

import struct

from kernels.curves import Curve, G1Point, G2Point
from kernels.reference.groth16 import ProvingKey, Term
from prover.formats.points import g1_from_bytes, g2_from_bytes
from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey


def plain_key(zkey: ZKey) -> ProvingKey:
    """Return a proving key with every point and coefficient as canonical integers."""
    curve = zkey.curve
    return ProvingKey(
        curve=curve,
        n_public=zkey.n_public,
        domain_size=zkey.domain_size,
        alpha1=g1_from_bytes(curve, zkey.alpha1),
        beta1=g1_from_bytes(curve, zkey.beta1),
        delta1=g1_from_bytes(curve, zkey.delta1),
        beta2=g2_from_bytes(curve, zkey.beta2),
        delta2=g2_from_bytes(curve, zkey.delta2),
        terms=plain_terms(zkey),
        points_a=_g1_points(curve, zkey.points_a),
        points_b1=_g1_points(curve, zkey.points_b1),
        points_b2=_g2_points(curve, zkey.points_b2),
        points_c=_g1_points(curve, zkey.points_c),
        points_h=_g1_points(curve, zkey.points_h),
    )


def plain_terms(zkey: ZKey) -> list[Term]:
    """Return the coefficients; the file holds each value times R^2."""
    curve = zkey.curve
    unscale = pow(1 << 8 * curve.n8r, -2, curve.r)
    return [
        Term(matrix, constraint, signal, int.from_bytes(value, "little") * unscale % curve.r)
        for matrix, constraint, signal, value in struct.iter_unpack(f"<III{curve.n8r}s", zkey.coefficients)
    ]


def plain_witness(witness: Witness) -> list[int]:
    """Return the value of every wire."""
    return [witness.value(wire) for wire in range(witness.n_witness)]


def _g1_points(curve: Curve, view: memoryview) -> list[G1Point]:
    size = curve.g1_bytes
    return [g1_from_bytes(curve, view[start : start + size]) for start in range(0, len(view), size)]


def _g2_points(curve: Curve, view: memoryview) -> list[G2Point]:
    size = curve.g2_bytes
    return [g2_from_bytes(curve, view[start : start + size]) for start in range(0, len(view), size)]
