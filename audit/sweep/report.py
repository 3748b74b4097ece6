"""Shards of one run, or of several merged into one panel -> their report. The shards are read in two passes: outcomes,
then every text with the rows of the drill-down."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from audit.errors import ConfigError, DataError
from audit.judge.report import Report, with_reservations
from audit.records import CellRows
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
from audit.verdict.shipped import shipped_table

_TEXTS = TextRow._fields[:-1]  # the columns of a shard; how they were put together is of the run
_ALL_DIFFERENT = ("prompt", "request_sha256")  # nothing to share


@dataclass(frozen=True)
class Read:
    """What the first pass over a run gave: outcomes with answers."""

    run_dir: Path
    outcomes: Outcomes


def read_run(run_dir: Path) -> Read:
    """The first pass over the shards of a run. ShardError and DataError as `read_outcomes` raises them."""
    return Read(run_dir, read_outcomes(run_dir, SCHEMA, answers=True))


def read_texts(reads: Sequence[Read], questions: Collection[tuple[str, str]] | None) -> tuple[MeasuredTexts, DrillRows]:
    """The second pass: measures of all texts, and the rows of the drill-down.

    questions: (benchmark, question id) of those in the drill-down; None for all.
    """
    cells = [c for read in reads for c in read.outcomes.cells]
    probed = {(c.model, c.benchmark): frozenset(c.question_ids[:MAX_TEXT_QUESTIONS]) for c in cells}
    settings = {(c.model, c.benchmark): len(c.settings) for c in cells}
    kept = DrillRows()

    def rows() -> Iterator[TextRow]:
        columns = tuple(dict.fromkeys((*COLUMNS, *_TEXTS)))
        for read in reads:
            aggregator = aggregator_of(read.run_dir)
            for batch in iter_columns([read.run_dir], SCHEMA, columns):
                found = _rows(batch, aggregator)
                if questions is None:
                    kept.add(batch)
                elif (wanted := [(r.benchmark, r.question_id) in questions for r in found]) and any(wanted):
                    kept.add(batch.filter(pa.array(wanted)))
                yield from found

    return measure_texts(rows(), settings, probed), kept


def _rows(batch: pa.RecordBatch, aggregator: Aggregator) -> list[TextRow]:
    shared: dict[str, str] = {}  # of this batch alone: neighbouring rows are of the same questions
    column = {
        name: plain_values(batch.column(name)) if name in _ALL_DIFFERENT else shared_values(batch.column(name), shared)
        for name in _TEXTS
    }
    return list(map(TextRow, *column.values(), repeat(aggregator)))


# In the drill-down; beyond them whole questions are left out, drawn by seed.
MAX_ROWS_ON_PAGE = 100_000  # 33 bytes each
MAX_QUESTIONS_ON_PAGE = 20_000  # some 100 bytes each, its texts apart


@dataclass(frozen=True)
class Behind:
    """What stands behind a verdict. listed: of the drill-down; seed: of the draw where not all texts fit."""

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
    reads: Sequence[Read] | None = None,
) -> tuple[RunVerdict, Behind]:
    """The verdict of one run, or of several as one panel.

    seed: of the resamples and of the draw where not all texts fit. references: runs of other models that answered from
    the same messages. reads: the first pass over each run, where it was made.
    Raises ShardError when a run has no shards, DataError when two runs cannot be one panel.
    """
    reads = reads or [read_run(run_dir) for run_dir in dirs]
    rows = check_panel(reads)
    cells = sorted((c for read in reads for c in read.outcomes.cells), key=lambda c: (c.model, c.benchmark))
    texts, listed = read_texts(reads, drawn_questions(cells, seed))
    run = analyse(
        [c.without(DELETED) for c in cells],
        texts,
        thresholds=thresholds,
        seed=seed,
        n_resamples=n_resamples,
        runs=[{"models": contents(read.outcomes.seen)} for read in reads],
        rows=rows,
        control_benchmark=control_benchmark,
        calibration=shipped_table(JUDGE.shipped),
        references=same_messages(cells, dirs, references),
    )
    found = {(c.model, c.benchmark): load_sensitivity(read.run_dir) for read in reads for c in read.outcomes.cells}
    quoted = (with_reservations(r, "sweep", {}, found[r.model, r.benchmark], Field(r.n_questions)) for r in run.results)
    return replace(run, results=tuple(quoted)), Behind(dirs, cells, listed, seed)


def analysis_options(run_dirs: Sequence[Path], asked: Mapping[str, Any]) -> dict[str, Any]:
    """seed, thresholds and control benchmark: as asked for, else as the runs' manifests say; no manifest, the defaults.
    ConfigError where the runs were judged differently."""
    options: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    found = [(d, Manifest.load(d).analysis) for d in run_dirs if (d / MANIFEST).exists()]
    for name in ("seed", "thresholds", "control_benchmark"):
        told = [(run_dir, analysis[name]) for run_dir, analysis in found if analysis.get(name) is not None]
        if told and name not in options:
            options[name] = told[0][1]
            if any(value != told[0][1] for _, value in told):
                raise ConfigError(_disagreeing(name, told))
    if references := [Path(one) for _, analysis in found for one in analysis.get("references") or ()]:
        options["references"] = references
    if "thresholds" in options:
        options["thresholds"] = SweepThresholds.from_mapping(options["thresholds"])
    return options


def _disagreeing(name: str, told: Sequence[tuple[Path, Any]]) -> str:
    listed = "; ".join(f"{run_dir}: {value}" for run_dir, value in told)
    way = f"Say which: --{name.replace('_', '-')} {told[0][1]}."
    if name == "thresholds":
        way = "Start the runs again with the same verdict.* (nothing is computed twice)."
    return f"The runs were judged with different {name}: {listed}. {way}"


def check_panel(reads: Sequence[Read]) -> list[CellRows]:
    """The rows found and expected of all runs. DataError when a model x benchmark comes from two runs or in two
    revisions: then they are no panel."""
    homes: dict[tuple[str, str], list[tuple[str, Path]]] = {}
    rows: list[CellRows] = []
    for read in reads:
        rows += cell_rows(read.run_dir, read.outcomes.seen)
        for model, benchmark, revision in read.outcomes.seen:
            homes.setdefault((model, benchmark), []).append((revision, read.run_dir))
    for (model, benchmark), found in sorted(homes.items()):
        if (count := len({revision for revision, _ in found})) > 1:
            listed = "; ".join(f"{revision} in {where}" for revision, where in sorted(found))
            raise DataError(
                f"{model} on {benchmark} was run in {count} revisions: {listed}. Expected one; report them apart, "
                f"or give one of the runs another model name, such as model.{model}.name={model}_new."
            )
        if len(found) > 1:
            raise DataError(
                f"{model} on {benchmark} is in several runs: {', '.join(sorted(str(where) for _, where in found))}. "
                "Expected each model and benchmark in one run only, so that no question is counted twice."
            )
    # A model that failed in one run may have been run in another.
    return [r for r in rows if r.found or (r.model, r.benchmark) not in homes]


def drawn_questions(
    cells: Sequence[CellOutcomes],
    seed: int,
    max_rows: int = MAX_ROWS_ON_PAGE,
    max_questions: int = MAX_QUESTIONS_ON_PAGE,
) -> set[tuple[str, str]] | None:
    """(benchmark, question id) of those in the drill-down: as many as fit, drawn by seed; None for all."""
    rows: Counter[tuple[str, str]] = Counter()
    for c in cells:
        there = np.count_nonzero(c.state != State.ABSENT, axis=0).tolist()
        rows.update({(c.benchmark, q): n for q, n in zip(c.question_ids, there, strict=True)})
    if rows.total() <= max_rows and len(rows) <= max_questions:
        return None
    return set(that_fit(rows, max_rows, seed)[:max_questions])


REPORT = Report(judge, takes=("seed", "control_benchmark"), options=analysis_options)
report_runs, build_report, verdict_of = REPORT.of_runs, REPORT.build, REPORT.verdict_of
