"""A run's shards and library -> cells: originals and variants of the judged models, beside the reference models on the
same items -> its report."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from audit.benchmarks.fresh import told_families
from audit.errors import DataError
from audit.judge.gates import checks_of
from audit.judge.record import Settings
from audit.judge.report import Report, head_of, only, with_reservations
from audit.perturb.analyse import JUDGE, RunVerdict, analyse, library_facts
from audit.perturb.audit import CONTROL_FILE, SCHEMA
from audit.perturb.config import SAME
from audit.perturb.design import Arm, PerturbThresholds
from audit.perturb.record import BrokenShare, PerturbCell, Wordings
from audit.references import is_imported, recorded_references
from audit.report.sensitivity import load_sensitivity
from audit.shards.complete import Outcomes, cell_rows, read_outcomes
from audit.shards.keys import count_requests
from audit.shards.manifest import Manifest
from audit.statistics.notice import Field
from audit.statistics.paired import BoolArray, CellOutcomes, FloatArray
from audit.statistics.resampling import N_RESAMPLES
from audit.statistics.values import to_values
from audit.variants.arrow import FILE, find_library, read_library
from audit.variants.record import Header, Library, Review
from audit.verdict.shipped import shipped_table

_COLUMNS = ("model", "benchmark", "question_id", "arm", "variant", "asked", "request_sha256", "distance", "correct")
Cell = tuple[str, str]  # model, benchmark


@dataclass
class Requests:
    """Of one model and benchmark: hashes by question, and which variants were asked."""

    original: dict[str, set[str]] = field(default_factory=dict)
    variants: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    not_asked: set[tuple[str, int]] = field(default_factory=set)
    distances: list[float] = field(default_factory=list)  # of every variant with one; beside it
    reworded: list[str] = field(default_factory=list)  # its question, and
    correct: list[float] = field(default_factory=list)  # 1, 0, or NaN for no answer


@dataclass(frozen=True)
class Read:
    """One pass over a run's shards: its outcomes, and what was sent, by model and benchmark."""

    run_dir: Path
    outcomes: Outcomes
    requests: dict[Cell, Requests]


def read_run(run_dir: Path, models: Collection[str] | None = None) -> Read:
    """models: whose cells are kept; None: all. ShardError where there are no shards, DataError when a key occurs
    twice."""
    requests: dict[Cell, Requests] = {}
    outcomes = read_outcomes(run_dir, SCHEMA, also=_COLUMNS, each=lambda batch: _add(requests, batch))
    kept = [cell for cell in outcomes.cells if models is None or cell.model in models]
    return Read(run_dir, replace(outcomes, cells=kept), requests)


def perturb_cells(
    read: Read, judged: Sequence[str], references: Sequence[Read], header: Header, control: Header | None = None
) -> tuple[PerturbCell, ...]:
    """One cell for each judged model with rows, sorted. header: of the run's library; control: of its held-out items'.

    References are the other models of the run and every model of `references`; none is its own.
    """
    others = [
        (cell, run.requests[cell.model, cell.benchmark])
        for run in (read, *references)
        for cell in run.outcomes.cells
        if run is not read or cell.model not in judged
    ]

    def of(library: Header) -> dict[str, PerturbCell]:
        own = [c for c in read.outcomes.cells if c.model in judged and c.benchmark == library.benchmark]
        return {c.model: _cell(c, read.requests[c.model, c.benchmark], others, library.review) for c in own}

    fresh = {} if control is None else of(control)
    unlike = () if control is None else header.made_unlike(control)
    fresh = {model: replace(cell, unlike=unlike) for model, cell in fresh.items()}
    return tuple(replace(cell, control=fresh.get(model)) for model, cell in of(header).items())


def _cell(
    own: CellOutcomes, requests: Requests, others: Sequence[tuple[CellOutcomes, Requests]], review: Review | None
) -> PerturbCell:
    ids = own.question_ids
    asked = [(c, theirs) for c, theirs in others if c.benchmark == own.benchmark and c.model != own.model]
    return PerturbCell(
        benchmark=own.benchmark,
        question_ids=ids,
        cluster=own.cluster,
        n_options=own.n_options,
        tested=wordings(own, requests, ids),
        references=tuple(wordings(c, theirs, ids) for c, theirs in asked if set(ids) & set(c.question_ids)),
        broken=BrokenShare(review.n, review.broken) if review is not None and review.n else None,
        requests=count_requests(requests.original, requests.variants),
    )


def wordings(cell: CellOutcomes, requests: Requests, ids: Sequence[str]) -> Wordings:
    """One model's answers to the questions `ids`, in their order; NaN where it has none."""
    place = {id_: i for i, id_ in enumerate(cell.question_ids)}
    columns = np.array([place.get(id_, -1) for id_ in ids])

    def of(arm: Arm) -> FloatArray:
        rows = [to_values(cell.row(s))[columns] for s in cell.settings if s.arm == arm]
        found: FloatArray = np.array(rows, dtype=float).reshape(len(rows), len(ids))
        found[:, columns < 0] = np.nan
        return found

    levels = [s.level for s in cell.settings if s.arm == Arm.VARIANT]
    not_asked = [[(id_, level) in requests.not_asked for id_ in ids] for level in levels]
    asked: BoolArray = ~np.array(not_asked, dtype=bool)
    asked = asked.reshape(len(levels), len(ids)) & (columns >= 0)  # a reference may have met fewer questions
    return Wordings(cell.model, of(Arm.ORIGINAL), of(Arm.VARIANT), None if asked.all() else asked)


def _add(found: dict[Cell, Requests], batch: pa.RecordBatch) -> None:
    columns = (batch.column(name).to_pylist() for name in _COLUMNS)
    for m, b, q, arm, level, asked, sha, distance, correct in zip(*columns, strict=True):
        one = found.setdefault((m, b), Requests())
        if arm == Arm.VARIANT and distance is not None:
            one.distances.append(distance)
            one.reworded.append(q)
            one.correct.append(np.nan if correct is None else float(correct))
        if not asked:
            one.not_asked.add((q, level))
        elif sha is None:
            continue  # an error row: no request was consumed
        elif arm == Arm.ORIGINAL:
            one.original.setdefault(q, set()).add(sha)
        else:
            one.variants.setdefault(q, []).append((level, sha))


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
    limits = PerturbThresholds.from_mapping(analysis["thresholds"])
    seed = int(analysis["seed"]) if seed is None else seed
    settings = Settings(limits, seed, n_resamples, shipped_table(JUDGE.shipped))
    references = recorded_references(manifest, asked.header.benchmark, SAME)
    others = [read_run(one.path, one.models) for one in references]
    made = perturb_cells(read, analysis["judged"], others, library.header, control.header if control else None)
    families = told_families(analysis.get("origins", {}))
    imported, checks = is_imported(manifest), checks_of(analysis)
    # of an import no request was ours, so none has a hash
    cells = tuple(
        replace(c, families=families, requests=None if imported else c.requests, log_checks=checks) for c in made
    )
    sensitivity = load_sensitivity(read.run_dir)
    results = tuple(
        with_reservations(result, "perturb", analysis, sensitivity, Field(cell.n, 0, len(cell.references)))
        for cell, result in zip(cells, analyse(cells, settings), strict=True)
    )
    seen = read.outcomes.seen
    verdict = RunVerdict(
        **head_of(settings, [seen], cell_rows(read.run_dir, seen)),
        library=library_facts(library),
        control_library=library_facts(control) if control else None,
        cells=cells,
        results=results,
    )
    return verdict, Behind(read, library, control)


REPORT = Report(judge, takes=("seed", "variants"))
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
