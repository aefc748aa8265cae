"""A proof by kernels: the same algebra as on CPUs, put into the queues of a device.

Queue 1 multiplies the rows and transforms; queue 0 sums A and B meanwhile. Only the sum over private wires and rows
needs both, and waits for a mark. The key stays on a device that keeps keys; everything else lives as long as the proof
and is secret.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

from prover.backends.base import Backend, Launch, Scope
from prover.device_plan import BLINDING_SCALARS, COMBINED, VECTORS
from prover.errors import DeviceError
from prover.formats.points import g1_from_bytes, g2_from_bytes
from prover.formats.snarkjson import Proof
from prover.formats.strategy import ProvingKey
from prover.formats.wtns import Witness
from prover.keys import PointSet
from prover.msm import Points, multi_exponentiate, sum_bytes
from prover.ntt import forward_to_quotient, inverse_to_coset
from prover.plan import ELEMENT_BYTES, plan_rows
from prover.resident import take_key

COMBINED_THREADS: Final = COMBINED * ELEMENT_BYTES // 4
"""One for each 32 bits of a factor."""

Report = Callable[[int, int], None]


class Phases(Protocol):
    """Runs the phases of a proof."""

    def phase(self, name: str) -> AbstractContextManager[Report]:
        """Run the body as a phase; what it gets reports how much of it is done."""
        ...


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a buffer."""

    address: int
    nbytes: int


