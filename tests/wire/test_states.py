"""The tables: whole, closed, and the sessions really follow them."""

from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from msgspec import Struct

from tests.wire.examples import AGENT_FRAMES, BY_DIRECTION, HUB_FRAMES
from tests.wire.pair import AGENT_KEY, SessionPair, hello_with, open_pair, welcome_for
from tests.wire.strategies import members
from wire.codec import UnknownFrame, encode
from wire.errors import LocalProtocolError, UnexpectedFrame
from wire.frames import AgentFrame, AssignJob, CancelJob, HubFrame, JobReply, Stream
from wire.reasons import Reason
from wire.session import AgentState, Ended, HubState
from wire.states import AGENT_TRANSITIONS, HUB_TRANSITIONS, Local, Trigger, advance
from wire.status import NodeStatus

AGENT_HEARS: list[type[Struct]] = [*members(HubFrame), UnknownFrame]
HUB_HEARS: list[type[Struct]] = [*members(AgentFrame), UnknownFrame]


def test_every_state_has_a_row_and_every_move_leads_to_one() -> None:
    for states, table in ((AgentState, AGENT_TRANSITIONS), (HubState, HUB_TRANSITIONS)):
        assert set(table) == set(states)
        assert {after for moves in table.values() for after in moves.values()} <= set(table)


def test_triggers_are_frames_of_the_right_direction_or_local() -> None:
    for hears, table in ((AGENT_HEARS, AGENT_TRANSITIONS), (HUB_HEARS, HUB_TRANSITIONS)):
        triggers = {trigger for moves in table.values() for trigger in moves if not isinstance(trigger, Local)}
        assert triggers == set(hears)


def test_the_end_is_reached_from_everywhere_and_left_for_nothing() -> None:
    for table, end in ((AGENT_TRANSITIONS, AgentState.ENDED), (HUB_TRANSITIONS, HubState.ENDED)):
        assert table[end] == {}  # type: ignore[index]
        for state, moves in table.items():
            if state != end:
                assert moves[Local.END] == end


def test_nothing_is_believed_before_the_handshake_is_over() -> None:
    for state in (HubState.AWAIT_HELLO, HubState.LOOKUP, HubState.AUTHENTICATED):
        heard = {trigger.__name__ for trigger in HUB_TRANSITIONS[state] if not isinstance(trigger, Local)}
        assert heard <= {"Hello", "Bye"}
    for before in (AgentState.AWAIT_CHALLENGE, AgentState.AWAIT_WELCOME):
        heard = {trigger.__name__ for trigger in AGENT_TRANSITIONS[before] if not isinstance(trigger, Local)}
        assert heard <= {"Challenge", "Welcome", "Refused", "Bye"}


@pytest.mark.parametrize("trigger", [*HUB_HEARS, *Local], ids=lambda item: getattr(item, "__name__", str(item)))
@pytest.mark.parametrize("state", HubState)
def test_a_pair_outside_the_table_is_a_typed_error(state: HubState, trigger: Trigger) -> None:
    after = HUB_TRANSITIONS[state].get(trigger)
    if after is not None:
        assert advance(HUB_TRANSITIONS, state, trigger) == after
        return
    with pytest.raises(LocalProtocolError if isinstance(trigger, Local) else UnexpectedFrame, match=state):
        advance(HUB_TRANSITIONS, state, trigger)


def pair_with_hub_in(state: HubState) -> SessionPair:
    if state == HubState.OPEN:
        return open_pair()
    pair = SessionPair()
    pair.hub.frames_to_send()
    if state == HubState.ENDED:
        pair.hub.say_bye(Reason.GOODBYE, "")
        pair.hub.frames_to_send()
        return pair
    if state != HubState.AWAIT_HELLO:
        pair = SessionPair()
        pair.to_agent()
        pair.to_hub()
    if state == HubState.AUTHENTICATED:
        pair.hub.authenticate(AGENT_KEY)
    return pair


def pair_with_agent_in(state: AgentState) -> SessionPair:
    pair = open_pair() if state == AgentState.OPEN else SessionPair()
    if state == AgentState.AWAIT_WELCOME:
        pair.to_agent()
    if state == AgentState.ENDED:
        pair.agent.say_bye(Reason.GOODBYE, "")
    pair.agent.frames_to_send()
    return pair


UNKNOWN = msgpack.packb({"t": "new"})


@pytest.mark.parametrize("name", [*AGENT_FRAMES, "unknown"])
@pytest.mark.parametrize("state", HubState)
def test_the_hub_follows_its_table(state: HubState, name: str) -> None:
    pair = pair_with_hub_in(state)
    assert pair.hub.state == state
    kind = UnknownFrame if name == "unknown" else type(AGENT_FRAMES[name])
    data = UNKNOWN if name == "unknown" else encode(AGENT_FRAMES[name])
    inputs = pair.hub.receive(data, 1.0)
    if state == HubState.ENDED:
        assert inputs == []
        assert pair.hub.frames_to_send() == []
    elif kind not in HUB_TRANSITIONS[state]:
        assert_ended_for(inputs, Reason.UNEXPECTED_FRAME)
        assert pair.hub.state == HubState.ENDED
        assert len(pair.hub.frames_to_send()) == 1
    elif not name.startswith(("events", "status.heartbeat")):  # these examples do not begin a stream
        assert pair.hub.state == HUB_TRANSITIONS[state][kind]


