"""The SSH fallback: each node's way in, and every attempt to go it."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table of ways in and the table of attempts."""
    op.create_table(
        "ssh_targets",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("host_keys", sa.Text(), nullable=False),
        sa.Column("pinned_by", sa.Text(), nullable=True),
        sa.Column("jump_keys", sa.Text(), nullable=False),
        sa.Column("suggested", sa.Text(), nullable=False),
        sa.Column("changed_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("tried_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("proved_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("broken_since_ms", sa.BigInteger(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("basis", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["agents.id"], name=op.f("fk_ssh_targets_node_id")),
        sa.PrimaryKeyConstraint("node_id", name=op.f("pk_ssh_targets")),
    )
    op.create_table(
        "ssh_attempts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("started_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("duration_s", sa.Float(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("signal", sa.Integer(), nullable=True),
        sa.Column("remote_exit_code", sa.Integer(), nullable=True),
        sa.Column("stdout_bytes", sa.BigInteger(), nullable=False),
        sa.Column("stderr_bytes", sa.BigInteger(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("remedy", sa.Text(), nullable=False),
        sa.Column("retry_of", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("began", sa.Boolean(), nullable=False),
        sa.Column("fresh", sa.Boolean(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("differs", sa.Text(), nullable=False),
        sa.Column("argv", sa.Text(), nullable=False),
        sa.Column("verbose", sa.Text(), nullable=False),
        sa.Column("before", sa.LargeBinary(), nullable=False),
        sa.Column("stderr", sa.LargeBinary(), nullable=False),
        sa.Column("stdout", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["agents.id"], name=op.f("fk_ssh_attempts_node_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ssh_attempts")),
    )
    op.create_index(op.f("ix_ssh_attempts_node_id_id"), "ssh_attempts", ["node_id", "id"])
