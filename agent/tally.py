"""What the agent counts of itself while it works, for `agent.metrics`: cheap enough to be always on."""

from collections import Counter

from msgspec import Struct

NAMES_MAX = 64
"""Distinct reasons counted by their own name; a hub that invents more fills no memory."""
OTHER = "other"


class Timing(Struct):
    """How often something was done, and how long it took."""

    count: int = 0
    total_s: float = 0.0
    max_s: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one more."""
        self.count += 1
        self.total_s += seconds
        self.max_s = max(self.max_s, seconds)


class SensorTally(Struct):
    """One sensor's reads."""

    reads: Timing
    failures: int = 0
    last_s: float | None = None
    """When the last good read ended, monotonic."""


class Sensors:
    """All sensors' reads, by the sensor's name."""

    def __init__(self) -> None:
        self.by_name: dict[str, SensorTally] = {}

    def read(self, name: str, began_s: float, ended_s: float, *, good: bool) -> None:
        """Count one read of the sensor ``name``."""
        tally = self.by_name.setdefault(name, SensorTally(reads=Timing()))
        tally.reads.add(max(0.0, ended_s - began_s))
        if good:
            tally.last_s = ended_s
        else:
            tally.failures += 1


class SessionTally:
    """Sessions with the hub, and what was sent in them."""

    def __init__(self) -> None:
        self.opened = 0
        self.ends: Counter[str] = Counter()
        """Attempts and sessions that came to an end, by the reason's name."""
        self.sends = Timing()
        self.bytes_sent = 0

    def ended(self, name: str) -> None:
        """Count the end of a session, or of an attempt to have one."""
        if name.startswith("http_"):
            name = f"http_{name.removeprefix('http_')[:1]}xx"
        known = name in self.ends or len(self.ends) < NAMES_MAX
        self.ends[name if known else OTHER] += 1

    def sent(self, size_bytes: int, seconds: float) -> None:
        """Count one frame the socket has taken."""
        self.sends.add(seconds)
        self.bytes_sent += size_bytes
