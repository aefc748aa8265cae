"""Whatever comes, a session answers with inputs, never with an exception; and what it sends can be read."""

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.wire.examples import AGENT_FRAMES, HUB_FRAMES
from tests.wire.pair import SessionPair
from tests.wire.strategies import members, patiently, structs
from tests.wire.test_states import pair_with_agent_in, pair_with_hub_in
from wire.codec import decode_agent, decode_hub, encode
from wire.frames import AgentFrame, HubFrame
from wire.limits import CONTROL_FRAMES_QUEUED_MAX
from wire.session import AgentState, Ended, HubState

AGENT_DATA = [encode(frame) for frame in AGENT_FRAMES.values()]
HUB_DATA = [encode(frame) for frame in HUB_FRAMES.values()]


def mutated(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(0, 3)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def messages(union: object, recorded: list[bytes]) -> st.SearchStrategy[list[bytes]]:
    frames = st.one_of([structs(kind) for kind in members(union)]).map(encode)
    broken = st.builds(mutated, st.sampled_from(recorded), st.randoms(use_true_random=False))
    return st.lists(frames | broken | st.binary(max_size=40), max_size=8)


@patiently(150)
@given(st.sampled_from(HubState), messages(AgentFrame, AGENT_DATA), st.floats(0, 100))
def test_the_hub_never_raises(state: HubState, received: list[bytes], now: float) -> None:
    hub = pair_with_hub_in(state).hub
    for data in received:
        was_over = hub.has_ended
        inputs = [*hub.receive(data, now), *hub.on_deadline(now)]
        ends = [item for item in inputs if isinstance(item, Ended)]
        assert len(ends) == (hub.has_ended and not was_over)
        assert len(hub._control) <= CONTROL_FRAMES_QUEUED_MAX
        deadline = hub.next_deadline()
        assert (deadline is None) == hub.has_ended
    assert all(decode_hub(data) is not None for data in hub.frames_to_send())


@patiently(150)
@given(st.sampled_from(AgentState), messages(HubFrame, HUB_DATA), st.floats(0, 100))
def test_the_agent_never_raises(state: AgentState, received: list[bytes], now: float) -> None:
    pair: SessionPair = pair_with_agent_in(state)
    agent = pair.agent
    for data in received:
        was_over = agent.has_ended
        inputs = [*agent.receive(data, now), *agent.on_deadline(now)]
        ends = [item for item in inputs if isinstance(item, Ended)]
        assert len(ends) == (agent.has_ended and not was_over)
        deadline = agent.next_deadline()
        assert (deadline is None) == agent.has_ended
    assert all(decode_agent(data) is not None for data in agent.frames_to_send())
