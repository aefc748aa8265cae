"""What a proving key's maker decided, and no curve prescribes: the strategy of the key's format.

snarkjs and bellman make keys of the same curve for the same algebra, and four things differ: which roots of unity
number the rows, which coset the quotient is evaluated on, in which basis H commits to it, and how points are packed. A
format is a parser, whose result is a ``ProvingKey``, and one of these strategies.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final, Literal, Protocol

from kernels.curves import Curve

Section = Literal["a", "b1", "b2"]
"""Sections of points with one point for each wire, or for some of them."""


class HBasis(Enum):
    """What the points of H are multiples of, and so what their scalars are."""

    ODD_POINTS = "odd points"
    """The Lagrange basis of the doubled domain's odd points: the scalars are the values of ``A B - C`` on the coset.
    The points contain the division by the vanishing polynomial; there are as many as rows."""
    MONOMIALS = "monomials"
    """Powers of tau times the vanishing polynomial at tau: the scalars are the quotient's coefficients, which takes a
    division and one more transform. There is one point less than rows."""


class KeyFormat(Protocol):
    """The strategy of a format."""

    @property
    def h_basis(self) -> HBasis:
        """The basis of H."""
        ...

    def root(self, curve: Curve, log2_domain: int) -> int:
        """Return the primitive root of unity of order ``2^log2_domain`` over which rows are numbered."""
        ...

    def coset(self, curve: Curve, log2_domain: int) -> int:
        """Return the generator of the coset on which the quotient is evaluated."""
        ...

    def wires(self, key: "ProvingKey", section: Section) -> Sequence[int] | None:
        """Return the wire of each point of a section; None where there is a point for every wire in their order."""
        ...


class ProvingKey(Protocol):
    """A parsed key of any format, everything in it checked against its range. Points are affine Montgomery bytes.

    Attributes:
        path: the file as it was named.
        curve: the curve.
        n_vars: wires, the constant 1 included.
        n_public: public signals, the constant not included.
        domain_size: rows of the evaluation domain, a power of two.
        log2_domain: its logarithm.
        alpha1: a point of the first group, as are ``beta1`` and ``delta1``.
        beta2: a point of the second group, as are ``gamma2`` and ``delta2``.
        ic: ``n_public + 1`` points.
        n_coefficients: number of records in ``coefficients``.
        coefficients: records ``matrix u32 | constraint u32 | signal u32 | value times R^2``, as in a `.zkey`.
        points_a: points by the wires that the format says, as are ``points_b1`` and ``points_b2`` (second group).
        points_c: points of the private wires.
        points_h: points of ``h_basis``.
    """

    path: str
    curve: Curve
    n_vars: int
    n_public: int
    domain_size: int
    log2_domain: int
    alpha1: bytes
    beta1: bytes
    delta1: bytes
    beta2: bytes
    gamma2: bytes
    delta2: bytes
    ic: memoryview
    n_coefficients: int
    coefficients: memoryview
    points_a: memoryview
    points_b1: memoryview
    points_b2: memoryview
    points_c: memoryview
    points_h: memoryview

    @property
    def format(self) -> KeyFormat:
        """The strategy of its format."""
        ...


class SnarkjsFormat:
    """Keys of snarkjs: H over the odd points of the doubled domain, a point for every wire."""

    h_basis: Final = HBasis.ODD_POINTS

    def root(self, curve: Curve, log2_domain: int) -> int:
        """Return the power of the smallest non-residue's root."""
        return curve.fr_root_of_order(log2_domain)

    def coset(self, curve: Curve, log2_domain: int) -> int:
        """Return the root of twice the order; where the field has none, the square of the non-residue."""
        if log2_domain < curve.fr_two_adicity:
            return curve.fr_root_of_order(log2_domain + 1)
        return curve.fr_non_residue**2 % curve.r

    def wires(self, _key: ProvingKey, _section: Section) -> None:
        """Nothing is packed."""
        return


SNARKJS: Final = SnarkjsFormat()
