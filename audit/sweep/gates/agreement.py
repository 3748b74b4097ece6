"""Is a question the same question in every arm?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from audit.judge.gates import Agreement, agreement
from audit.records import Setting
from audit.statistics.chance import chance_check
from audit.statistics.paired import CellOutcomes, FloatArray
from audit.statistics.values import settings_values, to_values
from audit.sweep.design import Arm, Draws
from audit.sweep.messages import TextMeasures
from audit.sweep.record import label
from audit.sweep.thresholds import SweepThresholds
from audit.verdict.result import MAX_ITEMS, Gate, Rule, Status

_ARM_WORDS: dict[str, str] = {
    Arm.DIRECT: "direct",
    Arm.FORWARD_FULL: "the clean arm",
    Arm.NOISY_REWRITE: "the noisy arm",
}


def pairing(cell: CellOutcomes, texts: TextMeasures | None, thresholds: SweepThresholds) -> Gate:
    """The same question must be the same question in every arm.

    Its stored text, options and gold must be one in all rows. And where right and wrong answers agree well within an
    arm (some questions are easy, some hard), they must agree between arms too. Each arm's accuracy per question (mean
    over its settings) is correlated with that of all other arms; with ten times `pairing_questions_min` questions and
    three or more settings in the other arms, each single setting is too, so that one shuffled r is found. What is not
    itself above chance carries no signal and is left out.

    A correlation is judged only where the agreement within the two sides lets enough be expected to tell it from none
    (the root of the product of their reliabilities; Spearman 1904, American Journal of Psychology 15). A model that is
    nearly always right, or whose answers are half luck, agrees weakly with itself, and nothing follows from that.
    number: z = correlation * sqrt(n - 1) of the comparison that is furthest below what was expected.
    """
    name, source, limit = "pairing", "ours; conf/verdict: pairing_z_min", thresholds.pairing_z_min
    if texts is not None and texts.mixed_ids:
        count = len(texts.mixed_ids)
        return Gate(
            name=name,
            status=Status.FAIL,
            number=None,
            threshold=limit,
            source=source,
            detail=f"The question, options or right answer of {count} question {'id' if count == 1 else 'ids'} differ "
            "between rows.",
            advice="These ids do not mean one question: run the audit again from one benchmark file.",
            items=texts.mixed_ids[:MAX_ITEMS],
            item_count=count,
        )
    found = _agreements(cell, thresholds)
    if not found:
        return Rule(name, limit, source).absent(
            "Nothing can be checked beyond the texts: answers must agree well enough within the arms (several settings "
            f"above chance, with right and wrong answers to {thresholds.pairing_questions_min} questions or more)."
        )
    worst = min(found, key=lambda one: one.found.z - one.found.limit)
    at = worst.found
    return Rule(name, at.limit, source).checked(
        passed=at.z >= at.limit,
        number=at.z,
        detail=f"Right and wrong answers under {worst.what} agree with the other arms {at.z:.1f} standard errors "
        f"better than shuffled questions would; {at.expected:.0f} are expected from the agreement within the arms "
        f"(the lowest of {len(found)} comparisons).",
        advice="Answers of one arm seem to belong to other questions: compare the rows of one id across arms.",
        numbers={"comparisons": float(len(found)), "noisy_compared": float(any(one.noisy for one in found))},
    )


@dataclass(frozen=True)
class _Compared:
    what: str
    noisy: bool
    found: Agreement


def _agreements(cell: CellOutcomes, thresholds: SweepThresholds) -> list[_Compared]:
    """Every comparison of a side with the settings of the other arms that can speak."""
    within = _Within(cell, thresholds)
    found = []
    for arm, settings in within.arms().items():
        others = [s for s in within.usable if s not in settings]
        sides = {arm: settings}
        if len(others) >= 3 and cell.n >= 10 * thresholds.pairing_questions_min and len(settings) > 1:
            sides |= {label(s): [s] for s in settings}
        for what, side in sides.items():
            one = _compared(cell, within, side, others, thresholds) if others else None
            if one is not None:
                found.append(_Compared(what, arm == _ARM_WORDS[Arm.NOISY_REWRITE], one))
    return found


def _compared(
    cell: CellOutcomes, within: _Within, side: Sequence[Setting], others: Sequence[Setting], thresholds: SweepThresholds
) -> Agreement | None:
    """None where the two cannot tell a pairing."""
    reliable, rest = within.reliability(side), within.reliability(others)
    if reliable is None and rest is None:
        return None
    x, y = settings_values(cell, side), settings_values(cell, others)
    both = ~np.isnan(x - y)
    x, y = x[both], y[both]
    if x.size < thresholds.pairing_questions_min or abs(x.mean() - y.mean()) >= thresholds.brittle_drop_min:
        return None  # what costs so much accuracy may cost the agreement too
    # a side that cannot tell is taken to be as the other
    own = _stepped_up(rest if reliable is None else reliable, within.count(side))
    theirs = _stepped_up(reliable if rest is None else rest, within.count(others))
    return agreement(x, y, float(np.sqrt(own * theirs)), thresholds.pairing_z_min)


class _Within:
    """The settings of a cell that can speak, and how well they agree among themselves.

    Settings of nested draws share messages within their arm and replicate, and agree for that reason alone: their
    agreement says nothing of the questions, and together they count as one.
    """

    def __init__(self, cell: CellOutcomes, thresholds: SweepThresholds) -> None:
        values = {s: to_values(cell.row(s)) for s in cell.settings}
        self.usable = {s: v for s, v in values.items() if _speaks(v, cell, thresholds)}
        self.nested = cell.draws == Draws.NESTED
        self.pairs = {
            (s, t): _correlation(self.usable[s], self.usable[t])
            for s, t in combinations(self.usable, 2)
            if not self.nested or (s.arm, s.replicate) != (t.arm, t.replicate)
        }

    def arms(self) -> dict[str, list[Setting]]:
        arms: dict[str, list[Setting]] = {}
        for setting in self.usable:
            ensemble = setting.arm == Arm.FORWARD_FULL and setting.level > 1
            arms.setdefault("the ensemble control" if ensemble else _ARM_WORDS[setting.arm], []).append(setting)
        return arms

    def reliability(self, settings: Sequence[Setting]) -> float | None:
        """Mean correlation of two of these settings; None where no two can be correlated."""
        known = [r for (s, t), r in self.pairs.items() if s in settings and t in settings and not np.isnan(r)]
        return max(float(np.mean(known)), 0.0) if known else None

    def count(self, settings: Sequence[Setting]) -> int:
        return len({(s.arm, s.replicate) for s in settings}) if self.nested else len(settings)


def _speaks(values: FloatArray, cell: CellOutcomes, thresholds: SweepThresholds) -> bool:
    """Whether a setting has enough answers, right and wrong ones, and is above chance."""
    there = ~np.isnan(values)
    answered = values[there]
    if answered.size < thresholds.pairing_questions_min or answered.std() == 0:
        return False
    above = chance_check(float(answered.mean()), cell.n_options[there], thresholds.above_chance_standard_errors).above
    return bool(above)


def _correlation(x: FloatArray, y: FloatArray) -> float:
    """Over the questions answered in both; NaN where one side does not vary."""
    both = ~np.isnan(x - y)
    x, y = x[both], y[both]
    return float(np.corrcoef(x, y)[0, 1]) if x.size > 1 and x.std() > 0 and y.std() > 0 else float("nan")


def _stepped_up(correlation: float | None, k: int) -> float:
    """Reliability of the mean of k settings of which two correlate so (Spearman-Brown)."""
    assert correlation is not None  # noqa: S101 - one side could tell
    return k * correlation / (1 + (k - 1) * correlation)
