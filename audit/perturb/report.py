"""Read a run's shards and library into cells, and build the report."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from audit.benchmarks.fresh import told_families
from audit.config.references import is_imported, recorded_references
from audit.core.errors import DataError
from audit.core.package_data import shipped_table
from audit.judge.gates import checks_of
from audit.judge.record import Settings
from audit.judge.report import Report, head_of, only, with_reservations
from audit.perturb.analyse import JUDGE, RunVerdict, analyse, library_facts
from audit.perturb.audit import CONTROL_FILE, SCHEMA
from audit.perturb.config import SAME
from audit.perturb.design import Arm, PerturbThresholds
from audit.perturb.record import BrokenShare, PerturbCell, Wordings
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

_COLUMNS = (
    "model",
    "benchmark",
    "question_id",
    "arm",
    "variant",
    "asked",
    "request_sha256",
    "distance",
    "correct",
)
Cell = tuple[str, str]  # model, benchmark


@dataclass
class Requests:
    """Requests of one model and benchmark: hashes by question, and which variants were asked."""

    original: dict[str, set[str]] = field(default_factory=dict)
    variants: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    not_asked: set[tuple[str, int]] = field(default_factory=set)
    # The next three lists have one entry for each variant with a distance.
    distances: list[float] = field(default_factory=list)
    reworded: list[str] = field(default_factory=list)  # id of the reworded question
    # 1 for right, 0 for wrong, NaN for no answer.
    correct: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class LoadedRun:
    """One pass over a run's shards: its outcomes, and its requests by model and benchmark."""

    run_dir: Path
    outcomes: Outcomes
    requests: dict[Cell, Requests]


def read_run(run_dir: Path, models: Collection[str] | None = None) -> LoadedRun:
    """Read the shards of a run in one pass.

    Parameters
    ----------
    run_dir : Path
        The run.
    models : collection of str, optional
        Models whose cells are kept; all if None.

    Returns
    -------
    LoadedRun
        Outcomes and requests.

    Raises
    ------
    ShardError
        If there are no shards.
    DataError
        If a key occurs twice.
    """
    requests: dict[Cell, Requests] = {}
    outcomes = read_outcomes(
        run_dir, SCHEMA, also=_COLUMNS, each=lambda batch: _add(requests, batch)
    )
    kept = []
    for cell in outcomes.cells:
        if models is None or cell.model in models:
            kept.append(cell)
    return LoadedRun(run_dir, replace(outcomes, cells=kept), requests)


def perturb_cells(
    read: LoadedRun,
    judged: Sequence[str],
    references: Sequence[LoadedRun],
    header: Header,
    control: Header | None = None,
) -> tuple[PerturbCell, ...]:
    """Build one cell for each judged model with rows, sorted.

    Parameters
    ----------
    read : LoadedRun
        The run.
    judged : sequence of str
        Names of the judged models; the other models of the run are references.
    references : sequence of LoadedRun
        Further runs, all models of which are references; a model is never its own reference.
    header : Header
        The header of the run's library.
    control : Header, optional
        The header of its held-out items' library.

    Returns
    -------
    tuple of PerturbCell
        With held-out items as control if there is a library of them.
    """
    others = []
    for run in (read, *references):
        for cell in run.outcomes.cells:
            if run is not read or cell.model not in judged:
                others.append((cell, run.requests[cell.model, cell.benchmark]))

    def of(library: Header) -> dict[str, PerturbCell]:
        tested = []
        for c in read.outcomes.cells:
            if c.model in judged and c.benchmark == library.benchmark:
                tested.append(c)
        cells = {}
        for c in tested:
            cells[c.model] = _cell(c, read.requests[c.model, c.benchmark], others, library.review)
        return cells

    fresh = {} if control is None else of(control)
    unlike = () if control is None else header.made_unlike(control)
    fresh = {model: replace(cell, unlike=unlike) for model, cell in fresh.items()}
    return tuple(replace(cell, control=fresh.get(model)) for model, cell in of(header).items())


