"""The slope of accuracy by information: exact where all is known, and quiet where something else
does it."""

from itertools import permutations

import numpy as np
import pytest
from long_tests import long

from audit.core.errors import DataError
from audit.statistics.information import QUESTIONS_MIN, information_slope, slope_at_zero
from audit.statistics.intensity import intensity_trend

RUNS = 300


def _world(
    rng: np.random.Generator, n: int, *, by_information: float, by_routers: float
) -> tuple[np.ndarray, ...]:
    """Questions differ in hardness and in how much routers keep of them (both at once: short
    questions are easy)."""
    routers = np.arange(1, 6)
    short = rng.normal(0, 1, (n, 1))
    retention = np.clip(0.4 + 0.08 * routers + 0.1 * short + rng.normal(0, 0.08, (n, 5)), 0, 1)
    p = np.clip(
        0.3 + 0.12 * short + by_information * (retention - 0.6) + by_routers * routers, 0.02, 0.98
    )
    return retention, (rng.random((n, 5)) < p).astype(float)


@pytest.mark.parametrize(
    ("n", "by_information", "by_routers", "bounds", "holds"),
    [
        *((n, 0.0, by_routers, (0.0, 0.08), 0.92) for n in (40, 200) for by_routers in (0.0, 0.05)),
        (300, 0.6, 0.0, (0.9, 1.0), 0.9),  # a little is lost to the cut at 0 and 1
    ],
)
def test_an_effect_is_found_and_none_is_not_though_easy_questions_arrive_whole(
    n: int, by_information: float, by_routers: float, bounds: tuple[float, float], holds: float
) -> None:
    rng, worlds = (
        np.random.default_rng(n),
        {"by_information": by_information, "by_routers": by_routers},
    )
    slopes = [information_slope(*_world(rng, n, **worlds)) for _ in range(RUNS)]
    assert bounds[0] <= np.mean([slope.pvalue < 0.05 for slope in slopes]) <= bounds[1]
    assert np.mean([slope.low <= by_information <= slope.high for slope in slopes]) > holds


def test_what_cannot_tell_is_refused() -> None:
    shares = np.tile([[0.2, 0.8], [0.6, 0.4]], (20, 1))
    for x, y in (
        (shares[:, :1], shares[:, :1]),
        (shares[: QUESTIONS_MIN - 1],) * 2,
        (np.ones((40, 2)), shares),
    ):
        with pytest.raises(DataError):
            information_slope(x, y)
    assert (
        information_slope(shares[:QUESTIONS_MIN], shares[:QUESTIONS_MIN]).n == QUESTIONS_MIN
    )  # so many do
    gone = shares.copy()
    gone[:25, 0] = np.nan
    with pytest.raises(DataError):
        information_slope(shares, gone)


DOSES = np.array([0.0, 0.1, 0.2, 0.4, 0.6])


def answers(slope: float, curve: float, rng: np.random.Generator, n: int = 200) -> np.ndarray:
    """Each question with an ease of its own; every dose moves it by slope * d + curve * d^2."""
    ease = rng.uniform(0.5, 0.9, n)[:, None]
    return (
        rng.random((n, DOSES.size)) < np.clip(ease + slope * DOSES + curve * DOSES**2, 0, 1)
    ).astype(float)


@pytest.mark.parametrize(
    ("slope", "curve", "low", "high"),
    [
        (
            0.0,
            0.0,
            0.02,
            0.08,
        ),  # memory: the question is not read, so its words do not matter; 5 % by chance
        (-0.8, 0.3, 0.6, 1.0),  # ability
    ],
)
def test_how_often_it_says_that_words_matter(
    slope: float, curve: float, low: float, high: float
) -> None:
    rng, fits = np.random.default_rng(4), []
    for _ in range(400):
        fits.append(slope_at_zero(DOSES, answers(slope, curve, rng), np.arange(200)))
    assert np.mean([fit.slope for fit in fits]) == pytest.approx(slope, abs=0.06)
    assert np.mean([fit.low <= slope <= fit.high for fit in fits]) == pytest.approx(0.95, abs=0.03)
    assert low <= np.mean([fit.pvalue <= 0.05 for fit in fits]) <= high


@pytest.mark.parametrize("doses", [[0, 0.2], [0, 0.1, 0.3], DOSES])
def test_where_no_answer_changes_there_is_no_slope(doses: list[float]) -> None:
    """Weights that sum to 1e-15 gave a slope of 1e-16 with a p-value below .001."""
    y = np.repeat((np.arange(60) < 40).astype(float)[:, None], len(doses), axis=1)
    fit = slope_at_zero(doses, y, np.arange(60))
    assert (fit.slope, fit.pvalue) == (0.0, 1.0) and fit.low < 0 < fit.high


def test_a_rare_fall_is_within_the_interval() -> None:
    rng, covered = np.random.default_rng(5), []
    for _ in range(300):
        y = np.ones((40, 2))
        y[rng.random(40) < 0.03, 1] = 0
        fit = slope_at_zero([0, 0.2], y, np.arange(40))
        covered.append(fit.low <= -0.15 <= fit.high)
    assert np.mean(covered) > 0.93  # 69 % without what none of 40 would show


def test_its_error_is_that_of_groups_and_unanswered_questions_are_left_out() -> None:
    y = answers(-0.8, 0.3, np.random.default_rng(1))
    alone = slope_at_zero(DOSES, y, np.arange(200))
    twice = slope_at_zero(DOSES, np.repeat(y, 2, axis=0), np.repeat(np.arange(200), 2))
    assert (twice.slope, twice.low, twice.n) == (
        pytest.approx(alone.slope),
        pytest.approx(alone.low),
        400,
    )
    y[0, 3] = np.nan
    assert slope_at_zero(DOSES, y, np.arange(200)).n == 199
    line = slope_at_zero(
        [0.0, 0.5], np.tile([1.0, 0.5], (30, 1)), np.arange(30)
    )  # two doses give a difference
    assert (line.slope, line.pvalue) == (pytest.approx(-1.0), 0.0)


