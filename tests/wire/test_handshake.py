"""The handshake: who is believed, and every way in which nobody is."""

import hashlib
from typing import Any

import msgpack
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.wire.examples import AGENT, EPOCH, JOB, OLDER_EPOCH
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
    verify,
    welcome_for,
)
from wire.codec import decode_agent, decode_hub, encode, unsigned_sha256
from wire.errors import LocalProtocolError
from wire.frames import Bye, Challenge, HeldRange, Hello, Refused, Stream, StreamHave, Welcome
from wire.handshake import fingerprint
from wire.limits import FRAME_BYTES_MAX, FRAME_BYTES_UNAUTHENTICATED_MAX, HANDSHAKE_S, MINOR_VERSION
from wire.reasons import Reason
from wire.session import (
    Acknowledged,
    AgentInput,
    AgentSession,
    AgentState,
    Ended,
    HelloReceived,
    HubSession,
    HubState,
    Opened,
    RefusedByHub,
)

STRANGER = Ed25519PrivateKey.from_private_bytes(b"s" * 32)


def ended(inputs: list[Any]) -> Ended:
    """The one input: an end by this side."""
    assert len(inputs) == 1, inputs
    assert isinstance(inputs[0], Ended)
    assert not inputs[0].by_peer
    return inputs[0]


def farewell(session: AgentSession | HubSession) -> Bye | Refused:
    """The last frame a session still sends."""
    data = session.frames_to_send()[-1]
    frame = decode_hub(data) if isinstance(session, HubSession) else decode_agent(data)
    assert isinstance(frame, Bye | Refused)
    return frame


def greeted() -> tuple[SessionPair, Hello]:
    """A pair whose hub has the hello."""
    pair = SessionPair()
    assert pair.to_agent() == []
    inputs = pair.to_hub()
    assert isinstance(inputs[0], HelloReceived)
    return pair, inputs[0].hello


# --- the bytes --------------------------------------------------------------------------------------------------------


def test_the_signed_bytes_are_what_the_document_says() -> None:
    pair, hello = greeted()
    unsigned = encode(msgspec.structs.replace(hello, signature=b"x"))
    plain = msgpack.unpackb(unsigned)
    del plain["sig"]
    digest = hashlib.sha256(msgpack.packb(plain)).digest()
    assert verify(AGENT_KEY, b"provewire hello v1\0" + HUB_KEY + HUB_NONCE + AGENT_NONCE + digest, hello.signature)

    pair.hub.authenticate(AGENT_KEY)
    pair.hub.welcome(welcome_for(hello))
    (data,) = pair.hub.frames_to_send()
    plain = msgpack.unpackb(data)
    signature = plain.pop("sig")
    digest = hashlib.sha256(msgpack.packb(plain)).digest()
    assert verify(HUB_KEY, b"provewire welcome v1\0" + AGENT_KEY + HUB_NONCE + AGENT_NONCE + digest, signature)


def test_a_fingerprint_is_the_sha256_of_the_key() -> None:
    assert fingerprint(b"\0" * 32) == "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925"


# --- the way it goes --------------------------------------------------------------------------------------------------


def test_both_sides_open() -> None:
    pair, hello = greeted()
    assert hello == msgspec.structs.replace(hello_with(), signature=hello.signature)
    assert pair.hub.authenticate(AGENT_KEY)
    pair.hub.welcome(welcome_for(hello, {(EPOCH, Stream.LOGS): 3}))
    inputs = pair.to_agent()
    assert isinstance(inputs[0], Opened)
    assert inputs[1:] == [Acknowledged(EPOCH, Stream.LOGS, 3)]
    assert pair.agent.welcome == inputs[0].welcome


def test_what_the_hub_has_already_is_acknowledged_at_once() -> None:
    held = [
        HeldRange(epoch=OLDER_EPOCH, stream=Stream.JOBS, first=4, last=9),
        HeldRange(epoch=EPOCH, stream=Stream.JOBS, first=1, last=2),
    ]
    pair = open_pair(hello_with(held=held), {(OLDER_EPOCH, Stream.JOBS): 9, (EPOCH, Stream.JOBS): 1})
    wants = pair.agent.wants_events()
    assert [(want.epoch, want.stream, want.after_seq) for want in wants] == [
        (EPOCH, Stream.JOBS, 1),
        (EPOCH, Stream.EVENTS, 0),
        (EPOCH, Stream.READINGS, 0),
        (EPOCH, Stream.LOGS, 0),
    ]


# --- strangers at the hub ---------------------------------------------------------------------------------------------


