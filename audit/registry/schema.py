"""Define the tables. Times are UTC as text of one form (`reviews.at`), which sorts by time; hashes
are sha256 in hex.

A change here needs a migration in `migrations/versions`; a test opens a registry of an earlier
version.
"""

from typing import Any

import sqlalchemy as sa

metadata = sa.MetaData()

_HASH, _TIME = sa.String(64), sa.String(25)


def _told(name: str, kind: Any, **more: Any) -> sa.Column[Any]:
    """Return a column without null."""
    return sa.Column(name, kind, nullable=False, **more)


# One judgement of one run's answers. key: over what was asked, answered and concluded (`entry.content_key`).
runs = sa.Table(
    "runs",
    metadata,
    sa.Column("key", _HASH, primary_key=True),
    _told("audit", sa.String(32)),
    _told("fingerprint", _HASH),
    _told("answers_sha256", _HASH, index=True),  # over the hashes of all shards
    _told("verdict_sha256", _HASH),
    _told("manifest_sha256", _HASH),
    _told("suite", sa.Text),  # its audit_suite_id; "" without a suite
    sa.Column("suite_sha256", _HASH),
    _told("decision", sa.String(16)),  # of the verdict alone; people's own are in the run's files
    _told("exit_code", sa.Integer),
    _told("started", _TIME),
    _told("ended", _TIME),
    _told("registered", _TIME, index=True),
    _told("run_dir", sa.Text),
    _told("run_by", sa.JSON),
    sa.Column("retention_days", sa.Integer),  # null: kept
    sa.Column("rotate_every", sa.String(16)),
    sa.Column("hold", sa.Text),  # why it must not go
    sa.Column("removal", sa.String(16)),  # null, removing, removed
    sa.Column("removed", _TIME),
)


def _of_a_cell() -> list[sa.Column[str]]:
    """Return the key columns of a cell.

    context: a part of the benchmark that is judged on its own; "" without one.
    """
    run = sa.Column("run_key", _HASH, sa.ForeignKey("runs.key"), primary_key=True)
    names = ("model", "benchmark", "context")
    return [run, *(sa.Column(name, sa.String(255), primary_key=True) for name in names)]


# One model on one benchmark. comparable: name -> hash of what must be equal for two figures to be compared.
cells = sa.Table(
    "cells",
    metadata,
    *_of_a_cell(),
    _told("model_revision", sa.Text),
    _told("benchmark_revision", sa.Text),
    _told("n", sa.Integer),
    _told("verdict", sa.String(64)),
    _told("decision", sa.String(16)),
    _told("headline", sa.Text),
    _told("sound", sa.Boolean),  # no check failed that withholds the verdict
    _told("comparable", sa.JSON),
    sa.Column("library", sa.Text),
    sa.Column("ids", sa.JSON(none_as_null=True)),  # of the questions; null for a sample too large for the manifest
)

# A figure of a cell with its 95 % interval, all three 0-1.
indicators = sa.Table(
    "indicators",
    metadata,
    *_of_a_cell(),
    sa.Column("name", sa.String(32), primary_key=True),
    *(sa.Column(name, sa.Float) for name in ("estimate", "low", "high")),
)

# Messages to people: written with what they are about, sent afterwards, so that none is lost.
notices = sa.Table(
    "notices",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    _told("about", sa.String(128)),
    _told("kind", sa.String(16)),
    _told("title", sa.Text),
    _told("body", sa.Text),
    _told("created", _TIME),
    sa.Column("claimed", _TIME),  # by a process that is sending it
    sa.Column("sent", _TIME),
    _told("tries", sa.Integer),
    _told("problem", sa.Text),
    sa.Column("recipients", sa.JSON(none_as_null=True)),  # mail addresses of a suite, beside those of AUDIT_NOTIFY
    sa.UniqueConstraint("about", "kind"),
)

# What people decided on: about is over the hashes of what a decision binds (`store`).
decisions = sa.Table(
    "decisions",
    metadata,
    sa.Column("about", _HASH, primary_key=True),
    _told("run_dir", sa.Text),
    _told("count", sa.Integer),
    _told("last_sha256", _HASH),
    _told("noted", _TIME),
)

# Held-out samples that were drawn: one a benchmark (or library) and period.
draws = sa.Table(
    "draws",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("period", sa.String(8), primary_key=True),  # 2026-Q4
    _told("drawn", _TIME),
    _told("revision", sa.Text),
    _told("pool_sha256", _HASH),
    _told("ids", sa.JSON),
)
