"""Log records as the store gives them, and what may be asked of them."""

from collections.abc import Sequence

from msgspec import Struct

from wire.frames import Level


class StoredLog(Struct, frozen=True, kw_only=True):
    """One record as it lies in the store."""

    id: int
    agent_id: str
    epoch: str
    seq: int
    time_ms: int
    """By the node's clock."""
    received_at_ms: int
    level: Level
    source: str
    text: str
    fields: str
    """JSON."""
    gap: int | None
    """For a place where the node gave records up: how many."""


class LogFilter(Struct, frozen=True, kw_only=True):
    """Which records are wanted."""

    since_ms: int | None = None
    """Received at or after."""
    until_ms: int | None = None
    """Received before."""
    level: Level = Level.DEBUG
    """At least. A gap is of every level: what was in it is not known."""
    source: str = ""
    """Exactly, or the beginning up to a colon (``worker`` for ``worker:host``)."""
    contains: str = ""
    """In the text, whatever the case of its letters."""

    @property
    def selective(self) -> bool:
        """Whether it passes over records within its range."""
        return self.level is not Level.DEBUG or bool(self.source or self.contains)


class LogPage(Struct, frozen=True):
    """Some records, and where to go on. It may be empty and yet not the last."""

    logs: Sequence[StoredLog]
    next: int | None
    """The id after which the next page begins; None when there is nothing more now."""
    reached: int = 0
    """Oldest first: the highest id that was looked at, for whoever comes again when there is more."""
