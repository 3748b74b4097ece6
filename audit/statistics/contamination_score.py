"""Compute the article's contamination score, and the false positive rates of its rules.

    CS = (accuracy_original - accuracy_variants) / accuracy_original

The article is the contamination harness article (section "Quantifying Contamination":
`compute_contamination_score`). It computes CS for each item from one answer to the original and N
answers to variants. Its rules are:

- An item is contaminated if CS > .10 and p < .05. The p-value is one-sided, from a one-sample
  t-test of the N answers against the answer to the original.
- The deployment of a model is blocked if over 5 % of the items are contaminated.
- The deployment is reviewed if the CS of the whole benchmark is above .25.

The rules have a high rate of false positives, so reports show this rate beside their result. With
one answer to the original, a valid p-value of one item cannot be below 1 / (N + 1). The article's
t-test can give smaller p-values, because it treats the single answer as if it were the true
accuracy.
"""

from dataclasses import dataclass, fields

import numpy as np
import scipy

from audit.core.errors import DataError
from audit.statistics.exchange import first_answered
from audit.statistics.item_response import draw_difficulties
from audit.statistics.paired import BoolArray, FloatArray

N_CLEAN_MODELS = 400


@dataclass(frozen=True)
class Rule:
    """Hold the article's thresholds, all between 0 and 1.

    The defaults are taken from the text and the example of the article.

    Attributes
    ----------
    cs_threshold, alpha : float
        An item is flagged, and the whole benchmark is `triggered`, if its CS is above
        `cs_threshold` and its p-value is below `alpha`.
    block_share : float
        Share of flagged items above which the deployment is blocked.
    review_cs : float
        CS above which the deployment is reviewed.
    """

    cs_threshold: float = 0.10
    alpha: float = 0.05
    block_share: float = 0.05  # the article's max_allowed_contaminated_items_pct
    review_cs: float = 0.25  # the article's review_required_above_cs


ARTICLE = Rule()


@dataclass(frozen=True)
class ItemScores:
    """Hold the article's numbers for each of n items.

    Attributes
    ----------
    cs : (n,) array
        Contamination score; NaN if the original or every variant is unanswered.
    pvalue : (n,) array
        One-sided p-value, not rounded; NaN if the original or every variant is unanswered.
    flagged : (n,) bool array
        True if the item counts as contaminated.
    """

    cs: FloatArray
    pvalue: FloatArray
    flagged: BoolArray


