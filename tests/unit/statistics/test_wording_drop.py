import re

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.weightstats import ttost_paired

from audit.core.errors import DataError
from audit.statistics.item_response import draw_difficulties
from audit.statistics.power import minimum_detectable_gain
from audit.statistics.wording_design import (
    VolumeRow,
    detectable_drop,
    drop_standard_error,
    items_needed,
    volume_table,
)
from audit.statistics.wording_drop import (
    Estimate,
    above_broken,
    above_pvalue,
    equivalence,
    item_means,
    largest_drop,
    mean_of,
    run_noise,
    wording_drop,
    wording_flips,
)

NAN = float("nan")


def answers(n, variants, rng, memorised=0.0):
    theta = draw_difficulties(n, 0.7, 0.2, rng)
    o = ((rng.random(n) < theta) | (rng.random(n) < memorised)).astype(float)
    return o[None], (rng.random((variants, n)) < theta).astype(float)


def test_estimates_by_hand():
    # item means 1, .5, 0 (replicates) against .5, 1, 0; the fourth has no variant
    o = np.array([[1, 0, 0, 1], [1, 1, 0, 1.0]])
    v = np.array([[1, 1, 0, NAN], [0, NAN, 0, NAN]])
    result = wording_drop(o, v, np.arange(4), n_resamples=200, rng=np.random.default_rng(0))
    assert (result.original, result.variants, result.n, result.units) == (0.5, 0.5, 3, 3)
    assert result.drop.estimate == 0.0 and result.cs.estimate == 0.0
    with pytest.raises(DataError, match="to the original and to a variant is 0"):
        wording_drop(o[:, 3:], v[:, 3:], np.arange(1), rng=np.random.default_rng(0))


def test_where_no_item_differs_the_intervals_are_those_of_none_in_n():
    o = np.repeat([1.0, 0.0], 20)
    result = wording_drop(
        o[None], o[None], np.arange(40), n_resamples=200, rng=np.random.default_rng(0)
    )
    unseen = 1 - 0.025 ** (1 / 40)
    assert [-result.drop.low, result.drop.high] == pytest.approx([unseen] * 2)
    assert [-result.cs.low, result.cs.high] == pytest.approx(
        [2 * unseen] * 2
    )  # of an accuracy of one half
    wrong = wording_drop(
        0 * o[None], 0 * o[None], np.arange(40), n_resamples=200, rng=np.random.default_rng(0)
    )
    assert wrong.drop.high == pytest.approx(unseen) and np.isnan(wrong.cs.high)


def test_cs_of_accuracies_is_unbiased_and_its_interval_covers():
    rng = np.random.default_rng(4)
    results = [
        wording_drop(*answers(300, 3, rng), np.arange(300), n_resamples=400, rng=rng)
        for _ in range(200)
    ]
    scores = np.array([f.cs.estimate for f in results])
    assert scores.mean() == pytest.approx(0.0, abs=3 * scores.std() / np.sqrt(200))
    covered = np.mean([f.cs.low <= 0 <= f.cs.high for f in results])
    assert covered >= 0.95 - 2.5 * np.sqrt(0.05 * 0.95 / 200)
    upper = np.mean([f.largest >= 0 for f in results])
    assert upper >= 0.95 - 2.5 * np.sqrt(0.05 * 0.95 / 200)


def test_with_clusters_of_unequal_size_it_is_cr2():
    """Bell & McCaffrey (2002) by its matrices: residuals of a cluster times (I - H)^(-1/2)."""
    rng = np.random.default_rng(1)
    d, cluster = rng.normal(size=60), np.repeat([0, 1, 2, 3], [30, 20, 9, 1])
    variance = 0.0
    for g in range(4):
        size = int((cluster == g).sum())
        values, vectors = np.linalg.eigh(np.eye(size) - np.full((size, size), 1 / 60))
        adjusted = vectors @ np.diag(values**-0.5) @ vectors.T @ (d - d.mean())[cluster == g]
        variance += adjusted.sum() ** 2 / 60**2
    assert mean_of(d, cluster).se == pytest.approx(np.sqrt(variance))


