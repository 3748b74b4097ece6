"""Shards of one run, or of several merged into one panel -> their report.

manifest.json adds facts about a run where it is there.
"""

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from audit.errors import ConfigError, DataError
from audit.judge.report import Report, with_reservations
from audit.records import CellRows
from audit.report.build import Page, run_facts
from audit.report.canvas import power_curve, ruled_out
from audit.report.sensitivity import load_sensitivity
from audit.shards.complete import cell_rows, contents, largest_clusters
from audit.shards.manifest import MANIFEST, Manifest
from audit.statistics.notice import Field
from audit.statistics.paired import CellOutcomes, State
from audit.sweep import accuracy
from audit.sweep import figures as paper_figures
from audit.sweep.accuracy import breadths, dose_of, labels, model_scores, pooled_rows, setting_accuracies
from audit.sweep.analyse import N_RESAMPLES, analyse
from audit.sweep.calibrated import SHIPPED
from audit.sweep.design import DELETED
from audit.sweep.drill import MAX_TEXT_BYTES, DrillRows, pack
from audit.sweep.figures import GainRow, forest
from audit.sweep.page import render
from audit.sweep.paper import SettingRow, router_summary
from audit.sweep.replay import aggregator_of, same_messages
from audit.sweep.result import RunVerdict
from audit.sweep.rows import Read, read_run, read_texts
from audit.sweep.size import REPEATED, detectable, needed, runs_of
from audit.sweep.thresholds import SweepThresholds
from audit.verdict.shipped import shipped_table

# In the drill-down; beyond them whole questions are left out, drawn by seed.
MAX_ROWS_ON_PAGE = 100_000  # 33 bytes each
MAX_QUESTIONS_ON_PAGE = 20_000  # some 100 bytes each, its texts apart


@dataclass(frozen=True)
class Behind:
    """What stands behind a verdict: the runs, their cells, and the rows of the drill-down. seed: of the draw where not
    all texts fit."""

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
    calibration: Mapping[str, Any] | None = None,
    max_text_bytes: int = MAX_TEXT_BYTES,
    max_rows: int = MAX_ROWS_ON_PAGE,
    reads: Sequence[Read] | None = None,
) -> tuple[RunVerdict, Behind]:
    """The verdict of one run, or of several as one panel.

    seed: of the resamples and of the draw where not all texts fit. n_resamples, thresholds, control_benchmark and
    calibration go to `analyse`; calibration is by default the one that ships with the package. references: runs of
    other models that answered from the same messages. max_text_bytes, max_rows: of the drill-down; every number is
    over all rows whatever they are. reads: the first pass over each run, where it was made.
    Raises ShardError when a run has no shards, DataError when two runs cannot be one panel.
    """
    if not dirs:
        raise DataError("No run directory given. Expected at least one, such as outputs/my_run.")
    reads = reads or [read_run(run_dir) for run_dir in dirs]
    rows = check_panel(reads)
    cells = sorted((c for read in reads for c in read.outcomes.cells), key=lambda c: (c.model, c.benchmark))
    texts, listed = read_texts(reads, drawn_questions(cells, seed, max_rows))
    analysed = analyse(
        [c.without(DELETED) for c in cells],
        texts,
        thresholds=thresholds,
        seed=seed,
        n_resamples=n_resamples,
        runs=[{"models": contents(read.outcomes.seen)} for read in reads],
        rows=rows,
        control_benchmark=control_benchmark,
        calibration=calibration if calibration is not None else shipped_table(SHIPPED),
        early=largest_clusters(dirs),
        references=same_messages(cells, dirs, references),
    )
    return _with_sensitivity(analysed, reads), Behind(dirs, cells, listed, seed, max_text_bytes)


def _page(verdict: RunVerdict, behind: Behind) -> Page:
    """Figures, tables and the page of a verdict that was reached over these cells."""
    dirs, cells = behind.dirs, behind.cells
    short = {(r.model, r.benchmark) for r in verdict.rows if not r.complete}
    names = {cell: f"{name} (incomplete)" if cell in short else name for cell, name in labels(cells).items()}
    rows = [SettingRow(**row) for row in verdict.paper["cells"]]  # the verdict's own: nothing is computed twice
    accuracies = [a for cell in cells for a in setting_accuracies(cell.without(DELETED))]
    doses = [dose for cell in cells if (dose := dose_of(cell)) is not None]
    documents = {
        "table1_models.csv": accuracy.table1(rows),
        "table2_models_by_router.csv": accuracy.table2(rows),
        "table3_routers.csv": accuracy.table3(rows),
        "settings.csv": accuracy.settings(accuracies),
        "verdicts.csv": accuracy.verdicts(verdict),
        "gates.csv": accuracy.gates(verdict),
        "contrasts.csv": accuracy.contrasts(verdict),
        "mechanism.csv": accuracy.mechanism(verdict),
        **({"dose.csv": accuracy.doses(doses)} if doses else {}),
    }
    drill = pack(behind.listed, seed=behind.seed, max_text_bytes=behind.max_text_bytes)
    render_page = partial(
        render,
        verdict,
        accuracies=accuracies,
        paper_rows=rows,
        names=names,
        replicated=any(s.replicate > 0 for c in cells for s in c.settings),
        clustered=any(len(set(c.cluster.tolist())) < c.n for c in cells),
        drill=drill,
        total_rows=sum(int(np.count_nonzero(c.state != State.ABSENT)) for c in cells),
        facts=[run_facts(d) for d in dirs],
        shards=", ".join(f"{d.name}/shards" for d in dirs),
        doses=doses,
        aggregators=sorted({aggregator_of(d) for d in dirs}),
    )
    return Page(documents, _figures(cells, verdict, names), lambda figures: render_page(figures=figures))


