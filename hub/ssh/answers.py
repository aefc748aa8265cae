"""Who answers at a node's address, where it is not the node: by the host key it shows; pure.

ssh says the fingerprint of the key that it refused. Where another node of ours has that very key pinned, or says it of
itself, it is that machine; else only the fingerprint is known.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable

from msgspec import Struct

from hub.ssh.reach import Reach

SAID = re.compile(
    rb"The fingerprint for the [A-Z0-9-]{1,32} key sent by the remote host is\s{1,4}(SHA256:[A-Za-z0-9+/]{43})"
)
"""OpenSSH's words, the same since 6.8."""
STDERR_BYTES_MAX = 64 * 1024
"""Looked through: it is said before anything a server could make long."""


class Answer(Struct, frozen=True):
    """What answers."""

    shown: str
    """A node's id, or a fingerprint."""
    node: bool
    """It is another node of ours."""


def fingerprint_sent(stderr: bytes) -> str:
    """Of the host key that ssh refused; empty where it said none."""
    found = SAID.search(stderr[:STDERR_BYTES_MAX])
    return "" if found is None else found[1].decode("ascii")


def fingerprint_of(key: str) -> str:
    """Of ``type base64``; empty for what is no key."""
    _, _, body = key.partition(" ")
    try:
        raw = base64.b64decode(body.split()[0], validate=True)
    except (binascii.Error, IndexError, ValueError):
        return ""
    return "SHA256:" + base64.b64encode(hashlib.sha256(raw).digest()).decode("ascii").rstrip("=")


def who(sent: str, node_id: str, reaches: Iterable[Reach]) -> Answer:
    """Whose key was sent in place of this node's."""
    for reach in reaches:
        if reach.node_id == node_id:
            continue
        said = () if reach.suggested is None else reach.suggested.host_keys
        if any(fingerprint_of(key) == sent for key in (*reach.host_keys, *said)):
            return Answer(reach.node_id, node=True)
    return Answer(sent, node=False)
