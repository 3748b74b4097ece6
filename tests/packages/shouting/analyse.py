"""Outcomes -> verdict: exact McNemar of the loudest volume against the original, Holm over the
models."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from audit.core.records import Setting
from audit.judge.gates import parsed
from audit.judge.record import Case, Judge, Settings
from audit.judging.ladder import Bound, Contrast, Grade, grade
from audit.judging.result import Gate, advice_of, because, failed, sentence
from audit.judging.vocabulary import gate_reasons
from audit.statistics.mcnemar import mcnemar_exact
from audit.statistics.multiplicity import holm
from audit.statistics.paired import CellOutcomes, State
from shouting.config import ShoutingThresholds
from shouting.texts import TEXTS
from shouting.vocabulary import GATES, Decision, Evidence, ShoutingResult, Verdict

Z90 = float(norm.ppf(0.95))
_Case = Case[CellOutcomes, Evidence, float]


def measure(
    cell: CellOutcomes, settings: Settings[ShoutingThresholds], rng: np.random.Generator
) -> Evidence:
    plain = cell.row(Setting("original", 0, 0))
    loud = cell.row(max(cell.settings_of("variant"), key=lambda s: s.level))
    both = (plain >= State.WRONG) & (loud >= State.WRONG)
    lost = (plain[both] - loud[both]).astype(float)
    n, cost = int(both.sum()), float(lost.mean())
    half = Z90 * float(lost.std()) / np.sqrt(n)
    p = float(mcnemar_exact((lost > 0).sum(), (lost < 0).sum()))
    return Evidence(n, float(plain[both].mean()), cost, cost - half, cost + half, p)


def gates(case: _Case) -> tuple[Gate, ...]:
    return (parsed(case.cell, case.settings.thresholds.answered_share_min),)


def decide(
    e: Evidence, p: float, blocking: Sequence[Gate], thresholds: ShoutingThresholds
) -> Decision:
    speaks, excluded = p <= thresholds.alpha and e.low > 0, e.high <= thresholds.effect_of_interest
    graded = grade([Contrast("cost", speaks, bound=Bound(excluded))], [g.name for g in blocking])
    if blocking:
        return Decision(
            Verdict.WITHHELD, graded.grade, gate_reasons(blocking, GATES), advice_of(blocking)
        )
    cost = because("cost", cost=e.cost, low=e.low, high=e.high, p=p)
    left = because("cannot_rule_out", high=e.high, effect=thresholds.effect_of_interest)
    verdict, reasons, advice = {
        Grade.FOUND_STRONG: (Verdict.MATTERS, (cost,), (because("do_not_shout"),)),
        Grade.CLEARED: (Verdict.NOTHING, (cost,), ()),
    }.get(graded.grade, (Verdict.UNDERPOWERED, (cost, left), (because("ask_more"),)))
    return Decision(verdict, graded.grade, reasons, advice)


def result(case: _Case) -> ShoutingResult:
    e, cell = case.evidence, case.cell
    decision = decide(e, case.panel, failed(case.gates), case.settings.thresholds)
    head = because(
        f"headline_{decision.verdict}",
        model=cell.model,
        benchmark=cell.benchmark,
        cost=e.cost,
        high=e.high,
    )
    return ShoutingResult(
        model=cell.model,
        benchmark=cell.benchmark,
        decision=decision,
        headline=sentence(head, TEXTS),
        cannot_exclude=(sentence(because("other_tones"), TEXTS),),
        gates=case.gates,
        calibration=None,
        evidence=e,
        p_adjusted=case.panel,
    )


JUDGE = Judge(
    name=lambda cell: (cell.model, cell.benchmark),
    measure=measure,
    over_panel=lambda evidence: holm([e.p for e in evidence]).tolist(),
    gates=gates,
    result=result,
)
