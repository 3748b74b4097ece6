"""Make Tables 1 to 7 of li2026 in the paper's form, from any panel, for the page and as csv (pure).

The statuses are those of the paper's algorithm. Two tables of the paper describe its pipeline, and
a run fills them in its own way. Table 7 compares the rendered text with the tokens that were read.
Table 2 lists the injected faults and the chronology.
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
    ("F2", "what can be read changes with the edit"),
    ("F3", "unfaithful scoring, other"),
    ("F3a", "inverted convention"),
    ("F3b", "the key stands at one place"),
    ("F3c", "values that were not read"),
    ("F4", "broken pairing"),
    ("F5", "archetype mismatch"),
    ("F6", "edits change more than they name"),
    ("F7", "template and system prompt confounded"),
    ("F10", "other items in the context"),
)


@dataclass(frozen=True)
class PaperTable:
    """Hold a table with its number in the paper. All cells are texts.

    Attributes
    ----------
    number, title : int, str
        Number and title.
    columns, rows : tuple
        Header and rows.
    """

    number: int
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def paper_tables(verdict: RunVerdict, rows: ItemRows) -> tuple[PaperTable, ...]:
    """Return all seven tables. Table 2 names the entries of the runs' chronology.

    Parameters
    ----------
    verdict : RunVerdict
        Results.
    rows : ItemRows
        Rows of the runs.

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
    rows = []
    for id_, name, condition, checks in _GATES:
        n_cells, failed, absent = len(verdict.results), 0, 0
        for r in verdict.results:
            statuses = {gate.status for gate in r.gates if gate.name in checks}
            failed += Status.FAIL in statuses
            absent += statuses <= {Status.NOT_APPLICABLE}
        status = f"implemented; passed in {n_cells - failed - absent} of {n_cells} cells"
        status += f", {absent} cannot show it" if absent else ""
        rows.append((id_, name, condition.format_map(verdict.thresholds), status))
    return PaperTable(1, "Gates", ("ID", "Name", "Pass condition", "Status"), tuple(rows))


def _classes(results: Sequence[ValidityResult], met: Chronology | None) -> PaperTable:
    rows = []
    for id_, name in _CLASSES:
        put: list[Injected] = []
        injected: dict[str, None] = {}
        checks: dict[str, None] = {}
        for fault in chain.from_iterable(r.faults for r in results):
            if fault.fault == id_:
                put.append(fault)
                injected[fault.named] = None
                checks[GATES[fault.check].title if fault.check in GATES else fault.check] = None
        symptoms, fixes = [], []
        for entry in met.entries if met else ():
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
                _caught(put),
                "; ".join(symptoms) or ("not met" if met else "–"),
                "; ".join(fixes),
            )
        )
    columns = (
        "ID",
        "Class",
        "Injected into a copy of this run",
        "Check that must see it",
        "Caught",
        "Met while building",
        "Fix",
    )
    return PaperTable(2, "Failure classes: injected here, and met", columns, tuple(rows))


def _belongs(failure_class: str, id_: str) -> bool:
    """Return whether a failure class is the given class or a sub-case.

    F1a belongs to F1, but F10 does not. The sub-cases of F3 have rows of their own.
    """
    if failure_class == id_:
        return True
    sub_case = failure_class.removeprefix(id_)
    return id_ != "F3" and failure_class.startswith(id_) and sub_case in tuple("abcdefghij")


def _caught(put: Sequence[Injected]) -> str:
    if not put:
        return "–"
    states = Counter(fault.state for fault in put)
    caught, missed = states["caught"], states["missed"]
    # In the other cells the check failed before the injection, or the data cannot hold the fault.
    silent = len(put) - caught - missed
    rest = f"; {missed} missed" if missed else ""
    rest += f"; {silent} tell nothing" if silent else ""
    return f"{caught} of {len(put)}{rest}"


