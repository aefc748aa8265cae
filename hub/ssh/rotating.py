"""Carries a rotation on from wherever it is: the new key in at every node, the swap at the hub, the old key out."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

import structlog
from msgspec import Struct

from hub.clock import Clock
from hub.registry import Registry
from hub.ssh.authorized import without_key
from hub.ssh.book import Asked
from hub.ssh.desk import Busy, NoWayIn
from hub.ssh.install import Plan, Way, Write, diff, write_of
from hub.ssh.keys import AT_ONCE_MAX, KeyDesk, KeyRefused, NotLookedAt
from hub.ssh.rotation import Rotation, RotationDamaged, RotationFiles

log = structlog.get_logger(__name__)

WAYS_FAILED = (NotLookedAt, NoWayIn, Busy, KeyRefused)


class Progress(Struct, frozen=True, kw_only=True):
    """How far a rotation is."""

    rotation: Rotation | None
    nodes: int
    """Enrolled nodes with a way in."""
    unproved: tuple[str, ...] = ()
    """Where the new key is not proved yet."""
    unremoved: tuple[str, ...] = ()
    """Where the old one is still let in."""
    without_way: tuple[str, ...] = ()
    """Enrolled nodes without a way in: they get the new key when they get one."""

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        rotation = self.rotation
        return rotation is not None and rotation.retired_at_ms is not None and not self.unremoved


class Rotator:
    """Owns the hub's rotation; one step at a time."""

    def __init__(self, *, keys: KeyDesk, registry: Registry, clock: Clock) -> None:
        self._keys = keys
        self._registry = registry
        self._clock = clock
        self._configured = keys.ssh.way.identities
        self._files = RotationFiles(self._configured[0], keys.ssh.way.known_hosts.parent)
        self._busy = asyncio.Lock()

    async def start(self) -> None:
        """At the hub's start: offer what a rotation that was cut off had offered."""
        try:
            rotation = await asyncio.to_thread(self._files.load)
        except RotationDamaged as error:
            log.error("a rotation's record is damaged", error=str(error))  # noqa: TRY400 - told by the record
            rotation = None
        await self._offer(rotation)

    async def _offer(self, rotation: Rotation | None) -> None:
        self._keys.ssh.use_identities(await asyncio.to_thread(self._files.offered, self._configured))
        if rotation is not None and rotation.retired_at_ms is not None:
            self._keys.ssh.retired = frozenset({rotation.old_fingerprint})

    def _nodes(self) -> tuple[list[str], list[str]]:
        """Enrolled nodes with a way in, and without one."""
        ids = [node.id for node in self._registry.nodes()]
        return [i for i in ids if self._keys.ssh.target(i) is not None], [
            i for i in ids if self._keys.ssh.target(i) is None
        ]

    async def progress(self) -> Progress:
        """How far it is.

        Raises:
            RotationDamaged: nobody can say.
        """
        rotation = await asyncio.to_thread(self._files.load)
        there, without = self._nodes()
        if rotation is None:
            return Progress(rotation=None, nodes=len(there), without_way=tuple(without))
        return Progress(
            rotation=rotation,
            nodes=len(there),
            unproved=() if rotation.retired_at_ms is not None else tuple(rotation.unproved(there)),
            unremoved=tuple(i for i in rotation.unremoved(there) if i in rotation.nodes),
            without_way=tuple(without),
        )

    async def advance(self, asked: Asked) -> Progress:
        """Begin a rotation, or go on with the one that is not done, as far as the nodes that answer allow.

        Raises:
            RotationDamaged: nobody can say how far the last one came.
            KeyRefused: the hub's present key cannot be used.
        """
        async with self._busy:
            rotation = await asyncio.to_thread(self._files.load)
            if rotation is None or (await self.progress()).done:
                rotation = await self._begin(asked)
            there, _ = self._nodes()
            if rotation.retired_at_ms is None:
                await self._offer(rotation)
                await self._each(rotation, rotation.unproved(there), lambda i: self._let_in(rotation, i, asked))
                left = rotation.unproved(there)
                if left:
                    log.warning("ssh rotation: the old key stays, nodes are left", nodes=left)
                    return await self.progress()
                await asyncio.to_thread(self._files.retire, rotation, self._clock.time_ms())
                log.info("ssh rotation: the new key has the old one's place", aside=rotation.retired_to)
                await self._offer(rotation)
            proved = [i for i in there if rotation.station(i).proved_at_ms is not None]
            await self._each(rotation, rotation.unremoved(proved), lambda i: self._take_out(rotation, i, asked))
            return await self.progress()

    async def _begin(self, asked: Asked) -> Rotation:
        comment = f"provewire-hub@{socket.gethostname()}"
        try:
            rotation = await asyncio.to_thread(self._files.begin, self._clock.time_ms(), str(asked), comment)
        except (OSError, ValueError) as error:
            raise KeyRefused(str(error)) from error
        log.info("ssh rotation: begun", new=rotation.new_fingerprint, old=rotation.old_fingerprint)
        return rotation

    async def _each(self, rotation: Rotation, node_ids: Sequence[str], do: Callable[[str], Awaitable[bool]]) -> None:
        """The first alone, and the rest only if it worked; what came of each is written down at once."""
        if not node_ids:
            return
        places = asyncio.Semaphore(AT_ONCE_MAX)

        async def one(node_id: str) -> bool:
            async with places:
                try:
                    done = await do(node_id)
                except WAYS_FAILED as error:
                    done = False
                    rotation.station(node_id).detail = str(error)
                await asyncio.to_thread(self._files.save, rotation)
                return done

        canary, *rest = node_ids
        if await one(canary):
            await asyncio.gather(*map(one, rest))
            return
        for node_id in rest:
            rotation.station(node_id).detail = f"left alone: the canary, {canary}, failed"
        await asyncio.to_thread(self._files.save, rotation)

    async def _let_in(self, rotation: Rotation, node_id: str, asked: Asked) -> bool:
        """The new key beside the old one, proved by a login with it alone."""
        station = rotation.station(node_id)
        chart = await self._keys.look(node_id, asked)
        write = write_of(chart, rotation.new_public, user="", mend=False)
        plan = self._plan(node_id, rotation.new_public, chart.text, write)
        made = await self._keys.apply(plan, asked, proof_key=self._files.next)
        station.detail = "" if made.ok else made.sentence
        station.proved_at_ms = self._clock.time_ms() if made.ok else None
        return made.ok

    async def _take_out(self, rotation: Rotation, node_id: str, asked: Asked) -> bool:
        """The old key out, by the new one; proved by one more login."""
        station = rotation.station(node_id)
        chart = await self._keys.look(node_id, asked)
        if " ".join(rotation.new_public.split()[:2]) not in chart.lets_in:
            station.detail = f"{chart.place.path} has no line of its own for the new key; nothing was taken out"
            return False
        text = without_key(chart.text, rotation.old_public)
        write = Write(path=chart.place.path, user="", sum_before=chart.digest, text=text)
        plan = self._plan(node_id, rotation.new_public, chart.text, write)
        made = await self._keys.apply(plan, asked)
        station.detail = "" if made.ok else made.sentence
        station.removed_at_ms = self._clock.time_ms() if made.ok else None
        return made.ok

    @staticmethod
    def _plan(node_id: str, public: str, before: str, write: Write) -> Plan:
        way = Way.NOTHING if write.text == before else Way.OWN
        shown = diff(write.path, before, write.text)
        return Plan(node_id=node_id, way=way, public=public, write=write, diff=shown)
