"""Whom a notice goes to beside everybody, and how many decisions there are on what."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("notices", sa.Column("recipients", sa.JSON))
    op.create_table(
        "decisions",
        sa.Column("about", sa.String(64), primary_key=True),
        sa.Column("run_dir", sa.Text, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("last_sha256", sa.String(64), nullable=False),
        sa.Column("noted", sa.String(25), nullable=False),
    )