def test_a_hello_of_another_key_is_refused() -> None:
    agent = agent_session(sign=STRANGER.sign)
    pair = SessionPair(agent)
    pair.to_agent()
    pair.to_hub()
    assert not pair.hub.authenticate(AGENT_KEY)
    assert pair.hub.has_ended
    assert pair.to_agent() == [
        RefusedByHub(6, "the hello is not signed by the key this agent enrolled with", 0.0),
        Ended(Reason.BAD_SIGNATURE, "the hello is not signed by the key this agent enrolled with", 0.0, by_peer=True),
    ]


def test_a_changed_hello_is_refused() -> None:
    changes: list[dict[str, Any]] = [{"jobs": []}, {"minor": 1}, {"epoch": JOB}, {"name": "other"}]
    for change in changes:
        pair = SessionPair(agent_session(hello_with(jobs=[])))
        pair.to_agent()
        (data,) = pair.agent.frames_to_send()
        hello = decode_agent(data)
        forged = encode(msgspec.structs.replace(hello, **change))
        if forged == data:
            continue
        pair.hub.receive(forged, 0.0)
        assert not pair.hub.authenticate(AGENT_KEY)


@pytest.mark.parametrize("signature", [b"", b"x" * 63, b"\0" * 64])
def test_a_hello_without_a_right_signature_is_refused(signature: bytes) -> None:
    hub = hub_session()
    hub.receive(encode(hello_with(signature=signature)), 0.0)
    assert not hub.authenticate(AGENT_KEY)
    assert not hub_authenticates_with(b"", signature)


def hub_authenticates_with(key: bytes, signature: bytes) -> bool:
    hub = hub_session()
    hub.receive(encode(hello_with(signature=signature)), 0.0)
    return hub.authenticate(key)


def test_a_hello_replayed_from_an_earlier_session_is_refused() -> None:
    first = SessionPair()
    first.to_agent()
    (recorded,) = first.agent.frames_to_send()
    assert isinstance(first.hub.receive(recorded, 0.0)[0], HelloReceived)
    assert first.hub.authenticate(AGENT_KEY)

    later = hub_session(nonce=b"N" * 32)
    assert isinstance(later.receive(recorded, 0.0)[0], HelloReceived)
    assert not later.authenticate(AGENT_KEY)
    assert farewell(later).code == Reason.BAD_SIGNATURE


def test_a_hello_signed_for_another_hub_is_refused() -> None:
    other_key = STRANGER.public_key().public_bytes_raw()
    agent = agent_session(hub_fingerprint=fingerprint(other_key))
    agent.receive(encode(Challenge(nonce=HUB_NONCE, hub_key=other_key, minor=0)), 0.0)
    (relayed,) = agent.frames_to_send()
    hub = hub_session()
    hub.receive(relayed, 0.0)
    assert not hub.authenticate(AGENT_KEY)


def test_the_welcomes_signature_does_not_pass_for_a_hellos() -> None:
    """A hub's key used as an agent's: the contexts keep both messages apart."""
    hub = hub_session()
    hello = hello_with()
    digest = unsigned_sha256(encode(hello))
    reflected = hub_sign(b"provewire welcome v1\0" + HUB_KEY + HUB_NONCE + AGENT_NONCE + digest)
    hub.receive(encode(msgspec.structs.replace(hello, signature=reflected)), 0.0)
    assert not hub.authenticate(HUB_KEY)


def test_a_second_hello_ends_the_session() -> None:
    pair = SessionPair()
    pair.to_agent()
    (data,) = pair.agent.frames_to_send()
    pair.hub.receive(data, 0.0)
    assert ended(pair.hub.receive(data, 0.0)).reason == Reason.UNEXPECTED_FRAME
    assert isinstance(farewell(pair.hub), Refused)
    opened = open_pair()
    assert ended(opened.hub.receive(data, 0.0)).reason == Reason.UNEXPECTED_FRAME
    assert isinstance(farewell(opened.hub), Bye)


@pytest.mark.parametrize("size_bytes", [FRAME_BYTES_UNAUTHENTICATED_MAX + 1, FRAME_BYTES_MAX + 1])
def test_before_authentication_a_frame_has_4_kib_at_most(size_bytes: int) -> None:
    hub = hub_session()
    assert ended(hub.receive(bytes(size_bytes), 0.0)).reason == Reason.FRAME_TOO_LARGE
    assert farewell(hub).code == Reason.FRAME_TOO_LARGE
    pair, _ = greeted()
    assert ended(pair.hub.receive(bytes(size_bytes), 0.0)).reason == Reason.FRAME_TOO_LARGE
    agent = agent_session()
    assert ended(agent.receive(bytes(size_bytes), 0.0)).reason == Reason.FRAME_TOO_LARGE


