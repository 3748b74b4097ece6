"""Several replicates: estimates, intervals and tests use every one of them."""

from dataclasses import replace

import numpy as np
import pytest
from outcome_tables import cell_of

from audit.core.errors import DataError
from audit.core.records import Setting
from audit.judging.result import Status
from audit.judging.world import World
from audit.statistics.paired import State
from audit.statistics.values import runs_of
from audit.sweep.design import Arm, SweepThresholds
from audit.sweep.evidence import measure
from audit.sweep.gates import noise_floor
from audit.sweep.simulation import Design, simulate

# Nearly always right, and many clean replicates: differences from their mean are as skewed as they
# come.
SKEWED = Design(100, 9, "nested", clean_replicates=5, clean_accuracy=0.95, discordance=0.06)
CLEAN_MODELS = 300


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.long
def test_the_level_holds_for_a_model_that_is_nearly_always_right() -> None:
    generator, rejected = rng(7), 0
    for _ in range(CLEAN_MODELS):
        cell = simulate(SKEWED, World(), generator).cell
        measured = measure(cell, rng=generator, n_resamples=19, n_permutations=199)
        rejected += measured.clean.family_p <= 0.05
    assert rejected / CLEAN_MODELS <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / CLEAN_MODELS)
    assert rejected  # not by never rejecting


def test_estimates_intervals_and_tests_use_all_replicates() -> None:
    cell = simulate(
        replace(SKEWED, routers=2, clean_replicates=3, clean_accuracy=0.6, discordance=0.4),
        World(),
        rng(),
    ).cell
    measured = measure(cell, rng=rng(1), n_resamples=20_000)
    clean = np.mean([cell.row(Setting(Arm.FORWARD_FULL, 1, k)) for k in range(3)])
    noisy = [np.mean(cell.row(Setting(Arm.NOISY_REWRITE, r))) for r in (1, 2)]
    np.testing.assert_allclose(measured.clean.gain, np.array(noisy) - clean)
    assert [i.estimate for i in measured.clean.pointwise] == pytest.approx(measured.clean.gain)
    # Nothing is drawn that another generator could draw otherwise: p moves by Monte-Carlo error
    # alone.
    reseeded = measure(cell, rng=rng(2), n_resamples=20_000)
    assert reseeded.clean.pvalues == pytest.approx(measured.clean.pvalues, abs=0.015)


def test_a_test_and_its_interval_tell_the_same_story() -> None:
    # Where p (one-sided) is far from .025, the two-sided 95 % interval agrees with it on which side
    # of zero it lies.
    generator = rng(11)
    for _ in range(60):
        design = replace(SKEWED, routers=1, clean_replicates=3, clean_accuracy=0.7, discordance=0.2)
        cell = simulate(design, World(gain=0.06), generator).cell
        c = measure(cell, rng=generator, n_resamples=2000).clean
        if c.family_p < 0.015:
            assert c.low[0] > 0
        if c.family_p > 0.035:
            assert c.low[0] <= 0


def test_every_replicate_is_read_and_absent_ones_are_missing() -> None:
    states = {
        Setting(Arm.NOISY_REWRITE, r, k): [k % 2, int(State.UNPARSED)]
        for r in (1, 3)
        for k in range(3)
    }
    del states[Setting(Arm.NOISY_REWRITE, 3, 1)]
    runs = runs_of(cell_of(states), Arm.NOISY_REWRITE, (1, 3))
    assert runs.shape == (3, 2, 2)
    np.testing.assert_array_equal(runs[:, 0, 0], [0, 1, 0])
    np.testing.assert_array_equal(runs[:, 1, 0], [0, np.nan, 0])
    assert np.isnan(runs[:, :, 1]).all()
    with pytest.raises(DataError, match="not run at every level"):
        runs_of(cell_of(states), Arm.NOISY_REWRITE, (1, 2))


def test_clean_replicates_that_differ_by_more_than_chance_withhold() -> None:
    design = replace(
        SKEWED, routers=1, clean_replicates=3, clean_accuracy=0.7, discordance=0.2, n=200
    )
    cell = simulate(design, World(), rng(4)).cell
    honest = noise_floor(cell, SweepThresholds())
    assert honest.status == Status.PASS and honest.number is not None and honest.number > 0.01
    state = cell.state.copy()
    state[cell.settings.index(Setting(Arm.FORWARD_FULL, 1, 1)), :80] = (
        State.WRONG
    )  # one run of three went wrong
    broken = noise_floor(replace(cell, state=state), SweepThresholds())
    assert broken.status == Status.FAIL and broken.withholds
    single = simulate(replace(design, clean_replicates=1), World(), rng()).cell
    assert noise_floor(single, SweepThresholds()).status == Status.NOT_APPLICABLE


@pytest.mark.parametrize(
    "world", [World(), World(group=20, group_sd=1.0)]
)  # of passages 32 % failed
def test_honest_replicates_fail_the_noise_floor_as_often_as_it_says(world: World) -> None:
    design, generator = (
        replace(SKEWED, routers=1, clean_replicates=3, clean_accuracy=0.7, discordance=0.2),
        rng(5),
    )
    failed = [
        noise_floor(simulate(design, world, generator).cell, SweepThresholds()).status
        == Status.FAIL
        for _ in range(1000)
    ]
    assert np.mean(failed) <= 0.01 + 3 * np.sqrt(0.01 * 0.99 / 1000)
