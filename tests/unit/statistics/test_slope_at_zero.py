"""The slope of accuracy at dose 0, on simulated models: one answers from memory, others need the question."""

import numpy as np
import pytest

from audit.errors import DataError
from audit.statistics.information import slope_at_zero

DOSES = np.array([0.0, 0.1, 0.2, 0.4, 0.6])


def answers(slope: float, curve: float, rng: np.random.Generator, n: int = 200) -> np.ndarray:
    """Each question with an ease of its own; every dose moves it by slope * d + curve * d^2."""
    ease = rng.uniform(0.5, 0.9, n)[:, None]
    return (rng.random((n, DOSES.size)) < np.clip(ease + slope * DOSES + curve * DOSES**2, 0, 1)).astype(float)


@pytest.mark.parametrize(
    ("slope", "curve", "low", "high"),
    [
        (0.0, 0.0, 0.02, 0.08),  # memory: the question is not read, so its words do not matter; 5 % by chance
        (-0.8, 0.3, 0.6, 1.0),  # ability
    ],
)
def test_how_often_it_says_that_words_matter(slope: float, curve: float, low: float, high: float) -> None:
    rng, found = np.random.default_rng(4), []
    for _ in range(400):
        found.append(slope_at_zero(DOSES, answers(slope, curve, rng), np.arange(200)))
    assert np.mean([one.slope for one in found]) == pytest.approx(slope, abs=0.06)
    assert np.mean([one.low <= slope <= one.high for one in found]) == pytest.approx(0.95, abs=0.03)
    assert low <= np.mean([one.pvalue <= 0.05 for one in found]) <= high


@pytest.mark.parametrize("doses", [[0, 0.2], [0, 0.1, 0.3], DOSES])
def test_where_no_answer_changes_there_is_no_slope(doses: list[float]) -> None:
    """Weights that sum to 1e-15 gave a slope of 1e-16 with a p-value below .001."""
    y = np.repeat((np.arange(60) < 40).astype(float)[:, None], len(doses), axis=1)
    found = slope_at_zero(doses, y, np.arange(60))
    assert (found.slope, found.pvalue) == (0.0, 1.0) and found.low < 0 < found.high


def test_a_rare_fall_is_within_the_interval() -> None:
    rng, held = np.random.default_rng(5), []
    for _ in range(300):
        y = np.ones((40, 2))
        y[rng.random(40) < 0.03, 1] = 0
        found = slope_at_zero([0, 0.2], y, np.arange(40))
        held.append(found.low <= -0.15 <= found.high)
    assert np.mean(held) > 0.93  # 69 % without what none of 40 would show


def test_its_error_is_that_of_groups_and_unanswered_questions_are_left_out() -> None:
    y = answers(-0.8, 0.3, np.random.default_rng(1))
    alone = slope_at_zero(DOSES, y, np.arange(200))
    twice = slope_at_zero(DOSES, np.repeat(y, 2, axis=0), np.repeat(np.arange(200), 2))
    assert (twice.slope, twice.low, twice.n) == (pytest.approx(alone.slope), pytest.approx(alone.low), 400)
    y[0, 3] = np.nan
    assert slope_at_zero(DOSES, y, np.arange(200)).n == 199


def test_two_doses_give_a_difference() -> None:
    found = slope_at_zero([0.0, 0.5], np.tile([1.0, 0.5], (30, 1)), np.arange(30))
    assert (found.slope, found.pvalue) == (pytest.approx(-1.0), 0.0)


@pytest.mark.parametrize(("n", "groups", "doses"), [(19, 19, 5), (40, 19, 5), (40, 40, 1)])
def test_too_little_gives_none(n: int, groups: int, doses: int) -> None:
    with pytest.raises(DataError):
        slope_at_zero(DOSES[:doses], np.ones((n, doses)), np.arange(n) % groups)
