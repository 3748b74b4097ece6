"""Judge the cells of a memory audit, and quote the error rates of the nearest calibrated design."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import inf, log
from operator import itemgetter
from typing import Any

import numpy as np

from audit.core.json_types import attributes
from audit.core.number_text import percent
from audit.judge.record import Case, Judge, judge_cells
from audit.judging.result import Calibration, json_ready, sentence, sentences
from audit.judging.run import JudgedRun
from audit.judging.shipped import log_distance, nearest_design
from audit.judging.simulated import rate_text
from audit.memory.decide import cannot_exclude, decide, headline, tipping
from audit.memory.evidence import Evidence, Name, correct, measure
from audit.memory.gates import all_gates, no_likelihoods
from audit.memory.record import MemoryCell
from audit.memory.texts import CONDITIONS, INDICATORS, TEXTS
from audit.memory.vocabulary import MemoryResult
from audit.memory.without import score_without


def _result(case: Case[MemoryCell, Evidence, Evidence]) -> MemoryResult:
    """Return the verdict on one cell, with the estimate of its score without memory."""
    cell, evidence, gates, limits = case.cell, case.panel, case.gates, case.settings.thresholds
    if no_likelihoods(cell):  # Without likelihoods, only the gap can be measured.
        evidence = replace(evidence, indicators=(evidence.indicator(Name.GAP),))
    decision = decide(evidence, gates, limits)
    reason = headline(cell, decision.verdict, evidence, gates, limits.alpha)
    without = score_without(cell, evidence, gates)
    run = {
        "n": cell.published.n,
        "fresh": cell.fresh.n if cell.fresh else 0,
        "references": len(cell.references),
        "score_alone": no_likelihoods(cell),
        "accuracy": without.score.estimate if without.score else float("nan"),
    }
    near = None if cell.recorded else nearest(case.settings.table, run, limits.to_dict())
    return MemoryResult(
        model=cell.model,
        benchmark=cell.benchmark,
        decision=decision,
        headline=f"{without.sentence} {sentence(reason, TEXTS)}",
        cannot_exclude=sentences(cannot_exclude(cell, evidence, limits.alpha), TEXTS),
        gates=gates,
        evidence=evidence,
        without=without,
        holds_up_to=tipping(evidence, decision.verdict, limits),
        calibration=near,
    )


JUDGE = Judge(
    name=lambda cell: (cell.model, cell.benchmark),
    measure=lambda cell, s, rng: measure(cell, s.thresholds, rng=rng, n_resamples=s.n_resamples),
    over_panel=correct,
    gates=lambda case: all_gates(case.cell, case.panel, case.settings.thresholds),
    result=_result,
    shipped="calibration_memory.json",
)
# Before this function is called, `gates.readable` must be applied to the cells.
analyse = partial(judge_cells, JUDGE)


@dataclass(frozen=True, kw_only=True)
class RunVerdict(JudgedRun[MemoryCell, MemoryResult]):
    """Hold all judged cells of a run.

    Attributes
    ----------
    orders : dict
        Options of the run that determine the orders of items and of answer options.
    """

    audit = "memory"
    schema_version = "2.2"

    orders: dict[str, int]

    def mark(self, cell: MemoryCell, result: MemoryResult) -> str:
        """Return a note on missing rows of a cell.

        Parameters
        ----------
        cell : MemoryCell
            The cell, with the names of the benchmark and of the held-out items.
        result : MemoryResult
            Not used.

        Returns
        -------
        str
            The note on the first set of items with missing rows; empty if no row is missing.
        """
        mark = self.marks.get((cell.model, cell.benchmark), "")
        if mark or cell.fresh is None:
            return mark
        return self.marks.get((cell.model, cell.fresh.name), "")

    def extra_fields(self) -> dict[str, Any]:
        """Return the fields that a memory audit adds to a run in verdict.json."""
        return {"orders": self.orders}

    def extra_cell_fields(self, cell: MemoryCell, result: MemoryResult) -> dict[str, Any]:
        """Return the fields that a memory audit adds to a cell in verdict.json."""
        return cell_dict(cell, result)


def cell_dict(cell: MemoryCell, result: MemoryResult) -> dict[str, Any]:
    """Return every statistic of one cell as JSON types.

    Parameters
    ----------
    cell : MemoryCell
        Measured results of the tested model and its references.
    result : MemoryResult
        The verdict and the evidence of the cell.

    Returns
    -------
    dict
        The fields of the cell in verdict.json.
    """
    evidence, tested, without = result.evidence, cell.tested[0], result.without
    scores = tested.score[~np.isnan(tested.score)]
    items = without.items
    named = []
    if items is not None:
        for i in items.order:
            if items.named[i]:
                named.append(cell.published.question_ids[i])
    indicators = []
    for shown in evidence.indicators:
        indicators.append({**json_ready(shown), "test": INDICATORS[shown.name].level})
    aucs = {}
    for name, (a, b) in evidence.aucs.items():
        aucs[name] = {"own": a, "beyond_references": b}
    imputed_gaps = []
    for imputed in evidence.imputed_gaps:
        imputed_gaps.append({**json_ready(imputed), "gamma": str(imputed.gamma)})
    return {
        "fresh": cell.fresh.name if cell.fresh else None,
        "indicators": indicators,
        "sensitivity": result.sensitivity,
        "without_memory": {
            **attributes(without, "sentence", "score", "needs"),
            "estimate": without.estimate,
            "holds_if": CONDITIONS,
            "items_named": named,
        },
        "score": float(scores.mean()) if scores.size else None,
        "chance": cell.published.chance,
        "n_questions": cell.published.n,
        "n_fresh": cell.fresh.n if cell.fresh else 0,
        "references": cell.reference_names,
        "reads": tested.reads,
        "evidence": {
            **attributes(
                evidence, "order", "options", "fresh_order", "exchangeable", "completion", "gap"
            ),
            **attributes(evidence, "kind", "apart", "left_out"),
            "aucs": aucs,
            "rasch": evidence.abilities[0] if evidence.abilities else None,
            "rasch_guessed": evidence.abilities[1] if len(evidence.abilities) > 1 else None,
            "held": imputed_gaps,
            "holds_up_to": None if result.holds_up_to is None else str(result.holds_up_to),
            "dropped": cell.dropped,
        },
    }


# Error rates are quoted only from a design within this distance of the run. A design with twice the
# items and half the held-out items of the run has the distance 1.4.
NEAR = 1.5
# In these simulated worlds no model has memory, but the two sets of items or the models differ. The
# report quotes the highest rate of findings over these worlds.
DIFFER = (
    "abler",
    "weaker",
    "spread_wider",
    "spread_narrower",
    "tau_2",
    "tau_4",
    "touchy",
    "larger_1.5",
    "family",
    "felt_2",
    "larger_all",
)


def nearest(
    table: Mapping[str, Any] | None,
    run: Mapping[str, Any],
    limits: Mapping[str, float] | None = None,
) -> Calibration | None:
    """Return the error rates of the calibrated design that is nearest to a run.

    Parameters
    ----------
    table : mapping or None
        The table of `audit calibrate`.
    run : mapping
        The design of the run: n, fresh (held-out items, 0 for none), references, accuracy on the
        published items, and score_alone.
    limits : mapping, optional
        The thresholds of the run. The sentence names the thresholds that differ from the table's.

    Returns
    -------
    Calibration or None
        The nearest design. It has no rates if its distance exceeds NEAR. None without a table.

    Notes
    -----
    The distance between run and design is the sum of four terms:

    - |log(ratio of the numbers of published items)|
    - |log(ratio of the numbers of held-out items)|
    - |log(ratio of (number of references + 1))|
    - |difference between the log-odds of the accuracies|

    A design is compared with the run only if score_alone is the same and both have (or both lack)
    held-out items. A run with held-out items but without references is compared with designs that
    have neither.
    """
    n, fresh, references = itemgetter("n", "fresh", "references")(run)
    if not fresh or not references:
        fresh = references = 0

    def distance(design: Mapping[str, Any]) -> float:
        """Return the distance of a calibrated design from the run.

        The distance is infinite if the two cannot be compared.
        """
        if bool(design["fresh"]) != bool(fresh) or design["score_alone"] != run["score_alone"]:
            return inf
        if fresh and np.isnan(run["accuracy"]):
            return inf
        many = log_distance(1 + references, 1 + design["references"])
        height = abs(_log_odds(run["accuracy"]) - _log_odds(design["accuracy"])) if fresh else 0.0
        return log_distance(n, design["n"]) + log_distance(fresh, design["fresh"]) + many + height

    size = f"{n:,} items, {fresh:,} held-out items, {references} references, accuracy {percent(run['accuracy'])}"
    none_near = f"No calibrated design is near ({size}), so no error rate is quoted."
    return nearest_design(
        table, distance, NEAR, sentence=rates_sentence, none_near=none_near, thresholds=limits
    )


def _log_odds(accuracy: float) -> float:
    """Return the log-odds of an accuracy. Accuracies are first limited to [.001, .999]."""
    bounded = min(max(accuracy, 0.001), 0.999)
    return log(bounded / (1 - bounded))


def rates_sentence(entry: Mapping[str, Any]) -> str:
    """Return a sentence on how often the audit is right and wrong in one calibrated design.

    Parameters
    ----------
    entry : mapping
        An entry of the calibration table.

    Returns
    -------
    str
        A sentence with four rates: false positives, findings, clearances and false negatives.
    """
    d, r = entry["design"], entry["rates"]
    held_out = (
        f"{d['fresh']} held-out items, {d['references']} references"
        if d["fresh"]
        else "no held-out items"
    )
    if d["score_alone"]:
        held_out += ", the score alone"
    text = (
        f"Nearest calibrated design: {d['n']} items, {held_out}. False positives: of simulated models without memory "
        f"this procedure finds memory in {rate_text(r, 'clean')}"
    )
    if not d["fresh"]:
        return (
            f"{text}, and names something of unknown cause in {rate_text(r, 'clean_unknown')}, or "
            f"{rate_text(r, 'sequenced_unknown')} if the published order is meaningful in itself. "
            "Without references it finds no memory, and without held-out items it clears no model."
        )
    simulated = []
    for name in DIFFER:
        if r.get(name) is not None:
            simulated.append(name)
    worst = max(simulated, key=lambda name: r[name], default=None)
    if worst is not None:
        worlds = f"{len(simulated)} worlds where models or items differ ({worst})"
        text += f", and in {rate_text(r, worst)} in the worst of {worlds}"
    read = ""
    if not d["score_alone"]:
        read = (
            f", and {rate_text(r, 'text')} of those to which published text and orders are likelier "
            "by .3 of their spread"
        )
    return (
        f"{text}. It finds {rate_text(r, 'answers')} of models that know the answers of 30 % of the items, "
        f"{rate_text(r, 'half')} of those that know half{read}. It clears {rate_text(r, 'clean_cleared')} of "
        f"models without memory, and (false negatives) {rate_text(r, 'gap_5_cleared')} of "
        "models that score 5 points more for answers that they know."
    )
