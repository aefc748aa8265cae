"""A proving key on a device: points without infinity, rows of the matrices, tables of the domain.

What depends on who made a key, and not on the curve, is the strategy of its format: ``prover.formats.strategy``.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from types import TracebackType
from typing import Final, Self

from prover.backends.base import Backend, Buffer, Data, Scope
from prover.errors import DeviceError
from prover.formats.strategy import HBasis, ProvingKey
from prover.msm import GroupName, point_bytes
from prover.ntt import Domain, make_domain
from prover.plan import COUNTER_BYTES, flat, key_bytes
from prover.scan import exclusive_scan

SCAN_POINTS: Final = 1 << 14
"""Points copied at once while infinity is looked for."""
BLINDING_SCALARS: Final = 3
"""Scalars that follow the witness: the constant 1 and the two blinding factors r and s."""


@dataclass(frozen=True, slots=True)
class PointSet:
    """Points of a key that are not infinity.

    Attributes:
        group: the group.
        points: affine points.
        scalar_of_point: the 32-bit index of each point's scalar.
        count: number of points.
        indices: digest of the indices: sets with equal ones can share a sort.
    """

    group: GroupName
    points: Buffer
    scalar_of_point: Buffer
    count: int
    indices: bytes


class LoadedKey:
    """A key on a device; a context manager.

    Attributes:
        curve: the curve.
        n_vars: wires.
        n_public: public signals.
        domain: the evaluation domain.
        to_coefficients: tables of the way from the coset back to coefficients, where H's basis is of monomials.
        a: A, alpha and delta, by wires and blinding scalars; as are ``b1`` and ``b2`` with beta and delta.
        b1: see ``a``.
        b2: see ``a``; points of the second group.
        c: C, by wires.
        h: H, by rows.
        row_ends: where each row of A, then each row of B, ends in the two arrays below.
        row_signals: the wire of each coefficient.
        row_values: its value times R^2.
        delta1: affine bytes.
    """

    def __init__(self, zkey: ProvingKey, backend: Backend) -> None:
        """Load a key.

        Args:
            zkey: the key; not needed any more afterwards.
            backend: the device.

        Raises:
            DeviceError: the device failed, or has not enough memory.
        """
        self.curve = zkey.curve
        self.n_vars = zkey.n_vars
        self.n_public = zkey.n_public
        self.delta1 = zkey.delta1
        self._backend = backend
        self._scope = Scope(backend)
        self._check_memory(zkey)
        try:
            self._load(zkey)
        except BaseException:
            self._scope.close()
            raise

    def _load(self, zkey: ProvingKey) -> None:
        """Move everything to the device."""
        log2, curve, strategy = zkey.log2_domain, self.curve, zkey.format
        root, coset = strategy.root(curve, log2), strategy.coset(curve, log2)
        self.domain: Domain = make_domain(self._backend, self._scope, curve, log2, root=root, coset=coset)
        self.to_coefficients: Domain | None = None
        h_scalars: Sequence[int] = range(zkey.domain_size)
        if strategy.h_basis is HBasis.MONOMIALS:
            # On the coset the vanishing polynomial has one value, by which this transform divides as well.
            vanishing = pow(coset, zkey.domain_size, curve.r) - 1
            self.to_coefficients = make_domain(
                *(self._backend, self._scope, curve, log2),
                root=root,
                coset=pow(coset, -1, curve.r),
                scale=pow(vanishing, -1, curve.r),
            )
            h_scalars = _bit_reversed(log2)[:-1]  # as that transform leaves them; its degree is two below the size
        every = range(self.n_vars)
        wires_a, wires_b1, wires_b2 = (
            every if wires is None else wires
            for wires in (strategy.wires(zkey, "a"), strategy.wires(zkey, "b1"), strategy.wires(zkey, "b2"))
        )
        one, r, s = range(self.n_vars, self.n_vars + BLINDING_SCALARS)
        self.a = self._points("g1", zkey.points_a, wires_a, [(one, zkey.alpha1), (r, zkey.delta1)])
        self.b1 = self._points("g1", zkey.points_b1, wires_b1, [(one, zkey.beta1), (s, zkey.delta1)])
        self.b2 = self._points("g2", zkey.points_b2, wires_b2, [(one, zkey.beta2), (s, zkey.delta2)])
        self.c = self._points("g1", zkey.points_c, range(self.n_public + 1, self.n_vars), [])
        self.h = self._points("g1", zkey.points_h, h_scalars, [])
        self._load_rows(zkey)

    def _check_memory(self, zkey: ProvingKey) -> None:
        """Refuse a key that cannot fit before anything is allocated."""
        views = (zkey.points_a, zkey.points_b1, zkey.points_b2, zkey.points_c, zkey.points_h)
        needed = key_bytes(
            points_bytes=sum(view.nbytes for view in views),
            n_points=4 * zkey.n_vars + zkey.domain_size,
            n_coefficients=zkey.n_coefficients,
            log2_domain=zkey.log2_domain,
        )
        available = self._backend.traits().memory_bytes
        if needed > available:
            raise DeviceError(
                f"the proving key needs {needed} bytes of memory on {self._backend.name}, which has {available} left"
            )

    def _points(
        self, group: GroupName, view: memoryview, scalars: Sequence[int], extra: Iterable[tuple[int, Data]]
    ) -> PointSet:
        """Upload the points of a section that are not infinity, and some single ones.

        Args:
            group: the group.
            view: the section.
            scalars: index of the scalar of each of the section's points.
            extra: scalar index and bytes of further points.
        """
        size = point_bytes(self.curve, group)
        runs = _finite_runs(view, size)
        singles = [(scalar, point) for scalar, point in extra if any(point)]
        count = sum(stop - start for start, stop in runs) + len(singles)
        points = self._scope.allocate(count * size)
        indices = array("I")
        place = 0
        for start, stop in runs:
            self._backend.upload(points, view[start * size : stop * size], place * size)
            indices.extend(scalars[start:stop])
            place += stop - start
        for scalar, point in singles:
            self._backend.upload(points, point, place * size)
            indices.append(scalar)
            place += 1
        packed = indices.tobytes()
        return PointSet(group, points, self._scope.uploaded(packed), count, sha256(packed).digest())

    def _load_rows(self, zkey: ProvingKey) -> None:
        """Sort the coefficients into rows on the device."""
        rows = 2 * zkey.domain_size
        count = zkey.n_coefficients
        self.row_ends = self._scope.allocate(rows * COUNTER_BYTES)
        self.row_signals = self._scope.allocate(count * COUNTER_BYTES)
        self.row_values = self._scope.allocate(count * self.curve.n8r)
        with Scope(self._backend) as own:
            records = own.uploaded(zkey.coefficients)
            where = [records.address, count, zkey.domain_size, zkey.n_vars, self.row_ends.address]
            prefix = self.curve.ident
            self._backend.launch(f"{prefix}_row_count", flat(count), where)
            exclusive_scan(self._backend, self._backend.traits(), self.row_ends.address, rows)
            self._backend.launch(
                f"{prefix}_row_scatter", flat(count), [*where, self.row_signals.address, self.row_values.address]
            )

    def close(self) -> None:
        """Release the device's memory."""
        self._scope.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _bit_reversed(bits: int) -> Sequence[int]:
    """Return the numbers below ``2^bits`` in the order of their reversed bits."""
    found = array("I", [0])
    for bit in reversed(range(bits)):
        found.extend([value | 1 << bit for value in found])
    return found


def _finite_runs(view: memoryview, size: int) -> list[tuple[int, int]]:
    """Return the half-open ranges of points that are not infinity.

    Args:
        view: whole points, one after the other.
        size: bytes of a point.
    """
    infinity = bytes(size)
    runs: list[tuple[int, int]] = []
    start: int | None = None
    count = len(view) // size
    for block in range(0, count, SCAN_POINTS):
        octets = bytes(view[block * size : (block + SCAN_POINTS) * size])
        for place in range(len(octets) // size):
            if octets.startswith(infinity, place * size):
                if start is not None:
                    runs.append((start, block + place))
                    start = None
            elif start is None:
                start = block + place
    if start is not None:
        runs.append((start, count))
    return runs