def _cell(
    tested: CellOutcomes,
    requests: Requests,
    others: Sequence[tuple[CellOutcomes, Requests]],
    review: Review | None,
) -> PerturbCell:
    ids = tested.question_ids
    compared = []
    for c, theirs in others:
        if c.benchmark == tested.benchmark and c.model != tested.model:
            compared.append((c, theirs))
    references = []
    for c, theirs in compared:
        if set(ids) & set(c.question_ids):
            references.append(wordings(c, theirs, ids))
    return PerturbCell(
        benchmark=tested.benchmark,
        question_ids=ids,
        cluster=tested.cluster,
        n_options=tested.n_options,
        tested=wordings(tested, requests, ids),
        references=tuple(references),
        broken=BrokenShare(review.n, review.broken) if review is not None and review.n else None,
        requests=count_requests(requests.original, requests.variants),
    )


def wordings(cell: CellOutcomes, requests: Requests, ids: Sequence[str]) -> Wordings:
    """Return one model's answers to given questions.

    Parameters
    ----------
    cell : CellOutcomes
        The outcomes.
    requests : Requests
        State which variants were not asked.
    ids : sequence of str
        The questions, in their order.

    Returns
    -------
    Wordings
        NaN for questions without an answer.
    """
    position = {id_: i for i, id_ in enumerate(cell.question_ids)}
    columns = np.array([position.get(id_, -1) for id_ in ids])

    def of(arm: Arm) -> FloatArray:
        rows = []
        for s in cell.settings:
            if s.arm == arm:
                rows.append(to_values(cell.row(s))[columns])
        values: FloatArray = np.array(rows, dtype=float).reshape(len(rows), len(ids))
        values[:, columns < 0] = np.nan
        return values

    levels = []
    for s in cell.settings:
        if s.arm == Arm.VARIANT:
            levels.append(s.level)
    asked: BoolArray = np.zeros((len(levels), len(ids)), dtype=bool)
    for row, level in enumerate(levels):
        asked[row] = [(id_, level) not in requests.not_asked for id_ in ids]
    asked &= columns >= 0  # a reference may have been asked fewer questions
    return Wordings(cell.model, of(Arm.ORIGINAL), of(Arm.VARIANT), None if asked.all() else asked)


def _add(by_cell: dict[Cell, Requests], batch: pa.RecordBatch) -> None:
    columns = (batch.column(name).to_pylist() for name in _COLUMNS)
    for model, benchmark, question, arm, level, was_asked, sha, distance, correct in zip(
        *columns, strict=True
    ):
        requests = by_cell.setdefault((model, benchmark), Requests())
        if arm == Arm.VARIANT and distance is not None:
            requests.distances.append(distance)
            requests.reworded.append(question)
            requests.correct.append(np.nan if correct is None else float(correct))
        if not was_asked:
            requests.not_asked.add((question, level))
        elif sha is None:
            continue  # A row with an error consumed no request.
        elif arm == Arm.ORIGINAL:
            requests.original.setdefault(question, set()).add(sha)
        else:
            requests.variants.setdefault(question, []).append((level, sha))


@dataclass(frozen=True)
class Behind:
    """The data behind a verdict: the pass over the run's shards, its library, and that of its
    held-out items.
    """

    read: LoadedRun
    library: Library
    control: Library | None


