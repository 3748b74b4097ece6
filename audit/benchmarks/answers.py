"""What a gold field means: index, letter, label or text -> position among the options (pure).

A generated text is read for the number that it answers by the authors' rule (openai/grade-school-math, dataset.py): the
number after `####`, thousands commas removed. A reply without the marker is read by its last number; a Markdown heading
that holds a number ("#### Step 2") is no marker. A marker without a number or with one that is not understood (3/4,
1e3), a reply without any number, and one that was cut off before its marker are unparsed, which is its own state and
never "wrong". Linear in the text.
"""

import re
from collections.abc import Sequence
from string import ascii_uppercase
from typing import NamedTuple

from audit.errors import BenchmarkError
from audit.prompting import strip_thinking

LETTERS = ascii_uppercase
_DRESSED = re.compile(r"[(\[]? ?([A-Za-z0-9]) ?[)\].:]?")
_LETTERED = re.compile(r"\(?(?P<letter>[A-Za-z])(?P<end>[).:])\s*(?P<text>\S.*)", re.DOTALL)
ANSWER_FORMS = ("auto", "index", "letter", "text", "label")


def typed_index(value: object) -> int:
    """A whole number as int (2, 2.0, "2"); anything else, True included, is a BenchmarkError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.strip().removeprefix("-").isdecimal():
        return int(value.strip())
    raise BenchmarkError(f"{value!r} is not a whole number; expected an index such as 2.")


def letter_index(value: object, count: int) -> int:
    """ "C" -> 2, and so are "c" and "(C)"; a letter beyond the options is a BenchmarkError."""
    letter = bare(value) if isinstance(value, str) else ""
    allowed = LETTERS[:count]
    if len(letter) != 1 or letter.upper() not in allowed:
        raise BenchmarkError(f"gold {value!r} is outside the {count} options; expected a letter {_span(allowed)}.")
    return allowed.index(letter.upper())


def bare(text: str) -> str:
    """A letter, or a label, out of its brackets: "(B)", "B)" and "B." -> "B"; another text as it is, stripped."""
    found = _DRESSED.fullmatch(text.strip())
    return found[1] if found else text.strip()


def own_letters(options: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(letters, texts) of options that carry their own letter, such as "(A) 5"; ((), options) where they do not.

    "(A)" and "A)" count where every option has one, each another; "A." and "A:" begin names too ("E. coli") and count
    only as A, B, C, ... in order.
    """
    found = [_LETTERED.fullmatch(option) for option in options]
    matches = [match for match in found if match]
    letters = tuple(match["letter"].upper() for match in matches)
    in_order = "".join(letters) == LETTERS[: len(options)]
    bracketed = all(match["end"] == ")" for match in matches) and len(set(letters)) == len(options)
    if len(matches) < max(len(options), 2) or not (in_order or bracketed):
        return (), tuple(options)
    return letters, tuple(match["text"] for match in matches)


def label_index(value: object, labels: Sequence[str]) -> int:
    """The position of a label among the item's own labels."""
    label = str(value).strip()
    if label not in labels:
        raise BenchmarkError(f"gold label {label!r} is not among the item's labels {', '.join(labels)}.")
    return list(labels).index(label)


def text_index(value: object, options: Sequence[str]) -> int:
    """The position of the option with this text; it must be one. Case and whitespace count only where they decide."""
    text = str(value).strip()
    hits = _with_text(text, options)
    if len(hits) != 1:
        found = f"{len(hits) or 'no'} option{'s' if hits else ''}"
        raise BenchmarkError(f"gold text {text!r} is the text of {found}; expected one of: {' | '.join(options)}.")
    return hits[0]


def _with_text(text: str, options: Sequence[str]) -> list[int]:
    exact = [i for i, option in enumerate(options) if option == text]
    return exact or [i for i, option in enumerate(options) if _folded(option) == _folded(text)]


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def resolve_answer(
    value: object, options: Sequence[str], *, labels: Sequence[str] = (), form: str = "auto", base: int = 0
) -> int:
    """Position of the gold option.

    form: index (counted from `base`), letter, text, label, or auto. auto: a number is an index and a text is whatever
    it can be; when the readings disagree ("1" with an option "1" at another place) the row is refused, not guessed.
    Raises BenchmarkError when no option, or more than one, is meant.
    """
    if form not in ANSWER_FORMS:
        raise BenchmarkError(f"benchmark.answer_as={form!r}; expected one of {', '.join(ANSWER_FORMS)}.")
    if form == "index":
        return _shifted(typed_index(value), base, len(options))
    if form == "letter":
        return letter_index(value, len(options))
    if form == "label":
        return label_index(value, labels)
    if form == "text":
        return text_index(value, options)
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        raise BenchmarkError("the gold answer is empty; expected an index, a letter or an option's text.")
    if not isinstance(value, str):
        return _shifted(typed_index(value), base, len(options))
    return _auto(value, options, labels, base)


def _auto(value: str, options: Sequence[str], labels: Sequence[str], base: int) -> int:
    text, letter, n = value.strip(), bare(value), len(options)
    readings: dict[str, int] = {}
    kind, names = ("label", labels) if labels else ("letter", tuple(LETTERS[:n]))
    name = letter if letter in names else letter.upper()
    if name in names:
        readings[kind] = names.index(name)
    elif (lettered := _LETTERED.fullmatch(text)) and lettered["letter"].upper() in labels:  # the gold is "(A) 5"
        index = label_index(lettered["letter"].upper(), labels)
        named = lettered["text"]
        if _with_text(named, options) != [index]:
            raise BenchmarkError(f"gold {value!r}: option {lettered['letter']} does not read {named!r}.")
        return index
    if _with_text(text, options):
        readings["text"] = text_index(text, options)
    if not labels and text.isdecimal() and base <= int(text) < base + n:
        readings["index"] = int(text) - base
    if not readings:
        known = f"an index {base}..{base + n - 1}, a letter {_span(LETTERS[:n])}, or"
        where = f"outside the {n} options; expected {known}"
        if labels:
            where = f"not among the item's labels {', '.join(labels)}, nor"
        raise BenchmarkError(f"gold {value!r} is {where} one of: {' | '.join(options)}.")
    if len(set(readings.values())) > 1:
        ways = ", ".join(f"as {way} option {index + 1}" for way, index in readings.items())
        raise BenchmarkError(f"gold {value!r} is ambiguous: {ways}. Say which, such as benchmark.answer_as=index.")
    (index,) = set(readings.values())
    return index


def _shifted(index: int, base: int, count: int) -> int:
    if not base <= index < base + count:
        hint = " (benchmark.index_base=1 for files that count from 1)" if base == 0 and index == count else ""
        last = base + count - 1
        raise BenchmarkError(f"gold index {index} is outside the {count} options; expected {base}..{last}{hint}.")
    return index - base


def _span(letters: str) -> str:
    return f"{letters[0]}-{letters[-1]}" if len(letters) > 1 else letters or "(no options)"


MARKER = "####"
NUMBER_ALONE = re.compile(r"-?\$?[\d,]*\d(\.\d+)?")
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
