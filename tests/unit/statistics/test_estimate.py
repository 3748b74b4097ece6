"""`Estimate`: sums, two independent sets, ratios and hulls, by hand and against scipy."""

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.core.errors import DataError
from audit.statistics.contracts import clustered_mean
from audit.statistics.estimate import (
    above_pvalue,
    beyond_mean,
    fieller,
    hull,
    mean_of,
    means_of,
    spread_of,
    times,
)

FOUR = np.array([0.1, 0.4, 0.5, 0.2])
EACH = np.arange(4)
values = st.lists(st.floats(0, 1), min_size=3, max_size=12).map(np.array)


@given(values, values)
@settings(max_examples=50, deadline=None)
def test_two_independent_sets_are_welchs_test(x, y):
    if np.ptp(x) < 1e-3 or np.ptp(y) < 1e-3:
        return
    difference = mean_of(x, np.arange(x.size)).less_independent(mean_of(y, np.arange(y.size)))
    expected = scipy.stats.ttest_ind(x, y, equal_var=False, alternative="greater")
    assert difference.value == pytest.approx(x.mean() - y.mean())
    assert above_pvalue(difference) == pytest.approx(expected.pvalue, rel=1e-6)
    assert difference.df == pytest.approx(expected.df, rel=1e-6)


def test_a_paired_contrast_is_the_t_test_of_differences():
    (a, b), n = means_of(np.stack([FOUR, FOUR[::-1] ** 2]))
    expected = scipy.stats.ttest_rel(FOUR, FOUR[::-1] ** 2, alternative="greater")
    assert n == 4 and above_pvalue(a.plus(b, -1.0)) == pytest.approx(expected.pvalue)


def test_units_without_a_value_do_not_count():
    lacking = np.append(FOUR, np.nan)
    assert mean_of(lacking, np.arange(5)).se == pytest.approx(mean_of(FOUR, EACH).se)
    assert mean_of(lacking, np.arange(5)).units == 4
    with pytest.raises(DataError, match="two"):
        means_of(np.array([[1.0, np.nan], [1.0, 0.0]]))


def test_a_ratio_over_two_sets_adds_both_errors():
    """10 x 20 / 40 by the delta method: (5 / 10)^2 v1 + ..., of independent sets the variances are
    added."""
    first, second = mean_of(FOUR, EACH), mean_of(np.array([0.3, 0.9, 0.6]), np.arange(3))
    product = times(
        second.of_second(first), second.of_second(first), first.with_set(second)
    )  # 1 x first
    assert product.value == pytest.approx(first.value) and product.variance == pytest.approx(
        first.variance
    )
    product = times(
        second.of_second(first), first.with_set(second), first.with_set(second)
    )  # second x 1
    assert product.variance == pytest.approx(second.variance)


def test_the_spread_of_models_less_what_items_explain():
    """Three models that answer alike: no spread, and nothing for the items to explain."""
    alike, _ = means_of(np.stack([FOUR] * 3))
    assert spread_of(alike) == (pytest.approx(0), pytest.approx(0))
    assert beyond_mean(alike[0], alike).value == pytest.approx(0)
    assert np.isnan(spread_of(alike[:1])).all()
    shifted, _ = means_of(np.stack([FOUR, FOUR + 0.1, FOUR + 0.2]))
    assert spread_of(shifted) == (pytest.approx(0.01), pytest.approx(0, abs=1e-12))


def test_fieller_of_a_known_denominator_is_the_t_interval_scaled():
    above, below, t = (
        mean_of(FOUR, EACH),
        mean_of(np.full(4, 0.5), EACH),
        scipy.stats.t.ppf(0.975, 3),
    )
    plain = clustered_mean(FOUR, EACH)
    assert fieller(above, below, (t, t)) == (
        pytest.approx(plain.low / 0.5),
        pytest.approx(plain.high / 0.5),
    )
    near_zero = mean_of(np.array([0.0, 0.0, 0.0, 1.0]), EACH)
    assert fieller(above, near_zero, (t, t))[1] == np.inf  # not away from 0: unbounded
    numerator = mean_of(np.eye(9)[0], np.arange(9))
    assert (
        fieller(numerator, mean_of(np.full(9, 0.5), np.arange(9)), (t, t))[0] < 0
    )  # nor is the numerator


def test_a_hull_with_an_unknown_scale_is_unknown():
    assert np.isnan(hull([(0.1, 0.0, 0.2), (np.nan, np.nan, np.nan)])).all()
