"""One full status outside of a session, signed: what the SSH fallback reads when the session is lost.

The hub sends a nonce along; the agent signs it together with its whole picture, so that what comes back over a channel
that anybody on the node can write to is the agent's, and is of now. It is a status and nothing else: no event, no
acknowledgement, no job.
"""

import base64
import binascii
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from wire.codec import decode_signed_status, encode, unsigned_sha256
from wire.errors import MalformedFrame, RemoteProtocolError
from wire.events import MonotonicNs, UnixMs
from wire.handshake import Sign, Verify
from wire.jobs import Name, Uuid
from wire.limits import FRAME_BYTES_MAX
from wire.reasons import Reason
from wire.status import NodeStatus

PREFIX = "pws1."
"""Begins the text form, so that it can be found among whatever else a login prints."""
CONTEXT = b"provewire status v1\0"
NONCE_BYTES = 16
TEXT_CHARS_MAX = FRAME_BYTES_MAX * 4 // 3 + 64
Nonce = Annotated[bytes, Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]


class SignedStatus(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="t",
    tag="ss",
    rename={
        "agent_id": "id",
        "epoch": "e",
        "boot_id": "bo",
        "nonce": "n",
        "time_ms": "w",
        "monotonic_ns": "m",
        "status": "b",
        "signature": "sig",
    },
):
    """A node's whole picture, by its agent's own word. ``signature`` covers everything else."""

    agent_id: Uuid
    epoch: Uuid
    boot_id: Name
    nonce: Nonce
    time_ms: UnixMs
    monotonic_ns: MonotonicNs
    status: NodeStatus
    signature: Annotated[bytes, Meta(max_length=64)] = b""


def signed(status: SignedStatus, sign: Sign) -> str:
    """The text form, signed with the agent's key.

    Raises:
        LocalProtocolError: a field is out of its declared range, or the whole is longer than a frame.
    """
    unsigned = msgspec.structs.replace(status, signature=b"")
    signature = sign(CONTEXT + status.nonce + unsigned_sha256(encode(unsigned)))
    data = encode(msgspec.structs.replace(unsigned, signature=signature))
    return PREFIX + base64.urlsafe_b64encode(data).decode("ascii")


def read(text: str, *, nonce: bytes, agent_id: str, agent_key: bytes, verify: Verify) -> SignedStatus:
    """The status in ``text``, believed only when the agent signed it for this nonce.

    Raises:
        RemoteProtocolError: MALFORMED_FRAME for what is none, BAD_SIGNATURE for another agent's, an old or forged one.
    """
    text = text.strip()
    if not text.startswith(PREFIX) or len(text) > TEXT_CHARS_MAX:
        raise MalformedFrame(f"no signed status: it begins with {PREFIX!r}")
    try:
        data = base64.b64decode(text.removeprefix(PREFIX), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise MalformedFrame("a signed status that is not base64") from None
    found = decode_signed_status(data, SignedStatus)
    if found.agent_id != agent_id or found.nonce != nonce:
        raise RemoteProtocolError(Reason.BAD_SIGNATURE, "the status is another node's, or of another time")
    if not verify(agent_key, CONTEXT + nonce + unsigned_sha256(data), found.signature):
        raise RemoteProtocolError(Reason.BAD_SIGNATURE, "the status is not signed by the key this agent enrolled with")
    return found