@pytest.mark.parametrize(("n", "groups", "doses"), [(19, 19, 5), (40, 19, 5), (40, 40, 1)])
def test_too_little_gives_none(n: int, groups: int, doses: int) -> None:
    with pytest.raises(DataError):
        slope_at_zero(DOSES[:doses], np.ones((n, doses)), np.arange(n) % groups)


def by_permutation(
    items: np.ndarray, distance: np.ndarray, correct: np.ndarray, rng: np.random.Generator
) -> float:
    """P(sum of distance x answer is no larger), answers permuted within items."""
    draws = np.zeros(20_000)
    for item in np.unique(items):
        mine = items == item
        every = np.array([distance[mine] @ np.array(p) for p in permutations(correct[mine])])
        draws += rng.choice(every, draws.size)
    return float(np.mean(draws <= distance @ correct + 1e-12))


def test_it_agrees_with_the_permutation_test():
    rng = np.random.default_rng(3)
    items, distance = np.repeat(np.arange(60), 3), rng.uniform(0.15, 0.45, 180)
    correct = (rng.random(180) < 0.9 - 0.8 * distance).astype(float)
    trend = intensity_trend([str(i) for i in items], distance, correct)
    assert trend.pvalue == pytest.approx(by_permutation(items, distance, correct, rng), abs=0.01)


@pytest.mark.parametrize(
    ("slope", "low", "high"), [(0.0, 0.03, 0.07), (-1.0, 0.85, 1.0), (1.0, 0.0, 0.01)]
)
def test_how_often_it_says_falls(slope: float, low: float, high: float):
    """300 items of three rewordings whose ease differs, and sits on the items that were reworded
    furthest."""
    rng = np.random.default_rng(5)
    items, rejections = [str(i) for i in np.repeat(np.arange(300), 3)], []
    for _ in range(500):
        base = np.repeat(rng.uniform(0.15, 0.35, 300), 3)
        distance = base + rng.uniform(0, 0.1, 900)
        ease = 0.2 + 2 * (base - 0.15) + slope * 2 * (distance - base - 0.05)
        trend = intensity_trend(items, distance, (rng.random(900) < ease).astype(float))
        rejections.append(trend is not None and trend.pvalue <= 0.05)
    assert low <= np.mean(rejections) <= high


@pytest.mark.parametrize(("n", "ease"), [(40, 0.95), long(200, 0.95), long(40, 0.6)])
def test_few_wrong_answers_and_skewed_distances_keep_the_level(n: int, ease: float):
    rng = np.random.default_rng(7)
    items, p = [str(i) for i in np.repeat(np.arange(n), 3)], []
    for _ in range(2000):
        distance = np.minimum(rng.lognormal(-2, 1, 3 * n), 2.0)
        trend = intensity_trend(items, distance, (rng.random(3 * n) < ease).astype(float))
        p.append(trend.pvalue if trend else 1.0)
    assert np.mean(np.array(p) <= 0.05) <= 0.05 + 0.01


def test_passages_that_are_reworded_as_a_whole_count_once():
    """30 passages of 10 items: each wording of one has one distance, and is easier or harder for
    all its items."""
    rng, rejections = np.random.default_rng(8), np.zeros(2)
    items, passages = (
        [str(i) for i in np.repeat(np.arange(300), 3)],
        np.repeat(np.arange(30), 30).tolist(),
    )
    for _ in range(200):
        distance, ease = (
            np.repeat(values, 10, axis=0).ravel()
            for values in (rng.random((30, 3)), rng.normal(1, 1.5, (30, 3)))
        )
        correct = (rng.random(900) < 1 / (1 + np.exp(-ease))).astype(float)
        trends = [
            intensity_trend(items, distance, correct, cluster) for cluster in (passages, None)
        ]
        rejections += [trend is not None and trend.pvalue <= 0.05 for trend in trends]
    assert (
        rejections[0] <= 16 < 24 <= rejections[1]
    )  # 5 % and three standard errors; without passages 12 to 21 %


def test_what_says_nothing_is_left_out():
    items, distance = (
        ["a", "a", "b", "c", "c", "d", "d"],
        np.array([0.2, 0.4, 0.3, 0.2, 0.2, 0.2, 0.4]),
    )
    correct = np.array(
        [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, np.nan]
    )  # alike, alone, of one distance, unanswered
    assert intensity_trend(items, distance, correct) is None
    trend = intensity_trend(
        [*items, "e", "e"], np.append(distance, [0.2, 0.4]), np.append(correct, [1.0, 0.0])
    )
    assert (trend.n, trend.slope) == (
        1,
        pytest.approx(-0.2 / 0.04 / 2),
    )  # dd: .02 of a and of e; dy: -.1 of e


@pytest.mark.parametrize(("n", "levels", "right"), [(30, 3, 0.995), (100, 3, 0.99)])
def test_the_slope_of_nearly_perfect_answers_has_an_interval(
    n: int, levels: int, right: float
) -> None:
    """It held in 85 and 90 %, and had no length where every answer was right."""
    rng, slope, covered = np.random.default_rng(3), 0.1, []
    for _ in range(300):
        arrived = np.clip(
            1 - 0.5 * np.exp(-np.arange(levels)) + 0.15 * rng.normal(size=(n, levels)), 0, 1
        )
        fit = information_slope(arrived, rng.random((n, levels)) < right + slope * (arrived - 1))
        covered.append(fit.low <= slope <= fit.high)
        assert fit.high > fit.low
    assert np.mean(covered) > 0.93
