"""The optimal ate pairings of Barreto-Naehrig and of BLS12 curves.

Vercauteren, "Optimal pairings", IEEE Transactions on Information Theory 56 (2010):

1. Run Miller's loop over the bits of 6x + 2 (BN) or of x (BLS12): square f, multiply it by the tangent at T evaluated
   at P, double T; at a set bit multiply by the line through T and Q as well and add Q to T.
2. BN: multiply by the lines through T and pi(Q), and through T + pi(Q) and -pi^2(Q), pi being the q-th power map.
   BLS12: where x is negative, take the inverse, which step 3 cannot tell from the conjugate.
3. Raise to (q^12 - 1) / r.

Points of a twist by 1 / xi (BN254) are moved to the curve over Fq12 by (x, y) -> (x w^2, y w^3), so that the line
through T and Q of slope s, evaluated at P, is y_P - s x_P w + (s x_T - y_T) w^3. Those of a twist by xi (BLS12-381)
are moved by (x, y) -> (x / w^2, y / w^3); the line, times w^3, is y_P w^3 - s x_P w^2 + s x_T - y_T. Factors in
subfields of Fq12, and w^3 with them, vanish in step 3.
"""

from collections.abc import Sequence
from functools import cache

from kernels.curves import Curve, Fq2, G1Point, G2Point
from kernels.reference.field import FQ2_ZERO, FQ12_ONE, Fq12, Tower


@cache
def tower(curve: Curve) -> Tower:
    """Return the fields over a curve, made once."""
    return Tower(curve)


def pairing(curve: Curve, p: G1Point, q: G2Point) -> Fq12:
    """Return e(p, q).

    Args:
        curve: the curve.
        p: a point of the first group.
        q: a point of the second group's subgroup of order r.
    """
    return final_exponentiation(curve, miller_loop(curve, [(p, q)]))


def pairing_product_is_one(curve: Curve, pairs: Sequence[tuple[G1Point, G2Point]]) -> bool:
    """Whether the product of the pairings of all pairs is 1; one final exponentiation serves them all.

    Args:
        curve: the curve.
        pairs: points of the first group with points of the second group's subgroup of order r.
    """
    return final_exponentiation(curve, miller_loop(curve, pairs)) == FQ12_ONE


def miller_loop(curve: Curve, pairs: Sequence[tuple[G1Point, G2Point]]) -> Fq12:
    """Return the product of the pairs' Miller values, before the final exponentiation."""
    fields = tower(curve)
    finite = [(p, q) for p, q in pairs if p is not None and q is not None]
    moving = [q for _, q in finite]
    result = FQ12_ONE
    is_bn = curve.family == "bn"
    loop = 6 * curve.parameter + 2 if is_bn else abs(curve.parameter)
    for bit in f"{loop:b}"[1:]:
        result = fields.mul12(result, result)
        for index, (p, q) in enumerate(finite):
            line, moving[index] = _step(fields, moving[index], moving[index], p)
            result = fields.mul12(result, line)
            if bit == "1":
                line, moving[index] = _step(fields, moving[index], q, p)
                result = fields.mul12(result, line)
    if not is_bn:
        return fields.conjugate12(result) if curve.parameter < 0 else result
    for index, (p, q) in enumerate(finite):
        once = _frobenius(fields, q)
        twice = _frobenius(fields, once)
        line, moving[index] = _step(fields, moving[index], once, p)
        result = fields.mul12(result, line)
        line, moving[index] = _step(fields, moving[index], (twice[0], fields.fq2.neg(twice[1])), p)
        result = fields.mul12(result, line)
    return result


def final_exponentiation(curve: Curve, value: Fq12) -> Fq12:
    """Return value^((q^12 - 1) / r), by (q^6 - 1)(q^2 + 1) and then (q^4 - q^2 + 1) / r."""
    fields = tower(curve)
    value = fields.mul12(fields.conjugate12(value), fields.inv12(value))
    value = fields.mul12(fields.frobenius12(fields.frobenius12(value)), value)
    q = curve.q
    return fields.power12(value, (q**4 - q**2 + 1) // curve.r)


def _step(fields: Tower, t: tuple[Fq2, Fq2], q: tuple[Fq2, Fq2], p: tuple[int, int]) -> tuple[Fq12, tuple[Fq2, Fq2]]:
    """Return the line through t and q (the tangent where they are equal) at p, and t + q.

    With points of order r no line of the loop is vertical, so the slope always exists.
    """
    fq2 = fields.fq2
    if t == q:
        square = fq2.mul(t[0], t[0])
        slope = fq2.mul(fq2.scale(square, 3), fq2.inv(fq2.scale(t[1], 2)))
    else:
        slope = fq2.mul(fq2.sub(q[1], t[1]), fq2.inv(fq2.sub(q[0], t[0])))
    x = fq2.sub(fq2.sub(fq2.mul(slope, slope), t[0]), q[0])
    y = fq2.sub(fq2.mul(slope, fq2.sub(t[0], x)), t[1])
    at_p, across = (p[1], 0), fq2.scale(slope, -p[0])
    at_t = fq2.sub(fq2.mul(slope, t[0]), t[1])
    if fields.curve.family == "bn":
        return ((at_p, FQ2_ZERO, FQ2_ZERO), (across, at_t, FQ2_ZERO)), (x, y)
    return ((at_t, across, FQ2_ZERO), (FQ2_ZERO, at_p, FQ2_ZERO)), (x, y)


def _frobenius(fields: Tower, q: tuple[Fq2, Fq2]) -> tuple[Fq2, Fq2]:
    """Return the q-th power map of a point of the curve over Fq12, in coordinates of the twist."""
    fq2 = fields.fq2
    return (
        fq2.mul(fq2.conjugate(q[0]), fields.frobenius_w[2]),
        fq2.mul(fq2.conjugate(q[1]), fields.frobenius_w[3]),
    )
