"""A run's shards and library -> its report."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from audit.benchmarks.fresh import told_families
from audit.errors import DataError
from audit.judge.report import Report, head_of, only, with_reservations
from audit.perturb.analyse import JUDGE, PerturbSettings, RunVerdict, analyse, library_facts
from audit.perturb.audit import CONTROL_FILE
from audit.perturb.config import SAME
from audit.perturb.design import PerturbThresholds
from audit.perturb.rows import Read, perturb_cells, read_run
from audit.references import is_imported, recorded_references
from audit.report.sensitivity import load_sensitivity
from audit.shards.complete import cell_rows
from audit.shards.manifest import Manifest
from audit.statistics.notice import Field
from audit.statistics.resampling import N_RESAMPLES
from audit.variants.arrow import FILE, find_library, read_library
from audit.variants.record import Library
from audit.verdict.shipped import shipped_table


@dataclass(frozen=True)
class Behind:
    """What stands behind a verdict: the pass over the run's shards, its library, and that of its held-out items."""

    read: Read
    library: Library
    control: Library | None


def judge(
    run_dirs: Sequence[Path],
    *,
    seed: int | None = None,
    n_resamples: int = N_RESAMPLES,
    read: Read | None = None,
    variants: str | None = None,
) -> tuple[RunVerdict, Behind]:
    """The verdict of one run, as its manifest asks for it. seed: of the resamples; by default the run's own.

    read: the pass over the run's shards, where it was made. variants: the run's library as a person reviewed it since,
    by path, hash or name. DataError where the run's library is not beside its shards: it says how many variants a
    person read.
    """
    read = read or read_run(only(run_dirs, "perturbation"))
    manifest = Manifest.load(read.run_dir)
    asked = library = run_library(read.run_dir, manifest)
    if variants is not None:
        library = reviewed_since(asked, find_library(variants))
    control = control_library(read.run_dir, manifest)
    analysis = manifest.analysis
    thresholds = PerturbThresholds.from_mapping(analysis["thresholds"])
    seed = int(analysis["seed"]) if seed is None else seed
    settings = PerturbSettings(thresholds, seed, n_resamples, shipped_table(JUDGE.shipped))
    rows = cell_rows(read.run_dir, read.outcomes.seen)
    references = recorded_references(manifest, asked.header.benchmark, SAME)
    others = [read_run(one.path, one.models) for one in references]
    cells = perturb_cells(read, analysis["judged"], others, library.header, control.header if control else None)
    cells = tuple(replace(cell, families=told_families(analysis.get("origins", {}))) for cell in cells)
    if is_imported(manifest):  # no request was ours, so none has a hash
        cells = tuple(replace(cell, requests=None) for cell in cells)
    sensitivity = load_sensitivity(read.run_dir)
    results = tuple(
        with_reservations(result, "perturb", analysis, sensitivity, Field(cell.n, 0, len(cell.references)))
        for cell, result in zip(cells, analyse(cells, settings), strict=True)
    )
    verdict = RunVerdict(
        **head_of(settings, [read.outcomes.seen], rows),
        library=library_facts(library),
        control_library=library_facts(control) if control else None,
        cells=cells,
        results=results,
    )
    return verdict, Behind(read, library, control)


REPORT = Report(
    judge,
    options=lambda run_dirs, asked: {name: asked.get(name) for name in ("seed", "variants")},
    foreign={"control_benchmark": "belongs to the sweep; held-out items of this audit are those of its run."},
)
report_runs, build_report, verdict_of = REPORT.of_runs, REPORT.build, REPORT.verdict_of


def reviewed_since(asked: Library, given: Library) -> Library:
    """The given library where it holds the very variants that were asked and adds review findings alone."""
    if given.asked_sha256 != asked.asked_sha256:
        raise DataError(
            f"Library {given.header.name} {given.sha256[:12]} differs from the one that the run asked, "
            f"{asked.sha256[:12]}, in more than review findings. Expected that one, read by a person since: "
            f"audit variants review {asked.sha256[:12]} --read FILE."
        )
    return given


def run_library(run_dir: Path, manifest: Manifest) -> Library:
    """The library that a run asked, from its own directory; DataError when it is gone or another one."""
    return _kept(run_dir / FILE, str(manifest.config.get("variants")))


def control_library(run_dir: Path, manifest: Manifest) -> Library | None:
    """The same of the held-out items; None where the run asked none."""
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
