from __future__ import annotations

import numpy as np
import pytest
from outcome_tables import pair
from synthetic import synthetic_outcomes

from audit.records import Setting
from audit.statistics.paired import CellOutcomes, State
from audit.summary import print_failed, summarise
from audit.sweep.audit import SWEEP
from audit.sweep.design import Arm


def cell_of(rows: dict[tuple[str, int, int], list[bool | None]]) -> CellOutcomes:
    """arm, level, replicate -> right, wrong or unparsed, question by question."""
    states = {True: State.CORRECT, False: State.WRONG, None: State.UNPARSED}
    n = len(next(iter(rows.values())))
    settings = sorted(Setting(*key) for key in rows)
    state = np.array([[states[x] for x in rows[s.arm, s.level, s.replicate]] for s in settings], dtype=np.int8)
    ids = tuple(f"q{q}" for q in range(n))
    return CellOutcomes("m", "b", "nested", "letter", ids, np.arange(n), np.full(n, 4), tuple(settings), state)


def test_gain_improve_and_degrade_by_hand():
    # clean 1 1 0 0, noisy 1 0 1 1: improve 2, degrade 1, gain (2 - 1) / 4
    cell = cell_of(
        {("forward_full", 1, 0): [True, True, False, False], ("noisy_rewrite", 2, 0): [True, False, True, True]}
    )
    clean, noisy = summarise(cell, SWEEP.roles)
    assert clean.gain is None and clean.accuracy == 0.5
    assert (noisy.improve, noisy.degrade, noisy.gain) == (2, 1, 0.25)


def test_the_baseline_is_the_mean_of_the_clean_replicates():
    # clean replicates 1 0 and 0 0: baseline .5 0; noisy 1 1: improve .5 + 1, degrade 0, gain .75
    cell = cell_of({
            ("forward_full", 1, 0): [True, False], ("forward_full", 1, 1): [False, False],
            ("noisy_rewrite", 1, 0): [True, True],
        })  # fmt: skip
    noisy = summarise(cell, SWEEP.roles)[-1]
    assert (noisy.improve, noisy.degrade, noisy.gain) == (1.5, 0, 0.75)


def test_an_unparsed_answer_is_left_out_and_not_wrong():
    cell = cell_of({("forward_full", 1, 0): [True, True, False], ("noisy_rewrite", 1, 0): [True, None, False]})
    noisy = summarise(cell, SWEEP.roles)[-1]
    assert noisy.accuracy == 0.5 and noisy.answered == 2
    assert noisy.parse_rate == pytest.approx(2 / 3)
    assert noisy.gain == 0


def test_every_setting_has_a_row():
    (cell,) = pair(synthetic_outcomes(20, routers=(1, 2), rng=np.random.default_rng(1)))
    assert {row.setting for row in summarise(cell, SWEEP.roles)} == set(cell.settings)
    assert Setting(Arm.DIRECT, 0, 0) in {row.setting for row in summarise(cell, SWEEP.roles)}


def test_why_a_model_failed_holds_nothing_that_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    print_failed({"m": "the engine said \x1b[2J\nand ended"})
    assert capsys.readouterr().err == "error: model m failed: the engine said \N{REPLACEMENT CHARACTER}[2J\nand ended\n"