@dataclass(frozen=True)
class ArticleResult:
    """Report the article's numbers for one model and benchmark.

    Shares (0-1) are computed from the n compared items.

    Attributes
    ----------
    n : int
        Number of compared items: items with an answer to the original and to a variant.
    baseline, perturbed : float
        Accuracy under the original and under the variants, 0-1.
    cs : float
        Contamination score computed from these two accuracies.
    mean_item_cs : float
        Mean of the items' contamination scores.
    pvalue : float
        One-sided p-value of the article's one-sample t-test. It compares the items' mean scores
        under variants with the baseline accuracy.
    flagged, flagged_share : int, float
        Number and share of flagged items.
    over_threshold : bool
        True if `cs` is above the rule's threshold (.10).
    triggered : bool
        True if `over_threshold` is True and `pvalue` is below alpha.
    blocked : bool
        True if the share of flagged items is above the rule's limit (5 %).
    review : bool
        True if `cs` is above the rule's review threshold (.25).
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
    """Report the false positive rates of the article's rules on simulated clean models.

    Every share lies between 0 and 1. A share of models is a share of the simulated models.

    Attributes
    ----------
    item_flagged : float
        Mean share of items that are flagged.
    item_over_threshold : float
        Mean share of items with CS > .10, whatever the t-test says.
    mean_item_cs : float
        Mean CS of the items whose original was answered right. The true value is 0.
    model_over_threshold : float
        Share of models with CS > .10.
    model_triggered : float
        Share of models with CS > .10 and p < .05.
    model_blocked : float
        Share of models with over 5 % of items flagged.
    model_review : float
        Share of models with CS > .25.
    n, variants, accuracy, discordance : int or float
        Simulated design, as in `false_alarms`.
    n_models : int
        Number of simulated models.
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
    """Return the article's score, p and flag of every item.

    Parameters
    ----------
    original : (n,) or (K, n) array
        Answers: 1, 0 or NaN. Of K replicates, the first with an answer is used, because the article
        has only one answer to the original.
    variants : (N, n) array
        Answers: 1, 0 or NaN. Unanswered variants of an item are left out of the item's t-test.
    rule : Rule
        Thresholds of the article's rules.

    Returns
    -------
    ItemScores
        Score, p-value and flag of each item.
    """
    baseline, answers = first_answered(original), np.atleast_2d(np.asarray(variants, dtype=float))
    m = np.sum(~np.isnan(answers), axis=0).astype(float)
    compared = ~np.isnan(baseline) & (m > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(answers, axis=0) / m
        # This is the sample variance (ddof 1) of 0/1 answers. It is NaN for a single answer, as in
        # SciPy.
        variance = mean * (1 - mean) * m / (m - 1)
        t = (mean - baseline) / np.sqrt(variance / m)
        # The one-sided p-value is half the two-sided p-value. A statistic of NaN (0 / 0) counts as
        # no drop.
        p = np.where(t < 0, scipy.special.stdtr(m - 1, t), 1.0)
        cs = np.where(baseline > 0, (baseline - mean) / baseline, 0.0)
    p, cs = np.where(compared, p, np.nan), np.where(compared, cs, np.nan)
    with np.errstate(invalid="ignore"):
        return ItemScores(cs, p, (cs > rule.cs_threshold) & (p < rule.alpha))


def article_result(
    original: FloatArray,
    variants: FloatArray,
    rule: Rule = ARTICLE,
    items: ItemScores | None = None,
) -> ArticleResult:
    """Return the article's numbers and triggers for one model.

    Parameters
    ----------
    original : (n,) or (K, n) array
        Answers: 1, 0 or NaN. Of K replicates, the first with an answer is used.
    variants : (N, n) array
        1, 0 or NaN.
    rule : Rule
        Thresholds of the article's rules.
    items : ItemScores or None
        Result of `item_scores` for the same answers; None computes it.

    Returns
    -------
    ArticleResult
        Scores and triggers.

    Raises
    ------
    DataError
        If no item has an answer to the original and to a variant.
    """
    scores = item_scores(original, variants, rule) if items is None else items
    compared = ~np.isnan(scores.cs)
    if not compared.any():
        raise DataError(
            "The number of items with an answer both to the original and to a variant is 0. "
            "Expected at least 1: the contamination score compares these answers."
        )
    baseline = first_answered(original)[compared]
    answers = np.atleast_2d(np.asarray(variants, dtype=float))[:, compared]
    means = np.nansum(answers, axis=0) / np.sum(~np.isnan(answers), axis=0)
    base, perturbed = float(baseline.mean()), float(means.mean())
    cs = (base - perturbed) / base if base > 0 else 0.0
    spread = float(means.std(ddof=1)) / np.sqrt(means.size) if means.size > 1 else float("nan")
    drop = perturbed - base
    pvalue = (
        float(scipy.stats.t.cdf(drop / spread, means.size - 1)) if spread > 0 and drop < 0 else 1.0
    )
    flagged = int(scores.flagged.sum())
    share = flagged / int(compared.sum())
    return ArticleResult(
        n=int(compared.sum()),
        baseline=base,
        perturbed=perturbed,
        cs=cs,
        mean_item_cs=float(scores.cs[compared].mean()),
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
    """Simulate clean models, and report how often the article's rules call them contaminated.

    Parameters
    ----------
    n, variants : int
        Number of items, and number of variants of each item.
    accuracy : float
        Mean accuracy of the simulated models, 0-1.
    discordance : float
        Probability that a model answers two wordings of an item differently (one right, one wrong).
    n_models : int
        Number of simulated models.
    rng : numpy.random.Generator
        Source of the answers.
    rule : Rule
        Thresholds of the article's rules.

    Returns
    -------
    FalseAlarms
        Shares of simulated clean models and items that each rule calls contaminated.

    Raises
    ------
    DataError
        If this accuracy and this discordance cannot occur together.

    Notes
    -----
    Item difficulties are Beta distributed (`audit.statistics.item_response`).
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
    return FalseAlarms(
        **rates,
        n=n,
        variants=variants,
        accuracy=accuracy,
        discordance=discordance,
        n_models=n_models,
    )
