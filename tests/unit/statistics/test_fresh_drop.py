"""Held-out items: the drop against them, and whether the references' own answers chose them."""

from itertools import product

import numpy as np
import pytest
import scipy
from scipy import stats

from audit.core.errors import DataError
from audit.statistics.fresh_gap import agreement
from audit.statistics.item_response import draw_difficulties, shift
from audit.statistics.set_difference import beyond_fresh, set_difference
from audit.statistics.wording_drop import item_means


def item_set(rng, n=300, accuracy=0.7, harder=0.05, memorised=0.0, groups=1):
    """One set of items as a model answered it: three variants that cost `harder`, a share
    remembered as published."""
    theta = draw_difficulties(n, accuracy, 0.2, rng)
    original = (rng.random((1, n)) < theta) | (rng.random((1, n)) < memorised)
    variants = rng.random((3, n)) < shift(theta, -harder, accuracy)
    return original.astype(float), variants.astype(float), np.full(n, 0.25), np.arange(n) // groups


def rows(right, wrong):
    return np.repeat([[1.0, 0.0]], [right, wrong], axis=1)


def test_points_are_a_welch_test_of_the_differences_of_items():
    rng = np.random.default_rng(1)
    benchmark, fresh = item_set(rng, 200), item_set(rng, 120)
    drop = beyond_fresh(benchmark, fresh)
    (a, b), (c, d) = item_means(*benchmark[:2]), item_means(*fresh[:2])
    expected = stats.ttest_ind(a - b, c - d, equal_var=False, alternative="greater")
    assert (drop.pvalue, drop.df) == pytest.approx((expected.pvalue, expected.df))
    same = set_difference((a - b, c - d))
    assert (drop.difference, drop.se) == pytest.approx((same.difference, same.se))
    assert drop.low == pytest.approx(
        same.difference - stats.t.isf(0.05, same.df) * same.se
    )  # the limit of its test
    assert drop.expected == pytest.approx(np.mean(c - d))


def test_by_hand():
    """Benchmark: 80 right of 100, 60 under the variant. Fresh: 50 of 100, 40. Chance 0."""
    zero, items = np.zeros(100), np.arange(100)
    benchmark, fresh = (
        (rows(80, 20), rows(60, 40), zero, items),
        (rows(50, 50), rows(40, 60), zero, items),
    )
    points, share = beyond_fresh(benchmark, fresh), beyond_fresh(benchmark, fresh, scale="share")
    assert points.difference == pytest.approx(0.20 - 0.10)
    # d is 1 on 20 items, else 0: .2 x .8 / 99; and .1 x .9 / 99
    assert points.se == pytest.approx(np.sqrt(0.16 / 99 + 0.09 / 99))
    assert share.expected == pytest.approx(
        0.10 / 0.40 * 0.60
    )  # a quarter of what is left there, of the .60 here
    assert share.difference == pytest.approx(0.20 - 0.15)


def test_two_copies_of_a_set_in_another_order_do_not_differ():
    benchmark = item_set(np.random.default_rng(3), groups=3)
    shuffled = tuple(part[..., np.random.default_rng(4).permutation(300)] for part in benchmark)
    for scale in ("points", "share", "logit"):
        drop = beyond_fresh(benchmark, shuffled, scale=scale)
        assert drop.difference == pytest.approx(0, abs=1e-12) and drop.pvalue == pytest.approx(0.5)


def test_the_delta_method_has_the_error_of_the_bootstrap():
    rng = np.random.default_rng(5)
    benchmark, fresh = item_set(rng, 400), item_set(rng, 250, 0.55)

    def drawn(side):
        pick = rng.integers(0, side[2].size, side[2].size)
        return (*(part[..., pick] for part in side[:3]), np.arange(pick.size))

    resamples = [
        beyond_fresh(drawn(benchmark), drawn(fresh), scale="share").difference for _ in range(400)
    ]
    assert beyond_fresh(benchmark, fresh, scale="share").se == pytest.approx(
        np.std(resamples), rel=0.12
    )


def test_items_without_an_answer_are_left_out_and_nothing_is_refused():
    rng = np.random.default_rng(8)
    benchmark, fresh = item_set(rng, 100), item_set(rng, 80)
    holes = fresh[1].copy()
    holes[:, :30] = np.nan
    cut = tuple(part[..., 30:] for part in fresh)
    assert beyond_fresh(benchmark, (fresh[0], holes, *fresh[2:])) == beyond_fresh(benchmark, cut)
    with pytest.raises(DataError, match="original and to a variant is"):
        beyond_fresh(benchmark, (fresh[0], np.full((3, 80), np.nan), *fresh[2:]))
    with pytest.raises(DataError, match="accuracy on the held-out items is not above chance"):
        beyond_fresh(benchmark, (fresh[0], np.zeros((3, 80)), *fresh[2:]), scale="share")


