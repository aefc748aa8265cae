"""One picture of fleet and jobs for all browsers: changes are read and encoded once, however many look on.

Changes of state are told at once, a node's readings twice a second at most, each node in its own time. Each viewer has
one slot for each subject, holding its latest picture, which all viewers share: a slow viewer loses intermediate
pictures, and what is urgent overtakes the readings that wait for it. When more waits for it than the whole picture has,
its slots are emptied and it gets the whole picture again. Nothing here waits for a viewer, and nothing holds the loop
for longer than some pictures take.

The page looks on with less: rows instead of pictures, and of readings what is in view (`hub.api.board`).
"""

import asyncio
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from math import inf

import msgspec
import structlog
from aiohttp import web

from hub import ports
from hub.api import board, live_models, models, views
from hub.api.incident_models import NODES_SHOWN, incidents_view
from hub.api.viewer import VIEWER_BYTES_MAX, Said, Viewer
from hub.bus import IncidentsChanged, JobChanged, Message, NodeChanged, NodeGone, Resync
from hub.registry import Node
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
SEQ_ZERO = b'{"seq":0,'
"""How an encoded message begins before a viewer's own number is put in."""

KINDS = (NodeChanged, NodeGone, JobChanged, IncidentsChanged)
"""Messages of the bus that change the picture."""


class TooManyViewers(Exception):
    """All places are taken."""


