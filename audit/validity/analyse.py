"""Judge a cell of the construct-validity audit, with Holm's correction over cells and
directions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

import numpy as np

from audit.core.json_types import attributes
from audit.core.number_text import percent
from audit.governance.chronology import Chronology
from audit.judge.record import Case, Judge, holm_rows, judge_cells
from audit.judging.result import Calibration, Gate, Status, sentence, sentences
from audit.judging.run import JudgedRun
from audit.judging.shipped import apart, nearest_design
from audit.validity.decide import cannot_exclude, decide, headline
from audit.validity.edits.record import Archetype, Family
from audit.validity.evidence import SURFACE, Evidence, measure
from audit.validity.faults import inject_all, regression_gate
from audit.validity.gates import all_gates
from audit.validity.record import Cell
from audit.validity.status import PaperCell, paper_status
from audit.validity.texts import TEXTS
from audit.validity.vocabulary import GATES, ValidityResult

_Case = Case[Cell, Evidence, list[float | None]]


def over_panel(evidence: Sequence[Evidence]) -> list[list[float | None]]:
    """Return the p-values [above, below] of each cell, after Holm over all cells and both
    directions.

    Parameters
    ----------
    evidence : sequence of Evidence
        Evidence of each cell.

    Returns
    -------
    list of list
        Adjusted p-values; None for a cell that was not tested.
    """
    rows: list[list[float | None]] = []
    for e in evidence:
        tested = e.primary is not None
        rows.append([e.selective_p, e.non_selective_p] if tested else [None, None])
    return holm_rows(rows)


def _result(case: _Case) -> ValidityResult:
    cell, e, t = case.cell, case.evidence, case.settings.thresholds
    above_p, below_p = case.panel
    injected = inject_all(cell, case.gates, t, np.random.default_rng([case.settings.seed, 1]))
    gates = (*case.gates, regression_gate(injected))
    decision, as_paper = decide(e, gates, t, above_p, below_p), paper_cell(cell, e, gates)
    change = np.fmax.reduce([e.families[f].response_change.estimate for f in SURFACE])
    return ValidityResult(
        model=cell.model,
        benchmark=cell.benchmark,
        context=cell.context,
        decision=decision,
        paper=None if as_paper is None else paper_status(as_paper),
        headline=sentence(headline(cell, decision, e, gates), TEXTS),
        cannot_exclude=sentences(cannot_exclude(cell, e), TEXTS),
        gates=gates,
        faults=injected,
        evidence=e,
        above_p=above_p,
        below_p=below_p,
        calibration=nearest(
            case.settings.table,
            clusters=len(np.unique(cell.cluster)),
            change=change,
            thresholds=t.to_dict(),
        ),
    )


def paper_cell(cell: Cell, e: Evidence, gates: Sequence[Gate]) -> PaperCell | None:
    """Return the numbers of a cell that the paper's algorithm reads.

    CSR is computed under the key of each edit. The baseline is guessing.

    Parameters
    ----------
    cell : Cell
        Answers.
    e : Evidence
        Statistics.
    gates : sequence of Gate
        Checks.

    Returns
    -------
    PaperCell or None
        None if the cell has no score or ratio.
    """
    ratio = e.csr.get("own key")
    if ratio is None or not e.score.n:
        return None
    passed = {g.name: g.status == Status.PASS for g in gates}
    return PaperCell(
        model=cell.model,
        benchmark=cell.benchmark,
        score=e.score.estimate,
        n=e.score.n,
        baseline=e.chance,
        delta_fmt=float(np.nan_to_num(e.families[Family.FORMAT].score_change)),
        delta_sem=float(np.nan_to_num(e.families[Family.SEMANTIC].score_change)),
        delta_attr=e.families[Family.ATTRIBUTE].score_change,
        ci_low=ratio.low,
        ci_high=ratio.high,
        instrumented=passed["G1_edits_reach_scorer"]
        and passed["G1_answers_readable"],  # li2026, Table 1
        scorer_validated=passed["scorer_valid"],
        archetype_aligned=e.archetype == Archetype.DIAGNOSTIC,
        g5=passed["G5_archetype"],
        g6=passed["G6_repair_regression"],
        paired=passed["G4_paired"],
    )


JUDGE = Judge(
    name=lambda cell: (cell.name,),
    measure=lambda cell, s, rng: measure(
        cell, margin=s.thresholds.margin, rng=rng, n_resamples=s.n_resamples
    ),
    over_panel=over_panel,
    gates=lambda case: all_gates(case.cell, case.evidence, case.settings.thresholds),
    result=_result,
    shipped="calibration_validity.json",
)
analyse = partial(judge_cells, JUDGE)


@dataclass(frozen=True, kw_only=True)
class RunVerdict(JudgedRun[Cell, ValidityResult]):
    """Hold all cells of a run.

    Attributes
    ----------
    edits : dict
        Counts of edits that were made and replaced.
    chronology : Chronology or None
        The failures and repairs of the runs, as the paper lists them.
    """

    audit = "validity"
    schema_version = "1.2"

    edits: dict[str, Any]
    chronology: Chronology | None = None

    def own(self) -> dict[str, Any]:
        """Return the fields of the verdict that only this audit has.

        The paper (Box 1) requires the whole chronology, so its entries are listed by id.
        """
        chronology: dict[str, list[str]] = {}
        if self.chronology:
            for part in ("entries", "repair_introduced", "unfixed"):
                chronology[part] = [entry.id for entry in getattr(self.chronology, part)]
        return {
            "edits": self.edits,
            "gate_inputs": {name: word.reads for name, word in GATES.items()},
            "chronology": chronology or None,
        }

    def own_of_cell(self, cell: Cell, result: ValidityResult) -> dict[str, Any]:
        return {
            **attributes(result, "context", "faults", "above_p", "below_p", "evidence"),
            "paper_status": result.paper,
            "n_items": cell.n,
            "n_clusters": len(set(cell.cluster.tolist())),
            "wanted": cell.wanted,
            "applicable": dict(cell.applicable),
            "scorer": dict(cell.scorer),
            "baseline": result.evidence.baseline,
        }


def nearest(
    table: Mapping[str, Any] | None,
    *,
    clusters: int,
    change: float,
    thresholds: Mapping[str, float] | None = None,
) -> Calibration | None:
    """Return the simulated design nearest to a cell.

    Parameters
    ----------
    table : mapping or None
        The shipped calibration.
    clusters : int
        The number of independent items, which is compared on a log scale.
    change : float
        The change of response in the surface families.
    thresholds : mapping or None
        The thresholds of the run. The sentence states if the table has another level or margin.

    Returns
    -------
    Calibration or None
        The design, its rates and a sentence; None without a table or a change.
    """
    if table is None or not np.isfinite(change):
        return None
    return nearest_design(
        table,
        lambda design: apart(clusters, design["clusters"]) + 3 * abs(change - design["change"]),
        inf,  # The nearest design always counts, as the level holds in every design.
        sentence=partial(rates_said, table=table),
        none_near="",
        thresholds=thresholds,
    )


def rates_said(entry: Mapping[str, Any], table: Mapping[str, Any]) -> str:
    """Describe the error rates of a simulated design."""
    d, r = entry["design"], entry["rates"]
    shown = {name: percent(value) for name, value in r.items()}
    return (
        f"With {d['clusters']} independent items and edits of layout or wording that change {percent(d['change'])} of "
        f"the answers, in the worst found of {len(table['worlds'])} simulated worlds ({table['models']:,} models): "
        f"where the content moves as many, it is said to move more in {shown['selective']} and fewer in "
        f"{shown['non_selective']}; where it moves {percent(table['thresholds']['margin'])} more, answers are said to "
        f"stay in {shown['within_margin']}. The paper's ratio (CSR) by its interval, where it is reported: above 1 in "
        f"{shown['ratio_selective']}, below 1 in {shown['ratio_non_selective']} (2.5 % is promised of each of these). "
        f"Its plain interval, which decides nothing: {shown['csr_selective']} and {shown['csr_non_selective']}."
    )
