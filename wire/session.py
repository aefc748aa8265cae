"""The state machines of both sides, without I/O: bytes and times in, facts and bytes out.

A shell calls ``receive(data, now)`` for every binary message and ``on_deadline(now)`` when ``next_deadline()`` has
passed, acts on the returned inputs, and sends every item of ``frames_to_send()`` after each of these and after each
call of its own. ``now`` is monotonic seconds. After an `Ended` it sends what is left and closes the socket with code
4000 + reason.

The parts: `wire.states` (tables), `wire.peer` (rules of both sides), `wire.handshake`, `wire.streams` (positions and
windows), `wire.agent_session`, `wire.hub_session`, `wire.inputs` (the facts). This module is their front.
"""

from wire.agent_session import AgentSession
from wire.handshake import Sign, Verify, fingerprint
from wire.hub_session import HubSession
from wire.inputs import (
    Acknowledged,
    AgentInput,
    Ended,
    EventsReceived,
    FullStatusWanted,
    Heard,
    HeartbeatDue,
    HelloReceived,
    HubInput,
    JobAssigned,
    JobCancelled,
    KeyAnswered,
    KeyOffered,
    Opened,
    PeerUnsupported,
    RefusedByHub,
    Renewed,
    Replied,
    StatusReceived,
)
from wire.states import AgentState, HubState
from wire.streams import Want

__all__ = [
    "Acknowledged",
    "AgentInput",
    "AgentSession",
    "AgentState",
    "Ended",
    "EventsReceived",
    "FullStatusWanted",
    "Heard",
    "HeartbeatDue",
    "HelloReceived",
    "HubInput",
    "HubSession",
    "HubState",
    "JobAssigned",
    "JobCancelled",
    "KeyAnswered",
    "KeyOffered",
    "Opened",
    "PeerUnsupported",
    "RefusedByHub",
    "Renewed",
    "Replied",
    "Sign",
    "StatusReceived",
    "Verify",
    "Want",
    "fingerprint",
]