def test_the_margin_for_broken_variants_is_a_t_test_of_each_item():
    rng = np.random.default_rng(2)
    o, v = answers(200, 3, rng, 0.3)
    chance = np.full(200, 0.25)
    p, excess = above_broken(o, v, chance, np.arange(200), 0.04)
    a, b = item_means(o, v)
    per_item = (a - b) - 0.04 * (a - 0.25)
    assert p == pytest.approx(stats.ttest_1samp(per_item, 0, alternative="greater").pvalue)
    assert excess.value == pytest.approx((a - b).mean() - 0.04 * (a.mean() - 0.25))


def test_equivalence_is_tost():
    rng = np.random.default_rng(6)
    o, v = answers(400, 3, rng)
    a, b = item_means(o, v)
    result = equivalence(mean_of(a - b, np.arange(400)), 0.05)
    p_low = ttost_paired(a, b, -0.05, 0.05)[1][1]
    p_high = ttost_paired(np.append(a, 1), np.append(b, 0), -0.05, 0.05)[2][
        1
    ]  # and one more item, which drops
    assert (result.p_no_larger, result.p_no_smaller) == pytest.approx((p_high, p_low))
    assert result.pvalue == pytest.approx(max(p_high, p_low))


def test_where_nothing_varies_little_is_shown():
    nothing = Estimate(0.0, np.zeros(200))
    # none of 200 items drops with probability .95^200 where 5 % of items do; the limit is 1 -
    # .05^(1/200) = .015
    assert equivalence(nothing, 0.05).pvalue == pytest.approx(0.95**200)
    assert largest_drop(nothing) == pytest.approx(1 - 0.05 ** (1 / 200))
    assert above_pvalue(nothing) == 1.0
    with pytest.raises(DataError, match="between 0 and 1"):
        equivalence(nothing, 0.0)


def test_items_without_a_pair_of_answers_tell_nothing():
    rng = np.random.default_rng(4)
    o, v = answers(12, 3, rng, 0.3)
    many = np.arange(1000)
    wide = [
        np.concatenate([x, np.full((len(x), 988), np.nan)], axis=1) for x in (np.atleast_2d(o), v)
    ]
    a, b = item_means(o, v)
    c, d = item_means(*wide)
    few, all_items = mean_of(a - b, many[:12]), mean_of(c - d, many)
    assert few.se > 0 and all_items.se == few.se and all_items.units == 12
    assert largest_drop(all_items) == largest_drop(few) and above_pvalue(all_items) == above_pvalue(
        few
    )
    assert equivalence(all_items, 0.05) == equivalence(few, 0.05)
    assert above_broken(*wide, np.full(1000, 0.25), many, 0.04)[0] == pytest.approx(
        above_broken(o, v, np.full(12, 0.25), many[:12], 0.04)[0]
    )
    same = np.where(many < 12, 0.0, np.nan)  # twelve of 1000 items are answered, and none changes
    assert equivalence(mean_of(same, many), 0.05) == equivalence(Estimate(0.0, np.zeros(12)), 0.05)


def test_noise_of_replicates_by_hand():
    # of 4 items, replicate 2 changes two, replicate 3 one more against the first
    runs = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 0.0]])
    noise = run_noise(runs, np.arange(4))
    assert noise.flipped == pytest.approx((2 + 1 + 1) / 4 / 3)
    assert noise.sd_difference == pytest.approx(np.sqrt((0 + 0.25**2 + 0.25**2) / 3))
    often, passage = np.repeat(runs, 12, axis=1), np.repeat(np.arange(runs.shape[1]), 12)
    assert (
        run_noise(often, passage).pvalue > 0.3 > 0.01 > run_noise(often, np.arange(48)).pvalue
    )  # a passage counts once
    assert np.isnan(run_noise(runs[:1], np.arange(4)).pvalue)


def test_flips_by_hand():
    v = np.array([[1, 1, 0, 1], [1, 0, 0, NAN], [1, 1, NAN, NAN]])
    # pairs that disagree: item 1 0 of 3, item 2 2 of 3, item 3 0 of 1, item 4 has no pair
    assert wording_flips(v, np.ones(4)) == pytest.approx((0 + 2 / 3 + 0) / 3)
    assert wording_flips(v[:1], np.array([1.0, 0, 0, 1])) == pytest.approx(1 / 4)
    assert np.isnan(wording_flips(v[:1], np.full(4, NAN)))


