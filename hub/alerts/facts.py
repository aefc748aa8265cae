"""What the rules of alerts look at, as it is at one moment; pure."""

from enum import StrEnum

from msgspec import Struct

HUB = "hub"
"""The subject of what is true of the hub itself."""


class Rule(StrEnum):
    """What an alert may be about."""

    NODE_LOST = "node_lost"
    FALLBACK_BROKEN = "fallback_broken"
    GPU_FAULT = "gpu_fault"
    GPU_TEMPERATURE = "gpu_temperature"
    GPU_THROTTLING = "gpu_throttling"
    JOB_FAILING = "job_failing"
    QUEUE_AGE = "queue_age"
    OUTBOX_GROWING = "outbox_growing"
    CLOCK_SKEW = "clock_skew"
    DUPLICATE_IDENTITY = "duplicate_identity"
    DISK_FORECAST = "disk_forecast"
    HUB_STORE = "hub_store"
    HUB_DISK = "hub_disk"
    HUB_LAG = "hub_lag"
    HUB_OVERLOAD = "hub_overload"
    HUB_SELFCHECK = "hub_selfcheck"
    NOTICE_UNDELIVERED = "notice_undelivered"


class Severity(StrEnum):
    """How much an alert matters."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """The larger, the worse."""
        return SEVERITIES.index(self)


SEVERITIES = tuple(Severity)


class Condition(StrEnum):
    """How a fact looks to its rule."""

    BAD = "bad"
    GOOD = "good"
    HOLD = "hold"
    """Between the two thresholds, or unknown now: whatever held before still holds."""


class Fact(Struct, frozen=True, kw_only=True):
    """One subject as one rule sees it."""

    rule: Rule
    subject: str
    """A node's id, a circuit's, `HUB`, or a named part of the hub."""
    name: str
    """The subject, for people."""
    condition: Condition
    node_id: str = ""
    detail: str = ""
    """One sentence, with the numbers."""
    cause: str = ""
    """Subjects with one cause belong together."""
    common: bool = False
    """The hub knows that the cause is one for many: an incident, a mass drop."""
    remedy: str = ""
    """Where it is another than the rule's own."""


class Picture(Struct, frozen=True, kw_only=True):
    """All facts of one moment."""

    facts: tuple[Fact, ...]
    unsure: frozenset[Rule] = frozenset()
    """Rules about which nothing can be said now. Of any other rule a subject without a fact is gone."""
