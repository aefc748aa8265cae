"""What nodes measure, kept as samples and rollups; how much of everything is kept."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ROW_BYTES = 230
"""What a row of ``events`` takes beside its packed event, as the code that counts it says."""
NOTHING_MS = 2**62
"""The oldest event's time where there is no event."""


def upgrade() -> None:
    """Make the tables of the history, and count what there is of events."""
    op.create_table(
        "history_sources",
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("fields", sa.BigInteger(), nullable=False),
        sa.Column("seen_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_history_sources_agent_id")),
        sa.PrimaryKeyConstraint("agent_id", "number", name=op.f("pk_history_sources")),
        sa.UniqueConstraint("agent_id", "name", name=op.f("uq_history_sources_agent_id_name")),
    )
    op.create_table(
        "samples",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("time_ms", sa.BigInteger(), nullable=False),
        sa.Column("packed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_samples")),
    )
    op.create_index(op.f("ix_samples_agent_id_time_ms"), "samples", ["agent_id", "time_ms"], unique=False)
    op.create_index(op.f("ix_samples_time_ms"), "samples", ["time_ms"], unique=False)
    op.create_table(
        "rollups",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("tier_s", sa.Integer(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), nullable=False),
        sa.Column("packed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rollups")),
        sa.UniqueConstraint("tier_s", "agent_id", "start_ms", name=op.f("uq_rollups_tier_s_agent_id_start_ms")),
    )
    op.create_index(op.f("ix_rollups_tier_s_start_ms"), "rollups", ["tier_s", "start_ms"], unique=False)
    op.create_table(
        "rollups_due",
        sa.Column("tier_s", sa.Integer(), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tier_s", "start_ms", "agent_id", name=op.f("pk_rollups_due")),
    )
    volumes = op.create_table(
        "volumes",
        sa.Column("tier_s", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("horizon_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tier_s", name=op.f("pk_volumes")),
    )
    op.bulk_insert(
        volumes, [{"tier_s": tier_s, "rows": 0, "bytes": 0, "horizon_ms": 0} for tier_s in (0, 60, 600, 3600)]
    )
    op.create_table(
        "suppressions",
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Text(), nullable=False),
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("window_ms", sa.BigInteger(), nullable=False),
        sa.Column("first_seq", sa.BigInteger(), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("hub_event_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_suppressions_agent_id")),
        sa.PrimaryKeyConstraint("agent_id", "epoch", "stream", "window_ms", name=op.f("pk_suppressions")),
    )
    for column, default in (("rows", 0), ("bytes", 0), ("oldest_at_ms", NOTHING_MS)):
        op.add_column("stream_heads", sa.Column(column, sa.BigInteger(), nullable=False, server_default=str(default)))
    op.create_index(op.f("ix_stream_heads_oldest_at_ms"), "stream_heads", ["oldest_at_ms"], unique=False)
    op.execute(
        f"""
        UPDATE stream_heads SET (rows, bytes, oldest_at_ms) = (
            SELECT count(*), coalesce(sum(length(packed) + {ROW_BYTES}), 0), coalesce(min(received_at_ms), {NOTHING_MS})
            FROM events
            WHERE events.agent_id = stream_heads.agent_id
              AND events.epoch = stream_heads.epoch AND events.stream = stream_heads.stream
        )
        """  # noqa: S608 - the values are numbers of ours
    )
