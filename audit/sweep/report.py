"""Judge one run, or several runs as one panel, from their shards.

The shards are read in two passes. The first pass reads the outcomes. The second pass reads every
text, and the rows that the page lists.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from audit.core.errors import ConfigError, DataError
from audit.core.package_data import shipped_table
from audit.core.records import CellRows
from audit.judge.report import Report, with_reservations
from audit.report.sensitivity import load_sensitivity
from audit.shards.complete import Outcomes, cell_rows, contents, read_outcomes
from audit.shards.manifest import MANIFEST, Manifest
from audit.shards.read import iter_columns
from audit.shards.schema import plain_values, shared_values
from audit.statistics.notice import Field
from audit.statistics.paired import CellOutcomes, State
from audit.statistics.resampling import N_RESAMPLES
from audit.sweep.analyse import JUDGE, analyse
from audit.sweep.audit import SCHEMA
from audit.sweep.design import DELETED, Aggregator, SweepThresholds
from audit.sweep.drill import COLUMNS, MAX_TEXT_BYTES, DrillRows, that_fit
from audit.sweep.messages import MeasuredTexts, TextRow, measure_texts
from audit.sweep.replay import aggregator_of, same_messages
from audit.sweep.self_test import MAX_TEXT_QUESTIONS
from audit.sweep.vocabulary import RunVerdict

# These fields are columns of a shard. The last field is the aggregator, which the manifest holds.
_TEXTS = TextRow._fields[:-1]
# The values of these columns differ in nearly every row, so sharing equal values saves no memory.
_ALL_DIFFERENT = ("prompt", "request_sha256")


@dataclass(frozen=True)
class LoadedRun:
    """Hold the outcomes and answers of a run, as read in the first pass."""

    run_dir: Path
    outcomes: Outcomes


def read_run(run_dir: Path) -> LoadedRun:
    """Read the outcomes and answers of a run in a first pass over its shards.

    Parameters
    ----------
    run_dir : Path
        The run directory.

    Returns
    -------
    LoadedRun
        The outcomes and answers.

    Raises
    ------
    ShardError
        If the run has no shards.
    DataError
        If the shards cannot be read as outcomes (see `read_outcomes`).
    """
    return LoadedRun(run_dir, read_outcomes(run_dir, SCHEMA, answers=True))


def read_texts(
    reads: Sequence[LoadedRun], questions: Collection[tuple[str, str]] | None
) -> tuple[MeasuredTexts, DrillRows]:
    """Read the texts of all runs in a second pass over their shards.

    Parameters
    ----------
    reads : sequence of LoadedRun
        The runs, as loaded in the first pass.
    questions : collection of (benchmark, question id) or None
        The questions whose answers the page lists; None for all questions.

    Returns
    -------
    tuple of MeasuredTexts and DrillRows
        Statistics of all texts, and the rows that the page lists.
    """
    probed: dict[tuple[str, str], frozenset[str]] = {}
    settings: dict[tuple[str, str], int] = {}
    for read in reads:
        for c in read.outcomes.cells:
            probed[c.model, c.benchmark] = frozenset(c.question_ids[:MAX_TEXT_QUESTIONS])
            settings[c.model, c.benchmark] = len(c.settings)
    drill_rows = DrillRows()

    def rows() -> Iterator[TextRow]:
        columns = tuple(dict.fromkeys((*COLUMNS, *_TEXTS)))
        for read in reads:
            aggregator = aggregator_of(read.run_dir)
            for batch in iter_columns([read.run_dir], SCHEMA, columns):
                text_rows = _rows(batch, aggregator)
                if questions is None:
                    drill_rows.add(batch)
                else:
                    wanted = [(row.benchmark, row.question_id) in questions for row in text_rows]
                    if any(wanted):
                        drill_rows.add(batch.filter(pa.array(wanted)))
                yield from text_rows

    return measure_texts(rows(), settings, probed), drill_rows


def _rows(batch: pa.RecordBatch, aggregator: Aggregator) -> list[TextRow]:
    """Return the rows of a batch with their texts."""
    # Neighbouring rows belong to the same question, so equal values are stored once.
    shared: dict[str, str] = {}
    columns = []
    for name in _TEXTS:
        values = batch.column(name)
        if name in _ALL_DIFFERENT:
            columns.append(plain_values(values))
        else:
            columns.append(shared_values(values, shared))
    return list(map(TextRow, *columns, repeat(aggregator)))


# These numbers limit the list of answers. If a limit is exceeded, whole questions are left out at
# random.
MAX_ROWS_ON_PAGE = 100_000  # a row takes 33 bytes without its texts
MAX_QUESTIONS_ON_PAGE = 20_000  # a question takes about 100 bytes without its texts


@dataclass(frozen=True)
class Behind:
    """Hold the data from which the page shows the details of a verdict.

    Attributes
    ----------
    dirs : sequence of Path
        The run directories.
    cells : list of CellOutcomes
        The outcomes of the panel.
    listed : DrillRows
        The rows (answers) that the page lists.
    seed : int
        The seed of the random selection of texts, if the page cannot hold all texts.
    max_text_bytes : int
        The largest total size of the texts on the page, in bytes.
    """

    dirs: Sequence[Path]
    cells: list[CellOutcomes]
    listed: DrillRows
    seed: int
    max_text_bytes: int = MAX_TEXT_BYTES


def judge(
    dirs: Sequence[Path],
    *,
    seed: int = 42,
    n_resamples: int = N_RESAMPLES,
    thresholds: SweepThresholds | None = None,
    control_benchmark: str | None = None,
    references: Sequence[Path] = (),
    reads: Sequence[LoadedRun] | None = None,
) -> tuple[RunVerdict, Behind]:
    """Judge one run, or several runs as one panel.

    Parameters
    ----------
    dirs : sequence of Path
        The run directories.
    seed : int
        Seed of the resamples and of the selection of texts.
    n_resamples : int
        Number of resamples for every statistic.
    thresholds : SweepThresholds, optional
        The thresholds; None for the defaults.
    control_benchmark : str, optional
        Name of the benchmark of held-out items.
    references : sequence of Path
        Runs of other models that answered from the same messages.
    reads : sequence of LoadedRun, optional
        The runs, as loaded in the first pass. By default they are loaded here.

    Returns
    -------
    tuple of RunVerdict and Behind
        The verdict, and the data for the details on the page.

    Raises
    ------
    ShardError
        If a run has no shards.
    DataError
        If the runs cannot be combined into one panel.
    """
    reads = reads or [read_run(run_dir) for run_dir in dirs]
    rows = check_panel(reads)
    cells: list[CellOutcomes] = []
    sensitivity = {}
    for read in reads:
        cells += read.outcomes.cells
        loaded = load_sensitivity(read.run_dir)
        for c in read.outcomes.cells:
            sensitivity[c.model, c.benchmark] = loaded
    cells.sort(key=lambda c: (c.model, c.benchmark))
    texts, listed = read_texts(reads, drawn_questions(cells, seed))
    without_deleted = []
    for cell in cells:
        without_deleted.append(cell.without(DELETED))
    contents_of_runs = []
    for read in reads:
        contents_of_runs.append({"models": contents(read.outcomes.seen)})
    run = analyse(
        without_deleted,
        texts,
        thresholds=thresholds,
        seed=seed,
        n_resamples=n_resamples,
        runs=contents_of_runs,
        rows=rows,
        control_benchmark=control_benchmark,
        calibration=shipped_table(JUDGE.shipped),
        references=same_messages(cells, dirs, references),
    )
    quoted = []
    for result in run.results:
        loaded = sensitivity[result.model, result.benchmark]
        quoted.append(with_reservations(result, "sweep", {}, loaded, Field(result.n_questions)))
    behind = Behind(dirs, cells, listed, seed)
    return replace(run, results=tuple(quoted)), behind


def analysis_options(run_dirs: Sequence[Path], given: Mapping[str, Any]) -> dict[str, Any]:
    """Complete the options of an analysis from the manifests of its runs.

    Parameters
    ----------
    run_dirs : sequence of Path
        The runs.
    given : mapping
        The options from the command line. An option that the user did not set is None.

    Returns
    -------
    dict
        The seed, thresholds, control benchmark and references. A value that is set neither by the
        user nor in a manifest is left out.

    Raises
    ------
    ConfigError
        If the manifests have different values of an option that the user did not set.
    """
    options: dict[str, Any] = {}
    for name, value in given.items():
        if value is not None:
            options[name] = value
    stored = []
    for d in run_dirs:
        if (d / MANIFEST).exists():
            stored.append((d, Manifest.load(d).analysis))
    for name in ("seed", "thresholds", "control_benchmark"):
        values = []
        for run_dir, analysis in stored:
            if analysis.get(name) is not None:
                values.append((run_dir, analysis[name]))
        if values and name not in options:
            options[name] = values[0][1]
            if any(value != values[0][1] for _, value in values):
                raise ConfigError(_disagreeing(name, values))
    references: list[Path] = []
    for _, analysis in stored:
        references += map(Path, analysis.get("references") or ())
    if references:
        options["references"] = references
    if "thresholds" in options:
        options["thresholds"] = SweepThresholds.from_mapping(options["thresholds"])
    return options


def _disagreeing(name: str, values: Sequence[tuple[Path, Any]]) -> str:
    listed = "; ".join(f"{run_dir}: {value}" for run_dir, value in values)
    advice = f"Example: --{name.replace('_', '-')} {values[0][1]}."
    if name == "thresholds":
        advice = "Run them again with the same verdict.* options. Stored answers are kept."
    return f"The values of {name} of these runs differ: {listed}. Expected the same value for all. {advice}"


def check_panel(reads: Sequence[LoadedRun]) -> list[CellRows]:
    """Check that runs can be combined into one panel.

    Parameters
    ----------
    reads : sequence of LoadedRun
        The runs, as loaded in the first pass.

    Returns
    -------
    list of CellRows
        For each cell of the runs, the number of stored rows and the number of expected rows.

    Raises
    ------
    DataError
        If two runs contain the same model and benchmark, in the same or in different revisions.
    """
    runs_of_cell: dict[tuple[str, str], list[tuple[str, Path]]] = {}
    rows: list[CellRows] = []
    for read in reads:
        rows += cell_rows(read.run_dir, read.outcomes.seen)
        for model, benchmark, revision in read.outcomes.seen:
            runs_of_cell.setdefault((model, benchmark), []).append((revision, read.run_dir))
    for (model, benchmark), runs in sorted(runs_of_cell.items()):
        revisions = {revision for revision, _ in runs}
        if len(revisions) > 1:
            listed = "; ".join(f"{revision} in {run_dir}" for revision, run_dir in sorted(runs))
            raise DataError(
                f"{model} on {benchmark} was run in {len(revisions)} revisions: {listed}. Expected "
                "one revision. Report them separately, or give one of the runs another model name. "
                f"Example: model.{model}.name={model}_new."
            )
        if len(runs) > 1:
            listed = ", ".join(sorted(str(run_dir) for _, run_dir in runs))
            raise DataError(
                f"{model} on {benchmark} is in several runs: {listed}. "
                "Expected each model and benchmark in one run only, so that no question is counted twice."
            )
    # A model that failed in one run may have succeeded in another, whose rows then count.
    counted = []
    for row in rows:
        if row.found or (row.model, row.benchmark) not in runs_of_cell:
            counted.append(row)
    return counted


def drawn_questions(
    cells: Sequence[CellOutcomes],
    seed: int,
    max_rows: int = MAX_ROWS_ON_PAGE,
    max_questions: int = MAX_QUESTIONS_ON_PAGE,
) -> set[tuple[str, str]] | None:
    """Select the questions whose answers the page lists.

    Parameters
    ----------
    cells : sequence of CellOutcomes
        All cells of the panel.
    seed : int
        Seed of the random selection.
    max_rows, max_questions : int
        The largest numbers of rows and of questions on the page.

    Returns
    -------
    set of (benchmark, question id) or None
        A random selection of as many questions as fit on the page; None if all questions fit.
    """
    rows: Counter[tuple[str, str]] = Counter()
    for c in cells:
        counts = np.count_nonzero(c.state != State.ABSENT, axis=0).tolist()
        for question_id, count in zip(c.question_ids, counts, strict=True):
            rows[c.benchmark, question_id] += count
    if rows.total() <= max_rows and len(rows) <= max_questions:
        return None
    return set(that_fit(rows, max_rows, seed)[:max_questions])


REPORT = Report(judge, takes=("seed", "control_benchmark"), options=analysis_options)
