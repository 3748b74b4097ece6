"""G4: every edited row is of its own original, by its text and by its answers."""

from functools import partial

import numpy as np

from audit.statistics.contracts import UNREAD
from audit.statistics.paired import BoolArray, IntArray
from audit.validity.edits.record import Family
from audit.validity.evidence import SURFACE, CellEvidence
from audit.validity.record import ValidityCell
from audit.validity.thresholds import ValidityThresholds
from audit.verdict import result
from audit.verdict.result import Gate, ids_where

Rule = partial(result.Rule, always_items=True)  # also of a gate that passes: they are what its number is made of


def ids(cell: ValidityCell, mask: BoolArray) -> tuple[str, ...]:
    """Question ids of the items where mask (n,) holds."""
    return ids_where(cell.question_ids, mask)


_ORDER_ITEMS, _ORDER_Z = 20, 4.0  # items, and expected standard errors, from which an order can be told


def pairing(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """G4 (F4): every edited row is of its own original: the same item text and key in all rows of an id."""
    source = "li2026, G4: item-level pairing; all edits of an item are resampled together, in whole clusters"
    return Rule("G4_paired", 0.0, source).checked(
        not cell.mixed_up,
        float(len(cell.mixed_up)),
        f"In {cell.n - len(cell.mixed_up)} of {cell.n} items every row has the text and the key of its original; "
        f"{len(np.unique(cell.cluster))} clusters are resampled whole.",
        "Rows of different items share an id: give every item its own.",
        items=tuple(cell.mixed_up),
    )


def context(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """F10: the original, sent again, is the very request: nothing of other items stands in its context."""
    rule = Rule("F10_context", 0.0, "li2026, F10; ours: the hash of what was consumed, first sending against replays")
    if len(cell.original.response) < 2:
        return rule.absent("The original was asked once.")
    return rule.checked(
        not cell.other_context,
        float(len(cell.other_context)),
        f"In {cell.n - len(cell.other_context)} of {cell.n} items the original, sent again, is the same request (token "
        "ids where the engine tells them, else its text: what an endpoint adds is not seen).",
        "Something else is in the context: send each request alone, without a conversation before it.",
        items=tuple(cell.other_context),
    )


def agreement(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """G4, by the answers: an invariant edit must agree with its own original more than with another item's.

    Rows that were permuted within a family keep their ids and show here. number: agreement over what is expected from
    how the family's edits agree among themselves; judged where that is clear.
    """
    rule = Rule(
        "G4_order", 0.5, "ours: Cohen's kappa with the item's own original, against half of what the edits share"
    )
    found = families_that_tell(cell)
    if not found:
        return rule.absent("Too few items, or edits that agree too little among themselves, to tell.")
    family, (own, among) = min(found.items(), key=lambda one: one[1][0] / one[1][1])
    silent = ", ".join(str(one) for one in SURFACE if one not in found)
    return rule.checked(
        own >= among / 2,
        own / among,
        f"Answers to {family} edits agree with the answers to their originals by a kappa of {own:.2f}, and among "
        f"themselves by {among:.2f}."
        + (f" Edits of {silent} agree too little among themselves to tell." if silent else ""),
        "The edited rows seem to belong to other items than the originals: compare one id in both.",
        items=ids(cell, _away(cell, family)),
        numbers={"kappa": own, "kappa_among_edits": among},
    )


def _away(cell: ValidityCell, family: Family) -> BoolArray:
    """(n,) items of which no edit of the family has the original's answer."""
    block = cell.used(family)
    read = block.tests & (block.response != UNREAD) & (cell.before != UNREAD)
    away: BoolArray = read.any(axis=0) & ~(read & (block.response == cell.before)).any(axis=0)
    return away


def families_that_tell(cell: ValidityCell) -> dict[Family, tuple[float, float]]:
    """Surface families whose edits agree clearly: (mean kappa with the originals, among the family's own edits)."""
    before = cell.before
    found = {}
    for family in SURFACE:
        block = cell.used(family)
        rows = np.where(block.tests, block.response, UNREAD)
        read = (rows != UNREAD).all(axis=0)  # the edits alone: rows of other items do not change what these share
        own, y = read & (before != UNREAD), rows[:, read]
        if own.sum() < _ORDER_ITEMS or len(y) < 2:
            continue
        among = float(np.mean([kappa(y[i], y[j]) for i in range(len(y)) for j in range(i)]))
        if among * float(np.sqrt(read.sum())) >= _ORDER_Z:
            found[family] = (float(np.mean([kappa(before[own], row[own]) for row in rows])), among)
    return found


def kappa(a: IntArray, b: IntArray) -> float:
    """Agreement of two rows of responses beyond chance (Cohen 1960); 0 where both are one and the same constant."""
    values = np.unique(np.concatenate([a, b]))
    chance = float(sum(np.mean(a == v) * np.mean(b == v) for v in values))
    return 0.0 if chance >= 1 else (float(np.mean(a == b)) - chance) / (1 - chance)
