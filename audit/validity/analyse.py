"""Decide the status of each cell, and quote the error rates of the nearest calibrated design."""

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
from audit.judging.shipped import log_distance, nearest_design
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
    """Correct the p-values of all cells by Holm's procedure, over all cells and both directions.

    Parameters
    ----------
    evidence : sequence of Evidence
        The evidence of each cell.

    Returns
    -------
    list of list
        The adjusted p-values for D above and below its bound; None for a cell that was not tested.
    """
    rows: list[list[float | None]] = []
    for e in evidence:
        tested = e.primary is not None
        rows.append([e.selective_p, e.non_selective_p] if tested else [None, None])
    return holm_rows(rows)


def _result(case: _Case) -> ValidityResult:
    """Return the status of one cell, and the status that the paper's algorithm gives it."""
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
    """Return the numbers of a cell that the status algorithm of the paper (li2026) uses.

    Parameters
    ----------
    cell : Cell
        The answers.
    e : Evidence
        The statistics.
    gates : sequence of Gate
        The checks.

    Returns
    -------
    PaperCell or None
        The numbers; None if the cell has no score or no ratio CSR. For the ratio, answers are
        scored by the key of each edit. The baseline is the score of guessing.
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
        # li2026, Table 1
        instrumented=passed["G1_edits_reach_scorer"] and passed["G1_answers_readable"],
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
    """Hold all judged cells of a run.

    Attributes
    ----------
    edits : dict
        Facts about the edits. The entry "replaced" maps the name of each edit to how often the edit
        changed nothing and another edit replaced it.
    chronology : Chronology or None
        The faults and repairs of the runs, as the paper lists them.
    """

    audit = "validity"
    schema_version = "1.2"

    edits: dict[str, Any]
    chronology: Chronology | None = None

    def extra_fields(self) -> dict[str, Any]:
        """Return the fields that a validity audit adds to a run in verdict.json.

        Returns
        -------
        dict
            The facts about the edits, the data that each gate reads, and the ids of all entries of
            the chronology (Box 1 of the paper requires all entries).
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

    def extra_cell_fields(self, cell: Cell, result: ValidityResult) -> dict[str, Any]:
        """Return the fields that a validity audit adds to a cell in verdict.json."""
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
    """Return the error rates of the calibrated design that is nearest to a cell.

    Parameters
    ----------
    table : mapping or None
        The table of `audit calibrate`.
    clusters : int
        Number of independent items. Designs are compared by its logarithm.
    change : float
        Share of answers that change under surface edits.
    thresholds : mapping or None
        The thresholds of the run. The quoted sentence names each threshold that differs from its
        value in the table.

    Returns
    -------
    Calibration or None
        The design with its rates. None if the table is missing or `change` is not known.
    """
    if table is None or not np.isfinite(change):
        return None
    return nearest_design(
        table,
        lambda design: (
            log_distance(clusters, design["clusters"]) + 3 * abs(change - design["change"])
        ),
        inf,  # The nearest design is always quoted, since the level holds in every design.
        sentence=partial(rates_sentence, table=table),
        none_near="",
        thresholds=thresholds,
    )


def rates_sentence(entry: Mapping[str, Any], table: Mapping[str, Any]) -> str:
    """Return a sentence with the error rates of one calibrated design.

    Parameters
    ----------
    entry : mapping
        An entry of the calibration table.
    table : mapping
        The whole table.

    Returns
    -------
    str
        The rates in the worst of the simulated worlds.
    """
    d, r = entry["design"], entry["rates"]
    shown = {name: percent(value) for name, value in r.items()}
    return (
        f"Nearest calibrated design: {d['clusters']} independent items, and edits of layout or wording that change "
        f"{percent(d['change'])} of the answers. Error rates in the worst of {len(table['worlds'])} simulated worlds "
        f"({table['models']:,} models): if edits of the content change equally many answers, this procedure reports "
        f"more changes in {shown['selective']} and fewer in {shown['non_selective']} of models. If they change "
        f"{percent(table['thresholds']['margin'])} more, it reports that answers stay in {shown['within_margin']}. "
        f"The interval of a reported ratio (CSR) lies above 1 in {shown['ratio_selective']} and below 1 in "
        f"{shown['ratio_non_selective']}. Each of these rates should be at most 2.5 %. The plain interval of the "
        f"ratio, on which no status depends, lies above 1 in {shown['csr_selective']} and below 1 in "
        f"{shown['csr_non_selective']}."
    )
