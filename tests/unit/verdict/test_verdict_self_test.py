"""The self-test's guessers: drawn, so that the gate has to stop them, and counted, so that luck is
no finding."""

from dataclasses import replace

import numpy as np
import pytest

from audit.judging.world import World
from audit.statistics.paired import CellOutcomes
from audit.sweep.design import SweepThresholds
from audit.sweep.self_test import GUESSERS, GUESSERS_PASSED_MAX, self_test
from audit.sweep.simulation import Design, simulate
from audit.sweep.vocabulary import SelfTest

FAULT = "clean baseline replaced by guesses"


def cell_of(n: int = 100, replicates: int = 1) -> CellOutcomes:
    design = Design(
        n, 3, "independent", clean_replicates=replicates, clean_accuracy=0.7, discordance=0.2
    )
    return simulate(design, World(), np.random.default_rng(5)).cell


def guessed(cell: CellOutcomes, standard_errors: float = 2.0, seed: int = 0) -> SelfTest:
    thresholds = replace(SweepThresholds(), above_chance_standard_errors=standard_errors)
    (result,) = [
        t for t in self_test(cell, thresholds, rng=np.random.default_rng(seed)) if t.fault == FAULT
    ]
    return result


def stopped(test: SelfTest) -> int:
    return int(test.detail.split(" stopped ")[1].split()[0])


@pytest.mark.parametrize("n", [40, 100, 1000])
def test_guessers_are_stopped_but_for_the_lucky_ones(n: int) -> None:
    """One of two standard errors' 2.3 % (at most 4.8 % with few questions): about 11 to 24 of 500,
    and not none."""
    results = [guessed(cell_of(n), seed=seed) for seed in range(3)]
    assert [(t.status, t.caught) for t in results] == [("caught", True)] * 3
    passed = [GUESSERS - stopped(t) for t in results]
    assert 0 < np.mean(passed) < 24 + 3 * np.sqrt(24 / 3)


@pytest.mark.parametrize(("standard_errors", "share"), [(1.0, 0.84), (0.0, 0.5)])
def test_a_gate_that_guessers_pass_is_missed(standard_errors: float, share: float) -> None:
    """At one standard error a normal guesser passes in 16 % of draws, at none in half."""
    result = guessed(cell_of(1000), standard_errors)
    assert (result.status, result.caught) == ("missed", False)
    assert stopped(result) / GUESSERS == pytest.approx(share, abs=0.05)
    assert stopped(result) / GUESSERS < 1 - GUESSERS_PASSED_MAX


def test_the_mean_of_several_runs_lets_fewer_guessers_through() -> None:
    """Three runs: the mean varies by 1 / sqrt(3), so two standard errors of one run are 3.5: 0.03 %
    pass."""
    assert stopped(guessed(cell_of(300, replicates=3))) >= GUESSERS - 2


def test_a_model_that_guesses_itself_shows_nothing() -> None:
    cell = cell_of()
    result = guessed(
        replace(
            cell, state=np.where(np.arange(100) % 4 == 0, 1, 0)[None].repeat(len(cell.settings), 0)
        )
    )
    assert (result.status, result.caught) == ("already_failing", None)
