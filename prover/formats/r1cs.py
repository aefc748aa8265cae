"""Constraint systems (`.r1cs`) as circom writes them.

Section 1 is the header, section 2 the constraints: for each the three linear combinations A, B and C of ``A * B = C``,
as ``terms u32 | { wire u32, value[32] }*`` with canonical little-endian values. Section 3 maps wires to labels; only
its size is read. Terms are checked by whoever walks through them, which takes as long as checking them first.
"""

import struct
from contextlib import suppress
from os import PathLike
from types import TracebackType
from typing import Final, Self

from kernels.curves import Curve, curve_of_scalar_modulus
from prover.errors import MalformedFile, Mismatch, printable
from prover.formats.container import Container, section_field
from prover.formats.strategy import ProvingKey
from prover.formats.wtns import ELEMENT_BYTES_MAX, Witness
from prover.formats.zkey import WIRES_MAX

VERSION_MAX: Final = 1
CONSTRAINTS_MAX: Final = 1 << 28
"""Constraints of one circuit: as many as BN254's largest domain has rows."""

_HEADER: Final = (1, "header")
_CONSTRAINTS: Final = (2, "constraints")
_LABELS: Final = (3, "labels of the wires")
_LABEL_BYTES: Final = 8
_CUSTOM_GATES: Final = (4, 5)
_SEARCHED_MAX: Final = 1 << 20
"""Constraints among which a malformed term is looked for, to name it: about ten seconds."""
_U32: Final = struct.Struct("<I")
_COUNTS: Final = struct.Struct("<IIIIQI")
_EMPTY_CONSTRAINT_BYTES: Final = 3 * 4


class R1cs:
    """A mapped constraint system; a context manager.

    Attributes:
        path: the file as it was named.
        curve: the curve in whose scalar field the constraints are.
        n_wires: wires, the constant 1 included.
        n_public: public signals, outputs first, the constant not included.
        n_constraints: constraints.
        constraints: their bytes; not checked.
    """

    def __init__(self, container: Container) -> None:
        self._container = container
        self.path = container.path
        self.curve, self.n_wires, self.n_public, self.n_constraints = _read_header(container)
        for ident in _CUSTOM_GATES:
            if container.optional_section(ident) is not None:
                raise Mismatch(
                    f"{printable(self.path)}: section {ident} (custom gates): the circuit uses custom gates, which "
                    "Groth16 does not have; compile it without them"
                )
        self.constraints = container.section(*_CONSTRAINTS)
        if len(self.constraints) < self.n_constraints * _EMPTY_CONSTRAINT_BYTES:
            raise MalformedFile(
                self.path,
                section_field(*_CONSTRAINTS),
                f"has {len(self.constraints)} bytes, too few for {self.n_constraints} constraints; the file is damaged "
                "or cut short",
            )
        self._check_wires()

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Self:
        """Map a constraint system and check its header.

        Raises:
            MalformedFile: it cannot be read, or a count or size is wrong.
            Mismatch: it has custom gates.
        """
        container = Container.open(path, magic=b"r1cs", version_max=VERSION_MAX)
        try:
            return cls(container)
        except BaseException:
            container.close()
            raise

    def malformed_terms(self) -> MalformedFile:
        """Return the error to raise where walking through the terms failed."""
        field = section_field(*_CONSTRAINTS)
        place, problem = self._malformed_place()
        return MalformedFile(self.path, f"{field}, {place}" if place else field, f"{problem}; the file is damaged")

    def _malformed_place(self) -> tuple[str, str]:
        """Walk through the terms, slowly, and return where they are malformed and how."""
        view, position = self.constraints, 0
        term = struct.Struct(f"<I{self.curve.n8r}s")
        for number in range(min(self.n_constraints, _SEARCHED_MAX)):
            for name in "ABC":
                place = f"{name} of constraint {number}"
                if len(view) - position < _U32.size:
                    return place, "is cut off"
                (count,) = _U32.unpack_from(view, position)
                position += _U32.size
                if count > (len(view) - position) // term.size:
                    return place, f"claims {count} terms, but the section ends before"
                for wire, value in term.iter_unpack(view[position : position + count * term.size]):
                    if wire >= self.n_wires:
                        return place, f"names wire {wire}, but there are {self.n_wires}"
                    if int.from_bytes(value, "little") >= self.curve.r:
                        return place, f"the coefficient of wire {wire} is not below the prime of the header"
                position += count * term.size
        if self.n_constraints > _SEARCHED_MAX:
            return "", f"a term behind the first {_SEARCHED_MAX} constraints is malformed, or bytes are left over"
        return "", f"{len(view) - position} bytes are left over behind the last constraint"

    def _check_wires(self) -> None:
        """Check that so many wires can be there: memory is taken for each of them."""
        labels = self._container.optional_section(_LABELS[0])
        if labels is not None:
            if len(labels) != self.n_wires * _LABEL_BYTES:
                raise MalformedFile(
                    self.path,
                    section_field(*_LABELS),
                    f"has {len(labels)} bytes, but {self.n_wires} wires make {self.n_wires * _LABEL_BYTES}; the file "
                    "is damaged or cut short",
                )
        elif self.n_wires > 1 + len(self.constraints) // (_U32.size + self.curve.n8r):
            raise MalformedFile(
                self.path,
                f"{section_field(*_HEADER)}, number of wires",
                f"is {self.n_wires}, more than the constraints have terms, and {section_field(*_LABELS)} is missing",
            )

    def close(self) -> None:
        """End the mapping, or leave its end to the last view that somebody still holds."""
        with suppress(BufferError):
            self.constraints.release()
        self._container.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_belongs(r1cs: R1cs, *, witness: Witness, zkey: ProvingKey) -> None:
    """Check that a constraint system can be that of a witness and a key.

    Raises:
        Mismatch: it cannot.
    """
    files = f"{printable(r1cs.path)} and {printable(witness.path)}"
    if r1cs.curve != witness.curve:
        raise Mismatch(f"{files}: prime: the circuit is of {r1cs.curve.title}, the witness of {witness.curve.title}")
    if r1cs.n_wires != witness.n_witness:
        raise Mismatch(
            f"{files}: number of wires: the circuit has {r1cs.n_wires}, the witness {witness.n_witness} values; they "
            "belong to different circuits"
        )
    if r1cs.n_public != zkey.n_public:
        raise Mismatch(
            f"{printable(r1cs.path)} and {printable(zkey.path)}: public signals: the circuit has {r1cs.n_public}, the "
            f"key {zkey.n_public}; they belong to different circuits"
        )


