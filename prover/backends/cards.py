"""Whether there are cards, found out with nothing but the driver's library: what a proof on a CPU loads as well."""

import ctypes
from typing import Final

LIBRARY: Final = "libcuda.so.1"


def card_count() -> int:
    """Return how many cards the driver has, without making a context and without PyCUDA; 0 where there is no driver."""
    try:
        library = ctypes.CDLL(LIBRARY)
        count = ctypes.c_int()
        if library.cuInit(0) != 0 or library.cuDeviceGetCount(ctypes.byref(count)) != 0:
            return 0
    except (OSError, AttributeError):
        return 0
    return count.value
