import itertools

import numpy as np
import pytest
from bootstrap_intervals import outcomes, rng
from scipy import stats

from audit.core.errors import DataError
from audit.statistics.drawing import choice_totals
from audit.statistics.permutation import (
    enough_permutations,
    max_statistic_exchange,
    sign_flip_pvalue,
)


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
    result = flipped(clean, noisy, n_permutations=40_000, rng=rng())
    # Monte-Carlo standard error of a p-value: at most .5 / 200 = .0025.
    assert result.pvalue == pytest.approx(family, abs=0.01)
    assert np.allclose(result.pvalues, single, atol=0.01)
    assert np.allclose(result.adjusted, stepped, atol=0.01)


def test_a_two_sided_p_of_sign_flips_is_twice_the_smaller_tail():
    clean, noisy = outcomes(r=1, effect=0.1)
    up, down = flipped(clean, noisy, rng=rng()), flipped(noisy[0], clean[None], rng=rng())
    both = sign_flip_pvalue(noisy[0] - clean, two_sided=True, rng=rng())
    assert up.statistic == -down.statistic and down.pvalue > 1 - up.pvalue
    assert both == pytest.approx(2 * up.pvalue, abs=0.015)


def replicated(generator, n, r, k, kind):
    """Runs of a model without any gain on average: noisy (1, r, n), base (k, 1, n)."""
    if (
        kind == "both_ways"
    ):  # clean never wavers, noisy is a coin: no mean gain, but the runs are not alike
        base = np.repeat((generator.random(n) < 0.5)[None, None], k, axis=0)
        return (generator.random((1, r, n)) < 0.5).astype(float), base.astype(float)
    p = {"hard": np.full(n, 0.1), "easy": generator.beta(38, 2, size=n)}.get(
        kind, generator.beta(1, 1, size=n)
    )
    base = generator.random((k, 1, n)) < p
    if kind != "nested":
        return (generator.random((1, r, n)) < p).astype(float), base.astype(float)
    # Nested draws: a setting keeps most of the luck of the one before it; clean has luck of its
    # own.
    luck, noisy = generator.random(n), []
    for _ in range(r):
        luck = np.where(generator.random(n) < 0.8, luck, generator.random(n))
        noisy.append(luck < p)
    return np.array([noisy], dtype=float), base.astype(float)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "r", "k"),
    [
        *(
            (kind, 9, 1) for kind in ("mixed", "hard", "easy", "nested")
        ),  # mixed: also clean against clean
        *((kind, 5, 5) for kind in ("mixed", "easy", "nested", "both_ways")),
    ],
)
def test_family_wise_level_with_a_shared_baseline(kind, r, k):
    # Models without effect; allowed: 3 Monte-Carlo standard errors, 0.77 points with 800 models,
    # 1.1 with 400.
    generator, trials, rejected, by_flips, convicted = rng(41), 800 if k == 1 else 400, 0, 0, 0
    for _ in range(trials):
        noisy, base = replicated(generator, 100, r, k, kind)
        rejected += (
            max_statistic_exchange(noisy, base, n_permutations=299, rng=generator).pvalue <= 0.05
        )
        convicted += (noisy[0].mean(axis=1) > base.mean()).any()
        if kind == "easy" and k > 1:
            mean = base.mean(axis=0)[0]
            by_flips += flipped(mean, noisy[0], n_permutations=299, rng=generator).pvalue <= 0.05
    allowed = 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)
    assert 0.015 <= rejected / trials <= allowed
    assert convicted / trials > 0.5  # the paper's rule convicts most of these models
    if (
        kind == "easy" and k > 1
    ):  # what flips of differences from a mean do, or this design shows nothing
        assert by_flips / trials > allowed


def test_step_down_never_ranks_a_smaller_statistic_as_stronger_evidence():
    # Setting 0: 5 improve, 0 degrade (t = 2.24, p = 1/32). Setting 1, on other items: 18 improve, 7
    # degrade (t = 2.20, p = .0216). Step 1: either reaches 2.24, 1 - (1 - 1/32)(1 - P(Bin(25) >=
    # 19)) = .0383; alone: .0216.
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
            d.append(
                np.nan_to_num(np.nanmean(runs[called], axis=0) - np.nanmean(runs[~called], axis=0))
            )
    d = np.array(d)

    def statistic(values):
        return values.sum() / np.sqrt((values**2).sum() or 1)

    n = runs.shape[1]
    every = [
        statistic(d[list(pick), np.arange(n)])
        for pick in itertools.product(range(len(chosen)), repeat=n)
    ]
    return np.mean(np.array(every) >= statistic(d[0]) - 1e-9)