def test_the_largest_drop_is_students_limit_over_the_units():
    """And one more that drops: of models that drop by 5 points in one item of twenty few are
    cleared."""
    drops = np.array([0.6, 0.0] * 15)
    more = np.append(drops, 1.0)
    expected = more.mean() + stats.t.ppf(0.95, 30) * more.std(ddof=1) / np.sqrt(31)
    assert largest_drop(mean_of(drops, np.arange(30))) == pytest.approx(expected)
    rng = np.random.default_rng(1)
    rare = [mean_of((rng.random(100) < 0.05).astype(float), np.arange(100)) for _ in range(1500)]
    cleared = np.mean([equivalence(drop, 0.05).p_no_larger <= 0.05 for drop in rare])
    assert cleared < 0.05  # by t over the items alone 12 % are


def test_references_and_margin_cost():
    plain = (1.6449 + 0.8416) * drop_standard_error(500, 3, 0.2)
    assert detectable_drop(500, 3, 0.2, references=1) == pytest.approx(plain * np.sqrt(2), rel=1e-4)
    # A drop has to pass its interval too, which is two-sided, and the margin: whichever asks for
    # more.
    two_sided = (1.9600 + 0.8416) * drop_standard_error(500, 3, 0.2)
    assert detectable_drop(500, 3, 0.2) == pytest.approx(two_sided, rel=1e-4)
    assert detectable_drop(500, 3, 0.2, margin=0.001) == pytest.approx(two_sided, rel=1e-4)
    assert detectable_drop(500, 3, 0.2, margin=0.05) == pytest.approx(plain + 0.05, rel=1e-4)
    for margin in (0.0, 0.001, 0.01, 0.03):
        enough = items_needed(0.05, 3, 0.2, margin=margin)
        assert enough is not None
        drops = [detectable_drop(n, 3, 0.2, margin=margin) for n in (enough - 1, enough)]
        assert drops[0] > 0.05 >= drops[1] - 1e-12
    # With one variant it is near the exact test.
    assert detectable_drop(1000, 1, 0.2) == pytest.approx(
        minimum_detectable_gain(1000, 0.2, alpha=0.025), rel=0.1
    )
    with pytest.raises(DataError, match="at least one rewording"):
        drop_standard_error(500, 0, 0.2)
    # Tables of t: 2.920 + 1.061 with 2 degrees of freedom, 2.132 + 0.941 with 4; 1.645 + 0.842 of
    # the normal.
    for references, df in ((3, 2.920 + 1.061), (5, 2.132 + 0.941)):
        wider = np.sqrt(1 + 1 / references) * df / (1.645 + 0.842)
        assert detectable_drop(500, 3, 0.2, references=references) == pytest.approx(
            plain * wider, rel=1e-3
        )


def test_the_articles_table_with_statements_that_hold():
    rows = volume_table(1000, 0.2, references=5)
    assert [(r.calls, r.relative_cost) for r in rows] == [
        (1000, 1),
        (3000, 3),
        (5000, 5),
        (10000, 10),
    ]
    assert (
        "p < 0.01" in rows[3].article and "p < 0.05: " in rows[3].valid and "0.1." in rows[3].valid
    )
    assert "0.333." in rows[1].valid and "points" not in rows[0].valid
    assert " p = 0.1," in volume_table(1000, 0.2, alpha=0.1)[3].valid

    def seen(row: VolumeRow) -> tuple[float, float]:
        """Points found of the model alone, and beyond references."""
        alone, beyond = re.search(
            r"a drop of ([\d.]+) points .* reference models of ([\d.]+)\. ", row.valid
        ).groups()
        return float(alone), float(beyond)

    assert all(
        beyond >= alone
        for alone, beyond in map(seen, volume_table(3000, 0.2, references=8, margin=0.015)[1:])
    )
    assert seen(rows[1]) > seen(rows[3]) and seen(rows[1])[1] > seen(rows[1])[0]
