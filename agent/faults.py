"""Faults of our own: each is logged where it happens, and counted here, so that ``/metrics`` shows there was one."""

from collections import Counter
from typing import Final

PARTS: Final = ("engine", "local")
"""What may have one: reading other engines, and the local view."""
FAULTS: Final = Counter(dict.fromkeys(PARTS, 0))
"""Of this process, as its log is one; counted on its loop only."""
