"""What CPUs prove with: functions of ``kernels/native``, one shared object for each curve, built on first use.

Thin: addresses and sizes go in, nothing is checked here. What an address belongs to must
stay alive during the call. The interpreter's lock is free while a function runs.
"""

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Final

from kernels.curves import Curve
from prover.backends.build import build_sources, find_built, load
from prover.errors import DeviceError

_POINTER: Final = ctypes.c_void_p
_U32: Final = ctypes.c_uint32
_U64: Final = ctypes.c_uint64

_SUM: Final = (_POINTER, *(_U64,) * 4, _U32, _U32, _POINTER, _POINTER, _POINTER, _U32)
FUNCTIONS: Final[dict[str, tuple[type, ...]]] = {
    "first_not_below": (_POINTER, _U64, _U64, _U64, _POINTER, _U32),
    "lengths": (_POINTER, _U64, _POINTER, _U32),
    "sort_scratch_bytes": (_U64, _U64),
    "sort": (_POINTER, _U64, _U64, _U32, _U32, _POINTER, _POINTER, _POINTER, _U32),
    "g1_sum": _SUM,
    "g2_sum": _SUM,
    "rows": (_POINTER, _U64, _U64, _U64, _POINTER, _POINTER, _POINTER, _POINTER, _U32),
    "quotient_of": (_U64, _POINTER, _POINTER, _POINTER, _POINTER, _POINTER, _POINTER, _U32),
    "assemble": (_POINTER,) * 13,
    "pairing_product_is_one": (_POINTER, _POINTER, _U64),
    "g1_is_in_group": (_POINTER, _POINTER),
    "g2_is_in_group": (_POINTER, _POINTER),
    "statement": (_POINTER, _POINTER, _U64, _POINTER),
    "first_violated": (_POINTER, _U64, _U64, _U64, _POINTER),
    "lagrange": (_U64, _POINTER, _POINTER, _POINTER, _POINTER, _POINTER, _U32),
    "gather_terms": (_POINTER, *(_U64,) * 4, *(_POINTER,) * 5, _U64, _POINTER),
    "combine": (_POINTER, _POINTER, _POINTER, _U64, *(_POINTER,) * 4, _U32),
    "g1_multiples": (_POINTER, _POINTER, _U64, _POINTER, _U32),
    "g2_multiples": (_POINTER, _POINTER, _U64, _POINTER, _U32),
    "g1_first_off_curve": (_POINTER, _U64, _POINTER, _U32),
    "g2_first_off_curve": (_POINTER, _U64, _POINTER, _U32),
}
"""The functions of a curve's object, without its name before them, and their arguments."""


class Native:
    """A curve's functions."""

    def __init__(self, curve: Curve, flags: tuple[str, ...] = ()) -> None:
        """Load them, building them where they are not built yet.

        Raises:
            DeviceError: they cannot be built or loaded.
        """
        loaded = load(lambda: build_sources((native_source(curve),), flags))
        self._functions: dict[str, Callable[..., int]] = {}
        for name, arguments in FUNCTIONS.items():
            function = getattr(loaded, f"{curve.ident}_{name}")
            function.restype = _U64
            function.argtypes = list(arguments)
            self._functions[name] = function

    def call(self, name: str, *arguments: int | bytes) -> int:
        """Call a function of ``FUNCTIONS``; bytes are handed over by their address."""
        return self._functions[name](*arguments)

    def first_not_below(
        self, records: memoryview, record_bytes: int, offset: int, nbytes: int, limit: int
    ) -> int | None:
        """Return the number of the first record whose number is not below a limit, or None where all are.

        Args:
            records: whole records, one after the other.
            record_bytes: bytes of one record.
            offset: where in the record the number begins.
            nbytes: its bytes, 4 at least; it is little-endian.
            limit: below 2^(8 nbytes).
        """
        count = records.nbytes // record_bytes
        address = address_of(records) + offset
        threads = len(os.sched_getaffinity(0))
        packed = limit.to_bytes(nbytes, "little")
        found = self.call("first_not_below", address, count, record_bytes, nbytes, packed, threads)
        return found if found < count else None

    def output(self, name: str, nbytes: int, *arguments: int | bytes) -> bytes:
        """Call a function whose last argument is where it writes; return what it wrote."""
        out = ctypes.create_string_buffer(nbytes)
        self._functions[name](*arguments, ctypes.addressof(out))
        return out.raw


def native_source(curve: Curve) -> str:
    """Return the source file of a curve's functions."""
    return f"native/{curve.ident}.cpp"


@cache
def native(curve: Curve) -> Native:
    """Return the functions of a curve, loaded once.

    Raises:
        DeviceError: they cannot be built or loaded.
    """
    return Native(curve)


def built(curve: Curve) -> Native | None:
    """Return the functions of a curve where they have been built, and can be loaded."""
    with suppress(DeviceError, LookupError):
        return _built(curve)
    return None


@cache
def _built(curve: Curve) -> Native:
    """Return the functions of a curve.

    Raises:
        LookupError: they have not been built. That is not remembered, for they may be later.
        DeviceError: they cannot be loaded.
    """
    if find_built((native_source(curve),)) is None:
        raise LookupError(curve.ident)
    return native(curve)


def montgomery_bytes(curve: Curve, value: int) -> bytes:
    """Return a scalar field element as kernels keep it."""
    return ((value << 8 * curve.n8r) % curve.r).to_bytes(curve.n8r, "little")


class _PyBuffer(ctypes.Structure):
    """CPython's ``Py_buffer``."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


def address_of(view: memoryview) -> int:
    """Return where the bytes of a view lie, read-only ones too; the view must outlive every use of the address."""
    if view.nbytes == 0:
        return 0
    found = _PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(found), 0)
    try:
        return int(found.buf)
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(found))
