"""What every audit's verdict is made of, and its one JSON form: gates, reasons, the nearest calibration, numbers as
printed. A number that could not be computed is null in verdict.json, never 0.
"""

import json
import math
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from audit.json_types import plain

SIGNIFICANT_DIGITS = 6  # of every float in verdict.json: fixed, so that the same shards give the same bytes

MAX_ITEMS = 50  # ids listed behind a gate; `item_count` is the full number


class Status(StrEnum):
    """What a gate says."""

    PASS = "pass"  # noqa: S105 - a gate's status, not a password
    FAIL = "fail"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True)
class Gate:
    """One check of whether the measurement can carry a verdict.

    number is compared with threshold; detail says in one sentence what was found; advice what to do when it fails.
    withholds: a failure withholds the verdict (an alarm that does not withhold is still printed).
    items: ids of the questions behind it (the first MAX_ITEMS, sorted); item_count: how many there are in all.
    numbers: the further figures that the gate measured, by name.
    """

    name: str
    status: Status
    number: float | None
    threshold: float | None
    source: str
    detail: str
    advice: str = ""
    withholds: bool = True
    items: tuple[str, ...] = ()
    item_count: int = 0
    numbers: dict[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Calibration:
    """The nearest calibrated design and how often this very procedure was wrong there."""

    design: dict[str, bool | float | int | str]
    rates: dict[str, float | None]
    sentence: str


DASH = "–"  # where a number could not be computed


def points(share: float) -> str:
    """0.051 -> "5.1 points"."""
    value = f"{100 * share:.1f}".replace("-", "−") if math.isfinite(share) else DASH
    return f"{value} point{'' if value == '1.0' else 's'}"


def signed_points(share: float | None) -> str:
    """0.042 -> "+4.2 points"."""
    if share is None or not math.isfinite(share):
        return DASH
    value = round(100 * share, 1)
    return f"{value:+.1f} points".replace("-", "−") if value else "0.0 points"


def with_interval(estimate: float | None, low: float | None, high: float | None) -> str:
    """Such as "+1.1 points [−7.2, +8.9]", of shares 0-1; a dash where it was not computed."""
    if low is None or high is None:
        return signed_points(estimate)
    ends = (signed_points(end).removesuffix(" points") for end in (low, high))
    return f"{signed_points(estimate)} [{', '.join(ends)}]"


def drop_points(value: float | None) -> str:
    """A drop, which has no sign: 0.057 -> "5.7 points"; what rose has none: -0.042 -> "none (4.2 points up)"."""
    shown = signed_points(value).removeprefix("+")
    return f"none ({shown[1:]} up)" if shown.startswith("−") else shown


def interval(low: float, high: float) -> str:
    """-0.012, 0.034 -> "95 % interval −1.2 to 3.4"."""
    return f"95 % interval {100 * low:.1f} to {100 * high:.1f}".replace("-", "−")


def percent(share: float | None, *, whole: bool = True) -> str:
    """0.98 -> "98 %"; 0.714 -> "71.4 %". whole: without a decimal where it is 0; in a column of them, with it."""
    if share is None or not math.isfinite(share):
        return DASH
    text = f"{round(100 * share, 1) + 0.0:.1f} %".replace("-", "−")
    return text.replace(".0 %", " %") if whole else text


def pvalue(p: float | None) -> str:
    """0.0304 -> "p = .03"; 0.0004 -> "p < .001"."""
    bare = bare_pvalue(p)
    return f"p {bare}" if bare.startswith("<") else f"p = {bare}"


def scaled(x: float, low: float, high: float) -> str:
    """A number in a unit of its own, with the decimals that its interval gives meaning to.

    >>> [scaled(x, -0.0024, 0.0026) for x in (8.11e-05, -0.0024)]
    ['+0.0001', '−0.0024']
    """
    width = high - low
    places = max(1, 1 - math.floor(math.log10(width))) if 0 < width < math.inf else 3
    return f"{x:+.{places}f}".replace("-", "−")


def bare_pvalue(p: float | None) -> str:
    """As `pvalue`, in a column of them: 0.0304 -> ".03"; 0.0004 -> "< .001"."""
    if p is None or not math.isfinite(p):
        return DASH
    return "< .001" if p < 0.001 else f"{p:.2g}".removeprefix("0")


def rounded(value: float) -> float | None:
    """A float as verdict.json prints it: SIGNIFICANT_DIGITS digits, no negative zero; None for NaN or infinity."""
    return plain(float(value), SIGNIFICANT_DIGITS)


def finite(value: float) -> float | None:
    """None for NaN or infinity."""
    return float(value) if math.isfinite(value) else None


def json_text(value: Any) -> str:
    """What `json_ready` gave as the bytes of a file: sorted keys, two spaces, a final newline."""
    return json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def json_ready(value: Any) -> Any:
    """JSON types only, with floats as verdict.json prints them."""
    return plain(value, SIGNIFICANT_DIGITS)


@dataclass(frozen=True)
class Reason:
    """code: the key of its sentence in an audit's texts. numbers: what was measured, by name; shares and differences in
    0-1. said: the whole sentence, where a gate has made it."""

    code: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    said: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"code": self.code, "numbers": dict(self.numbers)}


Texts = Mapping[str, str | Callable[..., str]]


def because(code: str, **numbers: Any) -> Reason:
    return Reason(code, numbers)


def sentence(reason: Reason, texts: Texts) -> str:
    """The reason in words. A text is a template, with `{gain:points}` and the other formats of `_FORMATS`, or a
    function of the numbers where words depend on them. KeyError for a code or a number that is missing.

    >>> sentence(because("fell", drop=0.123, p=0.0304), {"fell": "Accuracy falls by {drop:points} ({p:p})."})
    'Accuracy falls by 12.3 points (p = .03).'
    """
    if reason.said:
        return reason.said
    text = texts[reason.code]
    return text(**reason.numbers) if callable(text) else _Formatter().vformat(text, (), reason.numbers)


def sentences(reasons: Iterable[Reason], texts: Texts) -> tuple[str, ...]:
    return tuple(sentence(one, texts) for one in reasons)


def advice_of(gates: Sequence[Gate]) -> tuple[Reason, ...]:
    """What to do about gates that failed."""
    return tuple(Reason(f"gate_{g.name}", {}, g.advice) for g in gates if g.advice)


def listed(names: Iterable[object]) -> str:
    """'a, b and c'."""
    *first, last = [str(name) for name in names] or [""]
    return f"{', '.join(first)} and {last}" if first else last


_FORMATS: Mapping[str, Callable[[Any], str]] = {
    "points": points,
    "signed": signed_points,
    "bare": lambda share: f"{100 * share:.1f}".replace("-", "−"),  # a limit of an interval in points
    "percent": percent,
    "p": pvalue,
    "listed": listed,
}


class _Formatter(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        own = _FORMATS.get(format_spec)
        return own(value) if own else str(super().format_field(value, format_spec))


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


def failed(gates: Sequence[Gate]) -> tuple[Gate, ...]:
    """The gates that failed and withhold the verdict."""
    return tuple(g for g in gates if g.status == Status.FAIL and g.withholds)


def ids_where(ids: Sequence[str], hit: Iterable[bool]) -> tuple[str, ...]:
    """The ids where it holds."""
    return tuple(q for q, held in zip(ids, hit, strict=True) if held)
