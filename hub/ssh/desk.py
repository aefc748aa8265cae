"""The one way to run anything at a node by SSH: in turn, within bounds, everything kept, who asked and from where.

One attempt at a node at a time. The hub's own attempts share `Config.ssh_probes_max` places; operators have a few of
their own, so that nobody who looks into an outage waits behind the probes of it.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

import msgspec
import structlog

from hub.bus import Bus, NodeChanged, SshAttempted
from hub.clock import Clock
from hub.config import Config
from hub.ids import uuid7
from hub.registry import Registry
from hub.ssh import selfcheck, side
from hub.ssh.argv import Way
from hub.ssh.book import HUB, Asked, Book, alias
from hub.ssh.client import AUTHENTICATION, Client, Spoken
from hub.ssh.reach import Basis, Reach, Source, State, Suggestion, differences
from hub.ssh.record import Origin, Record
from hub.ssh.streams import shown
from hub.ssh.targets import Target, as_user
from hub.ssh.verdict import Failure, Incident, Problem, incidents
from hub.store.base import Store, StoreError

log = structlog.get_logger(__name__)

OPERATORS_MAX = 8
"""Attempts of operators at the same time."""
WAITING_MAX = 8
"""Attempts that may wait for their turn at one node."""
TURN_S = 120.0
"""For a turn, before whoever waits is told to come again."""
STOP_S = 2.0
"""For the connections that stand, when the hub stops."""
OFFERED_S = 10.0
"""For the login with -v after a refused one."""
FORGET_MS = 15 * 60_000
"""How long something made good at the hub is still told: it may explain what was seen."""
STDERR_LOGGED_BYTES = 2000


class NoWayIn(LookupError):
    """The node has no target."""


class Busy(Exception):
    """Too much is under way at the node, or altogether; nothing was tried."""


class SshDesk:
    """Attempts, and what is known of each node's way in."""

    def __init__(
        self,
        *,
        config: Config,
        clock: Clock,
        store: Store,
        registry: Registry,
        bus: Bus,
        environ: Mapping[str, str],
    ) -> None:
        self._config = config
        self._clock = clock
        self._store = store
        self._registry = registry
        self._bus = bus
        self._environ = environ
        self._way = side.way_of(config, environ)
        self._whoami = side.whoami()
        self.book = Book(clock=clock, store=store, known_hosts=self._way.known_hosts, changed=self._tell)
        self._turns: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()
        self._places = {True: asyncio.Semaphore(config.ssh_probes_max), False: asyncio.Semaphore(OPERATORS_MAX)}
        self._memory = selfcheck.Memory(FORGET_MS)
        self._seen: selfcheck.Seen | None = None
        self._problems: list[Problem] = []
        self.running = 0
        """Attempts under way."""
        self.retired: frozenset[str] = frozenset()
        """Fingerprints of keys that another took the place of on purpose: nodes may have let the hub in with them."""
        self.outcomes: Counter[str] = Counter()
        """Tries since the start, by cause: for the metrics."""

    async def start(self) -> None:
        """Take over what the store holds; make the hub's key at its very first start; write known_hosts."""
        await self.book.load()
        proved = any(reach.basis is not None for reach in self.book.reaches())
        await asyncio.to_thread(side.prepare, self._way, self._config, proved_before=proved)
        await self.book.write_known_hosts()

    async def stop(self) -> None:
        """End the connections that stand; a folder of sockets that the hub chose itself does not stay behind."""
        try:
            async with asyncio.timeout(STOP_S):
                await Client(self._way, self._clock, self._environ).end_masters()
        except TimeoutError:
            log.warning("connections by ssh still stand; they end by themselves within a minute")
        if self._config.ssh_runtime_dir is None:
            with contextlib.suppress(OSError):  # not empty, or gone
                await asyncio.to_thread(self._way.runtime_dir.rmdir)

    @property
    def way(self) -> Way:
        """By what means the hub goes to its nodes."""
        return self._way

    def use_identities(self, paths: Sequence[Path]) -> None:
        """Offer these keys from now on: while a new one takes an old one's place, both."""
        self._way = msgspec.structs.replace(self._way, identities=tuple(paths))

    # --- what is known

    def readiness(self, node_id: str) -> Reach:
        """How a node's way in is: its target, pins, state; `Reach.sentence` is the node's sentence."""
        return self.book.reach(node_id)

    def sentence(self, node_id: str) -> str:
        """``fallback proved 02:51``, ``fallback broken: ...``, ``fallback unproved`` or ``no way in``."""
        return self.book.reach(node_id).sentence(self._clock.time_ms())

    def target(self, node_id: str) -> Target | None:
        """Where a node's sshd is; None: no way in."""
        return self.book.reach(node_id).target

    async def set_target(
        self, node_id: str, target: Target | None, asked: Asked, source: Source = Source.OPERATOR
    ) -> Reach:
        """Another way in, by an operator's word or an import."""
        return await self.book.set_target(node_id, target, asked, source)

    async def suggested(self, node_id: str, said: Suggestion, *, own_address: bool = True) -> None:
        """What a node says of its sshd over its authenticated session.

        Args:
            node_id: which node.
            said: what it says.
            own_address: its session comes from that address. Another one might be somebody else's: whatever the policy,
                an operator has to accept it.
        """
        await self.book.suggested(node_id, said, accept=self._config.ssh_accept_suggestions and own_address)

    def failures(self) -> list[Failure]:
        """Every enrolled node whose way in is broken, and since when by this cause."""
        return [
            Failure(reach.node_id, reach.cause, reach.broken_since_ms)
            for reach in self._present()
            if reach.state is State.BROKEN and reach.broken_since_ms is not None
        ]

    def problems(self) -> list[Problem]:
        """What is wrong on this side, as of the last look, the newest first."""
        return sorted(self._problems, key=lambda problem: -problem.since_ms)

    def incidents(self) -> list[Incident]:
        """Many nodes with one cause, each with what the hub found wrong with itself."""
        return incidents(self.failures(), len(self._present()), self.problems())

    def _present(self) -> list[Reach]:
        """Ways in to nodes that are enrolled."""
        return [r for r in self.book.reaches() if r.target is not None and self._registry.node(r.node_id) is not None]

    async def examine(self) -> selfcheck.Seen:
        """Look at the hub's own side once, within a few seconds; what can be made good is."""
        before = self._fingerprints_before()
        async with self.book.undisturbed() as known:
            self._seen = await selfcheck.look(self._way, known, fingerprints_before=before)
        # Names after that: they may take their time, and nothing of the hub's own is held meanwhile.
        hosts = [(target.jumps or (target,))[0].host for reach in self._present() if (target := reach.target)]
        found = (*self._seen.findings, *await selfcheck.names(hosts))
        self._problems = self._memory.take(found, self._clock.time_ms())
        return self._seen

    def _fingerprints_before(self) -> tuple[str, ...] | None:
        """Of the keys most nodes last let the hub in with; else those of the last look."""
        proved = Counter(reach.basis.fingerprints for reach in self._present() if reach.basis is not None)
        before = proved.most_common(1)[0][0] if proved else None if self._seen is None else self._seen.fingerprints
        return None if before is None else tuple(print_ for print_ in before if print_ not in self.retired)

    # --- attempts

    async def run(
        self,
        node_id: str,
        purpose: str,
        script: str,
        *,
        asked_by: str,
        asked_from: str = "",
        deadline_s: float | None = None,
        stdin: bytes = b"",
        fresh: bool = False,
        via_key: Path | None = None,
        via_user: str = "",
    ) -> Record:
        """Run a POSIX shell script at a node; the record that counts, stored like every other try.

        Args:
            node_id: where.
            purpose: one word or two for what it is for.
            script: what the remote shell is given.
            asked_by: ``hub``, or the operator.
            asked_from: the address they came from.
            deadline_s: for connection and command together, each try; the setting if left out.
            stdin: what the script reads.
            fresh: log in anew, even where a connection stands: only that proves a way in.
            via_key: another private key in place of the hub's own; says nothing of the hub's own way in.
            via_user: another user than the target's; neither.

        Raises:
            NoWayIn: the node has no target.
            TargetRefused: ``via_user`` is no name of one.
            Busy: too much is under way; nothing was tried.
        """
        if self.target(node_id) is None:
            raise NoWayIn(f"the node {node_id} has no way in: set one with `provewire ssh-target set`")
        asked = Asked(asked_by, asked_from)
        async with self._turn(node_id, asked):
            reach = self.book.reach(node_id)
            if reach.target is None:
                raise NoWayIn(f"the node {node_id} has no way in any more")
            fresh = fresh or via_key is not None or bool(via_user)
            way = self._way_to(node_id, fresh=fresh, via_key=via_key)
            return await self._attempt(
                reach,
                as_user(reach.target, via_user),
                way,
                purpose,
                script,
                asked,
                deadline_s or self._config.ssh_deadline_s,
                stdin,
            )

    def _way_to(self, node_id: str, *, fresh: bool, via_key: Path | None) -> Way:
        return msgspec.structs.replace(
            self._way,
            host_key_alias=alias(node_id),
            multiplexed=self._way.multiplexed and not fresh,
            identities=self._way.identities if via_key is None else (via_key,),
            agent_socket=self._way.agent_socket if via_key is None else None,
        )

    @asynccontextmanager
    async def _turn(self, node_id: str, asked: Asked) -> AsyncIterator[None]:
        """One attempt at a node at a time, and so many altogether."""
        if self._waiting[node_id] >= WAITING_MAX:
            raise Busy(f"{WAITING_MAX} attempts at this node are under way or wait already; come again")
        self._waiting[node_id] += 1
        turn = self._turns.setdefault(node_id, asyncio.Lock())
        place = self._places[asked.by == HUB.by]
        held: list[asyncio.Lock | asyncio.Semaphore] = []
        try:
            try:
                async with asyncio.timeout(TURN_S):
                    for lock in (turn, place):
                        await lock.acquire()
                        held.append(lock)
            except TimeoutError:
                raise Busy(f"no turn came within {TURN_S:g} s: other attempts are under way; come again") from None
            self.running += 1
            try:
                yield
            finally:
                self.running -= 1
        finally:
            for lock in reversed(held):
                lock.release()
            self._waiting[node_id] -= 1
            if not self._waiting[node_id]:
                del self._waiting[node_id]
                self._turns.pop(node_id, None)

    async def _attempt(
        self,
        reach: Reach,
        target: Target,
        way: Way,
        purpose: str,
        script: str,
        asked: Asked,
        deadline_s: float,
        stdin: bytes,
    ) -> Record:
        seen = self._seen or await self.examine()
        prints = await side.fingerprints(way.identities)
        basis = Basis(
            target=str(target),
            host_keys=reach.host_keys,
            fingerprints=prints,
            ssh_version=seen.ssh_version,
            version=version("provewire"),
            host=self._whoami.host,
            user=self._whoami.user,
            pid=self._whoami.pid,
        )
        origin = Origin(
            host=basis.host,
            user=basis.user,
            pid=basis.pid,
            version=basis.version,
            ssh_version=basis.ssh_version,
            fingerprints=prints,
            asked_by=asked.by,
            asked_from=asked.from_,
        )
        client = Client(way, self._clock, self._environ)
        started_at_ms = self._clock.time_ms()
        try:
            tries = await client.run(target, script, deadline_s=deadline_s, stdin=stdin)
        except asyncio.CancelledError:
            log.info("an attempt by ssh was broken off", node=reach.node_id, purpose=purpose, asked_by=asked.by)
            raise
        verbose = ""
        if tries[-1].diagnosis.cause in AUTHENTICATION:
            verbose = await client.offered(target, deadline_s=min(deadline_s, OFFERED_S))
        records = _records(reach, target, purpose, started_at_ms, tries, origin, verbose)
        differs = () if records[-1].way_works else differences(reach.basis, basis)
        records[-1] = msgspec.structs.replace(records[-1], differs=differs)
        own = way.identities == self._way.identities and target == reach.target
        await self._keep(reach, records, basis if own else None)
        return records[-1]

    async def _keep(self, reach: Reach, records: Sequence[Record], basis: Basis | None) -> None:
        for record in records:
            self.outcomes[record.cause.value] += 1
            _log(record)
        try:
            await self.book.attempted(reach, records, basis)
        except StoreError as error:
            log.error("an attempt by ssh could not be kept; it stands in this log", error=str(error))  # noqa: TRY400 - told by the store
        self._bus.publish(SshAttempted(reach.node_id, records[-1].id))

    def _tell(self, node_id: str) -> None:
        """A node's sentence changed."""
        node = self._registry.node(node_id)
        if node is not None:
            self._bus.publish(NodeChanged(node))


