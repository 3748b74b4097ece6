"""The tables. Times are UTC as text of one form (`at`), which sorts as it reads; hashes are sha256 in hex.

A change here needs a migration in `migrations/versions`; a test compares the two.
"""

from datetime import UTC, datetime

import sqlalchemy as sa

metadata = sa.MetaData()

_HASH, _TIME = sa.String(64), sa.String(25)

# One judgement of one run's answers. key: over what was asked, answered and concluded (`entry.content_key`).
runs = sa.Table(
    "runs",
    metadata,
    sa.Column("key", _HASH, primary_key=True),
    sa.Column("audit", sa.String(32), nullable=False),
    sa.Column("fingerprint", _HASH, nullable=False),
    sa.Column("answers_sha256", _HASH, nullable=False, index=True),  # over the hashes of all shards
    sa.Column("verdict_sha256", _HASH, nullable=False),
    sa.Column("manifest_sha256", _HASH, nullable=False),
    sa.Column("suite", sa.Text, nullable=False),  # its audit_suite_id; "" without a suite
    sa.Column("suite_sha256", _HASH),
    sa.Column("decision", sa.String(16), nullable=False),  # of the verdict alone; people's own are in the run's files
    sa.Column("exit_code", sa.Integer, nullable=False),
    sa.Column("started", _TIME, nullable=False),
    sa.Column("ended", _TIME, nullable=False),
    sa.Column("registered", _TIME, nullable=False, index=True),
    sa.Column("run_dir", sa.Text, nullable=False),
    sa.Column("run_by", sa.JSON, nullable=False),
    sa.Column("retention_days", sa.Integer),  # null: kept
    sa.Column("rotate_every", sa.String(16)),
    sa.Column("hold", sa.Text),  # why it must not go
    sa.Column("removal", sa.String(16)),  # null, removing, removed
    sa.Column("removed", _TIME),
)


def _of_a_cell() -> list[sa.Column[str]]:
    """context: a part of the benchmark that is judged on its own; "" without one."""
    run = sa.Column("run_key", _HASH, sa.ForeignKey("runs.key"), primary_key=True)
    names = ("model", "benchmark", "context")
    return [run, *(sa.Column(name, sa.String(255), primary_key=True) for name in names)]


# One model on one benchmark. comparable: name -> hash of what must be equal for two figures to be compared.
cells = sa.Table(
    "cells",
    metadata,
    *_of_a_cell(),
    sa.Column("model_revision", sa.Text, nullable=False),
    sa.Column("benchmark_revision", sa.Text, nullable=False),
    sa.Column("n", sa.Integer, nullable=False),
    sa.Column("verdict", sa.String(64), nullable=False),
    sa.Column("decision", sa.String(16), nullable=False),
    sa.Column("headline", sa.Text, nullable=False),
    sa.Column("sound", sa.Boolean, nullable=False),  # no check failed that withholds the verdict
    sa.Column("comparable", sa.JSON, nullable=False),
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
    sa.Column("about", sa.String(128), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("created", _TIME, nullable=False),
    sa.Column("claimed", _TIME),  # by a process that is sending it
    sa.Column("sent", _TIME),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("problem", sa.Text, nullable=False),
    sa.Column("recipients", sa.JSON(none_as_null=True)),  # mail addresses of a suite, beside those of AUDIT_NOTIFY
    sa.UniqueConstraint("about", "kind"),
)

# What people decided on: about is over the hashes of what a decision binds (`store`).
decisions = sa.Table(
    "decisions",
    metadata,
    sa.Column("about", _HASH, primary_key=True),
    sa.Column("run_dir", sa.Text, nullable=False),
    sa.Column("count", sa.Integer, nullable=False),
    sa.Column("last_sha256", _HASH, nullable=False),
    sa.Column("noted", _TIME, nullable=False),
)

# Held-out samples that were drawn: one a benchmark (or library) and period.
draws = sa.Table(
    "draws",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("period", sa.String(8), primary_key=True),  # 2026-Q4
    sa.Column("drawn", _TIME, nullable=False),
    sa.Column("revision", sa.Text, nullable=False),
    sa.Column("pool_sha256", _HASH, nullable=False),
    sa.Column("ids", sa.JSON, nullable=False),
)


def at(when: datetime) -> str:
    """A time as the tables have it.

    >>> at(datetime(2026, 11, 22, 6, 0, tzinfo=UTC))
    '2026-11-22T06:00:00+00:00'
    """
    return when.astimezone(UTC).isoformat(timespec="seconds")