@pytest.mark.parametrize("garbage", [b"", b"\0", b"\xff" * 64, b"GET / HTTP/1.1\r\n\r\n", msgpack.packb({"t": "hi"})])
def test_garbage_ends_the_handshake(garbage: bytes) -> None:
    hub, agent = hub_session(), agent_session()
    assert ended(hub.receive(garbage, 0.0)).reason == Reason.MALFORMED_FRAME
    assert ended(agent.receive(garbage, 0.0)).reason in {Reason.MALFORMED_FRAME, Reason.UNEXPECTED_FRAME}
    assert hub.receive(garbage, 0.0) == agent.receive(garbage, 0.0) == []


def test_a_handshake_has_10_seconds() -> None:
    for pair in (SessionPair(), greeted()[0]):
        for session in (pair.hub, pair.agent):
            assert session.next_deadline() == HANDSHAKE_S
            assert session.on_deadline(HANDSHAKE_S - 0.1) == []
            assert ended(list(session.on_deadline(HANDSHAKE_S))).reason == Reason.HANDSHAKE_TIMEOUT
            assert farewell(session).code == Reason.HANDSHAKE_TIMEOUT


def test_the_shell_may_refuse_with_a_reason_and_a_wait() -> None:
    pair, _ = greeted()
    pair.hub.refuse(Reason.REVOKED, "by the operator", 90.0)
    assert pair.to_agent() == [
        RefusedByHub(Reason.REVOKED, "by the operator", 90.0),
        Ended(Reason.REVOKED, "by the operator", 90.0, by_peer=True),
    ]
    assert pair.agent.frames_to_send() == []


def test_a_hub_may_refuse_before_it_is_asked() -> None:
    pair = SessionPair()
    pair.hub.say_bye(Reason.OVERLOADED, "busy", 5.0)
    inputs = pair.to_agent()
    assert inputs[-1] == Ended(Reason.OVERLOADED, "busy", 5.0, by_peer=True)


def test_a_reason_of_a_newer_hub_is_shown_as_it_is() -> None:
    agent = agent_session()
    inputs = agent.receive(encode(Refused(code=998, detail="new", wait_s=1.0)), 0.0)
    assert inputs == [RefusedByHub(998, "new", 1.0), Ended(998, "new", 1.0, by_peer=True)]


# --- strangers at the agent -------------------------------------------------------------------------------------------


def test_an_agent_says_nothing_to_a_hub_with_another_key() -> None:
    agent = agent_session()
    challenge = Challenge(nonce=HUB_NONCE, hub_key=STRANGER.public_key().public_bytes_raw(), minor=0)
    assert ended(list(agent.receive(encode(challenge), 0.0))).reason == Reason.WRONG_HUB_KEY
    (only,) = agent.frames_to_send()
    assert decode_agent(only) == Bye(code=Reason.WRONG_HUB_KEY, detail=ended_detail(challenge.hub_key))


def ended_detail(seen: bytes) -> str:
    return f"the hub's key has fingerprint {fingerprint(seen)}, pinned is {fingerprint(HUB_KEY)}"


def welcomed_by(
    hub_secret_sign: Any = hub_sign,
    *,
    agent_key: bytes = AGENT_KEY,
    hub_nonce: bytes = HUB_NONCE,
    agent_nonce: bytes = AGENT_NONCE,
    signed: Welcome | None = None,
    says_what_it_has: bool = True,
    **changes: Any,
) -> list[AgentInput]:
    """What an agent makes of a welcome signed like this."""
    agent = agent_session()
    agent.receive(encode(Challenge(nonce=HUB_NONCE, hub_key=HUB_KEY, minor=MINOR_VERSION)), 0.0)
    agent.frames_to_send()
    welcome = welcome_for(hello_with(), **changes)
    if not says_what_it_has:
        welcome = msgspec.structs.replace(welcome, have=[])
    digest = unsigned_sha256(encode(signed or welcome))
    signature = hub_secret_sign(b"provewire welcome v1\0" + agent_key + hub_nonce + agent_nonce + digest)
    inputs = agent.receive(encode(msgspec.structs.replace(welcome, signature=signature)), 0.0)
    assert agent.is_open == isinstance(inputs[0], Opened)
    assert agent.has_ended == isinstance(inputs[0], Ended)
    return inputs


def test_a_welcome_is_believed_when_every_part_is_signed() -> None:
    assert isinstance(welcomed_by()[0], Opened)


@pytest.mark.parametrize(
    "wrong",
    [
        {"hub_secret_sign": STRANGER.sign},
        {"agent_key": HUB_KEY},
        {"hub_nonce": b"x" * 32},
        {"agent_nonce": b"x" * 32},
        {"signed": welcome_for(hello_with(), heartbeat_s=11.0)},
        {"hub_secret_sign": lambda _: b""},
    ],
    ids=["key", "agent", "hub nonce", "agent nonce", "content", "nothing"],
)
def test_a_welcome_is_refused_when_any_part_is_not(wrong: dict[str, Any]) -> None:
    assert ended(list(welcomed_by(**wrong))).reason == Reason.BAD_SIGNATURE


