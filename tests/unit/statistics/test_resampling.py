import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from audit.errors import DataError
from audit.statistics.drawing import bootstrap_totals, cluster_sums, flip_totals, patterns
from audit.statistics.mcnemar import mcnemar_exact
from audit.statistics.resampling import (
    bootstrap_sweep,
    max_statistic_permutation,
    paired_bootstrap,
    sign_flip_pvalue,
)


def outcomes(n=120, r=3, seed=0, effect=0.0):
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 2, size=n)
    clean = (rng.random(n) < p).astype(float)
    noisy = (rng.random((r, n)) < np.clip(p + effect, 0, 1)).astype(float)
    return clean, noisy


def rng(seed=1):
    return np.random.default_rng(seed)


# ---------------------------------------------------------------- drawing


@given(st.lists(st.lists(st.integers(-1, 1), min_size=3, max_size=3), min_size=1, max_size=30))
def test_patterns_hold_every_column_once_with_its_count(columns):
    matrix = np.array(columns, float).T
    pattern, count = patterns(matrix)
    assert sorted(np.repeat(pattern, count, axis=1).T.tolist()) == sorted(matrix.T.tolist())
    assert len({tuple(c) for c in pattern.T}) == pattern.shape[1]


def test_minus_zero_is_zero():
    assert patterns(np.array([[0.0, -0.0]]))[1].tolist() == [2]


@pytest.mark.parametrize("distinct", [5, 60])  # few patterns: multinomial; many: item by item
def test_bootstrap_totals_have_the_mean_and_covariance_of_drawing_items(distinct):
    g = 60
    columns = rng().normal(size=(2, distinct))[:, np.arange(g) % distinct]
    totals = bootstrap_totals(*patterns(columns), 40_000, rng(2))
    assert np.allclose(totals.mean(axis=0), columns.sum(axis=1), atol=0.2)
    assert np.allclose(np.cov(totals.T), g * np.cov(columns, ddof=0), rtol=0.05, atol=0.5)


@pytest.mark.parametrize("distinct", [5, 60])
def test_flip_totals_have_mean_zero_and_the_second_moments_of_the_scores(distinct):
    columns = rng().normal(size=(2, distinct))[:, np.arange(60) % distinct]
    totals = flip_totals(*patterns(columns), 40_000, rng(2))
    assert np.allclose(totals.mean(axis=0), 0, atol=0.2)
    assert np.allclose(np.cov(totals.T), columns @ columns.T, rtol=0.05, atol=0.7)


def test_cluster_sums_by_hand():
    assert cluster_sums(np.array([[1.0, 2.0, 4.0]]), np.array([7, 3, 7])).tolist() == [[2.0, 5.0]]


# ---------------------------------------------------------------- bootstrap


def test_percentile_interval_agrees_with_scipy():
    clean, noisy = outcomes()
    ours = paired_bootstrap(clean, noisy, method="percentile", n_resamples=20_000, rng=rng()).gain[0]
    scipy = stats.bootstrap(
        (clean, noisy[0]), lambda c, q, axis: q.mean(axis) - c.mean(axis), paired=True, method="percentile",
        n_resamples=20_000, batch=2_000, rng=rng(),
    )  # fmt: skip
    # One item is 1/120 = 0.0083: quantiles of a discrete distribution may differ by one step.
    assert ours.low == pytest.approx(scipy.confidence_interval.low, abs=0.0085)
    assert ours.high == pytest.approx(scipy.confidence_interval.high, abs=0.0085)
    assert ours.se == pytest.approx(scipy.standard_error, rel=0.03)


def test_bca_interval_agrees_with_scipy_on_a_skewed_statistic():
    # Accuracy near 1: the distribution is skewed and BCa moves both ends.
    clean = np.array([1.0] * 112 + [0.0] * 8)
    noisy = np.concatenate([clean[4:], clean[:4]])[None]
    result = paired_bootstrap(clean, noisy, n_resamples=20_000, rng=rng())
    scipy = stats.bootstrap((clean,), np.mean, method="BCa", n_resamples=20_000, batch=2_000, rng=rng())
    assert result.clean_accuracy.low == pytest.approx(scipy.confidence_interval.low, abs=0.0085)
    assert result.clean_accuracy.high == pytest.approx(scipy.confidence_interval.high, abs=0.0085)
    percentile = paired_bootstrap(clean, noisy, method="percentile", n_resamples=20_000, rng=rng())
    assert result.clean_accuracy.low < percentile.clean_accuracy.low


