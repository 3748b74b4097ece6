"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
HASHES = ("fingerprint", "answers_sha256", "verdict_sha256", "manifest_sha256")


def of_a_cell() -> list[sa.Column[str]]:
    run = sa.Column("run_key", sa.String(64), sa.ForeignKey("runs.key"), primary_key=True)
    return [run, *(sa.Column(name, sa.String(255), primary_key=True) for name in ("model", "benchmark", "context"))]


def upgrade() -> None:
    """Spelt out, not taken from `schema`: a migration says what the tables were at its time."""
    op.create_table(
        "runs",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("audit", sa.String(32), nullable=False),
        *(sa.Column(name, sa.String(64), nullable=False) for name in HASHES),
        sa.Column("suite", sa.Text, nullable=False),
        sa.Column("suite_sha256", sa.String(64)),
        sa.Column("decision", sa.String(16), nullable=False),
        sa.Column("exit_code", sa.Integer, nullable=False),
        *(sa.Column(name, sa.String(25), nullable=False) for name in ("started", "ended", "registered")),
        sa.Column("run_dir", sa.Text, nullable=False),
        sa.Column("run_by", sa.JSON, nullable=False),
        sa.Column("retention_days", sa.Integer),
        sa.Column("rotate_every", sa.String(16)),
        sa.Column("hold", sa.Text),
        sa.Column("removal", sa.String(16)),
        sa.Column("removed", sa.String(25)),
    )
    op.create_index("ix_runs_answers_sha256", "runs", ["answers_sha256"])
    op.create_index("ix_runs_registered", "runs", ["registered"])
    op.create_table(
        "cells",
        *of_a_cell(),
        sa.Column("model_revision", sa.Text, nullable=False),
        sa.Column("benchmark_revision", sa.Text, nullable=False),
        sa.Column("n", sa.Integer, nullable=False),
        sa.Column("verdict", sa.String(64), nullable=False),
        sa.Column("decision", sa.String(16), nullable=False),
        sa.Column("headline", sa.Text, nullable=False),
        sa.Column("sound", sa.Boolean, nullable=False),
        sa.Column("comparable", sa.JSON, nullable=False),
        sa.Column("library", sa.Text),
        sa.Column("ids", sa.JSON),
    )
    op.create_table(
        "indicators",
        *of_a_cell(),
        sa.Column("name", sa.String(32), primary_key=True),
        *(sa.Column(name, sa.Float) for name in ("estimate", "low", "high")),
    )
    op.create_table(
        "notices",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("about", sa.String(128), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("created", sa.String(25), nullable=False),
        sa.Column("claimed", sa.String(25)),
        sa.Column("sent", sa.String(25)),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
        sa.UniqueConstraint("about", "kind"),
    )
    op.create_table(
        "draws",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("period", sa.String(8), primary_key=True),
        sa.Column("drawn", sa.String(25), nullable=False),
        sa.Column("revision", sa.Text, nullable=False),
        sa.Column("pool_sha256", sa.String(64), nullable=False),
        sa.Column("ids", sa.JSON, nullable=False),
    )
