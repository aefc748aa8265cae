from py_ecc import bls12_381 as py_ecc_bls12_381
from py_ecc import bn128 as py_ecc_bn128
from py_ecc.fields import bls12_381_FQ, bls12_381_FQ2, bn128_FQ, bn128_FQ2

from kernels.curves import BLS12_381, BN254
from kernels.reference.field import FQ12_ONE, Fq12
from kernels.reference.group import group1, group2
from kernels.reference.pairing import pairing, pairing_product_is_one, tower

R, Q = BN254.r, BN254.q
G1, G2, TOWER = group1(BN254), group2(BN254), tower(BN254)


def test_the_pairing_is_py_eccs() -> None:
    p, q = G1.multiply(BN254.g1, 0xABCDEF), G2.multiply(BN254.g2, 0x123456789)
    assert p is not None
    assert q is not None
    theirs = py_ecc_bn128.pairing(
        (bn128_FQ2(q[0]), bn128_FQ2(q[1])),
        (bn128_FQ(p[0]), bn128_FQ(p[1])),
    )
    coeffs = [int(value) for value in theirs.coeffs]
    pairs = [((coeffs[k] + 9 * coeffs[k + 6]) % Q, coeffs[k + 6]) for k in range(6)]
    expected: Fq12 = (pairs[0], pairs[2], pairs[4]), (pairs[1], pairs[3], pairs[5])
    assert pairing(BN254, p, q) == expected


def test_the_pairing_is_bilinear_and_not_degenerate() -> None:
    one = pairing(BN254, BN254.g1, BN254.g2)
    assert one != FQ12_ONE
    assert TOWER.power12(one, R) == FQ12_ONE
    a, b = R - 7, 1 << 200
    assert pairing(BN254, G1.multiply(BN254.g1, a), G2.multiply(BN254.g2, b)) == TOWER.power12(one, a * b % R)


def test_infinity_pairs_to_one() -> None:
    assert pairing(BN254, None, BN254.g2) == pairing(BN254, BN254.g1, None) == FQ12_ONE
    assert pairing_product_is_one(BN254, [])


def test_a_product_of_pairings_is_recognised() -> None:
    p, minus = BN254.g1, G1.neg(BN254.g1)
    assert pairing_product_is_one(
        BN254, [(G1.multiply(p, 6), BN254.g2), (minus, G2.multiply(BN254.g2, 4)), (G1.multiply(minus, 2), BN254.g2)]
    )
    assert not pairing_product_is_one(BN254, [(p, BN254.g2), (minus, G2.multiply(BN254.g2, 2))])


def test_the_pairing_of_bls12_381_is_py_eccs_inverse() -> None:
    """Theirs leaves out that x is negative, which inverts every value."""
    curve = BLS12_381
    p, q = group1(curve).multiply(curve.g1, 0xABCDEF), group2(curve).multiply(curve.g2, 0x123456789)
    assert p is not None
    assert q is not None
    theirs = py_ecc_bls12_381.pairing(
        (bls12_381_FQ2(q[0]), bls12_381_FQ2(q[1])), (bls12_381_FQ(p[0]), bls12_381_FQ(p[1]))
    )
    coeffs = [int(value) for value in theirs.coeffs]
    pairs = [((coeffs[k] + coeffs[k + 6]) % curve.q, coeffs[k + 6]) for k in range(6)]
    expected: Fq12 = (pairs[0], pairs[2], pairs[4]), (pairs[1], pairs[3], pairs[5])
    found = pairing(curve, p, q)
    assert tower(curve).mul12(found, expected) == FQ12_ONE
    one = pairing(curve, curve.g1, curve.g2)
    assert found == tower(curve).power12(one, 0xABCDEF * 0x123456789)
    assert tower(curve).power12(one, curve.r) == FQ12_ONE != one
