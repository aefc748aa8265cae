"""The node's present picture, in one place: what is pushed and what the local view shows are the same."""

import asyncio
import socket
from collections.abc import Callable, Sequence

import structlog

from agent.clock import Clock
from agent.outbox import Outbox
from agent.sensors.gpu import GpuSensor, Problem, Report
from agent.sensors.host import HostSensor
from wire.engines import EngineReading
from wire.frames import Level
from wire.limits import NAME_CHARS_MAX
from wire.readings import GpuReading, HostReading
from wire.status import JobProgress, NodeStatus, OutboxReading, WorkerReading

log = structlog.get_logger(__name__)

HOST_DEADLINE_S = 10.0
GPU_MISSING_RECHECK_S = 600.0
"""A node without NVIDIA cards is asked again this seldom: a child process costs more than the answer is worth."""


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
        return status if self.host is None else NodeStatus(host=self.host).merged_into(status)


async def read_host(board: Board, sensor: HostSensor, *, clock: Clock, every_s: float) -> None:
    """Keep the host's readings fresh; for ever. A read that blocks leaves them empty and holds nobody up."""
    pending: asyncio.Future[HostReading] | None = None
    while True:
        if pending is None:
            pending = asyncio.ensure_future(asyncio.to_thread(sensor.read))
        done, _ = await asyncio.wait({pending}, timeout=HOST_DEADLINE_S)
        if done:
            board.host, pending = pending.result(), None
        else:
            log.warning("sensor.host_blocked", deadline_s=HOST_DEADLINE_S)
            board.host = HostReading()
        board.changed()
        await clock.sleep(every_s)


async def read_gpus(board: Board, sensor: GpuSensor, *, outbox: Outbox, clock: Clock, every_s: float) -> None:
    """Keep the cards' readings fresh; for ever. Each problem is said once, when it begins."""
    last = Problem.NONE
    while True:
        report = await sensor.read()
        board.gpus = report.gpus
        board.gpu_problem = report.detail
        if report.problem is not last:
            last = report.problem
            await _say_problem(report, outbox)
        board.changed()
        missing = report.problem is Problem.MISSING
        await clock.sleep(GPU_MISSING_RECHECK_S if missing else every_s)


async def _say_problem(report: Report, outbox: Outbox) -> None:
    if report.problem is Problem.NONE:
        log.info("gpu.readable", gpus=len(report.gpus))
        await outbox.say("gpu.readable", f"{len(report.gpus)} cards can be read", gpus=len(report.gpus))
    elif report.problem is Problem.MISSING:
        log.info("gpu.none", detail=report.detail)
    else:
        log.error("gpu.unreadable", problem=report.problem.value, detail=report.detail)
        await outbox.say("gpu.unreadable", report.detail, Level.ERROR, problem=report.problem.value)
