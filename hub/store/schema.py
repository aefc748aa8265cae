"""The tables, dialect-neutral. The migrations make them; a test compares both.

Ids are UUIDv7 text, times Unix milliseconds, structures JSON text or, where they come from the wire, packed bytes.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

NOTHING_MS = 2**62
"""`STREAM_HEADS.oldest_at_ms` where no event is kept: no row is older than it is."""

HUB = Table(
    "hub",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("generation", BigInteger, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("started_at_ms", BigInteger, nullable=False),
)

ENROLL_TOKENS = Table(
    "enroll_tokens",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("secret_hash", LargeBinary, nullable=False, unique=True),
    Column("uses_max", Integer, nullable=False),
    Column("uses", Integer, nullable=False),
    Column("expires_at_ms", BigInteger, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("labels", Text, nullable=False),
    Column("revoked_at_ms", BigInteger),
)

AGENTS = Table(
    "agents",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("public_key", LargeBinary, nullable=False, unique=True),
    Column("enrollment_id", Text, nullable=False, unique=True),
    Column("token_id", Text, ForeignKey("enroll_tokens.id"), nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("labels", Text, nullable=False),
    Column("revoked_at_ms", BigInteger),
    Column("last_heard_at_ms", BigInteger),
    Column("last_status", LargeBinary),
    Column("last_reason_code", Integer),
    Column("last_reason_detail", Text, nullable=False),
    Column("last_reason_at_ms", BigInteger),
    Column("boot_id", Text, nullable=False),
    Column("epoch", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("capabilities", Text, nullable=False),
)

SESSIONS = Table(
    "sessions",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False, index=True),
    Column("opened_at_ms", BigInteger, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("remote", Text, nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("epoch", Text, nullable=False),
    Column("closed_at_ms", BigInteger),
    Column("reason_code", Integer),
    Column("reason_detail", Text, nullable=False),
)

ARTIFACTS = Table(
    "artifacts",
    METADATA,
    Column("sha256", Text, primary_key=True),
    Column("bytes", BigInteger, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
)

CIRCUITS = Table(
    "circuits",
    METADATA,
    Column("id", Text, ForeignKey("artifacts.sha256"), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("zkey_bytes", BigInteger, nullable=False),
    Column("curve", Text, nullable=False),
    Column("n_public", BigInteger, nullable=False),
    Column("n_vars", BigInteger, nullable=False),
    Column("domain_size", BigInteger, nullable=False),
    Column("verification_key", LargeBinary, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("contributions", BigInteger),
    Column("node_labels", Text, nullable=False),
)

JOBS = Table(
    "jobs",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("circuit_id", Text, ForeignKey("circuits.id"), nullable=False),
    Column("engine", Text, nullable=False),
    Column("curve", Text, nullable=False),
    Column("inputs", Text, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("idempotency_key", Text, unique=True),
    Column("request_sha256", Text, nullable=False),
    Column("state", Text, nullable=False, index=True),
    Column("attempt", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("error_code", Integer),
    Column("error_detail", Text, nullable=False),
    Column("started_at_ms", BigInteger),
    Column("ended_at_ms", BigInteger),
    Column("proof", LargeBinary),
    Column("public", LargeBinary),
    Column("timings_ms", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("label", Text, nullable=False),
    Column("node_labels", Text, nullable=False),
)

ATTEMPTS = Table(
    "attempts",
    METADATA,
    Column("job_id", Text, ForeignKey("jobs.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False, index=True),
    Column("assigned_at_ms", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("device", Text, nullable=False),
    Column("started_at_ms", BigInteger),
    Column("ended_at_ms", BigInteger),
    Column("code", Integer),
    Column("detail", Text, nullable=False),
    Column("outputs", Text, nullable=False),
    Column("timings_ms", Text, nullable=False),
)

STREAM_HEADS = Table(
    "stream_heads",
    METADATA,
    Column("agent_id", Text, ForeignKey("agents.id"), primary_key=True),
    Column("epoch", Text, primary_key=True),
    Column("stream", Text, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False, server_default="0"),
    Column("bytes", BigInteger, nullable=False, server_default="0"),
    Column("oldest_at_ms", BigInteger, nullable=False, server_default=str(NOTHING_MS), index=True),
)

EVENTS = Table(
    "events",
    METADATA,
    Column("agent_id", Text, primary_key=True),
    Column("epoch", Text, primary_key=True),
    Column("stream", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("time_ms", BigInteger, nullable=False),
    Column("received_at_ms", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("packed", LargeBinary, nullable=False),
    ForeignKeyConstraint(
        ["agent_id", "epoch", "stream"],
        ["stream_heads.agent_id", "stream_heads.epoch", "stream_heads.stream"],
    ),
    Index(None, "agent_id", "received_at_ms"),
)

_SERIAL = BigInteger().with_variant(Integer, "sqlite")
"""Numbers the rows as they come."""

HISTORY_SOURCES = Table(
    "history_sources",
    METADATA,
    Column("agent_id", Text, ForeignKey("agents.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("fields", BigInteger, nullable=False),
    Column("seen_at_ms", BigInteger, nullable=False),
    UniqueConstraint("agent_id", "name"),
)

SAMPLES = Table(
    "samples",
    METADATA,
    Column("id", _SERIAL, primary_key=True),
    Column("agent_id", Text, nullable=False),
    Column("time_ms", BigInteger, nullable=False, index=True),
    Column("packed", LargeBinary, nullable=False),
    Index(None, "agent_id", "time_ms"),
)

ROLLUPS = Table(
    "rollups",
    METADATA,
    Column("id", _SERIAL, primary_key=True),
    Column("tier_s", Integer, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("start_ms", BigInteger, nullable=False),
    Column("packed", LargeBinary, nullable=False),
    UniqueConstraint("tier_s", "agent_id", "start_ms"),
    Index(None, "tier_s", "start_ms"),
)

ROLLUPS_DUE = Table(
    "rollups_due",
    METADATA,
    Column("tier_s", Integer, primary_key=True),
    Column("start_ms", BigInteger, primary_key=True),
    Column("agent_id", Text, primary_key=True),
)

VOLUMES = Table(
    "volumes",
    METADATA,
    Column("tier_s", Integer, primary_key=True, autoincrement=False),
    Column("rows", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("horizon_ms", BigInteger, nullable=False),
)

SUPPRESSIONS = Table(
    "suppressions",
    METADATA,
    Column("agent_id", Text, ForeignKey("agents.id"), primary_key=True),
    Column("epoch", Text, primary_key=True),
    Column("stream", Text, primary_key=True),
    Column("window_ms", BigInteger, primary_key=True),
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("events", BigInteger, nullable=False),
    Column("hub_event_id", Text, nullable=False),
)

HUB_EVENTS = Table(
    "hub_events",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False),
    Column("time_ms", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("level", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Index(None, "agent_id", "id"),
)

LOGS = Table(
    "logs",
    METADATA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("agent_id", Text, nullable=False),
    Column("epoch", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("time_ms", BigInteger, nullable=False),
    Column("received_at_ms", BigInteger, nullable=False),
    Column("severity", Integer, nullable=False),
    Column("source", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("fields", Text, nullable=False),
    Column("gap", BigInteger),
    Column("bytes", Integer, nullable=False),
    Index(None, "agent_id", "id"),
    Index(None, "agent_id", "received_at_ms"),
    sqlite_autoincrement=True,  # an id is never given twice, so that a reader's place stays one
)

LOG_USAGE = Table(
    "log_usage",
    METADATA,
    Column("agent_id", Text, primary_key=True),
    Column("records", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
)

SSH_TARGETS = Table(
    "ssh_targets",
    METADATA,
    Column("node_id", Text, ForeignKey("agents.id"), primary_key=True),
    Column("target", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("host_keys", Text, nullable=False),
    Column("pinned_by", Text),
    Column("jump_keys", Text, nullable=False),
    Column("suggested", Text, nullable=False),
    Column("changed_at_ms", BigInteger, nullable=False),
    Column("tried_at_ms", BigInteger),
    Column("state", Text, nullable=False),
    Column("proved_at_ms", BigInteger),
    Column("broken_since_ms", BigInteger),
    Column("cause", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    Column("basis", Text, nullable=False),
)

SSH_ATTEMPTS = Table(
    "ssh_attempts",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("node_id", Text, ForeignKey("agents.id"), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("target", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("started_at_ms", BigInteger, nullable=False),
    Column("duration_s", Float, nullable=False),
    Column("exit_code", Integer),
    Column("signal", Integer),
    Column("remote_exit_code", Integer),
    Column("stdout_bytes", BigInteger, nullable=False),
    Column("stderr_bytes", BigInteger, nullable=False),
    Column("cause", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    Column("remedy", Text, nullable=False),
    Column("retry_of", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("began", Boolean, nullable=False),
    Column("fresh", Boolean, nullable=False),
    Column("origin", Text, nullable=False),
    Column("differs", Text, nullable=False),
    Column("argv", Text, nullable=False),
    Column("verbose", Text, nullable=False),
    Column("before", LargeBinary, nullable=False),
    Column("stderr", LargeBinary, nullable=False),
    Column("stdout", LargeBinary, nullable=False),
    Index(None, "node_id", "id"),
)

__all__ = [
    "AGENTS",
    "ARTIFACTS",
    "ATTEMPTS",
    "CIRCUITS",
    "ENROLL_TOKENS",
    "EVENTS",
    "HISTORY_SOURCES",
    "HUB",
    "HUB_EVENTS",
    "JOBS",
    "LOGS",
    "LOG_USAGE",
    "METADATA",
    "ROLLUPS",
    "ROLLUPS_DUE",
    "SAMPLES",
    "SESSIONS",
    "SSH_ATTEMPTS",
    "SSH_TARGETS",
    "STREAM_HEADS",
    "SUPPRESSIONS",
    "VOLUMES",
]
