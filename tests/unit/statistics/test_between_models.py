from dataclasses import replace

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.core.errors import DataError
from audit.statistics.between_models import predictive
from audit.statistics.priors import PRIORS, TauPrior

PRIOR = PRIORS["rewording"]


def test_with_a_prior_near_nought_it_is_the_test_of_the_items_alone():
    prediction = predictive(0.05, 0.02, 50.0, 1e-4, 1e-4, 5, TauPrior(1e-6))
    assert prediction.pvalue == pytest.approx(scipy.stats.t.sf(2.5, 50), rel=1e-3)
    half = 0.02 * scipy.stats.t.ppf(0.975, 50)
    assert (prediction.low, prediction.high) == (
        pytest.approx(0.05 - half, abs=1e-5),
        pytest.approx(0.05 + half, abs=1e-5),
    )


def test_many_references_tell_tau_whatever_the_prior():
    """A spread of 5 points, no sampling error: tau is .05 and the error is .05 sqrt(1 + 1/400)."""
    prediction = predictive(0.10, 1e-6, 1e6, 0.05**2, 0.0, 400, PRIOR)
    assert prediction.tau == pytest.approx(0.05, rel=0.02)
    assert prediction.pvalue == pytest.approx(
        scipy.stats.norm.sf(2 / np.sqrt(1 + 1 / 400)), rel=0.05
    )


def test_one_reference_has_the_prior_alone():
    """Half-normal of scale s: E[tau^2] = s^2, and it counts twice (1 + 1/R)."""
    prediction = predictive(0.0, 0.01, 1e6, 123.0, 0.0, 1, TauPrior(0.03))
    assert prediction.se == pytest.approx(np.sqrt(0.01**2 + 2 * 0.03**2), rel=1e-3)
    assert prediction.pvalue == pytest.approx(0.5)


def test_three_references_find_what_t_with_two_degrees_of_freedom_does_not():
    spread = sampling = 0.02**2 / 2
    items = 0.02 * np.sqrt((1 + 1 / 3) / 2)
    old = scipy.stats.t.sf(0.10 / items, 2)
    assert old > 0.05 / 6 > predictive(0.10, items, 400, spread, sampling, 3, PRIOR).pvalue


@pytest.mark.long
@pytest.mark.parametrize(("tau", "at_most"), [(0.0, 0.05), (0.02, 0.06), (0.04, 0.11)])
def test_level_on_models_that_differ(tau, at_most):
    """1,000 clean models and 5 references, items' error 2 points, level .05; Monte-Carlo error .7
    points. Above the prior's scale (tau 4 points) the level is not held, as the docs say."""
    rng = np.random.default_rng(7)
    noise = 0.02 / np.sqrt(2)
    gaps = tau * rng.standard_normal((1000, 6)) + noise * rng.standard_normal((1000, 6))
    rejected = [
        predictive(
            tested - others.mean(),
            noise * np.sqrt(1.2),
            400,
            others.var(ddof=1),
            noise**2,
            5,
            PRIOR,
        ).pvalue
        <= 0.05
        for tested, others in zip(gaps[:, 0], gaps[:, 1:], strict=True)
    ]
    assert np.mean(rejected) <= at_most


@settings(max_examples=60)
@given(
    st.floats(-0.4, 0.4),
    st.floats(0.001, 0.1),
    st.floats(0, 0.01),
    st.floats(1e-5, 0.01),
    st.integers(1, 20),
    st.sampled_from(list(PRIORS.values())),
)
def test_p_and_interval_agree(difference, se, spread, sampling, references, prior):
    prediction = predictive(difference, se, 30.0, spread, sampling, references, prior)
    assert prediction.low < difference < prediction.high
    assert (prediction.pvalue < 0.025) == (prediction.low > 0) or abs(
        prediction.pvalue - 0.025
    ) < 1e-3
    double = replace(prior, scale=min(prior.scale * 2, 0.99))
    wider = predictive(difference, se, 30.0, spread, sampling, references, double)
    assert wider.high - difference >= 0.998 * (
        prediction.high - difference
    )  # the grid of tau is finite


def test_no_reference_and_no_scale_are_refused():
    with pytest.raises(DataError):
        predictive(0.1, 0.02, 10, 0.0, 0.0, 0, PRIOR)
    with pytest.raises(DataError):
        TauPrior(0.0)
