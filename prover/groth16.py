"""Groth16: from a proving key and a witness to a proof that has been verified.

With w the witness (w_0 = 1), N the domain's size, g the coset's generator and r, s the blinding factors:

1. rows: a_c and b_c, the products of row c of A and B with w; c = a b, row by row.
2. transforms: the polynomials through a, b and c, evaluated on the coset g, and there the quotient's values
   h = a b - c. No division: H's points contain it.
3. multi-exponentiations: A = alpha + sum w_i A_i + r delta and B = beta + sum w_i B_i + s delta, the latter in both
   groups; the sum of w_i C_i over the private wires; the sum of h_i H_i.
4. C = the two sums + s A + r B - r s delta.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final

from kernels.curves import Curve
from prover.backends.base import Backend, Buffer, Launch, Scope
from prover.errors import Cancelled, DeviceError, ProofRejected, printable
from prover.formats.points import g1_from_bytes, g2_from_bytes
from prover.formats.snarkjson import Proof, vkey_from_zkey
from prover.formats.strategy import ProvingKey
from prover.formats.wtns import Witness, check_pair
from prover.hostproof import HostComputation, reads_as_mapped
from prover.keys import BLINDING_SCALARS, LoadedKey, PointSet
from prover.msm import Points, multi_exponentiate, sum_bytes
from prover.ntt import forward, inverse_to_coset
from prover.plan import ELEMENT_BYTES, flat, phase_weights, plan_msm, proof_bytes
from prover.verify import why_rejected

PHASES: Final[tuple[str, ...]] = (
    "key",
    "rows",
    "transforms",
    "msm_a",
    "msm_b",
    "msm_c",
    "msm_h",
    "assemble",
    "verify",
)
"""The phases of a proof in their order."""

Progress = Callable[[str, int, int], None]
"""Called with the phase in hand, and how much of the whole proof is done, of how much: units of `phase_weights`."""

_COMBINED: Final = 5
"""Points that make up C."""


@dataclass(frozen=True, slots=True, repr=False)
class Blinding:
    """The two random scalars of a proof; whoever knows them learns about the witness.

    Attributes:
        r: below the scalar field's modulus, as is ``s``.
        s: see ``r``.
    """

    r: int
    s: int

    @classmethod
    def random(cls, curve: Curve) -> "Blinding":
        """Return uniform factors from the system's random source."""
        return cls(_random_below(curve.r), _random_below(curve.r))


@dataclass(frozen=True, slots=True)
class Tuning:
    """What a plan may be forced to, to compare results; None leaves it to the planner.

    Attributes:
        window_bits: of every multi-exponentiation.
        chunk: points that a multi-exponentiation sorts together; CPUs sort all.
    """

    window_bits: int | None = None
    chunk: int | None = None


PLANNED: Final = Tuning()
"""Everything as the planner decides."""


@dataclass(frozen=True, slots=True)
class ProofResult:
    """A proof that verifies.

    Attributes:
        proof: the proof.
        public: the public signals.
        timings_ms: milliseconds of each phase.
    """

    proof: Proof
    public: list[int]
    timings_ms: dict[str, float] = field(default_factory=dict)


