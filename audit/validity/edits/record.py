"""Define an edit: an item as changed, its family, and what it should do to the answer.

Contracts are declared here and in `plan`, before anything is run (the table of the
construct-validity notes).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from audit.core.records import Item
from audit.scoring.reference import ReferenceScorer

PROMPT = "{prompt}"  # a template of prompts holds it once
PLAIN_LABELS = "paren"  # options are lettered "(A)" unless an edit states otherwise


class Family(StrEnum):
    """Name the paper's three families, and the placebo.

    The placebo adds as many words as the attribute edit changes, and leaves the construct
    untouched.
    """

    FORMAT = "format"
    SEMANTIC = "semantic"
    ATTRIBUTE = "attribute"
    PLACEBO = "placebo"


ORIGINAL = "original"  # the arm of an item as published; the other arms are the families of edits
ARMS: tuple[str, ...] = (ORIGINAL, *Family)


class Contract(StrEnum):
    """Name what an edit should do to the answer (Ribeiro et al. 2020, CheckList)."""

    INVARIANT = "invariant"  # the response stays
    DIRECTIONAL = "directional"  # the key moves, and the response with it


class Archetype(StrEnum):
    """Name what attribute edits should do to a benchmark's answers in one context (li2026, G5)."""

    DIAGNOSTIC = "diagnostic"  # every attribute edit is directional
    INVARIANCE = "invariance"  # every attribute edit is invariant
    # Some attribute edits are directional and some invariant, so no single number has a meaning.
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class Edit:
    """Hold one edit of one item.

    Attributes
    ----------
    name : str
        Name of the edit.
    family, contract : Family, Contract
        What it changes, and what it should do.
    item : Item
        The edited item (its `key` is the key after).
    label_style : str
        Style of lettered options.
    """

    name: str
    family: Family
    contract: Contract
    item: Item
    label_style: str = PLAIN_LABELS


# Format edits in order of preference. Those after the wanted number replace an edit that changes
# nothing.
_LETTERED = ("upper_case", "label_style", "option_order", "double_space", "quotes", "preamble")
_STATEMENT = ("upper_case", "double_space", "quotes", "title_case", "preamble")
_PLAIN = ("upper_case", "double_space", "preamble", "quotes", "title_case")
_SPLIT = ("bbq", "contrast")
STATEMENTS = ("toxigen", "crows_pairs")  # benchmarks of sentences that ask nothing


def formats_of(scorer: ReferenceScorer) -> tuple[str, ...]:
    """Return the names of format edits under a scorer, in order."""
    if scorer.lettered:
        return _LETTERED
    return _STATEMENT if scorer.benchmark in STATEMENTS else _PLAIN


def context_of(item: Item, benchmark: str) -> str:
    """Return the condition that splits a benchmark's items into cells.

    Parameters
    ----------
    item : Item
        The item.
    benchmark : str
        The scorer's benchmark, whatever the run calls it.

    Returns
    -------
    str
        The condition, for benchmarks whose conditions have attribute edits of other contracts; else
        "". Elsewhere the condition is the key itself (safe or unsafe), and a cell of one key has no
        score above guessing.
    """
    return item.condition if benchmark in _SPLIT else ""


def archetype_of(directional: Sequence[bool]) -> Archetype | None:
    """Return the archetype of the attribute edits' contracts; None without edits."""
    if not directional:
        return None
    if all(directional):
        return Archetype.DIAGNOSTIC
    return Archetype.MIXED if any(directional) else Archetype.INVARIANCE
