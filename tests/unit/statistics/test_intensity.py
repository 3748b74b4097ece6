"""The trend over intensity, against a permutation of an item's answers over its rewordings."""

from itertools import permutations

import numpy as np
import pytest

from audit.statistics.intensity import intensity_trend


def by_permutation(items: np.ndarray, distance: np.ndarray, correct: np.ndarray, rng: np.random.Generator) -> float:
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
    found = intensity_trend([str(i) for i in items], distance, correct)
    assert found is not None
    assert found.pvalue == pytest.approx(by_permutation(items, distance, correct, rng), abs=0.01)


@pytest.mark.parametrize(("slope", "low", "high"), [(0.0, 0.03, 0.07), (-1.0, 0.85, 1.0), (1.0, 0.0, 0.01)])
def test_how_often_it_says_falls(slope: float, low: float, high: float):
    """300 items of three rewordings whose ease differs, and sits on the items that were reworded furthest."""
    rng = np.random.default_rng(5)
    items, said = [str(i) for i in np.repeat(np.arange(300), 3)], []
    for _ in range(500):
        base = np.repeat(rng.uniform(0.15, 0.35, 300), 3)
        distance = base + rng.uniform(0, 0.1, 900)
        ease = 0.2 + 2 * (base - 0.15) + slope * 2 * (distance - base - 0.05)
        found = intensity_trend(items, distance, (rng.random(900) < ease).astype(float))
        said.append(found is not None and found.pvalue <= 0.05)
    assert low <= np.mean(said) <= high


def test_what_says_nothing_is_left_out():
    items, distance = ["a", "a", "b", "c", "c", "d", "d"], np.array([0.2, 0.4, 0.3, 0.2, 0.2, 0.2, 0.4])
    correct = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 1.0, np.nan])  # alike, alone, of one distance, unanswered
    assert intensity_trend(items, distance, correct) is None
    found = intensity_trend([*items, "e", "e"], np.append(distance, [0.2, 0.4]), np.append(correct, [1.0, 0.0]))
    assert found is not None
    assert (found.n, found.slope) == (1, pytest.approx(-0.2 / 0.04 / 2))  # dd: .02 of a and of e; dy: -.1 of e
