"""Inject faults into a copy of the run's outcomes. One gate must catch each fault.

If a gate failed before the injection, or does not apply to these data, the test cannot show that
the gate catches the fault. Then the result states the reason, and the fault does not count as
caught.
"""

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from audit.judging.result import Gate, Status
from audit.statistics.paired import CellOutcomes, State
from audit.sweep import gates
from audit.sweep.design import Arm, SweepThresholds
from audit.sweep.messages import TextMeasures
from audit.sweep.vocabulary import SelfTest

MAX_TEXT_QUESTIONS = 200  # the text fault is injected into at most this many questions
GUESSERS = 500  # the number of guessed baselines that `above_chance` is tested with
# The gate may pass at most this share of guessers. Its two standard errors imply a share of 0.023.
GUESSERS_PASSED_MAX = 0.10


def self_test(
    cell: CellOutcomes,
    limits: SweepThresholds,
    *,
    rng: Generator,
    texts: TextMeasures | None = None,
    clean_sent: TextMeasures | None = None,
) -> tuple[SelfTest, ...]:
    """Inject five faults into a copy of a cell.

    Parameters
    ----------
    cell : CellOutcomes
        The cell.
    limits : SweepThresholds
        The thresholds of the gates.
    rng : Generator
        Source of randomness.
    texts : TextMeasures, optional
        Statistics of the texts of this cell.
    clean_sent : TextMeasures, optional
        The statistics of the texts in `MeasuredTexts.clean_sent`. With None, the text fault is not
        injected.

    Returns
    -------
    tuple of SelfTest
        One result for each fault.
    """
    chance_before = gates.above_chance(cell, limits)
    shifted, note = None, ""
    if not cell.n_options.all():
        note = "Free-form answers have no labels to shift."
    elif cell.answer is None or cell.gold is None:
        note = "This run has no stored answers."
    else:
        right = np.where(
            cell.answer == (cell.gold + 1) % cell.n_options,
            np.int8(State.CORRECT),
            np.int8(State.WRONG),
        )
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
    paired = None
    agreement_note = "The noisy answers agree too little with each other to show their pairing."
    if before.status == Status.FAIL or before.numbers.get("noisy_compared"):
        paired, agreement_note = gates.pairing(replace(cell, state=broken), texts, limits), ""
    faults = (
        ("every gold label moved to the next option", chance_before, shifted, note),
        ("half of the answers made unreadable", gates.parseability(cell, limits), unreadable, ""),
        (
            "the clean prompt sent in place of every noisy one",
            gates.manipulation_reached_worker(texts, limits),
            sent,
            "" if sent else "This run has no stored texts.",
        ),
        ("question ids of the noisy arm shuffled", before, paired, agreement_note),
    )
    guessed = _baseline_guessed(cell, limits, chance_before, rng)
    results = []
    for fault in faults:
        results.append(_result(cell, *fault))
    return (*results, guessed)


def _baseline_guessed(
    cell: CellOutcomes, limits: SweepThresholds, before: Gate, rng: Generator
) -> SelfTest:
    """Replace the clean baseline by simulated guessers, and count how many guessers pass the gate.

    A guesser answers a question with k options right with probability 1/k, in every run. GUESSERS
    guessers are drawn. The fault counts as caught if at most the share GUESSERS_PASSED_MAX of the
    guessers pass the gate.

    Some guessers pass a threshold of two standard errors by luck: 2.3 % with very many questions,
    and up to 4.8 % with 30 to 99 questions (exact binomial, two to ten options, one clean run). If
    4.8 % of all guessers pass, the fault is wrongly called missed in less than one of 100,000
    cells. With a threshold of one standard error, 16 % of all guessers pass, and the fault is
    nearly always called missed.
    """
    fault = "clean baseline replaced by guesses"
    if before.status != Status.PASS:
        return _result(cell, fault, before, None)
    # The gate reads the direct arm and the clean baseline only.
    rows = []
    for k, s in enumerate(cell.settings):
        if s.level <= 1 and s.arm in (Arm.DIRECT, Arm.FORWARD_FULL):
            rows.append(k)
    clean = [cell.settings[k].arm == Arm.FORWARD_FULL for k in rows]
    settings = tuple(cell.settings[k] for k in rows)
    part = replace(cell, settings=settings, state=cell.state[rows])
    passed, numbers = 0, []
    # The gate uses only the mean, so its result is stored for each number of right answers.
    of_total: dict[int, Gate] = {}
    state = part.state.copy()
    guess = np.where(cell.n_options > 0, 1 / np.maximum(cell.n_options, 1), 0.0)
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
        f"The gate stopped {GUESSERS - passed} of {GUESSERS} guessers. Expected {1 - GUESSERS_PASSED_MAX:.0%}, since "
        f"some pass by luck. Its number went from {before.number or 0.0:.3g} to {np.mean(numbers):.2f} on average "
        f"(threshold {limits.above_chance_standard_errors:g})."
    )
    status = "caught" if caught else "missed"
    return SelfTest(cell.model, cell.benchmark, fault, before.name, status, bool(caught), detail)


def _result(
    cell: CellOutcomes, fault: str, before: Gate, after: Gate | None, note: str = ""
) -> SelfTest:
    """Return the result of one fault, given the gate before and after the injection."""
    caught: bool | None = None
    if before.status == Status.FAIL:
        status, detail = "already_failing", f"The gate failed before the fault: {before.detail}"
    elif before.status == Status.NOT_APPLICABLE or after is None:
        status, detail = "not_showable", note or before.detail
    else:
        caught = after.status == Status.FAIL
        status = "caught" if caught else "missed"
        was, now = before.number or 0.0, after.number if after.number is not None else float("nan")
        detail = (
            f"The gate's number went from {was:.3g} to {now:.3g} (threshold {after.threshold:g})."
        )
    return SelfTest(cell.model, cell.benchmark, fault, before.name, status, caught, detail)
