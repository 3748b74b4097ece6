"""Generated text -> the number it answers (reading `number`; GSM8K).

The authors' rule (openai/grade-school-math, dataset.py): the number after `####`, thousands commas removed. A reply
without the marker is read by its last number; a Markdown heading that holds a number ("#### Step 2") is no marker. A
marker without a number or with one that is not understood (3/4, 1e3), a reply without any number, and a reply that was
cut off before its marker are unparsed, which is its own state and never "wrong". Pure, and linear in the text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from audit.prompting.thinking import strip_thinking

MARKER = "####"
RELATIVE_TOLERANCE = 1e-9  # of one decimal written in two ways ("0.3", "0.30"); far below any difference that is meant

_DIGITS = r"(?P<digits>(?:\d{1,3}(?:,\d{2,3})*,\d{3}(?!\d)|\d+)(?:\.\d+)?|\.\d+)"
# "-3" after a space or a sign is a number; "16-3" and "16 - 3" are subtractions and hold 3; "= - 3" is a number again.
_MINUS = r"(?P<minus>(?<![\w)\]])-(?=[\d.$€£])|(?:(?<=[=:])|(?<=[=:]\s)|^)-\s)?"
_NUMBER = re.compile(rf"{_MINUS}[$€£]?(?P<minus2>(?<=[$€£])-)?\s?{_DIGITS}", re.MULTILINE)
_LATEX_COMMA = re.compile(r"(?<=\d)(?:\{,\}|,\\!|\\[,;!])(?=\d{3})")  # 1{,}000; 1,\!000; 1\,000
_LISTED = re.compile(r"[.:)]\s+[A-Za-z*]")  # "#### 2. Money": a step of a list
_GOES_ON = re.compile(r"\s?/\s?\d|[eE][+-]?\d|\s\d{3}(?!\d)|\s?(?:thousand|million|billion)\b", re.IGNORECASE)


class NumberAnswer(NamedTuple):
    """`value` is None when no number could be read. `form`: "marked" (after ####), "last", or "none"."""

    value: float | None
    form: str


UNREAD = NumberAnswer(None, "none")


def read_number(text: str, *, truncated: bool = False) -> NumberAnswer:
    """The number that a reply gives as its answer.

    truncated: the reply was cut off at its token limit; without a marker its last number is a step, not an answer.

    >>> read_number("9 * 2 = $18 a day.\\n#### 1,018")
    NumberAnswer(value=1018.0, form='marked')
    >>> read_number("So she makes $18.50 a day.")
    NumberAnswer(value=18.5, form='last')
    """
    visible = _LATEX_COMMA.sub(",", strip_thinking(text).text.replace("\u2212", "-"))
    for after in reversed(visible.split(MARKER)[1:]):
        line = after.split("\n", 1)[0]
        line = line.rpartition("=")[2]  # "#### 9 * 2 = 18"
        first = _NUMBER.search(line)
        if first is None or _GOES_ON.match(line, first.end()):
            return UNREAD
        if not any(c.isalnum() for c in line[: first.start()]) and not _LISTED.match(line, first.end()):
            return NumberAnswer(_value(first), "marked")
    found = [] if truncated else list(_NUMBER.finditer(visible))
    return NumberAnswer(_value(found[-1]), "last") if found else UNREAD


def same_number(value: float, target: float) -> bool:
    """Whether two numbers are one, written perhaps with other trailing digits (relative error 1e-9)."""
    return abs(value - target) <= RELATIVE_TOLERANCE * max(abs(value), abs(target), 1.0)


def score_number(text: str, target: float, *, truncated: bool = False) -> tuple[NumberAnswer, bool | None]:
    """The answer as read, and whether it is right; None when nothing could be read."""
    answer = read_number(text, truncated=truncated)
    return answer, None if answer.value is None else same_number(answer.value, target)


def _value(match: re.Match[str]) -> float:
    sign = -1.0 if match["minus"] or match["minus2"] else 1.0
    return sign * float(match["digits"].replace(",", ""))
