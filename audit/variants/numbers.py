"""The numbers a text states, in digits and in words (English), for comparing a question with its rewording. Pure.

A reader of our own: text2num and quantulum3 turn text into numbers or quantities, but neither reads fractions,
"twice" and "a dozen" together with digits, and a question needs no more than that. What is missed shows as a finding
too many or too few, and a finding only routes a candidate to the judge.
"""

import re
from collections import Counter
from fractions import Fraction

_ONES = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
_TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
}  # fmt: skip
_SMALL = {word: value for value, word in enumerate(_ONES)} | _TENS
_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_WORDS: dict[str, Fraction] = {
    "half": Fraction(1, 2), "halves": Fraction(1, 2), "halved": Fraction(1, 2), "quarter": Fraction(1, 4),
    "quarters": Fraction(1, 4), "twice": Fraction(2), "double": Fraction(2), "doubles": Fraction(2),
    "doubled": Fraction(2), "triple": Fraction(3), "triples": Fraction(3), "tripled": Fraction(3),
    "thrice": Fraction(3), "quadruple": Fraction(4), "dozen": Fraction(12), "dozens": Fraction(12),
}  # fmt: skip
_PARTS = {"third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10}
_BETWEEN, _END = r"[\s-]+", "(?![a-z])"
_SCALE, _ONE, _UNIT, _TEN, _PART, _WORD = (
    f"(?:{'|'.join(sorted(words, key=len, reverse=True))})"
    for words in (_SCALES, _ONES, _ONES[1:10], _TENS, _PARTS, _WORDS)
)
_BELOW_100 = f"(?:{_TEN}{_END}(?:{_BETWEEN}{_UNIT}{_END})?|{_ONE}{_END})"
_FROM_100 = f"{_SCALE}{_END}(?:{_BETWEEN}{_SCALE}{_END})*(?:{_BETWEEN}(?:and{_BETWEEN})?{_BELOW_100})?"
_TOKEN = re.compile(
    r"(?P<top>\d+)\s?/\s?(?P<bottom>[1-9]\d*)"
    r"|(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?P<percent>\s?(?:%|percent\b|per cent\b))?"
    rf"(?:[\s-]*(?P<scale>{_SCALE}){_END})?"
    r"|(?<![a-z])(?:"
    rf"(?P<spelt>(?:{_BELOW_100}|{_FROM_100})(?:{_BETWEEN}{_FROM_100})*)"
    rf"(?:{_BETWEEN}(?:(?P<part>{_PART})s?{_END}|(?P<cent>per[\s-]*cent{_END})))?"
    rf"|a{_BETWEEN}(?P<of>{_PART})s?{_END}(?={_BETWEEN}of{_END})"
    rf"|(?P<word>{_WORD}){_END})",
    re.IGNORECASE,
)


def numbers_in(text: str) -> Counter[Fraction]:
    """Every number with how often it is stated. "50 %" is 1/2, "two thirds" 2/3, "twenty-three" 23, "twice" 2.

    "one" in words is left out, being a pronoun as often as a number ("which one"); so are ordinals of rank
    ("the third day"): they are parts only after a number or "a ... of" ("two thirds", "a third of").

    >>> sorted(numbers_in("Two hundred and five eggs, 1/4 of a dozen, 1,000.5"))
    [Fraction(1, 4), Fraction(12, 1), Fraction(205, 1), Fraction(2001, 2)]
    """
    found: Counter[Fraction] = Counter()
    for token in _TOKEN.finditer(text):
        told = {name: said.casefold() for name, said in token.groupdict().items() if said}
        if "top" in told:
            value = Fraction(int(told["top"]), int(told["bottom"]))
        elif "digits" in told:
            scale = Fraction(1, 100) if "percent" in told else _SCALES.get(told.get("scale", ""), 1)  # "3 million"
            value = Fraction(told["digits"].replace(",", "")) * scale
        elif "spelt" in told and told["spelt"] == "one" and "part" not in told:
            continue
        elif "spelt" in told:
            value = Fraction(_value(re.split(_BETWEEN, told["spelt"])), 100 if "cent" in told else 1)
            value /= _PARTS.get(told.get("part", ""), 1)
        else:
            value = _WORDS[told["word"]] if "word" in told else Fraction(1, _PARTS[told["of"]])
        found[value] += 1
    return found


def _value(words: list[str]) -> int:
    """The value of number words in order: two hundred and five -> 205."""
    total = group = 0
    for word in words:
        if word in _SMALL:
            group += _SMALL[word]
        elif word == "hundred":
            group = max(group, 1) * 100
        elif word in _SCALES:
            total, group = total + max(group, 1) * _SCALES[word], 0
    return total + group