def test_a_welcome_replayed_from_an_earlier_session_is_refused() -> None:
    pair, hello = greeted()
    pair.hub.authenticate(AGENT_KEY)
    pair.hub.welcome(welcome_for(hello))
    (recorded,) = pair.hub.frames_to_send()
    for challenge_nonce, agent_nonce in ((b"N" * 32, AGENT_NONCE), (HUB_NONCE, b"N" * 32)):
        agent = agent_session(hello_with(nonce=agent_nonce))
        agent.receive(encode(Challenge(nonce=challenge_nonce, hub_key=HUB_KEY, minor=0)), 0.0)
        agent.frames_to_send()
        assert ended(list(agent.receive(recorded, 0.0))).reason == Reason.BAD_SIGNATURE


def test_a_welcome_before_the_challenge_is_unexpected() -> None:
    agent = agent_session()
    assert ended(list(agent.receive(encode(welcome_for(hello_with())), 0.0))).reason == Reason.UNEXPECTED_FRAME


def test_a_hub_whose_generation_went_back_is_refused() -> None:
    assert ended(list(welcomed_by(generation=6))).reason == Reason.GENERATION_WENT_BACK
    assert isinstance(welcomed_by(generation=8)[0], Opened)


def test_a_hub_that_lost_what_it_had_acknowledged_is_refused() -> None:
    held = [HeldRange(epoch=EPOCH, stream=Stream.JOBS, first=5, last=9)]
    for seq, reason in ((3, Reason.GENERATION_WENT_BACK), (10, Reason.OUT_OF_ORDER)):
        pair = SessionPair(agent_session(hello_with(held=held)))
        pair.to_agent()
        pair.to_hub()
        pair.hub.authenticate(AGENT_KEY)
        pair.hub.welcome(welcome_for(hello_with(held=held), {(EPOCH, Stream.JOBS): seq}))
        assert ended(list(pair.to_agent())).reason == reason
    open_pair(hello_with(held=held), {(EPOCH, Stream.JOBS): 4})
    open_pair(hello_with(held=held), {(EPOCH, Stream.JOBS): 9})


def test_an_outbox_restored_from_an_older_copy_has_nothing_more_to_say_of_an_older_epoch() -> None:
    """Else every session would end like the first, for ever: the hub has all that is held, and more."""
    held = [HeldRange(epoch=OLDER_EPOCH, stream=Stream.JOBS, first=5, last=9)]
    pair = SessionPair(agent_session(hello_with(held=held)))
    pair.to_agent()
    pair.to_hub()
    pair.hub.authenticate(AGENT_KEY)
    pair.hub.welcome(welcome_for(hello_with(held=held), {(OLDER_EPOCH, Stream.JOBS): 30}))
    opened, acknowledged = pair.to_agent()
    assert isinstance(opened, Opened)
    assert acknowledged == Acknowledged(OLDER_EPOCH, Stream.JOBS, 9)
    assert OLDER_EPOCH not in {want.epoch for want in pair.agent.wants_events()}


def test_a_welcome_must_speak_of_every_stream() -> None:
    assert ended(list(welcomed_by(says_what_it_has=False))).reason == Reason.MALFORMED_FRAME
    pair, hello = greeted()
    pair.hub.authenticate(AGENT_KEY)
    one = StreamHave(epoch=EPOCH, stream=Stream.JOBS, seq=0)
    for have in ([], [one], [one, *welcome_for(hello).have]):
        with pytest.raises(LocalProtocolError, match="each stream"):
            pair.hub.welcome(msgspec.structs.replace(welcome_for(hello), have=have))
    assert pair.hub.state == HubState.AUTHENTICATED


def test_a_hello_that_is_not_this_agents_or_too_large_is_the_callers_fault() -> None:
    with pytest.raises(LocalProtocolError, match=AGENT):
        agent_session(agent_id=JOB)
    with pytest.raises(LocalProtocolError, match="4096"):
        agent_session(hello_with(capabilities=["x" * 128] * 32))


def test_the_agent_signs_only_after_the_pinned_key_was_seen() -> None:
    signed: list[bytes] = []

    def sign(message: bytes) -> bytes:
        signed.append(message)
        return agent_sign(message)

    agent = agent_session(sign=sign)
    agent.receive(encode(Challenge(nonce=HUB_NONCE, hub_key=AGENT_KEY, minor=0)), 0.0)
    assert agent.state == AgentState.ENDED
    assert signed == []
