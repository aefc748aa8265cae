"""A fake engine, a mender, and time that passes between answers."""

import json
from typing import Any

import msgspec

from agent.sensors.cuzk.answer import parse
from agent.sensors.cuzk.fates import Outcome
from agent.sensors.cuzk.mend import Known, Mender
from agent.sensors.cuzk.steady import Moment
from tests.agent.sensors.cuzk.fake_engine import FakeEngine
from wire.engines import EngineJob, EngineJobState, EngineReading

WALL_MS = 1_800_000_000_000


class Story:
    """What happens to one daemon, seen once a second unless told otherwise."""

    def __init__(self) -> None:
        self.now_s = 5_000.0
        self.engine = FakeEngine(lambda: self.now_s)
        self.now_s += 1_000.0
        self.mender = Mender()
        self.told: list[Outcome] = []
        self.reading: EngineReading
        self.look()

    def look(self, **changes: Any) -> EngineReading:
        """One answer, with top-level parts replaced."""
        answer = parse(json.dumps({**self.engine.status(), **changes}).encode())
        now = Moment(self.now_s, WALL_MS + int(self.now_s * 1000))
        self.reading, outcomes = self.mender.take(answer, now)
        self.told += outcomes
        return self.reading

    def passes(self, seconds: float, *, every_s: float = 1.0) -> EngineReading:
        """Time, and an answer each ``every_s`` of it."""
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s = min(end_s, self.now_s + every_s)
            self.look()
        return self.reading

    def restart(self) -> None:
        """The daemon ends and starts anew."""
        self.engine = FakeEngine(lambda: self.now_s)

    def agent_restarts(self) -> None:
        """Another agent takes over with what the first one remembered."""
        known = self.mender.known()
        self.mender = Mender(None if known is None else msgspec.json.decode(msgspec.json.encode(known), type=Known))

    def job(self, name: str) -> EngineJob:
        (found,) = (job for job in self.reading.jobs if job.id == name)
        return found

    def fates(self) -> list[tuple[str, str]]:
        """(job, fate) in the order they were told."""
        return [(each.id, each.fate.value) for each in self.told]


DONE, FAILED, RUNNING = (state.value for state in (EngineJobState.DONE, EngineJobState.FAILED, EngineJobState.RUNNING))
