"""Compare the rows of a run with the rows that its manifest plans.

For every model, one row is planned for each question under each setting.

The manifest lists the planned rows before the first row is written. Rows that an interrupted run or
a failed model did not write therefore count as missing, as do rows of deleted shards.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.core.errors import ShardError
from audit.core.records import ANSWER_ROLE, CellRows, Reading
from audit.shards.cells import cell_columns, pair_batches, pick, together
from audit.shards.files import SHARDS, file_sha256
from audit.shards.keys import Digests, KeySet
from audit.shards.manifest import MANIFEST, Manifest
from audit.shards.read import RunDirs, RunScan, iter_columns, scan_run
from audit.shards.schema import RowSchema
from audit.shards.shard_file import ShardInfo
from audit.shards.write import keep_rows
from audit.statistics.paired import CellOutcomes

Revised = tuple[str, str, str]  # names of the model and the benchmark, and the model's revision
_REVISED = ("model", "benchmark", "model_revision")
_COUNTED = (*_REVISED, "reasked")


class Seen(Counter[Revised]):
    """Count rows by model, benchmark and revision.

    Attributes
    ----------
    reasked : Counter
        Number of rows whose question was repeated with its options, by model and benchmark.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reasked: Counter[tuple[str, str]] = Counter()


def count_rows(run_dir: Path, schema: RowSchema) -> Seen:
    """Count the rows of the shards.

    Parameters
    ----------
    run_dir : Path
        Run directory.
    schema : RowSchema
        Schema of the audit's rows.

    Returns
    -------
    Seen
        Number of rows by model, benchmark and revision.

    Raises
    ------
    ShardError
        If there are no shards.
    """
    seen = Seen()
    for batch in together(iter_columns(run_dir, schema, _COUNTED)):
        _add_rows(seen, batch)
    return seen


def _add_rows(seen: Seen, batch: pa.RecordBatch) -> None:
    rows = (
        pa.Table.from_batches([batch])
        .group_by(_REVISED)
        .aggregate([([], "count_all"), ("reasked", "sum")])
    )
    for row in rows.to_pylist():
        seen[row["model"], row["benchmark"], row["model_revision"]] += row["count_all"]
        seen.reasked[row["model"], row["benchmark"]] += row["reasked_sum"] or 0


def contents(seen: Mapping[Revised, int]) -> list[dict[str, Any]]:
    """Return what a run contains as entries for verdict.json, without paths or times.

    Parameters
    ----------
    seen : mapping
        Number of rows by model, benchmark and revision.

    Returns
    -------
    list of dict
        Entries with model, benchmark, revision and outcomes, sorted.
    """
    listed = []
    for model, benchmark, revision in sorted(seen):
        outcomes = seen[model, benchmark, revision]
        listed.append(
            {"model": model, "benchmark": benchmark, "revision": revision, "outcomes": outcomes}
        )
    return listed


