"""An old and a new minor version talk to each other: more fields, unknown frames, bodies and capabilities."""

from typing import Any

import msgpack
import msgspec
import pytest

from tests.wire.examples import EPOCH
from tests.wire.pair import (
    AGENT_KEY,
    AGENT_NONCE,
    HUB_KEY,
    HUB_NONCE,
    SessionPair,
    agent_session,
    agent_sign,
    hello_with,
    hub_session,
    hub_sign,
    open_pair,
    welcome_for,
)
from wire.codec import decode_agent, decode_hub, encode, encode_event, unsigned_sha256
from wire.frames import Challenge, Refused, Stream, UnknownBody, Unsupported, Welcome
from wire.limits import UNKNOWN_TAGS_MAX
from wire.reasons import Reason
from wire.session import Ended, EventsReceived, HelloReceived, Opened, PeerUnsupported


def grown(data: bytes, **more: Any) -> bytes:
    """A frame as a newer version would pack it: with fields nobody here knows."""
    return msgpack.packb({**msgpack.unpackb(data), **more})


@pytest.mark.parametrize(("agent_minor", "hub_minor"), [(0, 0), (3, 1), (1, 3), (65_535, 0)])
def test_the_smaller_minor_version_is_agreed(agent_minor: int, hub_minor: int) -> None:
    pair = SessionPair(agent_session(hello_with(minor=agent_minor)), hub_session(minor=hub_minor))
    pair.to_agent()
    pair.to_hub()
    assert pair.hub.authenticate(AGENT_KEY)
    pair.hub.welcome(welcome_for(hello_with(), minor=pair.hub.minor))
    (opened,) = pair.to_agent()
    assert isinstance(opened, Opened)
    assert opened.welcome.minor == pair.agent.minor == pair.hub.minor == min(agent_minor, hub_minor)


def test_an_old_hub_takes_the_hello_of_a_newer_agent() -> None:
    """The signature covers the bytes as sent, so that fields unknown to the hub do not break it."""
    unsigned = grown(encode(hello_with(minor=9)), new=[1, 2], more={"a": None})
    message = b"provewire hello v1\0" + HUB_KEY + HUB_NONCE + AGENT_NONCE + unsigned_sha256(unsigned)
    hub = hub_session()
    (item,) = hub.receive(grown(unsigned, sig=agent_sign(message)), 0.0)
    assert isinstance(item, HelloReceived)
    assert hub.authenticate(AGENT_KEY)


def test_a_field_added_to_a_signed_hello_on_the_way_is_noticed() -> None:
    pair = SessionPair()
    pair.to_agent()
    (data,) = pair.agent.frames_to_send()
    pair.hub.receive(grown(data, new=1), 0.0)
    assert not pair.hub.authenticate(AGENT_KEY)


def test_an_old_agent_takes_the_welcome_of_a_newer_hub() -> None:
    agent = agent_session()
    agent.receive(grown(encode(Challenge(nonce=HUB_NONCE, hub_key=HUB_KEY, minor=9)), new=True), 0.0)
    agent.frames_to_send()
    unsigned = grown(encode(welcome_for(hello_with())), new=1)
    message = b"provewire welcome v1\0" + AGENT_KEY + HUB_NONCE + AGENT_NONCE + unsigned_sha256(unsigned)
    (opened,) = agent.receive(grown(unsigned, sig=hub_sign(message)), 0.0)
    assert isinstance(opened, Opened)


@pytest.mark.parametrize("claimed", [1, 2])
def test_a_challenge_that_talks_the_version_down_or_up_is_noticed(claimed: int) -> None:
    """The challenge is not signed; the welcome, which is, must agree with it."""
    agent = agent_session(hello_with(minor=5))
    agent.receive(encode(Challenge(nonce=HUB_NONCE, hub_key=HUB_KEY, minor=claimed)), 0.0)
    agent.frames_to_send()
    welcome = msgspec.structs.replace(welcome_for(hello_with()), minor=3)
    message = b"provewire welcome v1\0" + AGENT_KEY + HUB_NONCE + AGENT_NONCE + unsigned_sha256(encode(welcome))
    (end,) = agent.receive(encode(msgspec.structs.replace(welcome, signature=hub_sign(message))), 0.0)
    assert isinstance(end, Ended)
    assert end.reason == Reason.UNSUPPORTED_VERSION


