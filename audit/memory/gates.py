"""Check the measurement. Each gate is a function of one cell and its evidence.

`withholds` is whether a failure alone withholds the verdict. Some indicators are not judged if a
gate fails on which they rest (see `decide`). These gates are `fresh_*`, `same_kind`,
`order_exchangeable` and, with likelihoods, `above_guessing`. A reference with too few readable
answers is left out (`readable`). A share fails only if it is significantly below its limit.
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
    guessed_apart,
    of_another_kind,
    selected,
    told_by_words,
    unmatched,
)
from audit.memory.record import ItemSet, MemoryCell, ModelSet, Reads
from audit.memory.texts import TEXTS
from audit.statistics.between_models import repeats

FREE_ANSWER = 0.05  # assumed rate of right guesses without options
_READ = {  # gates of readable rows, with their arms, what is read, and the advice after a failure
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
        The measured cell.
    evidence : Evidence
        The statistics of the cell.
    limits : MemoryThresholds
        The thresholds.

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
        *([same_guessing(cell, evidence, limits)] if guessed_apart(cell) else []),
        fresh_matched(evidence, limits),
        fresh_drawn(evidence, limits),
        same_kind(evidence, limits),
        order_exchangeable(evidence, limits, recorded=cell.recorded),
        *([above_guessing(cell, withholds=score_alone)] if score_alone or compared else []),
    )


def no_likelihoods(cell: MemoryCell) -> bool:
    """Return whether only scores were measured, as for imported answers and chat endpoints."""
    reads = cell.tested[0].reads
    return reads[Arm.SCORE].asked == sum(one.asked for one in reads.values()) > 0


def above_guessing(cell: MemoryCell, *, withholds: bool) -> Gate:
    """Check that a score that is compared with held-out items is above guessing.

    Parameters
    ----------
    cell : MemoryCell
        The scores on both sets.
    withholds : bool
        Whether only the score was measured (imported outcomes).

    Returns
    -------
    Gate
        Its number is the accuracy on the set where it is further above guessing. Its threshold is
        chance plus two standard errors on this set.
    """
    found = []
    for one, items in _sides(cell, cell.tested):
        values = one.score[~np.isnan(one.score)]
        chance = items.chance or FREE_ANSWER
        limit = chance + 2.0 * float(np.sqrt(chance * (1 - chance) / max(values.size, 1)))
        found.append((float(values.mean()) if values.size else 0.0, limit, items.name, values.size))
    mean, limit, name, n = max(found, key=lambda one: one[0] - one[1])
    source = "ours; chance plus two standard errors; a free answer is guessed once in 20"
    advice = "Choose a benchmark on which this model is better than guessing."
    if limit >= 1.0:
        advice = (
            f"Add items: with {n:,} no score can be told from guessing."
            if n
            else "Find out why no answer was parsed."
        )
    return Rule("above_guessing", limit, source).checked(
        mean > limit,
        mean,
        f"The model is right on {percent(mean)} of {n:,} items of {name}; guessing reaches {percent(limit)}.",
        advice,
        withholds=withholds,
    )


def same_guessing(cell: MemoryCell, evidence: Evidence, limits: MemoryThresholds) -> Gate:
    """Check that different numbers of options do not explain a gap.

    The gate applies if these numbers differ. Its number is the difference in the chance of a guess,
    0-1. It fails if a gap is seen in points, and vanishes when the held-out scores are adjusted to
    the benchmark's chance of a guess."""
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
        advice="Choose held-out items with as many options as the benchmark's, or references as "
        "able as this model.",
        withholds=False,
        numbers={"published": published, "held_out": held_out},
    )


def readable(cell: MemoryCell, limits: MemoryThresholds) -> MemoryCell:
    """Leave out references with too few readable answers, and repeats of another model.

    Parameters
    ----------
    cell : MemoryCell
        The cell with all its references.
    limits : MemoryThresholds
        The least share of readable rows in any arm.

    Returns
    -------
    MemoryCell
        `dropped` names the references that are left out. A repeat is the tested model, or another
        reference, under another name.
    """
    kept, dropped = [], []
    scores = []
    for pair in (cell.tested, *cell.references):
        scores.append([one.score for one in pair if one])
    twice = repeats(list(map(np.concatenate, scores)))
    for k, pair in enumerate(cell.references, 1):
        model, limit = pair[0].model, limits.answered_share_min
        bad = [because("reference_repeats", model=model)] if k in twice else []
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
    """Check the share of the tested model's rows that are readable, by set and arm.

    Parameters
    ----------
    name : str
        `likelihoods_read` or `parseability`.
    cell : MemoryCell
        The numbers of rows.
    limits : MemoryThresholds
        The least share.
    withholds : bool
        Whether a failure alone withholds the verdict.

    Returns
    -------
    Gate
        Its number is the lowest share.
    """
    (arms, what, advice), limit = _READ[name], limits.answered_share_min
    rule = Rule(name, limit, "li2026, gate G1 (at least 0.95); conf/verdict: answered_share_min")
    if not (rows := _rows(cell, cell.tested, arms)):
        return rule.absent("This run has no such rows.", withholds=False)
    worst_set, worst_arm, worst = min(rows, key=lambda row: row[2].share)
    low, high = read_limits(worst.read, worst.asked)
    out = (
        f" References left out: {', '.join(sentences(cell.dropped, TEXTS))}."
        if cell.dropped
        else ""
    )
    reference_shares = []
    for pair in cell.references:
        for items, _, reads in _rows(cell, pair, (worst_arm,)):
            if items == worst_set:
                reference_shares.append(reads.share)
    beside = ""
    if reference_shares:
        beside = f" Every reference has {percent(min(reference_shares))} or more there."
    shares = {}
    for items, arm, reads in rows:
        shares[f"{items}, {arm}"] = reads.share
    return rule.checked(
        passed=not any(_surely_below(reads, limit) for *_, reads in rows),
        number=worst.share,
        detail=f"{percent(worst.share)} (95 % interval {percent(low)} to {percent(high)}) {what}: "
        f"{worst_set} ({worst_arm}), the lowest of {len(rows)} shares.{beside}{out}",
        advice=advice,
        withholds=withholds,
        numbers=shares,
    )


