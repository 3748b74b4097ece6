"""Run variance: estimated without bias, of each side by itself, and in tests and intervals."""

import numpy as np
import pytest
from long_tests import long
from outcome_tables import cell_of

from audit.core.records import Setting
from audit.judging.world import World
from audit.statistics.paired import CellOutcomes
from audit.statistics.permutation import max_statistic_exchange
from audit.statistics.run_variance import UNMEASURED, RunShifts, RunVariance, pooled_run_variance
from audit.sweep.analyse import analyse
from audit.sweep.decide import decide
from audit.sweep.design import Arm, SweepThresholds
from audit.sweep.evidence import measure
from audit.sweep.record import cell_shifts, noisy_contrasts, run_contrasts, run_shifts
from audit.sweep.simulation import Design, simulate
from audit.sweep.vocabulary import Verdict

CLEAN = [Setting(Arm.FORWARD_FULL, 1, k) for k in range(3)]


def test_two_runs_by_hand() -> None:
    # Accuracies 6/10 and 8/10, four changed answers: three up, one down. The one contrast is (a2 -
    # a1) / sqrt 2.
    first = np.array([1] * 6 + [0] * 4)
    second = np.array([0] + [1] * 5 + [1] * 3 + [0])
    contrasts = run_contrasts(cell_of({CLEAN[0]: first, CLEAN[1]: second}))
    d = second - first
    assert contrasts.squares == pytest.approx([d.mean() ** 2 / 2])
    assert contrasts.sampling == pytest.approx([np.sum((d - d.mean()) ** 2) / 100 / 2 * 10 / 9])
    unread = np.array(
        [0, -1, -1, -1, 1, 1, 1, -1, -1, 0]
    )  # leave the mean of the run, which is 3/5
    contrasts = run_contrasts(cell_of({CLEAN[0]: first, CLEAN[1]: unread}))
    assert contrasts.squares == pytest.approx([(6 / 10 - 3 / 5) ** 2 / 2])


@pytest.mark.parametrize(("sd", "mean"), [long(0.0, 0.0), (0.02, 4e-4)])
def test_the_estimate_is_unbiased(sd: float, mean: float) -> None:
    design, rng = Design(400, 9, "nested", clean_replicates=3), np.random.default_rng(0)
    raw = []
    for _ in range(300):
        c = run_contrasts(simulate(design, World(shock=sd), rng).cell)
        assert c.squares.size == 2 + 6  # three clean runs; eight ensemble runs less a line
        raw.append(np.mean(c.squares - c.sampling))
    assert np.mean(raw) == pytest.approx(mean, abs=4 * np.std(raw) / np.sqrt(300))


def test_a_trend_of_the_ensemble_over_r_is_no_run_variance_and_a_bend_only_adds() -> None:
    rng = np.random.default_rng(1)

    def rows(gain: list[float]) -> dict[Setting, np.ndarray]:
        return {
            Setting(Arm.FORWARD_FULL, r): rng.random(20_000) < 0.5 + g
            for r, g in zip(range(2, 10), gain, strict=True)
        }

    def estimate(gain: list[float]) -> float:
        c = run_contrasts(cell_of(rows(gain)))
        return float(np.mean(c.squares - c.sampling))

    assert (
        abs(estimate([0.02 * k for k in range(8)])) < 3e-5
    )  # sampling variance of a run: 0.25 / 20000 = 1.25e-5
    assert estimate([0.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]) > 1e-4


def test_nothing_repeated_is_not_measured_and_copies_count_once() -> None:
    outcomes = np.array([1, 0, 1, 1])
    alone = cell_of(
        {
            CLEAN[0]: outcomes,
            Setting(Arm.NOISY_REWRITE, 1): outcomes,
            Setting(Arm.NOISY_REWRITE, 2): 1 - outcomes,
        }
    )
    assert pooled_run_variance([run_contrasts(alone)], 0.02) == UNMEASURED
    assert (
        pooled_run_variance([run_contrasts(cell_of(dict.fromkeys(CLEAN, outcomes)))], 0.02)
        == UNMEASURED
    )
    assert pooled_run_variance([], 0.02) == UNMEASURED


def test_what_is_used_is_bounded_without_evidence_and_not_with_it() -> None:
    rng = np.random.default_rng(2)
    few = cell_of({s: rng.random(60) < 0.5 for s in CLEAN})  # sampling error 6.5 points
    quiet = pooled_run_variance([run_contrasts(few)], 0.02)
    assert quiet.df == 2 and quiet.used <= 0.02**2
    assert quiet.capped
    cell = cell_of(
        {s: rng.random(5000) < 0.4 + 0.1 * k for k, s in enumerate(CLEAN)}
    )  # sd 10 points
    loud = pooled_run_variance([run_contrasts(cell)], 0.02)
    assert loud.estimate == pytest.approx(0.01, rel=0.3) and loud.used > loud.estimate
    assert not loud.capped


