"""Scores of a text from its tokens, and the AUC between two sets."""

import numpy as np
import pytest
from long_tests import long
from scipy import special, stats

from audit.core.errors import DataError
from audit.statistics.completion import kind_auc, membership_auc, text_scores


def test_min_k_is_over_the_least_likely_fifth():
    logprobs = -np.arange(1.0, 11.0)  # -1 .. -10: the least likely two are -9 and -10
    assert text_scores(logprobs, logprobs / 2) == {
        "mean": -5.5,
        "min_k": -9.5,
        "min_k_plus_plus": -4.75,
    }
    assert text_scores([-2.0], [0.5])["min_k"] == -2.0  # at least one token
    assert np.isnan(list(text_scores([], []).values())).all()


def test_the_auc_counts_pairs_and_ties_half():
    a, b = [3.0, 1.0, np.nan], [2.0, 1.0, 0.0]
    # 3 beats all three; 1 beats 0 and ties with 1: (3 + 1.5) / 6
    assert membership_auc(a, b).auc == pytest.approx(4.5 / 6)
    parted = membership_auc(
        [3.0, 4.0, 5.0], [0.0, 1.0, 2.0, 2.5]
    )  # without exception: it has an interval too
    assert (parted.auc, parted.low, parted.high) == (1.0, pytest.approx(0.025 ** (1 / 3)), 1.0)
    with pytest.raises(DataError, match="at least 2 items"):
        membership_auc([1.0, np.nan], [1.0, 2.0])


def test_the_interval_is_delong_and_p_is_mann_whitney():
    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 1, 80), rng.normal(0, 1, 60)
    membership = membership_auc(a, b)
    wins = (a[:, None] > b[None, :]).astype(float)
    se = np.sqrt(wins.mean(axis=1).var(ddof=1) / 80 + wins.mean(axis=0).var(ddof=1) / 60)
    assert membership.auc == pytest.approx(wins.mean())
    half = 1.96 * se / (wins.mean() * (1 - wins.mean()))
    ends = special.expit(special.logit(wins.mean()) + np.array([-half, half]))
    assert (membership.low, membership.high) == pytest.approx(tuple(ends))
    assert membership.pvalue == stats.mannwhitneyu(a, b, alternative="greater").pvalue


@pytest.mark.long
@pytest.mark.parametrize(("n", "auc"), [(15, 0.9), (15, 0.97), (10, 0.8), (200, 0.6)])
def test_the_interval_holds_with_few_items(n, auc):
    """Without the logit, 12 % miss at 15 items and .9."""
    rng, shift = np.random.default_rng(0), np.sqrt(2) * stats.norm.ppf(auc)
    results = [membership_auc(rng.normal(shift, 1, n), rng.normal(0, 1, n)) for _ in range(600)]
    assert np.mean([result.low <= auc <= result.high for result in results]) > 0.925


@pytest.mark.parametrize(
    ("sizes", "passages"), [long([5], (40, 30)), ([1, 2, 5, 50], (40, 30)), long([20], (10, 10))]
)
def test_the_interval_holds_where_passages_share_a_likelihood(sizes, passages):
    """As if items were independent it held in 31 to 67 %."""
    rng, covered = np.random.default_rng(1), []
    for _ in range(200):
        sides = []
        for count in passages:
            cluster = np.repeat(np.arange(count), rng.choice(sizes, count))
            sides.append(
                (1.5 * rng.normal(size=count)[cluster] + rng.normal(size=cluster.size), cluster)
            )
        (a, of_a), (b, of_b) = sides
        a[0] = np.nan
        membership = membership_auc(a, b, (of_a, of_b))
        covered.append(membership.low <= 0.5 <= membership.high)
    assert np.mean(covered) > 0.93
    alone = membership_auc(a, b, (np.arange(a.size), np.arange(b.size)))
    assert alone.high - alone.low == pytest.approx(
        membership_auc(a, b).high - membership_auc(a, b).low, rel=0.05
    )


def test_words_alone_tell_sets_of_two_subjects_and_not_halves_of_one():
    rng = np.random.default_rng(4)
    words = [f"w{k}" for k in range(400)]

    def texts(of: slice, count: int) -> list[str]:
        return [" ".join(rng.choice(words[of], 12)) for _ in range(count)]

    def auc(a: list[str], b: list[str]):
        return kind_auc(a, b, (np.arange(len(a)), np.arange(len(b))), rng=np.random.default_rng(1))

    first, other = texts(slice(0, 250), 200), texts(slice(150, 400), 150)
    same = auc(first[:100], first[100:])
    assert same.low < 0.5 < same.high
    assert auc(first, other).low > 0.9 and auc(other, first).low > 0.9
    assert auc(first[:9], other) is None
    copies = [
        text for text in first[:40] for _ in range(5)
    ]  # of one group: they are never taught and asked at once
    groups = np.repeat(np.arange(40), 5)
    result = kind_auc(copies, first[40:], (groups, np.arange(160)), rng=np.random.default_rng(1))
    assert result.auc < 0.7 < auc(copies, first[40:]).auc
