"""How the memory audit judges a cell. Holm's correction is over every indicator of every cell that could be judged."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.json_types import attributes
from audit.judge.record import Case, Judge, Settings, judge_cells
from audit.memory.calibrated import nearest
from audit.memory.decide import cannot_exclude, decide, headline, tipping
from audit.memory.design import MemoryThresholds
from audit.memory.evidence import Evidence, correct
from audit.memory.gates import all_gates, readable
from audit.memory.measure import measure
from audit.memory.record import MemoryCell
from audit.memory.result import MemoryResult
from audit.memory.texts import CONDITIONS, INDICATORS, TEXTS
from audit.memory.without import score_without
from audit.verdict.result import json_ready, sentence, sentences
from audit.verdict.run import JudgedRun


def analyse(cells: Sequence[MemoryCell], settings: Settings[MemoryThresholds]) -> tuple[MemoryResult, ...]:
    """One result a cell, in order."""
    return judge_cells(JUDGE, [readable(cell, settings.thresholds) for cell in cells], settings)


def _result(case: Case[MemoryCell, Evidence, Evidence]) -> MemoryResult:
    cell, evidence, gates, thresholds = case.cell, case.panel, case.gates, case.settings.thresholds
    decision = decide(evidence, gates, thresholds)
    said = headline(cell, decision.verdict, evidence, gates, thresholds.alpha)
    without = score_without(cell, evidence, gates)
    return MemoryResult(
        model=cell.model,
        benchmark=cell.benchmark,
        decision=decision,
        headline=f"{without.sentence} {sentence(said, TEXTS)}",
        cannot_exclude=sentences(cannot_exclude(cell, evidence, thresholds.alpha), TEXTS),
        gates=gates,
        evidence=evidence,
        without=without,
        holds_up_to=tipping(evidence, decision.verdict, thresholds),
        calibration=None
        if cell.recorded
        else nearest(
            case.settings.table,
            n=cell.published.n,
            fresh=cell.fresh.n if cell.fresh else 0,
            references=len(cell.references),
            thresholds=thresholds.to_dict(),
        ),
    )


JUDGE = Judge(
    name=lambda cell: (cell.model, cell.benchmark),
    measure=lambda cell, s, rng: measure(cell, s.thresholds, rng=rng, n_resamples=s.n_resamples),
    over_panel=correct,
    gates=lambda case: all_gates(case.cell, case.panel, case.settings.thresholds),
    result=_result,
)


@dataclass(frozen=True, kw_only=True)
class RunVerdict(JudgedRun[MemoryCell, MemoryResult]):
    """All judged cells of a run. orders: how the orders were made."""

    audit = "memory"
    schema_version = "2.1"

    orders: dict[str, int]

    def mark(self, cell: MemoryCell, result: MemoryResult) -> str:
        """Rows of the benchmark, or of the held-out items, may be missing."""
        names = [cell.benchmark] + ([cell.fresh.name] if cell.fresh else [])
        return next((self.marks[cell.model, name] for name in names if self.marks.get((cell.model, name))), "")

    def own(self) -> dict[str, Any]:
        return {"orders": self.orders}

    def own_of_cell(self, cell: MemoryCell, result: MemoryResult) -> dict[str, Any]:
        return cell_dict(cell, result)


def cell_dict(cell: MemoryCell, result: MemoryResult) -> dict[str, Any]:
    """Every statistic of one cell."""
    evidence, own = result.evidence, cell.tested[0]
    scores = own.score[~np.isnan(own.score)]
    return {
        "fresh": cell.fresh.name if cell.fresh else None,
        "indicators": [{**json_ready(one), "test": INDICATORS[one.name].level} for one in evidence.indicators],
        "sensitivity": result.sensitivity,
        "without_memory": _without(cell, result),
        "score": float(scores.mean()) if scores.size else None,
        "chance": cell.published.chance,
        "n_questions": cell.published.n,
        "n_fresh": cell.fresh.n if cell.fresh else 0,
        "references": [one[0].model for one in cell.references],
        "reads": own.reads,
        "evidence": {
            **attributes(evidence, "order", "options", "fresh_order", "exchangeable", "completion", "gap"),
            **attributes(evidence, "kind", "apart", "left_out"),
            "aucs": {name: {"own": a, "beyond_references": b} for name, (a, b) in evidence.aucs.items()},
            "rasch": evidence.abilities[0] if evidence.abilities else None,
            "rasch_guessed": evidence.abilities[1] if len(evidence.abilities) > 1 else None,
            "held": [{**json_ready(one), "gamma": str(one.gamma)} for one in evidence.held],
            "holds_up_to": None if result.holds_up_to is None else str(result.holds_up_to),
            "dropped": cell.dropped,
        },
    }


def _without(cell: MemoryCell, result: MemoryResult) -> dict[str, Any] | None:
    """The score without memory, when it holds, and the items that are named."""
    without = result.without
    if without is None:
        return None
    items = without.items
    named = [] if items is None else [cell.published.question_ids[i] for i in items.order if items.named[i]]
    return {
        "sentence": without.sentence,
        "score": without.score,
        "estimate": without.found,
        "needs": without.needs,
        "holds_if": CONDITIONS,
        "items_named": named,
    }
