"""A proving key on a device: points without infinity, rows of the matrices, tables of the domain.

What depends on who made a key, and not on the curve, is the strategy of its format: ``prover.formats.strategy``. A
survey of the key on the host comes first: what is left without infinity decides how much memory is planned.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from types import TracebackType
from typing import Final, Self

from prover.backends.base import Backend, Buffer, Scope
from prover.device_plan import BLINDING_SCALARS, KeyShape, Sum
from prover.finite import finite_places, gathered
from prover.formats.strategy import HBasis, ProvingKey
from prover.msm import GroupName, point_bytes
from prover.ntt import Domain, make_domain
from prover.plan import COUNTER_BYTES, ELEMENT_BYTES, flat
from prover.scan import exclusive_scan

DENSE_PERCENT: Final = 90
"""Where A and B both have points for so many of the wires, all three of their sums share one list of digits: to sort
them twice takes longer than to pass over a few points at infinity."""
UPLOAD_BYTES: Final = 4 << 20
"""Points brought together on the host at one time."""


@dataclass(frozen=True, slots=True)
class _Section:
    """Points of one section that are not infinity.

    Attributes:
        view: the section.
        places: which of its points.
        scalars: the index of each one's scalar.
    """

    view: memoryview
    places: "array[int]"
    scalars: "array[int]"


@dataclass(frozen=True, slots=True)
class _Surveyed:
    """A point set before it is on the device: sections, and single points behind them."""

    group: GroupName
    sections: tuple[_Section, ...]
    singles: tuple[tuple[int, bytes], ...]

    @property
    def count(self) -> int:
        """How many points."""
        return sum(len(section.places) for section in self.sections) + len(self.singles)

    def pieces(self, size: int) -> Iterator[bytes | bytearray]:
        """Yield the points without gaps, a piece at a time."""
        step = UPLOAD_BYTES // size
        for section in self.sections:
            for first in range(0, len(section.places), step):
                taken = min(step, len(section.places) - first)
                yield gathered(section.view, size, section.places, first, taken)
        if self.singles:
            yield b"".join(point for _, point in self.singles)

    def scalars(self) -> bytes:
        """Return the index of each point's scalar, as kernels read it."""
        found = b"".join(section.scalars.tobytes() for section in self.sections)
        return found + array("I", [scalar for scalar, _ in self.singles]).tobytes()


