"""Curve parameters as data: the one place of the project where a modulus is written.

``kernels/generate.py`` derives the limb constants of ``kernels/field/params/*.cuh`` from these values; the
parsers, the reference implementation and the verifier read them directly. A curve is a pairing-friendly
curve ``y^2 = x^3 + b`` over the base field ``Fq`` with a subgroup of prime order ``r``, and its sextic twist
over ``Fq2 = Fq[u]/(u^2 + 1)``.
"""

from typing import Final, Literal, NamedTuple

Fq2 = tuple[int, int]
"""An element ``c0 + c1*u`` of the quadratic extension, canonical coordinates below ``q``."""
G1Point = tuple[int, int] | None
"""An affine point of the first group; None is infinity."""
G2Point = tuple[Fq2, Fq2] | None
"""An affine point of the second group; None is infinity."""


class Curve(NamedTuple):
    """One pairing-friendly curve.

    Attributes:
        name: the name snarkjs writes into its JSON files, for example ``bn128``.
        ident: the name used in C++ identifiers and file names, for example ``bn254``.
        q: modulus of the base field.
        r: order of the groups, modulus of the scalar field.
        n8q: bytes of a base field element, a multiple of 8.
        n8r: bytes of a scalar field element, a multiple of 8.
        b1: the coefficient ``b`` of the curve over Fq.
        b2: the coefficient ``b`` of the twist over Fq2.
        g1: generator of the first group, affine.
        g2: generator of the second group, affine.
        g1_cofactor: order of the curve over Fq divided by ``r``.
        g2_cofactor: order of the twist over Fq2 divided by ``r``.
        fq2_xi: the non-residue over which the sextic extension ``Fq2[v]/(v^3 - xi)`` of the pairing is built.
        fr_two_adicity: the largest ``s`` with ``2^s`` dividing ``r - 1``.
        fr_non_residue: the smallest quadratic non-residue of Fr not below 2, from which snarkjs derives its
            roots of unity.
        family: ``bn`` (Barreto-Naehrig) or ``bls12`` (Barreto-Lynn-Scott of embedding degree 12): the pairing's form.
        parameter: the ``x`` of the family's polynomials, which may be negative; the ate loop of a BN curve runs over
            ``6x + 2``, that of a BLS12 curve over ``x``.
        title: the name in sentences, for example ``BN254``.
    """

    name: str
    ident: str
    q: int
    r: int
    n8q: int
    n8r: int
    b1: int
    b2: Fq2
    g1: tuple[int, int]
    g2: tuple[Fq2, Fq2]
    g1_cofactor: int
    g2_cofactor: int
    fq2_xi: Fq2
    fr_two_adicity: int
    fr_non_residue: int
    family: Literal["bn", "bls12"]
    parameter: int
    title: str

    @property
    def g1_bytes(self) -> int:
        """Bytes of an affine point of the first group as proving keys store it."""
        return 2 * self.n8q

    @property
    def g2_bytes(self) -> int:
        """Bytes of an affine point of the second group as proving keys store it."""
        return 4 * self.n8q

    @property
    def fr_root(self) -> int:
        """The primitive root of unity of order ``2^fr_two_adicity`` that snarkjs uses."""
        return pow(self.fr_non_residue, (self.r - 1) >> self.fr_two_adicity, self.r)

    def fr_root_of_order(self, log2_order: int) -> int:
        """Return snarkjs's primitive root of unity of order ``2^log2_order`` in Fr.

        Args:
            log2_order: 0 to ``fr_two_adicity``.

        Raises:
            ValueError: the field has no such root.
        """
        if not 0 <= log2_order <= self.fr_two_adicity:
            raise ValueError(
                f"{self.name} has roots of unity of order 2^0 to 2^{self.fr_two_adicity}, not 2^{log2_order}"
            )
        return pow(self.fr_root, 1 << (self.fr_two_adicity - log2_order), self.r)


_BN254_X: Final = 4965661367192848881

