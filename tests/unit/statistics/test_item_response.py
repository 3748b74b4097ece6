"""The answers of simulated models: accuracies, agreement between models, and what is lost."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import beta, norm

from audit.statistics.item_response import (
    Logistic,
    beta_chances,
    beta_shape,
    logistic_items,
    ranks,
    tastes,
    unparsed,
)


@pytest.mark.parametrize("guess", [0.0, 0.25])
@pytest.mark.parametrize("spread", [0.3, 1.8, 3.5])
def test_ability_and_accuracy_are_those_of_an_integral(spread: float, guess: float) -> None:
    items = Logistic(spread, guess)
    known, _ = quad(lambda z: expit(0.7 + spread * z) * norm.pdf(z), -8, 8)
    expected = guess + (1 - guess) * known
    assert float(items.accuracy(0.7)) == pytest.approx(expected, abs=2e-3)  # 401 quantiles
    assert float(items.ability(items.accuracy(0.7))) == pytest.approx(0.7, abs=1e-6)
    drawn = items.chances(0.7, np.random.default_rng(1).standard_normal(200_000))
    assert drawn.mean() == pytest.approx(expected, abs=3e-3) and drawn.min() >= guess


def test_two_answers_to_logistic_items_disagree_as_often_as_wanted() -> None:
    items, rng = logistic_items(0.7, 0.2), np.random.default_rng(2)
    theta = items.chances(items.ability(0.7), rng.standard_normal(200_000))
    first, second = rng.random((2, theta.size)) < theta
    assert first.mean() == pytest.approx(0.7, abs=0.005) and np.mean(
        first != second
    ) == pytest.approx(0.2, abs=0.005)


def test_beta_chances_are_quantiles() -> None:
    """At the median taste the chance is the median of Beta(.7 s, .3 s), s = (d / .42) / (1 - d /
    .42) with d = .2."""
    total = (0.2 / 0.42) / (1 - 0.2 / 0.42)
    assert beta_shape(0.7, 0.2) == pytest.approx((0.7 * total, 0.3 * total))
    chances = beta_chances(np.array([0.0, 1.0]), 0.7, 0.2)
    assert chances == pytest.approx(
        beta.ppf(norm.cdf([0.0, 1.0]), 0.7 * total, 0.3 * total), abs=1e-3
    )


@pytest.mark.parametrize("correlation", [0.0, 0.7, 1.0])
def test_models_share_so_much_of_their_tastes(correlation: float) -> None:
    drawn = tastes((2, 50_000), correlation, np.random.default_rng(3))
    assert np.corrcoef(drawn)[0, 1] == pytest.approx(correlation, abs=0.02)
    assert drawn.std(axis=1) == pytest.approx([1, 1], abs=0.02)


def test_items_of_a_group_are_learnt_together() -> None:
    known = ranks(10_000, np.random.default_rng(4), group=10) < 0.3
    assert known.mean() == pytest.approx(0.3, abs=0.05)  # of 1,000 groups: a standard error of .015
    assert set(known.reshape(-1, 10).sum(axis=1)) == {0, 10}
    assert ranks(101, np.random.default_rng(5), group=10).size == 101  # the last group is of one


def test_answers_that_are_lost_are_a_share_of_all_whichever_can_be_lost() -> None:
    answers = np.repeat([0.0, 1.0], [4_000, 16_000])
    for of, share in (
        (None, 0.8 * 0.9),
        (0, 0.8),
        (1, 0.7),
    ):  # of right answers: .8 less what is lost
        left = unparsed(answers, 0.1, np.random.default_rng(6), of)
        assert np.isnan(left).mean() == pytest.approx(0.1, abs=0.01)
        assert np.sum(left == 1) / left.size == pytest.approx(share, abs=0.01)
    assert unparsed(answers, 0.0, np.random.default_rng(6)) is answers
    gone = unparsed(answers, 0.5, np.random.default_rng(7), 0)  # more than there are: all of them
    assert np.isnan(gone).sum() == 4_000