class _Phases:
    """Runs phases in order: asks whether to go on, reports, takes the time."""

    def __init__(self, progress: Progress, cancelled: Callable[[], bool], weights: Mapping[str, int]) -> None:
        self._progress = progress
        self._cancelled = cancelled
        self._weights = weights
        self._whole = sum(weights.values())
        self._behind = 0
        self.timings_ms: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[Callable[[int, int], None]]:
        """Run the body as a phase; what it gets reports how much of it is done."""
        if self._cancelled():
            raise Cancelled(f"the proof was cancelled before its phase {name}")
        weight = self._weights[name]

        def report(done: int, total: int) -> None:
            if 0 < done < total:
                self._progress(name, self._behind + weight * done // total, self._whole)

        begin = time.perf_counter()
        self._progress(name, self._behind, self._whole)
        yield report
        self.timings_ms[name] = (time.perf_counter() - begin) * 1000
        self._behind += weight
        self._progress(name, self._behind, self._whole)


def prove(
    zkey: ProvingKey,
    witness: Witness,
    backend: Backend,
    *,
    progress: Progress = lambda _phase, _done, _total: None,
    cancelled: Callable[[], bool] = lambda: False,
    blinding: Blinding | None = None,
    tuning: Tuning = PLANNED,
) -> ProofResult:
    """Return a proof that the circuit of ``zkey`` accepts ``witness``, after verifying it.

    Args:
        zkey: the proving key.
        witness: the value of every wire.
        backend: the device.
        progress: called at the beginning and the end of every phase of ``PHASES``, and within the long ones.
        cancelled: asked at the beginning of every phase.
        blinding: for tests that compare proofs: factors that are not random give the witness away.
        tuning: for tests: what the plan is forced to.

    Raises:
        Mismatch: key and witness do not belong together.
        MalformedFile: a point of the key's verification key is not on its curve.
        ProofRejected: the proof does not verify: the witness does not satisfy the circuit, or the key is damaged.
        DeviceError: the device failed, or has not enough memory.
        Cancelled: ``cancelled`` said so.
    """
    check_pair(zkey, witness)
    weights = phase_weights(n_vars=zkey.n_vars, n_public=zkey.n_public, domain_size=zkey.domain_size)
    phases = _Phases(progress, cancelled, weights)
    with ExitStack() as stack:
        scope = stack.enter_context(Scope(backend))
        chosen = blinding or Blinding.random(zkey.curve)
        traits = backend.traits()
        if traits.kind == "cpu" and reads_as_mapped(zkey):
            with phases.phase("key"):
                host = HostComputation(
                    zkey, backend, scope, phases, threads=traits.parallel, window_bits=tuning.window_bits
                )
            proof = host.run(witness, chosen.r, chosen.s)
        else:
            with phases.phase("key"):
                key = stack.enter_context(LoadedKey(zkey, backend))
            _check_memory(key, backend, tuning)
            proof = _Computation(key, backend, scope, phases, tuning).run(witness, chosen)
    public = witness.public(zkey.n_public)
    with phases.phase("verify"):
        problem = why_rejected(vkey_from_zkey(zkey), public, proof)
    if problem is not None:
        raise ProofRejected(
            f"{printable(witness.path)} and {printable(zkey.path)}: the proof does not verify ({problem}): the witness "
            "does not satisfy the circuit, or the key is damaged; nothing was handed out"
        )
    return ProofResult(proof, public, phases.timings_ms)


class _Computation:
    """One proof on one device. All its memory belongs to a scope, and is secret."""

    def __init__(self, key: LoadedKey, backend: Backend, scope: Scope, phases: _Phases, tuning: Tuning) -> None:
        self._key = key
        self._curve = key.curve
        self._backend = backend
        self._phases = phases
        self._tuning = tuning
        self._rows = scope.allocate(3 * key.domain.size * ELEMENT_BYTES, secret=True)
        self._scalars = scope.allocate((key.n_vars + BLINDING_SCALARS) * ELEMENT_BYTES, secret=True)
        # C's two sums, A, B and delta in the first group, as the last step takes them; then B; then C.
        g1 = self._curve.g1_bytes
        self._points = scope.allocate(_COMBINED * g1 + self._curve.g2_bytes + g1, secret=True)
        self._slots = [self._points.address + slot * g1 for slot in range(_COMBINED)]
        self._b2_offset = _COMBINED * g1
        self._c_offset = self._b2_offset + self._curve.g2_bytes
        self._combination = scope.allocate(_COMBINED * ELEMENT_BYTES, secret=True)

    def run(self, witness: Witness, blinding: Blinding) -> Proof:
        """Return the proof, not yet verified."""
        sum_c, sum_h, point_a, point_b, _delta = self._slots
        key = self._key
        with self._phases.phase("rows"):
            self._evaluate_rows(witness, blinding)
        with self._phases.phase("transforms"):
            self._evaluate_quotient()
        with self._phases.phase("msm_a") as report:
            self._sum([(key.a, point_a)], self._scalars, report)
        with self._phases.phase("msm_b") as report:
            in_g1 = (key.b1, point_b)
            in_g2 = (key.b2, self._points.address + self._b2_offset)
            # Honest keys have infinity at the same wires in both groups.
            if key.b1.indices == key.b2.indices:
                self._sum([in_g1, in_g2], self._scalars, report)
            else:
                self._sum([in_g1], self._scalars, report)
                self._sum([in_g2], self._scalars, report)
        with self._phases.phase("msm_c") as report:
            self._sum([(key.c, sum_c)], self._scalars, report)
        with self._phases.phase("msm_h") as report:
            self._sum([(key.h, sum_h)], self._rows, report)
        with self._phases.phase("assemble"):
            return self._assemble(blinding)

    def _evaluate_rows(self, witness: Witness, blinding: Blinding) -> None:
        """Upload the scalars and multiply the witness by the rows of A and B, and those by each other."""
        key, backend, prefix = self._key, self._backend, self._curve.ident
        backend.upload(self._scalars, witness.values)
        extra = b"".join(self._scalar(value) for value in (1, blinding.r, blinding.s))
        backend.upload(self._scalars, extra, key.n_vars * ELEMENT_BYTES)
        size = key.domain.size
        backend.launch(
            f"{prefix}_row_sums",
            flat(2 * size),
            [
                key.row_ends.address,
                key.row_signals.address,
                key.row_values.address,
                self._scalars.address,
                2 * size,
                self._rows.address,
            ],
        )
        backend.launch(f"{prefix}_products", flat(size), [self._vector(2), self._vector(0), self._vector(1), size])

    def _evaluate_quotient(self) -> None:
        """Leave the scalars of H in the first vector, as plain integers: the quotient's values, or coefficients."""
        domain, curve = self._key.domain, self._curve
        inverse_to_coset(self._backend, curve, domain, self._rows, 3)
        forward(self._backend, curve, domain, self._rows, 3)
        vectors = [self._vector(number) for number in range(3)]
        self._backend.launch(f"{curve.ident}_quotient", flat(domain.size), [*vectors, domain.size])
        if self._key.to_coefficients is not None:
            inverse_to_coset(self._backend, curve, self._key.to_coefficients, self._rows, 1)

    def _sum(self, sets: list[tuple[PointSet, int]], scalars: Buffer, report: Callable[[int, int], None]) -> None:
        """Write each set's sum of scalar times point to its address; the sets have the same indices."""
        first = sets[0][0]
        plan = plan_msm(
            first.count,
            self._curve.r.bit_length(),
            self._backend.traits(),
            window_bits=self._tuning.window_bits,
            chunk=self._tuning.chunk,
        )
        multi_exponentiate(
            self._backend,
            self._curve,
            plan,
            scalars=scalars.address,
            scalar_of_point=first.scalar_of_point.address,
            targets=[Points(points.group, points.points.address, out) for points, out in sets],
            progress=report,
        )

    def _assemble(self, blinding: Blinding) -> Proof:
        """Join the sums to the proof's three points."""
        backend, curve = self._backend, self._curve
        g1 = curve.g1_bytes
        backend.upload(self._points, self._key.delta1, (_COMBINED - 1) * g1)
        factors = (1, 1, blinding.s, blinding.r, -blinding.r * blinding.s % curve.r)
        backend.upload(self._combination, b"".join(map(self._scalar, factors)))
        backend.launch(
            f"{curve.ident}_g1_combination",
            Launch(1, threads=_COMBINED, shared_bytes=_COMBINED * sum_bytes(curve, "g1")),
            [self._points.address, self._combination.address, _COMBINED, self._points.address + self._c_offset],
        )
        a_offset = self._slots[2] - self._points.address
        return Proof(
            a=g1_from_bytes(curve, backend.download(self._points, a_offset, g1)),
            b=g2_from_bytes(curve, backend.download(self._points, self._b2_offset, curve.g2_bytes)),
            c=g1_from_bytes(curve, backend.download(self._points, self._c_offset, g1)),
            curve=curve,
        )

    def _vector(self, number: int) -> int:
        """Return the address of one of the three vectors over the domain."""
        return self._rows.address + number * self._key.domain.size * ELEMENT_BYTES

    def _scalar(self, value: int) -> bytes:
        """Return a scalar as kernels read it."""
        return value.to_bytes(self._curve.n8r, "little")


def _check_memory(key: LoadedKey, backend: Backend, tuning: Tuning) -> None:
    """Refuse a proof that cannot fit before its first phase."""
    curve, traits = key.curve, backend.traits()
    scratch = 0
    for sets in ((key.a,), (key.b1, key.b2), (key.c,), (key.h,)):
        plan = plan_msm(sets[0].count, curve.r.bit_length(), traits, window_bits=tuning.window_bits, chunk=tuning.chunk)
        scratch = max(scratch, sum(plan.scratch_bytes(sum_bytes(curve, points.group)) for points in sets))
    needed = proof_bytes(n_vars=key.n_vars, log2_domain=key.domain.log_n) + scratch
    if needed > traits.memory_bytes:
        raise DeviceError(
            f"the proof needs {needed} bytes of memory on {backend.name} beside its key, and {traits.memory_bytes} "
            "are left; use a machine with more memory"
        )


def _random_below(limit: int) -> int:
    """Return a uniform number below ``limit`` by rejection."""
    bits = limit.bit_length()
    while True:
        value = int.from_bytes(os.urandom((bits + 7) // 8), "little") & ((1 << bits) - 1)
        if value < limit:
            return value
