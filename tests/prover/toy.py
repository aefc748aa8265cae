"""A trusted setup in miniature, for tests only: keys of small circuits whose secrets are known.

Made from the definition of Groth16 and of the file, not from the prover's code, so that agreement means something.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kernels.curves import BN254, Curve
from kernels.reference.group import group1, group2
from prover.formats.points import g1_to_bytes, g2_to_bytes

Combination = Mapping[int, int]
"""Wire to coefficient."""

ASCENDING = tuple(range(1, 11))
AS_FRESH_SETUP = (1, 2, 4, 3, 9, 8, 5, 6, 7, 10)
"""The order of sections that snarkjs's `groth16 setup` writes."""


@dataclass(frozen=True)
class Circuit:
    """Constraints ``A * B = C`` over wires: 0 is the constant 1, then ``n_public`` public ones."""

    n_vars: int
    n_public: int
    constraints: Sequence[tuple[Combination, Combination, Combination]]
    repeated: bool = False
    """Write each coefficient of A as two records that add up to it."""

    @property
    def domain_size(self) -> int:
        """The smallest power of two that holds the constraints and the rows of constant and public wires."""
        return 1 << (len(self.constraints) + self.n_public).bit_length()

    def holds(self, witness: Sequence[int], modulus: int = BN254.r) -> bool:
        """Whether a witness satisfies every constraint."""

        def value(combination: Combination) -> int:
            return sum(factor * witness[wire] for wire, factor in combination.items())

        return all((value(a) * value(b) - value(c)) % modulus == 0 for a, b, c in self.constraints)


@dataclass(frozen=True)
class Secrets:
    """The toxic waste."""

    tau: int = 0x1F3A_5B7C_9D1E_2F30_4152_6374_8596
    alpha: int = 0x2B4D_6F81_A3C5_E709_1B2D
    beta: int = 0x3C5E_7092_B4D6_F81A
    delta: int = 0x4D6F_8193_A5B7
    gamma: int = 1


@dataclass
class Sections:
    """The payload of each section by id, and how the file presents them."""

    payloads: dict[int, bytes]
    order: Sequence[int] = ASCENDING
    magic: bytes = b"zkey"
    version: int = 1
    extra: list[tuple[int, bytes]] = field(default_factory=list)

    def file(self) -> bytes:
        """Return the whole file."""
        entries = [(ident, self.payloads[ident]) for ident in self.order if ident in self.payloads] + self.extra
        return container(self.magic, self.version, entries)


def container(magic: bytes, version: int, entries: Iterable[tuple[int, bytes]]) -> bytes:
    """Return a sectioned file."""
    listed = list(entries)
    body = b"".join(struct.pack("<IQ", ident, len(payload)) + payload for ident, payload in listed)
    return struct.pack("<4sII", magic, version, len(listed)) + body


def wtns(values: Sequence[int], prime: int = BN254.r, count: int | None = None) -> Sections:
    """Return a witness file's sections."""
    header = struct.pack("<I", 32) + prime.to_bytes(32, "little")
    header += struct.pack("<I", len(values) if count is None else count)
    body = b"".join(value.to_bytes(32, "little") for value in values)
    return Sections({1: header, 2: body}, order=(1, 2), magic=b"wtns", version=2)


def lagrange(curve: Curve, log2_size: int, tau: int) -> list[int]:
    """Return the Lagrange polynomials of a domain at tau: ``(tau^N - 1) / N * w^i / (tau - w^i)``."""
    size, r = 1 << log2_size, curve.r
    root = curve.fr_root_of_order(log2_size)
    scale = (pow(tau, size, r) - 1) * pow(size, -1, r) % r
    return [
        scale * pow(root, i, r) * pow(tau - pow(root, i, r), -1, r) % r  # tau is outside of the domain
        for i in range(size)
    ]


