"""The states of a session as tables: what may happen in which state, and where it leads.

A trigger is a frame that was received, or something this side does by itself (`Local`). A pair that is not in the
table is an error: the peer's for a frame, the caller's for a `Local`. The diagram in docs/protocol.md is drawn from
these tables.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from msgspec import Struct

from wire.codec import UnknownFrame
from wire.errors import LocalProtocolError, UnexpectedFrame
from wire.frames import (
    Ack,
    AssignJob,
    Bye,
    CancelJob,
    Challenge,
    Events,
    Hello,
    InstallKey,
    JobReply,
    KeyInstalled,
    LeaseRenew,
    Refused,
    ReportFull,
    Status,
    Unsupported,
    Welcome,
)


class AgentState(StrEnum):
    """Where a session is, seen by the agent."""

    AWAIT_CHALLENGE = "awaiting the challenge"
    AWAIT_WELCOME = "awaiting the welcome"
    OPEN = "open"
    ENDED = "ended"


class HubState(StrEnum):
    """Where a session is, seen by the hub."""

    AWAIT_HELLO = "awaiting the hello"
    LOOKUP = "looking the agent up"
    AUTHENTICATED = "preparing the welcome"
    OPEN = "open"
    ENDED = "ended"


class Local(StrEnum):
    """What a side does by itself."""

    AUTHENTICATE = "authenticate"
    """The hub found the hello's signature to be right."""
    WELCOME = "welcome"
    """The hub opens the session."""
    SEND = "send"
    """A frame that only an open session carries."""
    END = "end"
    """Bye or Refused is sent, or a deadline has passed."""


Trigger = type[Struct] | Local
_State = TypeVar("_State", AgentState, HubState)

AGENT_TRANSITIONS: dict[AgentState, dict[Trigger, AgentState]] = {
    AgentState.AWAIT_CHALLENGE: {
        Challenge: AgentState.AWAIT_WELCOME,
        Refused: AgentState.ENDED,
        Bye: AgentState.ENDED,
        Local.END: AgentState.ENDED,
    },
    AgentState.AWAIT_WELCOME: {
        Welcome: AgentState.OPEN,
        Refused: AgentState.ENDED,
        Bye: AgentState.ENDED,
        Local.END: AgentState.ENDED,
    },
    AgentState.OPEN: {
        Ack: AgentState.OPEN,
        ReportFull: AgentState.OPEN,
        AssignJob: AgentState.OPEN,
        CancelJob: AgentState.OPEN,
        InstallKey: AgentState.OPEN,
        Unsupported: AgentState.OPEN,
        UnknownFrame: AgentState.OPEN,
        Bye: AgentState.ENDED,
        Local.SEND: AgentState.OPEN,
        Local.END: AgentState.ENDED,
    },
    AgentState.ENDED: {},
}

HUB_TRANSITIONS: dict[HubState, dict[Trigger, HubState]] = {
    HubState.AWAIT_HELLO: {
        Hello: HubState.LOOKUP,
        Bye: HubState.ENDED,
        Local.END: HubState.ENDED,
    },
    HubState.LOOKUP: {
        Bye: HubState.ENDED,
        Local.AUTHENTICATE: HubState.AUTHENTICATED,
        Local.END: HubState.ENDED,
    },
    HubState.AUTHENTICATED: {
        Bye: HubState.ENDED,
        Local.WELCOME: HubState.OPEN,
        Local.END: HubState.ENDED,
    },
    HubState.OPEN: {
        Status: HubState.OPEN,
        Events: HubState.OPEN,
        JobReply: HubState.OPEN,
        KeyInstalled: HubState.OPEN,
        LeaseRenew: HubState.OPEN,
        Unsupported: HubState.OPEN,
        UnknownFrame: HubState.OPEN,
        Bye: HubState.ENDED,
        Local.SEND: HubState.OPEN,
        Local.END: HubState.ENDED,
    },
    HubState.ENDED: {},
}


def advance(table: Mapping[_State, Mapping[Trigger, _State]], state: _State, trigger: Trigger) -> _State:
    """The state after ``trigger``.

    Raises:
        UnexpectedFrame: a frame has no place in ``state``.
        LocalProtocolError: this side may not do that in ``state``.
    """
    after = table[state].get(trigger)
    if after is not None:
        return after
    if isinstance(trigger, Local):
        raise LocalProtocolError(f"cannot {trigger} while the session is {state}")
    raise UnexpectedFrame(trigger.__name__, state)