@pytest.mark.parametrize(("m", "k"), [(1, 2), (1, 3), (2, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_every_relabelling_of_a_small_sample(m, k, seed):
    n = {2: 8, 3: 7, 4: 6}[m * k]
    p = rng(seed).beta(1, 1, size=n)
    noisy = (rng(seed + 10).random((m, n)) < p + 0.2).astype(float)
    base = (rng(seed + 20).random((k, n)) < p).astype(float)
    result = max_statistic_exchange(noisy[:, None], base[:, None], n_permutations=40_000, rng=rng())
    assert result.pvalue == pytest.approx(exact_exchange(noisy, base), abs=0.01)
    assert result.pvalue == pytest.approx(result.pvalues[0])


@pytest.mark.parametrize("k", [1, 3])  # signs that flip, and runs that change places
def test_repeated_items_in_clusters_are_one_piece_of_evidence(k):
    noisy, base = replicated(rng(5), 25, 2, k, "mixed")
    noisy = np.maximum(noisy, (rng(6).random(noisy.shape) < 0.3).astype(float))
    single = max_statistic_exchange(noisy, base, n_permutations=5_000, rng=rng())
    repeat = (np.repeat(noisy, 8, axis=2), np.repeat(base, 8, axis=2))
    whole = max_statistic_exchange(
        *repeat, np.repeat(np.arange(25), 8), n_permutations=20_000, rng=rng()
    )
    assert whole.adjusted == pytest.approx(single.adjusted, abs=0.02)
    assert max_statistic_exchange(*repeat, rng=rng()).pvalue < single.pvalue / 3


@pytest.mark.parametrize("k", [1, 3])
def test_missing_runs_are_left_out(k):
    noisy, base = replicated(rng(9), 60, 2, k, "mixed")
    base[-1, 0, :20] = np.nan  # one replicate, or the only clean run, did not answer these
    noisy[0, 1, 40:] = np.nan
    result = max_statistic_exchange(noisy, base, rng=rng())
    d = (noisy[0, 0] - np.ma.masked_invalid(base[:, 0]).mean(axis=0)).compressed()
    assert result.statistic[0] == pytest.approx(d.sum() / np.sqrt((d**2).sum()))
    silent = np.full((k, 1, 60), np.nan)
    assert max_statistic_exchange(noisy, silent, rng=rng()).pvalue == 1.0


def test_many_runs_are_relabelled_at_random_and_agree_with_a_normal_approximation():
    p = rng(2).beta(1, 1, size=200)
    noisy = (rng(3).random((6, 1, 200)) < np.clip(p + 0.02, 0, 1)).astype(float)
    base = (rng(4).random((6, 1, 200)) < p).astype(float)
    result = max_statistic_exchange(
        noisy, base, n_permutations=5_000, rng=rng()
    )  # comb(12, 6) = 924 labellings
    assert result.pvalue == pytest.approx(stats.norm.sf(result.statistic[0]), abs=0.02)


@pytest.mark.parametrize("shapes", [((1, 4), (2, 1, 4)), ((1, 3, 4), (2, 2, 4))])
def test_runs_of_other_shapes_are_refused(shapes):
    with pytest.raises(DataError, match="noisy \\(L, R, n\\)"):
        max_statistic_exchange(*map(np.zeros, shapes), rng=rng())


@pytest.mark.parametrize("distinct", [4, 60])
def test_choice_totals_have_the_mean_and_variance_of_free_choices(distinct):
    values = rng().normal(size=(2, 3, distinct))  # two statistics of three choices
    count = np.full(distinct, 60 // distinct)
    totals = choice_totals(values, count, 40_000, rng(2))
    assert np.allclose(totals.mean(axis=0), (values.mean(axis=1) * count).sum(axis=1), atol=0.15)
    assert np.allclose(totals.var(axis=0), (values.var(axis=1) * count).sum(axis=1), rtol=0.05)


def test_the_permutations_are_enough_for_what_holm_asks() -> None:
    """A panel of twelve with nine router counts: the smallest p there is has to pass .05 after 108
    tests."""
    assert enough_permutations(9, 0.05, 10_000) == 10_000
    for tests in (108, 900, 5_000):
        assert tests / (enough_permutations(tests, 0.05, 499) + 1) <= 0.05 / 4


def test_a_real_effect_in_one_setting_leaves_the_others_at_their_level():
    # Strong control: setting 0 has a large gain, the eight others none. False rejections among
    # them: at most 5 %.
    generator, trials, false, detections = rng(31), 400, 0, 0
    for _ in range(trials):
        (noisy,), ((clean,),) = replicated(generator, 100, 9, 1, "mixed")
        noisy[0] = np.maximum(noisy[0], generator.random(100) < 0.5)
        adjusted = flipped(clean, noisy, n_permutations=499, rng=generator).adjusted
        false += bool((adjusted[1:] <= 0.05).any())
        detections += bool(adjusted[0] <= 0.05)
    assert detections / trials > 0.9
    assert false / trials <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)
