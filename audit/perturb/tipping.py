"""How far a verdict holds if unparsed answers were not like the others: its tipping point, and the worst case."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.errors import DataError
from audit.perturb.decide import finding, standing
from audit.perturb.design import PerturbThresholds
from audit.perturb.evidence import adverse, no_larger, no_larger_beside_references
from audit.perturb.grounds import Evidence
from audit.perturb.record import PerturbCell, Wordings
from audit.perturb.vocabulary import Decision, PerturbVerdict
from audit.statistics.unparsed import tipping_point
from audit.verdict.result import Reason, because


@dataclass(frozen=True)
class Unparsed:
    """share: unparsed of the tested model's answers (0-1). holds: of which verdict the tipping point is; None where
    none hangs on them. tipping_point: the odds ratio up to which it holds, null in verdict.json where the worst case
    leaves it (`worst_case`). largest_worst: the largest drop in the worst case, 0-1."""

    share: float
    holds: PerturbVerdict | None
    tipping_point: float
    worst_case: bool
    largest_worst: float | None

    @property
    def reason(self) -> Reason:
        return because("unparsed", **vars(self))


def unparsed(
    cell: PerturbCell,
    evidence: Evidence,
    decision: Decision,
    thresholds: PerturbThresholds,
    pvalues: Sequence[float | None],
    *,
    rng: np.random.Generator,
    n_draws: int,
) -> Unparsed | None:
    """Of one cell; None where all that was asked was parsed, of the references too. pvalues: (found, beyond) after the
    panel's correction. A finding that is withheld for its unparsed answers has its tipping point, too."""
    if not any(part.any() for w in (cell.tested, *cell.references) for part in w.unread):
        return None
    alpha, tests = thresholds.alpha, evidence.tests
    found = finding(tests, alpha, *pvalues) if evidence.drop.drop.low > 0 else None
    cleared = decision.verdict == PerturbVerdict.NO_DROP_DETECTED

    def holds(gamma: float) -> bool:
        if cleared:
            beside = no_larger_beside_references(cell, thresholds, gamma) or 0.0
            return max(no_larger(cell, thresholds, gamma)[0].p_no_larger, beside) <= alpha
        try:
            held = adverse(cell, tests, thresholds, gamma, rng=rng, n_draws=n_draws)
        except DataError:  # a reference that is not above chance then
            return False
        return standing(replace(tests, adverse=held), alpha, *pvalues) == found

    hanging = decision.verdict != PerturbVerdict.UNDERPOWERED and (cleared or found is not None)
    point = tipping_point(holds) if hanging else float("nan")
    of = (PerturbVerdict.NO_DROP_DETECTED if cleared else found) if hanging else None
    return Unparsed(_share(cell.tested), of, point, bool(np.isinf(point)), evidence.largest_worst)


def _share(tested: Wordings) -> float:
    lost = sum(int(part.sum()) for part in tested.unread)
    asked = int(tested.was_asked.sum()) + len(tested.original) * int(tested.was_asked.any(axis=0).sum())
    return lost / max(asked, 1)
