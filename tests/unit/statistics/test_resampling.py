import numpy as np
import pytest
from bootstrap_intervals import outcomes, paired_bootstrap, rng
from hypothesis import given
from hypothesis import strategies as st
from long_tests import long
from scipy import stats

from audit.core.errors import DataError
from audit.statistics import drawing, permutation, resampling
from audit.statistics.drawing import bootstrap_totals, cluster_sums, flip_totals, patterns
from audit.statistics.permutation import max_statistic_exchange
from audit.statistics.resampling import Resamples, bootstrap_sweep, expansion, studentised_pvalue

# ---------------------------------------------------------------- drawing


@given(st.lists(st.lists(st.integers(-1, 1), min_size=3, max_size=3), min_size=1, max_size=30))
def test_patterns_hold_every_column_once_with_its_count(columns):
    matrix = np.array(columns, float).T
    pattern, count = patterns(matrix)
    assert sorted(np.repeat(pattern, count, axis=1).T.tolist()) == sorted(matrix.T.tolist())
    assert len({tuple(c) for c in pattern.T}) == pattern.shape[1]


def test_many_items_are_drawn_as_few_are(monkeypatch):
    """Patterns counted a block of items at a time: the same patterns in the same order, so the same
    draws."""
    values = rng(3).integers(0, 3, size=(4, 501)) / 2
    values[rng(4).random(values.shape) < 0.1] = np.nan
    whole = patterns(np.nan_to_num(values))
    clean, noisy = values[0], values[1:]
    draws = bootstrap_sweep(clean, noisy, n_resamples=200, rng=rng())
    flips = max_statistic_exchange(noisy[None], clean[None, None], n_permutations=200, rng=rng())
    for module in (drawing, resampling, permutation):
        monkeypatch.setattr(module, "ITEMS", 100)
    assert all(
        np.array_equal(a, b) for a, b in zip(patterns(np.nan_to_num(values)), whole, strict=True)
    )
    blockwise = bootstrap_sweep(clean, noisy, n_resamples=200, rng=rng())
    assert np.array_equal(blockwise.gain.draws, draws.gain.draws)
    assert np.array_equal(blockwise.gain.jackknife, draws.gain.jackknife)
    blocks = max_statistic_exchange(noisy[None], clean[None, None], n_permutations=200, rng=rng())
    assert np.array_equal(blocks.statistic, flips.statistic) and np.array_equal(
        blocks.adjusted, flips.adjusted
    )


def test_cluster_sums_by_hand():
    assert cluster_sums(np.array([[1.0, 2.0, 4.0]]), np.array([7, 3, 7])).tolist() == [[2.0, 5.0]]


def test_minus_zero_is_zero():
    assert patterns(np.array([[0.0, -0.0]]))[1].tolist() == [2]


@pytest.mark.parametrize("distinct", [5, 60])  # few patterns: multinomial; many: item by item
def test_totals_have_the_mean_and_covariance_of_drawing_items_and_of_flipping_them(distinct):
    columns = rng().normal(size=(2, distinct))[:, np.arange(60) % distinct]
    drawn, flipped = (
        totals(*patterns(columns), 40_000, rng(2)) for totals in (bootstrap_totals, flip_totals)
    )
    assert np.allclose(drawn.mean(axis=0), columns.sum(axis=1), atol=0.2)
    assert np.allclose(np.cov(drawn.T), 60 * np.cov(columns, ddof=0), rtol=0.05, atol=0.5)
    assert np.allclose(flipped.mean(axis=0), 0, atol=0.2)
    assert np.allclose(np.cov(flipped.T), columns @ columns.T, rtol=0.05, atol=0.7)


# ---------------------------------------------------------------- bootstrap


def test_percentile_interval_agrees_with_scipy():
    clean, noisy = outcomes()
    gain = paired_bootstrap(clean, noisy, method="percentile", n_resamples=20_000, rng=rng()).gain[
        0
    ]
    scipy = stats.bootstrap(
        (clean, noisy[0]),
        lambda c, q, axis: q.mean(axis) - c.mean(axis),
        paired=True,
        method="percentile",
        n_resamples=20_000,
        batch=2_000,
        rng=rng(),
    )
    # One item is 1/120 = 0.0083: quantiles of a discrete distribution may differ by one step.
    assert gain.low == pytest.approx(scipy.confidence_interval.low, abs=0.0085)
    assert gain.high == pytest.approx(scipy.confidence_interval.high, abs=0.0085)
    assert gain.se == pytest.approx(scipy.standard_error, rel=0.03)


