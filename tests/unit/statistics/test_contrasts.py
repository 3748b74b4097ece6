from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from bootstrap_intervals import rng
from outcome_tables import cell_of

from audit.core.errors import DataError
from audit.core.records import Setting
from audit.statistics.paired import State
from audit.statistics.permutation import sign_flip_pvalue
from audit.statistics.resampling import studentised_pvalue
from audit.statistics.values import levels_of, runs_of, to_values
from audit.sweep import contrasts
from audit.sweep.design import Arm
from audit.sweep.record import noise_floor, sweep_of

CLEAN, DIRECT = Setting(Arm.FORWARD_FULL, 1), Setting(Arm.DIRECT, 0)
cell = partial(cell_of, draws="independent")
compared = partial(contrasts.contrast, name="a_vs_b", label="a - b", n_resamples=10_000)
difference_in_differences = partial(contrasts.difference_in_differences, n_resamples=10_000)
score_gap = partial(contrasts.score_gap, n_resamples=10_000)
NOISY1, NOISY2, ENSEMBLE2 = (
    Setting(Arm.NOISY_REWRITE, 1),
    Setting(Arm.NOISY_REWRITE, 2),
    Setting(Arm.FORWARD_FULL, 2),
)


def full(n=200, seed=0, effect=0.0):
    g = rng(seed)
    p = g.beta(2, 2, size=n)

    def draw(shift=0.0):
        return (g.random(n) < np.clip(p + shift, 0, 1)).astype(int)

    return cell(
        {CLEAN: draw(), DIRECT: draw(), NOISY1: draw(), NOISY2: draw(effect), ENSEMBLE2: draw()}
    )


# ---------------------------------------------------------------- values


def test_only_answers_have_values():
    states = np.array(
        [State.CORRECT, State.WRONG, State.UNPARSED, State.TRUNCATED, State.ERROR, State.ABSENT]
    )
    nan = np.nan
    assert np.array_equal(to_values(states), [1, 0, nan, nan, nan, nan], equal_nan=True)
    assert np.array_equal(to_values(states, "wrong"), [1, 0, 0, 0, 0, nan], equal_nan=True)
    assert np.array_equal(to_values(states, "right"), [1, 0, 1, 1, 1, nan], equal_nan=True)


def test_a_sweep_needs_both_arms():
    assert levels_of(full(), Arm.NOISY_REWRITE) == (1, 2)
    with pytest.raises(DataError, match="forward_full"):
        sweep_of(cell({NOISY1: [1, 0]}))
    with pytest.raises(
        DataError, match=r"noisy_rewrite was not run, so there is nothing to compare\.$"
    ):
        runs_of(cell({CLEAN: [1, 0]}), Arm.NOISY_REWRITE, ())
    with pytest.raises(DataError, match="is 0 of 2"):
        compared(cell({NOISY1: [1, -1], CLEAN: [-1, 0]}), [NOISY1], [CLEAN], rng=rng())


# ---------------------------------------------------------------- contrasts


def test_by_hand():
    #        both right, improve, improve, degrade, left out
    c = cell({NOISY1: [1, 1, 1, 0, -1], CLEAN: [1, 0, 0, 1, 1]})
    result = compared(c, [NOISY1], [CLEAN], rng=rng())
    assert (result.n, result.improve, result.degrade) == (4, 2, 1)
    assert result.estimate == 0.75 - 0.5
    assert result.p == pytest.approx(4 / 8)  # P(X >= 2), Binomial(3, 1/2)
    #        improve, unparsed noisy (clean wrong), unparsed clean (noisy right), error
    c = cell({NOISY1: [1, -1, 1, -3], CLEAN: [0, 0, -2, 1]})
    for unparsed, expected in (
        ("left_out", 1.0),
        ("wrong", (1 + 0 + 1 - 1) / 4),
        ("right", (1 + 1 + 0 + 0) / 4),
    ):
        assert compared(
            c, [NOISY1], [CLEAN], rng=rng(), unparsed=unparsed
        ).estimate == pytest.approx(expected)


@pytest.mark.parametrize("effect", [0.1, 0.0, -0.1])
def test_a_mean_over_settings_has_the_larger_p_of_a_bootstrap_t_and_of_sign_flips(effect):
    c = full(effect=effect)
    mean = compared(c, [NOISY1, NOISY2], [CLEAN], rng=rng())
    d = (c.row(NOISY1) + c.row(NOISY2)) / 2 - c.row(CLEAN)
    both = studentised_pvalue(d, c.cluster, rng=rng()), sign_flip_pvalue(d, c.cluster, rng=rng())
    assert mean.p == pytest.approx(max(both), abs=0.02)
    assert mean.estimate == pytest.approx(
        (c.row(NOISY1) + c.row(NOISY2)).mean() / 2 - c.row(CLEAN).mean()
    )


