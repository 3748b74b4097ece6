"""What an edit is: an item as changed, of which family, and what that should do to the answer; which edits a benchmark
gets. The table of the construct-validity notes: contracts are declared here and in `plan`, before anything is run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from audit.records import Item
from audit.scoring.reference import ReferenceScorer

PROMPT = "{prompt}"  # what a template of prompts holds once
PLAIN_LABELS = "paren"  # "(A)": how options are lettered where an edit does not say otherwise


class Family(StrEnum):
    """The paper's three families, and the placebo: as many words as the attribute edit changes, construct untouched."""

    FORMAT = "format"
    SEMANTIC = "semantic"
    ATTRIBUTE = "attribute"
    PLACEBO = "placebo"


ORIGINAL = "original"  # the arm of an item as published; the other arms are the families of edits
ARMS: tuple[str, ...] = (ORIGINAL, *Family)


class Contract(StrEnum):
    """What an edit should do to the answer (Ribeiro et al. 2020, CheckList)."""

    INVARIANT = "invariant"  # the response stays
    DIRECTIONAL = "directional"  # the key moves, and the response with it


class Archetype(StrEnum):
    """What attribute edits should do to a benchmark's answers in one context (li2026, G5)."""

    DIAGNOSTIC = "diagnostic"  # every attribute edit is directional
    INVARIANCE = "invariance"  # every one is invariant
    MIXED = "mixed"  # some of each: no one number means anything


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit of one item. item: as edited (its `key` is the key after). label_style: of lettered options."""

    name: str
    family: Family
    contract: Contract
    item: Item
    label_style: str = PLAIN_LABELS


# In the order in which they are taken; those after the wanted number stand by for one that changes nothing.
_LETTERED = ("upper_case", "label_style", "option_order", "double_space", "quotes", "preamble")
_STATEMENT = ("upper_case", "double_space", "quotes", "title_case", "preamble")
_PLAIN = ("upper_case", "double_space", "preamble", "quotes", "title_case")
_SPLIT = ("bbq", "contrast")
STATEMENTS = ("toxigen", "crows_pairs")  # benchmarks of sentences that ask nothing


def formats_of(scorer: ReferenceScorer) -> tuple[str, ...]:
    """Names of format edits under a scorer, in order."""
    if scorer.lettered:
        return _LETTERED
    return _STATEMENT if scorer.benchmark in STATEMENTS else _PLAIN


def context_of(item: Item, benchmark: str) -> str:
    """By what a benchmark's items are split into cells: the conditions whose attribute edits have other contracts.

    benchmark: the scorer's, whatever the run calls it. Of the others the condition is the key itself (safe or unsafe),
    and a cell of one key has no score above guessing.
    """
    return item.condition if benchmark in _SPLIT else ""


def archetype_of(directional: Sequence[bool]) -> Archetype | None:
    """Of the attribute edits' contracts."""
    if not directional:
        return None
    if all(directional):
        return Archetype.DIAGNOSTIC
    return Archetype.MIXED if any(directional) else Archetype.INVARIANCE
