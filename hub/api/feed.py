"""One picture of fleet and jobs for all browsers: changes are read and encoded once, however many look on.

Changes of state are told at once, a node's readings twice a second at most, each node in its own time. Each viewer has
one slot for each subject, holding its latest picture, which all viewers share: a slow viewer loses intermediate
pictures, and what is urgent overtakes the readings that wait for it. When more waits for it than the whole picture has,
its slots are emptied and it gets the whole picture again. Nothing here waits for a viewer, and nothing holds the loop
for longer than some pictures take.
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

import msgspec
import structlog
from aiohttp import web

from hub import ports
from hub.api import models, views
from hub.api.incident_models import NODES_SHOWN, incidents_view
from hub.bus import IncidentsChanged, JobChanged, Message, NodeChanged, NodeGone, Resync
from hub.store.base import StoreError
from hub.store.records import JobPicture
from wire.jobs import ENDED

log = structlog.get_logger(__name__)

COALESCE_S = 0.03
"""Between two rounds of changes: a bound on the work that a busy fleet makes, too short for people to notice."""
READINGS_S = 0.5
"""Between two pictures of a node that have only new readings."""
PICTURES_AT_ONCE = 20
"""Pictures made before others get their turn on the loop."""
BEAT_S = 5.0
"""Between two signs of life; the page calls the link down after three."""
JOBS_MAX = 300
"""Jobs in the picture: the newest, and older ones that have not ended."""
VIEWERS_MAX = 64
VIEWER_BYTES_MAX = 256 * 1024
"""What may wait for one viewer, or as much as the whole picture if that is more: less than it costs to begin anew."""
PIECE_BYTES = 128 * 1024
"""Handed to a viewer at once: a change of state waits for no more than this to be taken."""
SEQ_ZERO = b'{"seq":0,'
"""How an encoded message begins before a viewer's own number is put in."""

KINDS = (NodeChanged, NodeGone, JobChanged, IncidentsChanged)
"""Messages of the bus that change the picture."""

Said = tuple[str, bytes]
"""Event name and JSON after its number."""


class TooManyViewers(Exception):
    """All places are taken."""


class Viewer:
    """One live stream's slots."""

    def __init__(self) -> None:
        self._urgent: dict[str, Said] = {}
        self._slots: dict[str, Said] = {}
        self._bytes = 0
        self._wake = asyncio.Event()
        self._whole = True
        self.bytes_max = VIEWER_BYTES_MAX
        """What may wait; without bound while the whole picture, that bounds it, is being made."""
        self.closed = False
        self.dropped = 0
        """How often it was too slow and got the whole picture again."""

    def put(self, slot: str, said: Said, *, urgent: bool = False) -> None:
        """Set a slot's latest picture; what was urgent before and was not taken yet stays so."""
        if self._whole:
            return  # the whole picture, taken later than this, is on its way
        slots = self._urgent if urgent or slot in self._urgent else self._slots
        previous = self._slots.pop(slot, None) or self._urgent.pop(slot, None)
        self._bytes += len(said[1]) - (0 if previous is None else len(previous[1]))
        slots[slot] = said
        if self._bytes > self.bytes_max:
            self.dropped += 1
            self.start_over()
        self._wake.set()

    def start_over(self) -> None:
        """Forget what waits; the whole picture comes next."""
        self._urgent.clear()
        self._slots.clear()
        self._bytes = 0
        self._whole = True
        self._wake.set()

    def close(self) -> None:
        """End the stream."""
        self.closed = True
        self._wake.set()

    async def next(self) -> list[Said] | None:
        """A piece of what waits, at least one; None for the whole picture. An empty list once the stream is closed."""
        while not (self._urgent or self._slots or self._whole or self.closed):
            self._wake.clear()
            await self._wake.wait()
        if self.closed:
            return []
        if self._whole:
            self._whole = False
            self.bytes_max = sys.maxsize
            return None
        piece: list[Said] = []
        size_bytes = 0
        for slots in (self._urgent, self._slots):
            while slots and size_bytes < PIECE_BYTES:
                said = slots.pop(next(iter(slots)))
                size_bytes += len(said[1])
                piece.append(said)
        self._bytes -= size_bytes
        return piece


