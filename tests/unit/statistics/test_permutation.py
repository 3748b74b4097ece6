import itertools

import numpy as np
import pytest
from bootstrap_intervals import outcomes
from scipy import stats

from audit.errors import DataError
from audit.statistics.drawing import choice_totals
from audit.statistics.mcnemar import mcnemar_exact
from audit.statistics.permutation import enough_permutations, max_statistic_exchange, sign_flip_pvalue


def rng(seed=1):
    return np.random.default_rng(seed)


def flipped(clean, noisy, cluster=None, **options):
    """One run of the baseline (n,) and one of each setting (R, n)."""
    return max_statistic_exchange(noisy[None], clean[None, None], cluster, **options)


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
    ours = flipped(clean, noisy, n_permutations=40_000, rng=rng())
    # Monte-Carlo standard error of a p-value: at most .5 / 200 = .0025.
    assert ours.pvalue == pytest.approx(family, abs=0.01)
    assert np.allclose(ours.pvalues, single, atol=0.01)
    assert np.allclose(ours.adjusted, stepped, atol=0.01)


def test_one_setting_is_the_exact_mcnemar_test():
    clean, noisy = outcomes(n=200, r=1, effect=0.08)
    b, c = int(((noisy[0] - clean) > 0).sum()), int(((noisy[0] - clean) < 0).sum())
    ours = flipped(clean, noisy, n_permutations=40_000, rng=rng())
    assert ours.pvalue == pytest.approx(mcnemar_exact(b, c).pvalue, abs=0.01)
    assert ours.statistic[0] == pytest.approx(mcnemar_exact(b, c).statistic)


def test_swapped_arms_have_the_other_tail():
    clean, noisy = outcomes(r=1, effect=0.1)
    up, down = flipped(clean, noisy, rng=rng()), flipped(noisy[0], clean[None], rng=rng())
    both = sign_flip_pvalue(noisy[0] - clean, two_sided=True, rng=rng())
    assert up.statistic == -down.statistic and down.pvalue > 1 - up.pvalue
    assert both == pytest.approx(2 * up.pvalue, abs=0.015)


def test_adjusted_p_lie_between_single_p_and_bonferroni():
    clean, noisy = outcomes(n=300, r=6, effect=0.03)
    result = flipped(clean, noisy, rng=rng())
    assert np.all(result.adjusted >= result.pvalues)
    assert np.all(result.adjusted <= np.minimum(1, 6 * result.pvalues) + 0.01)
    assert result.pvalue == result.adjusted.min()


def test_flipping_whole_clusters_sees_less_evidence_in_repeated_items():
    clean, noisy = outcomes(n=25, r=1, seed=3, effect=0.25)
    repeat = (np.repeat(clean, 8), np.repeat(noisy, 8, axis=1))
    single = flipped(clean, noisy, n_permutations=20_000, rng=rng())
    whole = flipped(*repeat, np.repeat(np.arange(25), 8), n_permutations=20_000, rng=rng())
    assert whole.pvalue == pytest.approx(single.pvalue, abs=0.012)
    assert flipped(*repeat, rng=rng()).pvalue < single.pvalue / 3


def test_no_difference_anywhere_is_p_one():
    clean, _ = outcomes()
    result = flipped(clean, np.stack([clean, clean]), rng=rng())
    assert result.pvalue == 1.0 and result.adjusted.tolist() == [1.0, 1.0]


def test_missing_pairs_are_left_out():
    clean, noisy = outcomes(n=50, r=2, effect=0.2)
    noisy[0, 10:] = np.nan
    result = flipped(clean, noisy, rng=rng())
    alone = flipped(clean[:10], noisy[:1, :10], n_permutations=40_000, rng=rng())
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
    p = [flipped(*no_effect(kind, generator), n_permutations=499, rng=generator).pvalue for _ in range(trials)]
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
        adjusted = flipped(clean, noisy, n_permutations=499, rng=generator).adjusted
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
    result = flipped(clean, noisy, n_permutations=40_000, rng=rng())
    assert result.statistic == pytest.approx([5 / np.sqrt(5), 11 / np.sqrt(25)])
    assert result.pvalues[1] == pytest.approx(stats.binom.sf(17, 25, 0.5), abs=0.004)
    assert result.adjusted == pytest.approx([expected, expected], abs=0.005)


