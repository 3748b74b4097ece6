"""The article's contamination score and its triggers, exactly, and how often each is wrong on a clean model.

    CS = (accuracy_original - accuracy_variants) / accuracy_original

per item from one answer to the original and N to variants (the contamination harness article, section "Quantifying
Contamination": `compute_contamination_score`); the item is contaminated when CS > .10 and a one-sample t-test of the N
answers against the original's gives one-sided p < .05; the deployment is blocked when over 5 % of the items are, and
reviewed when CS > .25.

The rule is printed beside its false positives because it has many: with one answer to the original, a valid p-value of
one item cannot be below 1 / (N + 1), while this t-test takes the single answer for the truth.
"""

from dataclasses import dataclass, fields

import numpy as np
import scipy

from audit.errors import DataError
from audit.statistics.difficulty import draw_difficulties
from audit.statistics.exchange import first_answered
from audit.statistics.paired import BoolArray, FloatArray

N_CLEAN_MODELS = 400


@dataclass(frozen=True)
class Rule:
    """The article's numbers; the defaults are those of its text and example. All 0-1.

    cs_threshold, alpha: an item (or the whole) counts with CS above, and p below. block_share: of flagged items.
    """

    cs_threshold: float = 0.10
    alpha: float = 0.05
    block_share: float = 0.05  # max_allowed_contaminated_items_pct
    review_cs: float = 0.25  # review_required_above_cs


ARTICLE = Rule()


@dataclass(frozen=True)
class ItemScores:
    """Per item (n,): CS and one-sided p (unrounded; NaN where the original or every variant is unanswered), flag."""

    cs: FloatArray
    pvalue: FloatArray
    flagged: BoolArray


@dataclass(frozen=True)
class ArticleResult:
    """The article's numbers for one model and benchmark; shares are over the n items compared.

    mean_item_cs: mean of the items' CS; cs: from the two accuracies. over_threshold: CS > .10 (of accuracies).
    pvalue: its t-test over item means of variants against the baseline accuracy, one-sided. flagged: number of items;
    blocked: their share is over 5 %. review: CS > .25.
    """

    n: int
    baseline: float
    perturbed: float
    cs: float
    mean_item_cs: float
    pvalue: float
    flagged: int
    flagged_share: float
    over_threshold: bool
    triggered: bool
    blocked: bool
    review: bool


@dataclass(frozen=True)
class FalseAlarms:
    """How often each rule is wrong on a clean model of this design; shares 0-1 over simulated models.

    item_flagged: mean share of items flagged; item_over_threshold: of items with CS > .10, without the t-test.
    mean_item_cs: mean item CS over the items with a right original, whose true value is 0. model_over_threshold: models
    with CS > .10; model_triggered: and p < .05; model_blocked: over 5 % of items flagged; model_review: CS > .25.
    """

    item_flagged: float
    item_over_threshold: float
    mean_item_cs: float
    model_over_threshold: float
    model_triggered: float
    model_blocked: float
    model_review: float
    n: int
    variants: int
    accuracy: float
    discordance: float
    n_models: int


def item_scores(original: FloatArray, variants: FloatArray, rule: Rule = ARTICLE) -> ItemScores:
    """The article's function for every item at once.

    original: (n,), or (K, n) of which the first answered replicate counts (the article has one). variants: (N, n). 1, 0
    or NaN; an item's unanswered variants are left out of its t-test.
    """
    baseline, answers = first_answered(original), np.atleast_2d(np.asarray(variants, dtype=float))
    m = np.sum(~np.isnan(answers), axis=0).astype(float)
    compared = ~np.isnan(baseline) & (m > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(answers, axis=0) / m
        variance = mean * (1 - mean) * m / (m - 1)  # of 0/1 answers, ddof 1; NaN for a single one, as in SciPy
        t = (mean - baseline) / np.sqrt(variance / m)
        p = np.where(t < 0, scipy.special.stdtr(m - 1, t), 1.0)  # half the two-sided p; NaN (0 / 0) counts as no drop
        cs = np.where(baseline > 0, (baseline - mean) / baseline, 0.0)
    p, cs = np.where(compared, p, np.nan), np.where(compared, cs, np.nan)
    with np.errstate(invalid="ignore"):
        return ItemScores(cs, p, (cs > rule.cs_threshold) & (p < rule.alpha))


def article_result(
    original: FloatArray, variants: FloatArray, rule: Rule = ARTICLE, items: ItemScores | None = None
) -> ArticleResult:
    """Return items and triggers of one model. items: `item_scores` of the same answers, if they are known. Raises
    DataError if no item can be compared."""
    scores = item_scores(original, variants, rule) if items is None else items
    there = ~np.isnan(scores.cs)
    if not there.any():
        raise DataError("Not one item has an answer under the original and a variant: no contamination score.")
    baseline = first_answered(original)[there]
    answers = np.atleast_2d(np.asarray(variants, dtype=float))[:, there]
    means = np.nansum(answers, axis=0) / np.sum(~np.isnan(answers), axis=0)
    base, perturbed = float(baseline.mean()), float(means.mean())
    cs = (base - perturbed) / base if base > 0 else 0.0
    spread = float(means.std(ddof=1)) / np.sqrt(means.size) if means.size > 1 else float("nan")
    drop = perturbed - base
    pvalue = float(scipy.stats.t.cdf(drop / spread, means.size - 1)) if spread > 0 and drop < 0 else 1.0
    flagged = int(scores.flagged.sum())
    share = flagged / int(there.sum())
    return ArticleResult(
        n=int(there.sum()),
        baseline=base,
        perturbed=perturbed,
        cs=cs,
        mean_item_cs=float(scores.cs[there].mean()),
        pvalue=pvalue,
        flagged=flagged,
        flagged_share=share,
        over_threshold=cs > rule.cs_threshold,
        triggered=cs > rule.cs_threshold and pvalue < rule.alpha,
        blocked=share > rule.block_share,
        review=cs > rule.review_cs,
    )


def false_alarms(
    n: int,
    variants: int,
    accuracy: float,
    discordance: float,
    *,
    n_models: int = N_CLEAN_MODELS,
    rng: np.random.Generator,
    rule: Rule = ARTICLE,
) -> FalseAlarms:
    """The article's rules on clean models: n items, N variants, Beta difficulties with this accuracy and discordance.

    discordance: chance that two wordings of an item disagree ("flip"). Raises DataError where no model has both.
    """
    rows = np.empty((n_models, 7))
    for k in range(n_models):
        theta = draw_difficulties(n, accuracy, discordance, rng)
        original = (rng.random(n) < theta).astype(float)
        answers = (rng.random((variants, n)) < theta).astype(float)
        items = item_scores(original, answers, rule)
        whole = article_result(original, answers, rule, items)
        right = items.cs[original == 1]
        rows[k] = (
            whole.flagged_share,
            float(np.mean(items.cs > rule.cs_threshold)),
            right.mean() if right.size else 0.0,
            whole.over_threshold,
            whole.triggered,
            whole.blocked,
            whole.review,
        )
    names = [f.name for f in fields(FalseAlarms)][: rows.shape[1]]
    rates = {name: float(rate) for name, rate in zip(names, rows.mean(axis=0), strict=True)}
    return FalseAlarms(**rates, n=n, variants=variants, accuracy=accuracy, discordance=discordance, n_models=n_models)
