"""Test the checks of a run with injected faults (gate G6).

Each known fault (F1-F7, F10) is injected into a copy of the run's data. The check that must catch
this fault must then fail.

Faults of the scorer are injected before the run, since the items are available then
(`scorer_faults`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from audit.core.errors import DataError
from audit.core.records import Generation, Item
from audit.judging.result import Gate, Status
from audit.scoring.reference import ReferenceScorer, self_test
from audit.scoring.scored import Scored
from audit.statistics.contracts import UNREAD
from audit.statistics.paired import BoolArray
from audit.validity.design import ValidityThresholds as Limits
from audit.validity.edits.record import Family
from audit.validity.evidence import SURFACE, changes, measure
from audit.validity.gates import CHECKS, EXACT_FROM, families_that_tell
from audit.validity.record import Block, Cell
from audit.validity.vocabulary import Injected

_RESAMPLES = 10  # few resamples, since the checks do not use the interval of the ratio


@dataclass(frozen=True)
class Fault:
    """Describe a fault and the check that must catch it.

    Attributes
    ----------
    name : str
        Class of the fault in li2026.
    named : str
        What is wrong in the faulty copy.
    check : str
        The gate that must fail.
    inject : callable
        Function that returns a copy with the fault, or None if these data cannot have the fault.
    """

    name: str
    named: str
    check: str
    inject: Callable[[Cell, np.random.Generator], Cell | None]


def inject_all(
    cell: Cell, gates: Sequence[Gate], thresholds: Limits, rng: np.random.Generator
) -> tuple[Injected, ...]:
    """Inject every fault into a separate copy of the cell, and run the check that must catch the
    fault.

    Parameters
    ----------
    cell : Cell
        The answers.
    gates : sequence of Gate
        The gates of the cell without a fault.
    thresholds : ValidityThresholds
        The thresholds.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    tuple of Injected
        The result of each fault.
    """
    injected = [_injected(cell, gates, thresholds, fault, rng) for fault in FAULTS]
    of_scorer = (Injected(**facts) for facts in cell.scorer.get("injected", ()))
    return (*injected, _unpaired(cell), _ONE_TEMPLATE, *of_scorer)


def regression_gate(injected: Sequence[Injected]) -> Gate:
    """Return gate G6, which fails if a check did not catch the fault that it must catch.

    Parameters
    ----------
    injected : sequence of Injected
        The results of `inject_all`.

    Returns
    -------
    Gate
        The gate. Its value is the number of missed faults. The gate lists no items, because it
        tests checks and not answers.
    """
    missed = [result.fault for result in injected if result.state == "missed"]
    caught = sum(result.state == "caught" for result in injected)
    status = Status.PASS if caught else Status.NOT_APPLICABLE
    rest = "These data cannot hold the other faults."
    if missed:
        status, rest = Status.FAIL, f"Missed faults: {', '.join(missed)}."
    return Gate(
        name="G6_repair_regression",
        status=status,
        number=float(len(missed)),
        threshold=0.0,
        source="li2026, G6: each targeted fault must fail its test; here in a copy of this run",
        detail=f"{caught} of {len(injected)} injected faults were caught by their check. {rest} "
        "This gate names no items, since it tests checks and not answers.",
        advice="A check that misses its fault proves nothing when it passes." if missed else "",
        withholds=True,
    )


def scorer_faults(scorer: ReferenceScorer, items: Sequence[Item]) -> tuple[Injected, ...]:
    """Inject the faults F3a and F3b into copies of the scorer.

    The self-test of each faulty scorer must fail.

    Parameters
    ----------
    scorer : ReferenceScorer
        The scorer.
    items : sequence of Item
        The items of the self-test.

    Returns
    -------
    tuple of Injected
        The result of each fault.
    """

    def inverted(item: Item, reply: Generation) -> Scored:
        """Read a reply, and invert its score."""
        scored = scorer.read(item, reply)
        return scored if scored.score is None else replace(scored, score=1 - scored.score)

    def first_on_tie(item: Item, reply: Generation) -> Scored:
        """Read a reply, and score it as right if it is unparsed."""
        scored = scorer.read(item, reply)
        return Scored(item.key, 1.0) if scored.response is None else scored

    faults = (
        ("F3a", "the scale is inverted: right answers are scored as wrong", inverted),
        ("F3b", "unparsed replies are scored as right", first_on_tie),
    )
    sound = self_test(scorer, items)
    results = []
    for name, wrong, read in faults:
        test = self_test(replace(scorer, read=read), items)
        # CrowS-Pairs reads a tie as neutral, so no pair is unparsed, and F3b changes nothing there.
        state = "missed" if test.passed else "caught"
        if test == sound:
            state = "not_showable"
        detail = "; ".join(test.faults) or "the self-test passes"
        results.append(Injected(name, wrong, "scorer_valid", state, detail))
    return tuple(results)


def _injected(
    cell: Cell, gates: Sequence[Gate], t: Limits, fault: Fault, rng: np.random.Generator
) -> Injected:
    """Inject one fault, and return whether its check catches it."""
    result = partial(Injected, fault.name, fault.named, fault.check)
    before = next(g for g in gates if g.name == fault.check)
    if before.status == Status.NOT_APPLICABLE:
        return result("not_showable", "the check does not apply here")
    if before.status == Status.FAIL:
        return result("already_failing", before.detail)
    faulty = fault.inject(cell, rng)
    if faulty is None:
        return result("not_showable", "these data cannot hold the fault")
    evidence = measure(
        faulty, margin=t.margin, rng=np.random.default_rng(0), n_resamples=_RESAMPLES
    )
    checked = (check(faulty, evidence, t) for check in CHECKS)
    after = next(gate for gate in checked if gate.name == fault.check)
    # A check that no longer applies to the faulty copy has missed the fault.
    state = "caught" if after.status == Status.FAIL else "missed"
    return result(state, after.detail)


def _unpaired(cell: Cell) -> Injected:
    """Return whether `Cell` refuses data in which a family lacks an item."""
    block = cell.families[Family.FORMAT]
    short = Block(**{name: getattr(block, name)[:, :-1] for name in block.__dataclass_fields__})
    wrong = "a family lacks the last item, so originals and edits belong to different items"
    try:
        replace(cell, families={**cell.families, Family.FORMAT: short})
    except DataError as error:
        return Injected("F4", wrong, "unpaired input is refused", "caught", str(error))
    return Injected("F4", wrong, "unpaired input is refused", "missed", "it was accepted")


def _with(cell: Cell, family: Family, **changed: np.ndarray) -> Cell:
    """Return a copy of the cell in which some arrays of one family are replaced."""
    return replace(
        cell, families={**cell.families, family: replace(cell.families[family], **changed)}
    )


def _first_edit(block: Block) -> BoolArray | None:
    """Return the positions of the most frequent edit, (L, n); None if no edit tests anything.

    A spare edit occurs in only a few items, which are too few for the checks.
    """
    names, counts = np.unique(block.name[block.tests].astype(str), return_counts=True)
    return block.name == str(names[counts.argmax()]) if names.size else None


def _noop(cell: Cell, rng: np.random.Generator) -> Cell | None:
    """Return a cell in which one format edit has the request and the answer of the original."""
    block = cell.families[Family.FORMAT]
    first = _first_edit(block)
    if first is None:
        return None
    here = block.tests & first
    response = np.where(here, cell.before, block.response)
    return _with(cell, Family.FORMAT, same=block.same | here, response=response)


def _third(cell: Cell) -> BoolArray:
    """Return an (n,) mask of every third item."""
    return np.arange(cell.n) % 3 == 0


def _unreadable(cell: Cell, rng: np.random.Generator) -> Cell | None:
    """Return a cell in which one format edit makes a third of the answers unparsed."""
    block = cell.families[Family.FORMAT]
    first = _first_edit(block)
    if first is None:
        return None
    return _with(
        cell, Family.FORMAT, response=np.where(first & _third(cell), UNREAD, block.response)
    )


def _in_all(cell: Cell, change: Callable[[Block], Block]) -> Cell:
    families = {family: change(block) for family, block in cell.families.items()}
    return replace(cell, families=families, original=change(cell.original))


def _unread(cell: Cell, lost: BoolArray, why: str) -> Cell:
    def without(block: Block) -> Block:
        reasons = np.where(lost & block.requested, why, block.why.astype(str)).astype(object)
        return replace(block, response=np.where(lost, UNREAD, block.response), why=reasons)

    return _in_all(cell, without)


def _frozen(cell: Cell, rng: np.random.Generator) -> Cell | None:
    """Return a cell in which all answers to surface edits equal the answers to the originals."""
    read, many = {}, set()
    for family, block in cell.families.items():
        read[family] = block.tests & (block.response != UNREAD) & (cell.before != UNREAD)
        if read[family].sum() >= EXACT_FROM:
            many.add(family)
    if Family.ATTRIBUTE not in many or not many & set(SURFACE):
        return None
    frozen = cell
    for f in SURFACE:
        frozen = _with(
            frozen, f, response=np.where(read[f], cell.before, cell.families[f].response)
        )
    return frozen


def _permuted(cell: Cell, rng: np.random.Generator) -> Cell | None:
    """Return a cell in which the answers of one family are permuted among the items.

    The family is one whose answers agree with the originals clearly enough for the check.
    """
    family = next(iter(families_that_tell(cell)), None)
    if family is None:
        return None
    # The order is random, because a shift could leave every answer in place if the keys are periodic.
    order = rng.permutation(cell.n)
    return _with(cell, family, response=cell.families[family].response[:, order])


def _mixed(cell: Cell, rng: np.random.Generator) -> Cell | None:
    """Return a cell in which every second attribute edit has the opposite contract."""
    block = cell.families[Family.ATTRIBUTE]
    half = np.arange(cell.n) % 2 == 0
    return _with(
        cell, Family.ATTRIBUTE, directional=np.where(half, ~block.directional, block.directional)
    )


def _unspecific(cell: Cell, rng: np.random.Generator) -> Cell | None:
    """Return a cell in which the placebo moves the same answers as the attribute edits."""
    content, placebo = cell.used(Family.ATTRIBUTE), cell.families[Family.PLACEBO]
    # For each item, an edit that moved the answer is used if such an edit exists.
    most = np.nan_to_num(changes(cell, content), nan=-1.0).argmax(axis=0)[None]
    both = placebo.requested & np.take_along_axis(content.tests, most, axis=0)
    moved = np.take_along_axis(content.response, most, axis=0)
    return _with(cell, Family.PLACEBO, response=np.where(both, moved, placebo.response))


def _key_moves_alone(cell: Cell, rng: np.random.Generator) -> Cell | None:
    """Return a cell in which the edits move no answer, but move the key of each wrong answer to
    this answer.
    """
    block = cell.families[Family.ATTRIBUTE]
    key = np.where(cell.score_before == 0, cell.before, block.key)
    return _with(
        cell, Family.ATTRIBUTE, response=np.broadcast_to(cell.before, block.response.shape), key=key
    )


FAULTS: tuple[Fault, ...] = (
    Fault(
        "F1",
        "one format edit does not change what the scorer reads",
        "G1_edits_reach_scorer",
        _noop,
    ),
    Fault(
        "F1",
        "semantic edits exist for a third of the items only",
        "G1_enough_edits",
        lambda cell, rng: _with(
            cell, Family.SEMANTIC, requested=cell.families[Family.SEMANTIC].requested & _third(cell)
        ),
    ),
    Fault(
        "F2",
        "one format edit makes a third of the answers unreadable",
        "G1_answers_readable",
        _unreadable,
    ),
    Fault(
        "F3b",
        "the key is shown first in every item",
        "F3b_key_position",
        lambda cell, rng: replace(cell, key_position=np.zeros_like(cell.key_position)),
    ),
    Fault(
        "F3c",
        "most scored values are minus infinity",
        "F3c_label_values",
        lambda cell, rng: _unread(cell, np.arange(cell.n) % 5 != 0, "not finite"),
    ),
    Fault(
        "F3c",
        "a third of the items have labels of the same tokens",
        "F3c_label_values",
        lambda cell, rng: _unread(cell, _third(cell), "tied"),
    ),
    Fault(
        "F3c",
        "the labels hold a hundredth of their probability",
        "F3c_label_values",
        lambda cell, rng: replace(cell, mass=cell.mass / 100) if cell.mass.size else None,
    ),
    Fault("F3c", "no answer differs under surface edits", "F3c_exact_values", _frozen),
    Fault(
        "F3c",
        "every missing value is replaced by the same response",
        "F3c_exact_values",
        lambda cell, rng: _in_all(
            cell, lambda block: replace(block, response=np.zeros_like(block.response))
        ),
    ),
    Fault("F4", "the rows of one family are permuted", "G4_order", _permuted),
    Fault(
        "F4",
        "rows of other items have the id of an item",
        "G4_paired",
        lambda cell, rng: replace(cell, mixed_up=cell.question_ids[:3]),
    ),
    Fault("F5", "attribute edits of two contracts are mixed", "G5_archetype", _mixed),
    Fault("F5", "keys move and the answers stay", "F5_direction", _key_moves_alone),
    Fault(
        "F6",
        "neutral words move the same answers as edits of the content",
        "F6_isolation",
        _unspecific,
    ),
    Fault(
        "F10",
        "repeated requests have other items in their context",
        "F10_context",
        lambda cell, rng: replace(cell, other_context=cell.question_ids[::3]),
    ),
)
_ONE_TEMPLATE = Injected(
    "F7",
    "answers depend on one template or system prompt",
    "the status is the same with every template",
    "not_showable",
    "A run has one template and one system prompt. To run several: 'template=[plain,task]' "
    "'system=[none,helpful]'.",
)
