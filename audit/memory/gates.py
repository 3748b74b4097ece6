"""Check the measurement of a memory audit. Each gate checks one cell and its evidence.

If a gate with `withholds` fails, the verdict is withheld. If another gate fails, only some
indicators are not judged (see `decide`). These other gates are `fresh_*`, `same_kind`,
`order_exchangeable` and, if likelihoods were measured, `above_guessing`.

A gate on a share fails only if the share is significantly below its limit. A reference with too few
readable answers is left out (`readable`).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from audit.core.number_text import percent, pvalue, signed_points
from audit.judge.gates import READ_ADVICE, log_checks, reached_model, read_limits
from audit.judging.result import Gate, Rule, because, sentences
from audit.memory.design import Arm, MemoryThresholds
from audit.memory.evidence import (
    Evidence,
    chances_differ,
    of_another_kind,
    selected,
    unmatched,
    words_reveal_order,
)
from audit.memory.record import ItemSet, MemoryCell, ModelSet, Reads
from audit.memory.texts import TEXTS
from audit.statistics.between_models import repeats

FREE_ANSWER = 0.05  # assumed probability of a right guess on a question without options
# The gates on readable rows. Each has its arms, a phrase for what must be readable, and the advice
# after a failure.
_READ = {
    "likelihoods_read": (
        (Arm.PUBLISHED, Arm.OPTIONS, Arm.ORDER),
        "of the given texts have a likelihood",
        "Look at the errors of these rows. Most common are texts longer than max_model_len.",
    ),
    "parseability": ((Arm.SCORE,), "of the answers are parsed", READ_ADVICE),
}


def all_gates(cell: MemoryCell, evidence: Evidence, limits: MemoryThresholds) -> tuple[Gate, ...]:
    """Return every gate, in the order in which the report lists them.

    Parameters
    ----------
    cell : MemoryCell
        Measured results of the tested model and its references.
    evidence : Evidence
        The statistics of the cell.
    limits : MemoryThresholds
        Thresholds of the memory audit.

    Returns
    -------
    tuple of Gate
        The gates, with the checks of an imported log first.
    """
    score_alone = no_likelihoods(cell)
    compared = cell.tested[0].reads[Arm.SCORE].asked > 0 and cell.fresh is not None
    return (
        *log_checks(cell.log_checks),
        was_read("likelihoods_read", cell, limits, withholds=True),
        orders_reach_model(cell, limits),
        was_read("parseability", cell, limits, withholds=cell.fresh is not None),
        *([same_guessing(cell, evidence, limits)] if chances_differ(cell) else []),
        fresh_matched(evidence, limits),
        fresh_drawn(evidence, limits),
        same_kind(evidence, limits),
        order_exchangeable(evidence, limits, recorded=cell.recorded),
        *([above_guessing(cell, withholds=score_alone)] if score_alone or compared else []),
    )


def no_likelihoods(cell: MemoryCell) -> bool:
    """Return whether only scores were measured and no likelihoods.

    This is so for imported logs and chat endpoints.

    Parameters
    ----------
    cell : MemoryCell
        The cell, with the number of rows in each arm.

    Returns
    -------
    bool
        False if no score was requested.
    """
    reads = cell.tested[0].reads
    return reads[Arm.SCORE].asked == sum(counts.asked for counts in reads.values()) > 0


def above_guessing(cell: MemoryCell, *, withholds: bool) -> Gate:
    """Check that the tested model scores above chance on the benchmark or on the held-out items.

    Parameters
    ----------
    cell : MemoryCell
        The scores on both sets.
    withholds : bool
        Whether a failure withholds the verdict; true if only the score was measured.

    Returns
    -------
    Gate
        The result of the check. Its number is the accuracy on the set where the model exceeds
        guessing most. Its threshold is chance plus two standard errors on this set.
    """
    sets = []
    for answers, items in _sides(cell, cell.tested):
        values = answers.score[~np.isnan(answers.score)]
        chance = items.chance or FREE_ANSWER
        limit = chance + 2.0 * float(np.sqrt(chance * (1 - chance) / max(values.size, 1)))
        sets.append((float(values.mean()) if values.size else 0.0, limit, items.name, values.size))
    mean, limit, name, n = max(sets, key=lambda row: row[0] - row[1])
    source = "ours; chance plus two standard errors; a free answer is guessed once in 20"
    advice = "Choose a benchmark on which this model is better than guessing."
    if limit >= 1.0:
        advice = (
            f"Add items: with {n:,} items, no score can be distinguished from guessing."
            if n
            else "Find out why no answer was parsed."
        )
    return Rule("above_guessing", limit, source).checked(
        mean > limit,
        mean,
        f"The model is right on {percent(mean)} of {n:,} items of {name}. Guessing can reach {percent(limit)}.",
        advice,
        withholds=withholds,
    )


def same_guessing(cell: MemoryCell, evidence: Evidence, limits: MemoryThresholds) -> Gate:
    """Check that a gap is not explained by a different chance of guessing right.

    The gate applies if the chance of a right guess differs between the two sets of items. Held-out
    scores are then adjusted to the benchmark's chance. The gate fails if the gap is significant
    before this adjustment, but not after it.

    Parameters
    ----------
    cell : MemoryCell
        The chances of a right guess and the scores.
    evidence : Evidence
        The gap, with and without the adjustment.
    limits : MemoryThresholds
        The level.

    Returns
    -------
    Gate
        The result of the check. Its number is the difference in the chance of a right guess (0-1).
    """
    published, held_out = cell.chance
    rule = Rule(
        "same_guessing",
        limits.alpha,
        "ours; scores at the same chance of a guess (mean of 1 / options)",
    )
    means = []
    for a, b in cell.references:
        if b is not None:
            means.append((np.nanmean(a.score), np.nanmean(b.score)))
    theirs = ""
    if means:
        weakest = np.min(means, axis=0).tolist()
        theirs = f" The weakest reference scores {percent(weakest[0])} and {percent(weakest[1])}."
    by_points = 1.0 if evidence.gap is None else evidence.gap.pvalue
    return rule.checked(
        passed=not by_points <= limits.alpha < (evidence.same_chance or 0.0),
        number=published - held_out,
        detail=f"A guess is right in {percent(published)} of the benchmark's items and "
        f"{percent(held_out)} of the held-out items.{theirs}",
        advice="Choose held-out items with as many options as the benchmark's, or references that "
        "are as able as this model.",
        withholds=False,
        numbers={"published": published, "held_out": held_out},
    )


def readable(cell: MemoryCell, limits: MemoryThresholds) -> MemoryCell:
    """Leave out references with too few readable answers, and references that repeat another model.

    Parameters
    ----------
    cell : MemoryCell
        The cell with all its references.
    limits : MemoryThresholds
        The least share of readable rows in any arm.

    Returns
    -------
    MemoryCell
        The cell without these references. Its field `dropped` states why each reference is left
        out. A reference repeats another model if it is the same model under a second name.
    """
    kept, dropped = [], []
    scores = []
    for pair in (cell.tested, *cell.references):
        scores.append([answers.score for answers in pair if answers])
    repeated = repeats(list(map(np.concatenate, scores)))
    for k, pair in enumerate(cell.references, 1):
        model, limit = pair[0].model, limits.answered_share_min
        bad = [because("reference_repeats", model=model)] if k in repeated else []
        for name, arm, reads in _rows(cell, pair, tuple(Arm)):
            if _surely_below(reads, limit):
                bad.append(
                    because(
                        "reference_unread",
                        model=model,
                        read=reads.read,
                        asked=reads.asked,
                        arm=arm,
                        items=name,
                    )
                )
        if bad:
            dropped.append(bad[0])
        else:
            kept.append(pair)
    return replace(cell, references=tuple(kept), dropped=(*cell.dropped, *dropped))


def was_read(name: str, cell: MemoryCell, limits: MemoryThresholds, *, withholds: bool) -> Gate:
    """Check that enough rows of the tested model have a parsed answer or a likelihood.

    Parameters
    ----------
    name : str
        `likelihoods_read` or `parseability`.
    cell : MemoryCell
        The cell, with the number of rows in each arm.
    limits : MemoryThresholds
        The smallest share that passes.
    withholds : bool
        Whether a failure withholds the verdict.

    Returns
    -------
    Gate
        The result of the check. Its number is the lowest share over all sets and arms.
    """
    (arms, statement, advice), limit = _READ[name], limits.answered_share_min
    rule = Rule(name, limit, "li2026, gate G1 (at least 0.95); conf/verdict: answered_share_min")
    rows = _rows(cell, cell.tested, arms)
    if not rows:
        return rule.absent("This run has no such rows.", withholds=False)
    worst_set, worst_arm, worst = min(rows, key=lambda row: row[2].share)
    low, high = read_limits(worst.read, worst.asked)
    dropped = ""
    if cell.dropped:
        dropped = f" References left out: {', '.join(sentences(cell.dropped, TEXTS))}."
    reference_shares = []
    for pair in cell.references:
        for items, _, reads in _rows(cell, pair, (worst_arm,)):
            if items == worst_set:
                reference_shares.append(reads.share)
    of_references = ""
    if reference_shares:
        of_references = f" The references reach {percent(min(reference_shares))} or more."
    shares = {}
    for items, arm, reads in rows:
        shares[f"{items}, {arm}"] = reads.share
    return rule.checked(
        passed=not any(_surely_below(reads, limit) for *_, reads in rows),
        number=worst.share,
        detail=f"{percent(worst.share)} (95 % interval {percent(low)} to {percent(high)}) {statement}: "
        f"{worst_set}, arm {worst_arm}. Expected {percent(limit)} or more.{of_references}{dropped}",
        advice=advice,
        withholds=withholds,
        numbers=shares,
    )


def orders_reach_model(cell: MemoryCell, limits: MemoryThresholds) -> Gate:
    """Check that different orders were sent as different requests.

    Parameters
    ----------
    cell : MemoryCell
        The hashes of the requests.
    limits : MemoryThresholds
        The largest share of repeated requests.

    Returns
    -------
    Gate
        The result of the check. Its number is the share of orders whose request repeats the request
        for the published order or for another order.
    """
    requests = []
    for answers in cell.tested:
        if answers is not None:
            requests.append(answers.requests)
    return reached_model(
        "orders_reach_model",
        requests,
        limits.noop_share_max,
        "Of {compared} other orders of options and items, {same} were sent as the published order and {repeated} as "
        "another one of these orders.",
        "Look at the texts that were sent. Options may have the same text, or texts may be cut off "
        "before they differ.",
        nothing="No other order was compared with a published order.",
        must=False,
    )


def fresh_matched(evidence: Evidence, limits: MemoryThresholds) -> Gate:
    """Check that the held-out items are close enough in difficulty to judge the gap.

    Parameters
    ----------
    evidence : Evidence
        The gap of the references.
    limits : MemoryThresholds
        The level of the test and the least share of matched items.

    Returns
    -------
    Gate
        The result of the check. Its number is the p-value of the references' gap. Two conditions
        must hold. First, enough items of the benchmark have a held-out item of equal difficulty.
        Second, both sets are equally hard for the references, or all scales agree on whether the
        gap is significant.
    """
    source = "ours; the references' own gap and the scales; conf/verdict: matched_alpha, matched_share_min"
    rule = Rule("fresh_matched", limits.matched_alpha, source)
    gap = evidence.gap
    if (
        gap is None
        or gap.matched is None
        or gap.reference_gap is None
        or gap.reference_pvalue is None
    ):
        detail = (
            "Without held-out items, or references above chance, the difficulty of the held-out "
            "items is unknown."
        )
        return rule.absent(detail, withholds=False)
    bad, uneven = unmatched(evidence, limits), gap.reference_pvalue <= limits.matched_alpha
    scales = (
        f" The sets are not equally hard, and the scales {'disagree' if bad else 'agree'} about a "
        "gap."
        if uneven
        else ""
    )
    return rule.checked(
        passed=not bad,
        number=gap.reference_pvalue,
        detail=f"The references score {signed_points(gap.reference_gap)} on the benchmark against the held-out items "
        f"({pvalue(gap.reference_pvalue)}). {percent(gap.matched.share)} of the benchmark's items have a held-out item "
        f"of equal difficulty.{scales}",
        advice="Draw held-out items of the benchmark's difficulty, matched on models other than "
        "the references. Or choose references that are as able as this model, for which the scales agree.",
        withholds=False,
        numbers={"reference_gap": gap.reference_gap, "matched_share": gap.matched.share},
    )


def fresh_drawn(evidence: Evidence, limits: MemoryThresholds) -> Gate:
    """Check that the held-out items were not chosen by the references' answers.

    If items were chosen in this way, the references' answers to these items would be exceptional,
    but the tested model's would not (regression to the mean).

    Parameters
    ----------
    evidence : Evidence
        The statistics of the cell, with `Evidence.alike`.
    limits : MemoryThresholds
        The level.

    Returns
    -------
    Gate
        The result of the check. Its number is the share of independently drawn sets on which the
        references agree at least as well.
    """
    source = "ours; lower tail of chi-squared over numbers of right references; conf/verdict: drawn_alpha"
    rule = Rule("fresh_drawn", limits.drawn_alpha, source)
    if evidence.alike is None:
        return rule.absent("There are no references that answered held-out items.", withholds=False)
    return rule.checked(
        passed=not selected(evidence.alike, limits),
        number=evidence.alike,
        detail="Benchmark and held-out items are compared by how many references answer an item right. Independently "
        f"drawn items agree as well or better in {percent(evidence.alike)} of cases.",
        advice="Do not choose held-out items by the references' answers. Match the items on other "
        "models, or choose other references.",
        withholds=False,
    )


def order_exchangeable(
    evidence: Evidence, limits: MemoryThresholds, *, recorded: bool = False
) -> Gate:
    """Check that the words and lengths of neighbouring items do not reveal the published order.

    Parameters
    ----------
    evidence : Evidence
        The p-value of each measure.
    limits : MemoryThresholds
        The level.
    recorded : bool
        Whether the order was drawn at random and recorded.

    Returns
    -------
    Gate
        The result of the check. Its number is the smallest p-value, with Bonferroni's correction
        over the measures.
    """
    source = "Oren et al. 2023 assume that items are exchangeable; conf/verdict: exchangeable_alpha"
    rule = Rule("order_exchangeable", limits.exchangeable_alpha, source)
    if recorded:
        return rule.absent(
            "The order was drawn at random and recorded, so it is exchangeable.", withholds=False
        )
    pvalues = {}
    for k, p in evidence.exchangeable.items():
        if p == p:
            pvalues[k] = p
    if not pvalues or evidence.order is None:
        return rule.absent("The order test was not run.", withholds=False)
    smallest = min(1.0, min(pvalues.values()) * len(pvalues))
    bad = words_reveal_order(evidence, limits)
    compared = evidence.order.beyond is not None and evidence.fresh_order is not None
    lacking = "" if compared else "Add held-out items and references. "
    return rule.checked(
        passed=not bad,
        number=smallest,
        detail=f"The words and lengths of neighbours {'reveal' if bad else 'do not reveal'} the published order: "
        f"{pvalue(smallest)}.",
        advice=f"{lacking}The order counts only if it is likelier to this model than to the "
        "references.",
        withholds=False,
        numbers=dict(pvalues),
    )


def same_kind(evidence: Evidence, limits: MemoryThresholds) -> Gate:
    """Check that words alone do not separate the held-out items from the benchmark's items.

    Parameters
    ----------
    evidence : Evidence
        The AUC of a classifier that sees only the words.
    limits : MemoryThresholds
        The largest AUC that is allowed.

    Returns
    -------
    Gate
        The result of the check. Its number is the AUC.
    """
    source = "ours; cross-validated naive Bayes over words; conf/verdict: kind_auc_max"
    rule = Rule("same_kind", limits.kind_auc_max, source)
    kind = evidence.kind
    if kind is None:
        return rule.absent(
            "There are no held-out items, or too few to train a classifier.", withholds=False
        )
    return rule.checked(
        passed=not of_another_kind(kind, limits),
        number=kind.auc,
        detail="A classifier of words ranks a benchmark item above a held-out item in "
        f"{percent(kind.auc)} of pairs "
        f"(95 % interval {percent(kind.low)} to {percent(kind.high)}); 50 % is no difference.",
        advice="Choose held-out items of the benchmark's kind, with the same subjects, authors, "
        "length and layout.",
        withholds=False,
        numbers={"auc": kind.auc, "low": kind.low, "high": kind.high},
    )


def _surely_below(reads: Reads, limit: float) -> bool:
    """Return whether a share is significantly below a limit (exact 95 % interval, Clopper-Pearson)."""
    return bool(reads.asked) and read_limits(reads.read, reads.asked)[1] < limit


def _sides(
    cell: MemoryCell, pair: tuple[ModelSet, ModelSet | None]
) -> list[tuple[ModelSet, ItemSet]]:
    """Return the items and the model's results for each set that was asked."""
    both = zip(pair, (cell.published, cell.fresh), strict=True)
    sides = []
    for answers, items in both:
        if answers is not None and items is not None:
            sides.append((answers, items))
    return sides


def _rows(
    cell: MemoryCell, pair: tuple[ModelSet, ModelSet | None], arms: Sequence[Arm]
) -> list[tuple[str, Arm, Reads]]:
    """Return (set of items, arm, numbers of rows) for each arm in which the model has rows."""
    rows = []
    for answers, items in _sides(cell, pair):
        for arm in arms:
            reads = answers.reads.get(arm)
            if reads is not None and reads.asked:
                rows.append((items.name, arm, reads))
    return rows
