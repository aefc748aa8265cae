"""The tower against py_ecc, which represents Fq12 as polynomials modulo w^12 - 18 w^6 + 82."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py_ecc.fields import bn128_FQ2, bn128_FQ12

from kernels.curves import BN254
from kernels.reference.field import FQ2_ONE, FQ2_ZERO, FQ6_ZERO, FQ12_ONE, Fq12, PrimeField, QuadraticField, Tower

Q = BN254.q
TOWER = Tower(BN254)
FQ2 = TOWER.fq2

edges = st.sampled_from([0, 1, 2, Q - 1, Q - 2, (Q - 1) // 2, 1 << 253])
coordinates = edges | st.integers(0, Q - 1)
fq2s = st.tuples(coordinates, coordinates)
fq6s = st.tuples(fq2s, fq2s, fq2s)
fq12s = st.tuples(fq6s, fq6s)


def ours(element: bn128_FQ12) -> Fq12:
    """Return py_ecc's polynomial in w in our tower: u = w^6 - 9, v = w^2."""
    coeffs = [int(value) for value in element.coeffs]
    pairs = [((coeffs[k] + 9 * coeffs[k + 6]) % Q, coeffs[k + 6]) for k in range(6)]
    return (pairs[0], pairs[2], pairs[4]), (pairs[1], pairs[3], pairs[5])


def theirs(element: Fq12) -> bn128_FQ12:
    pairs = [element[k % 2][k // 2] for k in range(6)]
    return bn128_FQ12([(c0 - 9 * c1) % Q for c0, c1 in pairs] + [c1 for _, c1 in pairs])


@given(a=fq12s, b=fq12s)
@settings(max_examples=100, deadline=None)
def test_the_twelfth_extension_agrees_with_py_ecc(a: Fq12, b: Fq12) -> None:
    assert ours(theirs(a)) == a
    assert TOWER.mul12(a, b) == ours(theirs(a) * theirs(b))
    if a != (FQ6_ZERO, FQ6_ZERO):
        assert TOWER.mul12(a, TOWER.inv12(a)) == FQ12_ONE


@given(a=fq12s)
@settings(max_examples=5, deadline=None)
def test_frobenius_is_the_qth_power(a: Fq12) -> None:
    assert TOWER.frobenius12(a) == TOWER.power12(a, Q)
    twice = TOWER.frobenius12(TOWER.frobenius12(a))
    assert TOWER.frobenius12(TOWER.frobenius12(TOWER.frobenius12(TOWER.frobenius12(twice)))) == TOWER.conjugate12(a)


@given(a=fq2s, b=fq2s)
@settings(max_examples=300, deadline=None)
def test_the_quadratic_extension_agrees_with_py_ecc(a: tuple[int, int], b: tuple[int, int]) -> None:
    def pair(element: bn128_FQ2) -> tuple[int, int]:
        return int(element.coeffs[0]), int(element.coeffs[1])

    x, y = bn128_FQ2(a), bn128_FQ2(b)
    assert FQ2.add(a, b) == pair(x + y)
    assert FQ2.sub(a, b) == pair(x - y)
    assert FQ2.mul(a, b) == pair(x * y)
    assert FQ2.neg(a) == pair(-x)
    if b != FQ2_ZERO:
        assert FQ2.mul(a, FQ2.inv(b)) == pair(x / y)


def test_zero_has_no_inverse() -> None:
    with pytest.raises(ZeroDivisionError):
        PrimeField(Q).inv(0)
    with pytest.raises(ZeroDivisionError):
        QuadraticField(Q).inv(FQ2_ZERO)
    with pytest.raises(ZeroDivisionError):
        TOWER.inv12((FQ6_ZERO, FQ6_ZERO))
    assert FQ2.power(FQ2_ONE, 0) == FQ2_ONE
