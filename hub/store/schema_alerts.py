"""The tables of alerts; see `hub.store.schema`."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, LargeBinary, Table, Text

from hub.store.schema import JOBS, METADATA

Index(None, JOBS.c.state, JOBS.c.ended_at_ms)  # for the jobs that lately failed

ALERT_RULES = Table(
    "alert_rules",
    METADATA,
    Column("rule", Text, primary_key=True),
    Column("limits", Text, nullable=False),
)

ALERT_LOOK = Table(
    "alert_look",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("at_ms", BigInteger, nullable=False),
)

ALERT_WATCHED = Table(
    "alert_watched",
    METADATA,
    Column("rule", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("phase", Text, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("cause", Text, nullable=False),
    Column("cause_seen", Text, nullable=False),
    Column("common", Boolean, nullable=False),
    Column("remedy", Text, nullable=False),
    Column("bad_starts", Text, nullable=False),
    Column("alert_id", Text, nullable=False),
)

ALERTS = Table(
    "alerts",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("rule", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("fired_at_ms", BigInteger, nullable=False),
    Column("cause", Text, nullable=False),
    Column("common", Boolean, nullable=False),
    Column("headline", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("remedy", Text, nullable=False),
    Column("subjects", Text, nullable=False),
    Column("count", Integer, nullable=False),
    Column("count_max", Integer, nullable=False),
    Column("flapping", Boolean, nullable=False),
    Column("notified_at_ms", BigInteger),
    Column("ended_at_ms", BigInteger),
    Column("merged_into", Text, nullable=False),
    Column("acked_by", Text, nullable=False),
    Column("acked_at_ms", BigInteger),
    Column("acked_until_ms", BigInteger),
    Column("ack_note", Text, nullable=False),
    Index(None, "state", "id"),
)

ALERT_SILENCES = Table(
    "alert_silences",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("rule", Text, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("cause", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
)

ALERT_CHANNELS = Table(
    "alert_channels",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("address", LargeBinary, nullable=False),
    Column("shown", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("delivered_at_ms", BigInteger),
    Column("failed_at_ms", BigInteger),
    Column("failure", Text, nullable=False),
)

ALERT_NOTICES = Table(
    "alert_notices",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("channel_id", Text, ForeignKey("alert_channels.id"), nullable=False, index=True),
    Column("alert_id", Text, nullable=False, index=True),
    Column("kind", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("due_at_ms", BigInteger, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("ended_at_ms", BigInteger),
    Column("error", Text, nullable=False),
    Index(None, "state", "due_at_ms"),
)