class Feed:
    """Follows the bus and hands encoded pictures to viewers."""

    def __init__(self, app: web.Application) -> None:
        self._app = app
        self._pictures: dict[str, JobPicture] = {}
        self._nodes_dirty: set[str] = set()
        self._readings_dirty: set[str] = set()
        self._told_s: dict[str, float] = {}
        """When each node's picture was last told."""
        self._jobs_dirty: set[str] = set()
        self._jobs_changed: set[str] = set()
        self._incidents_dirty = False
        self._dropped = 0
        self._wake = asyncio.Event()
        self._viewers: set[Viewer] = set()
        self.closed = False

    @property
    def viewers(self) -> int:
        """How many look on."""
        return len(self._viewers)

    @property
    def dropped(self) -> int:
        """How often a viewer was too slow and got the whole picture again."""
        return self._dropped + sum(viewer.dropped for viewer in self._viewers)

    @contextmanager
    def viewer(self) -> Iterator[Viewer]:
        """Look on within a ``with`` block.

        Raises:
            TooManyViewers: all places are taken.
        """
        if len(self._viewers) >= VIEWERS_MAX:
            raise TooManyViewers(f"{VIEWERS_MAX} live streams are open already")
        viewer = Viewer()
        if self.closed:
            viewer.close()
        self._viewers.add(viewer)
        self._app[ports.BUS].readings_wanted = True
        try:
            yield viewer
        finally:
            self._viewers.discard(viewer)
            self._app[ports.BUS].readings_wanted = bool(self._viewers)
            self._dropped += viewer.dropped

    def close(self) -> None:
        """End every stream, and those still to come."""
        self.closed = True
        for viewer in self._viewers:
            viewer.close()

    async def run(self) -> None:
        """Follow the bus until it closes."""
        with self._app[ports.BUS].subscribe(kinds=KINDS) as subscription:
            await self._load()
            async with asyncio.TaskGroup() as tasks:
                helpers = [tasks.create_task(self._flush()), tasks.create_task(self._beats())]
                while messages := await subscription.take():
                    for message in messages:
                        await self._note(message)
                    self._wake.set()
                    await asyncio.sleep(COALESCE_S)  # more gathers meanwhile, and costs one turn for all of it
                for helper in helpers:
                    helper.cancel()
        self.close()

    async def _note(self, message: Message) -> None:
        match message:
            case NodeChanged(node=node):
                (self._nodes_dirty if message.of_state else self._readings_dirty).add(node.id)
                if message.jobs and self._pictures:
                    self._jobs_dirty.update(item.job for item in node.progress if item.job in self._pictures)
            case NodeGone(agent_id=agent_id):
                self._nodes_dirty.add(agent_id)
                self._readings_dirty.discard(agent_id)
            case JobChanged(job=job):
                self._jobs_changed.add(job.id)
            case IncidentsChanged():
                self._incidents_dirty = True
            case Resync():
                await self._load()
                for viewer in self._viewers:
                    viewer.start_over()

    async def snapshot(self, seq: int) -> bytes:
        """The whole picture now, encoded."""
        config = self._app[ports.CONFIG]
        nodes = list[msgspec.Raw]()
        for number, node in enumerate(self._app[ports.REGISTRY].nodes()):
            nodes.append(msgspec.Raw(msgspec.json.encode(views.node_view(self._app, node))))
            await self._breathe(number)
        pictures = sorted(self._pictures.items(), reverse=True)
        jobs = list[msgspec.Raw]()
        for number, (_, picture) in enumerate(pictures):
            jobs.append(msgspec.Raw(msgspec.json.encode(await views.job_view(self._app, picture))))
            await self._breathe(number)
        whole = models.LiveSnapshot(
            seq=seq,
            time_ms=self._app[ports.CLOCK].time_ms(),
            hub=models.HubView(
                id=self._app[ports.HUB].id,
                version=models.VERSION,
                insecure=config.insecure,
                stale_after_s=config.stale_after_s,
                lost_after_s=config.lost_after_s,
            ),
            nodes=nodes,  # type: ignore[arg-type]  # encoded already, one by one
            incidents=incidents_view(self._app, nodes_max=NODES_SHOWN),
            jobs=jobs,  # type: ignore[arg-type]
        )
        encoded = msgspec.json.encode(whole)
        for viewer in self._viewers:
            viewer.bytes_max = max(VIEWER_BYTES_MAX, len(encoded))
        return encoded

    async def _breathe(self, number: int) -> None:
        """Let others have their turn, now and then."""
        if number % PICTURES_AT_ONCE == PICTURES_AT_ONCE - 1:
            await asyncio.sleep(0)

    async def _load(self) -> None:
        """Read the jobs worth showing."""
        store = self._app[ports.STORE]
        rows = [*await store.open_jobs(), *await store.job_pictures(limit=JOBS_MAX)]
        self._pictures = {row.job.id: row for row in rows}
        self._trim()

    def _trim(self) -> None:
        """Keep the picture within its bound; ended jobs leave first, then the oldest."""
        excess = len(self._pictures) - JOBS_MAX
        if excess > 0:
            leaving = sorted(self._pictures.values(), key=lambda row: (row.job.state not in ENDED, row.job.id))
            for row in leaving[:excess]:
                del self._pictures[row.job.id]

    async def _flush(self) -> None:
        """Tell what changed, at most once in `COALESCE_S`."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._tell()
            except StoreError as error:
                log.warning("the live view waits for the store", error=str(error))
                self._wake.set()  # what is not told yet is tried again
            await asyncio.sleep(COALESCE_S)
            if self._readings_dirty:
                self._wake.set()

    async def _tell(self) -> None:
        while self._jobs_changed:
            job_id = self._jobs_changed.pop()
            try:
                picture = await self._app[ports.STORE].job(job_id)
            except StoreError:
                self._jobs_changed.add(job_id)
                raise
            self._jobs_dirty.add(job_id)
            if picture is not None:
                self._pictures[job_id] = picture
        self._trim()
        jobs, self._jobs_dirty = self._jobs_dirty, set()
        nodes, self._nodes_dirty = self._nodes_dirty, set()
        incidents, self._incidents_dirty = self._incidents_dirty, False
        if not self._viewers:
            self._readings_dirty.clear()
            return  # whoever comes begins with the whole picture
        due = self._readings_due(self._app[ports.CLOCK].monotonic()) - nodes
        for number, agent_id in enumerate((*nodes, *due)):
            self._say_node(agent_id, urgent=agent_id in nodes)
            await self._breathe(number)
        if incidents:
            view_now = incidents_view(self._app, nodes_max=NODES_SHOWN)
            self._say("incidents", "incidents", models.LiveIncidents(seq=0, incidents=view_now), urgent=True)
        for job_id in jobs:
            if (picture := self._pictures.get(job_id)) is not None:
                view = await views.job_view(self._app, picture)
                self._say(job_id, "job", models.LiveJob(seq=0, job=view), urgent=True)

    def _readings_due(self, now_s: float) -> set[str]:
        """Nodes with new readings that were not told of lately; the others wait for their time."""
        due = {one for one in self._readings_dirty if now_s - self._told_s.get(one, -inf) >= READINGS_S}
        self._readings_dirty -= due
        return due

    def _say_node(self, agent_id: str, *, urgent: bool) -> None:
        node = self._app[ports.REGISTRY].node(agent_id)
        if node is None:
            self._told_s.pop(agent_id, None)
            self._say(agent_id, "node", models.LiveNode(seq=0, id=agent_id, node=None), urgent=True)
            return
        self._told_s[agent_id] = self._app[ports.CLOCK].monotonic()
        view = views.node_view(self._app, node)
        self._say(agent_id, "node", models.LiveNode(seq=0, id=agent_id, node=view), urgent=urgent)

    async def _beats(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            self.beat()

    def beat(self) -> None:
        """A sign of life, with when each connected node was last heard."""
        heard = {
            node.id: node.last_heard_at_ms
            for node in self._app[ports.REGISTRY].nodes()
            if node.connected and node.last_heard_at_ms is not None
        }
        self._say(
            "beat", "beat", models.LiveBeat(seq=0, time_ms=self._app[ports.CLOCK].time_ms(), heard=heard), urgent=True
        )

    def _say(self, slot: str, event: str, message: msgspec.Struct, *, urgent: bool) -> None:
        said = (event, msgspec.json.encode(message).removeprefix(SEQ_ZERO))
        for viewer in self._viewers:
            viewer.put(slot, said, urgent=urgent)


FEED = web.AppKey("FEED", Feed)
