"""Outcomes -> verdict: exact McNemar of the loudest volume against the original, Holm over the
models."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from audit.core.records import Setting
from audit.judge.gates import parsed
from audit.judge.record import Case, Judge, Settings
from audit.judging.ladder import Bound, Contrast, grade
from audit.judging.result import Gate, because, failed, sentence
from audit.judging.thresholds import Thresholds
from audit.judging.vocabulary import verdict_of
from audit.statistics.mcnemar import mcnemar_exact
from audit.statistics.multiplicity import holm
from audit.statistics.paired import CellOutcomes, State
from shouting.texts import TEXTS
from shouting.vocabulary import GATES, VERDICTS, Decision, Evidence, ShoutingResult, Verdict

Z90 = float(norm.ppf(0.95))
_Case = Case[CellOutcomes, Evidence, float]


def measure(
    cell: CellOutcomes, settings: Settings[Thresholds], rng: np.random.Generator
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


def decide(e: Evidence, p: float, blocking: Sequence[Gate], thresholds: Thresholds) -> Decision:
    if blocking:
        return Decision.withheld(Verdict.WITHHELD, blocking, GATES)
    effect = thresholds.effect_of_interest
    bound = Bound(e.high <= effect, room=e.accuracy >= effect)
    graded = grade([Contrast("cost", p <= thresholds.alpha and e.low > 0, bound=bound)])
    verdict = verdict_of(VERDICTS, graded.grade)
    reasons = [because("cost", cost=e.cost, low=e.low, high=e.high, p=p)]
    if verdict in (Verdict.UNDERPOWERED, Verdict.NOT_IDENTIFIED):
        reasons.append(because(f"why_{verdict}", high=e.high, score=e.accuracy, effect=effect))
    advice = () if verdict == Verdict.NOTHING else (because(f"advice_{verdict}"),)
    return Decision(verdict, graded.grade, tuple(reasons), advice)


def result(case: _Case) -> ShoutingResult:
    e, name = case.evidence, {"model": case.cell.model, "benchmark": case.cell.benchmark}
    decision = decide(e, case.panel, failed(case.gates), case.settings.thresholds)
    head = because(f"headline_{decision.verdict}", **name, cost=e.cost, high=e.high)
    return ShoutingResult(
        **name,
        decision=decision,
        headline=sentence(head, TEXTS),
        cannot_exclude=(sentence(because("other_tones"), TEXTS),),
        gates=case.gates,
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
