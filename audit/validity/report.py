"""A run's shards and edits -> RUN_DIR/report: report.html, verdict.json, tables/*.csv, figures/*.{png,svg}.

Everything is rebuilt from the run directory alone. Files are written whole, verdict.json last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from audit.errors import DataError
from audit.report.build import ReportPaths, run_facts
from audit.shards.complete import cell_rows, contents, count_rows
from audit.shards.files import make_folder, write_file
from audit.shards.manifest import Manifest
from audit.statistics.selectivity import N_RESAMPLES
from audit.validity.analyse import analyse
from audit.validity.calibrated import load_table
from audit.validity.cells import load_validity
from audit.validity.columns import SCHEMA
from audit.validity.edits.file import FILE, read_edits
from audit.validity.thresholds import ValidityThresholds
from audit.validity.verdict import RunVerdict


def report_runs(run_dirs: Sequence[Path], out: Path, asked: Mapping[str, Any]) -> ReportPaths:
    """As `audit.report` asks for it; asked: seed, where it is given."""
    return build_report(run_dirs, out, seed=asked.get("seed"))


def build_report(
    run_dirs: Sequence[Path], out: Path, *, seed: int | None = None, n_resamples: int = N_RESAMPLES
) -> ReportPaths:
    """Write the report of one run into `out`. seed: of the resamples; by default the run's own."""
    if len(run_dirs) != 1:
        raise DataError(
            f"{len(run_dirs)} runs of the construct-validity audit were given. Expected one: to judge several models "
            "together, run them in one job, such as 'model=[llama3_8b,qwen3_8b]'."
        )
    run_dir = Path(run_dirs[0])
    verdict = judge(run_dir, seed=seed, n_resamples=n_resamples)
    from audit.validity.page import write_page  # here: figures need matplotlib

    for folder in (out, out / "tables", out / "figures"):
        make_folder(folder)
    html, tables, figures = write_page(run_dir, out, verdict, run_facts(run_dir))
    path = out / "verdict.json"
    write_file(path, verdict.to_json().encode("utf-8", "backslashreplace"))
    return ReportPaths(html, path, tables, figures, tuple(rows for rows in verdict.rows if not rows.complete))


def judge(run_dir: Path, *, seed: int | None = None, n_resamples: int = N_RESAMPLES) -> RunVerdict:
    """The verdict of a run directory, as its manifest asks for it."""
    analysis = Manifest.load(run_dir).analysis
    thresholds = ValidityThresholds.from_mapping(analysis["thresholds"])
    seed = int(analysis["seed"]) if seed is None else seed
    seen = count_rows(run_dir, SCHEMA)
    rows = cell_rows(run_dir, seen)
    cells = load_validity(run_dir)
    return RunVerdict(
        seed=seed,
        n_resamples=n_resamples,
        thresholds=thresholds.to_dict(),
        edits=dict(read_edits(run_dir / FILE).about),
        runs=({"models": contents(seen)},),
        rows=rows,
        cells=cells,
        results=analyse(cells, thresholds, seed=seed, n_resamples=n_resamples, table=load_table()),
    )