def test_a_mean_over_settings_keeps_its_level_where_few_items_are_answered_right():
    # 60 hard questions (2 % right), nine noisy settings against three router counts: a bootstrap-t
    # alone rejects 13 %.
    g, trials = rng(6), 300
    noisy = [Setting(Arm.NOISY_REWRITE, r) for r in range(1, 10)]
    controls = [Setting(Arm.FORWARD_FULL, r) for r in (2, 3, 4)]
    pvalues, alone = [], []
    for _ in range(trials):
        p = g.beta(0.08, 3.92, size=60)
        c = cell({s: (g.random(60) < p).astype(int) for s in (*noisy, *controls)})
        pvalues.append(compared(c, noisy, controls, n_resamples=299, rng=g).p)
        d = np.mean([c.row(s) for s in noisy], axis=0) - np.mean(
            [c.row(s) for s in controls], axis=0
        )
        alone.append(studentised_pvalue(d, n_resamples=299, rng=g))
    bound = 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)
    assert np.mean(np.array(pvalues) <= 0.05) <= bound < np.mean(np.array(alone) <= 0.05)


def test_where_no_item_differs_the_interval_is_that_of_none_in_n():
    c = cell({NOISY1: [1] * 40, CLEAN: [1] * 40})
    none = compared(c, [NOISY1], [CLEAN], rng=rng())
    assert (-none.ci_low, none.ci_high) == pytest.approx((1 - 0.025 ** (1 / 40),) * 2)
    c = cell({NOISY1: [1] * 40, CLEAN: [1] * 39 + [0]})
    contrast = compared(c, [NOISY1], [CLEAN], rng=rng())
    assert (
        contrast.ci_low == pytest.approx(1 / 40 - (1 - 0.025 ** (1 / 40)))
        and contrast.ci_high >= none.ci_high + 1 / 40 - 1e-9
    )


def test_a_few_large_passages_leave_every_difference_possible():
    """Resamples of little more than two units have no quantile that far out: the limits were
    empty."""
    c = replace(full(), cluster=np.repeat(np.arange(6), [150, 30, 5, 5, 5, 5]))
    contrast = compared(c, [NOISY1, NOISY2], [CLEAN], rng=rng())
    assert (contrast.ci_low, contrast.ci_high) == (-1, 1)


def test_with_and_without_items():
    c = full(effect=0.3)
    leak = rng(3).random(200) < 0.3
    without = compared(c, [NOISY2], [CLEAN], rng=rng(), items=~leak)
    assert without.n == (~leak).sum()
    assert without.estimate == pytest.approx((c.row(NOISY2) - c.row(CLEAN))[~leak].mean())


def test_clusters_are_exchanged_as_wholes():
    base = full(40, effect=0.3)
    rows = {s: np.repeat(base.row(s), 5) for s in base.settings}
    repeated = compared(cell(rows, np.repeat(np.arange(40), 5)), [NOISY2], [CLEAN], rng=rng())
    single = compared(base, [NOISY2], [CLEAN], rng=rng())
    assert repeated.p == pytest.approx(single.p, abs=0.01)
    widths = [contrast.ci_high - contrast.ci_low for contrast in (repeated, single)]
    assert widths[0] == pytest.approx(widths[1], rel=0.05)


def test_difference_in_differences():
    public, fresh = full(600, seed=1, effect=0.25), full(600, seed=2)
    on_scales, p, _ = difference_in_differences(public, fresh, rng=rng())
    expected = [((c.row(NOISY1) + c.row(NOISY2)) / 2 - c.row(CLEAN)) for c in (public, fresh)]
    assert on_scales[0].estimate == pytest.approx(expected[0].mean() - expected[1].mean())
    # Two independent samples: the variances of the two mean differences add up.
    se = np.sqrt(sum(d.var() / d.size for d in expected))
    assert on_scales[0].se == pytest.approx(se, rel=0.04)
    assert p < 0.001 and min(scale.low for scale in on_scales) > 0
    assert difference_in_differences(fresh, fresh, rng=rng())[1] > 0.3
    # Two noisy runs and a clean one on each benchmark. With shifts of 2 points 18 % of null models
    # had a larger gain.
    moved, wider, _ = difference_in_differences(public, fresh, rng=rng(), shifts=(4e-4, 9e-4))
    assert moved[0].estimate == on_scales[0].estimate and wider > p
    assert moved[0].se == pytest.approx(np.sqrt(se**2 + 2 * (4e-4 / 2 + 9e-4)), rel=0.04)


