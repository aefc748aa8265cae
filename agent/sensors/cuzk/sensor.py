"""Asks a cuzk-daemon how it is: HTTP first, gRPC where that is off. Each read has a deadline and never raises.

What the daemon last said is kept, with its time, while it cannot be read; why it cannot is one of five named states.
"""

import asyncio

import msgspec
import structlog
from msgspec import Struct

from agent.clock import Clock
from agent.config import CuzkAddresses, GrpcAddress
from agent.outbox import Field
from agent.sensors.cuzk import grpc_status
from agent.sensors.cuzk.answer import Answer, parse
from agent.sensors.cuzk.fates import Outcome
from agent.sensors.cuzk.grpc_status import CallFailed
from agent.sensors.cuzk.http_status import HttpStatus
from agent.sensors.cuzk.job import Sure
from agent.sensors.cuzk.memory import MemoryFile
from agent.sensors.cuzk.mend import ENGINE, Mender
from agent.sensors.cuzk.mend_grpc import GrpcMender
from agent.sensors.cuzk.steady import Moment
from agent.sensors.cuzk.trouble import Refused, Unreadable
from wire.engines import EngineJobState, EngineReading, EngineState
from wire.frames import Level, NodeEvent
from wire.text import clipped

log = structlog.get_logger(__name__)

DEADLINE_S = 2.0
GRPC_EVERY_S = 15.0
"""Between two calls of GetStatus: the daemon runs nvidia-smi for each."""
GRPC_SHARE = 0.5
"""Of what is left of the deadline, for each step over gRPC."""
LARGE_ANSWER_BYTES = 64 * 1024
"""An answer larger than this is taken apart in a thread."""
TROUBLE_READS = 2
"""Reads that must fail before it is said: one alone is a daemon that was restarted, or busy for a moment."""
OUTCOMES_TOLD_MAX = 32
"""Told one by one of one answer: a daemon seen for the first time may list a thousand failures."""


class EngineReport(Struct, frozen=True):
    """One read; no reading where no daemon was ever seen and none was asked for."""

    reading: EngineReading | None
    events: list[NodeEvent] = []


