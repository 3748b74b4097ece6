"""A run's shards and library -> RUN_DIR/report: report.html, verdict.json, tables/*.csv, figures/*.{png,svg}.

Everything is rebuilt from the run directory alone. Files are written whole, verdict.json last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from audit.errors import ConfigError, DataError
from audit.perturb.analyse import analyse
from audit.perturb.calibrated import SHIPPED
from audit.perturb.present import CONTROL_FILE
from audit.perturb.reference import check_references
from audit.perturb.rows import Read, perturb_cells, read_run
from audit.perturb.thresholds import PerturbThresholds
from audit.perturb.verdict import RunVerdict, library_facts
from audit.report.build import ReportPaths, run_facts
from audit.report.sensitivity import load_sensitivity, quote
from audit.shards.complete import cell_rows, contents
from audit.shards.files import write_file
from audit.shards.manifest import Manifest
from audit.statistics.resampling import N_RESAMPLES
from audit.variants.arrow import FILE, read_library
from audit.variants.record import Library
from audit.variants.store import find_library
from audit.verdict.result import json_text
from audit.verdict.shipped import shipped_table


def report_runs(run_dirs: Sequence[Path], out: Path, asked: Mapping[str, Any]) -> ReportPaths:
    """`audit.report` of runs of this audit: judged as the manifest says, but for what is asked."""
    if asked.get("control_benchmark") is not None:
        raise ConfigError("--control-benchmark belongs to the sweep; fresh items of this audit are those of its run.")
    return build_report(run_dirs, out, seed=asked.get("seed"), variants=asked.get("variants"))


def build_report(
    run_dirs: Sequence[Path],
    out: Path,
    *,
    seed: int | None = None,
    n_resamples: int = N_RESAMPLES,
    read: Read | None = None,
    variants: str | None = None,
) -> ReportPaths:
    """Write the report of one run into `out`. seed: of the resamples; by default the run's own.

    read: the pass over the run's shards, where it was made. variants: the run's library as a person reviewed it since,
    by path, hash or name. Thresholds, the judged models and reference runs come from
    the manifest. Raises DataError for several runs, and where the run's library is not beside its shards: it says how
    many variants a person read.
    """
    if len(run_dirs) != 1:
        raise DataError(
            f"{len(run_dirs)} runs of the perturbation audit were given. Expected one: to judge several models "
            "together, run them in one job, such as 'model=[llama3_8b,qwen3_8b]'."
        )
    read = read or read_run(Path(run_dirs[0]))
    verdict, library, control = judge(read, seed=seed, n_resamples=n_resamples, variants=variants)
    from audit.perturb.page import write_page  # here: figures need matplotlib

    html, tables, figures = write_page(read, out, verdict, library, run_facts(read.run_dir), control)
    path, plain = out / "verdict.json", verdict.to_dict()
    write_file(path, json_text(plain).encode())
    incomplete = tuple(rows for rows in verdict.rows if not rows.complete)
    return ReportPaths(html, path, tables, figures, incomplete, plain)


def judge(
    read: Read, *, seed: int | None = None, n_resamples: int = N_RESAMPLES, variants: str | None = None
) -> tuple[RunVerdict, Library, Library | None]:
    """The verdict of a run directory, as its manifest asks for it, its library, and that of its fresh items."""
    manifest = Manifest.load(read.run_dir)
    asked = library = run_library(read.run_dir, manifest)
    if variants is not None:
        library = reviewed_since(asked, find_library(variants))
    control = control_library(read.run_dir, manifest)
    analysis = manifest.analysis
    thresholds = PerturbThresholds.from_mapping(analysis["thresholds"])
    seed = int(analysis["seed"]) if seed is None else seed
    seen = read.outcomes.seen
    rows = cell_rows(read.run_dir, seen)
    references = [Path(one) for one in analysis["references"]]
    own = [name for name in manifest.models if name not in analysis["judged"]]
    check_references(references, asked.sha256, asked.header.benchmark, own)
    others = [read_run(path) for path in references]
    cells = perturb_cells(read, analysis["judged"], others, library.header, control.header if control else None)
    sensitivity = load_sensitivity(read.run_dir)
    results = tuple(
        replace(result, sensitivity=quote(sensitivity, "perturb", result.model, result.benchmark))
        for result in analyse(cells, thresholds, seed=seed, n_resamples=n_resamples, table=shipped_table(SHIPPED))
    )
    verdict = RunVerdict(
        seed=seed,
        n_resamples=n_resamples,
        thresholds=thresholds.to_dict(),
        library=library_facts(library),
        control_library=library_facts(control) if control else None,
        runs=({"models": contents(seen)},),
        rows=rows,
        cells=cells,
        results=results,
    )
    return verdict, library, control


def reviewed_since(asked: Library, given: Library) -> Library:
    """The given library where it holds the very variants that were asked and adds review findings alone."""
    if given.asked_sha256 != asked.asked_sha256:
        raise DataError(
            f"Library {given.header.name} {given.sha256[:12]} differs from the one that the run asked, "
            f"{asked.sha256[:12]}, in more than review findings. Expected that one, read by a person since: "
            f"python -m audit.variants review {asked.sha256[:12]} --read FILE."
        )
    return given


def run_library(run_dir: Path, manifest: Manifest) -> Library:
    """The library that a run asked, from its own directory; DataError when it is gone or another one."""
    return _kept(run_dir / FILE, str(manifest.config.get("variants")))


def control_library(run_dir: Path, manifest: Manifest) -> Library | None:
    """The same of the fresh items; None where the run asked none."""
    if manifest.config.get("control_benchmark") is None:
        return None
    return _kept(run_dir / CONTROL_FILE, str(manifest.config.get("control_variants")))


def _kept(path: Path, wanted: str) -> Library:
    if not path.is_file():
        raise DataError(f"{path} is missing. Expected library {wanted[:12]} there: type the run's command again.")
    library = read_library(path)
    if library.sha256 != wanted:
        raise DataError(
            f"{path} is library {library.sha256[:12]}, and the run asked {wanted[:12]}. Type the run's command again."
        )
    return library