ALPHA = 0.001
CROWD = 8  # models by whose answers items are matched


def answers(difficulty, models, rng):
    """(models, n) right or wrong. Rasch, with a part of each model's own."""
    ability = 1.25 + np.linspace(-0.4, 0.4, models)[:, None] - difficulty
    logit = ability + 0.7 * rng.standard_normal(ability.shape)
    return (rng.random(logit.shape) < scipy.special.expit(logit)).astype(float)


def matched(published, pool, m):
    """Places of m items of a pool, with each number of right answers as often as among ours."""
    levels = range(int(max(published.max(), pool.max())) + 1)
    edges = np.rint(m * np.cumsum([np.mean(published == k) for k in levels])).astype(int)
    picked = [
        np.flatnonzero(pool == k)[:q]
        for k, q in zip(levels, np.diff(edges, prepend=0), strict=True)
    ]
    return np.concatenate(picked)


def drawn(world, n, m, models, rng):
    """Answers of the references to published and held-out items."""
    hard = 1.8 * rng.standard_normal(n)
    pool = 0.5 + 1.8 * rng.standard_normal(8 * m)
    if world == "chosen":
        published, held_out = answers(hard, models, rng), answers(pool, models, rng)
        return published, held_out[:, matched(published.sum(axis=0), held_out.sum(axis=0), m)]
    if world == "matched on others":
        pool = pool[
            matched(answers(hard, CROWD, rng).sum(axis=0), answers(pool, CROWD, rng).sum(axis=0), m)
        ]
    if world == "passages":
        hard = np.repeat(hard[: -(-n // 10)], 10)[:n]
    if world == "other instances of the same templates":
        pool = hard[np.arange(m) % n] + 0.3 * rng.standard_normal(m)
    return answers(hard, models, rng), answers(pool[:m] - 2.2 * (world == "easier"), models, rng)


def call_rate(world, design, draws=100):
    """Share of draws in which the items are called chosen."""
    rng = np.random.default_rng(7)
    sets = [drawn(world, *design, rng) for _ in range(draws)]
    return np.mean([agreement(list(zip(*both, strict=True))) <= ALPHA for both in sets])


DESIGNS = [(1000, 500, 8), (1000, 100, 5), (208, 208, 3), (60, 60, 3), (300, 300, 2)]
WORLDS = [*product(["drawn", "easier", "passages", "matched on others"], DESIGNS)]


@pytest.mark.parametrize(
    ("world", "design"), [*WORLDS, ("other instances of the same templates", DESIGNS[0])]
)
def test_items_that_were_drawn_otherwise_are_not_called_chosen(world, design):
    assert call_rate(world, design) <= 0.02


@pytest.mark.parametrize("design", [(1000, 500, 8), (1000, 500, 3), (208, 208, 3)])
def test_items_that_the_references_answers_chose_are(design):
    assert call_rate("chosen", design, 60) == 1.0


def test_answers_that_were_not_parsed_hide_no_choice():
    """They count as not right, as they do for whoever counts right answers."""
    rng = np.random.default_rng(1)
    published, held_out = drawn("chosen", 1000, 500, 5, rng)
    lost = [
        np.where((x == 0) & (rng.random(x.shape) < 0.1), np.nan, x) for x in (published, held_out)
    ]
    assert agreement(list(zip(*lost, strict=True))) <= ALPHA


def test_a_touchy_model_is_not_beyond_easier_items_on_the_scale_of_log_odds():
    """Rewording takes half a logit from the odds of every item. Published items are hard, the
    held-out ones easy, so they lose fewer points: points and shares alone called 44 % of such
    models."""
    rng, rates = np.random.default_rng(9), {}
    scales = ("points", "share", "logit")
    for _ in range(100):
        sets = []
        for ability in (0.7, 2.2):
            odds = ability + 1.5 * rng.standard_normal(1000)
            chance = scipy.special.expit([odds, *[odds - 0.5] * 3])
            right = (rng.random(chance.shape) < chance).astype(float)
            sets.append((right[:1], right[1:], np.full(1000, 0.25), np.arange(1000)))
        p = [beyond_fresh(*sets, scale=scale).pvalue for scale in scales]
        for name, value in (("two", max(p[:2])), ("three", max(p))):
            rates[name] = rates.get(name, 0) + (value <= 0.05)
    assert rates["two"] > 25 and rates["three"] <= 8


@pytest.mark.parametrize("scale", ["points", "share", "logit"])
def test_a_model_without_memory_is_seldom_beyond(scale):
    """Equally hard rewordings of two sets of one accuracy; the sampling error of the rate is 1.1
    points."""
    rng, trials = np.random.default_rng(6), 400
    rejections = [
        beyond_fresh(item_set(rng, 200), item_set(rng, 100), scale=scale).pvalue <= 0.05
        for _ in range(trials)
    ]
    assert 0.01 <= np.mean(rejections) <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / trials)