# ---------------------------------------------------------------- several runs of a setting


def exact_exchange(noisy, base):
    """Every relabelling of one setting's runs (L, n), (K, n): p of sum(d) / sqrt(sum(d^2))."""
    runs, chosen = (
        np.concatenate([noisy, base]),
        list(itertools.combinations(range(len(noisy) + len(base)), len(noisy))),
    )
    d = []
    for index in chosen:
        called = np.isin(np.arange(len(runs)), index)
        with np.errstate(invalid="ignore"):
            d.append(np.nan_to_num(np.nanmean(runs[called], axis=0) - np.nanmean(runs[~called], axis=0)))
    d = np.array(d)

    def statistic(values):
        return values.sum() / np.sqrt((values**2).sum() or 1)

    n = runs.shape[1]
    every = [statistic(d[list(pick), np.arange(n)]) for pick in itertools.product(range(len(chosen)), repeat=n)]
    return np.mean(np.array(every) >= statistic(d[0]) - 1e-9)


@pytest.mark.parametrize(("m", "k"), [(1, 2), (1, 3), (2, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_every_relabelling_of_a_small_sample(m, k, seed):
    n = {2: 8, 3: 7, 4: 6}[m * k]
    p = rng(seed).beta(1, 1, size=n)
    noisy = (rng(seed + 10).random((m, n)) < p + 0.2).astype(float)
    base = (rng(seed + 20).random((k, n)) < p).astype(float)
    ours = max_statistic_exchange(noisy[:, None], base[:, None], n_permutations=40_000, rng=rng())
    assert ours.pvalue == pytest.approx(exact_exchange(noisy, base), abs=0.01)
    assert ours.pvalue == pytest.approx(ours.pvalues[0])


def replicated(generator, n, r, k, kind):
    """Runs of a model without any gain on average: noisy (1, r, n), base (k, 1, n)."""
    if kind == "both_ways":  # clean never wavers, noisy is a coin: no mean gain, but the runs are not alike
        base = np.repeat((generator.random(n) < 0.5)[None, None], k, axis=0)
        return (generator.random((1, r, n)) < 0.5).astype(float), base.astype(float)
    p = generator.beta(38, 2, size=n) if kind == "easy" else generator.beta(1, 1, size=n)
    base = generator.random((k, 1, n)) < p
    if kind == "nested":
        luck, rows = generator.random(n), []
        for _ in range(r):
            luck = np.where(generator.random(n) < 0.8, luck, generator.random(n))
            rows.append(luck < p)
        return np.array(rows, dtype=float)[None], base.astype(float)
    return (generator.random((1, r, n)) < p).astype(float), base.astype(float)


@pytest.mark.parametrize("kind", ["mixed", "easy", "nested", "both_ways"])
def test_family_wise_level_with_replicates_of_the_baseline(kind):
    # 400 models; Monte-Carlo standard error of a rate of 5 %: 1.1 points; allowed: 3 of them.
    generator, trials, rejected, by_flips = rng(41), 400, 0, 0
    for _ in range(trials):
        noisy, base = replicated(generator, 100, 5, 5, kind)
        rejected += max_statistic_exchange(noisy, base, n_permutations=299, rng=generator).pvalue <= 0.05
        if kind == "easy":
            mean = base.mean(axis=0)[0]
            by_flips += flipped(mean, noisy[0], n_permutations=299, rng=generator).pvalue <= 0.05
    assert rejected / trials <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)
    assert rejected / trials >= 0.015  # not by never rejecting
    if kind == "easy":  # what flips of differences from a mean do, or this design shows nothing
        assert by_flips / trials > 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)


def test_more_replicates_find_more():
    generator, found = rng(51), {1: 0, 5: 0}
    for _ in range(150):
        p = generator.beta(1, 1, size=100)
        noisy = (generator.random((1, 3, 100)) < np.clip(p + 0.12, 0, 1)).astype(float)
        base = (generator.random((5, 1, 100)) < p).astype(float)
        for k in found:
            found[k] += max_statistic_exchange(noisy, base[:k], n_permutations=299, rng=generator).pvalue <= 0.05
    assert found[5] > found[1] + 10, found


def test_swapping_the_arms_flips_the_sign_and_order_changes_nothing():
    noisy, base = replicated(rng(3), 80, 1, 3, "mixed")
    up = max_statistic_exchange(noisy, base, rng=rng())
    assert max_statistic_exchange(base, noisy, rng=rng()).statistic == pytest.approx(-up.statistic)
    order = rng(8).permutation(80)
    again = max_statistic_exchange(noisy[:, :, order], base[:, :, order], rng=rng())
    assert again.pvalue == up.pvalue
    swapped = max_statistic_exchange(noisy, base[::-1], rng=rng())
    assert swapped.pvalue == up.pvalue


def test_repeated_items_in_clusters_are_one_piece_of_evidence():
    noisy, base = replicated(rng(5), 25, 2, 3, "mixed")
    noisy = np.maximum(noisy, (rng(6).random(noisy.shape) < 0.3).astype(float))
    single = max_statistic_exchange(noisy, base, n_permutations=20_000, rng=rng())
    repeat = (np.repeat(noisy, 8, axis=2), np.repeat(base, 8, axis=2))
    whole = max_statistic_exchange(*repeat, np.repeat(np.arange(25), 8), n_permutations=20_000, rng=rng())
    assert whole.adjusted == pytest.approx(single.adjusted, abs=0.02)
    assert max_statistic_exchange(*repeat, rng=rng()).pvalue < single.pvalue / 3


def test_missing_runs_are_left_out():
    noisy, base = replicated(rng(9), 60, 2, 3, "mixed")
    base[1, 0, :20] = np.nan  # one replicate did not answer these
    noisy[0, 1, 40:] = np.nan
    result = max_statistic_exchange(noisy, base, rng=rng())
    d = np.nanmean(base[:, 0, :], axis=0)
    d = noisy[0, 0] - d
    assert result.statistic[0] == pytest.approx(d.sum() / np.sqrt((d**2).sum()))
    silent = np.full((3, 1, 60), np.nan)
    assert max_statistic_exchange(noisy, silent, rng=rng()).pvalue == 1.0


def test_many_runs_are_relabelled_at_random_and_agree_with_a_normal_approximation():
    p = rng(2).beta(1, 1, size=200)
    noisy = (rng(3).random((6, 1, 200)) < np.clip(p + 0.02, 0, 1)).astype(float)
    base = (rng(4).random((6, 1, 200)) < p).astype(float)
    result = max_statistic_exchange(noisy, base, n_permutations=20_000, rng=rng())  # comb(12, 6) = 924 labellings
    assert result.pvalue == pytest.approx(stats.norm.sf(result.statistic[0]), abs=0.02)


def test_runs_of_other_shapes_are_refused():
    with pytest.raises(DataError, match="noisy \\(L, R, n\\)"):
        max_statistic_exchange(np.zeros((1, 4)), np.zeros((2, 1, 4)), rng=rng())
    with pytest.raises(DataError, match="noisy \\(L, R, n\\)"):
        max_statistic_exchange(np.zeros((1, 3, 4)), np.zeros((2, 2, 4)), rng=rng())


@pytest.mark.parametrize("distinct", [4, 60])
def test_choice_totals_have_the_mean_and_variance_of_free_choices(distinct):
    values = rng().normal(size=(2, 3, distinct))  # two statistics of three choices
    count = np.full(distinct, 60 // distinct)
    totals = choice_totals(values, count, 40_000, rng(2))
    assert np.allclose(totals.mean(axis=0), (values.mean(axis=1) * count).sum(axis=1), atol=0.15)
    assert np.allclose(totals.var(axis=0), (values.var(axis=1) * count).sum(axis=1), rtol=0.05)


def test_the_permutations_are_enough_for_what_holm_asks() -> None:
    """A panel of twelve with nine router counts: the smallest p there is has to pass .05 after 108 tests."""
    assert enough_permutations(9, 0.05, 10_000) == 10_000
    for tests in (108, 900, 5_000):
        assert tests / (enough_permutations(tests, 0.05, 499) + 1) <= 0.05 / 4
