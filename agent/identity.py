"""Who this node is: its Ed25519 key, the id the hub gave it, and the hub's pinned key.

``agent.key`` holds the 32 bytes of the private key, ``agent.json`` the rest; both 0600, written whole or not at all.
A damaged file is refused with a sentence: guessing here would make a second node out of one.
"""

import contextlib
import fcntl
import hashlib
import os
import uuid
from pathlib import Path
from typing import IO, Annotated

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Meta, Struct

from agent.durable import write_file
from agent.errors import ConfigFault, of_disk
from wire.jobs import Name, Uuid

KEY_BYTES = 32
JSON_BYTES_MAX = 64 * 1024
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Enrolled(Struct, frozen=True):
    """What enrolment gave us. ``hub_key`` is the hub's public key in hex, pinned from then on."""

    agent_id: Uuid
    hub_id: Uuid
    hub_key: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    hub_url: str
    generation: int = 0
    """The highest generation of the hub ever seen: an older copy of the hub is refused."""

    @property
    def hub_fingerprint(self) -> str:
        """SHA-256 of the hub's key, hex."""
        return hashlib.sha256(bytes.fromhex(self.hub_key)).hexdigest()


class Key:
    """The node's own key pair; the private half never leaves this object."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public: bytes = private.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """64 bytes of signature."""
        return self._private.sign(message)


def verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether ``signature`` over ``message`` is by ``public_key`` (Ed25519); False for anything malformed."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def prepare_data_dir(path: Path) -> None:
    """Make the data directory, for its owner only.

    Raises:
        ConfigFault: it cannot be made or written.
        DiskFault: the disk is full or fails.
    """
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise ConfigFault(f"--data-dir {path} cannot be read and written by this user")
    except OSError as error:
        raise of_disk(error, f"--data-dir {path} cannot be used") from None


def lock_data_dir(path: Path) -> IO[bytes]:
    """Take the one agent's lock of a data directory; held until the returned file is closed.

    Raises:
        ConfigFault: another agent has it, or it cannot be opened.
        DiskFault: the disk is full or fails.
    """
    try:
        file = (path / "agent.lock").open("a+b")
    except OSError as error:
        raise of_disk(error, f"{path / 'agent.lock'} cannot be opened") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        owner = file.read(32).decode("ascii", "replace").strip() or "unknown"
        file.close()
        raise ConfigFault(
            f"another agent (pid {owner}) runs on {path}; stop it, or give this one its own --data-dir"
        ) from None
    try:
        file.truncate(0)
        file.write(f"{os.getpid()}\n".encode())
        file.flush()
    except OSError as error:
        with contextlib.suppress(OSError):  # what could not be written is tried once more
            file.close()
        raise of_disk(error, f"{path / 'agent.lock'} cannot be written") from None
    return file


def load_key(data_dir: Path) -> Key:
    """The node's key; made and saved on first use.

    Raises:
        ConfigFault: the file is damaged, unreadable, or cannot be written.
        DiskFault: the disk is full or fails.
    """
    path = data_dir / "agent.key"
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        private = Ed25519PrivateKey.generate()
        try:
            write_file(path, private.private_bytes_raw())
        except OSError as error:
            raise of_disk(error, f"{path} cannot be written") from None
        return Key(private)
    except OSError as error:
        raise ConfigFault(f"{path} cannot be read: {error.strerror or error}") from None
    if len(raw) != KEY_BYTES:
        raise ConfigFault(
            f"{path} holds {len(raw)} bytes instead of {KEY_BYTES}; restore it from a copy, or remove it together with "
            f"agent.json and enrol this node again"
        )
    return Key(Ed25519PrivateKey.from_private_bytes(raw))


def load_enrolled(data_dir: Path) -> Enrolled | None:
    """What enrolment saved; None before it.

    Raises:
        ConfigFault: the file is damaged or unreadable.
    """
    path = data_dir / "agent.json"
    try:
        with path.open("rb") as file:
            raw = file.read(JSON_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigFault(f"{path} cannot be read: {error.strerror or error}") from None
    try:
        enrolled = msgspec.json.decode(raw, type=Enrolled)
    except ValueError as error:
        raise ConfigFault(
            f"{path} is damaged ({error}); restore it from a copy, or remove it and enrol this node again"
        ) from None
    return enrolled


def save_enrolled(data_dir: Path, enrolled: Enrolled) -> None:
    """Keep what enrolment gave.

    Raises:
        OSError: the disk refused it; the file is as before.
    """
    write_file(data_dir / "agent.json", msgspec.json.format(msgspec.json.encode(enrolled)) + b"\n")


def boot_id() -> Name:
    """Which boot of the machine this is; a fresh one where the kernel does not tell."""
    try:
        text = BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        text = ""
    return text[:64] or str(uuid.uuid4())
