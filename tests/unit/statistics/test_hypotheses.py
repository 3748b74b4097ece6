import itertools

import numpy as np
import pytest
from bootstrap_intervals import rng
from outcome_tables import cell_of, sweep_with
from scipy import stats
from statsmodels.stats.multivariate import test_mvmean as hotelling

from audit.core.errors import DataError
from audit.core.records import Setting
from audit.statistics.drawing import ITEMS
from audit.statistics.paired import State
from audit.statistics.permutation import max_statistic_exchange
from audit.statistics.values import settings_values
from audit.sweep.paper import (
    h1_any_excess,
    h2_heterogeneity,
    h3_direction,
    sensitivity_slope,
    slope_weights,
)


def simulated(model="m", n=200, r=9, seed=0, step=0.0, effect=0.0):
    g = rng(seed)
    p = rng(99).beta(2, 2, size=n)  # the same items for every model
    clean = g.random(n) < p
    noisy = g.random((r, n)) < np.clip(p + effect + step * np.arange(r)[:, None], 0, 1)
    return sweep_with(clean, noisy, model=model)


# ---------------------------------------------------------------- slope (eq. 5)


def test_slope_is_least_squares():
    sweep = simulated(step=0.02)
    expected = stats.linregress(sweep.routers, sweep.noisy.mean(axis=1)).slope
    result = sensitivity_slope(sweep, rng=rng())
    assert result.estimate == pytest.approx(expected)
    assert result.low < expected < result.high
    per_item = (
        slope_weights(sweep.routers) @ sweep.noisy
    )  # the slope is the mean of the items' own slopes
    assert result.se == pytest.approx(per_item.std() / np.sqrt(sweep.n), rel=0.03)


def test_slope_needs_two_router_counts():
    with pytest.raises(DataError, match=r"r=1\.\.9"):
        sensitivity_slope(sweep_with([1, 0], [1, 1]), rng=rng())


# ---------------------------------------------------------------- H1


def test_h1_is_holm_over_models():
    sweeps = [
        simulated("clean", seed=1),
        simulated("gains", seed=2, effect=0.2),
        simulated("other", seed=3),
    ]
    tests = {
        s.model: max_statistic_exchange(
            s.noisy[None], s.clean[None, None], n_permutations=2_000, rng=rng()
        ).pvalue
        for s in sweeps
    }
    result = h1_any_excess(tests, ["gains"])
    assert result.pvalue == pytest.approx(3 * min(tests.values()))
    assert result.effect == 1 and result.reason.numbers["excess"] == ["gains"]
    # The verdicts ask for more than the test: without one that is an excess, H1 finds none, though
    # the test rejects.
    alone, none = h1_any_excess(tests, []), h1_any_excess({"clean": tests["clean"]}, [])
    assert (alone.effect, alone.reason.code) == (0, "h1_not_counted")
    assert (none.effect, none.reason.code) == (0, "h1_none")
    with pytest.raises(DataError):
        h1_any_excess({}, [])


# ---------------------------------------------------------------- H2


def test_h2_agrees_with_statsmodels_hotelling():
    sweeps = [
        simulated(m, seed=k, effect=e)
        for k, (m, e) in enumerate([("a", 0), ("b", 0.05), ("c", 0.1)])
    ]
    gains = np.stack([(s.noisy - s.clean).mean(axis=0) for s in sweeps])
    expected = hotelling((gains[1:] - gains[0]).T)
    result = h2_heterogeneity(sweeps)
    assert result.pvalue == pytest.approx(expected.pvalue)


def test_h2_clusters_of_repeated_items_count_once():
    sweeps = [simulated(m, n=60, seed=k, effect=0.1 * k) for k, m in enumerate("ab")]
    repeated = [
        sweep_with(
            np.repeat(s.clean, 5),
            np.repeat(s.noisy, 5, axis=1),
            model=s.model,
            cluster=np.repeat(np.arange(60), 5),
        )
        for s in sweeps
    ]
    assert h2_heterogeneity(repeated).pvalue == pytest.approx(h2_heterogeneity(sweeps).pvalue)


def test_h2_identical_models_and_too_few():
    s = simulated("a")
    twin = sweep_with(s.clean, s.noisy, model="b")
    assert h2_heterogeneity([s, twin]).pvalue == 1.0
    with pytest.raises(DataError, match="at least two"):
        h2_heterogeneity([s])
    with pytest.raises(DataError, match="more than"):
        h2_heterogeneity(
            [sweep_with([1, 0], [1, 1], model="a"), sweep_with([1, 0], [0, 1], model="b")]
        )