def test_bca_interval_agrees_with_scipy_on_a_skewed_statistic():
    # Accuracy near 1: the distribution is skewed and BCa moves both ends.
    clean = np.array([1.0] * 112 + [0.0] * 8)
    noisy = np.concatenate([clean[4:], clean[:4]])[None]
    result = paired_bootstrap(clean, noisy, n_resamples=20_000, rng=rng())
    scipy = stats.bootstrap(
        (clean,), np.mean, method="BCa", n_resamples=20_000, batch=2_000, rng=rng()
    )
    assert result.clean_accuracy.low == pytest.approx(scipy.confidence_interval.low, abs=0.0085)
    assert result.clean_accuracy.high == pytest.approx(scipy.confidence_interval.high, abs=0.0085)
    percentile = paired_bootstrap(clean, noisy, method="percentile", n_resamples=20_000, rng=rng())
    assert result.clean_accuracy.low < percentile.clean_accuracy.low


def test_all_arms_of_an_item_are_carried_together():
    clean, noisy = outcomes(n=300, r=2)
    draws = bootstrap_sweep(clean, noisy, n_resamples=20_000, rng=rng())
    expected = (
        np.cov(noisy - clean, ddof=0) / 300
    )  # gains share the clean baseline: a positive covariance
    assert np.allclose(np.cov(draws.gain.draws.T), expected, rtol=0.08)
    assert expected[0, 1] > 0
    assert np.allclose(draws.mean_gain.draws[:, 0], draws.gain.draws.mean(axis=1))


def test_unequal_clusters_agree_with_a_plain_loop():
    clean, noisy = outcomes(n=60, r=1)
    cluster = rng(3).integers(0, 15, size=60)
    gain = paired_bootstrap(clean, noisy, cluster, n_resamples=20_000, rng=rng()).gain[0]
    d, generator, loop = noisy[0] - clean, rng(4), []
    members = [np.flatnonzero(cluster == g) for g in np.unique(cluster)]
    for _ in range(5_000):
        items = np.concatenate(
            [members[g] for g in generator.integers(0, len(members), len(members))]
        )
        loop.append(d[items].mean())
    assert gain.se == pytest.approx(np.std(loop), rel=0.05)


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


def test_no_difference_has_an_interval_of_zero_width_and_no_answers_have_none():
    clean, _ = outcomes()
    none, unanswered = paired_bootstrap(
        clean, np.stack([clean, np.full(clean.size, np.nan)]), rng=rng()
    ).gain
    assert (none.estimate, none.low, none.high, none.se) == (0.0, 0.0, 0.0, 0.0)
    assert np.isnan(unanswered.estimate) and np.isnan(unanswered.low)


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


# ---------------------------------------------------------------- few units, and means over
# settings


def test_an_interval_of_few_units_is_wider_by_what_t_and_the_lost_degree_of_freedom_say():
    # m = 10: t_9 = 2.262157, z = 1.959964, sqrt(10 / 9) = 1.054093
    assert expansion(0.95, 10) == pytest.approx(2.262157 / 1.959964 * 1.054093, abs=1e-5)
    assert (
        expansion(0.95, 10_000) == pytest.approx(1, abs=5e-4)
        and expansion(0.95, None) == expansion(0.95, 1) == 1
    )
    clean, noisy = outcomes(n=10, r=1)
    gain = bootstrap_sweep(clean, noisy, n_resamples=20_000, rng=rng()).gain
    (plain,), (wide,) = (
        gain.intervals(method="percentile"),
        gain.intervals(method="percentile", units=10),
    )
    tail = stats.norm.cdf(-1.959964 * expansion(0.95, 10))
    assert (wide.low, wide.high) == pytest.approx(np.quantile(gain.draws[:, 0], [tail, 1 - tail]))
    assert wide.high - wide.low > plain.high - plain.low and wide.confidence == 0.95


# Of few values, and skewed far from zero, where the spread (and so the sign in "square - total^2 /
# g") decides the p.
SCORES = (
    rng(4).choice([-1, -0.5, 0, 0.25, 1], size=40) + 0.1,
    np.repeat([0.0, 1.0, -1.0], [20, 9, 3]),
)


