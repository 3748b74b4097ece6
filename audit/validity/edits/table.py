"""Which format edits a benchmark gets under a scorer, and whether an attribute edit means anything there.

The table of the construct-validity notes: contracts are declared here and in `partners`, before anything is run.
"""

from collections.abc import Sequence

from audit.benchmarks.items import Item
from audit.errors import ConfigError
from audit.scoring.reference import ReferenceScorer
from audit.validity.edits.record import Archetype

# In the order in which they are taken; those after the wanted number stand by for one that changes nothing.
_LETTERED = ("upper_case", "label_style", "option_order", "double_space", "quotes", "preamble")
_STATEMENT = ("upper_case", "double_space", "quotes", "title_case", "preamble")
_PLAIN = ("upper_case", "double_space", "preamble", "quotes", "title_case")
_SPLIT = ("bbq", "contrast")
_STATEMENTS = ("toxigen", "crows_pairs")
_NO_ATTRIBUTE = {
    "truthfulqa_mc1": "The options are never shown under truthfulqa_mc1, so a question for the false one cannot be "
    "asked. Take scorer=truthfulqa_lettered."
}


def formats_of(scorer: ReferenceScorer) -> tuple[str, ...]:
    """Names of format edits under a scorer, in order."""
    if scorer.lettered:
        return _LETTERED
    return _STATEMENT if scorer.benchmark in _STATEMENTS else _PLAIN


def check_attribute(scorer: ReferenceScorer) -> None:
    """ConfigError where no attribute edit has a meaning under the scorer."""
    if scorer.name in _NO_ATTRIBUTE:
        raise ConfigError(_NO_ATTRIBUTE[scorer.name])


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
