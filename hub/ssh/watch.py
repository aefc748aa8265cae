"""What the hub does about its ways in by itself: proves them, looks after lost nodes, and examines its own side.

One tick decides, by `hub.ssh.readiness` and `hub.ssh.probing`; each look and each login is a task of its own, so many
at the same time. A look ends at once when the node's session is back. While the hub is in trouble itself it tries
nothing: what it would find out is about itself. Nothing here ever decides that a node is online.
"""

import asyncio
import random
import secrets
from collections.abc import Callable, Coroutine
from typing import Any

import structlog
from msgspec import Struct

from hub.bus import Bus, IncidentsChanged, NodeChanged
from hub.clock import Clock
from hub.config import Config
from hub.faults import FAULTS
from hub.liveness import NodeState
from hub.registry import Registry
from hub.ssh.book import HUB, Asked
from hub.ssh.cause import Cause
from hub.ssh.desk import Busy, NoWayIn, SshDesk
from hub.ssh.looking import PURPOSE, Ladder, ladder_of, script
from hub.ssh.probing import Probes, trouble
from hub.ssh.reach import State
from hub.ssh.readiness import Rehearsals
from hub.ssh.verdict import Incident, Problem
from hub.store.base import Store, StoreError
from wire.signed_status import NONCE_BYTES

log = structlog.get_logger(__name__)

TICK_S = 0.5
SETTLE_S = 10.0
"""For which the hub has to run without a hitch before it tries anything."""
TELL_EVERY_TICKS = 4
"""What operators changed is told so often; what the hub's own attempts changed, at the next tick."""
EXAMINE_AGAIN_S = 2.0
"""Between two examinations, however much there is to examine."""
REHEARSALS_SHARE = 4
"""Of the places for the hub's own attempts one in so many is for logins at nodes that are well."""
LADDERS_LOOKED_THROUGH = 50
"""A node's latest attempts, among which the last look is found after a restart."""
LOGIN = "true"
REHEARSAL = "rehearsal"
CANARY = "canary"


class Canary(Struct, frozen=True):
    """A node that was well when many were not: whether it still lets the hub in."""

    node_id: str
    at_ms: int
    cause: Cause
    let_in: bool


