"""Proving keys for tests: a trusted setup by one party, who could keep the secrets and forge proofs.

The file is marked as such in its contributions. Everything is streamed: the key is never in memory, whose use is some
200 bytes a constraint.
"""

import os
import secrets
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final

from kernels.curves import Curve
from prover.backends.base import Backend, Buffer, Scope
from prover.errors import DeviceError, Mismatch, printable
from prover.formats.points import g1_to_bytes, g2_to_bytes
from prover.formats.r1cs import R1cs
from prover.formats.zkey import COEFFICIENTS_MAX, UNSAFE_NAME
from prover.native import address_of, montgomery_bytes, native

CHUNK_POINTS: Final = 1 << 15
"""Points computed and written at once."""
CHUNK_RECORDS: Final = 1 << 16
"""Records of coefficients written at once, or those of one constraint where it has more."""
ELEMENT_BYTES: Final = 32
_MALFORMED: Final = (1 << 64) - 1

Progress = Callable[[str, int, int], None]
"""Called with what is being computed, how much of it is done, of how much."""


@dataclass(frozen=True, slots=True, repr=False)
class ToxicWaste:
    """The secrets of a setup, each below r and none of them zero.

    Attributes:
        tau: the point at which the polynomials are evaluated.
        alpha: ties A and B together, as does ``beta``.
        beta: see ``alpha``.
        gamma: divides the public signals.
        delta: divides the private wires and the quotient.
    """

    tau: int
    alpha: int
    beta: int
    gamma: int
    delta: int

    @classmethod
    def random(cls, curve: Curve) -> "ToxicWaste":
        """Return secrets from the system's random source."""
        return cls(*(1 + secrets.randbelow(curve.r - 1) for _ in range(5)))


def log2_domain_of(r1cs: R1cs) -> int:
    """Return the logarithm of the domain that a key of a circuit has: constraints, constant and public signals fit."""
    return (r1cs.n_constraints + r1cs.n_public).bit_length()