def test_a_known_run_variance_widens_the_test_to_its_level() -> None:
    # Two runs, each shifted by sd 5 points, n=400: without it the test rejects far more than one
    # model in twenty.
    rng, rejected = np.random.default_rng(3), {"without": 0, "with": 0}
    for _ in range(400):
        a, b = (
            rng.random((1, 1, 400)) < np.clip(0.5 + rng.normal(0, 0.05), 0, 1) for _ in range(2)
        )
        for name, variance in (("without", 0.0), ("with", 0.05**2)):
            result = max_statistic_exchange(
                a.astype(float),
                b.astype(float),
                n_permutations=199,
                shifts=(variance, variance),
                rng=rng,
            )
            rejected[name] += result.pvalue <= 0.05
    assert rejected["without"] > 60  # 15 %
    assert 6 <= rejected["with"] <= 36  # 5 %, give or take 3.7 standard errors


def test_each_side_has_its_own_shift_and_what_is_unknown_is_not_zero() -> None:
    measured = RunVariance(1e-4, 2e-4, 3)
    assert RunShifts(measured, UNMEASURED, 0.02).used == (
        2e-4,
        2e-4,
    )  # nothing befalls a control that noisy is spared
    assert RunShifts(UNMEASURED, measured, 0.02).used == (4e-4, 2e-4)
    assert RunShifts(UNMEASURED, UNMEASURED, 0.02).used == (4e-4, 4e-4)
    small, large = RunVariance(0, 1e-6, 3), RunVariance(9e-4, 1e-3, 3)
    assert RunShifts(small, small, 0.02).tested(repeated=True) == (1e-6, 1e-6)
    assert RunShifts(small, small, 0.02).tested(repeated=False) == (4e-4, 1e-6)
    assert RunShifts(large, UNMEASURED, 0.02).tested(repeated=False) == (1e-3, 1e-3)
    assert RunShifts().tested(repeated=False) == (0.0, 0.0)


def test_the_noisy_arms_scatter_over_r_is_measured_without_its_trend_and_first_level() -> None:
    rng = np.random.default_rng(5)

    def contrasts(gain: list[float], replicates: int = 1) -> tuple[int, float]:
        runs = {
            Setting(Arm.NOISY_REWRITE, r, k): rng.random(20_000) < 0.5 + g
            for r, g in enumerate(gain, 1)
            for k in range(replicates)
        }
        c = noisy_contrasts(cell_of(runs))
        return c.squares.size, float(np.mean(c.squares - c.sampling)) if c.squares.size else 0.0

    line = [
        0.0,
        *(0.05 + 0.01 * k for k in range(8)),
    ]  # nine router counts: less a mean, the first, a slope
    assert contrasts(line)[0] == 6 and abs(contrasts(line)[1]) < 3e-5
    assert contrasts([0.0, 0.1, 0, 0.1, 0, 0.1, 0, 0.1, 0])[1] > 1e-3
    assert (
        contrasts([0.0, 0.2, 0.1], 2)[0] == 3
    )  # replicates against each other, at three router counts
    assert contrasts([0.0, 0.1])[0] == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("design", "world"),
    [
        (
            Design(3000, 1, clean_replicates=1),
            World(shock=0.02),
        ),  # nothing repeated: 15 of 100 without the plausible
        (Design(3000, 1, clean_replicates=3), World(shock=0.003, noisy_shock=0.03)),
    ],
)
def test_a_shifted_noisy_run_is_no_excess(design: Design, world: World) -> None:
    rng, thresholds, findings = np.random.default_rng(11), SweepThresholds(), 0
    for _ in range(150):
        cell = simulate(design, world, rng).cell
        shifts = run_shifts([cell], thresholds.run_sd_plausible)
        e = measure(cell, rng=rng, n_resamples=199, shifts=shifts)
        findings += decide(e, (), thresholds).verdict == Verdict.EXCESS
    assert findings <= 15  # 5 %, and 3 standard errors


def test_one_model_whose_runs_shift_is_not_lost_in_a_panel() -> None:
    """Eight models, of one of which a noisy run lost 20 points: pooled, 7 points are used.

    A model with +5 points whose noisy runs shift by 4 was cleared in 15 % of panels of 12 (n=2000,
    r=1)."""
    rng, n = np.random.default_rng(5), 500
    noisy = [Setting(Arm.NOISY_REWRITE, 1, k) for k in range(2)]

    def model(name: str, shift: float) -> CellOutcomes:
        chance = dict.fromkeys([*CLEAN, *noisy], 0.7) | {noisy[1]: 0.7 - shift}
        return cell_of({s: rng.random(n) < p for s, p in chance.items()}, model=name)

    shifting, *steady = [model("shifting", 0.2), *(model(f"m{k}", 0.0) for k in range(7))]
    panel = run_shifts([shifting, *steady], 0.02)
    shifts = cell_shifts(shifting, panel)
    assert (
        shifts.noisy == run_shifts([shifting], 0.02).noisy
        and shifts.noisy.used > 2 * panel.noisy.used
    )
    assert shifts.controls == panel.controls  # its clean runs are as steady as the others'
    assert all(cell_shifts(cell, panel) == panel for cell in steady)
    assert cell_shifts(shifting, run_shifts([shifting], 0.02)) == run_shifts([shifting], 0.02)
    run_sds = {
        r.model: r.noisy_run_sd for r in analyse([shifting, *steady], n_resamples=99).results
    }
    assert run_sds["shifting"] == pytest.approx(shifts.noisy.used**0.5)
    assert {run_sds[f"m{k}"] for k in range(7)} == {panel.noisy.used**0.5}
