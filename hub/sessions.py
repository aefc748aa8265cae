"""Every session of every agent, and the way of commands to them. Who may come in is decided in `hub.entrance`."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec
import structlog

from hub.backlog import Settled
from hub.bus import Bus
from hub.channels.base import Channel
from hub.clock import Clock
from hub.company import Company
from hub.config import Config
from hub.desk import Desk
from hub.entrance import UNKNOWN_WAIT_S, Entrance, Key
from hub.ingest import Ingest
from hub.keys import Keys, verify_signature
from hub.liveness import Limits
from hub.registry import Registry
from hub.session import Life
from hub.ssh.offers import KeyOffers
from hub.store.base import ForeignReference, Store, StoreError
from hub.store.records import Agent, Attempt, Hub
from hub.tempo import tempo
from hub.traffic import Traffic
from wire.frames import AssignJob, CancelJob, Hello, InstallKey, JobHeld, JobReply, KeyInstalled, Stream
from wire.inputs import EventsReceived, StatusReceived
from wire.reasons import Reason

log = structlog.get_logger(__name__)

SWEEP_S = 1.0
ENDS_MAX = 10_000
"""Ends of sessions that wait for the store. Of more, the row ends when the node's next session, or the hub, begins."""
"""Between two looks at who is late."""


class Sessions:
    """`hub.ports.SessionDesk`, `hub.desk.Courier` and `hub.session.Home` in one: the sessions' side of each."""

    def __init__(
        self,
        *,
        config: Config,
        clock: Clock,
        keys: Keys,
        hub: Hub,
        store: Store,
        registry: Registry,
        bus: Bus,
        ingest: Ingest,
        desk: Desk,
    ) -> None:
        self._config = config
        self._clock = clock
        self._keys = keys
        self._hub = hub
        self._store = store
        self._registry = registry
        self._bus = bus
        self._ingest = ingest
        self._desk = desk
        self._lives: dict[str, Life] = {}
        """Open sessions by agent."""
        self._all: dict[Life, asyncio.Task[None]] = {}
        """Every socket's life and task, strangers' too."""
        self._unopened: dict[Life, bool] = {}
        """Those in the handshake, and whether they named a node of ours: few, however many sessions there are."""
        self._entrance = Entrance(
            config=config, clock=clock, hub=hub, store=store, registry=registry, ingest=ingest, desk=desk, inside=self
        )
        self._missing: dict[Life, _Missing] = {}
        self._sweep_s = min(SWEEP_S, config.lost_after_s / 4)
        self._stopping = False
        self._noting: asyncio.Task[None] | None = None
        self._ends: dict[str, tuple[int, int, str]] = {}
        """What the store did not take of ended sessions: when and why, by session."""
        self._offers = KeyOffers()
        self.traffic = Traffic()
        self._company = Company(clock, self.traffic)

    # --- the door

    @property
    def unauthenticated(self) -> int:
        """Sockets that have not finished the handshake."""
        return len(self._unopened)

    @property
    def strangers(self) -> int:
        """Those of them that named no node of ours."""
        return sum(not known for known in self._unopened.values())

    def strangers_from(self, remote: str) -> int:
        """Those of one address."""
        return sum(not known and life.channel.remote == remote for life, known in self._unopened.items())

    def waiting_s(self) -> list[float]:
        """For how long each of those that named a node of ours has been in the handshake, longest first."""
        now_s = self._clock.monotonic()
        return [now_s - life.since_s for life, known in self._unopened.items() if known]

    @property
    def stopping(self) -> bool:
        """Whether newcomers are turned away."""
        return self._stopping

    async def serve(self, channel: Channel, *, known: bool = False) -> None:
        """One socket, from the challenge to its end; ``known``: its request named a node of ours."""
        life = Life(
            channel=channel,
            home=self,
            config=self._config,
            clock=self._clock,
            traffic=self.traffic,
            company=self._company,
            hub_key=self._keys.public_key,
            sign=self._keys.sign,
            verify=verify_signature,
        )
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine always runs in one
        self._all[life] = task
        self._unopened[life] = known
        try:
            await life.run()
        finally:
            self._all.pop(life, None)
            self._unopened.pop(life, None)

    async def run(self) -> None:
        """See to everyone's deadlines, for ever."""
        while True:
            await asyncio.sleep(self._sweep_s)
            now_s = self._clock.monotonic()
            self._check_times(now_s)
            self._entrance.forget_old(now_s)
            if self._noting is None or self._noting.done():
                self._noting = asyncio.create_task(self._note_late())

    def _check_times(self, now_s: float) -> None:
        # Not in `run`, which would hold the last session on after its end.
        for life in list(self._all):
            life.check_time(now_s)

    async def _note_late(self) -> None:
        """Write down what had to wait."""
        for session_id in list(self._ends):
            await self._note_end(session_id)
        await self._note_remarks()

    async def _note_remarks(self) -> None:
        """Keep with the nodes what the hub remarked about them."""
        for remark in self._registry.remarks.take():
            try:
                await self._desk.note(remark.agent_id, remark.kind, remark.detail, remark.level)
            except StoreError as error:
                log.warning("a remark about a node could not be written down", kind=remark.kind, error=str(error))

    async def stop(self, within_s: float) -> None:
        """Say goodbye to everyone, each with its own wait, and let the last events be committed."""
        self._stopping = True
        tasks = list(self._all.values())
        for life in list(self._all):
            wait_s = random.uniform(0.0, self.reconnect_spread_s)  # noqa: S311 - spreads load, guards nothing
            life.end(Reason.HUB_STOPPING, "the hub is stopping", wait_s)
        if tasks:
            await asyncio.wait(tasks, timeout=within_s)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def reconnect_spread_s(self) -> float:
        """Over how many seconds agents spread their return."""
        return tempo(self._config, self._registry.expected).reconnect_spread_s

    def life(self, agent_id: str) -> Life | None:
        """An agent's open session."""
        return self._lives.get(agent_id)

    # --- SessionDesk and Courier

    def count(self) -> int:
        """Open sessions."""
        return len(self._lives)

    async def end(self, agent_id: str, reason: Reason, detail: str) -> bool:
        """End an agent's session and wait until its queued writes are committed."""
        life = self._lives.get(agent_id)
        if life is not None:
            life.end(reason, detail, UNKNOWN_WAIT_S if reason is Reason.REVOKED else 0.0)
            await life.finished()
        if reason is Reason.REVOKED:
            self._ingest.forget(agent_id)
            self._entrance.forget(agent_id)
            await self._desk.revoked(agent_id)
        return life is not None

    def assign(self, agent_id: str, frame: AssignJob) -> bool:
        """Queue an assignment."""
        life = self._lives.get(agent_id)
        return life is not None and life.assign(frame)

    def cancel(self, agent_id: str, frame: CancelJob) -> bool:
        """Queue a cancellation."""
        life = self._lives.get(agent_id)
        return life is not None and life.cancel(frame)

    async def install_key(self, agent_id: str, *, user: str, public_key: str, within_s: float) -> KeyInstalled | None:
        """Have an agent let the hub's SSH key in; None: it has no session, or does not answer in time."""

        def send(frame: InstallKey) -> bool:
            life = self._lives.get(agent_id)
            return life is not None and life.install_key(frame)

        return await self._offers.ask(agent_id, send, user=user, public_key=public_key, within_s=within_s)

    def key_answered(self, life: Life, answer: KeyInstalled) -> None:
        """What became of it; an answer nobody waits for is passed over."""
        if not self._offers.answered(life.agent_id, answer):
            log.warning("an agent answers what it was not asked", agent=life.agent_id, detail=answer.detail)

    # --- Home: the handshake

    async def open(self, life: Life, hello: Hello) -> None:
        """Let an agent in, or refuse it with a numbered reason."""
        await self._entrance.open(life, hello)

    async def entered(self, life: Life, agent: Agent, hello: Hello, limits: Limits, stored: dict[Key, int]) -> None:
        """A session is open: show it, write it down, and ask after the jobs it left with."""
        self._lives[agent.id] = life
        self._unopened.pop(life, None)
        self.traffic.opened += 1
        log.info("a session opened", agent=agent.id, name=hello.name, session=life.session_id, remote=_remote(life))
        self._registry.add(agent)
        self._ingest.changed(self._registry.opened(agent.id, life.session_id, hello, life.channel.remote, limits))
        life.do(lambda: self._write_down(life, agent, hello))
        owed = {
            held.epoch: held.last
            for held in hello.held
            if held.stream is Stream.JOBS and held.last > stored.get((held.epoch, Stream.JOBS), 0)
        }
        life.do(lambda: self._greet(life, hello, owed))

    async def _write_down(self, life: Life, agent: Agent, hello: Hello) -> None:
        """The session's row; and the check that it was not revoked while it came in."""
        said = msgspec.structs.replace(
            agent,
            name=hello.name,
            boot_id=hello.boot_id,
            epoch=hello.epoch,
            version=hello.version,
            capabilities=tuple(hello.capabilities),
        )
        await self._store.open_session(self._entrance.row(life, agent, hello), said)
        now = await self._store.agent(agent.id)
        if now is None or now.revoked_at_ms is not None:
            life.end(Reason.REVOKED, Reason.REVOKED.sentence, UNKNOWN_WAIT_S)

    async def _greet(self, life: Life, hello: Hello, owed: dict[str, int]) -> None:
        """Sort out the jobs; what is missing is lost only once the outbox has told all it held when it came."""
        missing = await self._desk.greeted(life.agent_id, hello.jobs)
        if missing:
            self._missing[life] = _Missing(missing, owed)
            await self._look_for_missing(life)

    async def _look_for_missing(self, life: Life) -> None:
        waits = self._missing.get(life)
        if waits is not None and not waits.owed:
            del self._missing[life]
            await self._desk.returned_without(waits.attempts)

    # --- Home: an open session

    async def events(self, life: Life, received: EventsReceived) -> int:
        """Store events; the committed head."""
        result = await self._ingest.events(life.agent_id, received)
        waits = self._missing.get(life)
        if waits is not None and received.stream is Stream.JOBS:
            waits.told(received.epoch, result.head)
            await self._look_for_missing(life)
        if result.foreign:
            life.end(Reason.FOREIGN_REFERENCE, result.foreign[0])
        return result.head

    def events_soon(self, life: Life, received: EventsReceived, settled: Settled) -> bool:
        """Store events that need nothing but that."""
        return self._ingest.events_soon(life.agent_id, received, settled)

    def status(self, life: Life, received: StatusReceived) -> None:
        """Take over a status."""
        if self._lives.get(life.agent_id) is life:
            self._ingest.status(life.agent_id, received)

    def heard(self, life: Life) -> None:
        """Some frame came."""
        if self._lives.get(life.agent_id) is life:
            self._ingest.heard(life.agent_id)

    def renewed(self, life: Life, jobs: Sequence[JobHeld]) -> list[JobHeld]:
        """Extend leases; those without one."""
        return self._desk.renewed(life.agent_id, jobs)

    async def late(self, life: Life, held: JobHeld) -> None:
        """An attempt without a lease."""
        await self._judged(life, "lease.foreign", lambda: self._desk.late(life.agent_id, held))

    async def replied(self, life: Life, reply: JobReply) -> None:
        """An answer to an assignment."""
        await self._judged(life, "reply.foreign", lambda: self._desk.replied(life.agent_id, reply))

    async def _judged(self, life: Life, kind: str, said: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Act on what an agent said of a job; when it is not its own, keep that with the node."""
        try:
            await said()
        except ForeignReference as error:
            log.warning("an agent spoke of what is not its own", agent=life.agent_id, detail=str(error))
            await self._desk.note(life.agent_id, kind, str(error))
            raise

    def ended(self, life: Life) -> None:
        """A socket is about to close: the node's picture says so first."""
        if life.opened:
            log.info(
                "a session ended",
                agent=life.agent_id,
                session=life.session_id,
                remote=_remote(life),
                code=life.reason,
                detail=life.detail,
            )
        else:
            log.info("a socket closed unopened", remote=_remote(life), code=life.reason, detail=life.detail)
        self.traffic.ends[life.opened, int(life.reason)] += 1
        self._unopened.pop(life, None)
        if life.opened:
            self._ingest.changed(self._registry.closed(life.agent_id, life.session_id, life.reason, life.detail))

    async def closed(self, life: Life) -> None:
        """Nothing of a session is under way any more; its identity is free for the next."""
        self._missing.pop(life, None)
        if self._lives.get(life.agent_id) is life:
            del self._lives[life.agent_id]
        if not life.opened:
            return
        if len(self._ends) < ENDS_MAX:
            self._ends[life.session_id] = (self._clock.time_ms(), life.reason, life.detail)
            await self._note_end(life.session_id)

    async def _note_end(self, session_id: str) -> None:
        """A full disk does not make a session last for ever: its end is kept until the store takes it."""
        end = self._ends.get(session_id)
        if end is None:
            return
        try:
            await self._store.close_session(session_id, *end)
        except StoreError as error:
            log.warning("a session's end could not be written down yet", session=session_id, error=str(error))
        else:
            self._ends.pop(session_id, None)


class _Missing:
    """Attempts an agent does not list, and what its outbox still has to say before they are lost."""

    def __init__(self, attempts: tuple[Attempt, ...], owed: dict[str, int]) -> None:
        self.attempts = attempts
        self.owed = dict(owed)

    def told(self, epoch: str, head: int) -> None:
        """The stream of job events of an epoch is stored up to ``head``."""
        if self.owed.get(epoch, head + 1) <= head:
            del self.owed[epoch]


def _remote(life: Life) -> str:
    return life.channel.remote
