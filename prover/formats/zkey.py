"""Proving keys (`.zkey`) of Groth16, as snarkjs writes them.

All points are affine with little-endian coordinates in Montgomery form, infinity is all zero bytes, and the
coefficients are stored times R^2: the bytes are the kernels' limbs. Nothing is copied at open.

| section | holds                          | entries                |
|---------|--------------------------------|------------------------|
| 1       | protocol                       |                        |
| 2       | header: curve, counts, points  |                        |
| 3       | IC, first group                | n_public + 1           |
| 4       | coefficients of A and B        | stated in the section  |
| 5, 6    | A and B, first group           | n_vars                 |
| 7       | B, second group                | n_vars                 |
| 8       | C, first group                 | n_vars - n_public - 1  |
| 9       | H, first group                 | domain_size            |
| 10      | contributions                  | optional; only counted |
"""

import struct
from contextlib import suppress
from os import PathLike
from types import TracebackType
from typing import Final, NamedTuple, Self

from kernels.curves import Curve, curve_of_base_modulus
from prover.errors import MalformedFile, Mismatch, printable
from prover.formats.container import Container, section_field
from prover.formats.limbs import WORD_BYTES, element_out_of_range, index_out_of_range
from prover.formats.strategy import SNARKJS
from prover.native import built

VERSION_MAX: Final = 2
WIRES_MAX: Final = 1 << 28
"""Wires of one circuit, the constant included: as many as BN254's largest domain has rows."""
COEFFICIENTS_MAX: Final = (1 << 31) - 1
"""Terms of A and B together, so that every index of theirs fits a signed 32-bit integer."""
DOMAIN_MIN: Final = 2
"""Rows of the smallest circuit: one constraint and the row of the constant."""
ELEMENT_BYTES_MAX: Final = 64
"""Bytes of a field element that a header may claim; the widest field of a known curve needs 48."""

UNSAFE_NAME: Final = "provewire setup --unsafe: secrets known, for tests only"
"""The name of the one contribution to a key that our own setup made; at most 64 bytes."""

PROTOCOLS: Final = {1: "groth16", 2: "plonk", 10: "fflonk"}
GROTH16: Final = 1

_PROTOCOL: Final = (1, "protocol")
_HEADER: Final = (2, "header")
_COEFFICIENTS: Final = (4, "coefficients")
_CONTRIBUTIONS: Final = 10
_CIRCUIT_HASH_BYTES: Final = 64
_TRANSCRIPT_BYTES: Final = 64
_PARAMETER_NAME: Final = 1
_U32: Final = struct.Struct("<I")
_COUNTS: Final = struct.Struct("<III")
_MATRICES: Final = 2
_INDEX_WORDS: Final = 3


class _Header(NamedTuple):
    """Section 2, checked; points are views of affine Montgomery bytes."""

    curve: Curve
    n_vars: int
    n_public: int
    domain_size: int
    points: dict[str, memoryview]


