"""Witness files (`.wtns`): the value of every wire of one circuit for one input."""

import struct
from contextlib import suppress
from os import PathLike
from types import TracebackType
from typing import Final, Self

from kernels.curves import KNOWN_MODULI, Curve, curve_of_scalar_modulus
from prover.errors import MalformedFile, Mismatch, printable
from prover.formats.container import Container, section_field
from prover.formats.limbs import WORD_BYTES, element_out_of_range
from prover.formats.strategy import ProvingKey
from prover.formats.zkey import WIRES_MAX
from prover.native import built

VERSION_MAX: Final = 2
ELEMENT_BYTES_MAX: Final = 64
"""Bytes of a field element that a header may claim; the widest field of a known curve needs 48."""

_HEADER: Final = (1, "header")
_VALUES: Final = (2, "values")
_U32: Final = struct.Struct("<I")


class Witness:
    """A mapped witness; a context manager.

    Attributes:
        path: the file as it was named.
        curve: the curve whose scalar field the values lie in.
        n_witness: values, the constant 1 included.
        prime: the modulus, equal to ``curve.r``.
        values: ``n_witness * 32`` bytes: canonical integers, little-endian, each below ``prime``; the first is 1.
    """

    def __init__(self, container: Container) -> None:
        self._container = container
        self.path = container.path
        self.curve, self.n_witness = _read_header(container)
        self.prime = self.curve.r
        self.values = self._checked_values()

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Self:
        """Map a witness and check all of it.

        Raises:
            MalformedFile: it cannot be read, or a count, size or value is wrong.
        """
        container = Container.open(path, magic=b"wtns", version_max=VERSION_MAX)
        try:
            return cls(container)
        except BaseException:
            container.close()
            raise

    def value(self, wire: int) -> int:
        """Return the value of one wire, 0 <= wire < n_witness.

        Raises:
            IndexError: there is no such wire.
        """
        if not 0 <= wire < self.n_witness:
            raise IndexError(f"wire {wire} of {self.n_witness}")
        n8r = self.curve.n8r
        return int.from_bytes(self.values[wire * n8r : (wire + 1) * n8r], "little")

    def public(self, n_public: int) -> list[int]:
        """Return the public signals: wires 1 to ``n_public``.

        Raises:
            Mismatch: the witness has fewer wires.
        """
        if n_public >= self.n_witness:
            raise Mismatch(
                f"{printable(self.path)}: number of values: is {self.n_witness}, too few for {n_public} public "
                "signals; the witness belongs to another circuit"
            )
        return [self.value(wire) for wire in range(1, n_public + 1)]

    def unload(self) -> None:
        """Give back the memory of values that were read: for who does not need most of them again."""
        self._container.unload()

    def close(self) -> None:
        """End the mapping, or leave its end to the last view that somebody still holds."""
        with suppress(BufferError):
            self.values.release()
        self._container.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _checked_values(self) -> memoryview:
        """Return the section of values after checking the size, the constant and every range."""
        n8r = self.curve.n8r
        values = self._container.section_of_size(
            *_VALUES, self.n_witness * n8r, f"{self.n_witness} values of {n8r} bytes"
        )
        field = section_field(*_VALUES)
        first = int.from_bytes(values[:n8r], "little")
        if first != 1:
            raise MalformedFile(self.path, field, f"value 0 is {first}; it is the constant 1 in every witness")
        words = n8r // WORD_BYTES
        wrong = element_out_of_range(values, words, 0, words, self.prime, built(self.curve))
        if wrong is not None:
            raise MalformedFile(self.path, field, f"value {wrong} is not below the prime of the header")
        return values


def check_pair(zkey: ProvingKey, witness: Witness) -> None:
    """Check that a witness can belong to a proving key: same field, as many values as the key has wires.

    Raises:
        Mismatch: it cannot.
    """
    files = f"{printable(witness.path)} and {printable(zkey.path)}"
    if witness.prime != zkey.curve.r:
        raise Mismatch(
            f"{files}: prime: the witness is of {KNOWN_MODULI[witness.prime]}, the key of "
            f"{KNOWN_MODULI[zkey.curve.r]}; make the witness with the circuit compiled for the key's curve"
        )
    if witness.n_witness != zkey.n_vars:
        raise Mismatch(
            f"{files}: number of values: the witness has {witness.n_witness}, the key's circuit has "
            f"{zkey.n_vars} wires; they belong to different circuits"
        )


def _read_header(container: Container) -> tuple[Curve, int]:
    """Read section 1: ``n8 u32 | prime[n8] | number of values u32``."""
    view = container.section(*_HEADER)
    field = section_field(*_HEADER)
    if len(view) < _U32.size:
        raise MalformedFile(container.path, field, f"has {len(view)} bytes, too few for the field's size")
    (n8,) = _U32.unpack_from(view, 0)
    if not 0 < n8 <= ELEMENT_BYTES_MAX or n8 % 8:
        raise MalformedFile(
            container.path, f"{field}, n8", f"is {n8}; a multiple of 8 up to {ELEMENT_BYTES_MAX} is expected"
        )
    if len(view) != n8 + 2 * _U32.size:
        raise MalformedFile(
            container.path, field, f"has {len(view)} bytes; a field of {n8} bytes needs {n8 + 2 * _U32.size}"
        )
    prime = int.from_bytes(view[_U32.size : _U32.size + n8], "little")
    curve = curve_of_scalar_modulus(prime)
    if curve is None or curve.n8r != n8:
        raise MalformedFile(
            container.path, f"{field}, prime", f"{prime:#x} in {n8} bytes is the scalar field of no known curve"
        )
    (count,) = _U32.unpack_from(view, _U32.size + n8)
    if not 1 <= count <= WIRES_MAX:
        raise MalformedFile(container.path, f"{field}, number of values", f"is {count}; 1 to {WIRES_MAX} are accepted")
    return curve, count
