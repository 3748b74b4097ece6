"""Build Tables 1 to 7 of li2026 from any panel, for the page and as csv.

The statuses are those of the paper's algorithm. Two tables of the paper describe the paper's own
pipeline, so they are adapted to a run:

- Table 7 compares the rendered text with the tokens that the scorer read.
- Table 2 lists the injected faults and the chronology.

This module does no I/O.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from audit.governance.chronology import Chronology
from audit.judging.result import Status
from audit.judging.tables import csv_text, digits
from audit.scoring.reference import REFERENCE, SCORERS
from audit.statistics.selectivity import csr
from audit.validity.analyse import RunVerdict, paper_cell
from audit.validity.cells import ItemRows
from audit.validity.edits.record import ORIGINAL, Family
from audit.validity.evidence import Evidence
from audit.validity.status import APPENDIX_G, GATE_COLUMNS, gate_columns, raw_words
from audit.validity.status import Status as PaperWord
from audit.validity.vocabulary import GATES, Injected, ValidityResult

# For each gate of the paper: identifier, name, condition to pass, and the checks of this program
# that implement it.
_GATES = (
    (
        "G1",
        "Scorer-faithful audit",
        "Less than {noop_share_max:.0%} of edits have the original's request (hash of the token "
        "ids). At least {applicable_share_min:.0%} of the edits exist, and {parse_share_min:.0%} "
        "of the answers to each are read.",
        ("G1_edits_reach_scorer", "G1_enough_edits", "G1_answers_readable"),
    ),
    (
        "G2",
        "Above-baseline original",
        "The score of originals is {baseline_standard_errors:g} standard errors above the best "
        "rule that never reads the question.",
        ("G2_above_baseline",),
    ),
    (
        "G3",
        "Non-trivial denominator",
        "The lower limit of the surface change is {denominator_min:g} or more. The gate withholds "
        "only the ratio.",
        ("G3_denominator",),
    ),
    (
        "G4",
        "Paired uncertainty",
        "Every row belongs to its original. Whole clusters are resampled with all their edits.",
        ("G4_paired", "G4_order"),
    ),
    (
        "G5",
        "Archetype disclosure",
        "Each context declares its contract, diagnostic or invariance, and does not mix them.",
        ("G5_archetype",),
    ),
    (
        "G6",
        "Repair-regression",
        "For every fault in a copy of this run, its check fails.",
        ("G6_repair_regression",),
    ),
)
_CLASSES = (
    ("F1", "silent no-op edits"),
    ("F2", "the edit changes which answers can be parsed"),
    ("F3", "unfaithful scoring, other"),
    ("F3a", "inverted convention"),
    ("F3b", "the key is always at one position"),
    ("F3c", "values that were not read"),
    ("F4", "broken pairing"),
    ("F5", "archetype mismatch"),
    ("F6", "edits change more than intended"),
    ("F7", "template and system prompt are confounded"),
    ("F10", "other items in the context"),
)


@dataclass(frozen=True)
class PaperTable:
    """Hold a table of the paper. All fields are texts.

    Attributes
    ----------
    number : int
        Number in the paper.
    title : str
        Title.
    columns, rows : tuple
        Header and rows.
    """

    number: int
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def paper_tables(verdict: RunVerdict, rows: ItemRows) -> tuple[PaperTable, ...]:
    """Return all seven tables.

    Parameters
    ----------
    verdict : RunVerdict
        The judged run. Table 2 lists the entries of its chronology.
    rows : ItemRows
        The rows of the runs.

    Returns
    -------
    tuple of PaperTable
        Tables 1 to 7.
    """
    return (
        _gates(verdict),
        _classes(verdict.results, verdict.chronology),
        _buckets(verdict.results),
        _scorers(verdict),
        _mapping(verdict.results),
        _cells(verdict.results),
        _no_ops(rows),
    )


def _gates(verdict: RunVerdict) -> PaperTable:
    """Return Table 1: the gates, and the number of cells in which each gate passes."""
    rows = []
    for id_, name, condition, checks in _GATES:
        n_cells, failed, absent = len(verdict.results), 0, 0
        for r in verdict.results:
            statuses = {gate.status for gate in r.gates if gate.name in checks}
            failed += Status.FAIL in statuses
            absent += statuses <= {Status.NOT_APPLICABLE}
        status = f"implemented; passed in {n_cells - failed - absent} of {n_cells} cells"
        status += f", not applicable in {absent}" if absent else ""
        rows.append((id_, name, condition.format_map(verdict.thresholds), status))
    return PaperTable(1, "Gates", ("ID", "Name", "Pass condition", "Status"), tuple(rows))


def _classes(results: Sequence[ValidityResult], chronology: Chronology | None) -> PaperTable:
    """Return Table 2: the failure classes, with the injected and the observed faults."""
    rows = []
    for id_, name in _CLASSES:
        faults: list[Injected] = []
        injected: dict[str, None] = {}
        checks: dict[str, None] = {}
        for fault in chain.from_iterable(r.faults for r in results):
            if fault.fault == id_:
                faults.append(fault)
                injected[fault.named] = None
                checks[GATES[fault.check].title if fault.check in GATES else fault.check] = None
        symptoms, fixes = [], []
        for entry in chronology.entries if chronology else ():
            if _belongs(entry.failure_class, id_):
                symptoms.append(f"{entry.id}: {entry.symptom}")
                if entry.fix:
                    fixes.append(f"{entry.id}: {entry.fix}")
        rows.append(
            (
                id_,
                name,
                "; ".join(injected) or "nothing was injected",
                "; ".join(checks),
                _caught(faults),
                "; ".join(symptoms) or ("not observed" if chronology else "–"),
                "; ".join(fixes),
            )
        )
    columns = (
        "ID",
        "Class",
        "Injected into a copy of this run",
        "Check that must catch it",
        "Caught",
        "Observed while building",
        "Fix",
    )
    return PaperTable(2, "Failure classes: injected and observed", columns, tuple(rows))


def _belongs(failure_class: str, id_: str) -> bool:
    """Return whether a failure class is a given class or one of its sub-cases (F1a is one of F1).

    F10 is no sub-case of F1. The sub-cases of F3 count as separate classes, since each has a row.
    """
    if failure_class == id_:
        return True
    sub_case = failure_class.removeprefix(id_)
    return id_ != "F3" and failure_class.startswith(id_) and sub_case in tuple("abcdefghij")


def _caught(faults: Sequence[Injected]) -> str:
    """Return how many of the injected faults were caught by their checks."""
    if not faults:
        return "–"
    states = Counter(fault.state for fault in faults)
    caught, missed = states["caught"], states["missed"]
    # In the other cells the check failed before the injection, or the data cannot hold the fault.
    untested = len(faults) - caught - missed
    rest = f"; {missed} missed" if missed else ""
    rest += f"; {untested} not testable" if untested else ""
    return f"{caught} of {len(faults)}{rest}"


def _buckets(results: Sequence[ValidityResult]) -> PaperTable:
    """Return Table 3: the bucket of each cell."""
    rows = []
    for r in results:
        flags = ", ".join(r.paper.flags) if r.paper else ""
        rows.append((r.model, _benchmark(r), bucket_of(r), flags or "—"))
    return PaperTable(
        3, "Eligibility per cell", ("Model", "Benchmark", "Primary bucket", "Flags"), tuple(rows)
    )


def _scorers(verdict: RunVerdict) -> PaperTable:
    """Return Table 4: the scorer of each benchmark with its evidence."""
    rows: dict[tuple[str, str], tuple[str, ...]] = {}
    for cell in verdict.cells:
        name, benchmark = str(cell.scorer["name"]), str(cell.scorer.get("benchmark", ""))
        reference, used = "none named", f"{name}: {cell.scorer['reference_of']}"
        if benchmark in REFERENCE:
            reference = SCORERS[REFERENCE[benchmark]].reference_of
            if REFERENCE[benchmark] == name:
                used = "the same"
        evidence = " ".join(cell.scorer["evidence"])
        if not cell.scorer["validated"]:
            evidence = f"no evidence; the status is scorer-unvalidated. {evidence}"
        rows[cell.benchmark, name] = (cell.benchmark, reference, used, evidence)
    columns = ("Benchmark", "Reference scorer", "Audit scorer used here", "Validation evidence")
    return PaperTable(4, "Scorer fidelity", columns, tuple(rows.values()))


def _mapping(results: Sequence[ValidityResult]) -> PaperTable:
    """Return Table 5: the raw verdict, bucket and step of each status."""
    statuses = [r.paper.status for r in results if r.paper]
    rows = []
    for word, (raw, bucket, step) in APPENDIX_G.items():
        rows.append((raw, bucket, str(step), str(statuses.count(word))))
    return PaperTable(
        5, "Raw verdict to bucket", ("Raw verdict", "Paper bucket", "§3 step", "Cells"), tuple(rows)
    )


def _cells(results: Sequence[ValidityResult]) -> PaperTable:
    """Return Table 6: the numbers of each cell."""
    rows = []
    for r in results:
        e = r.evidence
        ratio, placebo = e.csr.get("own key"), placebo_ratio(e)
        rows.append(
            (
                r.model,
                _benchmark(r),
                _three(e.score.estimate),
                _three(e.families[Family.FORMAT].score_change),
                _three(e.families[Family.SEMANTIC].score_change),
                _three(e.families[Family.ATTRIBUTE].score_change),
                f"{ratio.estimate:.2f}" if ratio else "–",
                f"[{ratio.low:.2f}, {ratio.high:.2f}]" if ratio else "–",
                raw_verdict(r),
                f"{placebo[1]:.2f}" if placebo else "–",
            )
        )
    columns = (
        "Model",
        "Benchmark",
        "s_orig",
        "Δ_fmt",
        "Δ_sem",
        "Δ_attr",
        "CSR",
        "95% CI",
        "Raw verdict",
        "CSR / placebo CSR",
    )
    return PaperTable(6, "Numbers per cell (under each edit’s own key)", columns, tuple(rows))


def placebo_ratio(e: Evidence) -> tuple[float, float] | None:
    """Return the CSR of the placebo, and the CSR of the cell divided by the CSR of the placebo.

    Appendix F of li2026 defines both numbers.

    Parameters
    ----------
    e : Evidence
        The statistics of a cell.

    Returns
    -------
    tuple of float or None
        The CSR of the placebo (the change of score under the placebo divided by the denominator of
        CSR), and the CSR of the cell divided by the CSR of the placebo. None without a placebo, or
        if the placebo changed no score. The difference `Evidence.placebo` has an interval.
    """
    fmt, sem, attr, placebo = (e.families[f].score_change for f in Family)
    if not placebo > 0 or not np.isfinite(attr):
        return None
    floor = np.nan_to_num([fmt, sem]).tolist()
    placebo_csr = csr(placebo, *floor)
    return placebo_csr, csr(attr, *floor) / placebo_csr


def cell_validity_csv(verdict: RunVerdict) -> str:
    """Return cell_validity.csv of Appendix G.

    Parameters
    ----------
    verdict : RunVerdict
        The judged run.

    Returns
    -------
    str
        A csv text with one line for each cell. Each of the six gate columns holds 1 (passed), 0
        (failed), or nothing if a single run cannot decide the gate.
    """
    body = []
    for cell, r in zip(verdict.cells, verdict.results, strict=True):
        as_paper = paper_cell(cell, r.evidence, r.gates)
        if as_paper is None:
            continue
        gates = {gate.name: gate.status for gate in r.gates}
        read = gates["G1_answers_readable"] == Status.PASS
        columns: list[object] = []
        for passed in gate_columns(as_paper, read, None):
            columns.append("" if passed is None else int(passed))
        ratios = placebo_ratio(r.evidence) or (None, None)
        csr_ = r.evidence.csr["own key"]
        numbers = map(digits, (csr_.estimate, csr_.low, csr_.high, *ratios))
        body.append([r.model, r.benchmark, r.context, *columns, *numbers, raw_verdict(r)])
    head = (
        "model",
        "benchmark",
        "context",
        *GATE_COLUMNS,
        "csr",
        "ci_low",
        "ci_high",
        "csr_placebo",
        "placebo_ratio",
        "verdict",
    )
    return csv_text(head, body)


def _no_ops(rows: ItemRows) -> PaperTable:
    """Return Table 7: the share of format edits that change nothing, for each benchmark."""
    shown = []
    for benchmark, (edits, text, ids) in no_op_rates(rows).items():
        if edits:
            rates = f"{100 * text / edits:.1f}", f"{100 * ids / edits:.1f}"
            shown.append((benchmark, *rates, str(edits)))
    columns = (
        "Benchmark",
        "L: rendered text the same",
        "C: consumed tokens the same",
        "Edits asked",
    )
    return PaperTable(7, "Silent no-op rate of format edits (%)", columns, tuple(shown))


def no_op_rates(rows: ItemRows) -> dict[str, tuple[int, ...]]:
    """Count, for each benchmark, the format edits that change nothing.

    Parameters
    ----------
    rows : ItemRows
        The rows of the runs.

    Returns
    -------
    dict of str to tuple of int
        Maps each benchmark to three counts of format edits: the edits that were sent, the edits
        whose rendered text (prompt and options) equals that of the original, and the edits whose
        tokens equal those of the original (same hash).

    Notes
    -----
    The difference between the last two counts is the paper's main evidence for fault F1.
    """
    counts: dict[str, list[int]] = {}
    for (_, benchmark, _, _), item_values in rows.by_item("arm", "asked", "rendered", "consumed"):
        sent = [row for row in item_values if row["asked"]]
        originals = [row for row in sent if row["arm"] == ORIGINAL]
        if not originals:
            continue
        hashes = {row["consumed"] for row in originals} - {None}
        count = counts.setdefault(benchmark, [0, 0, 0])
        for row in sent:
            if row["arm"] == Family.FORMAT:
                count[0] += 1
                count[1] += row["rendered"] == originals[0]["rendered"]
                count[2] += row["consumed"] in hashes
    return {name: tuple(count) for name, count in sorted(counts.items())}


def bucket_of(r: ValidityResult) -> str:
    """Return the bucket of a cell in Table 3.

    Parameters
    ----------
    r : ValidityResult
        The result of the cell.

    Returns
    -------
    str
        The bucket (group of statuses) to which the paper assigns the status of the cell.
    """
    return APPENDIX_G[r.paper.status][1] if r.paper else "none: nothing to compare"


def raw_verdict(r: ValidityResult) -> str:
    """Return the raw verdict of a cell as Appendix G writes it.

    Parameters
    ----------
    r : ValidityResult
        The result of the cell.

    Returns
    -------
    str
        The raw verdict. If the cell is exploratory, the interval of CSR determines the raw verdict.
    """
    if r.paper is None:
        return "–"
    if r.paper.status != PaperWord.EXPLORATORY:
        return raw_words(r.paper.status)[0]
    ratio = r.evidence.csr.get("own key")
    if ratio and ratio.low > 1:
        return "selective"
    return "non_selective" if ratio and ratio.high < 1 else "none"


def merged(chronologies: Iterable[Chronology | None]) -> Chronology | None:
    """Return one chronology with the entries of several chronologies, without duplicates.

    Parameters
    ----------
    chronologies : iterable of Chronology or None
        The chronologies of the runs.

    Returns
    -------
    Chronology or None
        The joint chronology; None if no run has a chronology.
    """
    present = list(filter(None, chronologies))
    if not present:
        return None
    entries = chain.from_iterable(chronology.entries for chronology in present)
    return Chronology(tuple(dict.fromkeys(entries)))


def _benchmark(r: ValidityResult) -> str:
    return r.benchmark + (f" ({r.context})" if r.context else "")


def _three(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "–"
