"""Several replicates: the p-values use one drawn per question and keep their level, the estimates use all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from audit.calibrate import Design, simulate
from audit.errors import DataError
from audit.records import Arm, Setting
from audit.statistics.paired import CellOutcomes, State
from audit.statistics.values import drawn_values, sweep_of
from audit.verdict.decide import ONE_DRAWN, decide
from audit.verdict.evidence import compare, measure
from audit.verdict.result import Gate, Status, Verdict
from audit.verdict.thresholds import Thresholds

# Nearly always right, and many clean replicates: differences from their mean are as skewed as they come.
SKEWED = Design(100, 9, "nested", clean_replicates=5, clean_accuracy=0.95, discordance=0.06)
CLEAN_MODELS = 600


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def cell_of(states: dict[Setting, list[int]]) -> CellOutcomes:
    settings = tuple(sorted(states))
    n = len(states[settings[0]])
    return CellOutcomes(
        "m", "b", "nested", "letter", tuple(f"{i:04d}" for i in range(n)), np.arange(n), np.full(n, 4), settings,
        np.array([states[s] for s in settings], dtype=np.int8),
    )  # fmt: skip


def test_the_level_holds_where_that_of_averaged_replicates_does_not() -> None:
    generator = rng(7)
    drawn, averaged = [], []
    for _ in range(CLEAN_MODELS):
        cell = simulate(SKEWED, 0.0, generator)
        sweep = sweep_of(cell)
        found = measure(cell, Thresholds(), rng=generator, n_resamples=199, mde=0.05, intervals=False)
        mean = compare(
            sweep.noisy, sweep.clean[None], sweep.routers, sweep.cluster, rng=generator, n_resamples=199,
            intervals=False,
        )  # fmt: skip
        drawn.append(found.clean.family_p <= 0.05)
        averaged.append(mean.family_p <= 0.05)
        np.testing.assert_array_equal(found.clean.gain, mean.gain)  # the estimate uses every replicate
    limit = 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / CLEAN_MODELS)
    assert np.mean(drawn) <= limit, np.mean(drawn)
    assert np.mean(averaged) > limit, np.mean(averaged)  # or this design shows nothing


def test_estimates_and_intervals_use_the_mean_of_all_replicates() -> None:
    cell = simulate(replace(SKEWED, routers=2, clean_replicates=3, clean_accuracy=0.6, discordance=0.4), 0.0, rng())
    found = measure(cell, Thresholds(), rng=rng(1), n_resamples=299)
    clean = np.mean([cell.row(Setting(Arm.FORWARD_FULL, 1, k)) for k in range(3)])
    noisy = [np.mean(cell.row(Setting(Arm.NOISY_REWRITE, r))) for r in (1, 2)]
    np.testing.assert_allclose(found.clean.gain, np.array(noisy) - clean)
    assert [i.estimate for i in found.clean.pointwise] == pytest.approx(found.clean.gain)
    # The draw differs with the generator, the estimates do not.
    again = measure(cell, Thresholds(), rng=rng(2), n_resamples=299)
    np.testing.assert_array_equal(again.clean.gain, found.clean.gain)
    assert not np.array_equal(again.clean.pvalues, found.clean.pvalues)


def test_one_answered_replicate_is_drawn_per_question_and_the_same_at_every_r() -> None:
    n, none = 3000, int(State.UNPARSED)
    states = {Setting(Arm.NOISY_REWRITE, r, k): [int(k == 2)] * n for r in (1, 3) for k in range(3)}
    drawn = drawn_values(cell_of(states), Arm.NOISY_REWRITE, (1, 3), rng())
    np.testing.assert_array_equal(drawn[0], drawn[1])  # replicate 2 alone is right, so equal values are equal draws
    assert drawn.mean() == pytest.approx(1 / 3, abs=0.03)  # each of the three as often
    # Replicate 2 did not answer with r=3: there another one is drawn, and the rest stays as it was.
    states[Setting(Arm.NOISY_REWRITE, 3, 2)] = [none] * n
    part = drawn_values(cell_of(states), Arm.NOISY_REWRITE, (1, 3), rng())
    np.testing.assert_array_equal(part[0], drawn[0])
    assert np.all(part[1] == 0)
    # No replicate answered: no value. A router count with fewer replicates than another is read as it is.
    for k in range(3):
        states[Setting(Arm.NOISY_REWRITE, 3, k)] = [none] * n
    assert np.all(np.isnan(drawn_values(cell_of(states), Arm.NOISY_REWRITE, (1, 3), rng())[1]))
    del states[Setting(Arm.NOISY_REWRITE, 3, 0)], states[Setting(Arm.NOISY_REWRITE, 3, 2)]
    states[Setting(Arm.NOISY_REWRITE, 3, 1)] = [1] * n
    assert np.all(drawn_values(cell_of(states), Arm.NOISY_REWRITE, (1, 3), rng())[1] == 1)
    with pytest.raises(DataError, match="not run at every r"):
        drawn_values(cell_of(states), Arm.NOISY_REWRITE, (1, 2), rng())


def test_with_one_replicate_nothing_is_drawn() -> None:
    cell = simulate(replace(SKEWED, clean_replicates=1), 0.0, rng())
    generator = rng(5)
    before = generator.bit_generator.state
    np.testing.assert_array_equal(drawn_values(cell, Arm.FORWARD_FULL, (1,), generator)[0], sweep_of(cell).clean)
    assert generator.bit_generator.state == before


@pytest.mark.parametrize("replicates", [1, 3])
def test_the_reasons_say_so_only_where_there_are_several(replicates: int) -> None:
    cell = simulate(replace(SKEWED, routers=2, clean_replicates=replicates), 0.0, rng())
    evidence = measure(cell, Thresholds(), rng=rng(), n_resamples=99)
    assert (ONE_DRAWN in decide(evidence, (), Thresholds()).reasons) == (replicates > 1)
    broken = Gate("pairing", Status.FAIL, 0.0, 0.5, "", "Questions do not match.")
    withheld = decide(evidence, (broken,), Thresholds())
    assert withheld.verdict == Verdict.WITHHELD and ONE_DRAWN not in withheld.reasons