def setup(circuit: Circuit, secrets: Secrets | None = None, curve: Curve = BN254) -> Sections:
    """Return the proving key of a circuit."""
    toxic = Secrets() if secrets is None else secrets
    r, n_public, domain = curve.r, circuit.n_public, circuit.domain_size
    log2_domain = domain.bit_length() - 1
    base = lagrange(curve, log2_domain, toxic.tau)
    rows = [*circuit.constraints]
    rows += [({wire: 1}, {}, {}) for wire in range(n_public + 1)]
    at_tau = [[0] * circuit.n_vars for _ in range(3)]
    records: list[bytes] = []
    for row, combinations in enumerate(rows):
        for matrix, combination in enumerate(combinations):
            for wire, factor in combination.items():
                at_tau[matrix][wire] = (at_tau[matrix][wire] + factor * base[row]) % r
                parts = (factor - 7, 7) if circuit.repeated and matrix == 0 else (factor,)
                if matrix < 2:
                    records += [record(curve, matrix, row, wire, part) for part in parts]
    first, second = group1(curve), group2(curve)

    def g1(scalars: Iterable[int]) -> bytes:
        return b"".join(g1_to_bytes(curve, first.multiply(curve.g1, scalar)) for scalar in scalars)

    def g2(scalars: Iterable[int]) -> bytes:
        return b"".join(g2_to_bytes(curve, second.multiply(curve.g2, scalar)) for scalar in scalars)

    wires = [(toxic.beta * a + toxic.alpha * b + c) % r for a, b, c in zip(*at_tau, strict=True)]
    per_gamma, per_delta = pow(toxic.gamma, -1, r), pow(toxic.delta, -1, r)
    doubled = lagrange(curve, log2_domain + 1, toxic.tau)
    header = b"".join(
        (
            struct.pack("<I", curve.n8q) + curve.q.to_bytes(curve.n8q, "little"),
            struct.pack("<I", curve.n8r) + r.to_bytes(curve.n8r, "little"),
            struct.pack("<III", circuit.n_vars, n_public, domain),
            g1([toxic.alpha, toxic.beta]) + g2([toxic.beta, toxic.gamma]) + g1([toxic.delta]) + g2([toxic.delta]),
        )
    )
    return Sections(
        {
            1: struct.pack("<I", 1),
            2: header,
            3: g1(value * per_gamma for value in wires[: n_public + 1]),
            4: struct.pack("<I", len(records)) + b"".join(records),
            5: g1(at_tau[0]),
            6: g1(at_tau[1]),
            7: g2(at_tau[1]),
            8: g1(value * per_delta for value in wires[n_public + 1 :]),
            9: g1(value * per_delta for value in doubled[1::2]),
            10: bytes(64) + struct.pack("<I", 0),
        }
    )


def record(curve: Curve, matrix: int, row: int, wire: int, factor: int) -> bytes:
    """Return one coefficient record; the value is stored times R^2."""
    stored = factor * pow(1 << 8 * curve.n8r, 2, curve.r) % curve.r
    return struct.pack("<III", matrix, row, wire) + stored.to_bytes(curve.n8r, "little")


MULTIPLY = Circuit(n_vars=4, n_public=0, constraints=[({1: 1}, {2: 1}, {3: 1})])
"""wire1 * wire2 = wire3, nothing public: the domain has two rows."""
MULTIPLY_WITNESS = (1, 3, 11, 33)

MIXED = Circuit(
    n_vars=7,
    n_public=2,
    constraints=[
        ({3: 1, 4: 5}, {3: 1, 0: -2}, {5: 1}),
        ({5: 1}, {5: 1}, {1: 1}),
        ({1: 1, 2: 3}, {0: 1}, {6: 1}),
    ],
    repeated=True,
)
"""Two public wires, a linear constraint, terms with repeated records; domain of eight rows."""


def mixed_witness(x: int = BN254.r - 5, y: int = 1 << 200, z: int = 9, curve: Curve = BN254) -> list[int]:
    """Return a witness of `MIXED` for private wires 3 and 4 and public wire 2."""
    r = curve.r
    wire5 = (x + 5 * y) * (x - 2) % r
    wire1 = wire5 * wire5 % r
    return [1, wire1, z, x, y, wire5, (wire1 + 3 * z) % r]
