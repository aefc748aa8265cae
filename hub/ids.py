"""UUID version 7: ids that sort by the time they were made, so that indexes grow at one end.

RFC 9562 section 5.7: 48 bits of Unix milliseconds, 4 bits of version, 12 random bits, 2 bits of variant, 62 random
bits. Python has its own only from 3.14 on.
"""

import os
import time
import uuid

_TIME_BITS = 48
_VERSION = 0x7
_VARIANT = 0b10


def uuid7(time_ms: int | None = None) -> str:
    """A new id as canonical text, 36 characters.

    Args:
        time_ms: Unix time in milliseconds, 0 .. 2**48 - 1; now, if left out.
    """
    milliseconds = time.time_ns() // 1_000_000 if time_ms is None else time_ms
    if not 0 <= milliseconds < 1 << _TIME_BITS:
        raise ValueError(f"time_ms is {milliseconds}; an id holds 0 .. 2**{_TIME_BITS} - 1")
    random = int.from_bytes(os.urandom(10))
    random_a = random & 0xFFF
    random_b = (random >> 12) & ((1 << 62) - 1)
    value = milliseconds << 80 | _VERSION << 76 | random_a << 64 | _VARIANT << 62 | random_b
    return str(uuid.UUID(int=value))


def least(time_ms: int) -> str:
    """The least id made at a moment or later."""
    digits = f"{max(0, time_ms):012x}"
    return f"{digits[:8]}-{digits[8:]}"


def time_ms_of(identifier: str) -> int:
    """The Unix milliseconds inside an id made by `uuid7`."""
    return uuid.UUID(identifier).int >> 80
