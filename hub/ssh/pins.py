"""The host keys that are known: one file, written whole from what the store holds, so that nothing else decides."""

import base64
import binascii
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from hub.keys import write_private
from hub.ssh.targets import Target

KEY_TYPES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
    "ssh-rsa",
)
KEY_CHARS_MAX = 2048
KEYS_MAX = 8
"""Host keys of one node."""
_BODY = re.compile(r"[A-Za-z0-9+/]+={0,2}")


class KeyRefused(ValueError):
    """No host key; the sentence says why."""


def host_key(text: str) -> str:
    """``type base64`` of a host key as a node or an operator gave it, without comment and options.

    Raises:
        KeyRefused: it is none: the body has to name its own type.
    """
    words = text.split()
    if len(text) > KEY_CHARS_MAX or len(words) < 2 or words[0] not in KEY_TYPES:  # noqa: PLR2004 - type and key
        raise KeyRefused(f"a host key looks like `ssh-ed25519 AAAA...`, of type {', '.join(KEY_TYPES)}")
    kind, body = words[0], words[1]
    try:
        inside = base64.b64decode(body, validate=True) if _BODY.fullmatch(body) else b""
    except binascii.Error:
        inside = b""
    size = int.from_bytes(inside[:4], "big")
    named = inside[4 : 4 + size].decode("ascii", "replace")
    if named != kind and not (kind.startswith("rsa-") and named == "ssh-rsa"):
        raise KeyRefused(f"the body of this {kind} key is not one")
    return f"{named} {body}"


Pins = Iterable[tuple[Target | str, Sequence[str]]]
"""Host keys by target, or by the name known_hosts has for it."""


def known_hosts(pins: Pins) -> str:
    """The file's text: a line for each key of each target, and nothing else."""
    named = sorted((of if isinstance(of, str) else of.known_host, keys) for of, keys in pins)
    lines = dict.fromkeys(f"{name} {key}" for name, keys in named for key in keys)
    return "".join(f"{line}\n" for line in lines)


def write(path: Path, pins: Pins) -> None:
    """Write it whole, atomically, 0600.

    Raises:
        OSError: it cannot be written.
    """
    write_private(path, known_hosts(pins).encode("ascii"))
