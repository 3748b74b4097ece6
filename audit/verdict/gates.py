"""How a gate is written down, once it was checked, and which of them withhold a verdict."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from audit.verdict.result import MAX_ITEMS, Gate, Status


def sizes(asked: int, needed: int | None) -> dict[str, float | None]:
    """What `enough_data` says of the size of a design: questions asked, and those that its plan needs (None: no number
    would do). `audit.verdict.vocabulary.subtitle` reads it."""
    return {"asked": float(asked), "needed": None if needed is None else float(needed)}


@dataclass(frozen=True)
class Rule:
    """What a gate is held against, and where that is from."""

    name: str
    threshold: float
    source: str
    always_items: bool = False

    def checked(
        self,
        passed: bool,
        number: float,
        detail: str,
        advice: str,
        *,
        withholds: bool = True,
        items: Sequence[str] = (),
        numbers: Mapping[str, float | None] | None = None,
    ) -> Gate:
        """A gate that was checked; advice and items are kept where it fails, items always where asked."""
        shown = () if passed and not self.always_items else tuple(sorted(items))
        return Gate(
            name=self.name,
            status=Status.PASS if passed else Status.FAIL,
            number=float(number),
            threshold=float(self.threshold),
            source=self.source,
            detail=detail,
            advice="" if passed else advice,
            withholds=withholds,
            items=shown[:MAX_ITEMS],
            item_count=len(shown),
            numbers=dict(numbers or {}),
        )

    def absent(self, detail: str, *, withholds: bool = True) -> Gate:
        """A gate that these data cannot show."""
        status = Status.NOT_APPLICABLE
        return Gate(self.name, status, None, float(self.threshold), self.source, detail, withholds=withholds)


def exact(
    alarms: Sequence[str],
    harmless: Sequence[str],
    otherwise: str,
    advice: str,
    numbers: Mapping[str, float | None] | None = None,
) -> Gate:
    """The gate of values that real data rarely give. harmless: those that this accuracy makes likely enough, which are
    printed and withhold nothing. otherwise: what is said where there are none."""
    found = [*alarms, *harmless]
    said = "Found " + "; ".join(found[:5]) + "." + ("" if alarms else " At this accuracy that is likely enough.")
    return Rule("exact_values", 0.0, "eight cells of song2026's Table 2 are exactly 0.00, worse than guessing").checked(
        not found,
        len(found),
        said if found else otherwise,
        advice if alarms else "",
        withholds=bool(alarms) or not harmless,
        numbers=numbers,
    )


def failed(gates: Sequence[Gate]) -> tuple[Gate, ...]:
    """The gates that failed and withhold the verdict."""
    return tuple(g for g in gates if g.status == Status.FAIL and g.withholds)


def ids_where(ids: Sequence[str], hit: Iterable[bool]) -> tuple[str, ...]:
    """The ids where it holds."""
    return tuple(q for q, held in zip(ids, hit, strict=True) if held)
