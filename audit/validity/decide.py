"""Decide one cell from its evidence and gates: its grade, its status and reasons.

`audit.judging.ladder` defines the grades. If checks failed, the failed check that comes first in
`_WITHHELD` (the order of li2026) determines the status.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist

from audit.judging.ladder import Bound, Contrast, grade
from audit.judging.result import Gate, Reason, Status, because, failed
from audit.judging.vocabulary import verdict_of
from audit.statistics.contracts import Mean
from audit.statistics.selectivity import Selectivity
from audit.validity.design import ValidityThresholds as Limits
from audit.validity.edits.record import Archetype, Family
from audit.validity.evidence import Evidence
from audit.validity.record import Cell
from audit.validity.vocabulary import GATES, VERDICTS, Decision
from audit.validity.vocabulary import ValidityStatus as S

_LATE = ("G5_archetype", "G6_repair_regression")
# Maps a confirmed status, and whether the edits move the key, to the codes of a reason and an
# advice.
_SHOWN = {
    (S.SELECTIVE, False): ("reacts", "read_moved_items"),
    (S.SELECTIVE, True): ("follows", "score_may_stand"),
    (S.NON_SELECTIVE, True): ("surface_wins", "score_is_not_ability"),
    (S.NON_SELECTIVE, False): ("stays", "score_may_stand"),
}
# The gates whose failure leads to each status, in order. None means all gates that are not listed.
_WITHHELD = (
    (S.INELIGIBLE_EDITS, ("G1_edits_reach_scorer", "G1_enough_edits")),
    (S.SCORER_UNVALIDATED, ("scorer_valid", "F3b_key_position", "F3c_label_values")),
    (S.FAILED, None),
    (S.INELIGIBLE_ARCHETYPE, _LATE[:1]),
    (S.EXPLORATORY, _LATE[1:]),
)


def decide(
    evidence: Evidence,
    gates: Sequence[Gate],
    thresholds: Limits,
    above_p: float | None,
    below_p: float | None,
) -> Decision:
    """Decide one cell. The first condition that applies determines the status.

    Parameters
    ----------
    evidence : Evidence
        Statistics of the cell.
    gates : sequence of Gate
        The checks of the measurement.
    thresholds : ValidityThresholds
        The thresholds.
    above_p, below_p : float or None
        The one-sided p-values of the tests that D is above (below) its bound. Holm's procedure
        corrected both over the cells of the panel and both directions.

    Returns
    -------
    Decision
        Status, grade, reasons and advice.

    Notes
    -----
    The scorer is checked before the baseline (G2), because the score of an invalid scorer does not
    measure the model.
    """
    for status, names in _WITHHELD:
        failing = []
        for gate in failed(gates):
            if gate.name in names if names else gate.name not in _LATE:
                failing.append(gate)
        if failing:
            decision = Decision.withheld(status, failing, GATES)
            if status != S.INELIGIBLE_ARCHETYPE:
                return decision
            # Edits with different contracts cannot be combined into a single number.
            graded = grade([Contrast("content", missing=("one_archetype",))])
            return replace(decision, grade=graded.grade)
    if evidence.primary is None or evidence.archetype is None:
        graded = grade([], ["nothing_to_compare"])
        return Decision(S.INELIGIBLE_EDITS, graded.grade, (because("nothing_to_compare"),))
    if not {g.name for g in gates if g.status == Status.PASS}.issuperset(_LATE):
        return Decision(S.EXPLORATORY, grade([], _LATE).grade, (because("checks_not_made"),))
    return _by_difference(evidence.primary, evidence, thresholds, above_p, below_p)


def _by_difference(
    d: Selectivity, e: Evidence, t: Limits, above_p: float | None, below_p: float | None
) -> Decision:
    """Return the decision that the difference D supports. All checks have passed."""
    directional = e.archetype != Archetype.INVARIANCE
    follow = e.families[Family.ATTRIBUTE].followed
    effect = because(
        "attribute_effect", difference=d.difference, low=d.low, high=d.high, directional=directional
    )
    share = because("as_expected", share=follow.estimate, low=follow.low, high=follow.high)

    more = above_p is not None and above_p <= t.alpha
    less = below_p is not None and below_p <= t.alpha
    reaches = e.families[Family.ATTRIBUTE].followed_held.low >= t.follow_min
    # If an edit moves the key, answers should reach the new key. If an edit does not move the key,
    # answers should stay the same.
    speaks, excluded = (less and not more, more and reaches) if directional else (more, less)
    graded = grade([Contrast("content", speaks, bound=Bound(excluded))])
    status = verdict_of(VERDICTS, graded.grade, e.archetype)
    if status != S.INDETERMINATE:
        code, step = _SHOWN[status, directional]
        numbers = {"margin": t.margin} if code == "stays" else {}
        why, advice = because(code, **numbers), because(step)
    elif more:
        why, advice = _not_reached(e, t)
    else:
        why, advice = _not_shown(d, e, t, directional, above_p, below_p)
    return Decision(status, graded.grade, (effect, share, why), (advice,))


def _not_reached(e: Evidence, t: Limits) -> tuple[Reason, Reason]:
    """Return the reason why answers move with the content but do not count as following it, and the
    advice.
    """
    family = e.families[Family.ATTRIBUTE]
    follow, least = family.followed, t.follow_min
    if follow.low >= least:
        why = because("follows_unless_unparsed", low=family.followed_held.low, least=least)
        return why, because("mend_unparsed")
    why = because("follows_too_rarely", low=follow.low, least=least)
    return why, because("ask_more", asked=follow.n, needed=items_for_limit(follow, least))


def _not_shown(
    d: Selectivity,
    e: Evidence,
    t: Limits,
    directional: bool,
    above_p: float | None,
    below_p: float | None,
) -> tuple[Reason, Reason]:
    """Return the reason why neither direction of D is shown, and the advice."""
    placebo, tested = e.placebo, e.families[Family.ATTRIBUTE].followed.n
    if placebo is not None:
        beyond = {"difference": placebo.estimate, "low": placebo.low, "high": placebo.high}
        if d.above_p <= t.alpha and not placebo.low > 0:
            return because("as_neutral_words", **beyond), because("read_moved_items")
        if not directional and d.high < t.margin and not placebo.high < t.margin:
            return because("beyond_neutral_words", **beyond), because("read_moved_items")
    why = because("neither_direction", above=above_p, below=below_p)
    least = (e.responses or d).below_p
    worst_case = min(p for p in (e.selective_p, e.non_selective_p) if p is not None)
    unread = any(family.read < family.asked for family in e.families.values())
    if unread and min(d.above_p, least) <= t.alpha < worst_case:
        return why, because("mend_unparsed")
    to_more = items_for_test(tested, e.selective_p, above_p, t.alpha)
    to_less = items_for_test(tested, e.non_selective_p, below_p, t.alpha)
    needed = min(filter(None, (to_more, to_less)), default=None)
    return why, because("ask_more", asked=tested, needed=needed)


def items_for_limit(rate: Mean, least: float) -> int | None:
    """Return how many items are needed for the lower confidence limit of a rate to reach a value.

    The estimated rate is assumed to stay the same with more items.

    Parameters
    ----------
    rate : Mean
        The rate.
    least : float
        The value that the lower limit must reach.

    Returns
    -------
    int or None
        The approximate number of items; None if no number is enough.
    """
    beyond = rate.estimate - least
    return math.ceil(rate.n * ((rate.estimate - rate.low) / beyond) ** 2) if beyond > 0 else None


def items_for_test(n: int, raw: float | None, corrected: float | None, alpha: float) -> int | None:
    """Return how many items are needed for a one-sided test to reject at level alpha.

    The estimated effect is assumed to stay the same with more items.

    Parameters
    ----------
    n : int
        The present number of items.
    raw, corrected : float or None
        The p-value with the present items, before and after correction for multiple tests. The
        ratio of the corrected to the raw p-value is assumed to stay the same.
    alpha : float
        Level of the test.

    Returns
    -------
    int or None
        The approximate number of items; None if the effect is zero or has the wrong sign for the
        test.
    """
    if raw is None or corrected is None or not 0 < raw < 0.49:
        return None
    z = NormalDist().inv_cdf
    return math.ceil(n * (z(1 - alpha * raw / corrected) / z(1 - raw)) ** 2)


def headline(cell: Cell, decision: Decision, e: Evidence, gates: Sequence[Gate]) -> Reason:
    """Return the code of a cell's headline, with the numbers that the headline quotes.

    Parameters
    ----------
    cell : Cell
        The cell, which names model and benchmark.
    decision : Decision
        The status and reasons.
    e : Evidence
        The statistics.
    gates : sequence of Gate
        The checks of the measurement.

    Returns
    -------
    Reason
        The code of a sentence of `audit.validity.texts`, with its numbers.
    """
    status = decision.verdict
    if status in (word for word, _ in _WITHHELD) or e.primary is None:
        why = list(dict.fromkeys(GATES[g.name].because for g in failed(gates) if g.name in GATES))
        return because("headline_withheld", who=cell.name, status=VERDICTS[status].name, why=why)
    d, follow = e.primary, e.families[Family.ATTRIBUTE].followed
    return because(
        "headline",
        who=cell.name,
        finding=decision.reasons[-1].code,
        difference=d.difference,
        low=d.low,
        high=d.high,
        share=follow.estimate,
    )


def cannot_exclude(cell: Cell, e: Evidence) -> tuple[Reason, ...]:
    """Return the explanations of the result that this audit did not exclude.

    Parameters
    ----------
    cell : Cell
        The answers.
    e : Evidence
        The statistics.

    Returns
    -------
    tuple of Reason
        The explanations that no validity audit excludes, and the explanations that a missing
        control would have excluded.
    """
    reasons = [because("construct_unknown"), because("other_edits")]
    if any(str(name).startswith("frame") for name in cell.families[Family.SEMANTIC].name.ravel()):
        reasons.append(because("only_frames"))
    if e.placebo is None:
        reasons.append(because("no_placebo"))
    if cell.n < 200:
        reasons.append(because("few_items", items=cell.n, clusters=len(set(cell.cluster.tolist()))))
    return tuple(reasons)
