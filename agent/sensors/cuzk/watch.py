"""Keeps the board's picture of the daemon fresh, and says what happened there into the outbox."""

import structlog

from agent.board import Board
from agent.clock import Clock
from agent.faults import FAULTS
from agent.outbox import Outbox
from agent.sensors.cuzk.sensor import CuzkSensor
from wire.engines import EngineState
from wire.frames import Level

log = structlog.get_logger(__name__)

ABSENT_RECHECK_S = 10.0
"""Where no daemon was ever seen, one is looked for this seldom."""


async def read_engines(board: Board, sensor: CuzkSensor, *, outbox: Outbox, clock: Clock, every_s: float) -> None:
    """Read for ever."""
    broken = False
    while True:
        began_s = clock.monotonic()
        try:
            report = await sensor.read()
        except Exception as error:  # whoever listens on that port must not be able to end the agent
            FAULTS["engine"] += 1
            if not broken:
                log.exception("engine.sensor_failed")
            broken, report = True, sensor.broke(error)
        else:
            broken = False
        if report.reading is not None:
            good = report.reading.state is EngineState.OK
            board.sensors.read("cuzk", began_s, clock.monotonic(), good=good)
        engines = [] if report.reading is None else [report.reading]
        if engines != board.engines:
            board.engines = engines
            board.changed()
        for event in report.events:
            say = log.info if event.level is Level.INFO else log.warning
            say(event.kind, detail=event.detail, **event.fields)
            await outbox.say(event.kind, event.detail, event.level, **event.fields)
        wait_s = ABSENT_RECHECK_S if report.reading is None else every_s
        await clock.sleep(max(0.0, wait_s - (clock.monotonic() - began_s)))
