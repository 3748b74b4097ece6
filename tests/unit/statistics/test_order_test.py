"""The permutation test of orders: exact size, against a full enumeration, and what it leaves out."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from audit.errors import DataError
from audit.statistics.order_test import order_test


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_the_p_value_is_that_of_all_choices_of_orders():
    x = np.array([[3.0, 1.0, 2.0], [5.0, 6.0, 1.0], [2.0, 2.5, np.nan], [9.0, 4.0, 4.5]])
    z = (x - np.nanmean(x, axis=1, keepdims=True)) / np.nanstd(x, axis=1)[:, None]
    # 3 * 3 * 2 * 3 choices of one order in each unit, each as likely
    sums = [sum(one) for one in product(*(row[~np.isnan(row)] for row in z))]
    exact = np.mean([s >= z[:, 0].sum() - 1e-9 for s in sums])
    found = order_test(x, rng=rng(), n_resamples=40_000)
    assert len(sums) == 54 and found.pvalue == pytest.approx(exact, abs=0.01)
    assert (found.units, found.orders) == (4, 2.75)


def test_gain_and_t_are_those_of_oren_et_al():
    x = rng(1).normal(size=(40, 6))
    gains = x[:, 0] - x[:, 1:].mean(axis=1)
    expected = stats.ttest_1samp(gains, 0, alternative="greater")
    found = order_test(x, rng=rng(), n_resamples=99)
    assert (found.gain, found.t, found.t_pvalue) == pytest.approx((gains.mean(), expected.statistic, expected.pvalue))
    interval = stats.ttest_1samp(gains, 0).confidence_interval()
    assert (found.low, found.high) == pytest.approx(tuple(interval))


def test_it_keeps_its_level_where_the_published_order_is_one_of_many():
    draws = rng(2)
    skewed = [order_test(draws.exponential(size=(15, 5)) * 10, rng=draws, n_resamples=99).pvalue for _ in range(400)]
    assert np.mean(np.array(skewed) <= 0.05) == pytest.approx(0.05, abs=0.025)


def test_it_sees_an_order_that_is_likelier_by_half_a_spread():
    x = rng(3).normal(size=(100, 11))
    x[:, 0] += 0.5
    assert order_test(x, rng=rng()).pvalue <= 0.001
    assert order_test(-x, rng=rng()).pvalue > 0.99  # less likely is not memory


def test_units_that_tell_nothing_do_not_count():
    x = np.array([[np.nan, 1.0, 2.0], [1.0, np.nan, np.nan], [2.0, 2.0, 2.0], [1.0, 2.0, 3.0], [1.0, 0.0, np.nan]])
    found = order_test(x, rng=rng(), n_resamples=99)
    assert (found.units, found.orders) == (2, 2.5)
    alone = order_test(x[:4], rng=rng())
    assert alone.units == 1 and np.isnan([alone.pvalue, alone.gain, alone.t]).all()
    assert order_test(np.zeros((0, 3)), rng=rng()).units == 0


@pytest.mark.parametrize("x", [np.zeros(3), np.zeros((3, 1)), [[np.inf, 1.0]]])
def test_what_is_no_table_of_likelihoods_is_refused(x):
    with pytest.raises(DataError):
        order_test(x, rng=rng())
