"""Betting: capital by hand, its level over all looks by simulation, limits that cover at every look."""

import numpy as np
import pytest

from audit.errors import DataError
from audit.statistics.eprocess import BETS, Differences, adjusted, at_any_stop


def test_capital_by_hand():
    # Differences 1, 0, -1, 1. A gambler who bets the share c has (1+c)(1-c)(1+c); 19 of them bet c = .05, .10, .. .95.
    expected = sum((1 + k / 20) * (1 - k / 20) * (1 + k / 20) for k in range(1, 20)) / 19
    found = Differences.of(np.array([[1.0, 0.0, -1.0, 1.0]])).log_e()
    assert np.exp(found) == pytest.approx([expected])
    # Against "at most .2": a difference d multiplies by 1 + c (d - .2) / 1.2.
    expected = np.mean([(1 + c * 0.8 / 1.2) ** 2 * (1 - c * 0.2 / 1.2) * (1 - c) for c in BETS])
    assert np.exp(Differences.of(np.array([[1.0, 0.0, -1.0, 1.0]])).log_e(0.2)) == pytest.approx([expected])


def test_the_order_of_questions_and_those_without_a_pair_change_nothing():
    d = np.array([[1.0, 0.5, -1.0, 0.0, 1.0]])
    base = Differences.of(d).log_e(0.1)
    assert Differences.of(d[:, [3, 1, 4, 0, 2]]).log_e(0.1) == pytest.approx(base)
    assert Differences.of(np.append(d, [[np.nan, np.nan]], axis=1)).log_e(0.1) == pytest.approx(base)


def test_clusters_are_bet_on_whole():
    # Clusters {1, 1} and {-1, 0} of at most 4 questions: 1 + c (2 / 4) and 1 - c (1 / 4).
    found = Differences.of(np.array([[1.0, -1.0, 1.0, 0.0]]), np.array([5, 2, 5, 2]), largest=4).log_e()
    assert np.exp(found) == pytest.approx([np.mean([(1 + c / 2) * (1 - c / 4) for c in BETS])])
    with pytest.raises(DataError, match="at most 1"):
        Differences.of(np.zeros((1, 2)), np.zeros(2, int), largest=1)
    with pytest.raises(DataError, match="lie in"):
        Differences.of(np.array([[1.5]]))


def test_the_null_is_rarely_refuted_at_any_of_many_looks():
    # Ville: at most 5 % of 1000 null models reach 20, over a look after every question.
    rng = np.random.default_rng(1)
    d = rng.choice([-1.0, 0.0, 1.0], p=[0.1, 0.8, 0.1], size=(1000, 600))
    capital = np.cumsum(np.log1p(BETS[:, None, None] * d), axis=2)
    shared = np.log(np.mean(np.exp(capital), axis=0))  # (1000, 600), by the definition
    assert shared[3, 99] == pytest.approx(Differences.of(d[3:4, :100]).log_e()[0])
    ever = np.mean(shared.max(axis=1) >= np.log(20))
    assert 0.005 < ever <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 1000)


def test_clusters_of_equal_answers_keep_the_level_only_as_clusters():
    rng = np.random.default_rng(2)
    d = np.repeat(rng.choice([-1.0, 0.0, 1.0], p=[0.1, 0.8, 0.1], size=(400, 60)), 10, axis=1)
    cluster = np.repeat(np.arange(60), 10)
    looks = range(100, 601, 100)
    known = np.max([Differences.of(d[:, :n], cluster[:n], 10).log_e() for n in looks], axis=0)
    ignored = np.max([Differences.of(d[:, :n]).log_e() for n in looks], axis=0)
    assert np.mean(known >= np.log(20)) <= 0.05 < 0.2 < np.mean(ignored >= np.log(20))


def test_limits_hold_at_every_look_and_turn_the_test_round():
    rng = np.random.default_rng(3)
    d = rng.choice([-1.0, 0.0, 1.0], p=[0.05, 0.8, 0.15], size=(300, 500))  # a mean of .1
    missed = np.zeros(300, bool)
    for n in range(50, 501, 50):
        bets = Differences.of(d[:, :n])
        low, high = bets.lower_limit(0.025), bets.upper_limit(0.025)
        missed |= (low > 0.1) | (high < 0.1)
        # The limit is where the test turns (but for the 16 halvings).
        assert np.all(bets.log_e(low - 1e-4) >= np.log(40)) or low.min() < -0.99
        assert np.all(bets.log_e(low + 1e-4) < np.log(40))
    assert missed.mean() <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 300)


def test_the_power_of_the_notes_prototype():
    # +10 points, one question in five changing: found at a median of some 80 to 250 questions.
    rng = np.random.default_rng(4)
    d = rng.choice([-1.0, 0.0, 1.0], p=[0.05, 0.8, 0.15], size=(200, 1000))
    end = np.full(200, 1001)
    for n in range(1000, 0, -25):
        end[Differences.of(d[:, :n]).log_e() >= np.log(20)] = n
    assert 80 <= np.median(end) <= 250
    assert np.mean(end <= 1000) > 0.98


def test_adjusted_is_closed_testing_by_hand():
    # e = 60, 1, 2, 9. For 9: {9} 9, {9,1} 5, {9,1,2} 4, {9,1,2,60} 18: 4. For 60: the mean of all, 18.
    assert np.exp(adjusted(np.log([60.0, 1.0, 2.0, 9.0]))) == pytest.approx([18.0, 1.0, 1.5, 4.0])
    assert at_any_stop(np.log([40.0, 0.5])) == pytest.approx([0.025, 1.0])
