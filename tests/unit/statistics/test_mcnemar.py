import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import cochrans_q, mcnemar

from audit.errors import DataError
from audit.statistics.mcnemar import cochran_q, mcnemar_exact

counts = st.integers(0, 60)


def test_by_hand():
    # 4 improve, 1 degrade: P(X >= 4), X ~ Binomial(5, 1/2) = (5 + 1) / 32.
    assert mcnemar_exact(4, 1).pvalue == pytest.approx(6 / 32)
    assert mcnemar_exact(4, 1, "less").pvalue == pytest.approx(31 / 32)
    assert mcnemar_exact(4, 1, "two-sided").pvalue == pytest.approx(12 / 32)
    assert mcnemar_exact(4, 1).statistic == pytest.approx(3 / np.sqrt(5))


def test_nothing_changed_is_no_evidence():
    result = mcnemar_exact(0, 0)
    assert (result.statistic, result.pvalue) == (0.0, 1.0)


@given(counts, counts, st.sampled_from(["greater", "less", "two-sided"]))
def test_agrees_with_scipy_binomtest(b, c, alternative):
    if b + c:
        expected = stats.binomtest(b, b + c, 0.5, alternative=alternative).pvalue
        assert mcnemar_exact(b, c, alternative).pvalue == pytest.approx(expected, abs=1e-12)


@given(counts, counts)
def test_two_sided_agrees_with_statsmodels(b, c):
    expected = mcnemar([[0, b], [c, 0]], exact=True).pvalue
    assert mcnemar_exact(b, c, "two-sided").pvalue == pytest.approx(min(1.0, expected), abs=1e-12)


@given(counts, counts)
def test_swapping_the_arms_swaps_the_alternative(b, c):
    forward, backward = mcnemar_exact(b, c, "greater"), mcnemar_exact(c, b, "less")
    assert forward.pvalue == pytest.approx(backward.pvalue)
    assert forward.statistic == -backward.statistic


def test_arrays_give_what_scalars_give():
    b, c = np.array([21, 28, 0, 5]), np.array([4, 6, 16, 0])
    together = mcnemar_exact(b, c)
    assert np.allclose(together.pvalue, [mcnemar_exact(int(x), int(y)).pvalue for x, y in zip(b, c, strict=True)])
    assert np.shape(mcnemar_exact(b, 4).pvalue) == (4,)


def test_the_level_holds():
    m = 30
    b = np.arange(m + 1)
    weight = stats.binom.pmf(b, m, 0.5)
    exact = weight[mcnemar_exact(b, m - b).pvalue <= 0.05].sum()
    assert exact <= 0.05


@pytest.mark.parametrize("bad", [(-1, 3), (2.5, 1), (np.nan, 1), ([1, 2.2], [1, 1])])
def test_counts_must_be_counts(bad):
    with pytest.raises(DataError, match="whole numbers"):
        mcnemar_exact(*bad)


def test_unknown_alternative():
    with pytest.raises(DataError, match="greater, less or two-sided"):
        mcnemar_exact(1, 2, "bigger")


def test_cochran_q_agrees_with_statsmodels():
    generator = np.random.default_rng(3)
    for k in (2, 3, 5):
        outcomes = (generator.random((k, 80)) < generator.beta(1, 1, size=80)).astype(float)
        outcomes[0] = np.maximum(outcomes[0], generator.random(80) < 0.15)
        theirs = cochrans_q(outcomes.T)
        ours = cochran_q(outcomes)
        assert (ours.statistic, ours.pvalue, ours.df) == pytest.approx((theirs.statistic, theirs.pvalue, k - 1))


def test_cochran_q_of_two_is_mcnemar_and_of_equal_conditions_nothing():
    outcomes = np.array([[1] * 9 + [0] * 4 + [1] * 7, [0] * 9 + [1] * 4 + [1] * 7])
    assert cochran_q(outcomes).statistic == pytest.approx((9 - 4) ** 2 / 13)
    assert cochran_q(np.ones((3, 5))).pvalue == 1 and cochran_q(outcomes[[0, 0]]).pvalue == 1
    for wrong in (np.ones((1, 5)), np.ones(5), np.full((2, 5), 0.5), np.array([[1, np.nan], [0, 1]])):
        with pytest.raises(DataError, match="Cochran"):
            cochran_q(wrong)
