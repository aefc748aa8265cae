"""The hub's own key for SSH: made at first need, looked at before it is blamed.

In batch mode ssh does not say that a key has a passphrase, and says little about one that is damaged: here the file
itself is read, so that the cause can be named before any node is lost.
"""

import base64
import errno
import hashlib
import os
import stat
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)
from msgspec import Struct

from hub.keys import write_private
from hub.ssh.cause import Cause

KEY_BYTES_MAX = 64 * 1024
NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
"""Says nothing about what was to be opened."""
OTHERS = stat.S_IRWXG | stat.S_IRWXO
"""ssh refuses a key that anybody else may read."""


class Identity(Struct, frozen=True, kw_only=True):
    """One key file as it is now."""

    path: Path
    cause: Cause = Cause.OK
    """Why it cannot be used."""
    detail: str = ""
    public: str = ""
    """``ssh-ed25519 AAAA...`` without a comment, where it can be read."""
    fingerprint: str = ""
    """``SHA256:...``, as ssh-keygen shows it."""

    @property
    def usable(self) -> bool:
        """Whether ssh will offer it."""
        return self.cause is Cause.OK


def make(path: Path, comment: str) -> Identity:
    """Make a key, Ed25519 without a passphrase, 0600, durable; the public half beside it as ``.pub``.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode("ascii")
    write_private(path, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    write_private(path.with_name(path.name + ".pub"), f"{public} {comment}\n".encode())
    return look(path)


def look(path: Path) -> Identity:
    """The key file as it is. Never raises: what is wrong with it is the answer."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(KEY_BYTES_MAX)
    except OSError as error:
        cause = {FileNotFoundError: Cause.KEY_MISSING, IsADirectoryError: Cause.KEY_DAMAGED}.get(type(error))
        if error.errno in NO_DESCRIPTORS:
            cause = Cause.OUT_OF_DESCRIPTORS
        return Identity(path=path, cause=cause or Cause.KEY_UNREADABLE, detail=f"{path}: {error.strerror}")
    if mode & OTHERS:
        detail = f"{path} has mode {stat.S_IMODE(mode):04o}; ssh wants 0600"
        return Identity(path=path, cause=Cause.KEY_UNPROTECTED, detail=detail)
    try:
        public = _public_half(data)
    except TypeError:
        return Identity(path=path, cause=Cause.KEY_PASSPHRASE, detail=f"{path} has a passphrase")
    except (ValueError, UnsupportedAlgorithm) as error:
        return Identity(path=path, cause=Cause.KEY_DAMAGED, detail=f"{path} is no private key: {error}")
    return Identity(path=path, public=public, fingerprint=fingerprint(public))


def _public_half(data: bytes) -> str:
    """Raises TypeError for a key with a passphrase, ValueError for what is none: so says the library."""
    if b"\r\n" in data:
        raise ValueError("it has Windows line ends, which ssh does not take")
    key = load_ssh_private_key(data, password=None)
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode("ascii")


def fingerprint(public: str) -> str:
    """Of a public key, ``type base64 ...``, as ssh-keygen shows it.

    Raises:
        ValueError: it is none.
    """
    words = public.split()
    if len(words) < 2:  # noqa: PLR2004 - type and key
        raise ValueError("a public key has a type and a body")
    body = base64.b64decode(words[1], validate=True)
    return "SHA256:" + base64.b64encode(hashlib.sha256(body).digest()).decode("ascii").rstrip("=")