class CuzkSensor:
    """Reads one daemon. ``close`` when done.

    Args:
        addresses: where to look.
        clock: of the readings' times.
        memory: what is kept over restarts of the agent.
        deadline_s: of one read.
    """

    def __init__(
        self,
        addresses: CuzkAddresses,
        *,
        clock: Clock,
        memory: MemoryFile | None = None,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._http = HttpStatus(*addresses.http)
        self._grpc = list(addresses.grpc)
        self._asked = addresses.asked
        self._clock = clock
        self._memory = memory or MemoryFile(None, "")
        self._deadline_s = deadline_s
        self._mender: Mender | None = None
        self._grpc_mender = GrpcMender()
        self._seen = False
        self._reading = EngineReading(engine=ENGINE, state=EngineState.DOWN)
        self._answered_at_ms: int | None = None
        self._grpc_due_s = 0.0
        self._grpc_note = ""
        self._told_state: EngineState | None = None
        self._failed_reads = 0

    async def read(self) -> EngineReport:
        """One read. One at a time."""
        if self._mender is None:
            remembered = await asyncio.to_thread(self._memory.load)
            self._seen = remembered is not None
            self._mender = Mender(None if remembered is None else remembered.known)
        mender = self._mender
        events: list[NodeEvent] = []
        try:
            answer = await self._ask()
        except Unreadable as trouble:
            self._say_state(trouble.state, trouble.detail, events)
        else:
            if answer is not None:
                await self._take(mender, answer, events)
        if self._seen and self._memory.is_news(mender.known()):
            await asyncio.to_thread(self._memory.save, mender.known())
        return EngineReport(self._reading, events) if self._seen or self._asked else EngineReport(None)

    def broke(self, error: Exception) -> EngineReport:
        """The report of a read that raised, which is a fault of this agent and not of the daemon."""
        events: list[NodeEvent] = []
        detail = f"the agent itself failed to read the daemon: {type(error).__name__}: {error}; its log has the place"
        self._say_state(EngineState.BAD_ANSWER, detail, events)
        return EngineReport(self._reading, events) if self._seen or self._asked else EngineReport(None)

    async def _ask(self) -> Answer | None:
        """An answer over HTTP; None where gRPC has been taken in its place.

        Raises:
            Unreadable: neither way.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._deadline_s
        try:
            raw = await self._http.fetch(self._deadline_s)
        except Refused:
            trouble = None
        except Unreadable as unreadable:
            if unreadable.state is not EngineState.WRONG_SERVICE:
                raise
            trouble = unreadable
        else:
            return await asyncio.to_thread(parse, raw) if len(raw) > LARGE_ANSWER_BYTES else parse(raw)
        await self._ask_grpc(trouble, end_s)
        return None

    async def _take(self, mender: Mender, answer: Answer, events: list[NodeEvent]) -> None:
        now = Moment(self._clock.monotonic(), self._clock.unix_ms())
        if len(answer.pipelines) > OUTCOMES_TOLD_MAX:
            reading, outcomes = await asyncio.to_thread(mender.take, answer, now)
        else:
            reading, outcomes = mender.take(answer, now)
        self._seen = True
        self._reading, self._answered_at_ms = reading, now.unix_ms
        self._tell_state(EngineState.OK, "", events)
        events += _job_events(outcomes)

    # --- gRPC -----------------------------------------------------------------------------------------------------

    async def _ask_grpc(self, trouble: Unreadable | None, end_s: float) -> None:
        """What gRPC says where HTTP says nothing: whether the daemon runs at all, and now and then its own totals.

        Raises:
            Unreadable: always; what was learned is in the reading.
        """
        address, notes = await self._speaking(end_s)
        if address is None:
            self._grpc_due_s, self._grpc_note = 0.0, ""
            if trouble is not None:
                raise trouble
            raise Unreadable(EngineState.DOWN, self._down(notes))
        self._seen = True
        if self._clock.monotonic() >= self._grpc_due_s:
            self._grpc_due_s = self._clock.monotonic() + GRPC_EVERY_S
            self._grpc_note = await self._call(address, end_s)
        if trouble is not None:
            raise Unreadable(trouble.state, f"{trouble.detail}; {self._grpc_note}")
        raise Unreadable(
            EngineState.STATUS_DISABLED,
            f"the daemon answers gRPC at {address} and nothing listens at {self._http.address}: its HTTP status is "
            "off, or could not bind. Set daemon.status_listen in cuzk.toml to that address and restart the daemon when "
            f"no proof is under way; {self._grpc_note}",
        )

    async def _speaking(self, end_s: float) -> tuple[GrpcAddress | None, list[str]]:
        """The first address that speaks HTTP/2; what was found at the others."""
        notes = []
        for address in list(self._grpc):
            try:
                if await grpc_status.speaks_http2(address, _share(end_s)):
                    self._grpc.remove(address)
                    self._grpc.insert(0, address)
                    return address, []
            except PermissionError:
                notes.append(f"{address} is not open to the agent's user")
            else:
                notes.append(f"nothing speaks gRPC at {address}")
        return None, notes

    async def _call(self, address: GrpcAddress, end_s: float) -> str:
        """One GetStatus, taken into the reading; a sentence about it."""
        if not grpc_status.can_call():
            return f"until then this agent could read less over gRPC: pip install '{grpc_status.EXTRA}'"
        try:
            message = await grpc_status.get_status(address, _share(end_s))
        except CallFailed as failed:
            return f"its gRPC status cannot be read either: {failed}"
        now = Moment(self._clock.monotonic(), self._clock.unix_ms())
        self._reading, self._answered_at_ms = self._grpc_mender.take(message, now), now.unix_ms
        return "until then only totals and workers are known, over gRPC"

    def _down(self, notes: list[str]) -> str:
        where = "; ".join(notes) if notes else "its gRPC is not asked (--cuzk-grpc off)"
        return (
            f"nothing listens at {self._http.address}, and {where}: the cuzk-daemon does not run. Start it, and see "
            "its log for why it ended; if it listens elsewhere, tell the agent with --cuzk and --cuzk-grpc"
        )

    # --- telling --------------------------------------------------------------------------------------------------

    def _say_state(self, state: EngineState, detail: str, events: list[NodeEvent]) -> None:
        """Put a trouble into the reading; the rest stays as it last was, with its own time."""
        detail = clipped(detail)
        fields = (state, detail, self._answered_at_ms)
        if fields != (self._reading.state, self._reading.detail, self._reading.answered_at_ms):
            self._reading = msgspec.structs.replace(
                self._reading, state=state, detail=detail, answered_at_ms=self._answered_at_ms
            )
        self._tell_state(state, detail, events)

    def _tell_state(self, state: EngineState, detail: str, events: list[NodeEvent]) -> None:
        """An event for a change of state, once it is more than a moment's."""
        if state is self._told_state or not (self._seen or self._asked):
            self._failed_reads = 0
            return
        self._failed_reads += 1
        if state is not EngineState.OK and self._failed_reads < TROUBLE_READS:
            return
        before = None if self._told_state is None else self._told_state.value
        self._told_state, self._failed_reads = state, 0
        good = state is EngineState.OK
        text = f"the cuzk-daemon's status can be read at {self._http.address}" if good else detail
        level = Level.INFO if good else Level.WARNING if state is EngineState.STATUS_DISABLED else Level.ERROR
        fields: dict[str, Field] = {"engine": ENGINE, "state": state.value, "before": before}
        events.append(NodeEvent(kind="engine.state", detail=text, level=level, fields=fields))


def _share(end_s: float) -> float:
    """The next step's part of the time up to ``end_s`` of the loop's clock."""
    return max(0.05, (end_s - asyncio.get_running_loop().time()) * GRPC_SHARE)


KINDS = {
    EngineJobState.DONE: "engine.job_done",
    EngineJobState.FAILED: "engine.job_failed",
    EngineJobState.RUNNING: "engine.job_resumed",
}


def _job_events(outcomes: list[Outcome]) -> list[NodeEvent]:
    events = [_job_event(outcome) for outcome in outcomes[:OUTCOMES_TOLD_MAX]]
    more = len(outcomes) - len(events)
    if more:
        detail = f"and {more} more jobs of the cuzk-daemon ended, or were found ended, at the same time"
        fields: dict[str, Field] = {"engine": ENGINE, "jobs": more}
        events.append(NodeEvent(kind="engine.job_failed", detail=detail, level=Level.WARNING, fields=fields))
    return events


def _job_event(outcome: Outcome) -> NodeEvent:
    took = "" if outcome.elapsed_s is None else f" after {outcome.elapsed_s:.0f} s"
    what = {
        EngineJobState.DONE: f"is done{took}",
        EngineJobState.FAILED: f"failed{took}",
        EngineJobState.RUNNING: "is not failed",
    }[outcome.fate]
    level = Level.INFO if outcome.fate is EngineJobState.DONE else Level.WARNING
    if outcome.fate is EngineJobState.FAILED and outcome.sure is not Sure.SUSPECTED:
        level = Level.ERROR
    why = f": {outcome.why}" if outcome.why else ""
    fields: dict[str, Field] = {
        "engine": ENGINE,
        "job": clipped(outcome.id),
        "proof_kind": clipped(outcome.kind),
        "sure": outcome.sure.value,
        "partition": outcome.culprit,
        "partitions": outcome.partitions,
        "elapsed_s": None if outcome.elapsed_s is None else round(outcome.elapsed_s, 1),
    }
    detail = clipped(f"cuzk job {outcome.id} ({outcome.kind}) {what}{why}")
    return NodeEvent(kind=KINDS[outcome.fate], detail=detail, level=level, fields=fields)
