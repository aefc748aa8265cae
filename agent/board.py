"""The node's present picture, in one place: what is pushed and what the local view shows are the same."""

import asyncio
import socket
from collections.abc import Callable, Sequence

import structlog

from agent.clock import Clock
from agent.outbox import Outbox
from agent.sensors.gpu import GpuEvent, GpuSensor, Problem
from agent.sensors.host import HostSensor
from agent.tally import Sensors
from wire.engines import EngineReading
from wire.events import Level, NodeEvent
from wire.limits import NAME_CHARS_MAX
from wire.readings import GpuReading, HostReading
from wire.status import JobProgress, NodeStatus, OutboxReading, SshHint, WorkerReading

log = structlog.get_logger(__name__)

HOST_DEADLINE_S = 10.0


class Board:
    """Holds readings; asks the parts for the rest when the picture is taken."""

    def __init__(self) -> None:
        self.host: HostReading | None = None
        self.gpus: list[GpuReading] = []
        self.gpu_problem = ""
        self.engines: list[EngineReading] = []
        """Engines beside our own workers; empty where none was ever seen."""
        self.workers: Callable[[], Sequence[WorkerReading]] = list
        self.jobs: Callable[[], Sequence[JobProgress]] = list
        self.outbox: Callable[[], OutboxReading] = lambda: OutboxReading(events_held=0, bytes_held=0)
        self.draining = False
        self.ssh: SshHint | None = None
        """How its sshd can be reached, as far as it knows."""
        self.sensors = Sensors()
        """How the sensors' reads went."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when the picture may have changed; `agent.push` decides what that is worth."""
        self._hostname = socket.gethostname()[:NAME_CHARS_MAX] or "unknown"

    def changed(self) -> None:
        """The picture may have changed."""
        self.on_change()

    def picture(self) -> NodeStatus:
        """Everything, now."""
        status = NodeStatus(
            hostname=self._hostname,
            gpus=self.gpus,
            engines=self.engines,
            workers=list(self.workers()),
            jobs=list(self.jobs()),
            outbox=self.outbox(),
            draining=self.draining,
        )
        if self.ssh is not None:
            status = NodeStatus(ssh=self.ssh).merged_into(status)
        return status if self.host is None else NodeStatus(host=self.host).merged_into(status)


async def read_host(board: Board, sensor: HostSensor, *, clock: Clock, every_s: float) -> None:
    """Keep the host's readings fresh; for ever. A read that blocks leaves them empty and holds nobody up."""
    pending: asyncio.Future[HostReading] | None = None
    while True:
        began_s = clock.monotonic()
        if pending is None:
            pending = asyncio.ensure_future(asyncio.to_thread(sensor.read))
        done, _ = await asyncio.wait({pending}, timeout=HOST_DEADLINE_S)
        if done:
            board.host, pending = pending.result(), None
        else:
            log.warning("sensor.host_blocked", deadline_s=HOST_DEADLINE_S)
            board.host = HostReading()
        board.sensors.read("host", began_s, clock.monotonic(), good=bool(done))
        board.changed()
        await clock.sleep(every_s)


async def read_gpus(board: Board, sensor: GpuSensor, *, outbox: Outbox, clock: Clock, every_s: float) -> None:
    """Keep the cards' readings fresh; for ever. What happened to them is kept as events."""
    last = Problem.NONE
    while True:
        began_s = clock.monotonic()
        report = await sensor.read()
        good = report.problem in {Problem.NONE, Problem.MISSING}
        board.sensors.read("gpu", began_s, clock.monotonic(), good=good)
        board.gpus = report.gpus
        board.gpu_problem = report.detail
        if report.events:
            await _say(report.events, outbox)
        if report.problem is Problem.MISSING and last is not Problem.MISSING:
            log.info("gpu.none", detail=report.detail)
        last = report.problem
        board.changed()
        await clock.sleep(every_s)


async def _say(events: Sequence[GpuEvent], outbox: Outbox) -> None:
    for event in events:
        say = {Level.ERROR: log.error, Level.WARNING: log.warning}.get(event.level, log.info)
        say(event.kind, detail=event.detail)
    await outbox.keep([NodeEvent(each.kind, each.detail, each.level, each.fields) for each in events])
