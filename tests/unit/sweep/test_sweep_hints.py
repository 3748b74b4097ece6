"""Messages that hint at the answer lift every reader: a gain that another model has from them is
not memory."""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy
from outcome_tables import cell_of

from audit.config.command_line import configured
from audit.core.errors import ConfigError
from audit.core.records import Setting
from audit.judging.ladder import Grade
from audit.judging.result import because
from audit.judging.world import World
from audit.statistics.paired import UNANSWERED, BoolArray, CellOutcomes, State
from audit.statistics.run_variance import RunShifts, RunVariance
from audit.sweep.decide import Decision, decide
from audit.sweep.design import Arm, SweepThresholds
from audit.sweep.evidence import hint_test, measure
from audit.sweep.replay import resolve_sweep
from audit.sweep.simulation import Design, simulate
from audit.sweep.texts import TEXTS
from audit.sweep.vocabulary import Verdict

DESIGN = Design(1000, 2, "nested", clean_replicates=2, noisy_replicates=2)
CLEAN, NOISY = Setting(Arm.FORWARD_FULL, 1), Setting(Arm.NOISY_REWRITE, 1)


def judged(world: World, seed: int, *, with_reference: bool = True) -> Decision:
    made = simulate(DESIGN, world, np.random.default_rng(seed))
    reference = made.reference if with_reference else None
    evidence = measure(
        made.cell, rng=np.random.default_rng(0), n_resamples=199, reference=reference
    )
    return decide(evidence, (), SweepThresholds())


def test_hints_are_no_excess_and_memory_is_one() -> None:
    """Seeds 1000 to 1399: 10 of 400 hinted models are an excess (2.5 %, 95 % interval 1.2 to 4.5;
    alpha allows 5) and 390 uncontrolled. Seeds 0 to 199: 187 of 200 models with a gain of 10 points
    are an excess (93.5 %)."""
    n = 40
    hinted = [judged(World(hints=0.2), seed).verdict for seed in range(n)]
    # Were 2.5 % an excess, more than 4 of 40 would be in .3 % of tests (more than 3 in 1.7 %): the
    # level is 1 %.
    assert hinted.count(Verdict.EXCESS) <= scipy.stats.binom.ppf(0.99, n, 0.025) == 4
    assert hinted.count(Verdict.EXCESS) + hinted.count(Verdict.UNCONTROLLED) == n
    gained = [judged(World(gain=0.1), seed).verdict for seed in range(20)]
    # Were 93.5 % an excess, fewer than 16 of 20 would be in .8 % of tests.
    assert gained.count(Verdict.EXCESS) >= scipy.stats.binom.ppf(0.01, 20, 0.935) == 16


def gain_hidden_by_wrong_statements(
    n: int, rng: np.random.Generator
) -> tuple[CellOutcomes, BoolArray]:
    """A clean router alone loses 8 points. Noise releases 9, and its messages state wrong answers
    to 14 % of the questions. Return the answers, and which questions have no such message."""
    cell = simulate(
        Design(n, 2, "nested", clean_replicates=2, noisy_replicates=2), World(), rng
    ).cell
    known = rng.random(n) < 0.6
    lost, released = known & (rng.random(n) < 0.13), ~known & (rng.random(n) < 0.22)
    misled = ~released & (rng.random(n) < 0.14)
    state = np.array(cell.state)
    for k, setting in enumerate(cell.settings):
        right = known
        if setting.arm == Arm.NOISY_REWRITE:
            right = (known | released) & ~misled
        elif setting.arm == Arm.FORWARD_FULL:
            right = (known & ~lost) | (released & ~misled & (setting.level > 1))
        right = right ^ (rng.random(n) < 0.03)
        state[k] = np.where(right, State.CORRECT, State.WRONG)
    return replace(cell, state=state), np.tile(~misled, (2, 1))


def test_stated_wrong_answers_hide_no_gain() -> None:
    """Without these questions the gain over direct has limits of 9 points and more."""
    cell, unstated = gain_hidden_by_wrong_statements(2000, np.random.default_rng(1))
    graded = {}
    for name, mask in (("all", None), ("unstated", unstated)):
        e = measure(cell, rng=np.random.default_rng(0), n_resamples=199, unstated=mask)
        graded[name] = decide(e, (), SweepThresholds()).grade, e.largest_compatible
    assert graded["all"][0] == Grade.CLEARED and graded["unstated"][0] == Grade.UNDECIDED
    assert graded["unstated"][1] > graded["all"][1]


