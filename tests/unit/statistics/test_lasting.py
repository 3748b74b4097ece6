"""What a lead keeps: exact on tables made by hand, and by simulation in worlds with ceilings,
clusters and small n."""

import numpy as np
import pytest
from long_tests import long

from audit.core.errors import DataError
from audit.statistics.versions import Lasting, lasting_by_condition, lasting_by_items

RUNS = 400


def _answers(rng: np.random.Generator, ability: float, hard: np.ndarray) -> np.ndarray:
    return (rng.random(hard.shape) < 1 / (1 + np.exp(hard - ability))).astype(float)


@pytest.mark.parametrize(
    ("n", "size", "abler"), [(200, 1, 0.8), long(60, 1, 0.8), long(400, 8, 0.8), long(200, 1, 4.0)]
)
def test_the_interval_holds_and_a_lead_that_is_the_same_is_rarely_called_lost(
    n: int, size: int, abler: float
) -> None:
    """Items of one cluster share most of their hardness. abler=4: the second version is near the
    ceiling."""
    rng = np.random.default_rng(3)
    cluster = np.repeat(np.arange(n // size), size)
    covered, rejected, shares = 0, 0, []
    for _ in range(RUNS):
        hard = rng.normal(0, 1, n // size)[cluster] + rng.normal(0, 0.5, n)
        lead = _answers(rng, abler, hard) - _answers(rng, 0.0, hard)
        lasting = lasting_by_condition(
            lead, _answers(rng, abler, hard) - _answers(rng, 0.0, hard), cluster
        )
        covered += lasting.low <= 0 <= lasting.high
        rejected += lasting.pvalue < 0.05
        shares += [lasting.share[1] <= 1 <= lasting.share[2]] if lasting.share else []
    assert covered / RUNS > 0.92 and rejected / RUNS < 0.08
    assert len(shares) > 0.8 * RUNS * (abler > 1 or n > 100) and np.mean(shares) > 0.91


def test_a_lead_that_is_memory_of_the_items_is_lost_on_others() -> None:
    rng = np.random.default_rng(5)
    results: list[Lasting] = []
    for _ in range(100):
        hard, fresh = rng.normal(0, 1, 300), rng.normal(0, 1, 300)
        old, new = _answers(rng, 0.0, hard), _answers(rng, 0.0, hard)
        new[rng.random(300) < 0.3] = 1.0
        fresh_lead = _answers(rng, 0.0, fresh) - _answers(rng, 0.0, fresh)
        results.append(lasting_by_items(new - old, fresh_lead, (np.arange(300), np.arange(300))))
    assert (
        np.mean([result.low <= 0.15 <= result.high for result in results]) > 0.88
    )  # .3 learnt, half of them right anyway
    assert np.mean([result.pvalue < 0.05 for result in results]) > 0.75
    assert abs(np.mean([result.there for result in results])) < 0.01 and results[0].n == 600


def test_items_that_lack_an_answer_are_left_out_and_few_are_refused() -> None:
    lead, other_lead = np.tile([1.0, 0.0], 10), np.tile([1.0, 0.0], 10)
    lead[0], other_lead[3] = np.nan, np.nan
    lasting = lasting_by_condition(lead, other_lead, np.arange(20))
    assert (lasting.n, lasting.units, lasting.lost, lasting.pvalue) == (18, 18, 0.0, 1.0)
    with pytest.raises(DataError):
        lasting_by_condition(lead, other_lead, np.arange(20) // 3)


def test_a_lead_that_is_the_same_but_for_rounding_is_not_lost() -> None:
    """2/3 - 1/3 and 1 - 2/3 differ by 6e-17: that had p = 0."""
    even = np.arange(200) % 2 == 0
    lasting = lasting_by_condition(
        np.where(even, 2 / 3 - 1 / 3, 0.0), np.where(even, 1 - 2 / 3, 0.0), np.arange(200)
    )
    assert 0 < abs(lasting.lost) < 1e-15 and lasting.pvalue == 1.0


def test_a_lead_that_every_item_loses_alike_is_lost() -> None:
    """Its interval was 0.74 to 1.26, and its p 1."""
    lasting = lasting_by_condition(np.ones(12), np.zeros(12), np.arange(12))
    assert lasting.low > 0
    assert lasting.pvalue == 2.0**-11  # as of 12 signs, all of which are one
    assert (
        lasting_by_items(np.ones(12), np.zeros(20), (np.arange(12), np.arange(20))).pvalue
        == 2.0**-11
    )
