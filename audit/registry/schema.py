"""The tables. Times are UTC as text of one form (`at`), which sorts as it reads; hashes are sha256 in hex.

A change here needs a migration in `migrations/versions`; a test compares the two.
"""

from datetime import UTC, datetime

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

_HASH, _TIME = String(64), String(25)

# One judgement of one run's answers. key: over what was asked, answered and concluded (`entry.content_key`).
runs = Table(
    "runs",
    metadata,
    Column("key", _HASH, primary_key=True),
    Column("audit", String(32), nullable=False),
    Column("fingerprint", _HASH, nullable=False),
    Column("answers_sha256", _HASH, nullable=False, index=True),  # over the hashes of all shards
    Column("verdict_sha256", _HASH, nullable=False),
    Column("manifest_sha256", _HASH, nullable=False),
    Column("suite", Text, nullable=False),  # its audit_suite_id; "" without a suite
    Column("suite_sha256", _HASH),
    Column("decision", String(16), nullable=False),  # of the verdict alone; what people decided lies in the run's files
    Column("exit_code", Integer, nullable=False),
    Column("started", _TIME, nullable=False),
    Column("ended", _TIME, nullable=False),
    Column("registered", _TIME, nullable=False, index=True),
    Column("run_dir", Text, nullable=False),
    Column("run_by", JSON, nullable=False),
    Column("retention_days", Integer),  # null: kept
    Column("rotate_every", String(16)),
    Column("hold", Text),  # why it must not go
    Column("removal", String(16)),  # null, removing, removed
    Column("removed", _TIME),
)

# One model on one benchmark. comparable: name -> hash of what must be equal for two figures to be compared.
cells = Table(
    "cells",
    metadata,
    Column("run_key", _HASH, ForeignKey("runs.key"), primary_key=True),
    Column("model", String(255), primary_key=True),
    Column("benchmark", String(255), primary_key=True),
    Column("context", String(255), primary_key=True),  # a part of the benchmark that is judged on its own; ""
    Column("model_revision", Text, nullable=False),
    Column("benchmark_revision", Text, nullable=False),
    Column("n", Integer, nullable=False),
    Column("verdict", String(64), nullable=False),
    Column("decision", String(16), nullable=False),
    Column("headline", Text, nullable=False),
    Column("sound", Boolean, nullable=False),  # no check failed that withholds the verdict
    Column("comparable", JSON, nullable=False),
    Column("library", Text),
    Column("ids", JSON(none_as_null=True)),  # of the questions; null for a sample too large for the manifest
)

# A figure of a cell with its 95 % interval, all three 0-1.
indicators = Table(
    "indicators",
    metadata,
    Column("run_key", _HASH, ForeignKey("runs.key"), primary_key=True),
    Column("model", String(255), primary_key=True),
    Column("benchmark", String(255), primary_key=True),
    Column("context", String(255), primary_key=True),
    Column("name", String(32), primary_key=True),
    Column("estimate", Float),
    Column("low", Float),
    Column("high", Float),
)

# Messages to people: written with what they are about, sent afterwards, so that none is lost.
notices = Table(
    "notices",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("about", String(128), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("title", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("created", _TIME, nullable=False),
    Column("claimed", _TIME),  # by a process that is sending it
    Column("sent", _TIME),
    Column("tries", Integer, nullable=False),
    Column("problem", Text, nullable=False),
    Column("recipients", JSON(none_as_null=True)),  # mail addresses of a suite, beside those of AUDIT_NOTIFY
    UniqueConstraint("about", "kind"),
)

# What people decided on: about is over the hashes of what a decision binds (`decided.py`).
decisions = Table(
    "decisions",
    metadata,
    Column("about", _HASH, primary_key=True),
    Column("run_dir", Text, nullable=False),
    Column("count", Integer, nullable=False),
    Column("last_sha256", _HASH, nullable=False),
    Column("noted", _TIME, nullable=False),
)

# Held-out samples that were drawn: one a benchmark (or library) and period.
draws = Table(
    "draws",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("period", String(8), primary_key=True),  # 2026-Q4
    Column("drawn", _TIME, nullable=False),
    Column("revision", Text, nullable=False),
    Column("pool_sha256", _HASH, nullable=False),
    Column("ids", JSON, nullable=False),
)


def at(when: datetime) -> str:
    """A time as the tables have it.

    >>> at(datetime(2026, 11, 22, 6, 0, tzinfo=UTC))
    '2026-11-22T06:00:00+00:00'
    """
    return when.astimezone(UTC).isoformat(timespec="seconds")
