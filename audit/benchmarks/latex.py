"""An answer as MATH has it, in LaTeX: what a reply's last \\boxed{...} holds, and whether two answers are one. Pure.

The authors' rule (hendrycks/math, math_equivalence.py): one way of writing each, then equality of texts. Beyond it,
fractions and decimals are equal by value (1/2, \\frac{2}{4}, 0.5). Two forms of one expression (x+1, 1+x) are not.
"""

import re
from fractions import Fraction

BOX = "\\boxed{"
_MAX = 1000  # characters of an answer; a longer one is compared as it is
_UNIT = r"(?<=\d)\s*\\(?:text|mathrm|mbox)\{[a-z. ]+\}(?:\^\{?\d\}?)?$"
_COMMA = r"(?<=\d)(?:\{,\}|,\\!|\\?,)(?=\d{3}(?!\d))"
_DROPPED = re.compile(rf"{_UNIT}|{_COMMA}|\\left|\\right|\\[,;:!$%]|\\quad|\^\{{?\\circ\}}?|[%$~\s]")
_NAMED = re.compile(r"^[a-zA-Z]=")
_BARE = (
    (re.compile(r"\\[dt]frac"), r"\\frac"),
    (re.compile(r"\\frac(\w)(\w)"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\sqrt(\w)"), r"\\sqrt{\1}"),
    (re.compile(r"\\(?:text|mathrm|mbox|textbf)\{([^{}]*)\}"), r"\1"),
)
_RATIO = re.compile(r"(-?)(?:\\frac\{(-?\d{1,30})\}\{(-?\d{1,30})\}|(\d{1,30})/(\d{1,30})|(\d{0,30}(?:\.\d{0,30})?))")


def boxed(text: str) -> str | None:
    """What the last \\boxed{...} holds; None where there is none, or it does not end."""
    start, depth = text.rfind(BOX), 0
    if start < 0:
        return None
    for place in range(start + len(BOX) - 1, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[start + len(BOX) : place].strip() or None
    return None


def same_answer(one: str, other: str) -> bool:
    """Whether two answers in LaTeX are one.

    >>> same_answer("x = \\\\dfrac12", "0.50"), same_answer("(1, 2)", "(1,2)"), same_answer("2\\\\sqrt3", "3\\\\sqrt2")
    (True, True, False)
    """
    first, second = _one_way(one), _one_way(other)
    return first == second or (exact(first) is not None and exact(first) == exact(second))


def exact(answer: str) -> Fraction | None:
    """The rational number that an answer is; None for anything else."""
    found = _RATIO.fullmatch(answer)
    if found is None or not any(character.isdigit() for character in answer):
        return None
    sign, top, bottom, up, down, decimal = found.groups()
    if decimal:
        value = Fraction(f"0{decimal}" if decimal.startswith(".") else decimal.removesuffix("."))
    elif not int(bottom or down):
        return None
    else:
        value = Fraction(int(top or up), int(bottom or down))
    return -value if sign else value


def _one_way(answer: str) -> str:
    if len(answer) > _MAX:
        return answer
    told = _NAMED.sub("", _DROPPED.sub("", answer.strip()).removesuffix("."))
    for pattern, form in _BARE:
        told = pattern.sub(form, told)
    return told