class Feed:
    """Follows the bus and hands encoded pictures to viewers."""

    def __init__(self, app: web.Application) -> None:
        self._app = app
        self._pictures: dict[str, JobPicture] = {}
        self._nodes_dirty: set[str] = set()
        self._readings_dirty: set[str] = set()
        self._rows: dict[str, msgspec.Raw] = {}
        """Each node's row as last told, encoded: what a page that comes now is told of two thousand of them."""
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
    def viewer(self, *, page: bool = False) -> Iterator[Viewer]:
        """Look on within a ``with`` block.

        Raises:
            TooManyViewers: all places are taken.
        """
        if len(self._viewers) >= VIEWERS_MAX:
            raise TooManyViewers(f"{VIEWERS_MAX} live streams are open already")
        viewer = Viewer(secrets.token_hex(16) if page else "")
        if self.closed:
            viewer.close()
        self._viewers.add(viewer)
        self._want_readings()
        try:
            yield viewer
        finally:
            self._viewers.discard(viewer)
            self._want_readings()
            self._dropped += viewer.dropped

    def _want_readings(self) -> None:
        """Let the bus carry readings while somebody looks at any."""
        wanted = any(not viewer.stream or viewer.in_view for viewer in self._viewers)
        self._app[ports.BUS].readings_wanted = wanted

    def viewer_of(self, stream: str) -> Viewer | None:
        """The page's viewer of that name."""
        return next((viewer for viewer in self._viewers if viewer.stream and viewer.stream == stream), None)

    async def show(self, viewer: Viewer, view: board.ViewRequest) -> None:
        """The page shows something else now: tell it at once what is new in view."""
        before, known = viewer.view, viewer.in_view
        viewer.view = view
        viewer.in_view = frozenset(view.nodes) | ({view.node} if view.node else frozenset())
        self._want_readings()
        for agent_id in viewer.in_view - known:
            if (node := self._app[ports.REGISTRY].node(agent_id)) is not None:
                viewer.put(f"readings {agent_id}", self._readings(node))
        if view.node and view.node != before.node:
            viewer.put(f"node {view.node}", self._picture(view.node, whole=True), urgent=True)
        if view.jobs and not before.jobs:
            pictures = dict(self._pictures)
            jobs = [
                msgspec.Raw(msgspec.json.encode(await views.job_view(self._app, picture)))
                for _, picture in sorted(pictures.items(), reverse=True)
            ]
            viewer.put("jobs", _said("jobs", board.LiveJobs(seq=0, jobs=jobs)), urgent=True)  # type: ignore[arg-type]
            # What changed while this was made may have been told already, and would now be overtaken by its older self.
            self._jobs_dirty |= {one for one, now in self._pictures.items() if now is not pictures.get(one)}
            self._wake.set()

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
                if message.of_state:
                    self._rows.pop(node.id, None)
                if message.jobs and self._pictures:
                    self._jobs_dirty.update(item.job for item in node.progress if item.job in self._pictures)
            case NodeGone(agent_id=agent_id):
                self._nodes_dirty.add(agent_id)
                self._readings_dirty.discard(agent_id)
                self._rows.pop(agent_id, None)
            case JobChanged(job=job):
                self._jobs_changed.add(job.id)
            case IncidentsChanged():
                self._incidents_dirty = True
            case Resync():
                self._rows.clear()
                await self._load()
                for viewer in self._viewers:
                    viewer.start_over()

    async def snapshot(self, seq: int, viewer: Viewer) -> bytes:
        """The whole picture now, encoded; for the page's viewer the board, and what is in view anew after it."""
        encoded = await (self._board(seq, viewer) if viewer.stream else self._everything(seq))
        viewer.bytes_max = max(VIEWER_BYTES_MAX, len(encoded))
        return encoded

    async def _board(self, seq: int, viewer: Viewer) -> bytes:
        rows = list[msgspec.Raw]()
        for number, node in enumerate(self._app[ports.REGISTRY].nodes()):
            if (known := self._rows.get(node.id)) is None:
                known = self._rows[node.id] = msgspec.Raw(msgspec.json.encode(board.row(self._app, node)))
                await self._breathe(number)
            rows.append(known)
        whole = board.LiveBoard(
            seq=seq,
            stream=viewer.stream,
            time_ms=self._app[ports.CLOCK].time_ms(),
            hub=self._hub(),
            rows=rows,  # type: ignore[arg-type]  # encoded already, one by one
            incidents=incidents_view(self._app, nodes_max=NODES_SHOWN),
        )
        view, viewer.view, viewer.in_view = viewer.view, board.ViewRequest(), frozenset()
        await self.show(viewer, view)
        return msgspec.json.encode(whole)

    def _hub(self) -> models.HubView:
        config = self._app[ports.CONFIG]
        return models.HubView(
            id=self._app[ports.HUB].id,
            version=models.VERSION,
            insecure=config.insecure,
            stale_after_s=config.stale_after_s,
            lost_after_s=config.lost_after_s,
        )

    async def _everything(self, seq: int) -> bytes:
        nodes = list[msgspec.Raw]()
        for number, node in enumerate(self._app[ports.REGISTRY].nodes()):
            nodes.append(msgspec.Raw(msgspec.json.encode(views.node_view(self._app, node))))
            await self._breathe(number)
        pictures = sorted(self._pictures.items(), reverse=True)
        jobs = list[msgspec.Raw]()
        for number, (_, picture) in enumerate(pictures):
            jobs.append(msgspec.Raw(msgspec.json.encode(await views.job_view(self._app, picture))))
            await self._breathe(number)
        whole = live_models.LiveSnapshot(
            seq=seq,
            time_ms=self._app[ports.CLOCK].time_ms(),
            hub=self._hub(),
            nodes=nodes,  # type: ignore[arg-type]  # encoded already, one by one
            incidents=incidents_view(self._app, nodes_max=NODES_SHOWN),
            jobs=jobs,  # type: ignore[arg-type]
        )
        return msgspec.json.encode(whole)

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
        nodes, self._nodes_dirty = self._nodes_dirty, set()
        incidents, self._incidents_dirty = self._incidents_dirty, False
        if not self._viewers:
            self._readings_dirty.clear()
            self._jobs_dirty.clear()
            return  # whoever comes begins with the whole picture
        due = self._readings_due(self._app[ports.CLOCK].monotonic()) - nodes
        for number, agent_id in enumerate((*nodes, *due)):
            self._say_node(agent_id, urgent=agent_id in nodes)
            await self._breathe(number)
        if incidents:
            view_now = incidents_view(self._app, nodes_max=NODES_SHOWN)
            said = _said("incidents", live_models.LiveIncidents(seq=0, incidents=view_now))
            for viewer in self._viewers:
                viewer.put("incidents", said, urgent=True)
        await self._say_jobs()

    async def _say_jobs(self) -> None:
        jobs, self._jobs_dirty = self._jobs_dirty, set()
        for job_id in jobs:
            if (picture := self._pictures.get(job_id)) is None:
                continue
            said = _said("job", live_models.LiveJob(seq=0, job=await views.job_view(self._app, picture)))
            for viewer in self._viewers:
                if not viewer.stream or viewer.view.jobs:
                    viewer.put(job_id, said, urgent=True)

    def _readings_due(self, now_s: float) -> set[str]:
        """Nodes with new readings that were not told of lately; the others wait for their time."""
        if all(viewer.stream for viewer in self._viewers):
            self._readings_dirty &= frozenset[str]().union(*(viewer.in_view for viewer in self._viewers))
        due = {one for one in self._readings_dirty if now_s - self._told_s.get(one, -inf) >= READINGS_S}
        self._readings_dirty -= due
        return due

    def _say_node(self, agent_id: str, *, urgent: bool) -> None:
        node = self._app[ports.REGISTRY].node(agent_id)
        if node is None:
            self._told_s.pop(agent_id, None)
            gone = _said("node", live_models.LiveNode(seq=0, id=agent_id, node=None))
            row_gone = _said("row", board.LiveRow(seq=0, id=agent_id, row=None))
            for viewer in self._viewers:
                viewer.put(agent_id, row_gone if viewer.stream else gone, urgent=True)
            return
        self._told_s[agent_id] = self._app[ports.CLOCK].monotonic()
        # Each is encoded once, and only if somebody wants it.
        picture, row = cache(partial(self._picture, agent_id)), cache(partial(self._row, node))
        whole = cache(partial(self._picture, agent_id, whole=True))
        readings = cache(partial(self._readings, node))
        for viewer in self._viewers:
            if not viewer.stream:
                viewer.put(agent_id, picture(), urgent=urgent)
                continue
            self._say_to_page(viewer, agent_id, row if urgent else None, whole, readings)

    def _say_to_page(
        self,
        viewer: Viewer,
        agent_id: str,
        row: Callable[[], Said] | None,
        whole: Callable[[], Said],
        readings: Callable[[], Said],
    ) -> None:
        if row is not None:
            viewer.put(agent_id, row(), urgent=True)
        if agent_id in viewer.in_view:
            viewer.put(f"readings {agent_id}", readings())
        if agent_id == viewer.view.node:
            viewer.put(f"node {agent_id}", whole(), urgent=row is not None)

    def _picture(self, agent_id: str, *, whole: bool = False) -> Said:
        """``whole`` with the longest lists: for the page that shows this one node."""
        node = self._app[ports.REGISTRY].node(agent_id)
        view = None if node is None else views.node_view(self._app, node, whole=whole)
        return _said("node", live_models.LiveNode(seq=0, id=agent_id, node=view))

    def _row(self, node: Node) -> Said:
        row = self._rows[node.id] = msgspec.Raw(msgspec.json.encode(board.row(self._app, node)))
        return _said("row", board.LiveRow(seq=0, id=node.id, row=row))  # type: ignore[arg-type]  # encoded already

    def _readings(self, node: Node) -> Said:
        return _said("readings", board.LiveReadings(seq=0, readings=board.readings(node)))

    async def _beats(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            self.beat()

    def beat(self) -> None:
        """A sign of life; to programs with when each connected node was last heard. The page knows that of its rows."""
        now_ms = self._app[ports.CLOCK].time_ms()
        alive = _said("beat", live_models.LiveBeat(seq=0, time_ms=now_ms, heard={}))
        for viewer in self._viewers:
            if viewer.stream:
                viewer.put("beat", alive, urgent=True)
        if all(viewer.stream for viewer in self._viewers):
            return
        heard = {
            node.id: node.last_heard_at_ms
            for node in self._app[ports.REGISTRY].nodes()
            if node.connected and node.last_heard_at_ms is not None
        }
        said = _said("beat", live_models.LiveBeat(seq=0, time_ms=now_ms, heard=heard))
        for viewer in self._viewers:
            if not viewer.stream:
                viewer.put("beat", said, urgent=True)


def _said(event: str, message: msgspec.Struct) -> Said:
    """A message, encoded but for its number."""
    return event, msgspec.json.encode(message).removeprefix(SEQ_ZERO)


FEED = web.AppKey("FEED", Feed)
