"""Is everything there that the run asked for? Rows of the shards against the manifest's questions x settings x models.

The manifest knows it from the moment before the first row: an interrupted run, a model that failed and shards that were
deleted are all seen alike."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.errors import ShardError
from audit.records import ANSWER_ROLE, CellRows, Reading
from audit.shards.cells import cell_columns, pair_batches, pick, together
from audit.shards.files import SHARDS, file_sha256
from audit.shards.keys import Digests, KeySet
from audit.shards.manifest import MANIFEST, Manifest
from audit.shards.read import RunDirs, RunScan, iter_columns, scan_run
from audit.shards.schema import RowSchema
from audit.shards.shard_file import ShardInfo
from audit.shards.write import keep_rows
from audit.statistics.paired import CellOutcomes

Revised = tuple[str, str, str]  # model, benchmark, model revision
_REVISED = ("model", "benchmark", "model_revision")
_COUNTED = (*_REVISED, "reasked")


class Seen(Counter[Revised]):
    """Rows by model, benchmark and revision; `reasked`: those that were asked again, by model and benchmark."""

    def __init__(self) -> None:
        super().__init__()
        self.reasked: Counter[tuple[str, str]] = Counter()


def count_rows(run_dir: Path, schema: RowSchema) -> Seen:
    """Rows of the shards. ShardError where there are no shards."""
    seen = Seen()
    for batch in together(iter_columns(run_dir, schema, _COUNTED)):
        _add_rows(seen, batch)
    return seen


def _add_rows(seen: Seen, batch: pa.RecordBatch) -> None:
    rows = pa.Table.from_batches([batch]).group_by(_REVISED).aggregate([([], "count_all"), ("reasked", "sum")])
    for row in rows.to_pylist():
        seen[row["model"], row["benchmark"], row["model_revision"]] += row["count_all"]
        seen.reasked[row["model"], row["benchmark"]] += row["reasked_sum"] or 0


def contents(seen: Mapping[Revised, int]) -> list[dict[str, Any]]:
    """What a run holds, as verdict.json lists it of each run that it is made from: no paths, no times."""
    return [
        {"model": model, "benchmark": benchmark, "revision": revision, "outcomes": seen[model, benchmark, revision]}
        for model, benchmark, revision in sorted(seen)
    ]


def cell_rows(run_dir: Path, seen: Seen) -> tuple[CellRows, ...]:
    """Each model and benchmark that has rows or should have, sorted. Raises ShardError when the shards hold rows that
    the manifest does not ask for, ConfigError when the manifest cannot be read."""
    found: Counter[tuple[str, str]] = Counter()
    for (model, benchmark, _), rows in seen.items():
        found[model, benchmark] += rows
    again = seen.reasked
    expected = _expected(run_dir)
    if expected is None:
        return tuple(CellRows(*cell, found[cell], None, again[cell]) for cell in sorted(found))
    for model, benchmark in sorted(found):
        asked = expected.get((model, benchmark), 0)
        if found[model, benchmark] > asked:
            raise ShardError(
                f"{run_dir} holds {found[model, benchmark]:,} rows of {model} on {benchmark} where its {MANIFEST} asks "
                f"for {asked:,}. Expected the shards of this run alone: take out those of other runs."
            )
    return tuple(CellRows(*cell, found[cell], rows, again[cell]) for cell, rows in sorted(expected.items()))


def listed_shards(run_dir: Path, manifest: Manifest) -> list[Path]:
    """Return the shards, each as the manifest lists it. ShardError for one that is missing, changed or not listed, and
    for a table (`Manifest.tables`) that is missing or changed."""
    there = {path.name: path for path in sorted((run_dir / SHARDS).iterdir()) if not path.name.startswith(".")}
    listed = {Path(one["file"]).name: one["sha256"] for one in manifest.shards}
    for name in sorted({*there, *listed}):
        if name not in there or name not in listed:
            what = "is not there" if name not in there else "is not in the manifest"
            raise ShardError(f"{run_dir / SHARDS / name} {what}. Type the run's command again: it puts this right.")
        if _hash_of(there[name]) != listed[name]:
            raise ShardError(f"{there[name]} is not the file that the manifest lists: it was changed after the run.")
    for name, sha256 in manifest.tables.items():
        path = run_dir / name
        if Path(name).name != name or _hash_of(path) != sha256:
            raise ShardError(f"{path} is not the file that the manifest lists: it was changed after the run.")
    return [there[name] for name in sorted(there)]


def _hash_of(path: Path) -> str:
    """Return the sha256 of a file, "" if it cannot be read."""
    try:
        return file_sha256(path)
    except OSError:
        return ""


def unhashed_tables(run_dir: Path, manifest: Manifest) -> list[str]:
    """Return the names of the Arrow files beside the shards that the manifest lists without a hash: nothing tells
    whether they were changed."""
    return sorted(path.name for path in run_dir.glob("*.arrow") if path.name not in manifest.tables)


def table_hashes(run_dir: Path) -> dict[str, str]:
    """Return the sha256 of each Arrow file beside the shards, by name, as the manifest lists them."""
    return {path.name: file_sha256(path) for path in sorted(run_dir.glob("*.arrow"))}


def _expected(run_dir: Path) -> dict[tuple[str, str], int] | None:
    """Rows by model and benchmark; None without a manifest, or with one that was written before anything was run."""
    if not (run_dir / MANIFEST).is_file():
        return None
    manifest = Manifest.load(run_dir)
    if not manifest.settings:
        return None
    return {cell: n * len(manifest.settings) for cell, n in manifest.asked().items()}


@dataclass(frozen=True)
class Outcomes:
    """cells: one a model and benchmark, sorted. seen: rows as `complete.count_rows` counts them."""

    cells: list[CellOutcomes]
    seen: Seen


def read_outcomes(
    run_dir: Path,
    schema: RowSchema,
    *,
    answers: bool = False,
    also: Sequence[str] = (),
    each: Callable[[pa.RecordBatch], None] | None = None,
) -> Outcomes:
    """The outcomes of one run, in one pass. answers: see `cell_columns`. each: called with every batch, of the columns
    of pairing and those that `also` names. Raises ShardError when there are no shards, DataError when a key occurs
    twice."""
    paired = cell_columns(schema, answers=answers)
    seen = Seen()

    def batches() -> Iterator[pa.RecordBatch]:
        columns = tuple(dict.fromkeys((*paired, *_COUNTED, *also)))
        for batch in together(iter_columns(run_dir, schema, columns)):
            _add_rows(seen, batch.select(_COUNTED))
            if each is not None:
                each(batch)
            yield pick(batch, paired)

    cells = pair_batches(batches(), schema)
    pa.default_memory_pool().release_unused()  # of a million questions 110 MB, which what follows cannot use
    return Outcomes(cells, seen)


Cost = dict[str, dict[str, dict[str, dict[str, int]]]]
_COSTS = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens")


def run_cost(run_dirs: RunDirs, schema: RowSchema) -> Cost:
    """{model: {arm: {role: {calls, prompt_tokens, cached_tokens, completion_tokens}}}}. Every row is one call of the
    model that answers, and one more where it was asked again; calls before it are counted in the audit's own columns,
    `<role>_calls` and `<role>_*_tokens`. A role without a call in an arm is left out."""
    sums: dict[tuple[str, str], Counter[str]] = {}
    counted = [([], "count_all"), *((name, "sum") for name in ("reasked", *schema.cost_columns))]
    for batch in together(iter_columns(run_dirs, schema, ("model", "arm", "reasked", *schema.cost_columns))):
        for row in pa.Table.from_batches([batch]).group_by(["model", "arm"]).aggregate(counted).to_pylist():
            calls = row["count_all"] + (row["reasked_sum"] or 0)
            found = {"calls": calls, **{name: row[f"{name}_sum"] or 0 for name in schema.cost_columns}}
            sums.setdefault((row["model"], row["arm"]), Counter()).update(found)
    prefixes = [name.removesuffix("calls") for name in ("calls", *schema.cost_columns) if name.endswith("calls")]
    cost: Cost = {}
    for (model, arm), found in sorted(sums.items()):
        for prefix in prefixes:
            if found[f"{prefix}calls"]:
                entry = {name: int(found[f"{prefix}{name}"]) for name in _COSTS}
                cost.setdefault(model, {}).setdefault(arm, {})[prefix[:-1] or ANSWER_ROLE] = entry
    return cost


def count_answers(rows: pa.Table, schema: RowSchema) -> pa.Table:
    """Per arm and level: rows, errors, unparsed, read, scored, correct, and the sums of the schema's calls and tokens.
    scored: rows that are right or wrong. read: answers that were read in a reply or its letters, so that they could be
    unparsed; questions: of all rows."""
    setting = ["arm", schema.level]
    answered = rows["error"].is_null().to_numpy()
    unread = (rows["reading"].to_numpy() == Reading.OPTION_TEXT) | (rows["answer_form"].to_numpy() == "text")
    flagged = pa.table(
        {
            **{name: rows[name] for name in setting},
            "rows": pa.array(np.ones(rows.num_rows, dtype=np.int64)),
            "errors": pa.array(schema.failed(rows).astype(np.int64)),
            "unparsed": pa.array(~rows["parsed"].to_numpy() & answered).cast(pa.int64()),
            "read": pa.array(answered & ~unread).cast(pa.int64()),
            "scored": rows["correct"].is_valid().cast(pa.int64()),
            "correct": rows["correct"].fill_null(False).cast(pa.int64()),
            **{name: rows[name].cast(pa.int64()) for name in schema.cost_columns},
        }
    )
    names = [name for name in flagged.column_names if name not in setting]
    summed = flagged.group_by(setting).aggregate([(name, "sum") for name in names])
    counts = summed.rename_columns([name.removesuffix("_sum") for name in summed.column_names])
    questions = pc.count_distinct(rows["question_id"]).as_py()
    return counts.append_column("questions", pa.array([questions] * len(counts), pa.int64()))


@dataclass(frozen=True)
class VerifyReport:
    """What a run holds against what it should, in rows. done: the keys that it holds."""

    rows: int
    expected: int
    missing: int
    unexpected: int
    shards: tuple[ShardInfo, ...]
    done: KeySet

    @property
    def complete(self) -> bool:
        return not self.missing and not self.unexpected

    def require_complete(self) -> None:
        """ShardError when rows are missing or do not belong to the run."""
        if self.complete:
            return
        raise ShardError(
            f"The run holds {self.rows} rows where {self.expected} were expected: {self.missing} missing, "
            f"{self.unexpected} that no question of it asks for. Type the same command again: it runs what is missing."
        )


def verify_run(run_dir: Path | str, schema: RowSchema, expected: KeySet, attempt: str) -> VerifyReport:
    """Compare a run with what it should hold, as `scan_once` leaves it. expected: the keys that it should hold
    (`KeySet.of(digest_grid(...))`). Damaged shards are moved to quarantine and their rows counted as missing."""
    scan = scan_once(Path(run_dir), schema, attempt)
    common = expected.common(scan.done)
    missing, unexpected = len(expected) - common, scan.rows - common
    return VerifyReport(scan.rows, len(expected), missing, unexpected, scan.shards, scan.done)


def scan_once(run_dir: Path, schema: RowSchema, attempt: str) -> RunScan:
    """`scan_run`, after removing rows whose key is also in an older shard."""
    scan = scan_run(run_dir, schema)
    if scan.digests is not None:
        _remove_duplicates(run_dir, schema, scan, scan.digests, attempt)
        scan = replace(scan_run(run_dir, schema), corrupt=scan.corrupt)
        if scan.duplicates:
            raise ShardError(f"{scan.duplicates} keys of {run_dir} occur twice again: does another driver write there?")
    return scan


def _remove_duplicates(run_dir: Path, schema: RowSchema, scan: RunScan, digests: Digests, attempt: str) -> None:
    """Of the rows with one key, the first row of the oldest shard stays."""
    ages = [(info.path.stat().st_mtime_ns, info.path.name) for info in scan.shards]
    rank = np.empty(len(ages), dtype=np.int64)
    rank[sorted(range(len(ages)), key=ages.__getitem__)] = np.arange(len(ages))
    shard_of = np.repeat(np.arange(len(scan.shards), dtype=np.int32), [info.rows for info in scan.shards])
    hi, lo = digests[:, 0], digests[:, 1]
    order = np.lexsort((np.arange(scan.rows), rank[shard_of], lo, hi))
    again = np.zeros(scan.rows, dtype=bool)
    again[order[1:]] = (hi[order[1:]] == hi[order[:-1]]) & (lo[order[1:]] == lo[order[:-1]])
    for shard in np.unique(shard_of[again]):
        keep_rows(run_dir, scan.shards[shard].path, schema, ~again[shard_of == shard], attempt)
