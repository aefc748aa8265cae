"""What is kept about who may come in and what they did, as frozen values. No secret is among them, only digests."""

from enum import StrEnum

from msgspec import Struct

from hub.access.roles import Role


class User(Struct, frozen=True, kw_only=True):
    """A person."""

    id: str
    name: str
    role: Role
    password_hash: str
    """Argon2id, in its own notation."""
    created_at_ms: int
    password_at_ms: int
    """When the password was set."""
    last_login_at_ms: int | None = None
    disabled_at_ms: int | None = None


class BrowserSession(Struct, frozen=True, kw_only=True):
    """A browser that is logged in."""

    session_hash: bytes
    """SHA-256 of the secret in its cookie."""
    id: str
    user_id: str
    """Empty for a session opened at the hub's machine, which is an admin's."""
    opened_at_ms: int
    used_at_ms: int
    """Written coarsely."""
    expires_at_ms: int
    remote: str
    agent: str
    """What the browser calls itself."""


class Purpose(StrEnum):
    """What a one-time code is good for."""

    LOGIN = "login"
    SETUP = "setup"


class ApiToken(Struct, frozen=True, kw_only=True):
    """Leave for a program."""

    id: str
    name: str
    token_hash: bytes
    """SHA-256, 32 bytes: the token has 256 random bits, so that nothing slower is needed."""
    role: Role
    areas: tuple[str, ...]
    created_by: str
    created_at_ms: int
    expires_at_ms: int | None
    used_at_ms: int | None = None
    """Written coarsely."""
    used_from: str = ""
    revoked_at_ms: int | None = None


class AuditEntry(Struct, frozen=True, kw_only=True):
    """Somebody did something, or was refused."""

    id: str
    time_ms: int
    who: str
    kind: str
    """By what credential: `hub.access.roles.Kind`."""
    role: str
    actor_id: str
    """Of the user or token."""
    remote: str
    action: str
    """Method and pattern of the route."""
    target: str
    """What of: the path as it was asked for."""
    status: int
    code: str
    """Empty for what was done, else the refusal's code."""
    detail: str
    """The request's body without its secrets, as JSON, shortened."""


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Which entries are asked for."""

    who: str = ""
    action: str = ""
    """A part of the action or the target."""
    refused: bool | None = None


class Kept(Struct, frozen=True, kw_only=True):
    """A request that was made with an idempotency key, and what it was answered."""

    owner: str
    route: str
    key: str
    request_sha256: str
    begun_at_ms: int
    status: int = 0
    """0 while it is under way, or was when the hub stopped."""
    headers: str = ""
    body: bytes = b""
