"""Read the answers and variants of a perturbation run, judge each model, and build the report."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from audit.benchmarks.fresh import families_of
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
Cell = tuple[str, str]  # names of the model and of the benchmark


@dataclass
class Requests:
    """Hold the requests of one model on one benchmark.

    Attributes
    ----------
    original : dict
        Maps each question id to the set of hashes of its requests with the original.
    variants : dict
        Maps each question id to the list of (number of the variant, hash of the request).
    not_asked : set
        Pairs (question id, number of the variant) that the model was not asked.
    distances, reworded, correct : list
        For each variant with a known distance: its distance from the original, the id of its
        question, and its answer (1 for right, 0 for wrong, NaN for no answer).
    """

    original: dict[str, set[str]] = field(default_factory=dict)
    variants: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    not_asked: set[tuple[str, int]] = field(default_factory=set)
    distances: list[float] = field(default_factory=list)
    reworded: list[str] = field(default_factory=list)
    correct: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class LoadedRun:
    """Hold the answers and the requests of a run, read in one pass over the shards.

    Attributes
    ----------
    run_dir : Path
        Directory with the files of the run.
    outcomes : Outcomes
        Answers of all models to all questions.
    requests : dict
        Maps each (model, benchmark) to its requests.
    """

    run_dir: Path
    outcomes: Outcomes
    requests: dict[Cell, Requests]


def read_run(run_dir: Path, models: Collection[str] | None = None) -> LoadedRun:
    """Read the shards of a run in one pass.

    Parameters
    ----------
    run_dir : Path
        Directory with the files of the run.
    models : collection of str, optional
        Models whose cells are kept; None keeps all models.

    Returns
    -------
    LoadedRun
        Answers and requests.

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
    cells = []
    for cell in outcomes.cells:
        if models is None or cell.model in models:
            cells.append(cell)
    return LoadedRun(run_dir, replace(outcomes, cells=cells), requests)


def perturb_cells(
    read: LoadedRun,
    judged: Sequence[str],
    references: Sequence[LoadedRun],
    header: Header,
    control: Header | None = None,
) -> tuple[PerturbCell, ...]:
    """Build one cell for each judged model that has rows in the shards.

    Parameters
    ----------
    read : LoadedRun
        The run that is judged.
    judged : sequence of str
        Names of the judged models. The other models of the run are references.
    references : sequence of LoadedRun
        Further runs. All their models serve as references, but a model is never its own reference.
    header : Header
        The header of the run's library.
    control : Header, optional
        The header of the library of the held-out items.

    Returns
    -------
    tuple of PerturbCell
        The cells. If a library of held-out items is given, each cell has a control.
    """
    others = []
    for run in (read, *references):
        for cell in run.outcomes.cells:
            if run is not read or cell.model not in judged:
                others.append((cell, run.requests[cell.model, cell.benchmark]))

    def cells_of(library: Header) -> dict[str, PerturbCell]:
        """Return one cell for each judged model, on the benchmark to which a library belongs."""
        cells = {}
        for tested in read.outcomes.cells:
            if tested.model in judged and tested.benchmark == library.benchmark:
                requests = read.requests[tested.model, tested.benchmark]
                cells[tested.model] = _cell(tested, requests, others, library.review)
        return cells

    controls = {} if control is None else cells_of(control)
    unlike = () if control is None else header.made_unlike(control)
    cells = []
    for model, judged_cell in cells_of(header).items():
        fresh = controls.get(model)
        cells.append(replace(judged_cell, control=fresh and replace(fresh, unlike=unlike)))
    return tuple(cells)


def _cell(
    tested: CellOutcomes,
    requests: Requests,
    others: Sequence[tuple[CellOutcomes, Requests]],
    review: Review | None,
) -> PerturbCell:
    """Return the cell of one judged model.

    Its references are those models in `others` that were asked some of the same questions.
    """
    ids = tested.question_ids
    references = []
    for c, reference_requests in others:
        if c.benchmark != tested.benchmark or c.model == tested.model:
            continue
        if set(ids) & set(c.question_ids):
            references.append(wordings(c, reference_requests, ids))
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
    """Return the answers of one model to given questions.

    Parameters
    ----------
    cell : CellOutcomes
        The answers of the model.
    requests : Requests
        The requests, which state the variants that were not asked.
    ids : sequence of str
        Ids of the questions, in the order of the result.

    Returns
    -------
    Wordings
        The model's answers; NaN for questions without an answer.
    """
    position = {id_: i for i, id_ in enumerate(cell.question_ids)}
    columns = np.array([position.get(id_, -1) for id_ in ids])

    def answers(arm: Arm) -> FloatArray:
        """Return an array with one row of answers for each setting of an arm.

        Questions that the model was not asked are NaN.
        """
        rows = []
        for setting in cell.settings:
            if setting.arm == arm:
                rows.append(to_values(cell.row(setting))[columns])
        values: FloatArray = np.array(rows, dtype=float).reshape(len(rows), len(ids))
        values[:, columns < 0] = np.nan
        return values

    levels = [setting.level for setting in cell.settings if setting.arm == Arm.VARIANT]
    requested: BoolArray = np.zeros((len(levels), len(ids)), dtype=bool)
    for row, level in enumerate(levels):
        requested[row] = [(id_, level) not in requests.not_asked for id_ in ids]
    requested &= columns >= 0  # A reference may have been asked fewer questions.
    originals, variants = answers(Arm.ORIGINAL), answers(Arm.VARIANT)
    return Wordings(cell.model, originals, variants, None if requested.all() else requested)