BN254: Final = Curve(
    name="bn128",
    ident="bn254",
    # 36x^4 + 36x^3 + 24x^2 + 6x + 1
    q=21888242871839275222246405745257275088696311157297823662689037894645226208583,
    # 36x^4 + 36x^3 + 18x^2 + 6x + 1
    r=21888242871839275222246405745257275088548364400416034343698204186575808495617,
    n8q=32,
    n8r=32,
    b1=3,
    # 3 / xi
    b2=(
        19485874751759354771024239261021720505790618469301721065564631296452457478373,
        266929791119991161246907387137283842545076965332900288569378510910307636690,
    ),
    g1=(1, 2),
    g2=(
        (
            10857046999023057135944570762232829481370756359578518086990519993285655852781,
            11559732032986387107991004021392285783925812861821192530917403151452391805634,
        ),
        (
            8495653923123431417604973247489272438418190587263600148770280649306958101930,
            4082367875863433681332203403145435568316851327593401208105741076214120093531,
        ),
    ),
    g1_cofactor=1,
    # 2q - r
    g2_cofactor=21888242871839275222246405745257275088844257914179612981679871602714643921549,
    fq2_xi=(9, 1),
    fr_two_adicity=28,
    fr_non_residue=5,
    family="bn",
    parameter=_BN254_X,
    title="BN254",
)

_BLS12_381_X: Final = -0xD201000000010000

BLS12_381: Final = Curve(
    name="bls12381",
    ident="bls12381",
    # (x - 1)^2 r / 3 + x
    q=int("1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaab", 16),
    # x^4 - x^2 + 1
    r=0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001,
    n8q=48,
    n8r=32,
    b1=4,
    # 4 xi
    b2=(4, 4),
    g1=(
        int("17f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bb", 16),
        int("08b3f481e3aaa0f1a09e30ed741d8ae4fcf5e095d5d00af600db18cb2c04b3edd03cc744a2888ae40caa232946c5e7e1", 16),
    ),
    g2=(
        (
            int("024aa2b2f08f0a91260805272dc51051c6e47ad4fa403b02b4510b647ae3d1770bac0326a805bbefd48056c8c121bdb8", 16),
            int("13e02b6052719f607dacd3a088274f65596bd0d09920b61ab5da61bbdc7f5049334cf11213945d57e5ac7d055d042b7e", 16),
        ),
        (
            int("0ce5d527727d6e118cc9cdc6da2e351aadfd9baa8cbdd3a76d429a695160d12c923ac9cc3baca289e193548608b82801", 16),
            int("0606c4a02ea734cc32acd2b02bc28b99cb3e287e85a763af267492ab572e99ab3f370d275cec1da1aaa9075ff05f79be", 16),
        ),
    ),
    # the square of x - 1, over 3
    g1_cofactor=0x396C8C005555E1568C00AAAB0000AAAB,
    # (x^8 - 4x^7 + 5x^6 - 4x^4 + 6x^3 - 4x^2 - 4x + 13) / 9
    g2_cofactor=int(
        "5d543a95414e7f1091d50792876a202cd91de4547085abaa68a205b2e5a7ddfa628f1cb4d9e82ef21537e293a6691ae1"
        "616ec6e786f0c70cf1c38e31c7238e5",
        16,
    ),
    fq2_xi=(1, 1),
    fr_two_adicity=32,
    fr_non_residue=5,
    family="bls12",
    parameter=_BLS12_381_X,
    title="BLS12-381",
)

CURVES: Final[tuple[Curve, ...]] = (BN254, BLS12_381)
"""Every curve that the prover supports."""

KNOWN_MODULI: Final[dict[int, str]] = {modulus: curve.title for curve in CURVES for modulus in (curve.q, curve.r)}
"""Base and scalar field moduli and the name of their curve, for messages."""


def curve_of_base_modulus(q: int) -> Curve | None:
    """Return the supported curve whose base field modulus is ``q``, or None."""
    return next((curve for curve in CURVES if curve.q == q), None)


def curve_of_scalar_modulus(r: int) -> Curve | None:
    """Return the supported curve whose scalar field modulus is ``r``, or None."""
    return next((curve for curve in CURVES if curve.r == r), None)