def setup_unsafe(
    r1cs: R1cs,
    path: Path,
    backend: Backend,
    *,
    waste: ToxicWaste | None = None,
    progress: Progress = lambda _what, _done, _total: None,
) -> None:
    """Write a proving key of a circuit, whole or not at all.

    Args:
        r1cs: the constraints.
        path: where the key goes; what stands there is replaced.
        backend: whose memory and CPU threads are used.
        waste: the secrets, for tests; random ones if None.
        progress: told of what is done.

    Raises:
        MalformedFile: a constraint is malformed.
        Mismatch: the circuit is too large for the curve.
        DeviceError: there is not enough memory, or the native functions cannot be built.
        OSError: the file cannot be written.
    """
    log2 = log2_domain_of(r1cs)
    if not 1 <= log2 < r1cs.curve.fr_two_adicity:
        raise Mismatch(
            f"{printable(r1cs.path)}: {r1cs.n_constraints} constraints and {r1cs.n_public} public signals are "
            f"{'too few' if log2 < 1 else 'too many'}; a key has 2^1 to 2^{r1cs.curve.fr_two_adicity - 1} rows"
        )
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file, Scope(backend) as scope:
            _Setup(r1cs, waste or ToxicWaste.random(r1cs.curve), backend, scope, progress).write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class _Setup:
    """One setup; all its memory belongs to a scope, and is secret."""

    def __init__(self, r1cs: R1cs, waste: ToxicWaste, backend: Backend, scope: Scope, progress: Progress) -> None:
        self._r1cs = r1cs
        self._curve = r1cs.curve
        self._waste = waste
        self._backend = backend
        self._scope = scope
        self._progress = progress
        self._log2 = log2_domain_of(r1cs)
        self._threads = backend.traits().parallel
        self._functions = native(self._curve)
        self._at_tau = [scope.allocate(r1cs.n_wires * ELEMENT_BYTES, secret=True) for _ in range(3)]

    def write(self, file: BinaryIO) -> None:
        """Write the sections in the order in which snarkjs's setup does."""
        file.write(struct.pack("<4sII", b"zkey", 1, 10))
        with _section(file, 1):
            file.write(struct.pack("<I", 1))
        with _section(file, 2):
            file.write(self._header())
        with _section(file, 4):
            self._write_coefficients(file)
        waste, r, public = self._waste, self._curve.r, self._r1cs.n_public + 1
        private = self._r1cs.n_wires - public
        with _section(file, 3):
            self._write_wires(file, "IC", 0, public, pow(waste.gamma, -1, r))
        with _section(file, 9):
            self._write_h(file)
        with _section(file, 8):
            self._write_wires(file, "C", public, private, pow(waste.delta, -1, r))
        for ident, group, matrix in ((5, "g1", 0), (6, "g1", 1), (7, "g2", 1)):
            name = {5: "A", 6: "B1", 7: "B2"}[ident]
            with _section(file, ident):
                self._write_points(file, name, group, self._at_tau[matrix].address, self._r1cs.n_wires)
        with _section(file, 10):
            file.write(self._contributions())

    def _scalar(self, value: int) -> bytes:
        """Return a scalar as the native functions take it."""
        return montgomery_bytes(self._curve, value)

    def _point(self, group: str, scalar: int) -> bytes:
        """Return a multiple of a generator as keys have it."""
        out = self._scope.allocate(self._curve.g2_bytes)
        size = self._write_multiples(group, self._scope.uploaded(self._scalar(scalar), secret=True).address, 1, out)
        return self._backend.download(out, 0, size)

    def _write_multiples(self, group: str, scalars: int, count: int, out: Buffer) -> int:
        """Compute multiples of a generator; return the bytes of one."""
        curve = self._curve
        base = g1_to_bytes(curve, curve.g1) if group == "g1" else g2_to_bytes(curve, curve.g2)
        self._functions.call(f"{group}_multiples", base, scalars, count, out.address, self._threads)
        return len(base)

    def _header(self) -> bytes:
        """Return section 2."""
        curve, waste = self._curve, self._waste
        counts = (self._r1cs.n_wires, self._r1cs.n_public, 1 << self._log2)
        return b"".join(
            (
                struct.pack("<I", curve.n8q) + curve.q.to_bytes(curve.n8q, "little"),
                struct.pack("<I", curve.n8r) + curve.r.to_bytes(curve.n8r, "little"),
                struct.pack("<III", *counts),
                self._point("g1", waste.alpha),
                self._point("g1", waste.beta),
                self._point("g2", waste.beta),
                self._point("g2", waste.gamma),
                self._point("g1", waste.delta),
                self._point("g2", waste.delta),
            )
        )

    def _write_coefficients(self, file: BinaryIO) -> None:
        """Write section 4, and gather what A, B and C of each wire are at tau."""
        r1cs, curve, size = self._r1cs, self._curve, 1 << self._log2
        start = file.tell()
        file.write(bytes(4))
        one = (1).to_bytes(curve.n8r, "little")
        rows = b"".join(struct.pack("<II", 1, wire) + one + bytes(8) for wire in range(r1cs.n_public + 1))
        with Scope(self._backend) as own:
            weights = own.allocate(size * ELEMENT_BYTES, secret=True)
            self._lagrange(weights, curve.fr_root_of_order(self._log2), 1, size, 1)
            total = self._write_terms(file, r1cs.constraints, r1cs.n_constraints, 0, weights)
            total += self._write_terms(file, memoryview(rows), r1cs.n_public + 1, r1cs.n_constraints, weights)
        if total > COEFFICIENTS_MAX:
            raise Mismatch(f"{printable(r1cs.path)}: A and B have {total} terms; a key has at most {COEFFICIENTS_MAX}")
        end = file.tell()
        file.seek(start)
        file.write(struct.pack("<I", total))
        file.seek(end)

    def _write_terms(self, file: BinaryIO, view: memoryview, count: int, first: int, weights: Buffer) -> int:
        """Write the records of ``count`` constraints, which are rows from ``first`` on; return how many there are."""
        record_bytes = 12 + self._curve.n8r
        total = position = constraints = 0
        room = CHUNK_RECORDS
        with Scope(self._backend) as own:
            records, done = own.allocate(room * record_bytes), own.allocate(24)
            while constraints < count:
                ok = self._functions.call(
                    "gather_terms",
                    address_of(view) + position,
                    len(view) - position,
                    first + constraints,
                    count - constraints,
                    self._r1cs.n_wires,
                    weights.address,
                    *(sums.address for sums in self._at_tau),
                    records.address,
                    room,
                    done.address,
                )
                if not ok & 1:
                    raise self._r1cs.malformed_terms()
                some, read, written = struct.unpack("<QQQ", self._backend.download(done, 0, 24))
                if not some:  # one constraint of more terms than that; the file has room for them, so memory has too
                    room *= 2
                    records = own.allocate(room * record_bytes)
                file.write(self._backend.download(records, 0, written * record_bytes))
                constraints, position, total = constraints + some, position + read, total + written
                self._progress("coefficients", constraints, count)
        if position != len(view):
            raise self._r1cs.malformed_terms()
        return total

    def _lagrange(self, out: Buffer, root: int, first: int, size: int, factor: int) -> None:
        """Compute the Lagrange polynomials at tau for the points ``first * root^i`` of a domain of ``size``."""
        r = self._curve.r
        scale = (pow(self._waste.tau, size, r) - 1) * pow(size, -1, r) * factor % r
        if scale == 0:
            raise DeviceError("the random tau is a root of unity, which happens once in 2^200 times; start again")
        parameters = [self._scalar(value) for value in (root, first, self._waste.tau, scale)]
        self._functions.call("lagrange", out.nbytes // ELEMENT_BYTES, *parameters, out.address, self._threads)

    def _write_wires(self, file: BinaryIO, name: str, first: int, count: int, factor: int) -> None:
        """Write beta A + alpha B + C, times a factor, of some wires."""
        with Scope(self._backend) as own:
            scalars = own.allocate(count * ELEMENT_BYTES, secret=True)
            sums = [buffer.address + first * ELEMENT_BYTES for buffer in self._at_tau]
            factors = [self._scalar(value) for value in (self._waste.alpha, self._waste.beta, factor)]
            self._functions.call("combine", *sums, count, *factors, scalars.address, self._threads)
            self._write_points(file, name, "g1", scalars.address, count)

    def _write_h(self, file: BinaryIO) -> None:
        """Write the odd half of the doubled domain's Lagrange basis, over delta."""
        curve, size = self._curve, 1 << self._log2
        with Scope(self._backend) as own:
            scalars = own.allocate(size * ELEMENT_BYTES, secret=True)
            root, doubled = curve.fr_root_of_order(self._log2), curve.fr_root_of_order(self._log2 + 1)
            self._lagrange(scalars, root, doubled, 2 * size, pow(self._waste.delta, -1, curve.r))
            self._write_points(file, "H", "g1", scalars.address, size)

    def _write_points(self, file: BinaryIO, name: str, group: str, scalars: int, count: int) -> None:
        """Write multiples of a generator, some at a time."""
        with Scope(self._backend) as own:
            out = own.allocate(CHUNK_POINTS * self._curve.g2_bytes)
            for first in range(0, count, CHUNK_POINTS):
                some = min(CHUNK_POINTS, count - first)
                size = self._write_multiples(group, scalars + first * ELEMENT_BYTES, some, out)
                file.write(self._backend.download(out, 0, some * size))
                self._progress(name, first + some, count)

    def _contributions(self) -> bytes:
        """Return section 10 with one contribution, whose name says what the key is."""
        curve = self._curve
        name = UNSAFE_NAME.encode()
        parameters = bytes((1, len(name))) + name
        digest = blake2b(self._r1cs.constraints, digest_size=64).digest()
        nothing = bytes(2 * curve.g1_bytes + curve.g2_bytes + 64)
        delta = self._point("g1", self._waste.delta)
        return digest + struct.pack("<I", 1) + delta + nothing + struct.pack("<II", 0, len(parameters)) + parameters


@contextmanager
def _section(file: BinaryIO, ident: int) -> Iterator[None]:
    """Write a section around the body, which writes its payload."""
    file.write(struct.pack("<IQ", ident, 0))
    start = file.tell()
    yield
    end = file.tell()
    file.seek(start - 8)
    file.write(struct.pack("<Q", end - start))
    file.seek(end)
