"""Score how likely a model finds a given text, and how well the scores separate two sets of texts.

`kind_auc` measures how well words alone separate the two sets, by a cross-validated naive Bayes
classifier. If words separate the sets, the sets differ in subject, author or layout, and a model
may score the sets differently without any memory. The module does no I/O.
"""

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import scipy
from numpy.typing import ArrayLike

from audit.core.errors import DataError
from audit.statistics.estimate import mean_of
from audit.statistics.paired import IntArray
from audit.statistics.resampling import unseen_share

# This is the k of Min-K%: the score is the mean over this share of the tokens, those with the
# lowest probability.
SHARE = 0.2


@dataclass(frozen=True)
class Auc:
    """Hold the area under the ROC curve (AUC) of a score that separates two sets.

    The AUC is the probability that a score from the first set exceeds a score from the second set.
    Ties count half.

    Attributes
    ----------
    auc : float
        The probability; .5 means that the scores do not separate the sets.
    low, high : float
        95 % interval (DeLong et al. 1988, Biometrics 44, on the logit of the AUC). With clusters,
        the error is clustered (Obuchowski 1997, Biometrics 53).
    pvalue : float
        p-value of the one-sided Mann-Whitney test of AUC > .5. The test treats items as
        independent.
    """

    auc: float
    low: float
    high: float
    pvalue: float


def text_scores(logprobs: ArrayLike, z: ArrayLike) -> dict[str, float]:
    """Return the scores of one text from the log-probabilities of its T tokens.

    Parameters
    ----------
    logprobs : (T,) array
        Log-probability of each token, in nats.
    z : (T,) array
        Standardised log-probability of each token.

    Returns
    -------
    dict of str to float
        Three scores, each NaN if there are no tokens:

        - "mean": mean log-probability per token.
        - "min_k": mean log-probability of the least likely tokens (Min-K%, Shi et al. 2024).
        - "min_k_plus_plus": mean standardised log-probability of the tokens with the lowest
          standardised log-probability, in standard deviations (Min-K%++, Zhang et al. 2025).

    Examples
    --------
    >>> text_scores([-1.0, -3.0], [0.0, -2.0])
    {'mean': -2.0, 'min_k': -3.0, 'min_k_plus_plus': -2.0}
    """
    p, s = np.asarray(logprobs, dtype=float), np.asarray(z, dtype=float)
    if not p.size:
        return dict.fromkeys(("mean", "min_k", "min_k_plus_plus"), float("nan"))
    k = max(1, int(SHARE * p.size))
    least = float(np.sort(p)[:k].mean())
    standardised = float(np.sort(s)[:k].mean())
    return {"mean": float(p.mean()), "min_k": least, "min_k_plus_plus": standardised}


