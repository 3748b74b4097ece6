"""Convert a gold field (index, letter, label or text) to the position of an option.

The module does no I/O.
"""

import re
from collections.abc import Sequence
from string import ascii_uppercase

from audit.core.errors import BenchmarkError

LETTERS = ascii_uppercase
_BRACKETED = re.compile(r"[(\[]? ?([A-Za-z0-9]) ?[)\].:]?")
_LETTERED = re.compile(r"\(?(?P<letter>[A-Za-z])(?P<end>[).:])\s*(?P<text>\S.*)", re.DOTALL)
ANSWER_FORMS = ("auto", "index", "letter", "text", "label")


def typed_index(value: object) -> int:
    """Convert a whole number (2, 2.0, "2") to int.

    Raises BenchmarkError for any other value, including True.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.strip().removeprefix("-").isdecimal():
        return int(value.strip())
    raise BenchmarkError(f"{value!r} is not a whole number; expected an index such as 2.")


def letter_index(value: object, count: int) -> int:
    """Return the position of the option that a letter names.

    Parameters
    ----------
    value : object
        A letter such as "C", "c" or "(C)".
    count : int
        Number of options.

    Returns
    -------
    int
        Position of the option, from 0.

    Raises
    ------
    BenchmarkError
        If the value is not a letter, or is not the letter of an option.
    """
    letter = bare(value) if isinstance(value, str) else ""
    allowed = LETTERS[:count]
    if len(letter) != 1 or letter.upper() not in allowed:
        raise BenchmarkError(
            f"gold {value!r} is outside the {count} options; expected a letter {_span(allowed)}."
        )
    return allowed.index(letter.upper())


def bare(text: str) -> str:
    """Return a letter or label without its brackets: "(B)", "B)" and "B." give "B".

    Any other text only loses the whitespace around it.
    """
    match = _BRACKETED.fullmatch(text.strip())
    return match[1] if match else text.strip()


def own_letters(options: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Separate option texts from the letters that they begin with, such as "(A) 5".

    Parameters
    ----------
    options : sequence of str
        Texts of the options.

    Returns
    -------
    tuple of tuple
        The letters, and the texts without the letters. If the options have no letters, the first
        tuple is empty and the second has the options unchanged.

    Notes
    -----
    "(A)" and "A)" count as letters if every option has a different one. "A." and "A:" may also be
    the beginning of a name ("E. coli"), so they count only if they are A, B, C, ... in order.
    """
    candidates = [_LETTERED.fullmatch(option) for option in options]
    matches = []
    for match in candidates:
        if match is not None:
            matches.append(match)
    letters = tuple(match["letter"].upper() for match in matches)
    in_order = "".join(letters) == LETTERS[: len(options)]
    bracketed = all(match["end"] == ")" for match in matches) and len(set(letters)) == len(options)
    if len(matches) < max(len(options), 2) or not (in_order or bracketed):
        return (), tuple(options)
    return letters, tuple(match["text"] for match in matches)


def label_index(value: object, labels: Sequence[str]) -> int:
    """Return the position of a label among the item's labels.

    Raises BenchmarkError if the item has no such label.
    """
    label = str(value).strip()
    if label not in labels:
        raise BenchmarkError(
            f"gold label {label!r} is not among the item's labels {', '.join(labels)}."
        )
    return list(labels).index(label)


def text_index(value: object, options: Sequence[str]) -> int:
    """Return the position of the option with a given text.

    Parameters
    ----------
    value : object
        The text of the right option. Case and whitespace are ignored, unless options differ only in
        them.
    options : sequence of str
        Texts of the options.

    Returns
    -------
    int
        Position of the option, from 0.

    Raises
    ------
    BenchmarkError
        If no option, or more than one, has this text.
    """
    text = str(value).strip()
    hits = _with_text(text, options)
    if len(hits) != 1:
        count = f"{len(hits) or 'no'} option{'s' if hits else ''}"
        raise BenchmarkError(
            f"gold text {text!r} is the text of {count}; expected one of: {' | '.join(options)}."
        )
    return hits[0]


def _with_text(text: str, options: Sequence[str]) -> list[int]:
    exact = []
    for i, option in enumerate(options):
        if option == text:
            exact.append(i)
    return exact or [i for i, option in enumerate(options) if _folded(option) == _folded(text)]


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def resolve_answer(
    value: object,
    options: Sequence[str],
    *,
    labels: Sequence[str] = (),
    form: str = "auto",
    base: int = 0,
) -> int:
    """Return the position of the gold option.

    Parameters
    ----------
    value : object
        The field that states the right answer, in any form.
    options : sequence of str
        Texts of the options.
    labels : sequence of str
        Labels of the options, if the item has any.
    form : str
        How to interpret the value: index, letter, text, label or auto. With auto, a number is an
        index, and a text is tried as a letter, a label and an option text.
    base : int
        Index of the first option.

    Returns
    -------
    int
        Position of the gold option, from 0.

    Raises
    ------
    BenchmarkError
        If the value identifies no option, or more than one. With auto, a value whose
        interpretations disagree is refused, such as "1" if an option with the text "1" is at
        another position.
    """
    if form not in ANSWER_FORMS:
        raise BenchmarkError(
            f"benchmark.answer_as={form!r}; expected one of {', '.join(ANSWER_FORMS)}."
        )
    if form == "index":
        return _shifted(typed_index(value), base, len(options))
    if form == "letter":
        return letter_index(value, len(options))
    if form == "label":
        return label_index(value, labels)
    if form == "text":
        return text_index(value, options)
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        raise BenchmarkError(
            "the gold answer is empty; expected an index, a letter or an option's text."
        )
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
    # The value has a letter and a text, such as "(A) 5".
    elif (lettered := _LETTERED.fullmatch(text)) and lettered["letter"].upper() in labels:
        index = label_index(lettered["letter"].upper(), labels)
        named = lettered["text"]
        if _with_text(named, options) != [index]:
            raise BenchmarkError(
                f"gold is {value!r}, but the text of option {lettered['letter']} is not {named!r}."
            )
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
        raise BenchmarkError(
            f"gold {value!r} is ambiguous: {ways}. Say which, such as benchmark.answer_as=index."
        )
    (index,) = set(readings.values())
    return index


def _shifted(index: int, base: int, count: int) -> int:
    if not base <= index < base + count:
        hint = (
            " (benchmark.index_base=1 for files that count from 1)"
            if base == 0 and index == count
            else ""
        )
        last = base + count - 1
        raise BenchmarkError(
            f"gold index {index} is outside the {count} options; expected {base}..{last}{hint}."
        )
    return index - base


def _span(letters: str) -> str:
    return f"{letters[0]}-{letters[-1]}" if len(letters) > 1 else letters or "(no options)"
