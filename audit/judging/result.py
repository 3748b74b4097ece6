"""Define the parts of every audit's verdict: gates, reasons, the nearest calibration, printed
numbers.

A number that could not be computed is null in verdict.json, never 0.
"""

import json
import math
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from audit.core.json_types import plain
from audit.core.number_text import listed, percent, points, pvalue, signed_points

SIGNIFICANT_DIGITS = (
    6  # digits of every float in verdict.json, fixed so that equal shards give equal bytes
)

MAX_ITEMS = 50  # most ids listed for a gate; `item_count` is the full number


class Status(StrEnum):
    """The result of a gate."""

    PASS = "pass"  # noqa: S105 - a gate's status, not a password
    FAIL = "fail"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True)
class Gate:
    """One check of whether the measurement can carry a verdict.

    number is compared with threshold. detail states the result in one sentence, advice what to do
    after a failure. withholds: a failure withholds the verdict (a failure that does not is still
    printed). items: ids of the questions behind it (the first MAX_ITEMS, sorted); item_count: their
    full number. numbers: further figures of the gate, by name.
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
    """The nearest calibrated design, and the error rates of this very procedure there."""

    design: dict[str, bool | float | int | str]
    rates: dict[str, float | None]
    sentence: str


def rounded(value: float) -> float | None:
    """Return a float as verdict.json prints it.

    Parameters
    ----------
    value : float
        Any float.

    Returns
    -------
    float or None
        The value with SIGNIFICANT_DIGITS digits and no negative zero; None if it is not finite.
    """
    return plain(float(value), SIGNIFICANT_DIGITS)


def finite(value: float) -> float | None:
    """Return a float if it is finite.

    Parameters
    ----------
    value : float
        Any float.

    Returns
    -------
    float or None
        None for NaN or infinity.
    """
    return float(value) if math.isfinite(value) else None


def json_text(value: Any) -> str:
    """Return JSON types as the text of a file.

    Parameters
    ----------
    value : object
        JSON types.

    Returns
    -------
    str
        Sorted keys, an indent of two spaces, a final newline.
    """
    return json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def json_ready(value: Any) -> Any:
    """Return a value as JSON types.

    Parameters
    ----------
    value : object
        Numbers, texts, sequences and mappings.

    Returns
    -------
    object
        The value with floats as verdict.json prints them.
    """
    return plain(value, SIGNIFICANT_DIGITS)


@dataclass(frozen=True)
class Reason:
    """A statement by code.

    code: key of its sentence in an audit's texts. numbers: its figures by name; shares and
    differences are 0-1. said: the whole sentence, if a gate has made it.
    """

    code: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    said: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return code and numbers, as in verdict.json."""
        return {"code": self.code, "numbers": dict(self.numbers)}


Texts = Mapping[str, str | Callable[..., str]]


def because(code: str, **numbers: Any) -> Reason:
    """Return a reason from its code and numbers.

    Parameters
    ----------
    code : str
        Key of its sentence.
    **numbers
        Its figures.

    Returns
    -------
    Reason
        Without a sentence of its own.
    """
    return Reason(code, numbers)


def sentence(reason: Reason, texts: Texts) -> str:
    """Return a reason in words.

    Parameters
    ----------
    reason : Reason
        Code and numbers.
    texts : mapping
        By code, a template with `{gain:points}` and the other formats of `_FORMATS`, or a function
        of the numbers.

    Returns
    -------
    str
        The sentence.

    Raises
    ------
    KeyError
        If the code or a number is missing.

    Examples
    --------
    >>> sentence(because("fell", drop=0.123, p=0.0304), {"fell": "Accuracy falls by {drop:points} ({p:p})."})
    'Accuracy falls by 12.3 points (p = .03).'
    """
    if reason.said:
        return reason.said
    text = texts[reason.code]
    return (
        text(**reason.numbers) if callable(text) else _Formatter().vformat(text, (), reason.numbers)
    )


def sentences(reasons: Iterable[Reason], texts: Texts) -> tuple[str, ...]:
    """Return several reasons in words.

    Parameters
    ----------
    reasons : iterable of Reason
        Codes and numbers.
    texts : mapping
        As for `sentence`.

    Returns
    -------
    tuple of str
        In their order.
    """
    return tuple(sentence(reason, texts) for reason in reasons)


def advice_of(gates: Sequence[Gate]) -> tuple[Reason, ...]:
    """Return the advice of failed gates.

    Parameters
    ----------
    gates : sequence of Gate
        All gates of a cell.

    Returns
    -------
    tuple of Reason
        The advice, each once.
    """
    advice = []
    for g in gates:
        if g.advice:
            advice.append(Reason(f"gate_{g.name}", {}, g.advice))
    return tuple(advice)


_FORMATS: Mapping[str, Callable[[Any], str]] = {
    "points": points,
    "signed": signed_points,
    # The limit of an interval, in points.
    "bare": lambda share: f"{100 * share:.1f}".replace("-", "−"),
    "percent": percent,
    "p": pvalue,
    "listed": listed,
}


class _Formatter(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        write = _FORMATS.get(format_spec)
        return write(value) if write else str(super().format_field(value, format_spec))


def sizes(questions: int, needed: int | None) -> dict[str, float | None]:
    """Return the numbers of `enough_data` on the size of a design.

    Parameters
    ----------
    questions : int
        Questions asked.
    needed : int or None
        Questions that the plan needs; None if no number is enough.

    Returns
    -------
    dict
        `audit.judging.vocabulary.subtitle` reads it.
    """
    return {"asked": float(questions), "needed": None if needed is None else float(needed)}


@dataclass(frozen=True)
class Rule:
    """The name of a gate, its threshold, and the source of the threshold."""

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
        """Return a gate that was checked.

        Parameters
        ----------
        passed : bool
            The result.
        number : float
            The figure that is compared with the threshold.
        detail, advice : str
            The result in one sentence, and what to do after a failure.
        withholds : bool
            Whether a failure withholds the verdict.
        items : sequence of str
            Ids of the questions behind it.
        numbers : mapping, optional
            Further figures.

        Returns
        -------
        Gate
            Advice and items are dropped if it passed; items are kept with `always_items`.
        """
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
        """Return a gate that does not apply to these data.

        Parameters
        ----------
        detail : str
            The reason.
        withholds : bool
            Whether the gate would withhold the verdict if it failed.

        Returns
        -------
        Gate
            A gate without a result.
        """
        status = Status.NOT_APPLICABLE
        return Gate(
            self.name, status, None, float(self.threshold), self.source, detail, withholds=withholds
        )


def failed(gates: Sequence[Gate]) -> tuple[Gate, ...]:
    """Return the failed gates that withhold the verdict.

    Parameters
    ----------
    gates : sequence of Gate
        All gates of a cell.

    Returns
    -------
    tuple of Gate
        The failed ones.
    """
    return tuple(g for g in gates if g.status == Status.FAIL and g.withholds)


def ids_where(ids: Sequence[str], hit: Iterable[bool]) -> tuple[str, ...]:
    """Return the ids whose entry is true.

    Parameters
    ----------
    ids : sequence of str
        The ids.
    hit : iterable of bool
        One for each id.

    Returns
    -------
    tuple of str
        In their order.
    """
    return tuple(id_ for id_, included in zip(ids, hit, strict=True) if included)