class Survey:
    """What a key holds beside infinity, found on the host.

    The sums over the private wires and over the rows are one: both go into C, and nothing else.

    Attributes:
        zkey: the key, which must stay open until it is loaded.
        a: the points of A, alpha and delta, as are ``b1`` and ``b2`` with beta and delta.
        b1: see ``a``.
        b2: see ``a``; points of the second group.
        c_and_h: the points of C, then those of H.
        shape: what a plan depends on.
    """

    def __init__(self, zkey: ProvingKey) -> None:
        """Look through all points.

        Raises:
            DeviceError: the functions that look cannot be built.
        """
        self.zkey = zkey
        n_vars, strategy = zkey.n_vars, zkey.format
        one, r, s = range(n_vars, n_vars + BLINDING_SCALARS)
        wires = {
            name: found if (found := strategy.wires(zkey, name)) is not None else range(n_vars)
            for name in ("a", "b1", "b2")
        }
        rows: Sequence[int] = range(zkey.domain_size)
        if strategy.h_basis is HBasis.MONOMIALS:
            # As the transform leaves them; the quotient's degree is two below the size.
            rows = _bit_reversed(zkey.log2_domain)[:-1]
        first_row = n_vars + BLINDING_SCALARS
        self.a = self._set("g1", [(zkey.points_a, wires["a"], 0)], [(one, zkey.alpha1), (r, zkey.delta1)])
        self.b1 = self._set("g1", [(zkey.points_b1, wires["b1"], 0)], [(one, zkey.beta1), (s, zkey.delta1)])
        self.b2 = self._set("g2", [(zkey.points_b2, wires["b2"], 0)], [(one, zkey.beta2), (s, zkey.delta2)])
        private = range(zkey.n_public + 1, n_vars)
        self.c_and_h = self._set("g1", [(zkey.points_c, private, 0), (zkey.points_h, rows, first_row)], [])
        # Honest keys have infinity at the same wires in both groups: then B's two sums share their digits.
        self.b_is_shared = self.b1.scalars() == self.b2.scalars()
        self.all_are_shared = self.b_is_shared and self._is_dense()
        if self.all_are_shared:
            self._take_all_wires()
        g1, g2 = zkey.curve.g1_bytes, zkey.curve.g2_bytes
        if self.all_are_shared:
            of_wires = [Sum("msm_a", self.a.count, (g1, g1, g2))]
        elif self.b_is_shared:
            of_wires = [Sum("msm_a", self.a.count, (g1,)), Sum("msm_b", self.b1.count, (g1, g2))]
        else:
            counts = (("msm_a", self.a.count, g1), ("msm_b", self.b1.count, g1), ("msm_b2", self.b2.count, g2))
            of_wires = [Sum(name, count, (size,)) for name, count, size in counts]
        self.shape = KeyShape(
            n_vars=n_vars,
            log2_domain=zkey.log2_domain,
            n_coefficients=zkey.n_coefficients,
            scalar_bits=zkey.curve.r.bit_length(),
            g1_bytes=g1,
            g2_bytes=g2,
            domains=2 if strategy.h_basis is HBasis.MONOMIALS else 1,
            sums=(*of_wires, Sum("msm_h", self.c_and_h.count, (g1,))),
        )

    def _is_dense(self) -> bool:
        """Whether A and B both have points for nearly every wire, in the wires' order."""
        sections = (self.a.sections[0], self.b1.sections[0])
        return all(
            100 * len(section.places) >= DENSE_PERCENT * self.zkey.n_vars and section.scalars == section.places
            for section in sections
        )

    def _take_all_wires(self) -> None:
        """Give A and B a point for every wire and blinding scalar, some of them infinity."""
        zkey, every = self.zkey, array("I", range(self.zkey.n_vars))
        one, r, s = range(zkey.n_vars, zkey.n_vars + BLINDING_SCALARS)
        no1, no2 = bytes(zkey.curve.g1_bytes), bytes(zkey.curve.g2_bytes)

        def dense(group: GroupName, view: memoryview, points: tuple[bytes, bytes, bytes]) -> _Surveyed:
            return _Surveyed(group, (_Section(view, every, every),), tuple(zip((one, r, s), points, strict=True)))

        self.a = dense("g1", zkey.points_a, (zkey.alpha1, zkey.delta1, no1))
        self.b1 = dense("g1", zkey.points_b1, (zkey.beta1, no1, zkey.delta1))
        self.b2 = dense("g2", zkey.points_b2, (zkey.beta2, no2, zkey.delta2))

    @property
    def points_bytes(self) -> int:
        """What all points take."""
        return sum(found.count * point_bytes(self.zkey.curve, found.group) for found in self._sets)

    @property
    def _sets(self) -> tuple[_Surveyed, ...]:
        return self.a, self.b1, self.b2, self.c_and_h

    def fill(self, view: memoryview) -> None:
        """Write all points, set after set, as `LoadedKey` looks for them."""
        at = 0
        for found in self._sets:
            for octets in found.pieces(point_bytes(self.zkey.curve, found.group)):
                view[at : at + len(octets)] = octets
                at += len(octets)

    def _set(
        self,
        group: GroupName,
        sections: list[tuple[memoryview, Sequence[int], int]],
        singles: list[tuple[int, bytes]],
    ) -> _Surveyed:
        """Look through some sections.

        Args:
            group: the group of their points.
            sections: each with the numbers of its points' scalars, and what to add to these.
            singles: scalar index and bytes of further points.
        """
        size = point_bytes(self.zkey.curve, group)
        found = []
        for view, scalars, offset in sections:
            places = finite_places(view, size)
            numbers = places
            if isinstance(scalars, range) and scalars.start + offset:
                shift = scalars.start + offset
                numbers = array("I", [place + shift for place in places])
            elif not isinstance(scalars, range):
                numbers = array("I", [scalars[place] + offset for place in places])
            found.append(_Section(view, places, numbers))
        return _Surveyed(group, tuple(found), tuple((scalar, point) for scalar, point in singles if any(point)))


