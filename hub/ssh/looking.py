"""One look at a node by SSH: what is run there, and what its output says, rung by rung; pure.

What comes back was printed by a machine of somebody else's: it is bounded and made harmless before it is shown, and a
status in it is believed only with the agent's signature over the nonce that was sent along.
"""

import re

from msgspec import UNSET, Struct

from hub.keys import verify_signature
from hub.ssh import ladder, scripts
from hub.ssh.cause import Cause
from hub.ssh.causes import Diagnosis
from hub.ssh.ladder import Rung, State, Step
from hub.ssh.record import Record
from hub.ssh.streams import shortened, shown
from wire.engines import EngineJobState
from wire.errors import WireError
from wire.signed_status import PREFIX, SignedStatus, read
from wire.status import NodeStatus, WorkerState

PURPOSE = "look"
"""Of the attempts that a ladder can be read from."""
SHOWN_BYTES_MAX = 128 * 1024
"""Of what was printed, a status left out: it is far less on any node that means well."""
FRAMES_MAX = 8
"""Agents on one machine whose statuses are tried."""
_FRAME = re.compile(rb"^" + re.escape(PREFIX.encode()) + rb"[A-Za-z0-9_=-]+\r?$", re.MULTILINE)


class Ladder(Struct, frozen=True, kw_only=True):
    """What one look found."""

    node_id: str
    attempt: str
    """The id of the attempt it was made with."""
    at_ms: int
    """When it was over, by the hub's clock."""
    duration_s: float
    cause: Cause
    steps: tuple[Step, ...]
    reached: bool
    """Whether a shell at the node ran anything."""

    @property
    def summary(self) -> str:
        """One sentence: the first rung that fails, and whether provers live."""
        return ladder.summary(self.steps)

    def step(self, rung: Rung) -> Step:
        """One rung."""
        return next(step for step in self.steps if step.rung is rung)


def script(nonce: bytes) -> str:
    """What a look runs at the node; it changes nothing."""
    return f"{scripts.LOOK}\n{scripts.local_status(nonce.hex())}"


def ladder_of(
    record: Record, *, nonce: bytes | None = None, agent_key: bytes = b""
) -> tuple[Ladder, SignedStatus | None]:
    """What an attempt with `script` found, and the agent's own word if it is there and believed.

    Without the nonce, of an attempt long ago, a status is not read again.
    """
    at_ms = record.started_at_ms + round(record.duration_s * 1000)
    way = ladder.way_in(Diagnosis(record.cause, record.evidence, record.remedy), reached_shell=record.way_works)
    found = scripts.sections(_harmless(record.stdout)) if record.way_works else None
    steps = [*way, *ladder.beyond(found, at_ms / 1000, whole=record.remote_exit_code is not None)]
    status: SignedStatus | None = None
    if nonce is not None and found is not None:
        status, problem = _status_in(record.stdout, nonce=nonce, agent_id=record.node_id, agent_key=agent_key)
        steps = [_status_step(step, status, problem) if step.rung is Rung.STATUS else step for step in steps]
    found_ladder = Ladder(
        node_id=record.node_id,
        attempt=record.id,
        at_ms=at_ms,
        duration_s=record.duration_s,
        cause=record.cause,
        steps=tuple(steps),
        reached=record.way_works,
    )
    return found_ladder, status


def _harmless(stdout: bytes) -> str:
    """What was printed, a signed status shortened to its beginning."""
    return shown(shortened(_FRAME.sub(PREFIX.encode(), stdout), SHOWN_BYTES_MAX))


def _status_in(stdout: bytes, *, nonce: bytes, agent_id: str, agent_key: bytes) -> tuple[SignedStatus | None, str]:
    """This agent's status among those printed, or why none is believed; empty if none was printed."""
    problem = ""
    for match in list(_FRAME.finditer(stdout))[:FRAMES_MAX]:
        text = match[0].decode("ascii").strip()
        try:
            return read(text, nonce=nonce, agent_id=agent_id, agent_key=agent_key, verify=verify_signature), ""
        except WireError as error:
            problem = str(error)
    return None, problem


def _status_step(step: Step, status: SignedStatus | None, problem: str) -> Step:
    if status is not None:
        sentence = f"the agent answers on the node, with a signed status: {doing(status.status)}"
        return Step(Rung.STATUS, State.OK, sentence)
    if problem or step.state is State.OK:
        why = problem or "it is none"
        return Step(Rung.STATUS, State.FAILED, f"a status was printed and is not believed: {why}", step.detail)
    return step


def doing(status: NodeStatus) -> str:
    """What a node does, by its own word: ``proving``, ``idle`` and so on."""
    states = {worker.state for worker in (() if status.workers is UNSET else status.workers)}
    engines = () if status.engines is UNSET else status.engines
    running = any(job.state is EngineJobState.RUNNING for engine in engines for job in engine.jobs)
    if WorkerState.PROVING in states or running:
        return "proving"
    if WorkerState.IDLE in states or engines:
        return "idle"
    bad = next(
        (state for state in (WorkerState.SILENT, WorkerState.DOWN, WorkerState.STARTING) if state in states), None
    )
    return "without a worker" if bad is None else f"its worker {bad.value}"