def test_standard_error_is_the_paired_one_and_pairing_matters():
    clean, noisy = outcomes(n=400, r=1)
    noisy[0] = np.where(rng(5).random(400) < 0.9, clean, noisy[0])  # strongly dependent arms
    paired = paired_bootstrap(clean, noisy, rng=rng()).gain[0]
    broken = paired_bootstrap(rng(9).permutation(clean), noisy, rng=rng()).gain[0]
    assert paired.estimate == pytest.approx(broken.estimate)
    assert paired.se == pytest.approx((noisy[0] - clean).std() / np.sqrt(400), rel=0.03)
    assert broken.se > 2 * paired.se


def test_all_arms_of_an_item_are_carried_together():
    clean, noisy = outcomes(n=300, r=2)
    draws = bootstrap_sweep(clean, noisy, n_resamples=20_000, rng=rng())
    expected = np.cov(noisy - clean, ddof=0) / 300  # gains share the clean baseline: a positive covariance
    assert np.allclose(np.cov(draws.gain.draws.T), expected, rtol=0.08)
    assert expected[0, 1] > 0
    assert np.allclose(draws.mean_gain.draws[:, 0], draws.gain.draws.mean(axis=1))


def test_clusters_are_resampled_whole():
    # 20 clusters of 10 identical items: as little information as 20 items, not 200.
    clean, noisy = outcomes(n=20, r=1)
    cluster = np.repeat(np.arange(20), 10)
    whole = paired_bootstrap(np.repeat(clean, 10), np.repeat(noisy, 10, axis=1), cluster, rng=rng()).gain[0]
    single = paired_bootstrap(clean, noisy, rng=rng()).gain[0]
    ignored = paired_bootstrap(np.repeat(clean, 10), np.repeat(noisy, 10, axis=1), rng=rng()).gain[0]
    assert whole.se == pytest.approx(single.se, rel=0.05)
    assert ignored.se == pytest.approx(single.se / np.sqrt(10), rel=0.05)


def test_unequal_clusters_agree_with_a_plain_loop():
    clean, noisy = outcomes(n=60, r=1)
    cluster = rng(3).integers(0, 15, size=60)
    ours = paired_bootstrap(clean, noisy, cluster, n_resamples=20_000, rng=rng()).gain[0]
    d, generator, loop = noisy[0] - clean, rng(4), []
    members = [np.flatnonzero(cluster == g) for g in np.unique(cluster)]
    for _ in range(5_000):
        items = np.concatenate([members[g] for g in generator.integers(0, len(members), len(members))])
        loop.append(d[items].mean())
    assert ours.se == pytest.approx(np.std(loop), rel=0.05)


def test_missing_answers_leave_out_the_pair_only():
    clean, noisy = outcomes(n=100, r=2)
    noisy[0, :30] = np.nan
    result = paired_bootstrap(clean, noisy, rng=rng())
    assert result.gain[0].estimate == pytest.approx((noisy[0, 30:] - clean[30:]).mean())
    assert result.gain[1].estimate == pytest.approx((noisy[1] - clean).mean())
    assert result.clean_accuracy.estimate == clean.mean()
    # Each resample has its own number of complete pairs: close to the interval over the 70 alone.
    alone = paired_bootstrap(clean[30:], noisy[:, 30:], rng=rng()).gain[0]
    assert result.gain[0].se == pytest.approx(alone.se, rel=0.05)


def test_positive_excess_is_the_gain_cut_at_zero():
    clean, noisy = outcomes()
    result = paired_bootstrap(clean, noisy, rng=rng())
    for gain, excess in zip(result.gain, result.positive_excess, strict=True):
        assert (excess.estimate, excess.low, excess.high) == (
            max(gain.estimate, 0),
            max(gain.low, 0),
            max(gain.high, 0),
        )