def _add(by_cell: dict[Cell, Requests], batch: pa.RecordBatch) -> None:
    """Add the requests in a batch of rows to the `Requests` of their cells."""
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
            continue  # A row with an error has no request.
        elif arm == Arm.ORIGINAL:
            requests.original.setdefault(question, set()).add(sha)
        else:
            requests.variants.setdefault(question, []).append((level, sha))


@dataclass(frozen=True)
class Behind:
    """Hold the answers and libraries that support a verdict. The page is built from this data.

    Attributes
    ----------
    read : LoadedRun
        The answers and requests of the run.
    library : Library
        The library of the run's variants.
    control : Library or None
        The library of the held-out items.
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
    """Judge one run with the analysis options in its manifest.

    Parameters
    ----------
    run_dirs : sequence of Path
        The directory of the run, as a sequence of length one.
    seed : int, optional
        Seed of the resamples; the default is the seed of the run.
    n_resamples : int
        Number of resamples for every statistic.
    read : LoadedRun, optional
        The answers of the run, if a caller has read them already.
    variants : str, optional
        Path, hash or name of the run's library after a review by a person.

    Returns
    -------
    tuple of RunVerdict and Behind
        The verdict and the data behind it.

    Raises
    ------
    DataError
        If the run's directory lacks its library, which states how many variants a person reviewed.
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
    families = families_of(analysis.get("origins", {}))
    imported, checks = is_imported(manifest), checks_of(analysis)
    cells = []
    for cell in perturb_cells(
        read, analysis["judged"], others, library.header, control.header if control else None
    ):
        # An imported log has no hashes of requests.
        requests = None if imported else cell.requests
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
    """Return a reviewed library after checking that it is the library of the run.

    The two libraries may differ only in the results of the review.

    Parameters
    ----------
    requested : Library
        The library that the run used.
    given : Library
        The same library after a review.

    Returns
    -------
    Library
        The reviewed library.

    Raises
    ------
    DataError
        If the libraries differ in anything else.
    """
    if given.asked_sha256 != requested.asked_sha256:
        raise DataError(
            f"Library {given.header.name} {given.sha256[:12]} differs from library {requested.sha256[:12]} of the run "
            "in more than the findings of a review. Expected the library of the run after a review. "
            f"Example: audit variants review {requested.sha256[:12]} --read FILE"
        )
    return given


def run_library(run_dir: Path, manifest: Manifest) -> Library:
    """Return the library of variants that is stored in the run directory.

    Parameters
    ----------
    run_dir : Path
        Directory with the files of the run.
    manifest : Manifest
        The manifest of the run, which states the hash of the library.

    Returns
    -------
    Library
        The variants of the run.

    Raises
    ------
    DataError
        If the file is missing or holds another library.
    """
    return _stored(run_dir / FILE, str(manifest.config.get("variants")))


def control_library(run_dir: Path, manifest: Manifest) -> Library | None:
    """Return the library of the held-out items.

    Parameters
    ----------
    run_dir : Path
        Directory with the files of the run.
    manifest : Manifest
        The manifest of the run, which states the hash of the library.

    Returns
    -------
    Library or None
        None if the run has no held-out items.

    Raises
    ------
    DataError
        If the file is missing or holds another library.
    """
    if manifest.config.get("control_benchmark") is None:
        return None
    return _stored(run_dir / CONTROL_FILE, str(manifest.config.get("control_variants")))


def _stored(path: Path, wanted: str) -> Library:
    """Return a library that is stored in the run directory. Its hash is checked."""
    if not path.is_file():
        raise DataError(
            f"{path} is missing. Expected library {wanted[:12]}. Type the run's command again to store it."
        )
    library = read_library(path)
    if library.sha256 != wanted:
        raise DataError(
            f"{path} is library {library.sha256[:12]}. Expected library {wanted[:12]}, from which "
            "the run took its questions. Type the run's command again."
        )
    return library
