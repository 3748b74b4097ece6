"""Does the instrument notice when it is broken? Faults are injected into a copy of the run's own outcomes.

Each fault has one gate that must catch it. A gate that failed before the fault cannot show that it would have caught
it, and a gate that does not apply cannot either; both are said, and neither counts as caught.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from audit.records import Arm
from audit.statistics.paired import CellOutcomes, IntArray, State
from audit.verdict import gates
from audit.verdict.result import Gate, SelfTest, Status
from audit.verdict.texts import TextMeasures, TextRow, measure_texts
from audit.verdict.thresholds import Thresholds

MAX_TEXT_QUESTIONS = 200  # the text fault is shown on at most this many questions


@dataclass(frozen=True)
class Answers:
    """What was answered, for the fault that shifts the labels. answer: (S, n), -1 for none; gold: (n,)."""

    answer: NDArray[np.int16]
    gold: IntArray


def self_test(
    cell: CellOutcomes,
    thresholds: Thresholds,
    *,
    rng: np.random.Generator,
    answers: Answers | None = None,
    texts: TextMeasures | None = None,
    rows: Iterable[TextRow] | None = None,
) -> tuple[SelfTest, ...]:
    """Five faults on a copy of the cell. rows: its text rows, iterable more than once; None skips the text fault."""
    chance_before = gates.above_chance(cell, thresholds)
    results = []

    shifted = "every gold label moved to the next option"
    if answers is None:
        results.append(_result(cell, shifted, chance_before, None, "The answers themselves are not at hand."))
    else:
        results.append(
            _result(cell, shifted, chance_before, gates.above_chance(_labels_shifted(cell, answers), thresholds))
        )

    half = np.where(rng.random(cell.state.shape) < 0.5, np.int8(State.UNPARSED), cell.state)
    results.append(
        _result(
            cell,
            "half of the answers made unreadable",
            gates.parseability(cell, thresholds),
            gates.parseability(replace(cell, state=half), thresholds),
        )
    )

    results.append(_noisy_is_clean(cell, thresholds, texts, rows))

    order = rng.permutation(cell.n)
    noisy = np.array([s.arm == Arm.NOISY_REWRITE for s in cell.settings])
    broken = cell.state.copy()
    broken[noisy] = broken[noisy][:, order]
    before = gates.pairing(cell, thresholds)
    note = (
        "" if _noisy_checked(cell, thresholds) else "The noisy arm is not above chance, so it cannot show its pairing."
    )
    after = None if note else gates.pairing(replace(cell, state=broken), thresholds)
    results.append(_result(cell, "question ids of the noisy arm shuffled", before, after, note))

    results.append(
        _result(
            cell,
            "clean baseline replaced by guesses",
            chance_before,
            gates.above_chance(_baseline_at_chance(cell, rng), thresholds),
        )
    )
    return tuple(results)


def _labels_shifted(cell: CellOutcomes, answers: Answers) -> CellOutcomes:
    gold = (answers.gold + 1) % cell.n_options
    right = np.where(answers.answer == gold, np.int8(State.CORRECT), np.int8(State.WRONG))
    return replace(cell, state=np.where(cell.state >= State.WRONG, right, cell.state))


def _baseline_at_chance(cell: CellOutcomes, rng: np.random.Generator) -> CellOutcomes:
    """Exactly as many right answers as guessing is expected to give, on random questions."""
    state = cell.state.copy()
    right = round(float(np.sum(1 / cell.n_options)))
    for k, setting in enumerate(cell.settings):
        if setting.arm == Arm.FORWARD_FULL and setting.routers == 1:
            state[k] = State.WRONG
            state[k, rng.permutation(cell.n)[:right]] = State.CORRECT
    return replace(cell, state=state)


def _noisy_checked(cell: CellOutcomes, thresholds: Thresholds) -> bool:
    """Whether the pairing gate looks at some noisy setting: the gate without the other settings applies."""
    keep = [k for k, s in enumerate(cell.settings) if s == gates.CLEAN or s.arm == Arm.NOISY_REWRITE]
    part = replace(cell, settings=tuple(cell.settings[k] for k in keep), state=cell.state[keep])
    return gates.pairing(part, thresholds).status != Status.NOT_APPLICABLE


def _noisy_is_clean(
    cell: CellOutcomes, thresholds: Thresholds, texts: TextMeasures | None, rows: Iterable[TextRow] | None
) -> SelfTest:
    fault = "the clean prompt sent in place of every noisy one"
    before = gates.manipulation_reached_worker(texts, thresholds)
    if rows is None or texts is None:
        return _result(cell, fault, before, None, "The texts are not at hand.")
    copy = _CleanSent(rows, cell.model, cell.benchmark, frozenset(cell.question_ids[:MAX_TEXT_QUESTIONS]))
    measured = measure_texts(copy).get((cell.model, cell.benchmark))
    return _result(cell, fault, before, gates.manipulation_reached_worker(measured, thresholds))


@dataclass(frozen=True)
class _Row:
    """A text row with another worker prompt."""

    model: str
    benchmark: str
    question_id: str
    arm: Arm
    routers: int
    replicate: int
    question: str
    options: tuple[str, ...]
    router_messages: tuple[str, ...]
    worker_prompt: str
    gold: int
    options_shown: bool


@dataclass(frozen=True)
class _CleanSent:
    """The rows of some questions, in which the worker was sent the clean prompt although the routers wrote noise."""

    rows: Iterable[TextRow]
    model: str
    benchmark: str
    ids: frozenset[str]

    def __iter__(self) -> Iterator[_Row]:
        # Shards can be asked for one cell; walking all rows for every cell would grow with the square of the panel.
        ask = getattr(self.rows, "of_cell", None)
        rows: Iterable[TextRow] = ask(self.model, self.benchmark, self.ids) if ask is not None else self.rows
        mine = [
            r for r in rows if r.model == self.model and r.benchmark == self.benchmark and r.question_id in self.ids
        ]
        clean = {
            r.question_id: r.worker_prompt
            for r in mine
            if r.arm == Arm.FORWARD_FULL and r.routers == 1 and r.replicate == 0
        }
        for r in mine:
            noisy = r.arm == Arm.NOISY_REWRITE
            yield _Row(
                r.model,
                r.benchmark,
                r.question_id,
                r.arm,
                r.routers,
                r.replicate,
                r.question,
                tuple(r.options),
                tuple(r.router_messages),
                clean.get(r.question_id, r.worker_prompt) if noisy else r.worker_prompt,
                r.gold,
                r.options_shown,
            )


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
