"""The tower of fields over which the pairing is computed.

``Fq2 = Fq[u]/(u^2 + 1)``, ``Fq6 = Fq2[v]/(v^3 - xi)``, ``Fq12 = Fq6[w]/(w^2 - v)``. Elements are nested tuples of
canonical integers, lowest coefficient first, so that equality of values is equality of tuples.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from kernels.curves import Curve, Fq2

Fq6 = tuple[Fq2, Fq2, Fq2]
Fq12 = tuple[Fq6, Fq6]

FQ2_ZERO: Final[Fq2] = (0, 0)
FQ2_ONE: Final[Fq2] = (1, 0)
FQ6_ZERO: Final[Fq6] = (FQ2_ZERO, FQ2_ZERO, FQ2_ZERO)
FQ6_ONE: Final[Fq6] = (FQ2_ONE, FQ2_ZERO, FQ2_ZERO)
FQ12_ONE: Final[Fq12] = (FQ6_ONE, FQ6_ZERO)


@dataclass(frozen=True)
class PrimeField:
    """Integers modulo a prime; elements are in ``[0, modulus)``.

    Attributes:
        modulus: the prime.
    """

    modulus: int
    zero: int = 0
    one: int = 1

    def add(self, a: int, b: int) -> int:
        """Return a + b."""
        return (a + b) % self.modulus

    def sub(self, a: int, b: int) -> int:
        """Return a - b."""
        return (a - b) % self.modulus

    def neg(self, a: int) -> int:
        """Return -a."""
        return -a % self.modulus

    def mul(self, a: int, b: int) -> int:
        """Return a * b."""
        return a * b % self.modulus

    def inv(self, a: int) -> int:
        """Return 1 / a.

        Raises:
            ZeroDivisionError: a is zero.
        """
        if a % self.modulus == 0:
            raise ZeroDivisionError("zero has no inverse")
        return pow(a, -1, self.modulus)


@dataclass(frozen=True)
class QuadraticField:
    """``Fq2 = Fq[u]/(u^2 + 1)``.

    Attributes:
        modulus: the prime q; -1 must not be a square modulo it.
    """

    modulus: int
    zero: Fq2 = FQ2_ZERO
    one: Fq2 = FQ2_ONE

    def add(self, a: Fq2, b: Fq2) -> Fq2:
        """Return a + b."""
        return (a[0] + b[0]) % self.modulus, (a[1] + b[1]) % self.modulus

    def sub(self, a: Fq2, b: Fq2) -> Fq2:
        """Return a - b."""
        return (a[0] - b[0]) % self.modulus, (a[1] - b[1]) % self.modulus

    def neg(self, a: Fq2) -> Fq2:
        """Return -a."""
        return -a[0] % self.modulus, -a[1] % self.modulus

    def mul(self, a: Fq2, b: Fq2) -> Fq2:
        """Return a * b, by Karatsuba's three products."""
        low, high = a[0] * b[0], a[1] * b[1]
        return (low - high) % self.modulus, ((a[0] + a[1]) * (b[0] + b[1]) - low - high) % self.modulus

    def inv(self, a: Fq2) -> Fq2:
        """Return 1 / a: the conjugate over the norm.

        Raises:
            ZeroDivisionError: a is zero.
        """
        norm = (a[0] * a[0] + a[1] * a[1]) % self.modulus
        if norm == 0:
            raise ZeroDivisionError("zero has no inverse")
        inverse = pow(norm, -1, self.modulus)
        return a[0] * inverse % self.modulus, -a[1] * inverse % self.modulus

    def scale(self, a: Fq2, factor: int) -> Fq2:
        """Return a times an element of Fq."""
        return a[0] * factor % self.modulus, a[1] * factor % self.modulus

    def conjugate(self, a: Fq2) -> Fq2:
        """Return a^q."""
        return a[0], -a[1] % self.modulus

    def power(self, a: Fq2, exponent: int) -> Fq2:
        """Return a^exponent, exponent >= 0."""
        result = self.one
        for bit in f"{exponent:b}":
            result = self.mul(result, result)
            if bit == "1":
                result = self.mul(result, a)
        return result