@pytest.mark.parametrize("scores", SCORES, ids=["few values", "skewed"])
def test_bootstrap_t_agrees_with_resampling_item_by_item(scores):
    picked = scores[rng(5).integers(0, scores.size, size=(40_000, scores.size))]
    with np.errstate(divide="ignore", invalid="ignore"):
        reference = (picked.mean(axis=1) - scores.mean()) / picked.std(axis=1)
    pvalue = studentised_pvalue(scores, n_resamples=40_000, rng=rng())
    # Monte-Carlo standard error: at most .0035
    assert pvalue == pytest.approx(np.mean(reference >= scores.mean() / scores.std()), abs=0.01)
    less = studentised_pvalue(np.append(-scores, np.nan), n_resamples=40_000, rng=rng())
    assert pvalue + less == pytest.approx(1, abs=0.03)
    # Each item eight times over, in clusters, is the same evidence.
    clusters = np.repeat(np.arange(scores.size), 8)
    repeated = studentised_pvalue(np.repeat(scores, 8), clusters, n_resamples=40_000, rng=rng())
    assert repeated == pytest.approx(pvalue, abs=0.01)


def test_bootstrap_t_of_nothing_is_one():
    assert (
        studentised_pvalue(np.zeros(20), rng=rng()) == 1
        and studentised_pvalue(np.full(3, np.nan), rng=rng()) == 1
    )


def test_bca_of_an_estimate_beyond_every_resample_stays_finite():
    # All 99 resamples lie above the estimate: the bias is that of half a resample in 99, not minus
    # infinity. With b = ppf(.5 / 99) = -2.572, z = -1.96 and no skew the levels are cdf(2b -+
    # 1.96): both ends are the lowest draws.
    draws = np.linspace(1.0, 2.0, 99)[:, None]
    resamples = Resamples(np.array([0.5]), draws, np.full((4, 1), 0.5), np.ones(4))
    (interval,) = resamples.intervals(0.95)
    b = stats.norm.ppf(0.5 / 99)
    expected = np.quantile(draws[:, 0], stats.norm.cdf(2 * b + stats.norm.ppf([0.025, 0.975])))
    assert [interval.low, interval.high] == pytest.approx(expected)
    (above,) = Resamples(np.array([2.5]), draws, np.full((4, 1), 2.5), np.ones(4)).intervals(0.95)
    mirrored = np.quantile(draws[:, 0], stats.norm.cdf(-2 * b + stats.norm.ppf([0.025, 0.975])))
    assert [above.low, above.high] == pytest.approx(mirrored)


def test_a_value_without_resamples_leaves_the_others_their_intervals():
    draws = np.column_stack([np.full(100, np.nan), np.linspace(0, 1, 100)])
    resamples = Resamples(
        np.array([0.5, 0.5]), draws, np.tile([[0.4, 0.4], [0.6, 0.6]], (2, 1)), np.ones(4)
    )
    none, interval = resamples.intervals(0.9, "percentile")
    assert np.isnan(none.low) and (interval.low, interval.high) == pytest.approx((0.05, 0.95))


@pytest.mark.parametrize("method", [long("percentile"), "bca"])
def test_coverage_is_nominal(method):
    # 400 panels of 100 items; the true gain is .1. Monte-Carlo standard error of the coverage: 1.1
    # points.
    generator, hits, trials = rng(11), 0, 400
    for _ in range(trials):
        p = generator.beta(3, 2, size=100) * 0.8
        clean = (generator.random(100) < p).astype(float)
        noisy = (generator.random((1, 100)) < p + 0.1).astype(float)
        gain = paired_bootstrap(clean, noisy, method=method, n_resamples=1_000, rng=generator).gain[
            0
        ]
        hits += gain.low <= 0.1 <= gain.high
    assert 0.95 - 0.035 <= hits / trials <= 0.95 + 0.035


def test_bootstrap_t_keeps_its_level_where_sign_flips_of_skewed_means_do_not():
    # One clean run against the mean of nine noisy ones, right nine times in ten: the differences
    # are skewed.
    generator, trials, p = rng(6), 600, []
    for _ in range(trials):
        d = (generator.random((9, 100)) < 0.9).mean(axis=0) - (generator.random(100) < 0.9)
        p.append(studentised_pvalue(-d, n_resamples=299, rng=generator))
    assert np.mean(np.array(p) <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)
