"""What the store keeps for alerts: an interface, and what its answers look like."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from hub.alerts.facts import Rule
from hub.alerts.records import Alert, AlertState, Channel, Notice, Silence, Watched
from hub.alerts.rules import Limits


class AlertsKept(Struct, frozen=True, kw_only=True):
    """What a hub that starts has to know."""

    limits: Mapping[Rule, Limits]
    """Rules that were changed; the others are as declared."""
    watched: tuple[Watched, ...]
    alerts: tuple[Alert, ...]
    """Those that fire."""
    silences: tuple[Silence, ...]
    """Those that are not over."""
    channels: tuple[Channel, ...]


class AlertChange(Struct, frozen=True, kw_only=True):
    """Rows that belong together: what was found, and what is told of it."""

    watched: Sequence[Watched] = ()
    gone: Sequence[tuple[Rule, str]] = ()
    alerts: Sequence[Alert] = ()
    notices: Sequence[Notice] = ()
    looked_at_ms: int | None = None
    """When; kept so that a store that can only be read is noticed."""


class FailingCircuit(Struct, frozen=True, kw_only=True):
    """A circuit with jobs that lately failed for good, and none that was done since."""

    circuit_id: str
    name: str
    failed: int
    last_job: str
    last_detail: str


class JobsGlance(Struct, frozen=True, kw_only=True):
    """What alerts look at of all jobs."""

    oldest_queued_at_ms: int | None
    failing: tuple[FailingCircuit, ...]
    well: tuple[tuple[str, str], ...] = ()
    """Circuits, id and name, whose latest job was done."""


class AlertStore(Protocol):
    """Alerts and what belongs to them. A call returns when what it writes is committed."""

    async def load(self, now_ms: int) -> AlertsKept:
        """Everything that goes on."""

    async def keep(self, change: AlertChange) -> None:
        """Write rows, all or none."""

    async def save_limits(self, rule: Rule, limits: Limits | None) -> None:
        """Change a rule; None: as declared."""

    async def save_silence(self, silence: Silence) -> None:
        """A new one, or one changed."""

    async def silences(self, *, before: str = "", limit: int) -> list[Silence]:
        """Newest first, those that are over too."""

    async def save_channel(self, channel: Channel) -> None:
        """A new one, or one changed."""

    async def delete_channel(self, channel_id: str) -> None:
        """With all that waits for it."""

    async def alert(self, alert_id: str) -> Alert | None:
        """One, ended ones too."""

    async def alerts(self, *, state: AlertState | None = None, before: str = "", limit: int) -> list[Alert]:
        """Newest first."""

    async def due(self, now_ms: int, *, limit: int) -> list[Notice]:
        """Notices that wait and are due, oldest first."""

    async def waiting(self) -> int:
        """How many wait, due or not."""

    async def tried(self, notices: Sequence[Notice], channel: Channel | None) -> None:
        """Write down what became of some, and of their channel, if it is still there."""

    async def notices(self, *, alert_id: str = "", before: str = "", limit: int) -> list[Notice]:
        """Newest first; of one alert, or all."""

    async def glance(self, since_ms: int) -> JobsGlance:
        """What jobs look like; failures are those since then."""

    async def expire(self, before_ms: int, *, limit: int) -> int:
        """Give up ended alerts, notices and silences of before; how many."""