class Watch:
    """Ticks for ever."""

    def __init__(
        self,
        *,
        config: Config,
        clock: Clock,
        registry: Registry,
        desk: SshDesk,
        store: Store,
        bus: Bus,
        rng: random.Random | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._registry = registry
        self._desk = desk
        self._store = store
        self._bus = bus
        self._places = config.ssh_probes_max
        self._probes = Probes(config.ssh_probe_after_s, rng or random.SystemRandom())
        self._rehearsals = Rehearsals(config.ssh_rehearse_s)
        self._settle_s = min(SETTLE_S, config.lost_after_s)
        self._looks: dict[str, asyncio.Task[None]] = {}
        self._logins: dict[str, asyncio.Task[None]] = {}
        self._ladders: dict[str, Ladder] = {}
        self._examine = asyncio.Event()
        self._ticks_made = 0
        self._news = False
        self._told: tuple[list[Incident], list[Problem]] = ([], [])
        self._mass_drops = registry.drops.mass_drops
        self.paused = ""
        """Why nothing is tried now; empty while something may be."""
        self.looks_made = 0
        """By the hub itself."""
        self.looks_ended = 0
        """Of them those that ended because the session was back."""
        self.examined_at_ms: int | None = None
        self.started_at_ms = clock.time_ms()
        self.canary: Canary | None = None
        """What became of the one sent out for the latest incident."""

    @property
    def under_way(self) -> int:
        """Looks and logins of the hub's own."""
        return len(self._looks) + len(self._logins)

    @property
    def lost(self) -> int:
        """Lost nodes with a way in, which are looked after."""
        return len(self._probes)

    @property
    def told(self) -> tuple[list[Incident], list[Problem]]:
        """Incidents, and what is wrong on this side: as last told."""
        return self._told

    async def run(self) -> None:
        """Tick, and examine this side, for ever."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._ticks())
                tasks.create_task(self._examinations())
        finally:
            running = [*self._looks.values(), *self._logins.values()]
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _ticks(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.tick()

    # --- what is due

    def tick(self) -> None:
        """End what is not wanted any more; begin what is due."""
        now_s, now_ms = self._clock.monotonic(), self._clock.time_ms()
        for node_id, task in self._looks.items():
            if self._registry.state(node_id) is not NodeState.LOST and task.cancel():
                self.looks_ended += 1
        self._ticks_made += 1
        if self._news or self._ticks_made % TELL_EVERY_TICKS == 0:
            self._tell()
        drops = self._registry.drops
        if drops.mass_drops != self._mass_drops:
            self._mass_drops = drops.mass_drops
            self._examine.set()
        nodes = self._registry.nodes()
        self._ladders = {node.id: self._ladders[node.id] for node in nodes if node.id in self._ladders}
        lost = {node.id for node in nodes if node.state is NodeState.LOST and self._desk.target(node.id) is not None}
        looks = self._probes.due(lost, now_s)
        self._hasten(lost, now_s)
        self.paused = trouble(
            now_s=now_s,
            listening_since_s=self._registry.listening.since_s,
            settle_s=self._settle_s,
            mass_drop=drops.under_way(now_s),
        )
        if self.paused:
            return
        for node_id in looks:
            if self.under_way >= self._places:
                return
            if node_id not in self._looks and node_id not in self._logins:
                self.looks_made += 1
                self._begin(self._looks, node_id, self._look(node_id))
        self._rehearse(lost, now_ms)

    def _hasten(self, lost: set[str], now_s: float) -> None:
        """Where the way in works again, a lost node is looked at now."""
        for node_id in lost:
            ladder, reach = self._ladders.get(node_id), self._desk.readiness(node_id)
            if ladder is not None and not ladder.reached and (reach.proved_at_ms or 0) > ladder.at_ms:
                self._probes.hasten(node_id, now_s)

    def _rehearse(self, lost: set[str], now_ms: int) -> None:
        """Logins that are due: at lost nodes only where something was changed, since looks try the way anyway."""
        opened_ms = {node.id: node.session_opened_at_ms or 0 for node in self._registry.nodes()}
        ways = [
            reach
            for reach in self._desk.book.reaches()
            if reach.node_id in opened_ms
            and (reach.node_id not in lost or self._rehearsals.changed_ms(reach) is not None)
        ]
        for node_id in self._rehearsals.due(ways, now_ms, opened_ms):
            if self.under_way >= self._places or len(self._logins) >= max(1, self._places // REHEARSALS_SHARE):
                return
            if node_id not in self._looks and node_id not in self._logins:
                self._begin(self._logins, node_id, self._login(node_id))

    def _begin(self, among: dict[str, asyncio.Task[None]], node_id: str, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        among[node_id] = task
        task.add_done_callback(self._ended(among, node_id))

    def _ended(self, among: dict[str, asyncio.Task[None]], node_id: str) -> Callable[[asyncio.Task[None]], None]:
        def ended(task: asyncio.Task[None]) -> None:
            among.pop(node_id, None)
            self._news = True
            if not task.cancelled() and (error := task.exception()) is not None:
                FAULTS.count("ssh")
                log.error("an attempt of the hub's own failed by a fault of ours", node=node_id, exc_info=error)

        return ended

    # --- what is done

    async def _login(self, node_id: str) -> None:
        """A real login, which proves the way or breaks it."""
        try:
            await self._desk.run(node_id, REHEARSAL, LOGIN, asked_by=HUB.by, fresh=True)
        except (NoWayIn, Busy) as error:
            log.info("a way in was not tried", node=node_id, why=str(error))

    async def _try_canary(self, node_id: str) -> None:
        try:
            record = await self._desk.run(node_id, CANARY, LOGIN, asked_by=HUB.by, fresh=True)
        except (NoWayIn, Busy) as error:
            log.info("the canary was not tried", node=node_id, why=str(error))
            return
        self.canary = Canary(node_id, record.started_at_ms, record.cause, record.way_works)
        self._bus.publish(IncidentsChanged())

    async def _look(self, node_id: str) -> None:
        try:
            await self.look(node_id, HUB)
        except (NoWayIn, Busy, StoreError) as error:
            log.info("a lost node was not looked after", node=node_id, why=str(error))
        finally:
            self._probes.looked(node_id, self._clock.monotonic())

    async def look(self, node_id: str, asked: Asked) -> Ladder:
        """Look after a node now, whatever its state.

        Raises:
            NoWayIn: it has no target.
            Busy: too much is under way; nothing was tried.
            StoreError: who it is cannot be read.
        """
        agent = await self._store.agent(node_id)
        nonce = secrets.token_bytes(NONCE_BYTES)
        record = await self._desk.run(node_id, PURPOSE, script(nonce), asked_by=asked.by, asked_from=asked.from_)
        key = b"" if agent is None else agent.public_key
        ladder, status = await asyncio.to_thread(ladder_of, record, nonce=nonce, agent_key=key)
        self._ladders[node_id] = ladder
        node = self._registry.node(node_id)
        if status is not None:
            # Its picture, and no more than that: no sign of life, no job, nothing acknowledged.
            node = self._registry.told_via_ssh(node_id, status.status, status.time_ms) or node
        if node is not None:
            self._bus.publish(NodeChanged(node))
        log.info("a node was looked after by ssh", node=node_id, attempt=record.id, found=ladder.summary)
        return ladder

    def _send_canary(self, incidents: list[Incident]) -> None:
        """Log in at one node that is in no incident and was well: is it this side, or are it those nodes?"""
        self.canary = None
        taken = {node_id for incident in incidents for node_id in incident.nodes}
        well = [
            reach
            for reach in self._desk.book.reaches()
            if reach.state is State.PROVED
            and reach.node_id not in taken | self._looks.keys() | self._logins.keys()
            and self._registry.state(reach.node_id) is NodeState.ONLINE
        ]
        if well and not self.paused:
            chosen = max(well, key=lambda reach: (reach.proved_at_ms or 0, reach.node_id)).node_id
            self._begin(self._logins, chosen, self._try_canary(chosen))

    async def ladder(self, node_id: str) -> Ladder | None:
        """What the last look found; read from the store after a restart.

        Raises:
            StoreError: it cannot be read.
        """
        if (known := self._ladders.get(node_id)) is not None:
            return known
        for listed in await self._store.ssh_attempts(node_id, limit=LADDERS_LOOKED_THROUGH):
            if listed.purpose == PURPOSE and (record := await self._store.ssh_attempt(listed.id)) is not None:
                found, _ = await asyncio.to_thread(ladder_of, record)
                return self._ladders.setdefault(node_id, found)
        return None

    def known_ladder(self, node_id: str) -> Ladder | None:
        """The same from memory: of this run of the hub."""
        return self._ladders.get(node_id)

    def looking(self, node_id: str) -> bool:
        """Whether the hub looks at a node by itself at this moment."""
        return node_id in self._looks

    def next_look_s(self, node_id: str) -> float | None:
        """Seconds until a lost node is looked at next."""
        due_s = self._probes.next_s(node_id)
        return None if due_s is None else max(0.0, due_s - self._clock.monotonic())

    # --- this side

    async def _examinations(self) -> None:
        while True:
            self._examine.clear()
            await self.examine()
            try:
                async with asyncio.timeout(self._config.ssh_examine_s):
                    await self._examine.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(EXAMINE_AGAIN_S)

    async def examine(self) -> None:
        """Look at the hub's own side once, and tell what is wrong with it."""
        try:
            seen = await self._desk.examine()
        except Exception:
            FAULTS.count("ssh")
            log.exception("the hub could not examine its own side of the way in")
            return
        self.examined_at_ms = self._clock.time_ms()
        # Keys that cannot be read just now are no others: nobody is asked whether they are let in.
        if seen.fingerprints and self._rehearsals.identities(seen.fingerprints, self.examined_at_ms):
            log.warning("the hub's ssh keys are others than before", fingerprints=seen.fingerprints)
        self._tell()

    def _tell(self) -> None:
        """Publish what changed about incidents and this side's problems. A new incident has this side examined."""
        self._news = False
        before, now = self._told, (self._desk.incidents(), self._desk.problems())
        if now == before:
            return
        self._told = now
        old = {incident.cause for incident in before[0]}
        for incident in now[0]:
            if incident.cause not in old:
                self._examine.set()
                self._send_canary(now[0])
                log.error("many nodes, one cause", incident=incident.headline, remedy=incident.remedy)
        known = {(problem.cause, problem.sentence) for problem in before[1]}
        for problem in now[1]:
            if (problem.cause, problem.sentence) not in known:
                log.warning("this side of the way in", problem=problem.sentence, cause=problem.cause.value)
        self._bus.publish(IncidentsChanged())
