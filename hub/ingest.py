"""The one place where what agents say meets: the store first, then memory, then whoever watches.

Events are acknowledged by the session only after ``events`` has returned, which is after the commit. Status lives in
memory; the latest of it is written down coarsely, so that a restarted hub can say when a node was last heard.
"""

import asyncio
from collections.abc import Sequence

import msgspec
import structlog

from hub.bus import Bus, NodeChanged
from hub.clock import Clock
from hub.config import Config
from hub.desk import Desk
from hub.jobs import step_for
from hub.registry import Node, Registry
from hub.store.base import IngestResult, Store, StoreUnavailable
from hub.store.records import StatusNote
from hub.undisturbed import Undisturbed
from wire.frames import Event, Stream
from wire.inputs import StatusReceived
from wire.status import NodeStatus

log = structlog.get_logger(__name__)

_STATUS_JSON = msgspec.json.Decoder(NodeStatus)


class Ingest:
    """From sessions to store, registry, desk and bus."""

    def __init__(self, *, config: Config, clock: Clock, store: Store, registry: Registry, bus: Bus, desk: Desk) -> None:
        self._config = config
        self._clock = clock
        self._store = store
        self._registry = registry
        self._bus = bus
        self._desk = desk
        self._undisturbed = Undisturbed()
        self._to_note: set[str] = set()
        """Agents heard since the last note."""

    async def events(self, agent_id: str, epoch: str, stream: Stream, events: Sequence[Event]) -> IngestResult:
        """Store, commit, apply. Whoever calls this acknowledges ``head`` afterwards."""
        return await self._undisturbed.finish(self._events(agent_id, epoch, stream, events))

    async def _events(self, agent_id: str, epoch: str, stream: Stream, events: Sequence[Event]) -> IngestResult:
        now_ms, limit = self._clock.time_ms(), self._config.attempts_max
        result = await self._store.ingest(
            agent_id, epoch, stream, events, now_ms, lambda body: step_for(body, agent_id, now_ms, limit)
        )
        self._desk.absorb(result.pictures)
        for sentence in result.foreign:
            log.warning("an agent spoke of what is not its own", agent=agent_id, detail=sentence)
            await self._desk.note(agent_id, "foreign.reference", sentence)
        return result

    def status(self, agent_id: str, received: StatusReceived) -> None:
        """Take over a status: memory only."""
        before = self._registry.node(agent_id)
        node = self._registry.reported(agent_id, received.status, received.time_ms)
        self._to_note.add(agent_id)
        if node is None:
            return
        self._bus.publish(NodeChanged(node))
        if before is None or _offer(before) != _offer(node):
            self._desk.wake()

    def heard(self, agent_id: str) -> None:
        """Some frame came."""
        self._registry.heard(agent_id)
        self._to_note.add(agent_id)

    def changed(self, node: Node | None) -> None:
        """A node's picture changed by other means than a status."""
        if node is not None:
            self._bus.publish(NodeChanged(node))
            self._desk.wake()

    # --- the coarse notes

    async def run(self) -> None:
        """Write down who was heard, now and then, for ever."""
        while True:
            await asyncio.sleep(self._config.status_persist_s)
            try:
                await self.note()
            except StoreUnavailable as error:
                log.warning("the last status could not be written down", error=str(error))

    async def note(self) -> None:
        """Write down who was heard since the last time."""
        agents, self._to_note = self._to_note, set()
        notes = [
            StatusNote(
                agent_id=node.id,
                heard_at_ms=node.last_heard_at_ms,
                packed=None if node.status_at_ms is None else msgspec.json.encode(node.status),
            )
            for agent_id in agents
            if (node := self._registry.node(agent_id)) is not None and node.last_heard_at_ms is not None
        ]
        if notes:
            await self._store.note_status(notes)


def _offer(node: Node) -> tuple[object, ...]:
    """What the dispatcher looks at."""
    return (node.state, node.proves, node.status.workers)


def read_status(packed: bytes | None) -> NodeStatus | None:
    """A noted status; None if there is none, or an older version wrote what cannot be read any more."""
    if packed is None:
        return None
    try:
        return _STATUS_JSON.decode(packed)
    except msgspec.MsgspecError:
        return None
