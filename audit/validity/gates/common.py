"""How a gate is written down, once it was checked."""

from __future__ import annotations

from audit.statistics.paired import BoolArray
from audit.validity.record import ValidityCell
from audit.verdict.result import MAX_ITEMS, Gate, Status


def made(
    name: str,
    passed: bool,
    number: float,
    threshold: float,
    source: str,
    detail: str,
    advice: str,
    *,
    withholds: bool = True,
    items: tuple[str, ...] = (),
    numbers: dict[str, float | None] | dict[str, float] | None = None,
) -> Gate:
    """A gate that was checked; advice and items are kept where it fails."""
    passed = bool(passed)
    shown = () if passed else tuple(sorted(items))
    return Gate(
        name=name,
        status=Status.PASS if passed else Status.FAIL,
        number=float(number),
        threshold=float(threshold),
        source=source,
        detail=detail,
        advice="" if passed else advice,
        withholds=withholds,
        items=shown[:MAX_ITEMS],
        item_count=len(shown),
        numbers=dict(numbers or {}),
    )


def absent(name: str, threshold: float, source: str, detail: str) -> Gate:
    """A gate that these data cannot show."""
    return Gate(name, Status.NOT_APPLICABLE, None, float(threshold), source, detail)


def ids(cell: ValidityCell, mask: BoolArray) -> tuple[str, ...]:
    """Question ids of the items where mask (n,) holds."""
    return tuple(q for q, hit in zip(cell.question_ids, mask, strict=True) if hit)
