"""What a session tells its shell: facts to act on, each a frozen value."""

from dataclasses import dataclass

from msgspec import Struct

from wire.frames import (
    AssignJob,
    CancelJob,
    Event,
    Hello,
    InstallKey,
    JobHeld,
    JobReply,
    KeyInstalled,
    Stream,
    Welcome,
)
from wire.picture import CHANGES_KEYS, STATUS_KEYS, Picture
from wire.plain import Plain
from wire.readings import GpuReading
from wire.status import NodeStatus


@dataclass(frozen=True, slots=True)
class Ended:
    """The session is over: send what is left, then close with code 4000 + ``reason``.

    ``reason`` is a `wire.reasons.Reason`, or the plain number of one this version does not know.
    """

    reason: int
    detail: str
    wait_s: float
    """How long the peer asked to stay away; 0 when it did not."""
    by_peer: bool


@dataclass(frozen=True, slots=True)
class PeerUnsupported:
    """The peer does not know a frame type this side sent; for the log."""

    tag: str


_GPU_KEYS = dict(zip(GpuReading.__struct_fields__, GpuReading.__struct_encode_fields__, strict=True))
_UUID, _STATE, _DETAIL = _GPU_KEYS["uuid"], _GPU_KEYS["state"], _GPU_KEYS["detail"]
_CARDS, _GPUS, _ENGINES = STATUS_KEYS["gpus"], CHANGES_KEYS["gpus"], CHANGES_KEYS["engines"]
_OF_READINGS = frozenset({STATUS_KEYS["host"], STATUS_KEYS["outbox"]})


# --- at the agent ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opened:
    """The hub proved its identity and opened the session. `Acknowledged` follows for what it has already."""

    welcome: Welcome


@dataclass(frozen=True, slots=True)
class RefusedByHub:
    """No session; an `Ended` with the same reason follows."""

    reason_code: int
    detail: str
    wait_s: float


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The hub's store holds everything of this stream up to ``seq``: the outbox may forget it."""

    epoch: str
    stream: Stream
    seq: int


@dataclass(frozen=True, slots=True)
class Heard:
    """The hub acknowledged something; ``status_seq`` is the last status it heard, 0 for none."""

    status_seq: int


@dataclass(frozen=True, slots=True)
class HeartbeatDue:
    """No status was sent for a heartbeat: call ``send_status``."""


@dataclass(frozen=True, slots=True)
class FullStatusWanted:
    """The hub asks for a full status: call ``send_status``, which will send one."""

    detail: str


@dataclass(frozen=True, slots=True)
class JobAssigned:
    """A job to prove; may be said more than once."""

    frame: AssignJob


@dataclass(frozen=True, slots=True)
class JobCancelled:
    """A job to stop; may be said more than once."""

    frame: CancelJob


@dataclass(frozen=True, slots=True)
class KeyOffered:
    """The hub wants its SSH key let in; answer with ``answer_key``."""

    frame: InstallKey


AgentInput = (
    Opened
    | RefusedByHub
    | Acknowledged
    | Heard
    | HeartbeatDue
    | FullStatusWanted
    | JobAssigned
    | JobCancelled
    | KeyOffered
    | PeerUnsupported
    | Ended
)

# --- at the hub -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HelloReceived:
    """Look the agent up, then ``authenticate``; until then nothing in ``hello`` may be believed."""

    hello: Hello


class StatusReceived(Struct, frozen=True):
    """A status in order: ``told`` and ``changes`` are what came, ``picture`` is all that is known after it.

    The picture goes on changing with the frames that follow; ``status`` is made from it when it is asked for.
    """

    status_seq: int
    full: bool
    told: Plain
    """All of it in a full frame, else the top-level fields that changed; under the wire's keys."""
    changes: Plain | None
    """What changed inside the others."""
    picture: Picture
    time_ms: int
    monotonic_ns: int

    def tells(self, *fields: str) -> bool:
        """Whether one of these fields of the picture was told whole."""
        told = self.told
        if told:
            for field in fields:
                if STATUS_KEYS[field] in told:
                    return True
        return False

    @property
    def of_state(self) -> bool:
        """Whether it may tell of more than readings: what an operator wants to see at once."""
        told, changes = self.told, self.changes
        if told and not _OF_READINGS.issuperset(told):
            return True
        if not changes:
            return False
        if changes.get(_ENGINES):
            return True
        for card in changes.get(_GPUS, ()):  # noqa: SIM110 - as above
            if _STATE in card or _DETAIL in card:
                return True
        return False

    @property
    def cards(self) -> list[str] | None:
        """The UUIDs of the node's cards, if they were told whole."""
        gpus = self.told.get(_CARDS)
        return None if gpus is None else [card[_UUID] for card in gpus]

    @property
    def status(self) -> NodeStatus:
        """The whole picture now: costs much more than the frame did, so ask only when it is needed."""
        return self.picture.status


class EventsReceived(Struct, frozen=True):
    """Events that directly follow what was received before: store, commit, then ``acknowledge``."""

    epoch: str
    stream: Stream
    events: list[Event]
    size_bytes: int
    """Of the frame they came in."""


@dataclass(frozen=True, slots=True)
class KeyAnswered:
    """What became of a key the agent was to let in."""

    frame: KeyInstalled


@dataclass(frozen=True, slots=True)
class Replied:
    """The agent takes an assigned job or not."""

    reply: JobReply


@dataclass(frozen=True, slots=True)
class Renewed:
    """The workers of these jobs are alive."""

    jobs: list[JobHeld]


HubInput = HelloReceived | StatusReceived | EventsReceived | Replied | KeyAnswered | Renewed | PeerUnsupported | Ended
