"""Labels: what people call a job, which nodes a circuit and its jobs may go to, and who contributed to a key."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the columns; what is there already goes to every node, and of its keys nothing is known."""
    op.add_column("circuits", sa.Column("contributions", sa.BigInteger(), nullable=True))
    op.add_column("circuits", sa.Column("node_labels", sa.Text(), nullable=False, server_default="{}"))
    op.add_column("jobs", sa.Column("label", sa.Text(), nullable=False, server_default=""))
    op.add_column("jobs", sa.Column("node_labels", sa.Text(), nullable=False, server_default="{}"))