def _with_sensitivity(run: RunVerdict, reads: Sequence[Read]) -> RunVerdict:
    """The same verdict with what the sweep was measured to notice: by its run's file, or the shipped one."""
    found = {(c.model, c.benchmark): load_sensitivity(read.run_dir) for read in reads for c in read.outcomes.cells}
    quoted = (with_reservations(r, "sweep", {}, found[r.model, r.benchmark], Field(r.n_questions)) for r in run.results)
    return replace(run, results=tuple(quoted))


def analysis_options(run_dirs: Sequence[Path], asked: Mapping[str, Any]) -> dict[str, Any]:
    """seed, thresholds and control benchmark: as asked for, else as the runs' manifests say; no manifest, the defaults.

    Raises ConfigError where the runs were judged differently: then no one verdict is theirs.
    """
    options: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    found = [(d, Manifest.load(d).analysis) for d in run_dirs if (d / MANIFEST).exists()]
    for name in ("seed", "thresholds", "control_benchmark"):
        told = [(run_dir, analysis[name]) for run_dir, analysis in found if analysis.get(name) is not None]
        if name in options or not told:
            continue
        if any(value != told[0][1] for _, value in told):
            listed = "; ".join(f"{run_dir}: {value}" for run_dir, value in told)
            way = "Start the runs again with the same verdict.* (nothing is computed twice)."
            if name != "thresholds":
                way = f"Say which: --{name.replace('_', '-')} {told[0][1]}."
            raise ConfigError(f"The runs were judged with different {name}: {listed}. {way}")
        options[name] = told[0][1]
    if references := [Path(one) for _, analysis in found for one in analysis.get("references") or ()]:
        options["references"] = references
    if "thresholds" in options:
        options["thresholds"] = SweepThresholds.from_mapping(options["thresholds"])
    return options


def check_panel(reads: Sequence[Read]) -> list[CellRows]:
    """The rows found and expected of all runs.

    DataError when a model x benchmark comes from two runs or in two revisions: then they are no panel.
    """
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
    cells: Sequence[CellOutcomes], seed: int, max_rows: int, max_questions: int = MAX_QUESTIONS_ON_PAGE
) -> set[tuple[str, str]] | None:
    """(benchmark, question id) of those in the drill-down: as many as fit, drawn by seed; None for all."""
    rows: Counter[tuple[str, str]] = Counter()
    for c in cells:
        there = np.count_nonzero(c.state != State.ABSENT, axis=0).tolist()
        rows.update({(c.benchmark, q): n for q, n in zip(c.question_ids, there, strict=True)})
    if rows.total() <= max_rows and len(rows) <= max_questions:
        return None
    order = sorted(rows, key=lambda key: hashlib.sha256(f"{seed}\0{key[0]}\0{key[1]}".encode()).digest())
    fit = bisect_right(list(accumulate(rows[key] for key in order)), max_rows)
    return set(order[: min(fit, max_questions)])


def _figures(cells: list[CellOutcomes], verdict: RunVerdict, names: dict[tuple[str, str], str]) -> dict[str, Figure]:
    """Every figure that these cells can carry, by name.

    All are over every replicate, as the verdict is: a figure of one run of each setting could say the opposite.
    """
    out: dict[str, Figure] = {}
    gains = [
        GainRow(names[c.model, c.benchmark], c.verdict, c.effect, c.noise_floor.mean_absolute_gain)
        for c in verdict.results
        if c.effect is not None
    ]
    thresholds = SweepThresholds.from_mapping(verdict.thresholds)
    tests = len(cells) * max((len(r.routers) for r in verdict.results), default=1)
    limits = [(names[c.model, c.benchmark], c.largest_compatible_gain) for c in verdict.results]
    if known := [(label, limit) for label, limit in limits if limit is not None and np.isfinite(limit)]:
        out["ruled_out"] = ruled_out(known, thresholds.effect_of_interest, "gain")
        asked, runs = min(c.n_questions for c in verdict.results), min(runs_of(c.settings) for c in cells)
        out["power_curve"] = power_curve(
            lambda n: detectable(thresholds, n, tests, runs), asked,
            None if min(runs) < REPEATED else needed(thresholds, tests), thresholds.effect_of_interest, "gain",
            instead="repeat what is run once",
        )  # fmt: skip
    if gains:
        out["evidence"] = forest(gains, verdict.thresholds["effect_of_interest"])
    rows = [row for cell in cells for row in pooled_rows(cell)]
    if rows:
        scores = [model_scores(c, names[c.model, c.benchmark]) for c in cells]
        by_router = router_summary(rows)
        out["figure2_violation_pattern"] = paper_figures.violation_pattern(by_router)
        out["figure3_noisy_against_clean"] = paper_figures.small_multiples([m for m in scores if m.noisy])
        out["figure4_transitions"] = paper_figures.transitions(by_router)
        out["figure5_violation_breadth"] = paper_figures.breadth(breadths(rows, names))
    return out


REPORT = Report(
    judge,
    _page,
    options=analysis_options,
    foreign={"variants": "belongs to the perturbation audit; a sweep asks no library of rewordings."},
)
report_runs, build_report, verdict_of = REPORT.of_runs, REPORT.build, REPORT.verdict_of
