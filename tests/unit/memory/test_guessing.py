"""Held-out items that are guessed at another rate: options of another number, told or not."""

from dataclasses import replace

import numpy as np
import pytest
from bench.sim_exams import WORLDS, simulate
from memory_cells import READS, judged

from audit.memory.evidence import Name
from audit.memory.record import MemoryCell
from audit.memory.vocabulary import MemoryVerdict as V
from audit.statistics.set_difference import as_guessed


def read(cell: MemoryCell) -> MemoryCell:
    """Return the cell with rows of the score that were read."""
    score = {arm: reads for arm, reads in READS.items() if arm == "score"}
    pairs = [
        tuple(replace(side, reads=score) for side in pair if side)
        for pair in (cell.tested, *cell.references)
    ]
    return replace(cell, tested=pairs[0], references=tuple(pairs[1:]))  # type: ignore[arg-type]


def results(name: str, models: int = 8, **how: int):
    rng = np.random.default_rng(3)
    cells = [read(simulate(WORLDS[name], rng, **how)) for _ in range(models)]
    return [judged(cell, n_resamples=199)[0] for cell in cells]


def test_a_score_at_another_chance():
    """Of 40 % known, four options: .25 + .75 * .4 = .55; ten options: .10 + .90 * .4 = .46."""
    exam, new = as_guessed((np.array([0.55]), np.array([0.46, np.nan])), (0.25, 0.10))
    assert exam[0] == 0.55 and new[0] == pytest.approx(0.55) and np.isnan(new[1])
    assert as_guessed((0.5, 0.7), (0.25, 0.25))[1] == pytest.approx(
        0.7
    )  # the same chance changes nothing


@pytest.mark.parametrize(
    "name", ["equal", "equal_abler", "equal_weaker", "equal_back", "equal_back_weaker"]
)
def test_options_of_other_numbers_make_no_gap_of_a_model_that_is_as_able_on_both(name: str):
    """A model of .45 knows (.45 - .25) / .75 = 27 % and is right in .10 + .9 * .27 = .34 held out:
    it loses 11 points.

    References of .75 know 67 % and lose 5. So by points alone a gap of 6 is seen, which options
    make."""
    verdicts = results(name, 8 if name == "equal_weaker" else 4)
    assert all(verdict.verdict not in (V.GAP_TO_FRESH, V.CAUSE_UNKNOWN) for verdict in verdicts)
    rows = [{g.name: g for g in verdict.gates}["same_guessing"] for verdict in verdicts]
    assert {round(abs(row.number), 2) for row in rows} == {0.15}
    assert all(sorted(row.numbers.values()) == pytest.approx([0.10, 0.25]) for row in rows)
    if name == "equal_weaker":
        assert any(
            row.status == "fail" for row in rows
        )  # without the same chance these would stand out
        assert np.mean(
            [verdict.evidence.gap.did.difference for verdict in verdicts]
        ) == pytest.approx(0.06, abs=0.02)


def test_half_an_exam_is_found_whatever_the_number_of_options():
    assert {result.verdict for result in results("equal_half")} == {V.GAP_TO_FRESH}


def test_what_is_named_and_what_is_not():
    """The check has a row if the numbers of options differ; what they do not tell is named if
    anybody can guess."""
    (informed,) = results("equal", 1)
    (same,) = results("as_told", 1)
    assert "same_guessing" not in {g.name for g in same.gates} and same.evidence.same_chance is None
    for result in (informed, same):
        assert any("easier to exclude" in line for line in result.cannot_exclude)
    assert informed.evidence.indicator(Name.GAP).unguarded == max(
        informed.evidence.gap.pvalue, informed.evidence.same_chance
    )