def test_item_order_changes_nothing_and_swapping_arms_mirrors_the_interval():
    clean, noisy = outcomes(r=1)
    order = rng(8).permutation(clean.size)
    a = paired_bootstrap(clean, noisy, rng=rng())
    assert paired_bootstrap(clean[order], noisy[:, order], rng=rng()) == a
    swapped = paired_bootstrap(noisy[0], clean[None], n_resamples=40_000, rng=rng()).gain[0]
    assert swapped.estimate == -a.gain[0].estimate
    assert swapped.low == pytest.approx(-a.gain[0].high, abs=0.009)
    assert swapped.high == pytest.approx(-a.gain[0].low, abs=0.009)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_coverage_is_nominal(method):
    # 400 panels of 100 items; the true gain is .1. Monte-Carlo standard error of the coverage: 1.1 points.
    generator, hits, trials = rng(11), 0, 400
    for _ in range(trials):
        p = generator.beta(3, 2, size=100) * 0.8
        clean = (generator.random(100) < p).astype(float)
        noisy = (generator.random((1, 100)) < p + 0.1).astype(float)
        gain = paired_bootstrap(clean, noisy, method=method, n_resamples=1_000, rng=generator).gain[0]
        hits += gain.low <= 0.1 <= gain.high
    assert 0.95 - 0.035 <= hits / trials <= 0.95 + 0.035


def test_no_difference_gives_an_interval_of_zero_width():
    clean, _ = outcomes()
    gain = paired_bootstrap(clean, clean[None], rng=rng()).gain[0]
    assert (gain.estimate, gain.low, gain.high, gain.se) == (0.0, 0.0, 0.0, 0.0)


def test_an_arm_without_answers_has_no_interval():
    clean, noisy = outcomes(r=2)
    noisy[1] = np.nan
    result = paired_bootstrap(clean, noisy, rng=rng())
    assert np.isnan(result.gain[1].estimate) and np.isnan(result.gain[1].low)
    assert np.isfinite(result.gain[0].low)


@pytest.mark.parametrize(
    ("clean", "noisy", "cluster"),
    [
        (np.zeros(3), np.zeros((2, 4)), None),
        (np.zeros(0), np.zeros((2, 0)), None),
        (np.zeros(3), np.zeros((2, 3)), np.arange(2)),
        (np.array([0, 2.0]), np.zeros((1, 2)), None),
    ],
)
def test_bad_shapes_and_values(clean, noisy, cluster):
    with pytest.raises(DataError):
        paired_bootstrap(clean, noisy, cluster, rng=rng())


# ---------------------------------------------------------------- max-statistic test


def exact_max_test(scores):
    """Every sign flip of the items' score vectors (K, n): family-wise p, single p, step-down p."""
    scale = np.sqrt((scores**2).sum(axis=1))
    t = scores.sum(axis=1) / scale
    flips = np.array(list(itertools.product([-1, 1], repeat=scores.shape[1])))
    reference = flips @ scores.T / scale
    single = (reference >= t - 1e-9).mean(axis=0)
    order = np.argsort(-t)
    stepped = np.empty(len(t))
    worst = 0.0
    for step, k in enumerate(order):
        worst = max(worst, (reference[:, order[step:]].max(axis=1) >= t[k] - 1e-9).mean())
        stepped[k] = worst
    return (reference.max(axis=1) >= t.max() - 1e-9).mean(), single, stepped


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_every_permutation_of_a_small_sample(seed):
    clean, noisy = outcomes(n=13, r=3, seed=seed, effect=0.25)
    family, single, stepped = exact_max_test(noisy - clean)
    ours = max_statistic_permutation(clean, noisy, n_permutations=40_000, rng=rng())
    # Monte-Carlo standard error of a p-value: at most .5 / 200 = .0025.
    assert ours.pvalue == pytest.approx(family, abs=0.01)
    assert np.allclose(ours.pvalues, single, atol=0.01)
    assert np.allclose(ours.adjusted, stepped, atol=0.01)
    assert ours.best == int(np.argmax(ours.statistic))


