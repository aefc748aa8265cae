"""The points of a key's section that are not infinity: where they are, and the same without gaps."""

import ctypes
from array import array
from functools import cache

from prover.backends.build import build_sources
from prover.errors import DeviceError
from prover.native import address_of

_SOURCE = "host/finite.cpp"


def finite_places(view: memoryview, size: int) -> "array[int]":
    """Return the places of the points that are not infinity.

    Args:
        view: whole points, one after the other.
        size: bytes of a point.

    Raises:
        DeviceError: the function cannot be built or loaded.
    """
    count = len(view) // size
    places = array("I", bytes(4 * (count + 1)))
    found = _library().provewire_finite(address_of(view), size, count, places.buffer_info()[0])
    del places[found:]
    return places


def gathered(view: memoryview, size: int, places: "array[int]", first: int, count: int) -> bytearray:
    """Return the points at some of ``places``, one after the other.

    Args:
        view: whole points, one after the other.
        size: bytes of a point.
        places: from ``finite_places``.
        first: the first of the places to take.
        count: how many.

    Raises:
        DeviceError: the function cannot be built or loaded.
    """
    out = bytearray(count * size)
    if count:
        target = ctypes.addressof((ctypes.c_char * len(out)).from_buffer(out))
        start = places.buffer_info()[0] + first * places.itemsize
        _library().provewire_gather(address_of(view), size, start, count, target)
    return out


@cache
def _library() -> ctypes.CDLL:
    path = build_sources((_SOURCE,))
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise DeviceError(f"{path}: what was built cannot be loaded: {error}; delete the file") from error
    u64, pointer = ctypes.c_uint64, ctypes.c_void_p
    library.provewire_finite.restype = u64
    library.provewire_finite.argtypes = [pointer, u64, u64, pointer]
    library.provewire_gather.restype = None
    library.provewire_gather.argtypes = [pointer, u64, pointer, u64, pointer]
    return library
