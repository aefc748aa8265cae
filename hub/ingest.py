"""The one place where what agents say meets: the store first, then memory, then whoever watches.

Events are acknowledged by the session only after ``events`` has returned, which is after the commit. Status lives in
memory; the latest of it is written down coarsely, so that a restarted hub can say when a node was last heard.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec
import structlog

from hub.backlog import Settled
from hub.bus import Bus, LogsStored, NodeChanged
from hub.clock import Clock
from hub.config import Config
from hub.desk import Desk
from hub.jobs import step_for
from hub.node_time import NodeClock, NodeClocks
from hub.quotas import QuotaLimits, Quotas
from hub.registry import Node, Registry
from hub.store.base import IngestResult, Store, StoreUnavailable
from hub.store.records import StatusNote
from hub.store.sql_intake import nothing_to_apply
from hub.undisturbed import Undisturbed
from wire.frames import Event, Stream
from wire.inputs import EventsReceived, StatusReceived
from wire.picture import Picture
from wire.status import NodeStatus

log = structlog.get_logger(__name__)

NOTES_AT_ONCE = 50
"""Whole statuses put into words without a pause: some milliseconds of the event loop."""

CLOCKS_EVERY_MS = 500
"""Between two comparisons of a node's clocks with ours: a status that follows sooner tells nothing new of them."""

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
        self._clocks = NodeClocks()
        self.quotas = Quotas(
            clock,
            QuotaLimits(
                events_per_s=config.node_events_per_s,
                events_burst=config.node_events_burst,
                event_bytes_per_day=config.node_event_bytes_per_day,
                log_bytes_per_day=config.node_log_bytes_per_day,
                reading_bytes_per_day=config.node_reading_bytes_per_day,
            ),
        )
        self.hinted: Callable[[str], None] = lambda _agent_id: None
        """Told of a node whose picture says how its sshd can be reached."""
        self._to_note: set[str] = set()
        """Agents heard since the last note."""

    async def events(self, agent_id: str, received: EventsReceived) -> IngestResult:
        """Store, commit, apply. Whoever calls this acknowledges ``head`` afterwards.

        A node beyond its quota waits here, so that its next events wait in its own outbox.
        """
        epoch, stream, events = received.epoch, received.stream, received.events
        verdict = self.quotas.judge(agent_id, epoch, stream, len(events), received.size_bytes)
        if verdict.news:
            log.warning("a node is slowed down", agent=agent_id, stream=stream.value)
            await self._desk.note(agent_id, "quota.slowed", verdict.news)
        if verdict.wait_s > 0.0:
            await asyncio.sleep(verdict.wait_s)
        if stream is Stream.JOBS:
            return await self._undisturbed.finish(self._job_events(agent_id, epoch, events))
        now_ms = self._clock.time_ms()
        result = await self._store.ingest(
            agent_id,
            epoch,
            stream,
            events,
            now_ms,
            nothing_to_apply,
            sampled_at=self._sampled_at(agent_id, epoch, stream, now_ms),
            left_out=verdict.left_out,
        )
        if stream is Stream.LOGS and result.stored:
            self._bus.publish(LogsStored(agent_id, result.head))
        return result

    def events_soon(self, agent_id: str, received: EventsReceived, settled: Settled) -> bool:
        """The same, without a task, for what only has to be stored. False: it is for ``events``; nothing was done."""
        epoch, stream, events = received.epoch, received.stream, received.events
        if stream is Stream.JOBS:
            return False
        if not self.quotas.admits(agent_id, epoch, stream, len(events), received.size_bytes):
            return False
        now_ms = self._clock.time_ms()

        def stored(outcome: IngestResult | BaseException) -> None:
            if isinstance(outcome, BaseException):
                settled(received, outcome)
                return
            if stream is Stream.LOGS and outcome.stored:
                self._bus.publish(LogsStored(agent_id, outcome.head))
            settled(received, outcome.head)

        sampled_at = self._sampled_at(agent_id, epoch, stream, now_ms)
        if self._store.ingest_soon(agent_id, epoch, stream, events, now_ms, stored, sampled_at):
            return True
        self.quotas.give_back(agent_id, stream, len(events), received.size_bytes)
        return False

    def _sampled_at(self, agent_id: str, epoch: str, stream: Stream, now_ms: int) -> Callable[[Event], int] | None:
        """When readings of a node were made."""
        node_clock = self._node_clock(agent_id) if stream is Stream.READINGS else None
        return None if node_clock is None else lambda event: node_clock.time_ms(epoch, event, now_ms)

    async def _job_events(self, agent_id: str, epoch: str, events: Sequence[Event]) -> IngestResult:
        now_ms, limit = self._clock.time_ms(), self._config.attempts_max
        result = await self._store.ingest(
            agent_id, epoch, Stream.JOBS, events, now_ms, lambda body: step_for(body, agent_id, now_ms, limit)
        )
        self._desk.absorb(result.pictures)
        for sentence in result.foreign:
            log.warning("an agent spoke of what is not its own", agent=agent_id, detail=sentence)
            await self._desk.note(agent_id, "foreign.reference", sentence)
        return result

    def _node_clock(self, agent_id: str) -> NodeClock | None:
        node = self._registry.node(agent_id)
        return None if node is None else self._clocks.of(agent_id, node.epoch)

    def forget(self, agent_id: str) -> None:
        """The node is revoked."""
        self.quotas.forget(agent_id)
        self._clocks.forget(agent_id)

    def status(self, agent_id: str, received: StatusReceived) -> None:
        """Take over a status: memory only."""
        before = self._registry.node(agent_id)
        if before is None:
            return
        now_ms = self._clock.time_ms()
        state_before, told_ms = before.state, before.status_at_ms
        compared = told_ms is None or not 0 <= now_ms - told_ms < CLOCKS_EVERY_MS
        node = self._registry.reported(agent_id, received.picture, received.time_ms if compared else None, now_ms)
        if node is None:
            return
        self._to_note.add(agent_id)
        if compared:
            self._clocks.of(agent_id, node.epoch).heard(received.monotonic_ns, now_ms)
        if received.told:
            if received.tells("ssh"):
                self.hinted(agent_id)
            if (cards := received.cards) is not None:
                self._registry.remarks.cards(agent_id, cards)
        state_changed = node.state is not state_before
        if state_changed or received.of_state:
            self._bus.publish(NodeChanged(node, of_state=True, jobs=received.tells("jobs")))
            if state_changed or received.tells("workers", "draining"):
                self._desk.wake()
        elif self._bus.readings_wanted:
            self._bus.publish(NodeChanged(node, of_state=False, jobs=False))

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
        agents, self._to_note = sorted(self._to_note), set()
        for start in range(0, len(agents), NOTES_AT_ONCE):
            notes = [
                StatusNote(
                    agent_id=node.id,
                    heard_at_ms=node.last_heard_at_ms,
                    packed=None if node.status_at_ms is None else _noted(node),
                )
                for agent_id in agents[start : start + NOTES_AT_ONCE]
                if (node := self._registry.node(agent_id)) is not None and node.last_heard_at_ms is not None
            ]
            if notes:
                await self._store.note_status(notes)


def _noted(node: Node) -> bytes:
    """Its status as JSON. A picture is put to rest on the way: packed, it takes a tenth of the memory."""
    return node.said.rest() if isinstance(node.said, Picture) else msgspec.json.encode(node.said)


def read_status(packed: bytes | None) -> NodeStatus | None:
    """A noted status; None if there is none, or an older version wrote what cannot be read any more."""
    if packed is None:
        return None
    try:
        return _STATUS_JSON.decode(packed)
    except msgspec.MsgspecError:
        return None
