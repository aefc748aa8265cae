"""The tables of who may come in and what they did."""

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, Table, Text

from hub.store.schema import METADATA

USERS = Table(
    "users",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("role", Text, nullable=False),
    Column("password_hash", Text, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("password_at_ms", BigInteger, nullable=False),
    Column("last_login_at_ms", BigInteger),
    Column("disabled_at_ms", BigInteger),
)

LOGIN_CODES = Table(
    "login_codes",
    METADATA,
    Column("code_hash", LargeBinary, primary_key=True),
    Column("purpose", Text, nullable=False),
    Column("expires_at_ms", BigInteger, nullable=False),
)

BROWSER_SESSIONS = Table(
    "browser_sessions",
    METADATA,
    Column("session_hash", LargeBinary, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("user_id", Text, nullable=False),
    Column("opened_at_ms", BigInteger, nullable=False),
    Column("used_at_ms", BigInteger, nullable=False),
    Column("expires_at_ms", BigInteger, nullable=False),
    Column("remote", Text, nullable=False),
    Column("agent", Text, nullable=False),
)

API_TOKENS = Table(
    "api_tokens",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("token_hash", LargeBinary, nullable=False, unique=True),
    Column("role", Text, nullable=False),
    Column("areas", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("expires_at_ms", BigInteger),
    Column("used_at_ms", BigInteger),
    Column("used_from", Text, nullable=False),
    Column("revoked_at_ms", BigInteger),
)

AUDIT = Table(
    "audit",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("time_ms", BigInteger, nullable=False),
    Column("who", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("actor_id", Text, nullable=False),
    Column("remote", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("code", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Index(None, "who", "id"),
)

IDEMPOTENCY = Table(
    "idempotency",
    METADATA,
    Column("owner", Text, primary_key=True),
    Column("route", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("request_sha256", Text, nullable=False),
    Column("begun_at_ms", BigInteger, nullable=False, index=True),
    Column("status", Integer, nullable=False),
    Column("headers", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