@dataclass(frozen=True)
class Tower:
    """Arithmetic of Fq6 and Fq12 over one curve's Fq2."""

    curve: Curve
    fq2: QuadraticField = field(init=False)

    def __post_init__(self) -> None:
        """Make the field below."""
        object.__setattr__(self, "fq2", QuadraticField(self.curve.q))

    def times_xi(self, a: Fq2) -> Fq2:
        """Return a * xi = a * v^3."""
        return self.fq2.mul(a, self.curve.fq2_xi)

    def add6(self, a: Fq6, b: Fq6) -> Fq6:
        """Return a + b."""
        add = self.fq2.add
        return add(a[0], b[0]), add(a[1], b[1]), add(a[2], b[2])

    def sub6(self, a: Fq6, b: Fq6) -> Fq6:
        """Return a - b."""
        sub = self.fq2.sub
        return sub(a[0], b[0]), sub(a[1], b[1]), sub(a[2], b[2])

    def neg6(self, a: Fq6) -> Fq6:
        """Return -a."""
        neg = self.fq2.neg
        return neg(a[0]), neg(a[1]), neg(a[2])

    def mul6(self, a: Fq6, b: Fq6) -> Fq6:
        """Return a * b: the schoolbook product of two quadratics in v, by six products instead of nine."""
        add, sub, mul = self.fq2.add, self.fq2.sub, self.fq2.mul
        p0, p1, p2 = mul(a[0], b[0]), mul(a[1], b[1]), mul(a[2], b[2])
        cross01 = sub(sub(mul(add(a[0], a[1]), add(b[0], b[1])), p0), p1)
        cross02 = sub(sub(mul(add(a[0], a[2]), add(b[0], b[2])), p0), p2)
        cross12 = sub(sub(mul(add(a[1], a[2]), add(b[1], b[2])), p1), p2)
        return add(p0, self.times_xi(cross12)), add(cross01, self.times_xi(p2)), add(cross02, p1)

    def times_v(self, a: Fq6) -> Fq6:
        """Return a * v."""
        return self.times_xi(a[2]), a[0], a[1]

    def inv6(self, a: Fq6) -> Fq6:
        """Return 1 / a, by the adjugate over the norm to Fq2.

        Raises:
            ZeroDivisionError: a is zero.
        """
        add, sub, mul = self.fq2.add, self.fq2.sub, self.fq2.mul
        t0 = sub(mul(a[0], a[0]), self.times_xi(mul(a[1], a[2])))
        t1 = sub(self.times_xi(mul(a[2], a[2])), mul(a[0], a[1]))
        t2 = sub(mul(a[1], a[1]), mul(a[0], a[2]))
        norm = add(mul(a[0], t0), self.times_xi(add(mul(a[2], t1), mul(a[1], t2))))
        inverse = self.fq2.inv(norm)
        return mul(t0, inverse), mul(t1, inverse), mul(t2, inverse)

    def mul12(self, a: Fq12, b: Fq12) -> Fq12:
        """Return a * b."""
        low, high = self.mul6(a[0], b[0]), self.mul6(a[1], b[1])
        cross = self.mul6(self.add6(a[0], a[1]), self.add6(b[0], b[1]))
        return self.add6(low, self.times_v(high)), self.sub6(self.sub6(cross, low), high)

    def conjugate12(self, a: Fq12) -> Fq12:
        """Return a^(q^6), which is 1 / a where a lies in the cyclotomic subgroup."""
        return a[0], self.neg6(a[1])

    def inv12(self, a: Fq12) -> Fq12:
        """Return 1 / a.

        Raises:
            ZeroDivisionError: a is zero.
        """
        norm = self.sub6(self.mul6(a[0], a[0]), self.times_v(self.mul6(a[1], a[1])))
        inverse = self.inv6(norm)
        return self.mul6(a[0], inverse), self.neg6(self.mul6(a[1], inverse))

    def power12(self, a: Fq12, exponent: int) -> Fq12:
        """Return a^exponent, exponent >= 0."""
        result = FQ12_ONE
        for bit in f"{exponent:b}":
            result = self.mul12(result, result)
            if bit == "1":
                result = self.mul12(result, a)
        return result

    @cached_property
    def frobenius_w(self) -> tuple[Fq2, ...]:
        """``xi^(k (q - 1) / 6)`` for k in 0..5: the factor by which ``w^k`` grows under the q-th power."""
        base = self.fq2.power(self.curve.fq2_xi, (self.curve.q - 1) // 6)
        powers = [FQ2_ONE]
        for _ in range(5):
            powers.append(self.fq2.mul(powers[-1], base))
        return tuple(powers)

    def frobenius12(self, a: Fq12) -> Fq12:
        """Return a^q: conjugate each coefficient of w^k and multiply it by ``frobenius_w[k]``."""
        factor = self.frobenius_w
        conjugate, mul = self.fq2.conjugate, self.fq2.mul
        even = tuple(mul(conjugate(a[0][i]), factor[2 * i]) for i in range(3))
        odd = tuple(mul(conjugate(a[1][i]), factor[2 * i + 1]) for i in range(3))
        return (even[0], even[1], even[2]), (odd[0], odd[1], odd[2])
