"""The slope of accuracy by information: exact where all is known, and quiet where something else does it."""

import doctest

import numpy as np
import pytest

from audit.errors import DataError
from audit.statistics import information as module
from audit.statistics.information import QUESTIONS_MIN, information_slope

RUNS = 300


def _world(rng: np.random.Generator, n: int, *, by_information: float, by_routers: float) -> tuple[np.ndarray, ...]:
    """Questions differ in hardness and in how much routers keep of them (both at once: short questions are easy)."""
    routers = np.arange(1, 6)
    short = rng.normal(0, 1, (n, 1))
    kept = np.clip(0.4 + 0.08 * routers + 0.1 * short + rng.normal(0, 0.08, (n, 5)), 0, 1)
    p = np.clip(0.3 + 0.12 * short + by_information * (kept - 0.6) + by_routers * routers, 0.02, 0.98)
    return kept, (rng.random((n, 5)) < p).astype(float)


def test_the_example() -> None:
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("by_routers", [0.0, 0.05])
@pytest.mark.parametrize("n", [40, 200])
def test_no_information_effect_is_rarely_found_though_easy_questions_arrive_whole(n: int, by_routers: float) -> None:
    rng = np.random.default_rng(n)
    found = [information_slope(*_world(rng, n, by_information=0.0, by_routers=by_routers)) for _ in range(RUNS)]
    assert np.mean([one.pvalue < 0.05 for one in found]) < 0.08
    assert np.mean([one.low <= 0 <= one.high for one in found]) > 0.92


def test_an_information_effect_is_found_and_its_interval_holds() -> None:
    rng = np.random.default_rng(9)
    found = [information_slope(*_world(rng, 300, by_information=0.6, by_routers=0.0)) for _ in range(RUNS)]
    assert np.mean([one.pvalue < 0.05 for one in found]) > 0.9
    assert np.mean([one.low <= 0.6 <= one.high for one in found]) > 0.9  # a little is lost to the cut at 0 and 1


def test_what_cannot_tell_is_refused() -> None:
    kept = np.tile([[0.2, 0.8], [0.6, 0.4]], (20, 1))
    for x, y in ((kept[:, :1], kept[:, :1]), (kept[: QUESTIONS_MIN - 1],) * 2, (np.ones((40, 2)), kept)):
        with pytest.raises(DataError):
            information_slope(x, y)
    assert information_slope(kept[:QUESTIONS_MIN], kept[:QUESTIONS_MIN]).n == QUESTIONS_MIN  # so many do
    gone = kept.copy()
    gone[:25, 0] = np.nan
    with pytest.raises(DataError):
        information_slope(kept, gone)
