"""Faults of our own: each is logged where it happens, and counted here, so that ``/metrics`` shows there was one."""

import threading
from collections import Counter
from collections.abc import Mapping


class Faults:
    """How many faults each part of the process had. Parts run on several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def count(self, part: str) -> None:
        """Note one fault of ``part``: one of `PARTS`."""
        with self._lock:
            self._counts[part] += 1

    def counts(self) -> Mapping[str, int]:
        """Faults by part, since the process started."""
        with self._lock:
            return dict(self._counts)


FAULTS = Faults()
"""Of this process, as its log is one."""
PARTS = ("alerts", "recovery", "request", "session", "ssh", "store", "web")