def test_h2_uses_the_items_that_all_answered():
    a, b = simulated("a", seed=1), simulated("b", seed=2, effect=0.2)
    b.noisy[:, :50] = np.nan
    assert h2_heterogeneity([a, b]).reason.numbers["items"] == 150
    # Items of two benchmarks with equal ids stay apart.
    with pytest.raises(DataError, match="answered is 0"):
        h2_heterogeneity([a, sweep_with(a.clean, a.noisy, model="a", benchmark="other")])


# ---------------------------------------------------------------- H3


def test_h3_by_hand_and_by_every_permutation():
    # Ten items wrong when clean, right from some r on: a rising improve. Item trends s = sum((r -
    # 2) y) over r = 1..3.
    clean = [0] * 10
    noisy = np.array([[0] * 8 + [1, 1], [0] * 4 + [1] * 4 + [0, 1], [1] * 8 + [0, 1]], float)
    trend = noisy[2] - noisy[0]  # 1 x 8, -1, 0
    flips = np.array(list(itertools.product([-1, 1], repeat=9)))
    expected = (flips @ trend[:9] >= trend.sum()).mean()  # (1 + 9) / 512
    assert expected == pytest.approx(10 / 512)
    result = h3_direction([sweep_with(clean, noisy)], rng=rng(), n_permutations=40_000)
    assert result.reason.numbers["p_improve"] == pytest.approx(expected, abs=0.003)
    assert (
        result.reason.numbers["p_degrade"] == 1.0
    )  # nothing was right when clean: no item can degrade
    assert result.pvalue == 1.0
    # OLS slope of the improve counts 2, 5, 9 on r: (9 - 2) / 2.
    assert (result.reason.numbers["up"], result.reason.numbers["down"]) == pytest.approx((3.5, 0))
    assert result.effect == pytest.approx(3.5)
    # With the other ten right when clean, and right less often: counts 1, 4, 5 degrade, a slope of
    # 2.
    more = np.array([[1] * 9 + [0], [1] * 6 + [0] * 4, [1] * 5 + [0] * 5], float)
    both = h3_direction(
        [sweep_with([0] * 10 + [1] * 10, np.hstack([noisy, more]))], rng=rng(), n_permutations=10
    )
    assert (both.reason.numbers["down"], both.effect) == pytest.approx((2, 1.5))


def test_h3_counts_the_items_of_every_block():
    sweep = simulated(n=ITEMS + 3, r=2)
    sweep.clean[:], sweep.noisy[:] = 0, 0
    sweep.noisy[1, [0, ITEMS - 1, ITEMS, ITEMS + 2]] = 1  # four improve at r=2 and not at r=1
    assert h3_direction([sweep], rng=rng(), n_permutations=10).reason.numbers[
        "up"
    ] == pytest.approx(4)


def test_replicates_are_averaged_in_every_block():
    settings = tuple(Setting("direct", 0, k) for k in range(2))
    state = rng().integers(-4, 2, size=(2, ITEMS + 3)).astype(np.int8)
    cell = cell_of(dict(zip(settings, state, strict=True)))
    answered = (
        np.where(state >= State.WRONG, state, 0).sum(axis=0),
        (state >= State.WRONG).sum(axis=0),
    )
    expected = np.divide(*answered, out=np.full(cell.n, np.nan), where=answered[1] > 0)
    np.testing.assert_array_equal(settings_values(cell, settings), expected)


def test_h3_models_of_one_item_flip_together():
    # The same outcomes under two names are not twice the evidence.
    s = simulated(step=0.01, seed=7)
    alone = h3_direction([s], rng=rng(), n_permutations=20_000)
    twice = h3_direction(
        [s, sweep_with(s.clean, s.noisy, model="twin")], rng=rng(), n_permutations=20_000
    )
    assert twice.reason.numbers["p_improve"] == pytest.approx(
        alone.reason.numbers["p_improve"], abs=0.01
    )


def test_h3_level_with_nested_draws():
    # Neighbouring r share luck; no trend. The test of a rise rejects 5 % (Monte-Carlo standard
    # error 1.1 points).
    g, rejected = rng(12), 0
    for _ in range(400):
        p, luck, noisy = g.beta(2, 2, size=100), g.random(100), []
        for _ in range(9):
            luck = np.where(g.random(100) < 0.8, luck, g.random(100))
            noisy.append(luck < p)
        s = sweep_with(g.random(100) < p, np.array(noisy))
        rejected += h3_direction([s], rng=g, n_permutations=299).reason.numbers["p_improve"] <= 0.05
    assert 0.02 <= rejected / 400 <= 0.05 + 3 * 0.011
