"""Define the tables of the registry.

Times are stored as UTC texts that sort chronologically (`reviews.at`). Hashes are sha256 in hex.

If a table changes, a migration must be added in `migrations/versions`. A test opens a registry of
an earlier version.
"""

from typing import Any

import sqlalchemy as sa

metadata = sa.MetaData()

_HASH, _TIME = sa.String(64), sa.String(25)


def _required(name: str, kind: Any, **more: Any) -> sa.Column[Any]:
    """Return a column that must not be null."""
    return sa.Column(name, kind, nullable=False, **more)


# A row is one verdict on a run's answers. Its key is a hash over the questions, the answers and the
# verdict (`entry.content_key`).
runs = sa.Table(
    "runs",
    metadata,
    sa.Column("key", _HASH, primary_key=True),
    _required("audit", sa.String(32)),
    _required("fingerprint", _HASH),
    _required("answers_sha256", _HASH, index=True),  # the hash over the hashes of all shards
    _required("verdict_sha256", _HASH),
    _required("manifest_sha256", _HASH),
    _required("suite", sa.Text),  # the audit_suite_id; "" without a suite
    sa.Column("suite_sha256", _HASH),
    # The decision that follows from the verdict. Decisions made by people are stored in the run's
    # files.
    _required("decision", sa.String(16)),
    _required("exit_code", sa.Integer),
    _required("started", _TIME),
    _required("ended", _TIME),
    _required("registered", _TIME, index=True),
    _required("run_dir", sa.Text),
    _required("run_by", sa.JSON),
    sa.Column("retention_days", sa.Integer),  # null if the run is kept forever
    sa.Column("rotate_every", sa.String(16)),
    sa.Column("hold", sa.Text),  # the reason why the run must not be removed
    sa.Column("removal", sa.String(16)),  # state of the removal: null, removing or removed
    sa.Column("removed", _TIME),
)


def _cell_key() -> list[sa.Column[str]]:
    """Return the key columns of a cell.

    The column `context` names a separately judged part of the benchmark; "" stands for the whole
    benchmark.
    """
    run = sa.Column("run_key", _HASH, sa.ForeignKey("runs.key"), primary_key=True)
    names = ("model", "benchmark", "context")
    return [run, *(sa.Column(name, sa.String(255), primary_key=True) for name in names)]


# A row is one model on one benchmark. `comparable` maps the keys of `entry.NAMES` to hashes. Two
# rows can be compared if these hashes are equal.
cells = sa.Table(
    "cells",
    metadata,
    *_cell_key(),
    _required("model_revision", sa.Text),
    _required("benchmark_revision", sa.Text),
    _required("n", sa.Integer),
    _required("verdict", sa.String(64)),
    _required("decision", sa.String(16)),
    _required("headline", sa.Text),
    _required("sound", sa.Boolean),  # false if a check failed that withholds the verdict
    _required("comparable", sa.JSON),
    sa.Column("library", sa.Text),
    # Ids of the questions; null if the sample is too large for its ids to be in the manifest.
    sa.Column("ids", sa.JSON(none_as_null=True)),
)

# A row is an estimate for a cell with the two limits of its 95 % interval. All three values are
# between 0 and 1.
indicators = sa.Table(
    "indicators",
    metadata,
    *_cell_key(),
    sa.Column("name", sa.String(32), primary_key=True),
    *(sa.Column(name, sa.Float) for name in ("estimate", "low", "high")),
)

# A row is a message to people. The row is written in the same transaction as the fact that it
# reports, such as a new run. The message is sent afterwards, so no message is lost.
notices = sa.Table(
    "notices",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    _required("about", sa.String(128)),
    _required("kind", sa.String(16)),
    _required("title", sa.Text),
    _required("body", sa.Text),
    _required("created", _TIME),
    sa.Column("claimed", _TIME),  # the time at which a process began to send the message
    sa.Column("sent", _TIME),
    _required("tries", sa.Integer),
    _required("problem", sa.Text),
    # mail addresses that the suite names, in addition to the addresses in AUDIT_NOTIFY
    sa.Column("recipients", sa.JSON(none_as_null=True)),
    sa.UniqueConstraint("about", "kind"),
)

# A row holds the number of decisions that people made on a run. `about` is a hash of the bytes to
# which the decisions refer (see `store`).
decisions = sa.Table(
    "decisions",
    metadata,
    sa.Column("about", _HASH, primary_key=True),
    _required("run_dir", sa.Text),
    _required("count", sa.Integer),
    _required("last_sha256", _HASH),
    _required("noted", _TIME),
)

# A row is a held-out sample that was drawn from a benchmark in a period.
draws = sa.Table(
    "draws",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("period", sa.String(8), primary_key=True),  # the quarter, such as 2026-Q4
    _required("drawn", _TIME),
    _required("revision", sa.Text),
    _required("pool_sha256", _HASH),
    _required("ids", sa.JSON),
)
