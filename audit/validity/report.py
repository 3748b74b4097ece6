"""A run's shards and edits -> RUN_DIR/report: report.html, verdict.json, tables/*.csv, figures/*.{png,svg}.

Everything is rebuilt from the run directory alone. Files are written whole, verdict.json last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from audit.chronology import chronology_of
from audit.errors import ConfigError, DataError
from audit.report.build import ReportPaths, run_facts
from audit.shards.complete import cell_rows, contents, count_rows
from audit.shards.files import make_folder, write_file
from audit.shards.manifest import Manifest
from audit.statistics.selectivity import N_RESAMPLES
from audit.validity.analyse import analyse
from audit.validity.as_paper import merged
from audit.validity.calibrated import SHIPPED
from audit.validity.cells import load_validity
from audit.validity.columns import SCHEMA
from audit.validity.edits.file import FILE, read_about
from audit.validity.named_tests import of_runs
from audit.validity.thresholds import ValidityThresholds
from audit.validity.verdict import RunVerdict
from audit.verdict.result import json_text
from audit.verdict.shipped import shipped_table


def report_runs(run_dirs: Sequence[Path], out: Path, asked: Mapping[str, Any]) -> ReportPaths:
    """As `audit.report` asks for it; asked: seed, where it is given."""
    return build_report(run_dirs, out, seed=asked.get("seed"))


def build_report(
    run_dirs: Sequence[Path], out: Path, *, seed: int | None = None, n_resamples: int = N_RESAMPLES
) -> ReportPaths:
    """Write the report of one run, or of several as one panel. seed: of the resamples; by default the runs' own.

    Raises DataError where two runs hold the same cell, ConfigError where they were judged by different thresholds.
    """
    dirs = [Path(one) for one in run_dirs]
    verdict = judge(dirs, seed=seed, n_resamples=n_resamples)
    from audit.validity.page import write_page  # here: figures need matplotlib

    for folder in (out, out / "tables", out / "figures"):
        make_folder(folder)
    html, tables, figures = write_page(dirs, out, verdict, [run_facts(one) for one in dirs])
    path, plain = out / "verdict.json", verdict.to_dict()
    write_file(path, json_text(plain).encode("utf-8", "backslashreplace"))
    return ReportPaths(html, path, tables, figures, tuple(rows for rows in verdict.rows if not rows.complete), plain)


def judge(run_dirs: Sequence[Path], *, seed: int | None = None, n_resamples: int = N_RESAMPLES) -> RunVerdict:
    """The verdict of the runs together, as their manifests ask for it: Holm is over all their cells."""
    analyses = [Manifest.load(one).analysis for one in run_dirs]
    settings = [(a["thresholds"], a["seed"] if seed is None else seed) for a in analyses]
    if any(one != settings[0] for one in settings):
        raise ConfigError(
            "The runs were judged with different thresholds or seeds. Expected the same verdict.* and seed of all; "
            "start them again with the same (nothing is computed twice)."
        )
    thresholds = ValidityThresholds.from_mapping(settings[0][0])
    seed = int(settings[0][1])
    seen = [count_rows(one, SCHEMA) for one in run_dirs]
    cells = tuple(cell for one in run_dirs for cell in load_validity(one))
    names = [cell.name for cell in cells]
    if len(set(names)) < len(names):
        raise DataError(f"Two runs hold {max(names, key=names.count)}. Expected each model and benchmark in one run.")
    return RunVerdict(
        seed=seed,
        n_resamples=n_resamples,
        thresholds=thresholds.to_dict(),
        edits=_replaced(run_dirs),
        runs=tuple({"models": contents(one)} for one in seen),
        rows=tuple(rows for one, counts in zip(run_dirs, seen, strict=True) for rows in cell_rows(one, counts)),
        cells=cells,
        chronology=merged(chronology_of(one) for one in run_dirs),
        results=analyse(
            cells, thresholds, seed=seed, n_resamples=n_resamples, table=shipped_table(SHIPPED), tests=of_runs(run_dirs)
        ),
    )


def _replaced(run_dirs: Sequence[Path]) -> dict[str, Any]:
    """What was counted when the edits were made, over all runs."""
    replaced: Counter[str] = Counter()
    for one in run_dirs:
        replaced.update(read_about(one / FILE)["replaced"])
    return {"replaced": dict(sorted(replaced.items()))}