class ZKey:
    """A mapped proving key; a context manager. Everything in it was checked against its range at open.

    That points lie on their curve is not checked here, except by whoever makes a verification key of it: a wrong
    point yields a proof that does not verify, never an access out of bounds.

    Attributes:
        path: the file as it was named.
        format: the strategy of the format.
        curve: the curve.
        n_vars: wires, the constant 1 included.
        n_public: public signals, the constant not included; below ``n_vars`` and ``domain_size``.
        domain_size: rows of the evaluation domain, a power of two.
        log2_domain: its logarithm.
        alpha1: affine Montgomery bytes of a point, as are ``beta1`` and ``delta1``.
        beta2: affine Montgomery bytes ``x.c0 | x.c1 | y.c0 | y.c1``, as are ``gamma2`` and ``delta2``.
        ic: view of ``n_public + 1`` points.
        n_coefficients: number of records in ``coefficients``.
        coefficients: view of records ``matrix u32 | constraint u32 | signal u32 | value``, 44 bytes each: matrix 0
            (A) or 1 (B), constraint below ``domain_size``, signal below ``n_vars``, value below r, in any order.
        points_a: view of ``n_vars`` points, as is ``points_b1``.
        points_b1: see ``points_a``.
        points_b2: view of ``n_vars`` points of the second group.
        points_c: view of ``n_vars - n_public - 1`` points.
        points_h: view of ``domain_size`` points.
    """

    format: Final = SNARKJS

    def __init__(self, container: Container) -> None:
        self._container = container
        self.path = container.path
        _check_protocol(container)
        header = _read_header(container)
        self.curve = header.curve
        self.n_vars = header.n_vars
        self.n_public = header.n_public
        self.domain_size = header.domain_size
        self.log2_domain = header.domain_size.bit_length() - 1
        self.alpha1 = bytes(header.points["alpha1"])
        self.beta1 = bytes(header.points["beta1"])
        self.delta1 = bytes(header.points["delta1"])
        self.beta2 = bytes(header.points["beta2"])
        self.gamma2 = bytes(header.points["gamma2"])
        self.delta2 = bytes(header.points["delta2"])
        # Sizes of all sections first: cheap, and they decide whether the counts can be believed.
        g1, g2 = self.curve.g1_bytes, self.curve.g2_bytes
        private = self.n_vars - self.n_public - 1
        self.ic = self._points(3, "IC points", self.n_public + 1, g1)
        self.points_a = self._points(5, "A points", self.n_vars, g1)
        self.points_b1 = self._points(6, "B1 points", self.n_vars, g1)
        self.points_b2 = self._points(7, "B2 points", self.n_vars, g2)
        self.points_c = self._points(8, "C points", private, g1)
        self.points_h = self._points(9, "H points", self.domain_size, g1)
        self.n_coefficients, self.coefficients = self._coefficient_records()
        self._check_coefficients()
        for ident, name, points, size in (
            (3, "IC points", self.ic, g1),
            (5, "A points", self.points_a, g1),
            (6, "B1 points", self.points_b1, g1),
            (7, "B2 points", self.points_b2, g2),
            (8, "C points", self.points_c, g1),
            (9, "H points", self.points_h, g1),
        ):
            self._check_coordinates(section_field(ident, name), points, size)

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Self:
        """Map a proving key and check every count, size, index and range in it.

        Takes as long as reading the file where the native functions have been built, else about 25 ns for each
        coordinate and each index: 20 ms at 2^14 rows, 1 s at 2^20.

        Raises:
            MalformedFile: it cannot be read, or a field is wrong.
            Mismatch: it belongs to another proof system, or to a curve that is not supported.
        """
        container = Container.open(path, magic=b"zkey", version_max=VERSION_MAX)
        try:
            return cls(container)
        except BaseException:
            container.close()
            raise

    def contributions(self) -> int | None:
        """Return how many contributions the file says its key had, unverified; None where it does not say."""
        view = self._container.optional_section(_CONTRIBUTIONS)
        if view is None or len(view) < _CIRCUIT_HASH_BYTES + _U32.size:
            return None
        return int(_U32.unpack_from(view, _CIRCUIT_HASH_BYTES)[0])

    def contributors(self) -> list[str]:
        """Return the names of those who contributed to the key, in their order; empty where they gave none.

        Raises:
            MalformedFile: the section is there and is malformed.
        """
        view = self._container.optional_section(_CONTRIBUTIONS)
        if view is None:
            return []
        fixed = 2 * self.curve.g1_bytes + self.curve.g1_bytes + self.curve.g2_bytes + _TRANSCRIPT_BYTES
        try:
            return _contributor_names(view, fixed)
        except (struct.error, IndexError, ValueError) as error:
            raise MalformedFile(
                self.path,
                section_field(_CONTRIBUTIONS, "contributions"),
                "is cut off or has a count that does not fit it",
            ) from error

    @property
    def is_unsafe(self) -> bool:
        """Whether the key says of itself that its secrets are known.

        Raises:
            MalformedFile: the section of contributions is malformed.
        """
        return UNSAFE_NAME in self.contributors()

    def sha256(self) -> str:
        """Return the SHA-256 of the file in hexadecimal: the circuit's name."""
        return self._container.sha256()

    def close(self) -> None:
        """End the mapping, or leave its end to the last view that somebody still holds."""
        for view in (
            self.ic,
            self.coefficients,
            self.points_a,
            self.points_b1,
            self.points_b2,
            self.points_c,
            self.points_h,
        ):
            # Whoever handed a view to C code keeps it, and the mapping with it, until that code is done.
            with suppress(BufferError):
                view.release()
        self._container.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _points(self, ident: int, name: str, count: int, size: int) -> memoryview:
        """Return a section of ``count`` points of ``size`` bytes."""
        return self._container.section_of_size(ident, name, count * size, f"{count} points of {size} bytes")

    def _coefficient_records(self) -> tuple[int, memoryview]:
        """Return the number of records and the records of section 4."""
        view = self._container.section(*_COEFFICIENTS)
        field = section_field(*_COEFFICIENTS)
        if len(view) < _U32.size:
            raise MalformedFile(self.path, field, f"has {len(view)} bytes, too few for the number of records")
        (count,) = _U32.unpack_from(view, 0)
        if count > COEFFICIENTS_MAX:
            raise MalformedFile(self.path, field, f"claims {count} records; at most {COEFFICIENTS_MAX} are accepted")
        record = _COUNTS.size + self.curve.n8r
        if len(view) != _U32.size + count * record:
            raise MalformedFile(
                self.path,
                field,
                f"has {len(view)} bytes, but {count} records of {record} bytes make {_U32.size + count * record}; "
                "the file is damaged or cut short",
            )
        return count, view[_U32.size :]

    def _check_coefficients(self) -> None:
        """Check every record's indices and value: kernels use them as they are."""
        field = section_field(*_COEFFICIENTS)
        value_words = self.curve.n8r // WORD_BYTES
        words = _INDEX_WORDS + value_words
        for word, name, limit in (
            (0, "matrix", _MATRICES),
            (1, "constraint", self.domain_size),
            (2, "signal", self.n_vars),
        ):
            wrong = index_out_of_range(self.coefficients, words, word, limit, built(self.curve))
            if wrong is not None:
                raise MalformedFile(self.path, f"{field}, {name}", f"of record {wrong} is not below {limit}")
        wrong = element_out_of_range(
            self.coefficients, words, _INDEX_WORDS, value_words, self.curve.r, built(self.curve)
        )
        if wrong is not None:
            raise MalformedFile(
                self.path, f"{field}, value", f"of record {wrong} is not below the scalar field's modulus"
            )

    def _check_coordinates(self, field: str, points: memoryview, size: int) -> None:
        """Check that every coordinate is below q."""
        words = self.curve.n8q // WORD_BYTES
        wrong = element_out_of_range(points, words, 0, words, self.curve.q, built(self.curve))
        if wrong is not None:
            raise MalformedFile(
                self.path,
                field,
                f"a coordinate of point {wrong * self.curve.n8q // size} is not below the base field's modulus",
            )


