"""Read a written number exactly, or not at all.

If two conventions read a spelling as different numbers, the spelling has no value. These rules are
applied in order:

1. If a number has a comma and a point, the last of them is the decimal mark ("1,234.50",
   "1.234,50").
2. Equal marks between groups of three digits are thousands marks ("1,234,567", "1.234.567", "1 234
   567"). Commas may also be placed as in India ("1,00,000"). Spaces and apostrophes are never
   decimal marks.
3. A point is a decimal point if one, two or more than three digits follow, or if a zero precedes
   ("18.5", "0.125").
4. A comma before exactly three digits is a thousands mark, unless another number of the text has a
   decimal comma.
5. Two spellings are ambiguous: a point before exactly three digits ("1.234"), and a comma before
   another number of digits ("3,5"). They have a value only if other numbers of the text show the
   decimal mark, and all show the same mark. Prices are an exception: "12,50 €" has the value 12.5.

The time is linear in the length of the text, because every repetition in a pattern is bounded. The
module does no I/O.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from unicodedata import decimal, numeric

RELATIVE_TOLERANCE = (
    1e-9  # Allows for the rounding of equal decimals ("0.3", "0.30"); real differences are larger.
)
MAX_DIGITS = 30
MAX_POWER = 99

_MAGNITUDES = {
    "hundred": 2,
    "thousand": 3,
    "lakh": 5,
    "million": 6,
    "crore": 7,
    "billion": 9,
    "trillion": 12,
    "k": 3,
    "K": 3,
    "M": 6,
    "mn": 6,
    "B": 9,
    "bn": 9,
}
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
# Characters that look alike are replaced by one of them: "'" separates groups of digits, "−" is a
# minus, and "-" may be a hyphen or a minus.
_MARKS = {
    **dict.fromkeys("\u00a0\u2007\u2009\u202f\u2008\u200a", "\u202f"),
    **dict.fromkeys("’‘ʼ´", "'"),
    **dict.fromkeys("‐‑–﹣－", "-"),
    "٬": "'",
    "⁄": "/",
    "∕": "/",
    "：": ":",
    "，": ", ",
    "。": ". ",
    "＝": "=",
    "·": "×",
    "⋅": "×",
    "∙": "×",
    "✕": "×",
    "⇒": "=",
    "→": "=",
    "∴": "=",
    "º": "°",
    "˚": "°",
    "％": "%",
    "٪": "%",
    "＄": "$",
    "“": '"',
    "”": '"',
    "\u200b": "",
    "\ufeff": "",
    "\u200e": "",
    "\u200f": "",
}
# Each entry is (character, pattern, replacement). The entries are applied in this order to texts
# that contain the character.
_REWRITES = tuple(
    (needed, re.compile(pattern), form)
    for needed, pattern, form in (
        (",", r"(?<=\d)(?:\{,\}|,\\!|,\\,)(?=\d{3})", ","),
        ("{", r"(?<=\d)\{([.,])\}(?=\d)", r"\1"),
        ("\\", r"(?<=\d)\\[,;: ](?=\d{3})", "\u202f"),
        ("~", r"(?<=\d)~(?=\d{3})", "\u202f"),
        ("$", r"\\\$|\\text\{ ?\\?\$ ?\}|\b(?:US|CA|A|C|NZ)\$", "$"),
        ("D", r"\b(?:USD) (?=\d)", "$"),
        ("E", r"\b(?:EUR) (?=\d)", "$"),
        ("\\", r"\\%", "%"),
        (
            "\\",
            r"\\(?:left|right|displaystyle|quad|qquad|bigl?|bigr?)(?![A-Za-z])|\\[,;:!]|\\ |\\[()\[\]]",
            " ",
        ),
        (
            "\\",
            r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|operatorname|mathit|bf)\s?\{([^{}]{0,200})\}",
            r" \1 ",
        ),
        ("\\", r"\^\s?\{\s?\\(?:circ|degree)\s?\}|\^?\s?\\(?:circ|degree)(?![A-Za-z])", "°"),
        ("\\", r"\\(?:times|cdot)(?![A-Za-z])", "×"),
        ("\\", r"\\div(?![A-Za-z])", "÷"),
        ("\\", r"\\(?:approx|simeq|sim)(?![A-Za-z])", "≈"),
        ("\\", r"\\pm(?![A-Za-z])", "±"),
        ("\\", r"\\(?:Rightarrow|implies|to|therefore)(?![A-Za-z])", "="),
        (">", r"[=-]>", "="),
        ("^", r"\^\s?\{\s?([-−]?\d{1,4})\s?\}", r"^\1"),
        ("*", r"(?<=[\d)])\*\*(?=[-−]?\d)", "^"),
        ("*", r"(?<=[\d)%])\s?\*\s?(?=[-\d($]|\.\d)", "×"),
        ("*", r"(?<=\s)\*(?=\s)", "×"),
        ("^", r"(?<=[A-Za-z]) ?\^-?\d(?!\d)", ""),
        ("", r"(?<=[A-Za-z])[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]{1,3}", ""),
        ("[", r"(?<=[\w.,;!?%)>])\[\d{1,3}\](?!\d)", ""),
        ("€", r"(\d),(\d\d)(?=\s?€)|(?<=€)(\d{1,3}),(\d\d)(?!\d)", r"\1\3٫\2\4"),
        ("*", r"\*{1,3}", ""),
        ("_", r"(?<!\w)__?(?=\S)|(?<=\S)__?(?!\w)", ""),
        ("", r"(?<=[\w)])[$€£¥₹](?=\w)", " "),
        ("", r"[$€£¥₹] ?(?=[-−.\d])|[$€£¥₹]", ""),
    )
)
_FRACTION = re.compile(
    r"\\[dtc]?frac\s?(?:\{\s?([-−]?\d{1,15})\s?\}|(\d))\s?(?:\{\s?(\d{1,15})\s?\}|(\d))"
)
_POWER = re.compile(r"(?<=\d)[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]{1,4}")
_UNICODE_FRACTION = re.compile("[¼½¾⅐-⅞]")

_DIGITS = re.compile(r"-?\d{1,15}", re.ASCII)
_RUN = re.compile(
    r"(?:\d{1,60}|(?<!\d)\.\d{1,60})(?:[.,'\u202f٫]\d{1,60}| (?=\d{3}(?!\d))\d{3}){0,20}"
)
_WORD_AFTER = re.compile(r"[ \u202f-]?([A-Za-z]{2,12})\b")
_SCIENTIFIC = re.compile(r"[eE]([+-]?\d{1,3})(?![\w])|\s?[×x]\s?10\^([-−]?\d{1,3})(?![\d^])")
_EXPONENT = re.compile(r"\^([-−]?\d{1,3})(?![\d^.])")
_SLASHED = re.compile(r"\s?/\s?(\d{1,15})(?![\d.,]\d|\s?/|\d)")
_MIXED = re.compile(r"[ \u202f]{1,2}(\d{1,6})\s?/\s?(\d{1,6})(?![\d.,]\d|\s?/|\d)")
_HALF = re.compile(r" and (?:a|one) half\b")
_PERCENT = re.compile(r"\s?%|[ -]per ?cent(?:age points?)?\b")
_ATTACHED = re.compile(r"[A-Za-z]{1,20}")
_NO_VALUE_AFTER = re.compile(
    r"\s?[\^×÷√π±\\≤≥⁰¹²³⁴-⁹]|\s?\*|\s?\+|_|\.\.|…|\||\s?[<>](?![/a-z|])|\s?(?:[ap]\.?m\b|o'clock)|:\d"
    r"|\s?/\s?\d|\s?/\s?[A-Za-z]\b|'\d|\(\d"
    r"|[ -](?:and (?:a|an|one|two|three|four) (?:half|thirds?|quarters?|fourths?|fifths?|sixths?|eighths?)"
    r"|hundred|thousand|lakh|crore|million|billion|trillion)"
    r"|[ -](?:dozens?|score|gross|squared|cubed|factorial|(?:degrees )?below|half|halves|thirds?|quarters?"
    r"|fourths?|fifths?|sixths?|sevenths?|eighths?|ninths?|tenths?|hundredths?|thousandths?)\b"
    r"| [xyznkbpqruvwijt]\b(?!')|-[A-Za-z]| (?:or|and) (?:so|more|fewer|less)\b",
    re.IGNORECASE,
)
_MEGA = re.compile(r" (?:[MBT]|bn|mn|tn|mil)\b(?!')")
_NO_VALUE_BEFORE = re.compile(
    r"(?:[+×÷*/^√π±<>≤≥—]\s?|\||\\[A-Za-z]{1,20}\s?\{?|(?<=[A-Za-z])\(|\b\d[:'/]|[)}]"
    r"|\b(?:minus|plus|times|root of|half(?: of)?|twice|double|triple|squared?|hundred(?: and)?|thousand(?: and)?"
    r"|million(?: and)?|billion(?: and)?|(?:more|less|fewer|greater|higher|lower|larger|smaller) than|not|nor|isn't"
    r"|almost|nearly|under|over|below|above) )$",
    re.IGNORECASE,
)
_LABEL_BEFORE = re.compile(
    r"(?:[A-Za-z_^]|[A-Za-z\d]\.|(?<![#\s])#|\b(?:step|steps|question|option|part|case|method|figure|table|example"
    r"|problem|exercise|equation|eq\.|no\.|day|week|month|year|chapter|page|version|line|note|room|bus|gate"
    r"|flight|route|channel|apartment|apt\.) #?)$",
    re.IGNORECASE,
)
_UNIT = re.compile(r"(?:°? ?[A-Za-z°%]{0,15}\d?\.?(?: ?/ ?| |$)){0,3}")
# This pattern matches "(1,234)", which may be one number or two.
_PAIR = re.compile(r"[(\[]\s?-?\d{1,3}(?:,\d{3}){1,9}\s?[)\]]")
_ORDINALS = ("st", "nd", "rd", "th")
_ATTACHED_UNIT = re.compile(
    r"k?g|mg|lbs?|oz|[kcm]m|mi|ft|yd|in|hr?s?|mins?|secs?|ms|[mcd]?[lL]|k?Wh?|V|[kMG]?Hz|[kMGT]B|mph|kph|kmh|C|F|USD|EUR|GBP"
    r"|dollars|cents|euros|pounds|people|hours|minutes|seconds|days|percent"
)


@dataclass(frozen=True, slots=True)
class Written:
    """Hold one number that a text contains.

    Parameters
    ----------
    start, end : int
        Position of the number in the prepared text.
    value : Fraction or None
        Value of the number; None if its spelling is ambiguous.
    percent : bool
        True if a percent sign follows. The value is the number before the sign.
    """

    start: int
    end: int
    value: Fraction | None
    percent: bool = False


def one_number(text: str, *, decimal_point: bool = False) -> Fraction | None:
    r"""Return the number that a text consists of, apart from its unit and formatting.

    Parameters
    ----------
    text : str
        The text. A sign, a currency, a percent sign, Markdown or LaTeX around the number, and a
        unit after it, are removed: "$1,234.50", "**18** apples", "6\frac{1}{2}", "2.5 million", "25
        %" (25). A text with other words, an expression or a range has no value.
    decimal_point : bool
        True reads a single point before three digits as a decimal point too ("1.125"), as in files
        that programs write.

    Returns
    -------
    Fraction or None
        The number; None if the text has no number, several numbers, or an ambiguous one.

    Examples
    --------
    >>> one_number("1.234,50 EUR"), one_number("1 1/2"), one_number("3 to 5"), one_number("1.234")
    (Fraction(2469, 2), Fraction(3, 2), None, None)
    """
    number = written_alone(text, decimal_point=decimal_point)
    return None if number is None else number.value


def written_alone(text: str, *, decimal_point: bool = False) -> Written | None:
    """Return the number of a text that consists of a number, formatting and a unit (see
    `one_number`).

    Return None if the text contains anything else.
    """
    if len(text) > 200:
        return None
    return _alone(prepared(text).strip().strip("\"'"), "." if decimal_point else None)


def values_alone(text: str) -> frozenset[Fraction]:
    """Return every value that a text can have, with a point or with a comma as decimal mark.

    Parameters
    ----------
    text : str
        A short text. A percentage also means its hundredth.

    Returns
    -------
    frozenset of Fraction
        The values. The set is empty if the spelling is ambiguous and only one of the two decimal
        marks gives it a value. An example is "3,5", which may also be a list.

    Examples
    --------
    >>> sorted(map(float, values_alone("1.234"))), values_alone("18.5"), values_alone("25 %")
    ([1.234, 1234.0], frozenset({Fraction(37, 2)}), frozenset({Fraction(1, 4), Fraction(25, 1)}))
    """
    if _DIGITS.fullmatch(text):
        return frozenset((Fraction(int(text)),))
    plain = prepared(text).strip().strip("\"'") if len(text) <= 200 else ""
    numbers = [_alone(plain, mark) for mark in (None, ".", ",")]
    values: set[Fraction] = set()
    for number in numbers:
        if number is not None:
            values.update(_values(number))
    return frozenset(values if numbers[0] is not None or len(values) > 1 else ())


def _values(number: Written) -> Iterator[Fraction]:
    if number.value is not None:
        yield number.value
        if number.percent:
            yield number.value / 100


def _alone(plain: str, mark: str | None) -> Written | None:
    numbers = list(numbers_in(plain, mark, alone=True))
    if len(numbers) != 1 or numbers[0].value is None:
        return None
    (number,) = numbers
    before, after = plain[: number.start].strip(" (["), plain[number.end :].strip(" )].:;,")
    return number if not before and not _PAIR.match(plain) and _UNIT.fullmatch(after) else None


def same_number(value: float, target: float) -> bool:
    """Return whether two numbers are equal except for rounding (relative error 1e-9)."""
    return abs(value - target) <= RELATIVE_TOLERANCE * max(abs(value), abs(target), 1.0)


def prepared(text: str) -> str:
    """Return a text with ASCII digits, one character for each kind of mark, and no formatting.

    Markdown, LaTeX formatting and currencies are removed. Everything that changes a number is kept:
    LaTeX commands of mathematics, operators and line breaks.
    """
    if not text.isascii():
        text = "".join(map(_character, text))
        text = _UNICODE_FRACTION.sub(_unicode_fraction, text)
        text = _POWER.sub(lambda power: "^" + power[0].translate(_SUPERSCRIPTS), text)
    text = text.replace("`", "")
    for place, (needed, pattern, form) in enumerate(_REWRITES):
        if place == 2 and "frac" in text:
            text = _FRACTION.sub(_fraction, text)
        if needed in text:
            text = pattern.sub(form, text)
    return text


def _character(character: str) -> str:
    if character < "\x7f":
        return character
    value = decimal(character, None)
    return _MARKS.get(character, character) if value is None else str(value)


def _unicode_fraction(match: re.Match[str]) -> str:
    value = Fraction(numeric(match[0])).limit_denominator(10)
    follows = match.start() and match.string[match.start() - 1].isdigit()
    return f"{' ' if follows else ''}{value.numerator}/{value.denominator}"


def _fraction(match: re.Match[str]) -> str:
    """Return a LaTeX fraction as "1/2".

    A fraction after a variable or a bracket is part of a product, which has no value.
    """
    before = match.string[max(0, match.start() - 1) : match.start()]
    product = " " if before.isdigit() else ""
    if before.isalpha() or before in tuple(")}"):
        product = "×"
    return f"{product}{match[1] or match[2]}/{match[3] or match[4]}"


def numbers_in(text: str, mark: str | None = None, *, alone: bool = False) -> Iterator[Written]:
    """Yield the numbers of a prepared text, in order.

    Parameters
    ----------
    text : str
        A prepared text. Digits that belong to a name are skipped: "m2", "step 3", "5th", and a
        number at the start of a list entry.
    mark : str or None
        Decimal mark of the text ("." or ","; see `decimal_mark`); None if unknown.
    alone : bool
        True if the text must be a single number, so that "10 000" is not two numbers.

    Yields
    ------
    Written
        A number; its value is None if the spelling is ambiguous.
    """
    at = 0
    while True:
        run = _RUN.search(text, at)
        if run is None:
            return
        at = run.end()
        before = text[max(0, run.start() - 40) : run.start()]
        written, is_name = _written(text, run, before, mark, alone)
        at = max(at, written.end)
        if not is_name:
            yield written


def _written(
    text: str, run: re.Match[str], before: str, mark: str | None, alone: bool
) -> tuple[Written, bool]:
    """Return the number that begins with a series of digits, and whether the number is part of a
    name."""
    end = run.end()
    if run[0].startswith(".") and before[-1:].isalnum():
        return Written(run.start(), end, None), False
    opens_a_line = not before or before.endswith("\n") or (not before.strip() and run.start() < 40)
    if _LABEL_BEFORE.search(before) or (
        opens_a_line and re.match(r"[.)]\s+[^\s\d]", text[end : end + 4])
    ):
        return Written(run.start(), end, None), True
    value = run_value(run[0], mark, alone)
    value, end, ordinal = _with_suffix(text, run[0], end, value)
    percent = _PERCENT.match(text, end)
    if percent:
        end = percent.end()
    after = text[end : end + 30]
    if _NO_VALUE_AFTER.match(after) or _MEGA.match(after):
        value = None
    start, sign = _signed(text, run.start(), before)
    before = text[max(0, start - 40) : start]
    if sign is None or _NO_VALUE_BEFORE.search(before):
        value, sign = None, 1
    return Written(
        start, end, None if value is None else sign * value, percent is not None
    ), ordinal


# The parts are the value of a number, the position where it ends, and whether it is an ordinal
# number.
Suffixed = tuple[Fraction | None, int, bool]


def _with_suffix(text: str, run: str, end: int, value: Fraction | None) -> Suffixed:
    """Return the value with its fraction, power or magnitude.

    The result also states where the number ends, and whether it is an ordinal number.
    """
    whole = value if run.isdigit() else None
    for pattern, read in _SUFFIXES:
        if match := pattern.match(text, end):
            return read(value, whole, match), match.end(), False
    if match := _ATTACHED.match(text, end):
        return _with_letters(text, run, match, value)
    if match := _HALF.match(text, end):
        return (None if whole is None else whole + Fraction(1, 2)), match.end(), False
    if (
        (match := _WORD_AFTER.match(text, end))
        and len(match[1]) > 2
        and match[1].lower() in _MAGNITUDES
    ):
        more = _GOES_ON.match(text[match.end() :][:12])
        times: int = 10 ** _MAGNITUDES[match[1].lower()]
        return (None if value is None or more else value * times), match.end(), False
    return value, end, False


# This text follows a word such as million if the number continues after the word.
_GOES_ON = re.compile(r" and (?:a|\d)|[ ,]{1,2}\d| (?:hundred|thousand|million|billion)")


def _scientific(
    value: Fraction | None, _: Fraction | None, match: re.Match[str]
) -> Fraction | None:
    return _times_power(value, Fraction(10), match[1] or match[2])


def _power(value: Fraction | None, whole: Fraction | None, match: re.Match[str]) -> Fraction | None:
    return _times_power(None if whole is None else Fraction(1), value or Fraction(0), match[1])


def _over(_: Fraction | None, whole: Fraction | None, match: re.Match[str]) -> Fraction | None:
    return whole / int(match[1]) if whole is not None and int(match[1]) else None


def _mixed(_: Fraction | None, whole: Fraction | None, match: re.Match[str]) -> Fraction | None:
    """Return the sum of a whole number and a proper fraction; None if the fraction is improper."""
    top, bottom = int(match[1]), int(match[2])
    return whole + Fraction(top, bottom) if whole is not None and 0 < top < bottom else None


# Suffixes that may follow digits, in the order in which they are tried: the pattern, and a function
# from (value, value if it is whole, match) to the new value.
_SUFFIXES = ((_SCIENTIFIC, _scientific), (_EXPONENT, _power), (_SLASHED, _over), (_MIXED, _mixed))


def _with_letters(text: str, run: str, match: re.Match[str], value: Fraction | None) -> Suffixed:
    letters, end = match[0], match.end()
    if letters.lower() in _ORDINALS and run.isdigit():
        return None, end, True
    if letters in _MAGNITUDES:
        return (None if value is None else value * 10 ** _MAGNITUDES[letters]), end, False
    area = re.compile(r"[23²³](?!\w)").match(text, end)
    unit = _ATTACHED_UNIT.fullmatch(letters) or (letters == "m" and area)
    if not unit or text[end : end + 1] in ("(", "_", "^", "{"):
        return None, end, False
    if text[end : end + 1].isdigit() and not area:
        return None, end, False
    return value, area.end() if area else end, False


def _times_power(value: Fraction | None, base: Fraction, exponent: str) -> Fraction | None:
    power = int(exponent.replace("−", "-"))
    if value is None or abs(power) > MAX_POWER or (not base and power <= 0) or base > 10**6:
        return None
    return value * base**power


def _signed(text: str, start: int, before: str) -> tuple[int, int | None]:
    """Return the position where a number with its sign begins, and the sign.

    The sign is None if it is unclear whether a dash is a minus.
    """
    if before.endswith("negative "):
        return start - len("negative "), -1
    match = re.search(r"([-−+–])( ?)$", before)
    if match is None:
        return start, 1
    place = start - len(match[0])
    left = before[: match.start()]
    close = left.rstrip(" ")
    if close and (close[-1].isdigit() or close[-1] in ")]}%°" or left[-1:].isalnum()):
        return place, None  # The dash is a subtraction, a range or a hyphen.
    if match[1] == "+":
        return place, None if match[2] else 1
    if match[2] and match[1] == "-" and close[-1:] != "=":
        return place, None  # The dash is punctuation before the number, or a bullet of a list.
    return place, -1


def run_value(run: str, mark: str | None, alone: bool) -> Fraction | None:
    """Return the value of digits with marks between them, by the rules of this module.

    Parameters
    ----------
    run : str
        Digits with marks between them, such as "1,234.50".
    mark : str or None
        Decimal mark of the text; None if unknown.
    alone : bool
        True if the text must be a single number, as in `numbers_in`.

    Returns
    -------
    Fraction or None
        The value; None if the spelling is ambiguous.
    """
    if len(run) > MAX_DIGITS:
        return None
    groups, marks = re.split(r"[.,'\u202f٫ ]", run), re.findall(r"[.,'\u202f٫ ]", run)
    if not marks:
        return Fraction(int(run))
    if not groups[0]:  # The number begins with a mark, as ".5" does.
        return Fraction(f"0{run}") if marks == ["."] and mark != "," else None
    if marks[-1] == "٫" and marks.count("٫") == 1:
        return _decimal(groups, marks[:-1])
    return _with_marks(groups, marks, mark, alone)


def _with_marks(
    groups: list[str], marks: list[str], mark: str | None, alone: bool
) -> Fraction | None:
    """Return the number that is written as groups of digits with marks between them (1,234.5).

    A mark is a point, a comma, a space or an apostrophe. `mark` is the decimal mark of the text, or
    None if it is unknown.
    """
    last, kinds = marks[-1], set(marks)
    if len(kinds) > 1:
        fits = last in ".," and marks.count(last) == 1 and len(kinds) == 2
        return _decimal(groups, marks[:-1]) if fits else None
    if last in "'\u202f ":
        one_space = last == " " and len(marks) == 1 and not alone
        return _thousands(groups, last) if not one_space else None
    if len(marks) > 1:
        return _thousands(groups, last) if mark != last else None
    return _with_one_mark(groups, last, mark)


def _with_one_mark(groups: list[str], mark: str, convention: str | None) -> Fraction | None:
    """Return the value of a number with one mark, such as "1.234", "18.5", "1,234" or "3,5".

    `convention` is the decimal mark of the text, or None if it is unknown.
    """
    thousands = len(groups[1]) == 3 and len(groups[0]) <= 3 and groups[0][0] != "0"
    if convention in (".", ","):
        if mark == convention:
            return _decimal(groups, [])
        return _thousands(groups, mark)
    if mark == ".":
        return None if thousands else _decimal(groups, [])
    return _thousands(groups, mark) if thousands and convention is None else None


def _decimal(groups: list[str], marks: list[str]) -> Fraction | None:
    whole = _thousands(groups[:-1], marks[0]) if marks else Fraction(int(groups[0]))
    if whole is None or len(set(marks)) > 1:
        return None
    return whole + Fraction(int(groups[-1]), 10 ** len(groups[-1]))


def _thousands(groups: list[str], mark: str) -> Fraction | None:
    head, rest = groups[0], groups[1:]
    western = all(len(group) == 3 for group in rest)
    indian = mark == "," and len(rest) > 1 and len(rest[-1]) == 3 and len(head) <= 2
    indian = indian and all(len(group) == 2 for group in rest[:-1])
    if head[0] == "0" or len(head) > 3 or not (western or indian):
        return None
    return Fraction(int("".join(groups)))


def decimal_mark(text: str) -> str | None:
    """Return the decimal mark that the unambiguous numbers of a prepared text show.

    Parameters
    ----------
    text : str
        A text after `prepared`.

    Returns
    -------
    str or None
        The mark; None if no number shows a mark; "?" if the numbers show different marks. With "?",
        ambiguous numbers have no value.

    Examples
    --------
    >>> decimal_mark("2,5 of 1.000.000"), decimal_mark("0.75 of 1,250.00"), decimal_mark("1,234")
    (',', '.', None)
    """
    shown = {_shown_mark(run[0]) for run in _RUN.finditer(text)} - {None}
    if len(shown) > 1:
        return "?"
    return shown.pop() if shown else None


def _shown_mark(run: str) -> str | None:
    marks = re.findall(r"[.,'\u202f٫ ]", run)
    if not marks or run_value(run, None, alone=False) is None:
        return None
    last, first = marks[-1], marks[0]
    if first != last:
        return last if last in ".," else None
    other = {".": ",", ",": "."}
    if len(marks) > 1:
        return other.get(last)
    return last if last == "." else None


def closing(text: str, start: int) -> int:
    """Return the position of the brace that closes the brace before `start`.

    Return -1 if the next 5,000 characters do not contain this brace.
    """
    depth = 1
    for brace in re.compile(r"[{}]").finditer(text, start, start + 5000):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    return -1
