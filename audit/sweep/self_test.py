"""Does the instrument notice when it is broken? Faults are injected into a copy of the run's own outcomes, each for one
gate to catch. A gate that failed before, or does not apply, cannot show it: that is said, and does not count as caught.
"""

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from audit.statistics.paired import CellOutcomes, State
from audit.sweep import gates
from audit.sweep.design import Arm, SweepThresholds
from audit.sweep.messages import TextMeasures
from audit.sweep.vocabulary import SelfTest
from audit.verdict.result import Gate, Status

MAX_TEXT_QUESTIONS = 200  # the text fault is shown on at most this many questions
GUESSERS = 500  # guessed baselines that the gate against guessing must stop
GUESSERS_PASSED_MAX = 0.10  # share of them that it may let through; two standard errors promise 0.023


def self_test(
    cell: CellOutcomes,
    limits: SweepThresholds,
    *,
    rng: Generator,
    texts: TextMeasures | None = None,
    clean_sent: TextMeasures | None = None,
) -> tuple[SelfTest, ...]:
    """Five faults on a copy of the cell. clean_sent: of `MeasuredTexts`; None skips the text fault."""
    chance_before = gates.above_chance(cell, limits)
    shifted, note = None, ""
    if not cell.n_options.all():
        note = "Free-form answers have no labels to shift."
    elif cell.answer is None or cell.gold is None:
        note = "The answers themselves are not at hand."
    else:
        right = np.where(cell.answer == (cell.gold + 1) % cell.n_options, np.int8(State.CORRECT), np.int8(State.WRONG))
        state = np.where(cell.state >= State.WRONG, right, cell.state)
        shifted = gates.above_chance(replace(cell, state=state), limits)
    half = np.where(rng.random(cell.state.shape) < 0.5, np.int8(State.UNPARSED), cell.state)
    unreadable = gates.parseability(replace(cell, state=half), limits)
    sent = None if clean_sent is None else gates.manipulation_reached_worker(clean_sent, limits)
    order = rng.permutation(cell.n)
    noisy = np.array([s.arm == Arm.NOISY_REWRITE for s in cell.settings])
    broken = cell.state.copy()
    broken[noisy] = broken[noisy][:, order]
    before = gates.pairing(cell, texts, limits)
    paired, agree = None, "The noisy answers agree too little with each other to show their pairing."
    if before.status == Status.FAIL or before.numbers.get("noisy_compared"):
        paired, agree = gates.pairing(replace(cell, state=broken), texts, limits), ""
    faults = (
        ("every gold label moved to the next option", chance_before, shifted, note),
        ("half of the answers made unreadable", gates.parseability(cell, limits), unreadable, ""),
        ("the clean prompt sent in place of every noisy one", gates.manipulation_reached_worker(texts, limits),
         sent, "" if sent else "The texts are not at hand."),
        ("question ids of the noisy arm shuffled", before, paired, agree),
    )  # fmt: skip
    guessed = _baseline_guessed(cell, limits, chance_before, rng)
    return (*(_result(cell, *one) for one in faults), guessed)


def _baseline_guessed(cell: CellOutcomes, limits: SweepThresholds, before: Gate, rng: Generator) -> SelfTest:
    """The clean baseline of many guessers: question i is right with probability 1/k_i, anew in every run.

    A gate at two standard errors lets guessers through by luck: 2.3 % in the limit, up to 4.8 % of those with 30 to 99
    questions (exact binomial, two to ten options, one clean run). So GUESSERS are drawn: caught means that at most
    GUESSERS_PASSED_MAX of them pass. A gate that lets 4.8 % through is called missed less than once in 100,000 cells;
    one at a single standard error (16 %) nearly always.
    """
    fault = "clean baseline replaced by guesses"
    if before.status != Status.PASS:
        return _result(cell, fault, before, None)
    seen = [k for k, s in enumerate(cell.settings) if s.level <= 1 and s.arm in (Arm.DIRECT, Arm.FORWARD_FULL)]
    clean = [cell.settings[k].arm == Arm.FORWARD_FULL for k in seen]
    part = replace(cell, settings=tuple(cell.settings[k] for k in seen), state=cell.state[seen])  # what the gate reads
    passed, numbers = 0, []
    of_total: dict[int, Gate] = {}  # the gate reads the mean alone, which the number of right answers tells
    state, guess = part.state.copy(), np.where(cell.n_options > 0, 1 / np.maximum(cell.n_options, 1), 0.0)
    for _ in range(GUESSERS):
        right = rng.random((sum(clean), cell.n)) < guess
        total = int(right.sum())
        if total not in of_total:
            state[clean] = np.where(right, np.int8(State.CORRECT), np.int8(State.WRONG))
            of_total[total] = gates.above_chance(replace(part, state=state), limits)
        gate = of_total[total]
        passed += gate.status != Status.FAIL
        numbers.append(float("nan") if gate.number is None else gate.number)
    caught = passed <= GUESSERS_PASSED_MAX * GUESSERS
    detail = (
        f"The gate stopped {GUESSERS - passed} of {GUESSERS} guessers ({1 - GUESSERS_PASSED_MAX:.0%} needed: some pass "
        f"by luck). Its number went from {before.number or 0.0:.3g} to {np.mean(numbers):.2f} on average (threshold "
        f"{limits.above_chance_standard_errors:g})."
    )
    status = "caught" if caught else "missed"
    return SelfTest(cell.model, cell.benchmark, fault, before.name, status, bool(caught), detail)


def _result(cell: CellOutcomes, fault: str, before: Gate, after: Gate | None, note: str = "") -> SelfTest:
    caught: bool | None = None
    if before.status == Status.FAIL:
        status, detail = "already_failing", f"The gate failed before the fault: {before.detail}"
    elif before.status == Status.NOT_APPLICABLE or after is None:
        status, detail = "not_showable", note or before.detail
    else:
        caught = after.status == Status.FAIL
        status = "caught" if caught else "missed"
        was, now = before.number or 0.0, after.number if after.number is not None else float("nan")
        detail = f"The gate's number went from {was:.3g} to {now:.3g} (threshold {after.threshold:g})."
    return SelfTest(cell.model, cell.benchmark, fault, before.name, status, caught, detail)