def test_a_gain_is_larger_only_where_it_is_so_on_every_scale():
    # Noise repairs one wrong answer in five on both benchmarks: 10 points from .50, 3 from .85. As
    # a share of the wrong answers nothing differs, so nothing is said, although the gains in points
    # and in log-odds do differ.
    def repaired(accuracy: float, benchmark: str):
        generator, n = rng(), 4000
        right = generator.random(n) < accuracy
        noisy = right | (generator.random(n) < 0.2)
        return cell({CLEAN: right.astype(int), NOISY1: noisy.astype(int)}, benchmark=benchmark)

    differences, p, _ = difference_in_differences(
        repaired(0.5, "public"), repaired(0.85, "fresh"), rng=rng()
    )
    points, log_odds, log_wrong = differences
    assert (
        points.low > 0.04 and log_odds.low > 0 and log_wrong.low < 0 < log_wrong.high and p > 0.05
    )


def test_the_score_gap_is_that_of_two_independent_samples():
    public, fresh = full(600, seed=1), full(400, seed=2)
    gap = score_gap(public, fresh, rng=rng())
    rows = [c.row(DIRECT) for c in (public, fresh)]
    assert gap.estimate == pytest.approx(rows[0].mean() - rows[1].mean())
    assert gap.se == pytest.approx(np.sqrt(sum(r.var() / r.size for r in rows)), rel=0.05)
    wider = score_gap(public, fresh, rng=rng(), shift=4e-4)
    assert wider.se == pytest.approx(np.sqrt(gap.se**2 + 2 * 4e-4), rel=1e-6)
    assert wider.high - wider.estimate == pytest.approx(
        (gap.high - gap.estimate) * wider.se / gap.se
    )


def test_the_score_gap_of_a_set_with_one_large_passage_holds():
    # Half of the items are one passage, whose answers are alike: 5.5 % of limits lay above a gap of
    # 0, on one side.
    g, sizes, missed = rng(4), [100] + [1] * 100, 0
    of_passage, alone = np.repeat(np.arange(101), sizes), np.arange(200)

    def answers(cluster):
        shared = g.standard_normal(cluster.max() + 1)[cluster]
        right = 0.55 * shared + 0.835 * g.standard_normal(200) < 1.645  # 95 %
        return cell({DIRECT: right.astype(int)}, cluster=cluster)

    for _ in range(400):
        gap = score_gap(answers(of_passage), answers(alone), rng=g, n_resamples=199)
        missed += gap.low > 0
    assert missed <= 0.025 * 400


def test_a_few_fresh_items_that_are_all_right_do_not_bound_the_gap():
    # 8 of 8 fresh right: their accuracy may be .63 (.63^8 = .025), and a credibility of 1 rested on
    # a gap of 0 to 0.
    right = {DIRECT: np.ones(300, dtype=int)}
    gap = score_gap(
        cell(right), cell({DIRECT: np.ones(8, dtype=int)}, benchmark="fresh"), rng=rng()
    )
    assert (gap.estimate, gap.high) == pytest.approx((0.0, 1 - 0.025 ** (1 / 8)))


# ---------------------------------------------------------------- noise floor


def replicates(clean):
    return cell({Setting(Arm.FORWARD_FULL, 1, k): row.astype(int) for k, row in enumerate(clean)})


def test_noise_floor_by_hand():
    # 10 items; replicate 1 has six more right than replicate 0: P(X >= 6), Binomial(6, 1/2) = 1/64
    # rejects.
    clean = np.zeros((2, 10))
    clean[1, :6] = 1
    floor = noise_floor(replicates(clean), alpha=0.05, rng=rng())
    assert floor.available and (floor.comparisons, floor.rejection_rate) == (2, 0.5)
    assert floor.mean_absolute_gain == pytest.approx(0.6)
    # Accuracies .5, .7, .6: gaps .2, .1, .1, each once with either sign; mean .4 / 3.
    three = noise_floor(
        replicates(np.arange(10) < np.array([[5], [7], [6]])), alpha=0.05, rng=rng()
    )
    assert three.mean_absolute_gain == pytest.approx(0.4 / 3)


def test_noise_floor_reads_the_clean_replicates_and_says_when_there_is_one():
    replicate = Setting(Arm.FORWARD_FULL, 1, 1)
    rows = {CLEAN: [1, 0, 1], replicate: [1, 1, -1], NOISY1: [0, 0, 0]}
    floor = noise_floor(cell(rows), alpha=0.05, rng=rng())
    assert floor.replicates == 2 and floor.mean_absolute_gain == pytest.approx(0.5)
    single = noise_floor(cell({CLEAN: [1, 0, 1], NOISY1: [0, 0, 0]}), alpha=0.05, rng=rng())
    unread = noise_floor(cell({CLEAN: [1, -1], replicate: [-1, 1]}), alpha=0.05, rng=rng())
    for measured in (single, unread):
        assert not measured.available and measured.rejection_rate is None
