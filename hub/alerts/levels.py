"""How full the hub's queues are, for the rule that watches them."""

from collections.abc import Mapping

from hub.alerts.gather import Level
from hub.artifacts import Artifacts
from hub.config import Config
from hub.desk import Desk
from hub.ports import SessionDesk
from hub.store.base import Store
from hub.verify import WAITING_MAX, Verifier


class Queues:
    """Each beside its bound."""

    def __init__(
        self,
        *,
        config: Config,
        store: Store,
        desk: Desk,
        sessions: SessionDesk,
        artifacts: Artifacts,
        verifier: Verifier,
    ) -> None:
        self._config = config
        self._store = store
        self._desk = desk
        self._sessions = sessions
        self._artifacts = artifacts
        self._verifier = verifier

    def levels(self) -> Mapping[str, Level]:
        """Now, by the names /metrics has for them."""
        store = self._store.stats()
        return {
            "store_writes": Level(store.waiting, store.waiting_max),
            "checks_waiting": Level(self._verifier.waiting, WAITING_MAX),
            "handshakes": Level(self._sessions.unauthenticated, self._config.unauthenticated_max),
            "jobs_open": Level(len(self._desk.dispatch), self._config.jobs_open_max),
            "artifact_bytes": Level(self._artifacts.total_bytes, self._artifacts.total_bytes_max),
        }
