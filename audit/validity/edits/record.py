"""What an edit is: an item as changed, of which family, and what that should do to the answer."""

from dataclasses import dataclass
from enum import StrEnum

from audit.benchmarks.items import Item

PROMPT = "{prompt}"  # what a template of prompts holds once
PLAIN_LABELS = "paren"  # "(A)": how options are lettered where an edit does not say otherwise


class Family(StrEnum):
    """The paper's three families, and the placebo: as many words as the attribute edit changes, construct untouched."""

    FORMAT = "format"
    SEMANTIC = "semantic"
    ATTRIBUTE = "attribute"
    PLACEBO = "placebo"


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
