"""A proof on CPUs: the functions of ``kernels/native`` over the mapped files, phase by phase.

The same algebra as with a device's kernels, and the same bytes for the same blinding. The key is not loaded: its points
and coefficients are read where the file is mapped, so that every process of a machine shares them. The witness's digits
are computed and sorted once, for the bases A, B (in both groups) and C, and are gone before there is a quotient.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from prover.backends.base import Backend, Buffer, Scope
from prover.digits import Group, SortedDigits
from prover.errors import DeviceError
from prover.formats.points import g1_from_bytes, g2_from_bytes
from prover.formats.snarkjson import Proof
from prover.formats.strategy import HBasis, ProvingKey
from prover.formats.wtns import Witness
from prover.native import address_of, montgomery_bytes, native
from prover.native_plan import ELEMENT_BYTES, native_bytes


class Phases(Protocol):
    """Runs the phases of a proof."""

    def phase(self, name: str) -> AbstractContextManager[object]:
        """Run the body as a phase."""
        ...


def reads_as_mapped(key: ProvingKey) -> bool:
    """Whether the functions can take a key as its file has it: a point for each wire, and the quotient as it comes."""
    strategy = key.format
    return strategy.h_basis is HBasis.ODD_POINTS and all(
        strategy.wires(key, section) is None for section in ("a", "b1", "b2")
    )


class HostComputation:
    """One proof on CPUs. All its memory belongs to a scope, and is secret."""

    def __init__(
        self,
        zkey: ProvingKey,
        backend: Backend,
        scope: Scope,
        phases: Phases,
        *,
        threads: int,
        window_bits: int | None = None,
    ) -> None:
        """Prepare a proof.

        Args:
            zkey: the proving key, which must stay open.
            backend: whose memory is used.
            scope: takes the memory.
            phases: runs the phases.
            threads: CPU threads to use.
            window_bits: 4 to 16, to force a window.

        Raises:
            DeviceError: there is not enough memory, or the native functions cannot be built.
        """
        self._zkey = zkey
        self._curve = zkey.curve
        self._backend = backend
        self._scope = scope
        self._phases = phases
        self._threads = threads
        self._window_bits = window_bits
        self._format = zkey.format
        needed = native_bytes(n_vars=zkey.n_vars, log2_domain=zkey.log2_domain, scalar_bits=self._curve.r.bit_length())
        available = backend.traits().memory_bytes
        if needed > available:
            raise DeviceError(
                f"the proof needs {needed} bytes of memory on {backend.name} beside its key, and {available} are left; "
                "use a machine with more memory"
            )
        self._functions = native(self._curve)
        self._sums = scope.allocate(4 * self._curve.g1_bytes, secret=True)
        self._sum_b2 = scope.allocate(self._curve.g2_bytes, secret=True)

    def run(self, witness: Witness, r: int, s: int) -> Proof:
        """Return the proof, not yet verified."""
        zkey = self._zkey
        values = address_of(witness.values)
        # First what is summed over the witness: its digits take the most memory, and there is no quotient to keep yet.
        with Scope(self._backend) as own:
            with self._phases.phase("msm_a"):
                digits = self._sorted(own, values, zkey.n_vars)
                self._sum("g1", zkey.points_a, 0, digits, self._sums, 0)
            with self._phases.phase("msm_b"):
                self._sum("g1", zkey.points_b1, 0, digits, self._sums, 1)
                self._sum("g2", zkey.points_b2, 0, digits, self._sum_b2, 0)
            with self._phases.phase("msm_c"):
                self._sum("g1", zkey.points_c, zkey.n_public + 1, digits, self._sums, 2)
        size = zkey.domain_size * ELEMENT_BYTES
        h = self._scope.allocate(size, secret=True)
        with Scope(self._backend) as own:
            others = [own.allocate(size, secret=True).address for _ in range(2)]
            with self._phases.phase("rows"):
                self._evaluate_rows(values, [h.address, *others])
            witness.unload()
            with self._phases.phase("transforms"):
                self._evaluate_quotient([h.address, *others])
        with self._phases.phase("msm_h"), Scope(self._backend) as own:
            self._sum("g1", zkey.points_h, 0, self._sorted(own, h.address, zkey.domain_size), self._sums, 3)
        with self._phases.phase("assemble"):
            return self._assemble(r, s)

    def _evaluate_rows(self, witness: int, vectors: Sequence[int]) -> None:
        """Multiply the witness by the rows of A and B, and those by each other."""
        zkey = self._zkey
        self._functions.call(
            "rows",
            address_of(zkey.coefficients),
            zkey.n_coefficients,
            zkey.domain_size,
            zkey.n_vars,
            witness,
            *vectors,
            self._threads,
        )

    def _evaluate_quotient(self, vectors: Sequence[int]) -> None:
        """Leave the quotient's values on the coset in the first vector, as plain integers."""
        curve, log2 = self._curve, self._zkey.log2_domain
        root, coset = self._format.root(curve, log2), self._format.coset(curve, log2)
        parameters = [montgomery_bytes(curve, value) for value in (root, coset, pow(1 << log2, -1, curve.r))]
        self._functions.call("quotient_of", log2, *parameters, *vectors, self._threads)

    def _sorted(self, scope: Scope, scalars: int, count: int) -> SortedDigits:
        """Sort the digits of scalars."""
        return SortedDigits(
            self._backend, scope, self._curve, scalars, count, threads=self._threads, window_bits=self._window_bits
        )

    def _sum(self, group: Group, points: memoryview, skip: int, digits: SortedDigits, out: Buffer, place: int) -> None:
        """Write the sum of scalar times point, for points whose first takes scalar ``skip``."""
        size = self._curve.g1_bytes if group == "g1" else self._curve.g2_bytes
        digits.sum(group, address_of(points), skip, points.nbytes // size, out.address + place * size)

    def _assemble(self, r: int, s: int) -> Proof:
        """Join the sums to the proof's three points."""
        curve, zkey = self._curve, self._zkey
        g1, g2 = curve.g1_bytes, curve.g2_bytes
        out = self._scope.allocate(2 * g1 + g2)
        scalars = [value.to_bytes(curve.n8r, "little") for value in (r, s, -r * s % curve.r)]
        fixed = (zkey.alpha1, zkey.beta1, zkey.delta1, zkey.beta2, zkey.delta2)
        places = (out.address, out.address + g1, out.address + g1 + g2)
        self._functions.call("assemble", self._sums.address, self._sum_b2.address, *fixed, *scalars, *places)
        return Proof(
            a=g1_from_bytes(curve, self._backend.download(out, 0, g1)),
            b=g2_from_bytes(curve, self._backend.download(out, g1, g2)),
            c=g1_from_bytes(curve, self._backend.download(out, g1 + g2, g1)),
            curve=curve,
        )
