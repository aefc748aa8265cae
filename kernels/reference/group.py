"""The two groups of a curve: affine points as tuples, infinity as None, sums in Jacobian coordinates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kernels.curves import Curve, Fq2
from kernels.reference.field import PrimeField, QuadraticField

E = TypeVar("E", int, Fq2)


class Field(Protocol[E]):
    """What the group law needs of the field that coordinates lie in."""

    @property
    def zero(self) -> E:
        """The neutral element of addition."""

    @property
    def one(self) -> E:
        """The neutral element of multiplication."""

    def add(self, a: E, b: E, /) -> E:
        """Return a + b."""

    def sub(self, a: E, b: E, /) -> E:
        """Return a - b."""

    def neg(self, a: E, /) -> E:
        """Return -a."""

    def mul(self, a: E, b: E, /) -> E:
        """Return a * b."""

    def inv(self, a: E, /) -> E:
        """Return 1 / a."""


@dataclass(frozen=True)
class Group(Generic[E]):
    """Points of ``y^2 = x^3 + b`` over a field.

    A point is ``(x, y)``, or None for infinity. A Jacobian triple ``(X, Y, Z)`` stands for
    ``(X / Z^2, Y / Z^3)``; infinity has Z = 0.

    Attributes:
        field: where coordinates lie.
        b: the curve's coefficient.
        generator: a point of order ``order``.
        order: the prime order of the subgroup that proofs live in.
        cofactor: the order of the curve divided by that.
    """

    field: Field[E]
    b: E
    generator: tuple[E, E]
    order: int
    cofactor: int

    def contains(self, point: tuple[E, E] | None) -> bool:
        """Whether a point lies on the curve; infinity does."""
        if point is None:
            return True
        field = self.field
        x, y = point
        return field.mul(y, y) == field.add(field.mul(field.mul(x, x), x), self.b)

    def in_subgroup(self, point: tuple[E, E] | None) -> bool:
        """Whether a point of the curve lies in the subgroup of prime order."""
        return self.cofactor == 1 or self._affine(self._times(point, self.order)) is None

    def neg(self, point: tuple[E, E] | None) -> tuple[E, E] | None:
        """Return the inverse of a point."""
        return None if point is None else (point[0], self.field.neg(point[1]))

    def add(self, a: tuple[E, E] | None, b: tuple[E, E] | None) -> tuple[E, E] | None:
        """Return a + b."""
        return self._affine(self._add_affine(self._jacobian(a), b))

    def multiply(self, point: tuple[E, E] | None, scalar: int) -> tuple[E, E] | None:
        """Return the scalar-fold sum of a point; any integer is allowed."""
        return self._affine(self._times(point, scalar % self.order))

    def sum_naive(self, points: Sequence[tuple[E, E] | None], scalars: Sequence[int]) -> tuple[E, E] | None:
        """Return the sum of scalar-fold points, one multiplication after the other: the specification.

        Raises:
            ValueError: the two sequences have different lengths.
        """
        total = self._infinity()
        for point, scalar in zip(points, scalars, strict=True):
            total = self._add(total, self._times(point, scalar % self.order))
        return self._affine(total)

    def sum(self, points: Sequence[tuple[E, E] | None], scalars: Sequence[int]) -> tuple[E, E] | None:
        """Return the same sum by buckets.

        Scalars are cut into windows of c bits; within a window, points of the same digit are added first and
        the buckets are then weighted by running sums, from the highest digit down.

        Raises:
            ValueError: the two sequences have different lengths.
        """
        reduced = [scalar % self.order for scalar in scalars]
        pairs = [
            (point, scalar) for point, scalar in zip(points, reduced, strict=True) if point is not None and scalar != 0
        ]
        bits = max((scalar.bit_length() for _, scalar in pairs), default=0)
        window_bits = max(1, min(16, len(pairs).bit_length() - 2))
        total = self._infinity()
        for low in reversed(range(0, bits, window_bits)):
            for _ in range(window_bits):
                total = self._double(total)
            buckets: dict[int, tuple[E, E, E]] = {}
            for point, scalar in pairs:
                digit = scalar >> low & ((1 << window_bits) - 1)
                if digit:
                    buckets[digit] = self._add_affine(buckets.get(digit, self._infinity()), point)
            running, weighted = self._infinity(), self._infinity()
            for digit in reversed(range(1, max(buckets, default=0) + 1)):
                if digit in buckets:
                    running = self._add(running, buckets[digit])
                weighted = self._add(weighted, running)
            total = self._add(total, weighted)
        return self._affine(total)

    def _infinity(self) -> tuple[E, E, E]:
        return self.field.one, self.field.one, self.field.zero

    def _jacobian(self, point: tuple[E, E] | None) -> tuple[E, E, E]:
        return self._infinity() if point is None else (point[0], point[1], self.field.one)

    def _affine(self, point: tuple[E, E, E]) -> tuple[E, E] | None:
        field = self.field
        x, y, z = point
        if z == field.zero:
            return None
        inverse = field.inv(z)
        square = field.mul(inverse, inverse)
        return field.mul(x, square), field.mul(field.mul(y, square), inverse)

    def _double(self, point: tuple[E, E, E]) -> tuple[E, E, E]:
        """Return 2P; on these curves no point has y = 0, as their order is odd."""
        field = self.field
        add, sub, mul = field.add, field.sub, field.mul
        x, y, z = point
        y_squared = mul(y, y)
        middle = mul(x, y_squared)
        middle = add(middle, middle)
        middle = add(middle, middle)
        x_squared = mul(x, x)
        slope = add(add(x_squared, x_squared), x_squared)
        x_out = sub(mul(slope, slope), add(middle, middle))
        eighth = mul(y_squared, y_squared)
        for _ in range(3):
            eighth = add(eighth, eighth)
        y_out = sub(mul(slope, sub(middle, x_out)), eighth)
        z_out = mul(y, z)
        return x_out, y_out, add(z_out, z_out)

    def _add(self, a: tuple[E, E, E], b: tuple[E, E, E]) -> tuple[E, E, E]:
        """Return a + b for any two Jacobian triples."""
        field = self.field
        sub, mul = field.sub, field.mul
        if a[2] == field.zero:
            return b
        if b[2] == field.zero:
            return a
        za2, zb2 = mul(a[2], a[2]), mul(b[2], b[2])
        xa, xb = mul(a[0], zb2), mul(b[0], za2)
        ya, yb = mul(mul(a[1], zb2), b[2]), mul(mul(b[1], za2), a[2])
        dx, dy = sub(xb, xa), sub(yb, ya)
        if dx == field.zero:
            return self._double(a) if dy == field.zero else self._infinity()
        dx2 = mul(dx, dx)
        dx3 = mul(dx2, dx)
        shared = mul(xa, dx2)
        x_out = sub(sub(mul(dy, dy), dx3), field.add(shared, shared))
        y_out = sub(mul(dy, sub(shared, x_out)), mul(ya, dx3))
        return x_out, y_out, mul(mul(a[2], b[2]), dx)

    def _add_affine(self, a: tuple[E, E, E], b: tuple[E, E] | None) -> tuple[E, E, E]:
        return self._add(a, self._jacobian(b))

    def _times(self, point: tuple[E, E] | None, scalar: int) -> tuple[E, E, E]:
        """Return the scalar-fold sum, scalar >= 0, bit by bit from the top."""
        start, total = self._jacobian(point), self._infinity()
        for bit in f"{scalar:b}":
            total = self._double(total)
            if bit == "1":
                total = self._add(total, start)
        return total


def group1(curve: Curve) -> Group[int]:
    """Return the first group: points over Fq."""
    return Group(PrimeField(curve.q), curve.b1, curve.g1, curve.r, curve.g1_cofactor)


def group2(curve: Curve) -> Group[Fq2]:
    """Return the second group: points of the twist over Fq2."""
    return Group(QuadraticField(curve.q), curve.b2, curve.g2, curve.r, curve.g2_cofactor)
