"""Define an edit: the changed item, its family, and what the edit should do to the answer.

What an edit should do to the answer is its contract. This module and `plan` declare the contracts
before the run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from audit.core.records import Item
from audit.scoring.reference import ReferenceScorer

PROMPT = "{prompt}"  # Every template of prompts contains this placeholder once.
PLAIN_LABELS = "paren"  # Options are lettered "(A)" unless an edit changes this.


class Family(StrEnum):
    """Name the three families of edits of the paper, and the placebo.

    The placebo adds as many words as the attribute edits change, and does not change the construct.
    """

    FORMAT = "format"
    SEMANTIC = "semantic"
    ATTRIBUTE = "attribute"
    PLACEBO = "placebo"


ORIGINAL = "original"  # the arm of an item as published; each family of edits is another arm
ARMS: tuple[str, ...] = (ORIGINAL, *Family)


class Contract(StrEnum):
    """Name what an edit should do to the answer (Ribeiro et al. 2020, CheckList)."""

    INVARIANT = "invariant"  # The response should stay.
    DIRECTIONAL = "directional"  # The key moves, and the response should follow.


class Archetype(StrEnum):
    """Name what the attribute edits of a benchmark should do to answers in one context (li2026,
    G5).
    """

    DIAGNOSTIC = "diagnostic"  # Every attribute edit is directional.
    INVARIANCE = "invariance"  # Every attribute edit is invariant.
    # Some attribute edits are directional and some invariant, so no single number has a meaning.
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class Edit:
    """Hold one edit of one item.

    Attributes
    ----------
    name : str
        Name of the edit.
    family : Family
        The kind of change.
    contract : Contract
        What the edit should do to the answer.
    item : Item
        The edited item, with the key after the edit.
    label_style : str
        Style of lettered options.
    """

    name: str
    family: Family
    contract: Contract
    item: Item
    label_style: str = PLAIN_LABELS


# The names of format edits in order of preference. Edits beyond the wanted number replace edits
# that change nothing.
_LETTERED = ("upper_case", "label_style", "option_order", "double_space", "quotes", "preamble")
_STATEMENT = ("upper_case", "double_space", "quotes", "title_case", "preamble")
_PLAIN = ("upper_case", "double_space", "preamble", "quotes", "title_case")
_SPLIT = ("bbq", "contrast")
STATEMENTS = ("toxigen", "crows_pairs")  # benchmarks of sentences without a question


def formats_of(scorer: ReferenceScorer) -> tuple[str, ...]:
    """Return the names of the format edits that fit a scorer.

    Parameters
    ----------
    scorer : ReferenceScorer
        The scorer.

    Returns
    -------
    tuple of str
        Names in order of preference.
    """
    if scorer.lettered:
        return _LETTERED
    return _STATEMENT if scorer.benchmark in STATEMENTS else _PLAIN


def context_of(item: Item, benchmark: str) -> str:
    """Return the context of an item: the condition by which the items of a benchmark are split into
    cells.

    Parameters
    ----------
    item : Item
        The item.
    benchmark : str
        The benchmark of the scorer, which may have another name in the run.

    Returns
    -------
    str
        The condition, if edits should have different effects under different conditions; otherwise
        "". A benchmark is not split if its condition is the key itself (safe or unsafe), because no
        score exceeds guessing in a cell whose items all have the same key.
    """
    return item.condition if benchmark in _SPLIT else ""


def archetype_of(directional: Sequence[bool]) -> Archetype | None:
    """Return the archetype that follows from the contracts of attribute edits.

    Parameters
    ----------
    directional : sequence of bool
        For each attribute edit, whether its contract is directional.

    Returns
    -------
    Archetype or None
        The archetype; None if there are no attribute edits.
    """
    if not directional:
        return None
    if all(directional):
        return Archetype.DIAGNOSTIC
    return Archetype.MIXED if any(directional) else Archetype.INVARIANCE
