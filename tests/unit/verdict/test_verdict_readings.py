"""Which replies make the adverse and the favourable reading appear, and which settings each of them compares."""

from dataclasses import replace

import numpy as np
import pytest
from outcome_tables import cell_of

from audit.records import Setting
from audit.statistics.paired import State
from audit.statistics.run_variance import RunShifts
from audit.sweep.compare import compare, compare_at_any_stop
from audit.sweep.decide import decide, look
from audit.sweep.design import Arm, SweepThresholds
from audit.sweep.evidence import Evidence, Reading, measure
from audit.sweep.vocabulary import Verdict

SETTINGS = (
    Setting(Arm.DIRECT, 0),
    Setting(Arm.FORWARD_FULL, 1),
    Setting(Arm.FORWARD_FULL, 2),
    Setting(Arm.NOISY_REWRITE, 1),
    Setting(Arm.NOISY_REWRITE, 2),
)
RIGHT = (30, 24, 20, 26, 28)  # of 40, in the order of SETTINGS: the first so many questions


def evidence(unread: dict[int, State], right: tuple[int, ...] = RIGHT, **options: object) -> Evidence:
    """unread: by row of SETTINGS, the state of the last four questions (all wrong otherwise)."""
    state = (np.arange(40) < np.array(right)[:, None]).astype(np.int8)
    for row, what in unread.items():
        state[row, 36:] = what
    cell = cell_of(dict(zip(SETTINGS, state, strict=True)), draws="independent")
    return measure(cell, rng=np.random.default_rng(0), n_resamples=99, **options)


@pytest.mark.parametrize("largest_cluster", [None, 1])
@pytest.mark.parametrize("what", [State.UNPARSED, State.TRUNCATED, State.ERROR])
def test_unread_replies_of_any_kind_are_held_against_and_for_a_gain(what, largest_cluster):
    # Four clean replies (r=1) and four noisy ones (r=2) of 40 cannot be read, all of the same questions.
    # Adverse: noisy 26 and 28 right; clean 24 + 4 = 28, direct 30, ensemble at r=2 20. Favourable: noisy r=2
    # 28 + 4 = 32 right, clean 24.
    found = evidence({1: what, 4: what}, largest_cluster=largest_cluster, gamma=float("inf"))
    assert found.adverse is not None and found.favourable is not None
    assert found.adverse.clean.gain * 40 == pytest.approx([26 - 28, 28 - 28])
    assert found.adverse.direct.gain * 40 == pytest.approx([26 - 30, 28 - 30])
    assert dict(zip(found.adverse.ensemble.routers, found.adverse.ensemble.gain * 40, strict=True)) == pytest.approx(
        {1: 26 - 28, 2: 28 - 20}
    )
    assert found.favourable.clean.gain * 40 == pytest.approx([26 - 24, 32 - 24])


@pytest.mark.parametrize("what", [State.ABSENT, State.WRONG])
def test_what_was_never_asked_or_was_read_makes_no_such_reading(what):
    found = evidence({1: what, 4: what})
    assert found.adverse is None and found.favourable is None


def test_a_comparison_at_any_stop_has_the_gains_of_the_other_and_its_e_values():
    fixed, early = evidence({}), evidence({}, largest_cluster=1)
    assert early.at_any_stop and not fixed.at_any_stop
    for one, other in zip(fixed.plain.comparisons(), early.plain.comparisons(), strict=True):
        assert one.gain == pytest.approx(other.gain) and one.n.tolist() == other.n.tolist()
        assert one.improve == pytest.approx(other.improve) and one.degrade == pytest.approx(other.degrade)
    # r=2: four questions of 40 improve on clean, none falls: prod = (1 + c)^4; r=1: (1 + c)^2. Direct: two and four
    # fall, so no e-value is above the mean of (1 - c)^2.
    c = np.arange(1, 20) / 20
    clean, direct = early.plain.clean, early.plain.direct
    assert np.exp(clean.log_e) == pytest.approx([np.mean((1 + c) ** 2), np.mean((1 + c) ** 4)])
    assert np.exp(direct.log_e) == pytest.approx([np.mean((1 - c) ** 4), np.mean((1 - c) ** 2)])
    assert clean.pvalues == pytest.approx(1 / np.exp(clean.log_e))
    assert early.p_value == 1.0  # against every control, direct too


def test_an_e_value_has_to_beat_the_ensemble_control_too():
    # r=2: noisy gains eight on clean and direct, and the control at r=2 is its equal. r=1 gains nothing.
    early = evidence({}, right=(24, 24, 32, 24, 32), largest_cluster=1)
    assert early.p_value == 1.0
    c = np.arange(1, 20) / 20
    without = early.plain.adjusted((1, 2), ensemble=False)
    assert without == pytest.approx([1.0, 1 / np.mean([1.0, np.mean((1 + c) ** 8)])])  # the mean over both r


