"""An error between sets does not shrink with the number of references."""

import numpy as np
import pytest

from audit.statistics.between_models import predictive
from audit.statistics.priors import TauPrior
from audit.statistics.without_memory import without_memory


def test_an_error_between_sets_is_added_whatever_the_number_of_references():
    """Items .01, tau next to 0: half the interval is 1.96 sqrt(.01^2 + .03^2) = .062 at R = 3 and
    at R = 100."""
    for references in (3, 100):
        prediction = predictive(
            0.1, 0.01, 1e6, 1e-8, 1e-6, references, TauPrior(1e-4, between_sets=0.03)
        )
        assert prediction.high - 0.1 == pytest.approx(1.96 * np.hypot(0.01, 0.03), rel=0.01)


def answers(rng, share, n):
    return (rng.random(n) < share).astype(float)


def test_beside_references_with_a_gap_of_their_own_the_score_is_an_upper_limit():
    """All six score .85 against .65: items harder by 20 points, or a benchmark that all have
    learnt."""
    rng = np.random.default_rng(1)
    models = [(answers(rng, 0.85, 1000), answers(rng, 0.65, 500)) for _ in range(6)]
    result = without_memory(models[0], models[1:])
    assert result.at_most and result.theirs.estimate == pytest.approx(0.2, abs=0.03)
    assert (
        result.without.low < 0.65 < 0.85 < result.without.high
    )  # it holds under both explanations
    alike = [(answers(rng, 0.7, 1000), answers(rng, 0.7, 500)) for _ in range(6)]
    result = without_memory(alike[0], alike[1:])
    assert not result.at_most and result.without.high - result.without.low < 0.2