def test_one_setting_is_the_exact_mcnemar_test():
    clean, noisy = outcomes(n=200, r=1, effect=0.08)
    b, c = int(((noisy[0] - clean) > 0).sum()), int(((noisy[0] - clean) < 0).sum())
    ours = max_statistic_permutation(clean, noisy, n_permutations=40_000, rng=rng())
    assert ours.pvalue == pytest.approx(mcnemar_exact(b, c).pvalue, abs=0.01)
    assert ours.statistic[0] == pytest.approx(mcnemar_exact(b, c).statistic)


def test_agrees_with_scipy_permutation_test():
    clean, noisy = outcomes(n=80, r=1, effect=0.1)
    scipy = stats.permutation_test(
        (noisy[0], clean), lambda x, y, axis: np.mean(x - y, axis=axis), permutation_type="samples",
        alternative="greater", n_resamples=20_000, vectorized=True, rng=rng(),
    )  # fmt: skip
    ours = max_statistic_permutation(clean, noisy, n_permutations=20_000, rng=rng())
    assert ours.pvalue == pytest.approx(scipy.pvalue, abs=0.012)
    assert sign_flip_pvalue(noisy[0] - clean, n_permutations=20_000, rng=rng()) == pytest.approx(
        scipy.pvalue, abs=0.012
    )


def test_alternatives_mirror_each_other():
    clean, noisy = outcomes(r=1, effect=0.1)
    up = max_statistic_permutation(clean, noisy, rng=rng())
    down = max_statistic_permutation(noisy[0], clean[None], alternative="less", rng=rng())
    both = max_statistic_permutation(clean, noisy, alternative="two-sided", rng=rng())
    assert up.pvalue == pytest.approx(down.pvalue, abs=0.01)
    assert both.pvalue == pytest.approx(2 * up.pvalue, abs=0.015)
    with pytest.raises(DataError):
        max_statistic_permutation(clean, noisy, alternative="up", rng=rng())


def test_adjusted_p_lie_between_single_p_and_bonferroni():
    clean, noisy = outcomes(n=300, r=6, effect=0.03)
    result = max_statistic_permutation(clean, noisy, rng=rng())
    assert np.all(result.adjusted >= result.pvalues)
    assert np.all(result.adjusted <= np.minimum(1, 6 * result.pvalues) + 0.01)
    assert result.pvalue == result.adjusted.min()


def test_flipping_whole_clusters_sees_less_evidence_in_repeated_items():
    clean, noisy = outcomes(n=25, r=1, seed=3, effect=0.25)
    repeat = (np.repeat(clean, 8), np.repeat(noisy, 8, axis=1))
    single = max_statistic_permutation(clean, noisy, n_permutations=20_000, rng=rng())
    whole = max_statistic_permutation(*repeat, np.repeat(np.arange(25), 8), n_permutations=20_000, rng=rng())
    assert whole.pvalue == pytest.approx(single.pvalue, abs=0.012)
    assert max_statistic_permutation(*repeat, rng=rng()).pvalue < single.pvalue / 3


def test_item_order_changes_nothing():
    clean, noisy = outcomes(effect=0.05)
    order = rng(8).permutation(clean.size)
    a = max_statistic_permutation(clean, noisy, rng=rng())
    b = max_statistic_permutation(clean[order], noisy[:, order], rng=rng())
    assert a.pvalue == b.pvalue and a.adjusted.tolist() == b.adjusted.tolist()


def test_pairing_matters():
    clean = np.array([1.0] * 60 + [0.0] * 60)
    noisy = clean.copy()
    noisy[60:68] = 1.0  # eight improve, none degrades
    paired = max_statistic_permutation(clean, noisy[None], rng=rng()).pvalue
    broken = max_statistic_permutation(clean, rng(2).permutation(noisy)[None], rng=rng()).pvalue
    assert paired == pytest.approx(1 / 256, abs=0.003)
    assert broken > 0.05


def test_no_difference_anywhere_is_p_one():
    clean, _ = outcomes()
    result = max_statistic_permutation(clean, np.stack([clean, clean]), rng=rng())
    assert result.pvalue == 1.0 and result.adjusted.tolist() == [1.0, 1.0]