def membership_auc(
    published: ArrayLike, fresh: ArrayLike, clusters: tuple[IntArray, IntArray] | None = None
) -> Auc:
    """Measure how well a score separates items that a model may have seen from held-out items.

    Parameters
    ----------
    published, fresh : (n,) and (m,) array
        Scores of the published and of the held-out items; NaN is left out.
    clusters : tuple of arrays or None
        Clusters (n,) and (m,) of items that share text, such as a passage. None makes every item
        its own cluster.

    Returns
    -------
    Auc
        The area under the ROC curve, its interval and its p-value.

    Raises
    ------
    DataError
        If a set has fewer than two items.

    Notes
    -----
    The p-value tests for memory only if the sets differ by chance alone, such as random halves of
    one benchmark. For other pairs of sets, a small p-value may also mean that the texts of the two
    sets differ in kind.
    """
    a, b = np.asarray(published, dtype=float), np.asarray(fresh, dtype=float)
    a, b = a[~np.isnan(a)], b[~np.isnan(b)]
    if a.size < 2 or b.size < 2:
        raise DataError(
            f"The two sets have {a.size} and {b.size} items with a score. Expected at least 2 "
            "items in each set."
        )
    ranks = scipy.stats.rankdata(np.concatenate([a, b]))
    # The placement of an item is the share of the other set's items that have a lower score
    # (DeLong).
    up = (ranks[: a.size] - scipy.stats.rankdata(a)) / b.size
    down = 1 - (ranks[a.size :] - scipy.stats.rankdata(b)) / a.size
    auc = float(up.mean())
    groups = [np.arange(a.size), np.arange(b.size)]
    if clusters is not None:
        sides = zip(clusters, (published, fresh), strict=True)
        groups = [c[~np.isnan(np.asarray(x, dtype=float))] for c, x in sides]
    means = [mean_of(placed, group) for placed, group in zip((up, down), groups, strict=True)]
    se, fewer = float(np.hypot(means[0].se, means[1].se)), min(mean.units for mean in means)
    t = (
        1.96
        if clusters is None
        else float(scipy.special.stdtrit(min(mean.df for mean in means), 0.975))
    )
    pvalue = float(scipy.stats.mannwhitneyu(a, b, alternative="greater").pvalue)
    # If the sets are completely separated, the standard error is 0. The interval then extends on
    # each side by the largest share of deviating items that is plausible when the sample has none.
    if se == 0:
        unseen = float(unseen_share(np.array([fewer]))[0])
        return Auc(auc, max(auc - unseen, 0.0), min(auc + unseen, 1.0), pvalue)
    centre = min(max(auc, 0.5 / fewer), 1 - 0.5 / fewer)  # at least half an item away from 0 and 1
    half = t * se / (centre * (1 - centre))
    middle = scipy.special.logit(centre)
    low = float(scipy.special.expit(middle - half))
    high = float(scipy.special.expit(middle + half))
    return Auc(auc, min(low, auc), max(high, auc), pvalue)


FOLDS = 5
_WORD = re.compile(r"[^\W_]+")
_BUCKETS = 2**15  # number of different hash values of words
_LEAST = 10  # smallest number of items per set with which a classifier is trained


def _buckets(text: str) -> list[int]:
    """Return the sorted hash values of a text's words, each value once."""
    return sorted({zlib.crc32(word.encode()) % _BUCKETS for word in _WORD.findall(text.casefold())})


def kind_auc(
    published: Sequence[str],
    fresh: Sequence[str],
    clusters: tuple[IntArray, IntArray],
    *,
    rng: np.random.Generator,
) -> Auc | None:
    """Measure how well the words of the texts separate the published from the held-out items.

    The result is the probability that a classifier of words ranks a published item above a held-out
    item.

    Parameters
    ----------
    published, fresh : sequence of str
        Texts of the published and of the held-out items.
    clusters : tuple of arrays
        Cluster of each text, 0..G-1. All texts of a cluster are in the same fold.
    rng : numpy.random.Generator
        Source of the folds.

    Returns
    -------
    Auc or None
        The area under the ROC curve; .5 means that words cannot separate the sets. None if a set
        has fewer than ten items.

    Notes
    -----
    A multinomial naive Bayes classifier is trained on the items of the other folds (McCallum &
    Nigam 1998; add-one smoothing). The score of an item is the mean log-odds of its distinct words.
    """
    if min(len(published), len(fresh)) < _LEAST:
        return None
    words = [_buckets(text) for text in (*published, *fresh)]
    item = np.repeat(np.arange(len(words)), [len(buckets) for buckets in words])
    word = np.array(list(chain.from_iterable(words)), dtype=np.int64)
    first = np.arange(len(words)) < len(published)
    fold = np.concatenate([rng.integers(FOLDS, size=int(c.max()) + 1)[c] for c in clusters])
    score = np.full(len(words), np.nan)
    for k in range(FOLDS):
        train = fold[item] != k
        counts = []
        for side in (True, False):
            counts.append(
                np.bincount(word[train & (first[item] == side)], minlength=_BUCKETS) + 1.0
            )
        odds = np.log(counts[0] / counts[0].sum()) - np.log(counts[1] / counts[1].sum())
        sums = np.bincount(item[~train], odds[word[~train]], minlength=len(words))
        test = fold == k
        score[test] = (sums / np.maximum(np.bincount(item, minlength=len(words)), 1))[test]
    return membership_auc(score[first], score[~first])