def test_each_unknown_frame_type_is_answered_once_by_both_sides() -> None:
    pair = open_pair()
    for tag in ("new", "new", "nova", "new"):
        assert pair.hub.receive(msgpack.packb({"t": tag, "x": 1}), 1.0) == []
        assert pair.agent.receive(msgpack.packb({"t": tag, "x": 1}), 1.0) == []
    answers = [Unsupported(tag="new"), Unsupported(tag="nova")]
    assert [decode_hub(data) for data in pair.hub.frames_to_send()] == answers
    assert [decode_agent(data) for data in pair.agent.frames_to_send()] == answers
    assert pair.hub.is_open
    assert pair.agent.is_open


def test_a_peer_that_invents_types_for_ever_is_not_remembered_for_ever() -> None:
    pair = open_pair()
    for number in range(10 * UNKNOWN_TAGS_MAX):
        pair.hub.receive(msgpack.packb({"t": f"x{number}"}), 1.0)
    assert len(pair.hub.frames_to_send()) == UNKNOWN_TAGS_MAX
    assert len(pair.hub._answered_tags) == UNKNOWN_TAGS_MAX


def test_unsupported_is_not_answered_in_turn() -> None:
    pair = open_pair()
    assert pair.agent.receive(encode(Unsupported(tag="st")), 1.0) == [PeerUnsupported("st")]
    assert pair.agent.frames_to_send() == []


def test_a_body_of_a_newer_agent_is_stored_whole() -> None:
    pair = open_pair()
    packed = msgpack.packb({"k": "nova", "x": [1, {"y": b"z"}]})
    event = msgpack.packb({"s": 1, "w": 1, "m": 1, "b": msgpack.unpackb(packed)})
    frame = msgpack.packb({"t": "ev", "e": EPOCH, "st": "jobs", "x": [msgpack.unpackb(event)], "new": 1})
    (item,) = pair.hub.receive(frame, 1.0)
    assert isinstance(item, EventsReceived)
    assert item.events[0].body == UnknownBody(kind="nova", packed=packed)
    assert encode_event(item.events[0]) == event


def test_a_downgraded_agent_sends_what_its_newer_self_wrote() -> None:
    pair = open_pair()
    row = msgpack.packb({"s": 1, "w": 1, "m": 1, "b": {"k": "nova", "x": 1}})
    body = UnknownBody(kind="nova", packed=msgpack.packb({"k": "nova", "x": 1}))
    (item,) = pair.hub.receive(msgpack.packb({"t": "ev", "e": EPOCH, "st": "jobs", "x": [msgpack.unpackb(row)]}), 1.0)
    assert isinstance(item, EventsReceived)
    pair.agent.send_events(EPOCH, Stream.JOBS, item.events)
    (data,) = pair.agent.frames_to_send()
    assert body.packed in data


def test_unknown_capabilities_are_data() -> None:
    hello = hello_with(capabilities=["groth16.host", "levitation"])
    pair = SessionPair(agent_session(hello))
    pair.to_agent()
    (item,) = pair.to_hub()
    assert isinstance(item, HelloReceived)
    assert item.hello.capabilities == hello.capabilities


def test_a_refusal_and_a_welcome_of_a_newer_hub_keep_their_meaning() -> None:
    assert decode_hub(grown(encode(Refused(code=9, detail="x")), new=1)) == Refused(code=9, detail="x")
    assert isinstance(decode_hub(grown(encode(welcome_for(hello_with())), new=1)), Welcome)