def test_missing_pairs_are_left_out_and_counted():
    clean, noisy = outcomes(n=50, r=2, effect=0.2)
    noisy[0, 10:] = np.nan
    result = max_statistic_permutation(clean, noisy, rng=rng())
    assert result.n_pairs.tolist() == [10, 50]
    alone = max_statistic_permutation(clean[:10], noisy[:1, :10], n_permutations=40_000, rng=rng())
    assert result.pvalues[0] == pytest.approx(alone.pvalue, abs=0.02)


def no_effect(kind, generator, n=100, r=9):
    if kind == "hard":
        p = np.full(n, 0.1)
    elif kind == "easy":
        p = np.full(n, 0.9)
    else:
        p = generator.beta(1, 1, size=n)
    clean = generator.random(n) < p
    if kind != "nested":
        return clean.astype(float), (generator.random((r, n)) < p).astype(float)
    # Nested draws: a setting keeps most of the luck of the one before it; clean has luck of its own.
    luck, noisy = generator.random(n), []
    for _ in range(r):
        luck = np.where(generator.random(n) < 0.8, luck, generator.random(n))
        noisy.append(luck < p)
    return clean.astype(float), np.array(noisy, dtype=float)


@pytest.mark.parametrize("kind", ["mixed", "hard", "easy", "nested"])
def test_family_wise_level_with_a_shared_baseline(kind):
    # "mixed" is also clean against clean: nine replicates of the clean arm as settings. 800 models without effect;
    # Monte-Carlo standard error of a rate of 5 %: 0.77 points; allowed: 3 of them.
    generator, trials = rng(21), 800
    p = [
        max_statistic_permutation(*no_effect(kind, generator), n_permutations=499, rng=generator).pvalue
        for _ in range(trials)
    ]
    assert 0.025 <= np.mean(np.array(p) <= 0.05) <= 0.05 + 3 * 0.0077
    # The paper's rule convicts most of these models.
    convicted = [(q.mean(axis=1) > c.mean()).any() for c, q in (no_effect(kind, generator) for _ in range(200))]
    assert np.mean(convicted) > 0.5


def test_a_real_effect_in_one_setting_leaves_the_others_at_their_level():
    # Strong control: setting 0 has a large gain, the eight others none. False rejections among them: at most 5 %.
    generator, trials, false, found = rng(31), 400, 0, 0
    for _ in range(trials):
        clean, noisy = no_effect("mixed", generator)
        noisy[0] = np.maximum(noisy[0], generator.random(100) < 0.5)
        adjusted = max_statistic_permutation(clean, noisy, n_permutations=499, rng=generator).adjusted
        false += bool((adjusted[1:] <= 0.05).any())
        found += bool(adjusted[0] <= 0.05)
    assert found / trials > 0.9
    assert false / trials <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)


def test_step_down_never_ranks_a_smaller_statistic_as_stronger_evidence():
    # Setting 0: 5 improve, 0 degrade (t = 2.24, p = 1/32). Setting 1, on other items: 18 improve, 7 degrade (t = 2.20,
    # p = .0216). Step 1: either reaches 2.24, 1 - (1 - 1/32)(1 - P(Bin(25) >= 19)) = .0383; alone: .0216.
    clean, noisy = np.zeros(30), np.zeros((2, 30))
    noisy[0, :5] = 1
    noisy[1, 5:23] = 1
    clean[23:] = 1
    noisy[0, 23:] = 1  # the seven that setting 1 loses stay right under setting 0
    expected = 1 - (1 - 1 / 32) * (1 - stats.binom.sf(18, 25, 0.5))
    result = max_statistic_permutation(clean, noisy, n_permutations=40_000, rng=rng())
    assert result.statistic == pytest.approx([5 / np.sqrt(5), 11 / np.sqrt(25)])
    assert result.pvalues[1] == pytest.approx(stats.binom.sf(17, 25, 0.5), abs=0.004)
    assert result.adjusted == pytest.approx([expected, expected], abs=0.005)