def test_r_are_corrected_after_the_controls_and_not_within_each():
    """Direct binds at r=1, the ensemble control at r=2. Each would spend its 5 % at an r of its own: step-down within a
    control corrects the other r's small p away first."""
    plain = evidence({}).plain
    assert plain.clean is not None and plain.direct is not None and plain.ensemble is not None

    def told(control, *pvalues: float):
        return replace(control, pvalues=np.array(pvalues), adjusted=np.array(pvalues))

    reading = Reading(
        told(plain.clean, 0.001, 0.001), told(plain.direct, 0.03, 0.001), told(plain.ensemble, 0.001, 0.04)
    )
    assert reading.adjusted((1, 2)).tolist() == pytest.approx([0.06, 0.06])
    alone = replace(reading, ensemble=None)  # r=2 has no ensemble control then, which asks nothing there
    assert alone.adjusted((1, 2)).tolist() == pytest.approx([0.03, 0.002])


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("largest_cluster", [None, 1])  # 1: it may stop early
def test_intervals_above_zero_count_where_one_run_of_a_fixed_number_is_all_there_is(repeated, largest_cluster):
    found = evidence({}, largest_cluster=largest_cluster)

    def above(control):
        ones = np.ones_like(control.low)
        return replace(control, low=0.01 * ones, pvalues=ones, adjusted=ones)

    plain = Reading(*map(above, found.plain.comparisons()))
    seen = decide(replace(found, plain=plain, repeated=repeated), (), SweepThresholds(finding_questions_min=1))
    told = [reason.code for reason in seen.reasons]
    assert ("above_zero" in told) == (largest_cluster is None and not repeated), told


@pytest.mark.parametrize(("noisy", "expected"), [(20, Verdict.UNDERPOWERED), (0, Verdict.BRITTLE)])
def test_a_run_that_may_stop_early_is_brittle_by_a_limit_and_not_by_an_estimate_that_was_peeked_at(noisy, expected):
    right = (30, 28, 28, noisy, noisy)
    found = evidence({}, right, largest_cluster=1)
    assert found.clean.fall_p <= 0.025 and found.clean.mean.estimate <= -0.1
    assert decide(found, (), SweepThresholds()).verdict == expected


def test_simultaneous_limits_are_no_shorter_than_what_none_of_the_questions_would_show():
    noisy, clean = np.ones((1, 1, 30)), np.ones((8, 1, 30))
    clean[np.arange(8), 0, np.arange(8)] = 0.0  # eight questions gain an eighth: their bootstrap lies above zero
    found = compare(noisy, clean, (1,), np.arange(30), rng=np.random.default_rng(0), n_resamples=499)
    assert found.gain == pytest.approx([1 / 30]) and found.low[0] < 0 < found.high[0]
    assert not found.above_zero


def test_a_run_that_may_stop_early_is_cleared_only_of_a_gain_that_a_shift_of_the_run_cannot_hide():
    runs, other, each = np.zeros((1, 1, 3000)), np.zeros((1, 1, 3000)), np.arange(3000)
    runs[0, 0, :60] = other[0, 0, 60:120] = 1.0
    plain, told = (
        compare_at_any_stop(runs, other, (1,), each, 1, shifts) for shifts in (None, RunShifts(plausible_sd=0.02))
    )
    (limit,), (longer,) = plain.upper, told.upper
    assert limit < 0.02 and longer == pytest.approx(np.hypot(limit, 1.96 * 0.02 * 2**0.5), abs=1e-5)
    assert told.low == plain.low and told.log_e == plain.log_e  # a finding has its own margin (`decide`)
    state = np.stack([other[0, 0], other[0, 0], runs[0, 0]]).astype(np.int8)
    settings = (Setting(Arm.DIRECT, 0), Setting(Arm.FORWARD_FULL, 1), Setting(Arm.NOISY_REWRITE, 1))
    once = cell_of(dict(zip(settings, state, strict=True)))
    assert look(once, 1, SweepThresholds()) == Verdict.UNDERPOWERED
    assert look(once, 1, SweepThresholds(run_sd_plausible=0.0)) == Verdict.NO_EXCESS


def test_a_gain_explained_by_repetition_holds_unread_replies_for_a_gain_over_it():
    found = evidence({4: State.UNPARSED, 2: State.UNPARSED}, gamma=float("inf"))
    # r=2: noisy 28 + 4 of 40, the ensemble control 20 right with its unread ones wrong.
    assert found.favourable.ensemble.gain[-1] * 40 == pytest.approx(32 - 20)
