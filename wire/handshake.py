"""What the two sides of a handshake sign.

Both messages name their purpose first, so that neither signature can stand for the other or for anything else, and
hold both nonces, so that neither can be used in another session.
"""

import hashlib
from collections.abc import Callable

HELLO_CONTEXT = b"provewire hello v1\0"
WELCOME_CONTEXT = b"provewire welcome v1\0"

Sign = Callable[[bytes], bytes]
"""message -> Ed25519 signature, 64 bytes"""
Verify = Callable[[bytes, bytes, bytes], bool]
"""(public key, message, signature) -> whether it is right; must not raise, whatever the bytes"""


def hello_message(*, hub_key: bytes, hub_nonce: bytes, agent_nonce: bytes, hello_sha256: bytes) -> bytes:
    """What the agent signs: context, the hub's key, the hub's nonce, its own nonce, SHA-256 of the unsigned hello."""
    return HELLO_CONTEXT + hub_key + hub_nonce + agent_nonce + hello_sha256


def welcome_message(*, agent_key: bytes, hub_nonce: bytes, agent_nonce: bytes, welcome_sha256: bytes) -> bytes:
    """What the hub signs: context, the agent's key, the same two nonces, SHA-256 of the unsigned welcome."""
    return WELCOME_CONTEXT + agent_key + hub_nonce + agent_nonce + welcome_sha256


def fingerprint(public_key: bytes) -> str:
    """SHA-256 of a public key, lower-case hex: what an enrolment token carries and an agent pins."""
    return hashlib.sha256(public_key).hexdigest()