def test_without_a_reference_a_gain_stays_uncontrolled_and_the_advice_says_what_to_type() -> None:
    decision = judged(World(gain=0.1), 1, with_reference=False)
    assert decision.verdict == Verdict.UNCONTROLLED
    assert decision.reasons[-1].code == "no_reference" and decision.what_to_do == (
        because("give_reference"),
    )
    assert (
        "messages_from=RUN_DIR" in TEXTS["give_reference"]
        and "hint_reference=" in TEXTS["give_reference"]
    )


def cell(name: str, clean: int, noisy: int, n: int = 1000) -> CellOutcomes:
    return cell_of({CLEAN: np.arange(n) < clean, NOISY: np.arange(n) < noisy}, model=name)


@pytest.mark.parametrize(
    ("tested", "other", "larger"),
    [
        ((600, 680), (600, 600), True),  # it alone gains
        ((600, 680), (600, 680), False),  # both gain as much
        # Hints to a fifth of the questions: of 40 % wrong answers 8 points, of 10 % two. The share
        # repaired is one.
        ((600, 680), (900, 920), False),
    ],
)
def test_a_gain_is_larger_only_where_it_is_so_on_every_scale(tested, other, larger) -> None:
    result = hint_test(cell("m", *tested), cell("r", *other), RunShifts(), RunShifts())
    assert result is not None and result.reads_as_well
    assert result.difference[0] == pytest.approx(
        (tested[1] - tested[0] - other[1] + other[0]) / 1000
    )
    assert (result.beyond(0.05) == {1}) == larger


@pytest.mark.parametrize(("sd", "beyond"), [(0.0, {1}), (0.02, set())])
def test_a_noisy_run_without_a_repeat_may_have_shifted_as_a_whole(
    sd: float, beyond: set[int]
) -> None:
    """4 points beyond the reference, and a scatter over r of 0, in which a shift that every r
    shares is not seen: with hints to 20 or 30 % of 3,000 questions and such a shift of 2 points 21
    of 80 models were an excess, 4 are now."""
    steady = RunVariance(estimate=0.0, used=0.0, df=2)
    shifts = RunShifts(noisy=steady, controls=steady, plausible_sd=sd)
    result = hint_test(cell("m", 600, 640), cell("r", 600, 600), shifts, shifts)
    assert result is not None and result.beyond(0.05) == beyond


def test_a_weaker_reader_excludes_nothing() -> None:
    weak = cell("r", 560, 560)
    silent = replace(weak, state=np.full_like(weak.state, UNANSWERED[0]))
    for reference in (weak, silent):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # "Mean of empty slice" was printed
            result = hint_test(cell("m", 600, 680), reference, RunShifts(), RunShifts())
        assert result is not None and not result.reads_as_well and not result.beyond(0.05)


def test_questions_are_matched_by_id() -> None:
    whole, part = cell("m", 600, 680), cell("r", 600, 600)
    mask = np.arange(1000) >= 590
    result = hint_test(whole, part.subset(mask), RunShifts(), RunShifts())
    assert result is not None and result.difference[0] == pytest.approx(80 / 410)
    others = replace(part, question_ids=tuple(f"x{k}" for k in range(1000)))
    assert hint_test(whole, others, RunShifts(), RunShifts()) is None


def test_messages_of_an_earlier_run_are_refused_where_no_arm_has_any(tmp_path: Path) -> None:
    words = [
        "model=scripted",
        "benchmark=elementary",
        "n=4",
        "r=1",
        "arms=[direct]",
        f"messages_from={tmp_path}",
    ]
    with pytest.raises(ConfigError, match="no arm"):
        resolve_sweep(configured("sweep", words))


@pytest.mark.parametrize(
    ("on", "grade"),
    [
        ("every_scale", Grade.FOUND_STRONG),
        ("one_scale", Grade.CAUSE_UNKNOWN),
        ("no_scale", Grade.CAUSE_UNKNOWN),
    ],
)
def test_a_gain_that_held_out_questions_show_too_is_not_memory(on: str, grade: Grade) -> None:
    """The model gains 10 points over every control and over its hint reference."""
    made = simulate(DESIGN, World(gain=0.1), np.random.default_rng(0))
    evidence = measure(
        made.cell, rng=np.random.default_rng(0), n_resamples=199, reference=made.reference
    )
    held = because(f"larger_on_{on}", gain=0.05, low=-0.01, high=0.11)
    found = decide(evidence, (), SweepThresholds(), held_out_reasons=[held])
    assert found.grade == grade and found.grade.decision().exit_code in (3, 4)
    # The doubt is the last reason, which the headline quotes.
    assert (found.reasons[-1] == held) == (grade == Grade.CAUSE_UNKNOWN)
    assert decide(evidence, (), SweepThresholds()).grade == Grade.FOUND_STRONG