def _records(
    reach: Reach,
    target: Target,
    purpose: str,
    started_at_ms: int,
    tries: Sequence[Spoken],
    origin: Origin,
    verbose: str,
) -> list[Record]:
    """A record for each try, the second naming the first."""
    records: list[Record] = []
    for spoken in tries:
        last = len(records) == len(tries) - 1
        records.append(
            Record(
                id=uuid7(started_at_ms),
                node_id=reach.node_id,
                target=str(target),
                purpose=purpose,
                started_at_ms=started_at_ms,
                duration_s=spoken.duration_s,
                argv=spoken.argv,
                exit_code=spoken.ending.exit_code,
                signal=spoken.ending.signal,
                stdout=spoken.output,
                before=spoken.before,
                stderr=spoken.stderr,
                stdout_bytes=spoken.stdout_bytes,
                stderr_bytes=spoken.stderr_bytes,
                remote_exit_code=spoken.ending.remote_exit_code,
                cause=spoken.diagnosis.cause,
                evidence=spoken.diagnosis.evidence,
                remedy=spoken.diagnosis.remedy,
                origin=origin,
                retry_of=records[0].id if records else "",
                note=spoken.note or ("" if last else "the master was ended, and the attempt made once more"),
                verbose=verbose if last else "",
                began=spoken.ending.began,
                fresh=not spoken.ending.through_master or bool(spoken.note),
            )
        )
        started_at_ms += max(1, round(spoken.duration_s * 1000))
    return records


def _log(record: Record) -> None:
    level = log.info if record.way_works else log.warning
    level(
        "an attempt by ssh",
        node=record.node_id,
        attempt=record.id,
        purpose=record.purpose,
        target=record.target,
        cause=record.cause.value,
        exit_code=record.exit_code,
        duration_s=round(record.duration_s, 3),
        asked_by=record.origin.asked_by,
        asked_from=record.origin.asked_from,
        stderr=shown(record.stderr[-STDERR_LOGGED_BYTES:]),
    )
