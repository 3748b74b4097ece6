"""Why a verdict stands, and what to do about it: a code with its numbers. Sentences are made of them in one place, from
the texts of each audit (`audit.<audit>.texts`).
"""

import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from audit.verdict.result import Gate, percent, points, pvalue, signed_points


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
        return (
            _FORMATS[format_spec](value) if format_spec in _FORMATS else str(super().format_field(value, format_spec))
        )