class KernelComputation:
    """One proof on one device; a context manager, which gives its memory back."""

    def __init__(
        self,
        zkey: ProvingKey,
        backend: Backend,
        phases: Phases,
        *,
        window_bits: int | None = None,
        chunk: int | None = None,
        overlap: bool = True,
        resident: bool | None = None,
    ) -> None:
        """Load the key where it is not there, and plan.

        Args:
            zkey: the proving key, which must stay open.
            backend: the device.
            phases: runs the phases.
            window_bits: to force a window.
            chunk: to force how many points are sorted together.
            overlap: whether the queues may run beside each other.
            resident: to force whether the key's points are on the device.

        Raises:
            DeviceError: the device failed, or has not enough memory.
        """
        self._backend = backend
        self._phases = phases
        self._overlap = overlap
        self._stack = ExitStack()
        try:
            with self._phase("key"):
                taken = take_key(backend, zkey, self._stack, window_bits=window_bits, chunk=chunk, resident=resident)
                self._key, self._plan, self._tables = taken.key, taken.plan, taken.tables
                self._stack.enter_context(backend.within(taken.workspace))
                self._scope = self._stack.enter_context(Scope(backend))
                self._take_memory()
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _take_memory(self) -> None:
        key, curve = self._key, self._key.curve
        size = key.domain.size * ELEMENT_BYTES
        first_vector = (key.n_vars + BLINDING_SCALARS) * ELEMENT_BYTES
        self._scalars = self._scope.allocate(first_vector + VECTORS * size, secret=True)
        # The quotient comes to stand where the sum's scalars go on.
        self._vectors = [self._scalars.address + first_vector + number * size for number in range(VECTORS)]
        self._rows = _Part(self._vectors[0], VECTORS * size)
        # C's sum, A, B and delta in the first group, as the last step takes them; then B; then C.
        g1 = curve.g1_bytes
        self._points = self._scope.allocate(COMBINED * g1 + curve.g2_bytes + g1, secret=True)
        self._slots = [self._points.address + slot * g1 for slot in range(COMBINED)]
        self._b2_offset = COMBINED * g1
        self._c_offset = self._b2_offset + curve.g2_bytes
        self._factors = self._scope.allocate(COMBINED * ELEMENT_BYTES, secret=True)

    def run(self, witness: Witness, r: int, s: int) -> Proof:
        """Return the proof, not yet verified."""
        backend, key = self._backend, self._key
        with self._phase("rows"):
            backend.upload(self._scalars, witness.values)
            extra = b"".join(self._scalar(value) for value in (1, r, s))
            backend.upload(self._scalars, extra, key.n_vars * ELEMENT_BYTES)
            scalars_are_there = backend.mark()
            with self._aside():
                backend.wait(scalars_are_there)
                self._multiply_rows()
        with self._phase("transforms"), self._aside():
            self._evaluate_quotient()
            quotient_is_there = backend.mark()
        with self._phase("msm_a") as report:
            self._sum("msm_a", report)
        with self._phase("msm_b") as report:
            for name in ("msm_b", "msm_b2"):
                if name in self._plan.sums:
                    self._sum(name, report)
        with self._phase("msm_c"):
            # C's sum and H's are one; it is done where its larger part is.
            backend.wait(quotient_is_there)
        with self._phase("msm_h") as report:
            self._sum("msm_h", report)
        with self._phase("assemble"):
            return self._assemble(r, s)

    @contextmanager
    def _phase(self, name: str) -> Iterator[Report]:
        """Run the body as a phase, by whose name the device calls what fails in it."""
        self._backend.stage = name
        with self._phases.phase(name) as report:
            yield report
            if not self._overlap:
                self._backend.finish()

    def _aside(self) -> AbstractContextManager[None]:
        return self._backend.on(1 if self._overlap else 0)

    def _multiply_rows(self) -> None:
        """Multiply the witness by the rows of A and B, and those by each other."""
        key, backend, prefix = self._key, self._backend, self._key.curve.ident
        size = key.domain.size
        table = [key.row_ends.address, key.row_signals.address, key.row_values.address]
        launch, log_chunk = plan_rows(size, backend.traits())
        arguments = [*table, self._scalars.address, size, log_chunk, self._vectors[0]]
        backend.launch(f"{prefix}_row_sums", launch, arguments)

    def _evaluate_quotient(self) -> None:
        """Leave the scalars of H in the first vector, as plain integers: the quotient's values, or coefficients."""
        domain, curve = self._key.domain, self._key.curve
        inverse_to_coset(self._backend, curve, domain, self._rows, VECTORS)
        forward_to_quotient(self._backend, curve, domain, self._rows)
        if self._key.to_coefficients is not None:
            inverse_to_coset(self._backend, curve, self._key.to_coefficients, self._rows, 1)

    def _sum(self, name: str, report: Report) -> None:
        """Write the sum of scalar times point of each set that takes part to its place."""
        sets = self._key.sums[name]
        multi_exponentiate(
            self._backend,
            self._key.curve,
            self._plan.sums[name],
            scalars=self._scalars.address,
            scalar_of_point=sets[0].scalar_of_point.address,
            targets=[self._target(points) for points in sets],
            progress=report,
        )

    def _target(self, points: PointSet) -> Points:
        """Return where a set's points are, or their multiples, and where their sum goes."""
        sum_c, point_a, point_b, _delta = self._slots
        places = {"a": point_a, "b1": point_b, "b2": self._points.address + self._b2_offset, "c_and_h": sum_c}
        address = self._tables.get(points.role, points.address)
        return Points(points.group, address, places[points.role], points.host)

    def _assemble(self, r: int, s: int) -> Proof:
        """Join the sums to the proof's three points."""
        backend, curve = self._backend, self._key.curve
        g1 = curve.g1_bytes
        backend.upload(self._points, self._key.delta1, (COMBINED - 1) * g1)
        factors = (1, s, r, -r * s % curve.r)
        backend.upload(self._factors, b"".join(map(self._scalar, factors)))
        backend.launch(
            f"{curve.ident}_g1_combination",
            Launch(1, threads=COMBINED_THREADS, shared_bytes=COMBINED_THREADS * sum_bytes(curve, "g1")),
            [self._points.address, self._factors.address, COMBINED, self._points.address + self._c_offset],
        )
        found = backend.download(self._points, 0, self._points.nbytes)
        if len(found) != self._c_offset + g1:
            raise DeviceError(f"{backend.name} returned {len(found)} bytes of a proof")
        return Proof(
            a=g1_from_bytes(curve, found[g1 : 2 * g1]),
            b=g2_from_bytes(curve, found[self._b2_offset : self._c_offset]),
            c=g1_from_bytes(curve, found[self._c_offset :]),
            curve=curve,
        )

    def _scalar(self, value: int) -> bytes:
        """Return a scalar as kernels read it."""
        return value.to_bytes(self._key.curve.n8r, "little")
