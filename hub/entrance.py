"""Who may come in, and who replaces whom: the hub's part of the handshake.

One identity has one session. A newcomer with the same key replaces the old session when it comes from the same boot of
the same machine, or when the old one has fallen silent. From another machine, while the old one is alive, it is
refused: a cloned image. Two that share even the boot id and replace each other again and again are found by
`hub.clones`; the one that was there first stays. Both addresses are kept with the node.
"""

import asyncio
from typing import Protocol

import msgspec
import structlog

from hub.clock import Clock
from hub.clones import Clones, Identity
from hub.config import Config
from hub.desk import Desk
from hub.ids import uuid7
from hub.ingest import Ingest
from hub.liveness import Limits
from hub.rates import TokenBucket
from hub.registry import Registry
from hub.session import Life
from hub.store.base import Store
from hub.store.records import Agent, Hub, SessionRow
from hub.tempo import limits_of, tempo
from wire.events import streams_of
from wire.frames import Hello, Level, Stream, StreamHave, Welcome
from wire.limits import FRAME_BYTES_MAX, MINOR_VERSION
from wire.reasons import Reason

log = structlog.get_logger(__name__)

TAKEOVER_S = 5.0
"""For the old session's last events to be committed before the new one is told what the hub has."""
UNKNOWN_WAIT_S = 60.0
"""How long an agent stays away that the hub does not know, or knows as revoked."""
SESSIONS_PER_S = 0.5
"""New sessions of one agent: each writes to the store, and one that begins anew for ever must not fill it."""
SESSIONS_BURST = 30
ALARM_EVERY_S = 600.0
"""Between two alarms about the same node's clone: it knocks for as long as nobody looks."""

Key = tuple[str, Stream]
"""A stream of an epoch."""


class Inside(Protocol):
    """What the entrance leads to: `hub.sessions.Sessions`."""

    @property
    def stopping(self) -> bool:
        """Whether newcomers are turned away."""

    @property
    def reconnect_spread_s(self) -> float:
        """Over how many seconds agents spread their return."""

    def life(self, agent_id: str) -> Life | None:
        """An agent's open session."""

    async def entered(self, life: Life, agent: Agent, hello: Hello, limits: Limits, stored: dict[Key, int]) -> None:
        """A session is open."""


