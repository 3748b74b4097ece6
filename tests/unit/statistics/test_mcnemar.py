import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.anova import AnovaRM
from statsmodels.stats.contingency_tables import cochrans_q
from statsmodels.stats.multitest import multipletests

from audit.core.errors import DataError
from audit.statistics.chance import chance_check, chance_level
from audit.statistics.mcnemar import cochran_q, mcnemar_exact
from audit.statistics.multiplicity import false_discovery, holm
from audit.statistics.power import (
    discordance_of,
    mcnemar_power,
    minimum_detectable_gain,
    questions_needed,
)

counts = st.integers(0, 60)


@given(counts, counts, st.booleans())
def test_agrees_with_scipy_binomtest(b, c, two_sided):
    alternative = "two-sided" if two_sided else "greater"
    expected = stats.binomtest(b, b + c, 0.5, alternative=alternative).pvalue if b + c else 1.0
    assert mcnemar_exact([b, b], c, two_sided=two_sided) == pytest.approx([expected] * 2, abs=1e-12)


@pytest.mark.parametrize("bad", [(-1, 3), (2.5, 1), (np.nan, 1), (np.inf, 1), ([1, 2.2], [1, 1])])
def test_counts_must_be_counts(bad):
    with pytest.raises(DataError, match="whole numbers"):
        mcnemar_exact(*bad)


def test_small_integers_do_not_overflow():
    small = np.array([0, 200], dtype=np.uint8), np.array([3, 100], dtype=np.uint8)
    assert mcnemar_exact(*small) == pytest.approx(mcnemar_exact([0, 200], [3, 100]))


def test_cochran_q_agrees_with_statsmodels():
    generator, alone = np.random.default_rng(3), np.arange(80)
    for k in (2, 3, 5):
        outcomes = (generator.random((k, 80)) < generator.beta(1, 1, size=80)).astype(float)
        outcomes[0] = np.maximum(outcomes[0], generator.random(80) < 0.15)
        assert cochran_q(outcomes, alone) == pytest.approx(cochrans_q(outcomes.T).pvalue)
        assert cochran_q(outcomes[[0, 0]], alone) == cochran_q(np.ones((k, 80)), alone) == 1
    for wrong in (
        np.ones((1, 5)),
        np.ones(5),
        np.full((2, 5), 0.5),
        np.array([[1, np.nan], [0, 1]]),
    ):
        with pytest.raises(DataError, match="with K >= 2"):
            cochran_q(wrong, np.arange(5))


def test_cochran_q_over_passages_is_an_analysis_of_variance_with_repeated_measures():
    rng = np.random.default_rng(4)
    outcomes, passage = (
        (rng.random((3, 600)) < [[0.6], [0.6], [0.7]]).astype(float),
        np.arange(600) % 12,
    )
    sums = np.stack([outcomes[:, passage == g].sum(axis=1) for g in range(12)])
    long = pd.DataFrame(
        [(g, k, sums[g, k]) for g in range(12) for k in range(3)],
        columns=["passage", "run", "right"],
    )
    anova = AnovaRM(long, "right", "passage", within=["run"]).fit().anova_table
    clustered, alone = cochran_q(outcomes, passage), cochran_q(outcomes, np.arange(600))
    assert clustered == pytest.approx(max(anova["Pr > F"]["run"], alone)) and clustered != alone
    assert cochran_q(outcomes, np.zeros(600, dtype=int)) == alone


@pytest.mark.parametrize("groups", [1, 3, 5, 10, 50])
def test_cochran_q_sees_a_broken_condition_whose_items_are_of_few_groups(groups: int):
    """Q over the sums of G clusters alone is at most (K - 1) G: over five it reached no p of
    .001."""
    outcomes = (np.random.default_rng(5).random((3, 900)) < [[0.7], [0.7], [0.4]]).astype(float)
    assert cochran_q(outcomes, np.arange(900) % groups) < 1e-3


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
    assert chance_level([4, 0, 2, 5]) == pytest.approx((0.25 + 0 + 0.5 + 0.2) / 4)
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


@pytest.mark.parametrize(
    ("n", "up", "down", "alpha"), [(40, 0.2, 0.1, 0.05), (100, 0.15, 0.05, 0.05 / 9)]
)
def test_power_agrees_with_summing_over_every_table(n, up, down, alpha):
    total = 0.0
    for b in range(n + 1):
        c = np.arange(n - b + 1)
        probability = stats.multinomial.pmf(
            np.stack([np.full_like(c, b), c, n - b - c], axis=1), n, [up, down, 1 - up - down]
        )
        total += probability[mcnemar_exact(np.full_like(c, b), c) <= alpha].sum()
    assert mcnemar_power(n, up, down, alpha) == pytest.approx(total, abs=1e-9)


def test_minimum_detectable_gain_just_reaches_the_power():
    gain = minimum_detectable_gain(100, 0.23, n_tests=9)
    power = [
        mcnemar_power(100, (0.23 + g) / 2, (0.23 - g) / 2, 0.05 / 9)
        for g in (gain - 0.001, gain + 0.001)
    ]
    assert power[0] < 0.8 < power[1]


def test_a_gain_larger_than_the_discordance_raises_it_and_too_few_items_detect_nothing():
    assert minimum_detectable_gain(20, 0.05) > 0.05
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


panel = st.lists(st.floats(0, 1), min_size=1, max_size=40)


@settings(max_examples=6)  # statsmodels takes a quarter of a second a call
@given(panel)
def test_agree_with_statsmodels(p):
    given = np.array(p)
    assert np.allclose(holm(given), multipletests(p, method="holm")[1])
    assert np.allclose(false_discovery(given), multipletests(p, method="fdr_bh")[1])
    assert np.allclose(
        false_discovery(given, any_dependence=True), multipletests(p, method="fdr_by")[1]
    )
    assert given.tolist() == p  # left as it was


@given(st.lists(st.floats(0, 1), max_size=40))
def test_nan_is_not_a_test(p):
    for adjust in (holm, false_discovery):
        out = adjust([np.nan, *p, np.nan])
        assert np.isnan(out[[0, -1]]).all()
        assert np.allclose(out[1:-1], adjust(p))


def test_outside_zero_one():
    with pytest.raises(DataError, match=r"\[0, 1\]"):
        holm([0.5, 1.5])
