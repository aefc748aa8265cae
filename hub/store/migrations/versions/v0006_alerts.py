"""Alerts: changed rules, what is watched, alerts, silences, channels, and notices on their way."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the tables, and an index by which jobs that lately ended are found."""
    op.create_index(op.f("ix_jobs_state_ended_at_ms"), "jobs", ["state", "ended_at_ms"])
    op.create_table(
        "alert_rules",
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("limits", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("rule", name=op.f("pk_alert_rules")),
    )
    op.create_table(
        "alert_look",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_look")),
    )
    op.create_table(
        "alert_watched",
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("cause_seen", sa.Text(), nullable=False),
        sa.Column("common", sa.Boolean(), nullable=False),
        sa.Column("remedy", sa.Text(), nullable=False),
        sa.Column("bad_starts", sa.Text(), nullable=False),
        sa.Column("alert_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("rule", "subject", name=op.f("pk_alert_watched")),
    )
    _alerts()
    op.create_table(
        "alert_silences",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_silences")),
    )
    _channels_and_notices()


def _alerts() -> None:
    op.create_table(
        "alerts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("fired_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("common", sa.Boolean(), nullable=False),
        sa.Column("headline", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("remedy", sa.Text(), nullable=False),
        sa.Column("subjects", sa.Text(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("count_max", sa.Integer(), nullable=False),
        sa.Column("flapping", sa.Boolean(), nullable=False),
        sa.Column("notified_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("ended_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("merged_into", sa.Text(), nullable=False),
        sa.Column("acked_by", sa.Text(), nullable=False),
        sa.Column("acked_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("acked_until_ms", sa.BigInteger(), nullable=True),
        sa.Column("ack_note", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alerts")),
    )
    op.create_index(op.f("ix_alerts_state_id"), "alerts", ["state", "id"])


def _channels_and_notices() -> None:
    op.create_table(
        "alert_channels",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("address", sa.LargeBinary(), nullable=False),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("delivered_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("failed_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("failure", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_channels")),
        sa.UniqueConstraint("name", name=op.f("uq_alert_channels_name")),
    )
    op.create_table(
        "alert_notices",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("channel_id", sa.Text(), nullable=False),
        sa.Column("alert_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("due_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("ended_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["channel_id"], ["alert_channels.id"], name=op.f("fk_alert_notices_channel_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_notices")),
    )
    op.create_index(op.f("ix_alert_notices_channel_id"), "alert_notices", ["channel_id"])
    op.create_index(op.f("ix_alert_notices_alert_id"), "alert_notices", ["alert_id"])
    op.create_index(op.f("ix_alert_notices_state_due_at_ms"), "alert_notices", ["state", "due_at_ms"])