class Entrance:
    """Looks agents up, and welcomes or refuses them."""

    def __init__(
        self,
        *,
        config: Config,
        clock: Clock,
        hub: Hub,
        store: Store,
        registry: Registry,
        ingest: Ingest,
        desk: Desk,
        inside: Inside,
    ) -> None:
        self._config = config
        self._clock = clock
        self._hub = hub
        self._store = store
        self._registry = registry
        self._ingest = ingest
        self._desk = desk
        self._inside = inside
        self._entering: dict[str, asyncio.Lock] = {}
        """One newcomer of an identity at a time."""
        self._rates: dict[str, TokenBucket] = {}
        """How fast each agent opens sessions."""
        self._clones = Clones()
        self._alarmed_s: dict[str, float] = {}

    def forget(self, agent_id: str) -> None:
        """A node is revoked."""
        self._clones.forget(agent_id)
        self._rates.pop(agent_id, None)
        self._alarmed_s.pop(agent_id, None)

    def forget_old(self, now_s: float) -> None:
        """What no longer matters."""
        self._clones.forget_old(now_s)

    async def open(self, life: Life, hello: Hello) -> None:
        """Let an agent in, or refuse it with a numbered reason."""
        agent = await self._store.agent(hello.agent_id)
        if life.over:
            return
        if self._inside.stopping:
            life.refuse(Reason.HUB_STOPPING, "the hub is stopping", self._inside.reconnect_spread_s)
        elif agent is None:
            log.warning("an unknown agent knocked", agent=hello.agent_id, remote=life.channel.remote)
            life.refuse(Reason.UNKNOWN_AGENT, Reason.UNKNOWN_AGENT.sentence, UNKNOWN_WAIT_S)
        elif not life.authenticate(agent.id, agent.public_key):
            log.warning("a bad signature", agent=agent.id, remote=life.channel.remote)
        elif agent.revoked_at_ms is not None:
            life.refuse(Reason.REVOKED, Reason.REVOKED.sentence, UNKNOWN_WAIT_S)
        elif (wait_s := self._rate(agent.id).take()) > 0.0:
            life.refuse(Reason.OVERLOADED, "this agent opens sessions too often", wait_s)
        else:
            await self._one_at_a_time(life, agent, hello)

    def _rate(self, agent_id: str) -> TokenBucket:
        if agent_id not in self._rates:
            self._rates[agent_id] = TokenBucket(self._clock, SESSIONS_PER_S, SESSIONS_BURST)
        return self._rates[agent_id]

    async def _one_at_a_time(self, life: Life, agent: Agent, hello: Hello) -> None:
        async with self._entering.setdefault(agent.id, asyncio.Lock()):
            if await self._make_way(life, agent, hello):
                await self._welcome(life, agent, hello)

    async def _welcome(self, life: Life, agent: Agent, hello: Hello) -> None:
        keys = {(held.epoch, held.stream) for held in hello.held} | {
            (hello.epoch, stream) for stream in streams_of(life.minor)
        }
        heads = await self._store.heads(agent.id, sorted({epoch for epoch, _ in keys}))
        stored = {(head.epoch, Stream(head.stream)): head.seq for head in heads}
        agents = self._registry.expected
        told = tempo(self._config, agents)
        welcome = Welcome(
            session=uuid7(self._clock.time_ms()),
            hub_id=self._hub.id,
            generation=self._hub.generation,
            minor=MINOR_VERSION,
            heartbeat_s=told.heartbeat_s,
            stale_after_s=told.stale_after_s,
            lost_after_s=told.lost_after_s,
            reconnect_spread_s=told.reconnect_spread_s,
            readings_s=told.readings_s,
            sample_s=told.sample_s,
            frame_bytes_max=FRAME_BYTES_MAX,
            time_ms=self._clock.time_ms(),
            have=[StreamHave(epoch=epoch, stream=stream, seq=stored.get((epoch, stream), 0)) for epoch, stream in keys],
        )
        if life.welcome(welcome):
            await self._inside.entered(life, agent, hello, limits_of(self._config, told, agents), stored)

    async def _make_way(self, life: Life, agent: Agent, hello: Hello) -> bool:
        """End the identity's old session, or refuse the new one."""
        old = self._inside.life(agent.id)
        if old is None:
            return True
        now_s = self._clock.monotonic()
        alive = old.live and now_s - old.heard_s < self._config.stale_after_s
        newcomer = Identity(hello.epoch, life.channel.remote)
        holder = Identity(old.hello.epoch, old.channel.remote)
        if alive and (old.hello.boot_id != hello.boot_id or self._clones.banned(agent.id, newcomer)):
            await self._refuse_clone(life, agent, hello, old)
            return False
        if not alive:
            self._clones.forget(agent.id)
        found = self._clones.takes_over(agent.id, old=holder, old_since_s=old.since_s, new=newcomer, now_s=now_s)
        if found is not None and found.goes == newcomer:
            await self._refuse_clone(life, agent, hello, old)
            return False
        if found is None:
            old.end(Reason.REPLACED, f"a new session from {life.channel.remote} took over")
        else:
            sentence = _clone_sentence(found.goes.remote, found.stays.remote)
            await self._alarm(agent.id, sentence)
            old.end(Reason.DUPLICATE_IDENTITY, sentence, self._config.stale_after_s)
        try:
            async with asyncio.timeout(TAKEOVER_S):
                await old.finished()
        except TimeoutError:
            life.refuse(Reason.OVERLOADED, "the old session's last events are not committed yet", TAKEOVER_S)
            return False
        return True

    async def _refuse_clone(self, life: Life, agent: Agent, hello: Hello, holder: Life) -> None:
        sentence = _clone_sentence(life.channel.remote, holder.channel.remote)
        log.warning("a duplicate identity", agent=agent.id, remote=life.channel.remote, holder=holder.channel.remote)
        if await self._alarm(agent.id, sentence):
            now_ms = self._clock.time_ms()
            refused = msgspec.structs.replace(
                self.row(life, agent, hello),
                id=uuid7(now_ms),
                closed_at_ms=now_ms,
                reason_code=int(Reason.DUPLICATE_IDENTITY),
                reason_detail=sentence,
            )
            await self._store.refused_session(refused)
        life.refuse(Reason.DUPLICATE_IDENTITY, sentence, self._config.stale_after_s)

    async def _alarm(self, agent_id: str, sentence: str) -> bool:
        """Keep with the node that it has a double; False if that was said lately."""
        now_s = self._clock.monotonic()
        self._ingest.changed(self._registry.refused(agent_id, Reason.DUPLICATE_IDENTITY, sentence))
        if now_s - self._alarmed_s.get(agent_id, -ALARM_EVERY_S) < ALARM_EVERY_S:
            return False
        self._alarmed_s[agent_id] = now_s
        await self._desk.note(agent_id, "identity.duplicate", sentence, Level.ERROR)
        await self._store.note_reason(agent_id, self._clock.time_ms(), Reason.DUPLICATE_IDENTITY, sentence)
        return True

    def row(self, life: Life, agent: Agent, hello: Hello) -> SessionRow:
        """A session as it begins."""
        return SessionRow(
            id=life.session_id,
            agent_id=agent.id,
            opened_at_ms=self._clock.time_ms(),
            generation=self._hub.generation,
            remote=life.channel.remote,
            boot_id=hello.boot_id,
            epoch=hello.epoch,
        )


def _clone_sentence(newcomer: str, holder: str) -> str:
    return (
        f"a second process with this node's key came from {newcomer} while the one at {holder} is alive, and was sent "
        "away; enrol one of the two anew, mostly it is a copied disk"
    )
