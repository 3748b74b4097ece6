import numpy as np
import pytest
from outcome_tables import cell_of, sweep_with

from audit.core.records import Setting
from audit.statistics.paired import State
from audit.sweep.design import Arm
from audit.sweep.paper import model_summary, router_summary, setting_row, setting_rows
from audit.sweep.record import sweep_of


@pytest.mark.parametrize(
    ("clean", "noisy", "counts", "accuracies"),
    [
        # right->right, wrong->right (improve) twice, right->wrong (degrade), wrong->wrong: gain (2
        # - 1) / 5
        pytest.param([1, 0, 0, 1, 0], [1, 1, 1, 0, 0], (5, 0, 2, 1), (0.4, 0.6, 0.2), id="by hand"),
        pytest.param(
            [1, 0, np.nan, 1],
            [1, 1, 1, np.nan],
            (2, 2, 1, 0),
            (0.5, 1.0, 0.5),
            id="a pair without answer",
        ),
        # c = 1, .5 and q = .5, 1: improve = .5 * 1, degrade = 1 * .5
        pytest.param(
            [1, 0.5],
            [0.5, 1],
            (2, 0, 0.5, 0.5),
            (0.75, 0.75, 0.0),
            id="averaged replicates keep the gain",
        ),
        # Thirds do not add up in floating point; the means are equal, so there is no gain.
        pytest.param(
            [1 / 3] * 7 + [2 / 3] * 7,
            [2 / 3] * 7 + [1 / 3] * 7,
            (14, 0, 35 / 9, 35 / 9),
            (0.5, 0.5, 0.0),
            id="rounding is no violation",
        ),
    ],
)
def test_one_setting(clean, noisy, counts, accuracies):
    (row,) = setting_rows(sweep_with(clean, noisy))
    assert (row.n, row.left_out, row.improve, row.degrade) == pytest.approx(counts)
    assert (row.clean_accuracy, row.noisy_accuracy, row.gain) == pytest.approx(accuracies)
    assert row.violation == (accuracies[2] > 0) and row.positive_excess == pytest.approx(
        max(accuracies[2], 0)
    )


def test_the_paper_has_the_first_run_of_each():
    arms = (Arm.FORWARD_FULL, Arm.NOISY_REWRITE)
    states = {
        Setting(arm, 1, k): [State.CORRECT, (State.WRONG, State.CORRECT)[k]]
        for arm in arms
        for k in range(2)
    }
    sweep, first = sweep_of(cell_of(states)), sweep_of(cell_of(states), first_only=True)
    assert sweep.clean.tolist() == sweep.noisy[0].tolist() == [1, 0.5]
    assert first.clean.tolist() == first.noisy[0].tolist() == [1, 0]


def test_summaries_by_hand():
    rows = [
        setting_row("a", 1, 5, 2, 1, 10),
        setting_row("a", 2, 5, 0, 4, 10),
        setting_row("a", 3, 5, 3, 0, 10),
        setting_row("b", 1, 5, 1, 1, 10),
    ]
    a, b = model_summary(rows)
    # a: gains .1, -.4, .3: two violations of three, excess mean (.1 + .3) / 2, mean gain 0.
    assert (a.violation_count, a.violation_rate, a.max_positive_excess) == (2, 2 / 3, 0.3)
    assert a.mean_positive_excess == pytest.approx(0.2)
    assert a.mean_gain == pytest.approx(0.0)
    assert (b.violation_count, b.mean_positive_excess, b.mean_gain) == (0, 0.0, 0.0)
    first = router_summary(rows)[0]
    assert (first.routers, first.models, first.violating_models, first.violation_rate) == (
        1,
        2,
        1,
        0.5,
    )
    assert (first.improve, first.degrade, first.net_improve, first.mean_positive_excess) == (
        3,
        2,
        1,
        0.1,
    )
