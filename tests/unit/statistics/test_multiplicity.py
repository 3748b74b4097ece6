import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from audit.errors import DataError
from audit.statistics.multiplicity import benjamini_hochberg, benjamini_yekutieli, holm

panel = st.lists(st.floats(0, 1), min_size=1, max_size=40)


def test_holm_by_hand():
    # sorted .01 .03 .04 -> 3*.01, 2*.03, max(.06, 1*.04)
    assert holm([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])


def test_benjamini_hochberg_by_hand():
    # sorted .01 .03 .04 -> min over later of m p / k: min(.03, .045, .04), min(.045, .04), .04
    assert benjamini_hochberg([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.04, 0.04])


@settings(max_examples=6)  # statsmodels takes a quarter of a second a call
@given(panel)
def test_agree_with_statsmodels(p):
    assert np.allclose(holm(p), multipletests(p, method="holm")[1])
    assert np.allclose(benjamini_hochberg(p), multipletests(p, method="fdr_bh")[1])
    assert np.allclose(benjamini_yekutieli(p), multipletests(p, method="fdr_by")[1])


@given(panel)
def test_nan_is_not_a_test(p):
    with_gap = [np.nan, *p, np.nan]
    for adjust in (holm, benjamini_hochberg):
        out = adjust(with_gap)
        assert np.isnan(out[[0, -1]]).all()
        assert np.allclose(out[1:-1], adjust(p))


@given(panel, st.randoms())
def test_order_does_not_matter(p, random):
    order = list(range(len(p)))
    random.shuffle(order)
    for adjust in (holm, benjamini_hochberg):
        assert np.allclose(adjust([p[i] for i in order]), adjust(p)[order])


def test_nothing_tested_stays_nan_and_the_input_is_left_alone():
    p = np.array([np.nan, np.nan])
    assert np.isnan(holm(p)).all() and np.isnan(benjamini_hochberg(p)).all()
    q = np.array([0.04, 0.01])
    holm(q)
    assert q.tolist() == [0.04, 0.01]


def test_outside_zero_one():
    with pytest.raises(DataError, match=r"\[0, 1\]"):
        holm([0.5, 1.5])
