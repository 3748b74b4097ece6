"""The first tables."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
HASHES = ("fingerprint", "answers_sha256", "verdict_sha256", "manifest_sha256")


def told(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)


def of_a_cell() -> list[sa.Column[str]]:
    run = sa.Column("run_key", sa.String(64), sa.ForeignKey("runs.key"), primary_key=True)
    return [run, *(sa.Column(name, sa.String(255), primary_key=True) for name in ("model", "benchmark", "context"))]


def upgrade() -> None:
    """Spelt out, not taken from `schema`: a migration says what the tables were at its time."""
    op.create_table(
        "runs",
        sa.Column("key", sa.String(64), primary_key=True),
        told("audit", sa.String(32)),
        *(told(name, sa.String(64)) for name in HASHES),
        told("suite", sa.Text),
        sa.Column("suite_sha256", sa.String(64)),
        told("decision", sa.String(16)),
        told("exit_code", sa.Integer),
        *(told(name, sa.String(25)) for name in ("started", "ended", "registered")),
        told("run_dir", sa.Text),
        told("run_by", sa.JSON),
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
        told("model_revision", sa.Text),
        told("benchmark_revision", sa.Text),
        told("n", sa.Integer),
        told("verdict", sa.String(64)),
        told("decision", sa.String(16)),
        told("headline", sa.Text),
        told("sound", sa.Boolean),
        told("comparable", sa.JSON),
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
        told("about", sa.String(128)),
        told("kind", sa.String(16)),
        told("title", sa.Text),
        told("body", sa.Text),
        told("created", sa.String(25)),
        sa.Column("claimed", sa.String(25)),
        sa.Column("sent", sa.String(25)),
        told("tries", sa.Integer),
        told("problem", sa.Text),
        sa.Column("recipients", sa.JSON),
        sa.UniqueConstraint("about", "kind"),
    )
    op.create_table(
        "decisions",
        sa.Column("about", sa.String(64), primary_key=True),
        told("run_dir", sa.Text),
        told("count", sa.Integer),
        told("last_sha256", sa.String(64)),
        told("noted", sa.String(25)),
    )
    op.create_table(
        "draws",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("period", sa.String(8), primary_key=True),
        told("drawn", sa.String(25)),
        told("revision", sa.Text),
        told("pool_sha256", sa.String(64)),
        told("ids", sa.JSON),
    )