@dataclass(frozen=True, slots=True)
class PointSet:
    """Points of a key that are not infinity.

    Attributes:
        role: ``a``, ``b1``, ``b2`` or ``c_and_h``.
        group: the group.
        points: affine points; None where they stay on the host.
        host: then where: an address of registered memory, or any memory.
        scalar_of_point: the 32-bit index of each point's scalar.
        count: number of points.
        indices: digest of the indices: sets with equal ones can share a sort.
    """

    role: str
    group: GroupName
    points: Buffer | None
    scalar_of_point: Buffer
    count: int
    indices: bytes
    host: memoryview | int | None = None

    @property
    def address(self) -> int:
        """Where the points are on the device; 0 where they are not."""
        return self.points.address if self.points is not None else 0


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
        c_and_h: C by wires, and H by the rows behind the blinding scalars.
        sums: the sets that each multi-exponentiation takes, by its name.
        row_ends: where each row of A, then each row of B, ends in the two arrays below.
        row_signals: the wire of each coefficient.
        row_values: its value times R^2.
        delta1: affine bytes.
    """

    def __init__(
        self,
        zkey: ProvingKey,
        backend: Backend,
        survey: Survey | None = None,
        host: memoryview | int | None = None,
    ) -> None:
        """Load a key.

        Args:
            zkey: the key; not needed any more afterwards.
            backend: the device.
            survey: of the key, where it has been made.
            host: what `Survey.fill` filled, or its address where it is registered: then the points stay there.

        Raises:
            DeviceError: the device failed, or has not enough memory.
        """
        found = survey or Survey(zkey)
        self.curve = zkey.curve
        self.n_vars = zkey.n_vars
        self.n_public = zkey.n_public
        self.delta1 = zkey.delta1
        self._backend = backend
        self._scope = Scope(backend)
        self._host = host
        self._host_at = 0
        try:
            self._load(zkey, found)
        except BaseException:
            self._scope.close()
            raise

    def _load(self, zkey: ProvingKey, survey: Survey) -> None:
        """Move everything to the device; in the order of the plan, which knows how much is there at each moment."""
        log2, curve, strategy = zkey.log2_domain, self.curve, zkey.format
        root, coset = strategy.root(curve, log2), strategy.coset(curve, log2)
        self.domain: Domain = make_domain(self._backend, self._scope, curve, log2, root=root, coset=coset)
        self.to_coefficients: Domain | None = None
        if strategy.h_basis is HBasis.MONOMIALS:
            # On the coset the vanishing polynomial has one value, by which this transform divides as well.
            vanishing = pow(coset, zkey.domain_size, curve.r) - 1
            self.to_coefficients = make_domain(
                *(self._backend, self._scope, curve, log2),
                root=root,
                coset=pow(coset, -1, curve.r),
                scale=pow(vanishing, -1, curve.r),
            )
        self._load_rows(zkey)
        self.a = self._points("a", survey.a)
        self.b1 = self._points("b1", survey.b1, shared=self.a if survey.all_are_shared else None)
        self.b2 = self._points("b2", survey.b2, shared=self.b1 if survey.b_is_shared else None)
        self.c_and_h = self._points("c_and_h", survey.c_and_h)
        sets = iter((self.a, self.b1, self.b2, self.c_and_h))
        self.sums = {each.name: tuple(next(sets) for _ in each.point_bytes) for each in survey.shape.sums}

    def _points(self, role: str, found: _Surveyed, shared: "PointSet | None" = None) -> PointSet:
        """Upload a point set.

        Args:
            role: what it is for.
            found: of the survey.
            shared: a set whose points take the same scalars.
        """
        size = point_bytes(self.curve, found.group)
        points: Buffer | None = None
        host: memoryview | int | None = None
        if self._host is None:
            points = self._scope.allocate(found.count * size)
            at = 0
            for octets in found.pieces(size):
                self._backend.upload(points, octets, at)
                at += len(octets)
        else:
            begin, self._host_at = self._host_at, self._host_at + found.count * size
            host = self._host + begin if isinstance(self._host, int) else self._host[begin : self._host_at]
        if shared is not None:
            return PointSet(role, found.group, points, shared.scalar_of_point, found.count, shared.indices, host)
        packed = found.scalars()
        indices = self._scope.uploaded(packed)
        return PointSet(role, found.group, points, indices, found.count, sha256(packed).digest(), host)

    def _load_rows(self, zkey: ProvingKey) -> None:
        """Sort the coefficients into rows on the device."""
        rows = 2 * zkey.domain_size
        count = zkey.n_coefficients
        self.row_ends = self._scope.allocate(rows * COUNTER_BYTES)
        self.row_signals = self._scope.allocate(count * COUNTER_BYTES)
        self.row_values = self._scope.allocate(count * ELEMENT_BYTES)
        prefix, backend = self.curve.ident, self._backend
        with Scope(backend) as own:
            records = own.uploaded(zkey.coefficients)
            where = [records.address, count, zkey.domain_size, zkey.n_vars, self.row_ends.address]
            backend.launch(f"{prefix}_row_count", flat(count), where)
            exclusive_scan(backend, backend.traits(), self.row_ends.address, rows)
            values = [self.row_signals.address, self.row_values.address]
            backend.launch(f"{prefix}_row_scatter", flat(count), [*where, *values])

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