def _buckets(results: Sequence[ValidityResult]) -> PaperTable:
    rows = []
    for r in results:
        flags = ", ".join(r.paper.flags) if r.paper else ""
        rows.append((r.model, _benchmark(r), bucket_of(r), flags or "—"))
    return PaperTable(
        3, "Eligibility per cell", ("Model", "Benchmark", "Primary bucket", "Flags"), tuple(rows)
    )


def _scorers(verdict: RunVerdict) -> PaperTable:
    rows: dict[tuple[str, str], tuple[str, ...]] = {}
    for cell in verdict.cells:
        name, benchmark = str(cell.scorer["name"]), str(cell.scorer.get("benchmark", ""))
        reference = (
            SCORERS[REFERENCE[benchmark]].reference_of if benchmark in REFERENCE else "none named"
        )
        used = (
            "the same"
            if REFERENCE.get(benchmark) == name
            else f"{name}: {cell.scorer['reference_of']}"
        )
        evidence = " ".join(cell.scorer["evidence"])
        if not cell.scorer["validated"]:
            evidence = f"none; the status is scorer-unvalidated. {evidence}"
        rows[cell.benchmark, name] = (cell.benchmark, reference, used, evidence)
    columns = ("Benchmark", "Reference scorer", "Audit scorer used here", "Validation evidence")
    return PaperTable(4, "Scorer fidelity", columns, tuple(rows.values()))


def _mapping(results: Sequence[ValidityResult]) -> PaperTable:
    statuses = [r.paper.status for r in results if r.paper]
    rows = []
    for word, (raw, bucket, step) in APPENDIX_G.items():
        rows.append((raw, bucket, str(step), str(statuses.count(word))))
    return PaperTable(
        5, "Raw verdict to bucket", ("Raw verdict", "Paper bucket", "§3 step", "Cells"), tuple(rows)
    )


def _cells(results: Sequence[ValidityResult]) -> PaperTable:
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
    """Return the CSR of the placebo, and CSR divided by it, as in App. F.

    Parameters
    ----------
    e : Evidence
        Statistics of a cell.

    Returns
    -------
    tuple of float or None
        The placebo's change of score over the same denominator, and the ratio. None without a
        placebo, or if it changed no score. For an interval see the difference `Evidence.placebo`.
    """
    fmt, sem, attr, placebo = (e.families[f].score_change for f in Family)
    if not placebo > 0 or not np.isfinite(attr):
        return None
    floor = np.nan_to_num([fmt, sem]).tolist()
    placebo_csr = csr(placebo, *floor)
    return placebo_csr, csr(attr, *floor) / placebo_csr


def cell_validity_csv(verdict: RunVerdict) -> str:
    """Return Appendix G's cell_validity.csv.

    The six raw gate columns hold 1 or 0. They are empty if a single run cannot decide them.
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
    """Count the format edits that reach the scorer unchanged, by benchmark.

    Parameters
    ----------
    rows : ItemRows
        Rows of the runs.

    Returns
    -------
    dict of str to tuple of int
        For each benchmark, the number of format edits that were sent. Of these, the number with the
        same rendered text as the original (prompt and options), and the number with the same hash
        of tokens. The difference of the last two is the paper's main evidence for F1.
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
    """Return the bucket of Table 3."""
    return APPENDIX_G[r.paper.status][1] if r.paper else "none: nothing to compare"


def raw_verdict(r: ValidityResult) -> str:
    """Return the raw verdict as Appendix G writes it.

    For an exploratory cell it follows from the interval.
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
    """Return the entries of several chronologies, each once; None without a chronology."""
    present = list(filter(None, chronologies))
    if not present:
        return None
    entries = chain.from_iterable(chronology.entries for chronology in present)
    return Chronology(tuple(dict.fromkeys(entries)))


def _benchmark(r: ValidityResult) -> str:
    return r.benchmark + (f" ({r.context})" if r.context else "")


def _three(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "–"
