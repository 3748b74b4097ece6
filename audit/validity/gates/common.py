"""How this audit writes its gates down."""

from functools import partial

from audit.statistics.paired import BoolArray
from audit.validity.record import ValidityCell
from audit.verdict import result
from audit.verdict.result import ids_where

Rule = partial(result.Rule, always_items=True)  # also of a gate that passes: they are what its number is made of


def ids(cell: ValidityCell, mask: BoolArray) -> tuple[str, ...]:
    """Question ids of the items where mask (n,) holds."""
    return ids_where(cell.question_ids, mask)
