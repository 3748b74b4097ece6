"""Define the parts that the verdict of every audit consists of: gates, reasons, the nearest
calibration, and numbers.

In verdict.json, a number that could not be computed is null, never 0.
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

# Significant digits of each float in verdict.json. Rounding makes equal shards give equal bytes.
SIGNIFICANT_DIGITS = 6

MAX_ITEMS = 50  # largest number of item ids that a gate lists


class Status(StrEnum):
    """Name the possible results of a gate: the gate passed, failed, or does not apply."""

    PASS = "pass"  # noqa: S105 - a gate's status, not a password
    FAIL = "fail"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True)
class Gate:
    """Hold the result of one check (gate) of whether a measurement can support a verdict.

    Attributes
    ----------
    number, threshold : float or None
        The measured number and the threshold with which it is compared.
    source : str
        The publication or rule from which the threshold comes.
    detail : str
        One sentence that states the result.
    advice : str
        What the user can do after a failure.
    withholds : bool
        True if a failure withholds the verdict; otherwise the failure is only reported.
    items : tuple of str
        Sorted ids of questions that caused the result, at most MAX_ITEMS.
    item_count : int
        Number of all questions that caused the result.
    numbers : dict
        Further numbers that the gate reports, by name.
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
    """Hold the calibrated design nearest to a run, and the audit's error rates in this design."""

    design: dict[str, bool | float | int | str]
    rates: dict[str, float | None]
    sentence: str


def rounded(value: float) -> float | None:
    """Return a float rounded as in verdict.json.

    Parameters
    ----------
    value : float
        Any float.

    Returns
    -------
    float or None
        The value with SIGNIFICANT_DIGITS digits and without a negative zero; None if it is not
        finite.
    """
    return plain(float(value), SIGNIFICANT_DIGITS)


def finite(value: float) -> float | None:
    """Return a float, or None if it is not finite.

    Parameters
    ----------
    value : float
        Any float.

    Returns
    -------
    float or None
        The value; None for NaN or infinity.
    """
    return float(value) if math.isfinite(value) else None


def json_text(value: Any) -> str:
    """Return a JSON value as the text of a file.

    Parameters
    ----------
    value : object
        A JSON value.

    Returns
    -------
    str
        JSON with sorted keys, an indent of two spaces and a final newline.
    """
    return json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def json_ready(value: Any) -> Any:
    """Convert a value to JSON types.

    Parameters
    ----------
    value : object
        Any nesting of numbers, texts, sequences and mappings.

    Returns
    -------
    object
        The JSON value; floats are rounded as in verdict.json.
    """
    return plain(value, SIGNIFICANT_DIGITS)


@dataclass(frozen=True)
class Reason:
    """Hold a reason or a piece of advice as the code of a sentence, with the numbers of the
    sentence.

    Attributes
    ----------
    code : str
        Key of the sentence in an audit's texts.
    numbers : mapping
        The numbers in the sentence, by name. Shares and differences are on the scale 0-1.
    sentence : str
        The whole sentence, if a gate has already written the sentence; otherwise "".
    """

    code: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    sentence: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the code and the numbers as in verdict.json.

        Returns
        -------
        dict
            The code under `code`, and a dict of the numbers by name under `numbers`. Shares and
            differences are on the scale 0-1.
        """
        return {"code": self.code, "numbers": dict(self.numbers)}


Texts = Mapping[str, str | Callable[..., str]]


def because(code: str, **numbers: Any) -> Reason:
    """Return the reason with the given code and numbers.

    Parameters
    ----------
    code : str
        Key of the sentence in an audit's texts.
    **numbers
        Numbers that the sentence contains, by name.

    Returns
    -------
    Reason
        The reason; its sentence is written later, by `sentence`.
    """
    return Reason(code, numbers)


def sentence(reason: Reason, texts: Texts) -> str:
    """Return the sentence of a reason.

    Parameters
    ----------
    reason : Reason
        Code and numbers.
    texts : mapping
        For each code, a template with fields such as `{gain:points}` (formats: `_FORMATS`), or a
        function from the numbers to a sentence.

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
    if reason.sentence:
        return reason.sentence
    text = texts[reason.code]
    return (
        text(**reason.numbers) if callable(text) else _Formatter().vformat(text, (), reason.numbers)
    )


def sentences(reasons: Iterable[Reason], texts: Texts) -> tuple[str, ...]:
    """Return the sentences of several reasons.

    Parameters
    ----------
    reasons : iterable of Reason
        Codes and numbers.
    texts : mapping
        Templates or functions by code, as for `sentence`.

    Returns
    -------
    tuple of str
        The sentences, in the order of the reasons.
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
        The advice, without repetitions.
    """
    advice = []
    for g in gates:
        if g.advice:
            advice.append(Reason(f"gate_{g.name}", {}, g.advice))
    return tuple(advice)


_FORMATS: Mapping[str, Callable[[Any], str]] = {
    "points": points,
    "signed": signed_points,
    # Format for the limit of an interval, in points.
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
    """Return how many questions were asked and how many are needed, for the gate `enough_data`.

    Parameters
    ----------
    questions : int
        Number of questions that were asked.
    needed : int or None
        Number of questions that the plan needs; None if no number of questions is enough.

    Returns
    -------
    dict
        The two numbers by name, in the format that `audit.judging.vocabulary.subtitle` expects.
    """
    return {"asked": float(questions), "needed": None if needed is None else float(needed)}


@dataclass(frozen=True)
class Rule:
    """Define a gate by its name, its threshold and the source of the threshold.

    Attributes
    ----------
    always_items : bool
        True if the result lists ids of questions even when the gate passed.
    """

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
        """Return the result of the gate for data to which the gate applies.

        Parameters
        ----------
        passed : bool
            True if the gate passed.
        number : float
            Number that is compared with the threshold.
        detail, advice : str
            One sentence that states the result, and what the user can do after a failure.
        withholds : bool
            True if a failure withholds the verdict.
        items : sequence of str
            Ids of the questions that caused the result.
        numbers : mapping, optional
            Further numbers to report, by name.

        Returns
        -------
        Gate
            The result. A passed gate has no advice, and it lists items only if `always_items` is
            True.
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
        """Return the result of the gate for data to which the gate does not apply.

        Parameters
        ----------
        detail : str
            Reason why the gate does not apply.
        withholds : bool
            True if a failure of the gate would withhold the verdict.

        Returns
        -------
        Gate
            A result that is neither a pass nor a failure.
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
        The failed gates whose failure withholds the verdict.
    """
    return tuple(g for g in gates if g.status == Status.FAIL and g.withholds)


def ids_where(ids: Sequence[str], hit: Iterable[bool]) -> tuple[str, ...]:
    """Return the ids that a mask selects.

    Parameters
    ----------
    ids : sequence of str
        All ids.
    hit : iterable of bool
        For each id, True if the id is selected.

    Returns
    -------
    tuple of str
        The selected ids, in the order of `ids`.
    """
    return tuple(id_ for id_, included in zip(ids, hit, strict=True) if included)