def _contributor_names(view: memoryview, fixed_bytes: int) -> list[str]:
    """Walk through section 10: ``hash[64] | count u32 | { points, transcript, type u32, size u32, parameters }*``."""
    (count,) = _U32.unpack_from(view, _CIRCUIT_HASH_BYTES)
    position = _CIRCUIT_HASH_BYTES + _U32.size
    if count > (len(view) - position) // (fixed_bytes + 2 * _U32.size):
        raise ValueError(count)
    names = []
    for _ in range(count):
        position += fixed_bytes + _U32.size
        (size,) = _U32.unpack_from(view, position)
        position += _U32.size
        parameters = bytes(view[position : position + size])
        if len(parameters) != size:
            raise ValueError(size)
        position += size
        has_name = size > 1 and parameters[0] == _PARAMETER_NAME
        names.append(printable(parameters[2 : 2 + parameters[1]].decode(errors="replace")) if has_name else "")
    return names


def _check_protocol(container: Container) -> None:
    """Refuse keys of other proof systems by name."""
    view = container.section_of_size(*_PROTOCOL, _U32.size, "one number of 4 bytes")
    (protocol,) = _U32.unpack_from(view, 0)
    if protocol == GROTH16:
        return
    field = section_field(*_PROTOCOL)
    if protocol in PROTOCOLS:
        raise Mismatch(
            f"{printable(container.path)}: {field}: the key is for {PROTOCOLS[protocol]}; only groth16 is supported"
        )
    raise MalformedFile(container.path, field, f"is {protocol}, which is no known proof system")