def judge(
    run_dirs: Sequence[Path],
    *,
    seed: int | None = None,
    n_resamples: int = N_RESAMPLES,
    read: LoadedRun | None = None,
    variants: str | None = None,
) -> tuple[RunVerdict, Behind]:
    """Judge one run with the analysis that its manifest states.

    Parameters
    ----------
    run_dirs : sequence of Path
        One run.
    seed : int, optional
        Seed of the resamples; the run's own if None.
    n_resamples : int
        Resamples of every statistic.
    read : LoadedRun, optional
        The pass over the run's shards, if it was made.
    variants : str, optional
        The run's library as a person reviewed it since, by path, hash or name.

    Returns
    -------
    tuple of RunVerdict and Behind
        The verdict and the data behind it.

    Raises
    ------
    DataError
        If the run's library is not beside its shards; it states how many variants a person read.
    """
    read = read or read_run(only(run_dirs, "perturbation"))
    manifest = Manifest.load(read.run_dir)
    stored = library = run_library(read.run_dir, manifest)
    if variants is not None:
        library = reviewed_since(stored, find_library(variants))
    control = control_library(read.run_dir, manifest)
    analysis = manifest.analysis
    limits = PerturbThresholds.from_mapping(analysis["thresholds"])
    seed = int(analysis["seed"]) if seed is None else seed
    settings = Settings(limits, seed, n_resamples, shipped_table(JUDGE.shipped))
    references = recorded_references(manifest, stored.header.benchmark, SAME)
    others = [read_run(run.path, run.models) for run in references]
    families = told_families(analysis.get("origins", {}))
    imported, checks = is_imported(manifest), checks_of(analysis)
    cells = []
    for cell in perturb_cells(
        read, analysis["judged"], others, library.header, control.header if control else None
    ):
        requests = None if imported else cell.requests  # Requests of an imported run have no hash.
        cells.append(replace(cell, families=families, requests=requests, log_checks=checks))
    sensitivity = load_sensitivity(read.run_dir)
    results = []
    for cell, result in zip(cells, analyse(cells, settings), strict=True):
        field_size = Field(cell.n, 0, len(cell.references))
        results.append(with_reservations(result, "perturb", analysis, sensitivity, field_size))
    seen = read.outcomes.seen
    verdict = RunVerdict(
        **head_of(settings, [seen], cell_rows(read.run_dir, seen)),
        library=library_facts(library),
        control_library=library_facts(control) if control else None,
        cells=tuple(cells),
        results=tuple(results),
    )
    return verdict, Behind(read, library, control)


REPORT = Report(judge, takes=("seed", "variants"))


def reviewed_since(requested: Library, given: Library) -> Library:
    """Return a given library if it holds the very variants of the run and adds only review
    findings.

    Parameters
    ----------
    requested : Library
        The library of the run.
    given : Library
        The library as reviewed since.

    Returns
    -------
    Library
        The given one.

    Raises
    ------
    DataError
        If the libraries differ in more than review findings.
    """
    if given.asked_sha256 != requested.asked_sha256:
        raise DataError(
            f"Library {given.header.name} {given.sha256[:12]} differs from the one that the run asked, "
            f"{requested.sha256[:12]}, in more than review findings. Expected that one, read by a person since: "
            f"audit variants review {requested.sha256[:12]} --read FILE."
        )
    return given


def run_library(run_dir: Path, manifest: Manifest) -> Library:
    """Return the library of a run from its own directory.

    Parameters
    ----------
    run_dir : Path
        The run.
    manifest : Manifest
        States the hash of the library.

    Returns
    -------
    Library
        The variants of the run.

    Raises
    ------
    DataError
        If the file is missing or is another library.
    """
    return _kept(run_dir / FILE, str(manifest.config.get("variants")))


def control_library(run_dir: Path, manifest: Manifest) -> Library | None:
    """Return the library of the held-out items; None if the run has none."""
    if manifest.config.get("control_benchmark") is None:
        return None
    return _kept(run_dir / CONTROL_FILE, str(manifest.config.get("control_variants")))


def _kept(path: Path, wanted: str) -> Library:
    if not path.is_file():
        raise DataError(
            f"{path} is missing. Expected library {wanted[:12]} there: type the run's command again."
        )
    library = read_library(path)
    if library.sha256 != wanted:
        raise DataError(
            f"{path} is library {library.sha256[:12]}, and the run asked {wanted[:12]}. Type the run's command again."
        )
    return library
