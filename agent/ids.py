"""Time-ordered identifiers: UUID version 7 (RFC 9562), made from a clock and random bits passed in."""

import random
import uuid

UNIX_MS_BITS = 48


def uuid7(unix_ms: int, rng: random.Random) -> str:
    """A UUIDv7 in canonical text: 48 bits of milliseconds, then 74 random bits."""
    value = (unix_ms & ((1 << UNIX_MS_BITS) - 1)) << 80
    value |= 0x7 << 76 | rng.getrandbits(12) << 64
    value |= 0b10 << 62 | rng.getrandbits(62)
    return str(uuid.UUID(int=value))
