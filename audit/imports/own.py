"""A run of this program as a log: its answers to items that were asked as published."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audit.audits import audit_of
from audit.benchmarks.rows import text_key
from audit.errors import ConfigError
from audit.export.inspect_log import answer_of, asked_rows
from audit.imports.record import Imported, Log, Wanted
from audit.records import AS_PUBLISHED, ITEM_ID
from audit.shards.complete import cell_rows, count_rows
from audit.shards.manifest import Manifest


def read_own(path: Path, wanted: Wanted) -> Log:
    """ConfigError where the run is not finished, lacks answers, or asked nothing as published."""
    manifest = Manifest.load(path)
    if manifest.status != "finished":
        raise ConfigError(f"The run {path} is {manifest.status}. Expected a finished one: type its command again.")
    for rows in cell_rows(path, count_rows(path, audit_of(path).schema)):
        if not rows.complete:
            raise ConfigError(f"The run {path} is {rows.watermark}. Expected a whole one: type its command again.")
    if not any(one["arm"] in AS_PUBLISHED for one in manifest.settings):
        raise ConfigError(f"The run {path} asked no item as published. Expected such as a sweep with arm direct.")
    return Log("benchmark-audit", manifest.packages.get("benchmark-audit", ""), _outcomes(path, wanted))


def _outcomes(path: Path, wanted: Wanted) -> Iterator[Imported]:
    schema = audit_of(path).schema
    for row in asked_rows(path, schema):
        if row["arm"] in AS_PUBLISHED and row[schema.level] == 0:
            yield _read(row, wanted)


def _read(row: dict[str, Any], wanted: Wanted) -> Imported:
    options, answer = tuple(row["options"] or ()), answer_of(row)
    return Imported(
        model=wanted.model or row["model"],
        benchmark=wanted.benchmark or row["benchmark"],
        key=row["question_id"] if wanted.key == ITEM_ID else text_key(row["question"], options),
        sample=row["question_id"],
        right=int(row["correct"]) if row["error"] is None and row["parsed"] else None,
        text=row["question"],
        options=options,
        gold=row["gold"] if options and row["gold"] >= 0 else None,
        answer=(row["response"] if answer is None else answer)[:200],
        epoch=int(row["replicate"]) + 1,
        error=row["error"],
        revision=str(row["model_revision"]),
    )