def _read_header(container: Container) -> _Header:
    """Read section 2: ``n8q | q | n8r | r | n_vars | n_public | domain_size`` and six points."""
    view = container.section(*_HEADER)
    field = section_field(*_HEADER)
    position, q, n8q = _read_modulus(container.path, f"{field}, q", view, 0)
    position, r, n8r = _read_modulus(container.path, f"{field}, r", view, position)
    curve = curve_of_base_modulus(q)
    if curve is None or (curve.n8q, curve.n8r, curve.r) != (n8q, n8r, r):
        wrong = "q" if curve is None else "r"
        raise MalformedFile(
            container.path, f"{field}, {wrong}", "q and r are not the moduli of any known curve; the file is damaged"
        )
    size = position + _COUNTS.size + 3 * curve.g1_bytes + 3 * curve.g2_bytes
    if len(view) != size:
        raise MalformedFile(container.path, field, f"has {len(view)} bytes, but a header of {curve.name} has {size}")
    n_vars, n_public, domain_size = _COUNTS.unpack_from(view, position)
    _check_counts(container.path, field, curve, n_vars, n_public, domain_size)
    position += _COUNTS.size
    points: dict[str, memoryview] = {}
    for name in ("alpha1", "beta1", "beta2", "gamma2", "delta1", "delta2"):
        length = curve.g1_bytes if name.endswith("1") else curve.g2_bytes
        points[name] = view[position : position + length]
        position += length
        _check_header_point(container.path, f"{field}, {name}", curve, points[name])
    return _Header(curve, n_vars, n_public, domain_size, points)


def _read_modulus(path: str, field: str, view: memoryview, position: int) -> tuple[int, int, int]:
    """Read ``size u32 | modulus[size]``; return the position behind it, the modulus and its size."""
    if len(view) - position < _U32.size:
        raise MalformedFile(path, field, "is cut off")
    (size,) = _U32.unpack_from(view, position)
    if not 0 < size <= ELEMENT_BYTES_MAX or size % 8:
        raise MalformedFile(path, field, f"claims {size} bytes; a multiple of 8 up to {ELEMENT_BYTES_MAX} is expected")
    position += _U32.size
    if len(view) - position < size:
        raise MalformedFile(path, field, "is cut off")
    return position + size, int.from_bytes(view[position : position + size], "little"), size


def _check_counts(path: str, field: str, curve: Curve, n_vars: int, n_public: int, domain_size: int) -> None:
    """Check the three counts against their limits and each other."""
    domain_max = 1 << curve.fr_two_adicity
    if not 1 <= n_vars <= WIRES_MAX:
        raise MalformedFile(path, f"{field}, nVars", f"is {n_vars}; 1 to {WIRES_MAX} wires are accepted")
    if not DOMAIN_MIN <= domain_size <= domain_max or domain_size & (domain_size - 1):
        raise MalformedFile(
            path,
            f"{field}, domainSize",
            f"is {domain_size}; a power of two from {DOMAIN_MIN} to {domain_max} is expected",
        )
    if n_public >= min(n_vars, domain_size):
        raise MalformedFile(
            path,
            f"{field}, nPublic",
            f"is {n_public}; it must be below nVars ({n_vars}) and domainSize ({domain_size})",
        )


def _check_header_point(path: str, field: str, curve: Curve, point: memoryview) -> None:
    """Check one of the six points: coordinates below q, and not infinity, which would void every proof."""
    words = curve.n8q // WORD_BYTES
    if element_out_of_range(point, words, 0, words, curve.q) is not None:
        raise MalformedFile(path, field, "a coordinate is not below the base field's modulus")
    if not any(point):
        raise MalformedFile(
            path, field, "is the point at infinity; proofs of such a key prove nothing, so it is refused"
        )
