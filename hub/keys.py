"""The hub's own secrets: its Ed25519 key, the admin token and the secret behind fetch tokens.

Each lies in a file of its own, mode 0600, made whole or not at all (written beside, fsynced, renamed). A file that is
there but empty or damaged is an error, never replaced: a new key would cut off every enrolled node.
"""

import hashlib
import hmac
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Struct

HUB_KEY_FILE = "hub.key"
HUB_SECRET_FILE = "hub.secret"  # noqa: S105 -- a file's name
ADMIN_TOKEN_FILE = "admin-token"  # noqa: S105 -- a file's name
KEY_BYTES = 32
ADMIN_TOKEN_CHARS_MIN = 20
FETCH_TOKEN_PREFIX = "pwj"  # noqa: S105 -- the public beginning of every fetch token
_FETCH_TOKEN_PARTS = 4
_ATTEMPT_DIGITS_MAX = 7


class KeyFileError(Exception):
    """A secret's file cannot be used; the sentence names it."""


class FetchClaim(Struct, frozen=True):
    """What a fetch token says; nothing is true of it before `Keys.fetch_token_valid` has agreed."""

    job_id: str
    attempt: int


class Keys:
    """The secrets, loaded."""

    def __init__(self, private_key: bytes, secret: bytes, admin_token: str) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(private_key)
        self._secret = secret
        self._admin_token = admin_token
        self.public_key: bytes = self._private.public_key().public_bytes_raw()
        """Ed25519, 32 bytes."""

    @classmethod
    def load(cls, data_dir: Path) -> "Keys":
        """Read the three files, making those that are missing.

        Raises:
            KeyFileError: a file is unreadable, damaged or open to others.
        """
        return cls(
            _load(data_dir / HUB_KEY_FILE, lambda: secrets.token_bytes(KEY_BYTES), length=KEY_BYTES),
            _load(data_dir / HUB_SECRET_FILE, lambda: secrets.token_bytes(KEY_BYTES), length=KEY_BYTES),
            _admin_token(data_dir / ADMIN_TOKEN_FILE),
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the public key, hex: what enrolment tokens carry."""
        return hashlib.sha256(self.public_key).hexdigest()

    def sign(self, message: bytes) -> bytes:
        """The hub's Ed25519 signature, 64 bytes."""
        return self._private.sign(message)

    def derived(self, purpose: str) -> bytes:
        """A secret of 32 bytes for one purpose, always the same: for what the store keeps encrypted."""
        return hmac.new(self._secret, f"provewire {purpose}".encode(), hashlib.sha256).digest()

    def admin_token_valid(self, token: str) -> bool:
        """Whether this is the admin token, in constant time."""
        return hmac.compare_digest(token.encode(), self._admin_token.encode())

    def fetch_token(self, job_id: str, attempt: int, agent_id: str) -> str:
        """The bearer for the inputs of one attempt."""
        return f"{FETCH_TOKEN_PREFIX}.{job_id}.{attempt}.{self._fetch_mac(job_id, attempt, agent_id)}"

    def fetch_token_valid(self, token: str, agent_id: str) -> bool:
        """Whether the hub made this token for that agent. Whether the lease still holds is the caller's question."""
        claim = parse_fetch_token(token)
        if claim is None:
            return False
        return hmac.compare_digest(self.fetch_token(claim.job_id, claim.attempt, agent_id).encode(), token.encode())

    def _fetch_mac(self, job_id: str, attempt: int, agent_id: str) -> str:
        return hmac.new(self._secret, f"{job_id}|{attempt}|{agent_id}".encode(), hashlib.sha256).hexdigest()


def verify_signature(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether an Ed25519 signature holds; False for malformed keys and signatures too."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def parse_fetch_token(token: str) -> FetchClaim | None:
    """What a fetch token claims, None if it does not look like one."""
    parts = token.split(".")
    if len(parts) != _FETCH_TOKEN_PARTS or parts[0] != FETCH_TOKEN_PREFIX:
        return None
    number = parts[2]
    if not (number.isascii() and number.isdigit() and len(number) <= _ATTEMPT_DIGITS_MAX):
        return None
    return FetchClaim(parts[1], int(number))


def write_private(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file whole or not at all, and make sure that it is on the disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _load(path: Path, make: Callable[[], bytes], *, length: int | None = None) -> bytes:
    if not path.exists():
        write_private(path, make())
    try:
        mode = path.stat().st_mode
        content = path.read_bytes()
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be read ({error.strerror}); make it readable for the hub's user") from error
    if mode & 0o077:
        raise KeyFileError(f"{path}: others may read it (mode {mode & 0o777:04o}); run chmod 600 on it")
    if length is not None and len(content) != length:
        raise KeyFileError(
            f"{path}: has {len(content)} bytes instead of {length}; restore it from a backup, "
            "or remove it and enrol every node again"
        )
    return content


def _admin_token(path: Path) -> str:
    content = _load(path, f"pwa.{secrets.token_urlsafe(32)}\n".encode)
    token = content.decode("ascii", "replace").strip()
    if len(token) < ADMIN_TOKEN_CHARS_MIN or not token.isascii() or not token.isprintable():
        raise KeyFileError(
            f"{path}: holds no token of at least {ADMIN_TOKEN_CHARS_MIN} printable characters; "
            "remove it and the hub makes a new one"
        )
    return token
