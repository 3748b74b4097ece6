"""Intervals and tests with clusters of unequal size: one passage with half of all items carries
half of the error."""

import numpy as np
import pytest
from long_tests import long

from audit.statistics.chance import interval
from audit.statistics.contracts import clustered_mean, rate_interval
from audit.statistics.dif import mantel_haenszel
from audit.statistics.drawing import cluster_df, shared_se
from audit.statistics.estimate import above_pvalue, mean_of
from audit.statistics.information import information_slope, slope_at_zero
from audit.statistics.selectivity import selectivity
from audit.statistics.set_difference import set_difference
from audit.statistics.versions import lasting_by_condition, lasting_by_items, paired_difference
from audit.statistics.without_memory import score_of
from audit.statistics.wording_drop import wording_drop
from audit.sweep.compare import compare
from audit.sweep.evidence import _larger

RUNS = 400
SIZES = {
    "equal": [5] * 20,
    "one large": [60] + [1] * 60,
    "three large": [40] * 3 + [1] * 60,
    "few": [20] * 5,
}


def shared(
    rng: np.random.Generator, cluster: np.ndarray, rate: float, icc: float = 0.2
) -> np.ndarray:
    """Items of a cluster share a rate of their own, Beta distributed."""
    rates = rng.beta(rate * (1 / icc - 1), (1 - rate) * (1 / icc - 1), cluster.max() + 1)
    return (rng.random(cluster.size) < rates[cluster]).astype(float)


def test_degrees_of_freedom_of_clusters() -> None:
    assert cluster_df(np.arange(50)) == 49 and cluster_df(np.zeros(9)) == 0


@pytest.mark.parametrize("sizes", ["one large", *map(long, sorted({*SIZES} - {"one large"}))])
def test_an_accuracys_interval_holds(sizes: str) -> None:
    """Normal or Student's with clusters - 1 degrees: one large cluster, 28 and 25 % of intervals
    missed."""
    cluster, rng = np.repeat(np.arange(len(SIZES[sizes])), SIZES[sizes]), np.random.default_rng(2)
    missed = np.zeros(4)
    for _ in range(RUNS):
        x = shared(rng, cluster, 0.7)
        plain, rate, mean, score = (
            interval(x, cluster),
            rate_interval(x, cluster),
            clustered_mean(x, cluster),
            score_of(x, cluster),
        )
        ends = [plain[1:], (rate.low, rate.high), (mean.low, mean.high), (score.low, score.high)]
        missed += [not low <= 0.7 <= high for low, high in ends]
    assert np.all(missed / RUNS < 0.12), missed / RUNS


@pytest.mark.long
@pytest.mark.parametrize("sizes", ["equal", "one large", "three large"])
def test_a_difference_that_is_none_is_rarely_shown(sizes: str) -> None:
    """Two-sided at 5 % of `compare`; one-sided at 2.5 % of D, of a drop, and of a gap to other
    items."""
    cluster, rng = np.repeat(np.arange(len(SIZES[sizes])), SIZES[sizes]), np.random.default_rng(3)
    shown = np.zeros(4)
    for _ in range(RUNS):
        # Which of the two does better is a cluster's own.
        x, y, z = (shared(rng, cluster, 0.3) for _ in range(3))
        change = paired_difference(x, y, cluster, rng=rng)
        gap = set_difference((x, shared(rng, cluster, 0.3)), (), (cluster, cluster))
        shown += [
            not change.low <= 0 <= change.high,
            selectivity(x, y, z, cluster).above_p < 0.025,
            above_pvalue(mean_of(x - y, cluster)) < 0.025,
            gap.pvalue < 0.025,
        ]
    assert np.all(shown / RUNS < [0.1, 0.05, 0.06, 0.06]), shown / RUNS


def test_an_accuracy_of_shares_has_the_interval_of_shares() -> None:
    """Ten trials an item say more than one: as 0 and 1 of one trial each the interval held in 99 %
    and was 1.4 times as wide."""
    rng, items = np.random.default_rng(1), np.arange(100)
    intervals = [
        interval(rng.binomial(10, rng.beta(0.6, 0.6, 100)) / 10, items) for _ in range(1000)
    ]
    assert (
        0.93
        <= np.mean([limits is not None and limits[1] <= 0.5 <= limits[2] for limits in intervals])
        <= 0.97
    )


def test_where_next_to_nothing_changes_no_interval_is_a_point() -> None:
    """1 % of 100 items change: with none of these among them, 37 % of runs had an interval of no
    width."""
    rng, covered = np.random.default_rng(4), []
    for _ in range(RUNS):
        lost = (rng.random(100) < 0.01).astype(float)
        lasting = lasting_by_condition(lost, np.zeros(100), np.arange(100))
        covered.append(lasting.low <= 0.01 <= lasting.high)
    assert np.mean(covered) > 0.94
    by_items = lasting_by_items(np.zeros(100), np.zeros(100), (np.arange(100), np.arange(100)))
    assert by_items.low < -0.03 and by_items.high > 0.03 and by_items.pvalue == 1.0


