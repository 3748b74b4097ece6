import numpy as np
import pytest
from scipy import stats

from audit.errors import DataError
from audit.statistics.chance import chance_check, chance_level
from audit.statistics.mcnemar import mcnemar_exact
from audit.statistics.power import discordance_of, mcnemar_power, minimum_detectable_gain, questions_needed


def test_chance_is_the_mean_of_one_over_k():
    assert chance_level([4, 4, 2, 5]) == pytest.approx((0.25 + 0.25 + 0.5 + 0.2) / 4)


def test_above_chance_by_hand():
    # 100 items, four options: SE = sqrt(.25 * .75 / 100) = 0.0433, threshold .25 + 2 SE = .3366.
    low, high = chance_check(0.33, [4] * 100), chance_check(0.34, [4] * 100)
    assert high.threshold == pytest.approx(0.3366, abs=1e-4)
    assert (low.above, high.above) == (False, True)
    assert high.z == pytest.approx((0.34 - 0.25) / np.sqrt(0.25 * 0.75 / 100))


def test_standard_error_is_that_of_guessing_mixed_option_counts():
    rng = np.random.default_rng(0)
    k = rng.integers(2, 6, size=60)
    guesses = (rng.random((20_000, 60)) < 1 / k).mean(axis=1)
    assert chance_check(0.5, k).standard_error == pytest.approx(guesses.std(), rel=0.03)


def test_a_free_answer_is_not_guessed():
    assert chance_level([0, 0]) == 0.0
    assert chance_level([4, 0]) == pytest.approx(0.125)
    right = chance_check(0.1, [0] * 10)
    assert (right.chance, right.standard_error, right.z, right.above) == (0.0, 0.0, np.inf, True)
    none = chance_check(0.0, [0] * 10)
    assert (none.z, none.above) == (0.0, False)


@pytest.mark.parametrize("bad", [[], [1, 4]])
def test_chance_needs_options(bad):
    with pytest.raises(DataError):
        chance_level(bad)


def test_power_by_hand():
    # All 5 items improve: p = 1/32 <= .05, always rejected. With 4, p = 1/16: never.
    assert mcnemar_power(5, 1.0, 0.0) == pytest.approx(1.0)
    assert mcnemar_power(4, 1.0, 0.0) == 0.0
    # n=6, p_improve=.5, p_degrade=0: reject when at least 5 change: 6 * .5^6 + .5^6 = 7/64.
    assert mcnemar_power(6, 0.5, 0.0) == pytest.approx(7 / 64)
    assert mcnemar_power(50, 0.0, 0.0) == 0.0


@pytest.mark.parametrize(("n", "up", "down", "alpha"), [(40, 0.2, 0.1, 0.05), (100, 0.15, 0.05, 0.05 / 9)])
def test_power_agrees_with_summing_over_every_table(n, up, down, alpha):
    total = 0.0
    for b in range(n + 1):
        c = np.arange(n - b + 1)
        probability = stats.multinomial.pmf(
            np.stack([np.full_like(c, b), c, n - b - c], axis=1), n, [up, down, 1 - up - down]
        )
        total += probability[np.asarray(mcnemar_exact(np.full_like(c, b), c).pvalue) <= alpha].sum()
    assert mcnemar_power(n, up, down, alpha) == pytest.approx(total, abs=1e-9)


def test_minimum_detectable_gain_just_reaches_the_power():
    gain = minimum_detectable_gain(100, 0.23, n_tests=9)
    power = [mcnemar_power(100, (0.23 + g) / 2, (0.23 - g) / 2, 0.05 / 9) for g in (gain - 0.001, gain + 0.001)]
    assert power[0] < 0.8 < power[1]


def test_minimum_detectable_gain_falls_with_n_and_rises_with_tests_and_discordance():
    by_n = [minimum_detectable_gain(n, 0.2) for n in (50, 200, 1000)]
    assert by_n == sorted(by_n, reverse=True)
    assert minimum_detectable_gain(200, 0.2, n_tests=108) > minimum_detectable_gain(200, 0.2)
    assert minimum_detectable_gain(200, 0.4) > minimum_detectable_gain(200, 0.1)


def test_a_gain_larger_than_the_discordance_raises_it():
    assert minimum_detectable_gain(20, 0.05) > 0.05


def test_too_few_items_detect_nothing():
    assert np.isnan(minimum_detectable_gain(4, 0.2))


def test_discordance_counts_changes_over_answered_pairs():
    clean = np.array([1, 0, 1, np.nan])
    assert discordance_of(clean, np.array([0, 0, 1, 1])) == pytest.approx(1 / 3)
    # Averaged replicates: c = .5, q = .5 disagree half of the time.
    assert discordance_of(np.array([0.5]), np.array([0.5])) == 0.5
    with pytest.raises(DataError):
        discordance_of(np.array([np.nan]), np.array([1.0]))


@pytest.mark.parametrize("bad", [(0, 0.1, 0.1), (10, -0.1, 0.1), (10, 0.8, 0.8)])
def test_power_input(bad):
    with pytest.raises(DataError, match="mcnemar_power"):
        mcnemar_power(*bad)


def test_a_gain_of_everything_needs_five_questions():
    # all five improve: p = 2**-5 <= .05 < 2**-4
    assert questions_needed(1.0, 0.2) == 5