def cell_rows(run_dir: Path, seen: Seen) -> tuple[CellRows, ...]:
    """Return the row counts of each model and benchmark for which rows exist or are planned.

    Parameters
    ----------
    run_dir : Path
        Run directory.
    seen : Seen
        Row counts of the run.

    Returns
    -------
    tuple of CellRows
        Existing and planned rows, sorted by model and benchmark.

    Raises
    ------
    ShardError
        If the shards contain rows that the manifest does not plan.
    ConfigError
        If the manifest cannot be read.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for (model, benchmark, _), rows in seen.items():
        counts[model, benchmark] += rows
    reasked = seen.reasked
    expected = _expected(run_dir)
    if expected is None:
        return tuple(CellRows(*cell, counts[cell], None, reasked[cell]) for cell in sorted(counts))
    for model, benchmark in sorted(counts):
        planned = expected.get((model, benchmark), 0)
        n_rows = counts[model, benchmark]
        if n_rows > planned:
            raise ShardError(
                f"{run_dir} has {n_rows:,} rows of {model} on {benchmark}, but its {MANIFEST} "
                f"plans {planned:,}. Expected only the shards of this run: remove those of other "
                "runs."
            )
    rows_of_cells = []
    for cell, rows in sorted(expected.items()):
        rows_of_cells.append(CellRows(*cell, counts[cell], rows, reasked[cell]))
    return tuple(rows_of_cells)


def listed_shards(run_dir: Path, manifest: Manifest) -> list[Path]:
    """Return the shards of a run, after checking that each is the file that the manifest lists.

    Parameters
    ----------
    run_dir : Path
        Run directory.
    manifest : Manifest
        Manifest of the run.

    Returns
    -------
    list of Path
        Paths of the shards, sorted by name.

    Raises
    ------
    ShardError
        If a shard is missing, changed or not listed, or if a table (`Manifest.tables`) is missing
        or changed.
    """
    present = {}
    for path in sorted((run_dir / SHARDS).iterdir()):
        if not path.name.startswith("."):
            present[path.name] = path
    listed = {Path(shard["file"]).name: shard["sha256"] for shard in manifest.shards}
    for name in sorted({*present, *listed}):
        if name not in present or name not in listed:
            problem = "is missing" if name not in present else "is not in the manifest"
            raise ShardError(
                f"{run_dir / SHARDS / name} {problem}. Type the run's command again to repair this."
            )
        if _hash_of(present[name]) != listed[name]:
            raise ShardError(
                f"{present[name]} is not the file that the manifest lists: it was changed after "
                "the run."
            )
    for name, sha256 in manifest.tables.items():
        path = run_dir / name
        if Path(name).name != name or _hash_of(path) != sha256:
            raise ShardError(
                f"{path} is not the file that the manifest lists: it was changed after the run."
            )
    return [present[name] for name in sorted(present)]


def _hash_of(path: Path) -> str:
    """Return the sha256 of a file; "" if the file cannot be read."""
    try:
        return file_sha256(path)
    except OSError:
        return ""


def unhashed_tables(run_dir: Path, manifest: Manifest) -> list[str]:
    """Return the names of the Arrow files beside the shards whose hash is not in the manifest.

    Without a hash, a change of such a file cannot be detected.
    """
    unlisted = []
    for path in run_dir.glob("*.arrow"):
        if path.name not in manifest.tables:
            unlisted.append(path.name)
    return sorted(unlisted)


def table_hashes(run_dir: Path) -> dict[str, str]:
    """Map the name of each Arrow file beside the shards to its sha256, for the manifest."""
    return {path.name: file_sha256(path) for path in sorted(run_dir.glob("*.arrow"))}


def _expected(run_dir: Path) -> dict[tuple[str, str], int] | None:
    """Map each pair of model and benchmark to the number of planned rows.

    Return None if the manifest is missing, or if it was written before the rows were planned.
    """
    if not (run_dir / MANIFEST).is_file():
        return None
    manifest = Manifest.load(run_dir)
    if not manifest.settings:
        return None
    return {cell: n * len(manifest.settings) for cell, n in manifest.question_counts().items()}


@dataclass(frozen=True)
class Outcomes:
    """Hold the outcomes of one run.

    Attributes
    ----------
    cells : list of CellOutcomes
        Outcomes of each model on each benchmark, sorted.
    seen : Seen
        Row counts, as returned by `count_rows`.
    """

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
    """Read the outcomes of one run, and read each shard only once.

    Parameters
    ----------
    run_dir : Path
        Run directory.
    schema : RowSchema
        Schema of the audit's rows.
    answers : bool
        True also reads the answered and the right options, as in `cell_columns`.
    also : sequence of str
        Names of further columns, which are passed to `each`.
    each : callable or None
        Function that is called with every batch. The batch has the columns of `cell_columns` and
        those of `also`.

    Returns
    -------
    Outcomes
        Cells and row counts.

    Raises
    ------
    ShardError
        If there are no shards.
    DataError
        If a key occurs twice.
    """
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
    # This returns unused memory (110 MB for a million questions), so that the next steps can use
    # it.
    pa.default_memory_pool().release_unused()
    return Outcomes(cells, seen)


Cost = dict[str, dict[str, dict[str, dict[str, int]]]]
_COSTS = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens")


def run_cost(run_dirs: RunDirs, schema: RowSchema) -> Cost:
    """Return the numbers of calls and tokens by model, arm and role.

    Parameters
    ----------
    run_dirs : Path, str or a sequence of them
        Run directories.
    schema : RowSchema
        Schema of the audit's rows.

    Returns
    -------
    dict
        {model: {arm: {role: {calls, prompt_tokens, cached_tokens, completion_tokens}}}}. A role
        that made no call in an arm is left out.

    Notes
    -----
    Every row is one call of the answering model, and two calls if the question was repeated with
    its options. Calls before the answer are counted in the audit's own columns, `<role>_calls` and
    `<role>_*_tokens`.
    """
    sums: dict[tuple[str, str], Counter[str]] = {}
    counted = [([], "count_all"), *((name, "sum") for name in ("reasked", *schema.cost_columns))]
    for batch in together(
        iter_columns(run_dirs, schema, ("model", "arm", "reasked", *schema.cost_columns))
    ):
        for row in (
            pa.Table.from_batches([batch]).group_by(["model", "arm"]).aggregate(counted).to_pylist()
        ):
            calls = row["count_all"] + (row["reasked_sum"] or 0)
            sums_of_row = {
                "calls": calls,
                **{name: row[f"{name}_sum"] or 0 for name in schema.cost_columns},
            }
            sums.setdefault((row["model"], row["arm"]), Counter()).update(sums_of_row)
    prefixes = []
    for name in ("calls", *schema.cost_columns):
        if name.endswith("calls"):
            prefixes.append(name.removesuffix("calls"))
    cost: Cost = {}
    for (model, arm), sums_of_row in sorted(sums.items()):
        for prefix in prefixes:
            if sums_of_row[f"{prefix}calls"]:
                entry = {name: int(sums_of_row[f"{prefix}{name}"]) for name in _COSTS}
                cost.setdefault(model, {}).setdefault(arm, {})[prefix[:-1] or ANSWER_ROLE] = entry
    return cost


def count_answers(rows: pa.Table, schema: RowSchema) -> pa.Table:
    """Count rows and answers for each arm and level.

    Parameters
    ----------
    rows : pyarrow.Table
        Rows of one audit.
    schema : RowSchema
        Schema of the audit's rows.

    Returns
    -------
    pyarrow.Table
        One row for each arm and level. The columns are rows, errors, unparsed, read, scored,
        correct, questions, and the totals of the schema's columns of calls and tokens. `scored`
        counts rows that are right or wrong. `read` counts answers that are read from a reply or its
        letters, and that could therefore be unparsed.
    """
    setting = ["arm", schema.level]
    answered = rows["error"].is_null().to_numpy()
    unread = (rows["reading"].to_numpy() == Reading.OPTION_TEXT) | (
        rows["answer_form"].to_numpy() == "text"
    )
    costs = {name: rows[name].cast(pa.int64()) for name in schema.cost_columns}
    flagged = pa.table(
        {
            **{name: rows[name] for name in setting},
            "rows": pa.array(np.ones(rows.num_rows, dtype=np.int64)),
            "errors": pa.array(schema.failed(rows).astype(np.int64)),
            "unparsed": pa.array(~rows["parsed"].to_numpy() & answered).cast(pa.int64()),
            "read": pa.array(answered & ~unread).cast(pa.int64()),
            "scored": rows["correct"].is_valid().cast(pa.int64()),
            "correct": rows["correct"].fill_null(False).cast(pa.int64()),
            **costs,
        }
    )
    names = []
    for name in flagged.column_names:
        if name not in setting:
            names.append(name)
    summed = flagged.group_by(setting).aggregate([(name, "sum") for name in names])
    counts = summed.rename_columns([name.removesuffix("_sum") for name in summed.column_names])
    questions = pc.count_distinct(rows["question_id"]).as_py()
    return counts.append_column("questions", pa.array(np.full(len(counts), questions), pa.int64()))


@dataclass(frozen=True)
class VerifyReport:
    """Compare the rows of a run with the rows that the finished run must have.

    Attributes
    ----------
    rows, expected, missing, unexpected : int
        Numbers of existing, expected, missing and unexpected rows.
    shards : tuple of ShardInfo
        Shards of the run.
    done : KeySet
        Keys of the existing rows.
    """

    rows: int
    expected: int
    missing: int
    unexpected: int
    shards: tuple[ShardInfo, ...]
    done: KeySet

    @property
    def complete(self) -> bool:
        """Return True if every expected row exists, and no other row exists."""
        return not self.missing and not self.unexpected

    def require_complete(self) -> None:
        """Raise ShardError if rows are missing or do not belong to the run.

        Raises
        ------
        ShardError
            If the run is not complete.
        """
        if self.complete:
            return
        raise ShardError(
            f"The run has {self.rows} rows, and {self.expected} were expected. Missing rows: "
            f"{self.missing}. Rows that belong to no question of the run: {self.unexpected}. Run the "
            "same command again: it runs what is missing."
        )


def verify_run(
    run_dir: Path | str, schema: RowSchema, expected: KeySet, attempt: str
) -> VerifyReport:
    """Scan a run with `scan_once`, and compare its keys with the expected keys.

    Parameters
    ----------
    run_dir : Path or str
        Run directory.
    schema : RowSchema
        Schema of the audit's rows.
    expected : KeySet
        Keys that the finished run must have (`KeySet.of(digest_grid(...))`).
    attempt : str
        Attempt id of the driver.

    Returns
    -------
    VerifyReport
        Numbers of existing and missing rows. Damaged shards are moved to quarantine, and their rows
        count as missing.
    """
    scan = scan_once(Path(run_dir), schema, attempt)
    common = expected.common(scan.done)
    missing, unexpected = len(expected) - common, scan.rows - common
    return VerifyReport(scan.rows, len(expected), missing, unexpected, scan.shards, scan.done)


def scan_once(run_dir: Path, schema: RowSchema, attempt: str) -> RunScan:
    """Remove the rows whose key also occurs in an older shard, and scan the run (`scan_run`).

    Parameters
    ----------
    run_dir : Path
        Run directory.
    schema : RowSchema
        Schema of the audit's rows.
    attempt : str
        Attempt id of the driver.

    Returns
    -------
    RunScan
        The scan, in which each key occurs once.

    Raises
    ------
    ShardError
        If keys still occur twice after the removal.
    """
    scan = scan_run(run_dir, schema)
    if scan.digests is not None:
        _remove_duplicates(run_dir, schema, scan, scan.digests, attempt)
        scan = replace(scan_run(run_dir, schema), corrupt=scan.corrupt)
        if scan.duplicates:
            raise ShardError(
                f"{scan.duplicates} keys of {run_dir} occur twice after duplicates were removed. "
                "Expected that no other driver writes to this directory."
            )
    return scan


def _remove_duplicates(
    run_dir: Path, schema: RowSchema, scan: RunScan, digests: Digests, attempt: str
) -> None:
    """Delete rows so that one row of each key is left.

    The kept row is the first row with this key in the oldest shard that has the key.
    """
    ages = [(info.path.stat().st_mtime_ns, info.path.name) for info in scan.shards]
    rank = np.empty(len(ages), dtype=np.int64)
    rank[sorted(range(len(ages)), key=ages.__getitem__)] = np.arange(len(ages))
    shard_of = np.repeat(
        np.arange(len(scan.shards), dtype=np.int32), [info.rows for info in scan.shards]
    )
    hi, lo = digests[:, 0], digests[:, 1]
    order = np.lexsort((np.arange(scan.rows), rank[shard_of], lo, hi))
    repeated = np.zeros(scan.rows, dtype=bool)
    repeated[order[1:]] = (hi[order[1:]] == hi[order[:-1]]) & (lo[order[1:]] == lo[order[:-1]])
    for shard in np.unique(shard_of[repeated]):
        keep_rows(run_dir, scan.shards[shard].path, schema, ~repeated[shard_of == shard], attempt)