def orders_reach_model(cell: MemoryCell, limits: MemoryThresholds) -> Gate:
    """Check that different orders were sent as different requests.

    Parameters
    ----------
    cell : MemoryCell
        The hashes of its requests.
    limits : MemoryThresholds
        The largest share of repeated requests.

    Returns
    -------
    Gate
        Its number is the share of orders whose requests equal those of the published order or of
        another.
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
        "another.",
        "Look at the texts that were sent. Options may have the same text, or texts may be cut off "
        "before they differ.",
        nothing="No other order was compared with a published one.",
        must=False,
    )


def fresh_matched(evidence: Evidence, limits: MemoryThresholds) -> Gate:
    """Check that the difficulty of the held-out items is close enough to judge the gap.

    Parameters
    ----------
    evidence : Evidence
        The references' gap.
    limits : MemoryThresholds
        The level of the test and the least share of matched items.

    Returns
    -------
    Gate
        Passes if enough items of the benchmark have held-out items of equal difficulty. If the sets
        are not equally hard for the references, all scales must also agree on the gap. Its number
        is the p-value of the references' gap.
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
        f"({pvalue(gap.reference_pvalue)}). {percent(gap.matched.share)} of its items have held-out ones as hard."
        f"{scales}",
        advice="Draw held-out items as hard as the benchmark's, matched on models other than the "
        "references. Or choose references as able as this model, for which the scales agree.",
        withholds=False,
        numbers={"reference_gap": gap.reference_gap, "matched_share": gap.matched.share},
    )


def fresh_drawn(evidence: Evidence, limits: MemoryThresholds) -> Gate:
    """Check that the references' answers to both sets agree no more than with independent draws.

    If the references' answers choose the items, these are harder or easier only for the tested
    model, since scores regress to the mean.

    Parameters
    ----------
    evidence : Evidence
        The agreement of the answers.
    limits : MemoryThresholds
        The level.

    Returns
    -------
    Gate
        Its number is the share of independent draws that agree as well or better.
    """
    source = "ours; lower tail of chi-squared over numbers of right references; conf/verdict: drawn_alpha"
    rule = Rule("fresh_drawn", limits.drawn_alpha, source)
    if evidence.alike is None:
        return rule.absent("There are no references that answered held-out items.", withholds=False)
    return rule.checked(
        passed=not selected(evidence.alike, limits),
        number=evidence.alike,
        detail="By how many references were right, benchmark and held-out items agree. Independent draws agree as well "
        f"or better in {percent(evidence.alike)} of cases.",
        advice="Do not choose held-out items by the references' answers. Match them on other "
        "models, or choose other references.",
        withholds=False,
    )


def order_exchangeable(
    evidence: Evidence, limits: MemoryThresholds, *, recorded: bool = False
) -> Gate:
    """Check that words and lengths of neighbours do not reveal the published order within shards.

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
        Its number is the smallest p, after Bonferroni over the measures.
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
    bad = told_by_words(evidence, limits)
    compared = evidence.order.beyond is not None and evidence.fresh_order is not None
    lacking = "" if compared else "Add held-out items and references. "
    return rule.checked(
        passed=not bad,
        number=smallest,
        detail=f"The words and lengths of neighbours {'give' if bad else 'do not give'} the published order away: "
        f"{pvalue(smallest)}.",
        advice=f"{lacking}The order counts only if it is likelier to this model than to the "
        "references.",
        withholds=False,
        numbers=dict(pvalues),
    )


def same_kind(evidence: Evidence, limits: MemoryThresholds) -> Gate:
    """Check that words alone do not distinguish the held-out items from the benchmark's.

    Parameters
    ----------
    evidence : Evidence
        The classifier of words.
    limits : MemoryThresholds
        The largest AUC.

    Returns
    -------
    Gate
        Its number is the AUC.
    """
    source = "ours; cross-validated naive Bayes over words; conf/verdict: kind_auc_max"
    rule = Rule("same_kind", limits.kind_auc_max, source)
    kind = evidence.kind
    if kind is None:
        return rule.absent(
            "There are no held-out items, or too few to learn from.", withholds=False
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
    """Return whether the upper limit of a share (exact 95 %, Clopper-Pearson) is below the limit."""
    return bool(reads.asked) and read_limits(reads.read, reads.asked)[1] < limit


def _sides(
    cell: MemoryCell, pair: tuple[ModelSet, ModelSet | None]
) -> list[tuple[ModelSet, ItemSet]]:
    both = zip(pair, (cell.published, cell.fresh), strict=True)
    sides = []
    for answers, items in both:
        if answers is not None and items is not None:
            sides.append((answers, items))
    return sides


def _rows(
    cell: MemoryCell, pair: tuple[ModelSet, ModelSet | None], arms: Sequence[Arm]
) -> list[tuple[str, Arm, Reads]]:
    """Return (set, arm, rows) of one model, for each arm that has rows."""
    rows = []
    for answers, items in _sides(cell, pair):
        for arm in arms:
            reads = answers.reads.get(arm)
            if reads is not None and reads.asked:
                rows.append((items.name, arm, reads))
    return rows
