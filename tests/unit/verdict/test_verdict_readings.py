"""Which replies make the adverse and the favourable reading appear, and which settings each of them
compares."""

from dataclasses import replace

import numpy as np
import pytest
from sweep_cells import CLEAN, DIRECT, cell_of, ensemble, noisy

from audit.statistics.paired import State
from audit.sweep.compare import compare
from audit.sweep.decide import decide
from audit.sweep.design import SweepThresholds
from audit.sweep.evidence import Evidence, Reading, measure

SETTINGS = (DIRECT, CLEAN, ensemble(2), noisy(1), noisy(2))
RIGHT = (30, 24, 20, 26, 28)  # of 40, in the order of SETTINGS: the first so many questions


def evidence(
    unread: dict[int, State], right: tuple[int, ...] = RIGHT, **options: object
) -> Evidence:
    """unread: by row of SETTINGS, the state of the last four questions (all wrong otherwise)."""
    state = (np.arange(40) < np.array(right)[:, None]).astype(np.int8)
    for row, kind in unread.items():
        state[row, 36:] = kind
    cell = cell_of(dict(zip(SETTINGS, state, strict=True)))
    return measure(cell, rng=np.random.default_rng(0), n_resamples=99, **options)


@pytest.mark.parametrize("state", [State.UNPARSED, State.TRUNCATED, State.ERROR])
def test_unread_replies_of_any_kind_are_held_against_and_for_a_gain(state):
    # Four replies of each arm at one r (clean at 1, the ensemble control and noisy at 2) cannot be
    # read, of the same questions. Adverse: noisy 26 and 28 of 40 right; clean 24 + 4 = 28, direct
    # 30, ensemble at r=2 20 + 4 = 24. Favourable: noisy r=2 28 + 4 = 32 right, clean 24, ensemble
    # 20.
    measured = evidence({1: state, 2: state, 4: state}, gamma=float("inf"))
    assert measured.adverse is not None and measured.favourable is not None
    assert measured.adverse.clean.gain * 40 == pytest.approx([26 - 28, 28 - 28])
    assert measured.adverse.direct.gain * 40 == pytest.approx([26 - 30, 28 - 30])
    assert dict(
        zip(measured.adverse.ensemble.routers, measured.adverse.ensemble.gain * 40, strict=True)
    ) == pytest.approx({1: 26 - 28, 2: 28 - 24})
    assert measured.favourable.clean.gain * 40 == pytest.approx([26 - 24, 32 - 24])
    assert measured.favourable.ensemble.gain[-1] * 40 == pytest.approx(32 - 20)


@pytest.mark.parametrize("state", [State.ABSENT, State.WRONG])
def test_what_was_never_asked_or_was_read_makes_no_such_reading(state):
    measured = evidence({1: state, 4: state})
    assert measured.adverse is None and measured.favourable is None


def test_r_are_corrected_after_the_controls_and_not_within_each():
    """Direct binds at r=1, the ensemble control at r=2. Each would spend its 5 % at an r of its
    own: step-down within a control corrects the other r's small p away first."""
    plain = evidence({}).plain
    assert plain.clean is not None and plain.direct is not None and plain.ensemble is not None

    def comparison(control, *pvalues: float):
        return replace(control, pvalues=np.array(pvalues), adjusted=np.array(pvalues))

    reading = Reading(
        comparison(plain.clean, 0.001, 0.001),
        comparison(plain.direct, 0.03, 0.001),
        comparison(plain.ensemble, 0.001, 0.04),
    )
    assert reading.adjusted((1, 2)).tolist() == pytest.approx([0.06, 0.06])
    alone = replace(
        reading, ensemble=None
    )  # r=2 has no ensemble control then, which asks nothing there
    assert alone.adjusted((1, 2)).tolist() == pytest.approx([0.03, 0.002])


@pytest.mark.parametrize("repeated", [False, True])
def test_intervals_above_zero_count_where_one_run_is_all_there_is(repeated):
    measured = evidence({})

    def above(control):
        ones = np.ones_like(control.low)
        return replace(control, low=0.01 * ones, pvalues=ones, adjusted=ones)

    plain = Reading(*map(above, measured.plain.comparisons()))
    seen = decide(
        replace(measured, plain=plain, repeated=repeated),
        (),
        SweepThresholds(finding_questions_min=1),
    )
    codes = [reason.code for reason in seen.reasons]
    assert ("above_zero" in codes) == (not repeated), codes


def test_simultaneous_limits_are_no_shorter_than_what_none_of_the_questions_would_show():
    noisy, clean = np.ones((1, 1, 30)), np.ones((8, 1, 30))
    clean[np.arange(8), 0, np.arange(8)] = (
        0.0  # eight questions gain an eighth: their bootstrap lies above zero
    )
    comparison = compare(
        noisy, clean, (1,), np.arange(30), rng=np.random.default_rng(0), n_resamples=499
    )
    assert comparison.gain == pytest.approx([1 / 30]) and comparison.low[0] < 0 < comparison.high[0]
    assert not comparison.above_zero
