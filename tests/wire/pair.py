"""Two sessions joined without a socket, with real keys: what every session test starts from."""

import functools
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tests.wire.examples import AGENT, EPOCH, HUB, SESSION
from wire.events import streams_of
from wire.frames import Hello, Stream, StreamHave, Welcome
from wire.limits import FRAME_BYTES_MAX, HEARTBEAT_S, LOST_AFTER_S, MINOR_VERSION, STALE_AFTER_S
from wire.session import AgentInput, AgentSession, HubInput, HubSession, Sign, fingerprint

_AGENT_SECRET = Ed25519PrivateKey.from_private_bytes(b"a" * 32)
_HUB_SECRET = Ed25519PrivateKey.from_private_bytes(b"h" * 32)
AGENT_KEY = _AGENT_SECRET.public_key().public_bytes_raw()
HUB_KEY = _HUB_SECRET.public_key().public_bytes_raw()
AGENT_NONCE = b"A" * 32
HUB_NONCE = b"H" * 32


@functools.lru_cache(maxsize=4096)
def verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


agent_sign: Sign = functools.lru_cache(maxsize=4096)(_AGENT_SECRET.sign)
hub_sign: Sign = functools.lru_cache(maxsize=4096)(_HUB_SECRET.sign)


def hello_with(**changes: Any) -> Hello:
    base = Hello(
        agent_id=AGENT,
        epoch=EPOCH,
        boot_id="b0071d",
        nonce=AGENT_NONCE,
        version="0.1.0",
        minor=MINOR_VERSION,
        time_ms=1,
        name="gpu-7",
        capabilities=["groth16.host"],
    )
    return msgspec.structs.replace(base, **changes)


def welcome_for(
    hello: Hello, have: dict[tuple[str, Stream], int] | None = None, *, minor: int = MINOR_VERSION, **changes: Any
) -> Welcome:
    """A welcome that has nothing of any stream but what ``have`` says."""
    positions = {(hello.epoch, stream): 0 for stream in streams_of(min(hello.minor, minor))}
    positions |= {(item.epoch, item.stream): 0 for item in hello.held}
    positions |= have or {}
    base = Welcome(
        session=SESSION,
        hub_id=HUB,
        generation=7,
        minor=min(hello.minor, minor),
        heartbeat_s=HEARTBEAT_S,
        stale_after_s=STALE_AFTER_S,
        lost_after_s=LOST_AFTER_S,
        reconnect_spread_s=2.0,
        frame_bytes_max=FRAME_BYTES_MAX,
        time_ms=1,
        have=[StreamHave(epoch=epoch, stream=stream, seq=seq) for (epoch, stream), seq in positions.items()],
    )
    return msgspec.structs.replace(base, **changes)


def agent_session(hello: Hello | None = None, **changes: Any) -> AgentSession:
    hello = hello or hello_with()
    arguments: dict[str, Any] = {
        "agent_id": hello.agent_id,
        "agent_key": AGENT_KEY,
        "hub_fingerprint": fingerprint(HUB_KEY),
        "sign": agent_sign,
        "verify": verify,
        "hello": hello,
        "generation_seen": 7,
        "now": 0.0,
    }
    return AgentSession(**{**arguments, **changes})


def hub_session(**changes: Any) -> HubSession:
    arguments: dict[str, Any] = {
        "hub_key": HUB_KEY,
        "sign": hub_sign,
        "verify": verify,
        "nonce": HUB_NONCE,
        "now": 0.0,
    }
    return HubSession(**{**arguments, **changes})


class SessionPair:
    """An agent's and a hub's session, and a link that delivers whatever one of them has to send."""

    def __init__(self, agent: AgentSession | None = None, hub: HubSession | None = None) -> None:
        self.agent = agent or agent_session()
        self.hub = hub or hub_session()
        self.now = 0.0

    def to_agent(self) -> list[AgentInput]:
        return [item for data in self.hub.frames_to_send() for item in self.agent.receive(data, self.now)]

    def to_hub(self) -> list[HubInput]:
        return [item for data in self.agent.frames_to_send() for item in self.hub.receive(data, self.now)]


def open_pair(
    hello: Hello | None = None, have: dict[tuple[str, Stream], int] | None = None, **welcome: Any
) -> SessionPair:
    """A pair whose handshake is over."""
    hello = hello or hello_with()
    pair = SessionPair(agent_session(hello))
    pair.to_agent()
    pair.to_hub()
    assert pair.hub.authenticate(AGENT_KEY)
    pair.hub.welcome(welcome_for(hello, have, **welcome))
    pair.to_agent()
    assert pair.agent.is_open
    assert pair.hub.is_open
    return pair
