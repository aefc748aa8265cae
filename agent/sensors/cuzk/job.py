"""One job of the daemon, as it is followed from answer to answer."""

from enum import StrEnum

from msgspec import Struct

from agent.sensors.cuzk.answer import Partition
from agent.sensors.cuzk.steady import Moment
from wire.engines import EngineJobState


class Sure(StrEnum):
    """How sure a conclusion is."""

    CERTAIN = "certain"
    LIKELY = "likely"
    SUSPECTED = "suspected"


class Job(Struct):
    """One job that is listed, or was in the last answer."""

    id: str
    kind: str
    began: Moment
    total: int
    """Partitions it is to have."""
    states: tuple[str, ...]
    partitions: list[Partition]
    moved_s: float
    """When anything of it last changed; when it was first seen, at first."""
    advanced: bool
    """Whether a change of it was ever seen."""
    passed_by_s: float
    """When a younger job of its kind last went on."""
    whole_s: float | None
    """Since when all partitions are done."""
    watched: bool
    """Whether it was seen before it was whole."""
    orphans: dict[int, float]
    """Since when a partition on the GPU has no worker."""
    fate: EngineJobState = EngineJobState.RUNNING
    sure: Sure = Sure.CERTAIN
    why: str = ""
    culprit: int | None = None
    """The partition that brought it down, if that is known."""
    ended_s: float = 0.0
    counted: bool = False
    """Whether the daemon itself counts its failure."""

    @property
    def open(self) -> bool:
        """Whether no end of it has been told."""
        return self.fate is EngineJobState.RUNNING
