r"""Compare answers in LaTeX: read the last \boxed{...} of a reply, and decide whether two answers
are equal.

The rule of the authors (hendrycks/math, math_equivalence.py) normalises the spelling and then
compares texts. This module follows that rule, with these additions:

- Numbers are compared by value (1/2, \frac{2}{4}, 0.5, 1\frac{1}{2}, 10^{3}).
- Tuples and intervals are compared part by part. Within brackets a comma separates parts: (1,234)
  is a pair.
- The order of a list without brackets does not matter.

Two different forms of one expression (x+1, 1+x) count as different answers. The module does no I/O.
"""

import re
from fractions import Fraction

from audit.benchmarks.number import closing, written_alone

_MAX = 1000  # Answers with more characters are compared without changes.
_BOX = re.compile(r"\\(?:boxed|fbox) ?\{|\\boxed (?=[-\d])")
_BARE_BOX = re.compile(r"[\s$]|[.,](?!\d)|$")  # end of the content of a box without braces
_JOINED = re.compile(
    r"[\s$,.\\()\[\]]{0,12}(?:\bor\b|\band\b|,|;|/)[\s$\\()\[\]]{0,12}", re.IGNORECASE
)
_UNIT = r"(?<=\d)\s*\\(?:text|mathrm|mbox)\{[a-z. ]+\}(?:\^\{?\d\}?)?$"
_COMMA = r"(?<=\d)(?:\{,\}|,\\!|\\?,)(?=\d{3}(?!\d))"
_DROPPED = re.compile(
    rf"{_UNIT}|{_COMMA}|\\left|\\right|\\[,;:!$%]|\\quad|\^\{{?\\circ\}}?|[%$~\s]"
)
_NAMED = re.compile(r"^\s*[a-zA-Z]\s*(?:=|\\in\b)")
_BARE = (
    (re.compile(r"\\[dt]frac"), r"\\frac"),
    (re.compile(r"\\frac(\w)(\w)"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\sqrt(\w)"), r"\\sqrt{\1}"),
    (re.compile(r"\\(?:text|mathrm|mbox|textbf)\{([^{}]*)\}"), r"\1"),
)
_SIZES = re.compile(r"\\(?:left|right|bigl?|bigr?)(?![A-Za-z])")
_WORD_SEPARATOR = re.compile(
    r"\\(?:text|mathrm|mbox) ?\{ ?,? ?(?:and|or) ?\}|(?<![\w\\])(?:and|or)(?!\w)"
)
_PAIRS = {"(": ")", "[": "]", "\\{": "\\}"}
_NESTING = {**dict.fromkeys("([{", 1), **dict.fromkeys(")]}", -1)}

Reading = tuple[str, Fraction | str | tuple["Reading", ...]]
"""("number", value), ("text", text), ("list", parts), or, between brackets, such as ("(]",
parts)."""


def boxed(text: str) -> str | None:
    r"""Return the content of the last \boxed{...}; None if there is no box, or if the last box is
    not closed."""
    boxes = list(_boxes(text))
    return boxes[-1][2].strip() or None if boxes else None


def one_box(text: str) -> tuple[str, int] | None:
    """Return the content of a reply's last box, and the position where the box ends.

    Returns
    -------
    tuple of str and int, or None
        The content and the position. None if there is no box, or if two different boxes are offered
        as alternatives ("3" or "5").
    """
    boxes = list(_boxes(text))
    if not boxes or not boxes[-1][2].strip():
        return None
    start, end, content = boxes[-1]
    if len(boxes) > 1 and boxes[-2][2] != content and _JOINED.fullmatch(text[boxes[-2][1] : start]):
        return None
    return content.strip(), end


def _boxes(text: str) -> list[tuple[int, int, str]]:
    """Return (start, end, content) of each box; an empty list if the last box is not closed."""
    boxes = []
    for box in _BOX.finditer(text):
        braced = box[0].endswith("{")
        end = closing(text, box.end()) if braced else _BARE_BOX.search(text, box.end()).start()  # type: ignore[union-attr]
        if end < 0:
            return []
        boxes.append((box.start(), end + braced, text[box.end() : end]))
    return boxes


def same_answer(first: str, second: str) -> bool | None:
    r"""Return whether two answers in LaTeX are equal.

    Parameters
    ----------
    first, second : str
        Answers in LaTeX.

    Returns
    -------
    bool or None
        True if the answers are equal, False if they differ. None if the result depends on how an
        answer is interpreted.

    Examples
    --------
    >>> same_answer("x = \\dfrac12", "0.50"), same_answer("(1, 2)", "(1,2)")
    (True, True)
    >>> same_answer("2\\sqrt3", "3\\sqrt2")
    False
    >>> same_answer("(1,234)", "(1234)"), same_answer("50\\%", "0.5")
    (None, None)
    """
    left, right = reading(first), reading(second)
    if left == right or _normalised(first) == _normalised(second):
        same_commas = first.count(",") == second.count(",") or left == right
        return True if same_commas else None
    bare = [re.sub(r"[\s,{}$()]|\\[,!;]", "", answer) for answer in (first, second)]
    if bare[0] == bare[1]:
        return None
    if ("%" in first) != ("%" in second) and left[0] == right[0] == "number":
        return None if left[1] in (right[1] * 100, right[1] / 100) else False  # type: ignore[operator]
    return False


def reading(answer: str) -> Reading:
    """Return the interpretation of an answer: number, text, unordered list, or parts in
    brackets."""
    if len(answer) > _MAX:
        return "text", answer
    text = _SIZES.sub(
        "", _NAMED.sub("", answer.strip().strip("$ ").removesuffix("."), count=1)
    ).strip()
    opening = next(filter(text.startswith, _PAIRS), "")
    if opening and text[-1] in (")", "]", "}") and _closes_last(text):
        inside = text[len(opening) : -1].removesuffix("\\")
        parts = _split(inside, brackets=True)
        if len(parts) > 1:
            within = tuple(_part(part.strip()) for part in parts)
            return ("list", _ordered(within)) if opening == "\\{" else (opening + text[-1], within)
        text = inside if opening != "\\{" and written_alone(inside, decimal_point=True) else text
    parts = _split(text, brackets=False)
    if len(parts) > 1:
        return "list", _ordered(tuple(map(reading, parts)))
    number = written_alone(text, decimal_point=True)
    if number is not None and number.value is not None:
        return "number", number.value
    return "text", _normalised(text)


def _part(text: str) -> Reading:
    """Return the interpretation of a part within brackets.

    "000" stays a text, because it may be the end of a number.
    """
    return ("text", text) if re.match(r"-?0\d", text) else reading(text)


def _ordered(parts: tuple[Reading, ...]) -> tuple[Reading, ...]:
    return tuple(sorted(parts, key=str))


def _closes_last(text: str) -> bool:
    """Return whether the bracket at the start of a text closes at the end of the text."""
    depth = 0
    for place, character in enumerate(text):
        depth += _NESTING.get(character, 0)
        if depth == 0 and character in ")]}":
            return place == len(text) - 1
    return False


def _split(text: str, *, brackets: bool) -> list[str]:
    """Return the parts of a list.

    Outside brackets, a comma before three digits is a thousands mark.
    """
    text = _WORD_SEPARATOR.sub(",", text) if not re.search(r"\d\s?\\text\{[^}]*\d", text) else text
    if (
        not brackets
        and not re.search(r",\s", text)
        and re.fullmatch(r"[^,]*\d(?:,\d{3})+(?!\d)[^,]*", text)
    ):
        return [text]
    parts, depth, start = [], 0, 0
    for place, character in enumerate(text):
        depth += _NESTING.get(character, 0)
        escaped = text[place - 1 : place] == "\\"
        braced = text[place - 1 : place + 2] == "{,}" or text[place : place + 2] == ",\\"
        if character in ",;" and depth == 0 and not escaped and not braced:
            parts.append(text[start:place])
            start = place + 1
    parts.append(text[start:])
    return [part for part in parts if part.strip()]


def _normalised(answer: str) -> str:
    if len(answer) > _MAX:
        return answer
    plain = _NAMED.sub("", _DROPPED.sub("", answer.strip()).removesuffix("."))
    for pattern, form in _BARE:
        plain = pattern.sub(form, plain)
    return plain