def test_a_score_is_worth_no_more_items_than_it_has() -> None:
    """Pairs of which one is right each time have no spread between clusters; one pair less, and
    next to none."""
    y = np.tile([1.0, 0.0], 100)
    y[1] = 1.0
    score = score_of(y, np.repeat(np.arange(100), 2))
    assert score.low < 0.44 and score.high > 0.57


@pytest.mark.long
@pytest.mark.parametrize(
    ("sizes", "most"), [("equal", 0.09), ("one large", 0.06), ("three large", 0.11)]
)
def test_bootstrap_intervals_of_a_gain_and_a_drop_hold(sizes: str, most: float) -> None:
    """By the number of clusters, 14 % of those of one large cluster missed."""
    cluster, rng = np.repeat(np.arange(len(SIZES[sizes])), SIZES[sizes]), np.random.default_rng(6)
    missed = np.zeros(2)
    for _ in range(200):
        x, y = shared(rng, cluster, 0.5), shared(rng, cluster, 0.5)
        gain = compare(
            x[None, None], y[None, None], (1,), cluster, n_resamples=299, n_permutations=99, rng=rng
        )
        drop = wording_drop(x[None], y[None], cluster, n_resamples=299, rng=rng).drop
        missed += [
            not gain.pointwise[0].low <= 0 <= gain.pointwise[0].high,
            not drop.low <= 0 <= drop.high,
        ]
    assert np.all(missed / 200 < most), missed / 200


def test_a_hint_test_by_clusters_keeps_its_level() -> None:
    cluster, rng = np.repeat(np.arange(61), SIZES["one large"]), np.random.default_rng(7)
    pvalues = [
        _larger(tuple(shared(rng, cluster, 0.5) for _ in range(4)), cluster, (0, 0, 0, 0))[2]
        for _ in range(RUNS)
    ]
    assert np.mean(np.array(pvalues) < 0.025) < 0.04  # 12.7 % by the normal quantile


def test_what_loses_the_same_everywhere_is_found_whatever_rounding_says() -> None:
    """A drop of 1/3 of every item had p = 0, one of 1/2 p = 1."""
    for lost in (1.0, 0.5, 1 / 3):
        drop = mean_of(np.full(40, 1.0) - (1 - lost), np.arange(40))
        assert 0 < above_pvalue(drop) < 1e-9 and above_pvalue(drop, lost) == 1.0


def test_groups_of_whole_clusters_differ_by_chance_as_often_as_stated() -> None:
    """By chi-square with one degree of freedom, 27 %."""
    cluster, rng = np.repeat(np.arange(61), SIZES["one large"]), np.random.default_rng(9)
    pvalues = []
    for _ in range(RUNS):
        focal = (rng.permutation(61) < 30)[cluster]
        pvalues.append(
            mantel_haenszel(
                shared(rng, cluster, 0.6), focal, np.zeros(120, dtype=int), cluster
            ).pvalue
        )
    assert np.mean(np.array(pvalues) < 0.05) < 0.08


def test_intervals_hold_where_a_passage_is_lost_as_a_whole() -> None:
    """One in ten is. A robust error alone: 44 and 48 % held, as a large passage that did not move
    has no residual."""
    cluster, rng = np.repeat(np.arange(63), SIZES["three large"]), np.random.default_rng(5)
    doses, covered = np.array([0, 0.5]), np.zeros(3)
    for _ in range(RUNS):
        lost = (rng.random(63) < 0.1)[cluster].astype(float)
        paired = paired_difference(np.ones(180), 1 - lost, cluster, rng=rng)
        slope = slope_at_zero(doses, np.stack([np.ones(180), 1 - lost], axis=1), cluster)
        lasting = lasting_by_condition(lost, np.zeros(180), cluster)
        covered += [
            paired.low <= -0.1 <= paired.high,
            slope.low <= -0.2 <= slope.high,
            lasting.low <= 0.1 <= lasting.high,
        ]
    assert np.all(covered / RUNS > 0.93), covered / RUNS


def test_the_error_of_shared_effects_by_hand() -> None:
    # Clusters of 3, 1 and 1 whose means are 1, 0 and 0: between 1.2 / 2, within 0, so (.6 * 2) / (5
    # - 11 / 5) = 3 / 7.
    se = shared_se(np.array([1.0, 1, 1, 0, 0]), np.array([0, 0, 0, 1, 2]))
    assert se == pytest.approx(np.sqrt(3 / 7 * 11) / 5)
    assert (
        shared_se(np.array([1.0, 0, 1, 0]), np.array([0, 0, 1, 1])) == 0
    )  # of one size: CR2 sees them all


def test_a_line_that_few_questions_carry_has_an_interval_that_holds() -> None:
    """One question in eight loses most of its words. With questions - 1 degrees of freedom 84 %
    held."""
    rng, covered = np.random.default_rng(6), []
    for _ in range(RUNS):
        arrived = np.clip(0.98 - 0.02 * rng.random((20, 9)), 0, 1)
        arrived[:3] = np.sort(rng.random((3, 9)), axis=1)
        right = (rng.random((20, 9)) < rng.beta(2, 2, 20)[:, None]).astype(float)
        slope = information_slope(arrived, right)
        covered.append(slope.low <= 0 <= slope.high)
    assert np.mean(covered) > 0.93, np.mean(covered)
