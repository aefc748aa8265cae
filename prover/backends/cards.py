"""Whether there are cards, found out with nothing but the driver's library: what a proof on a CPU loads as well."""

import ctypes
from typing import Final

LIBRARY: Final = "libcuda.so.1"


def card_count() -> int:
    """Return how many cards the driver has, without making a context and without PyCUDA; 0 where there is no driver."""
    return find_cards()[0]


def find_cards() -> tuple[int, str]:
    """Return the same with, where it is 0, the reason in one sentence."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        return 0, f"there is no NVIDIA driver on this machine ({LIBRARY} is not found)"
    count = ctypes.c_int()
    try:
        code = library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count))
    except AttributeError:
        return 0, f"the NVIDIA driver cannot be used: {LIBRARY} is another library"
    if code != 0:
        return 0, f"the NVIDIA driver finds no card it can use: {_words(library, code)}; see what nvidia-smi says"
    return count.value, "" if count.value else "the NVIDIA driver finds no card; see what nvidia-smi says"


def _words(library: ctypes.CDLL, code: int) -> str:
    """Return what the driver calls an error of its own, ``no CUDA-capable device is detected (100)``."""
    text = ctypes.c_char_p()
    try:
        known = library.cuGetErrorString(code, ctypes.byref(text)) == 0
    except AttributeError:
        known = False
    return f"{text.value.decode(errors='replace')} ({code})" if known and text.value else f"error {code}"