@pytest.mark.parametrize("name", [*HUB_FRAMES, "unknown"])
@pytest.mark.parametrize("state", AgentState)
def test_the_agent_follows_its_table(state: AgentState, name: str) -> None:
    pair = pair_with_agent_in(state)
    assert pair.agent.state == state
    kind = UnknownFrame if name == "unknown" else type(HUB_FRAMES[name])
    data = UNKNOWN if name == "unknown" else encode(HUB_FRAMES[name])
    inputs = pair.agent.receive(data, 1.0)
    if state == AgentState.ENDED:
        assert inputs == []
        assert pair.agent.frames_to_send() == []
    elif kind not in AGENT_TRANSITIONS[state]:
        assert_ended_for(inputs, Reason.UNEXPECTED_FRAME)
        assert pair.agent.state == AgentState.ENDED
        assert len(pair.agent.frames_to_send()) == 1
    elif name not in {"challenge", "welcome", "welcome.rates", "ack"}:  # these examples are of other sessions
        assert pair.agent.state == AGENT_TRANSITIONS[state][kind]


def assert_ended_for(inputs: list[Any], reason: Reason) -> None:
    assert len(inputs) == 1
    assert isinstance(inputs[0], Ended)
    assert (inputs[0].reason, inputs[0].by_peer) == (reason, False)


ASSIGN = BY_DIRECTION["hub"]["assign"]
CANCEL = BY_DIRECTION["hub"]["cancel"]
REPLY = BY_DIRECTION["agent"]["job-reply"]


@pytest.mark.parametrize("state", [state for state in HubState if state != HubState.OPEN])
def test_the_hubs_shell_may_only_do_what_the_state_allows(state: HubState) -> None:
    assert isinstance(ASSIGN, AssignJob)
    assert isinstance(CANCEL, CancelJob)
    hub = pair_with_hub_in(state).hub
    calls: list[Callable[[], object]] = [
        lambda: hub.assign(ASSIGN),
        lambda: hub.cancel(CANCEL),
        lambda: hub.want_full("x"),
    ]
    for call in calls:
        with pytest.raises(LocalProtocolError, match=state):
            call()
    if state != HubState.ENDED:
        with pytest.raises(LocalProtocolError, match=state):
            hub.acknowledge(hello_with().epoch, Stream.JOBS, 1)
    if state != HubState.LOOKUP:
        with pytest.raises(LocalProtocolError, match=state):
            hub.authenticate(AGENT_KEY)
    if state != HubState.AUTHENTICATED:
        with pytest.raises(LocalProtocolError, match=state):
            hub.welcome(welcome_for(hello_with()))
    assert hub.state == state


@pytest.mark.parametrize("state", [state for state in AgentState if state != AgentState.OPEN])
def test_the_agents_shell_may_only_do_what_the_state_allows(state: AgentState) -> None:
    assert isinstance(REPLY, JobReply)
    agent = pair_with_agent_in(state).agent
    calls: list[Callable[[], object]] = [
        lambda: agent.send_reply(REPLY),
        lambda: agent.renew([]),
        lambda: agent.send_status(NodeStatus(), 0.0, 1, 1),
        lambda: agent.send_events(hello_with().epoch, Stream.JOBS, []),
    ]
    for call in calls:
        with pytest.raises(LocalProtocolError, match=state):
            call()
    assert agent.wants_events() == []
    assert agent.state == state


def test_after_the_end_goodbyes_and_acknowledgements_that_come_late_are_harmless() -> None:
    pair = pair_with_hub_in(HubState.ENDED)
    pair.hub.acknowledge(hello_with().epoch, Stream.JOBS, 1)
    pair.hub.say_bye(Reason.INTERNAL, "again")
    pair.hub.refuse(Reason.INTERNAL, "again")
    pair.agent.say_bye(Reason.GOODBYE, "")
    pair.agent.frames_to_send()
    pair.agent.say_bye(Reason.GOODBYE, "again")
    assert pair.hub.frames_to_send() == pair.agent.frames_to_send() == []
    assert pair.hub.next_deadline() is None
    assert pair.agent.next_deadline() is None
    assert pair.hub.on_deadline(1e9) == pair.agent.on_deadline(1e9) == []


def test_an_open_session_is_not_refused() -> None:
    with pytest.raises(LocalProtocolError, match="say bye"):
        open_pair().hub.refuse(Reason.OVERLOADED, "")