def _read_header(container: Container) -> tuple[Curve, int, int, int]:
    """Read section 1: field, wires, outputs, public and private inputs, labels, constraints."""
    view = container.section(*_HEADER)
    field = section_field(*_HEADER)
    if len(view) < _U32.size:
        raise MalformedFile(container.path, field, f"has {len(view)} bytes, too few for the field's size")
    (n8,) = _U32.unpack_from(view, 0)
    if not 0 < n8 <= ELEMENT_BYTES_MAX or n8 % 8:
        raise MalformedFile(
            container.path, f"{field}, n8", f"is {n8}; a multiple of 8 up to {ELEMENT_BYTES_MAX} is expected"
        )
    if len(view) != _U32.size + n8 + _COUNTS.size:
        raise MalformedFile(
            container.path, field, f"has {len(view)} bytes; a field of {n8} bytes needs {_U32.size + n8 + _COUNTS.size}"
        )
    prime = int.from_bytes(view[_U32.size : _U32.size + n8], "little")
    curve = curve_of_scalar_modulus(prime)
    if curve is None or curve.n8r != n8:
        raise MalformedFile(
            container.path, f"{field}, prime", f"{prime:#x} in {n8} bytes is the scalar field of no known curve"
        )
    wires, outputs, public, private, _labels, constraints = _COUNTS.unpack_from(view, _U32.size + n8)
    if not 1 <= wires <= WIRES_MAX:
        raise MalformedFile(container.path, f"{field}, number of wires", f"is {wires}; 1 to {WIRES_MAX} are accepted")
    if outputs + public + private >= wires:
        raise MalformedFile(
            container.path,
            f"{field}, number of signals",
            f"{outputs} outputs, {public} public and {private} private inputs do not fit {wires} wires",
        )
    if constraints > CONSTRAINTS_MAX:
        raise MalformedFile(
            container.path,
            f"{field}, number of constraints",
            f"is {constraints}; at most {CONSTRAINTS_MAX} are accepted",
        )
    return curve, wires, outputs + public, constraints
