"""A run's shards and library -> RUN_DIR/report: report.html, verdict.json, tables/*.csv, figures/*.{png,svg}.

Everything is rebuilt from the run directory alone. Files are written whole, verdict.json last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from audit.errors import DataError
from audit.perturb.analyse import analyse
from audit.perturb.calibrated import load_table
from audit.perturb.cells import load_perturb
from audit.perturb.columns import SCHEMA
from audit.perturb.reference import check_reference
from audit.perturb.thresholds import PerturbThresholds
from audit.perturb.verdict import RunVerdict, library_facts
from audit.report.build import ReportPaths, run_facts
from audit.shards.complete import cell_rows, contents, count_rows
from audit.shards.files import make_folder, write_file
from audit.shards.manifest import Manifest
from audit.statistics.resampling import N_RESAMPLES
from audit.variants.arrow import FILE, read_library
from audit.variants.record import Library
from audit.verdict.sensitivity import load_sensitivity, quote


def build_report(
    run_dirs: Sequence[Path], out: Path, *, seed: int | None = None, n_resamples: int = N_RESAMPLES
) -> ReportPaths:
    """Write the report of one run into `out`. seed: of the resamples; by default the run's own.

    Thresholds, the judged models and reference runs come from the manifest. Raises DataError for several runs, and
    where the run's library is not beside its shards: it says how many variants a person read.
    """
    if len(run_dirs) != 1:
        raise DataError(
            f"{len(run_dirs)} runs of the perturbation audit were given. Expected one: to judge several models "
            "together, run them in one job, such as 'model=[llama3_8b,qwen3_8b]'."
        )
    run_dir = Path(run_dirs[0])
    verdict, library = judge(run_dir, seed=seed, n_resamples=n_resamples)
    from audit.perturb.page import write_page  # here: figures need matplotlib

    for folder in (out, out / "tables", out / "figures"):
        make_folder(folder)
    html, tables, figures = write_page(run_dir, out, verdict, library, run_facts(run_dir))
    path = out / "verdict.json"
    write_file(path, verdict.to_json().encode())
    incomplete = tuple(rows for rows in verdict.rows if not rows.complete)
    return ReportPaths(html, path, tables, figures, incomplete)


def judge(run_dir: Path, *, seed: int | None = None, n_resamples: int = N_RESAMPLES) -> tuple[RunVerdict, Library]:
    """The verdict of a run directory, as its manifest asks for it, and its library."""
    manifest = Manifest.load(run_dir)
    library = run_library(run_dir, manifest)
    analysis = manifest.analysis
    thresholds = PerturbThresholds.from_mapping(analysis["thresholds"])
    seed = int(analysis["seed"]) if seed is None else seed
    seen = count_rows(run_dir, SCHEMA)
    rows = cell_rows(run_dir, seen)
    references = [Path(one) for one in analysis["references"]]
    for path in references:
        check_reference(path, library.sha256, library.header.benchmark)
    cells = load_perturb(run_dir, analysis["judged"], references, library.header)
    sensitivity = load_sensitivity(run_dir)
    results = tuple(
        replace(result, sensitivity=quote(sensitivity, "perturb", result.model, result.benchmark))
        for result in analyse(cells, thresholds, seed=seed, n_resamples=n_resamples, table=load_table())
    )
    verdict = RunVerdict(
        seed=seed,
        n_resamples=n_resamples,
        thresholds=thresholds.to_dict(),
        library=library_facts(library),
        runs=({"models": contents(seen)},),
        rows=rows,
        cells=cells,
        results=results,
    )
    return verdict, library


def run_library(run_dir: Path, manifest: Manifest) -> Library:
    """The library that a run asked, from its own directory; DataError when it is gone or another one."""
    path = run_dir / FILE
    wanted = str(manifest.config.get("variants"))
    if not path.is_file():
        raise DataError(f"{path} is missing. Expected library {wanted[:12]} there: type the run's command again.")
    library = read_library(path)
    if library.sha256 != wanted:
        raise DataError(
            f"{path} is library {library.sha256[:12]}, and the run asked {wanted[:12]}. Type the run's command again."
        )
    return library
