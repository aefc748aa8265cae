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
from typing import Final, NamedTuple

from kernels.curves import Curve
from prover.backends.base import Backend, Scope
from prover.errors import Cancelled, ProofRejected, printable
from prover.formats.snarkjson import Proof, vkey_from_zkey
from prover.formats.strategy import ProvingKey
from prover.formats.wtns import Witness, check_pair
from prover.hostproof import HostComputation, reads_as_mapped
from prover.native_plan import phase_weights
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
"""The phases of a proof, in their order with kernels."""

CPU_PHASES: Final[tuple[str, ...]] = (
    "key",
    "msm_a",
    "msm_b",
    "msm_c",
    "rows",
    "transforms",
    "msm_h",
    "assemble",
    "verify",
)
"""The same in the order of CPUs, which sum over the witness before there is a quotient to keep."""

Progress = Callable[[str, int, int], None]
"""Called with the phase in hand, and how much of the whole proof is done, of how much: units of `phase_weights`."""


class Blinding(NamedTuple):
    """The two random scalars of a proof; whoever knows them learns about the witness.

    Attributes:
        r: below the scalar field's modulus, as is ``s``.
        s: see ``r``.
    """

    r: int
    s: int

    def __repr__(self) -> str:
        """Name the class and no more."""
        return "Blinding(...)"

    @classmethod
    def random(cls, curve: Curve) -> "Blinding":
        """Return uniform factors from the system's random source."""
        return cls(_random_below(curve.r), _random_below(curve.r))


class Tuning(NamedTuple):
    """What a plan may be forced to, to compare results; None leaves it to the planner.

    Attributes:
        window_bits: of every multi-exponentiation.
        chunk: points that a multi-exponentiation sorts together; CPUs sort all.
        resident: whether the key's points are on the card; else they come from the host.
        overlap: whether a card may do the work of several phases at once; the phases' times mean little then.
    """

    window_bits: int | None = None
    chunk: int | None = None
    overlap: bool = True
    resident: bool | None = None


PLANNED: Final = Tuning()
"""Everything as the planner decides."""


class ProofResult(NamedTuple):
    """A proof that verifies.

    Attributes:
        proof: the proof.
        public: the public signals.
        timings_ms: milliseconds of each phase.
    """

    proof: Proof
    public: list[int]
    timings_ms: dict[str, float]


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
        progress: called at the beginning and the end of every phase, and within the long ones.
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
            from prover.device_proof import KernelComputation  # noqa: PLC0415 - a CPU's proof needs none of it

            computation = KernelComputation(
                zkey,
                backend,
                phases,
                window_bits=tuning.window_bits,
                chunk=tuning.chunk,
                overlap=tuning.overlap,
                resident=tuning.resident,
            )
            proof = stack.enter_context(computation).run(witness, chosen.r, chosen.s)
    public = witness.public(zkey.n_public)
    with phases.phase("verify"):
        problem = why_rejected(vkey_from_zkey(zkey), public, proof)
    if problem is not None:
        raise ProofRejected(
            f"{printable(witness.path)} and {printable(zkey.path)}: the proof does not verify ({problem}): the witness "
            "does not satisfy the circuit, or the key is damaged; nothing was handed out"
        )
    return ProofResult(proof, public, phases.timings_ms)


def _random_below(limit: int) -> int:
    """Return a uniform number below ``limit`` by rejection."""
    bits = limit.bit_length()
    while True:
        value = int.from_bytes(os.urandom((bits + 7) // 8), "little") & ((1 << bits) - 1)
        if value < limit:
            return value
