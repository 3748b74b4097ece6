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
    for row, what in unread.items():
        state[row, 36:] = what
    cell = cell_of(dict(zip(SETTINGS, state, strict=True)))
    return measure(cell, rng=np.random.default_rng(0), n_resamples=99, **options)


@pytest.mark.parametrize("what", [State.UNPARSED, State.TRUNCATED, State.ERROR])
def test_unread_replies_of_any_kind_are_held_against_and_for_a_gain(what):
    # Four replies of each arm at one r (clean at 1, the ensemble control and noisy at 2) cannot be
    # read, of the same questions. Adverse: noisy 26 and 28 of 40 right; clean 24 + 4 = 28, direct
    # 30, ensemble at r=2 20 + 4 = 24. Favourable: noisy r=2 28 + 4 = 32 right, clean 24, ensemble
    # 20.
    found = evidence({1: what, 2: what, 4: what}, gamma=float("inf"))
    assert found.adverse is not None and found.favourable is not None
    assert found.adverse.clean.gain * 40 == pytest.approx([26 - 28, 28 - 28])
    assert found.adverse.direct.gain * 40 == pytest.approx([26 - 30, 28 - 30])
    assert dict(
        zip(found.adverse.ensemble.routers, found.adverse.ensemble.gain * 40, strict=True)
    ) == pytest.approx({1: 26 - 28, 2: 28 - 24})
    assert found.favourable.clean.gain * 40 == pytest.approx([26 - 24, 32 - 24])
    assert found.favourable.ensemble.gain[-1] * 40 == pytest.approx(32 - 20)


@pytest.mark.parametrize("what", [State.ABSENT, State.WRONG])
def test_what_was_never_asked_or_was_read_makes_no_such_reading(what):
    found = evidence({1: what, 4: what})
    assert found.adverse is None and found.favourable is None


def test_r_are_corrected_after_the_controls_and_not_within_each():
    """Direct binds at r=1, the ensemble control at r=2. Each would spend its 5 % at an r of its
    own: step-down within a control corrects the other r's small p away first."""
    plain = evidence({}).plain
    assert plain.clean is not None and plain.direct is not None and plain.ensemble is not None

    def told(control, *pvalues: float):
        return replace(control, pvalues=np.array(pvalues), adjusted=np.array(pvalues))

    reading = Reading(
        told(plain.clean, 0.001, 0.001),
        told(plain.direct, 0.03, 0.001),
        told(plain.ensemble, 0.001, 0.04),
    )
    assert reading.adjusted((1, 2)).tolist() == pytest.approx([0.06, 0.06])
    alone = replace(
        reading, ensemble=None
    )  # r=2 has no ensemble control then, which asks nothing there
    assert alone.adjusted((1, 2)).tolist() == pytest.approx([0.03, 0.002])


@pytest.mark.parametrize("repeated", [False, True])
def test_intervals_above_zero_count_where_one_run_is_all_there_is(repeated):
    found = evidence({})

    def above(control):
        ones = np.ones_like(control.low)
        return replace(control, low=0.01 * ones, pvalues=ones, adjusted=ones)

    plain = Reading(*map(above, found.plain.comparisons()))
    seen = decide(
        replace(found, plain=plain, repeated=repeated), (), SweepThresholds(finding_questions_min=1)
    )
    told = [reason.code for reason in seen.reasons]
    assert ("above_zero" in told) == (not repeated), told


def test_simultaneous_limits_are_no_shorter_than_what_none_of_the_questions_would_show():
    noisy, clean = np.ones((1, 1, 30)), np.ones((8, 1, 30))
    clean[np.arange(8), 0, np.arange(8)] = (
        0.0  # eight questions gain an eighth: their bootstrap lies above zero
    )
    found = compare(
        noisy, clean, (1,), np.arange(30), rng=np.random.default_rng(0), n_resamples=499
    )
    assert found.gain == pytest.approx([1 / 30]) and found.low[0] < 0 < found.high[0]
    assert not found.above_zero
