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
_TOKEN = re.compile(
    r"(?P<slash>\d+\s?/\s?[1-9]\d*)"
    r"|(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?P<percent>\s?(?:%|percent\b|per cent\b))?"
    r"|(?P<word>[a-z]+)|(?P<mark>[^\sa-z\d-])",
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
    spelt: list[str] = []  # the words of a number that is being read
    tokens = list(_TOKEN.finditer(text))
    words = [(token["word"] or "").casefold() for token in tokens] + [""]
    for k, token in enumerate(tokens):
        word, following = words[k], words[k + 1]
        if _continues(spelt, word, following):
            spelt.append(word)
            continue
        if word.removesuffix("s") in _PARTS and (spelt or (words[k - 1] in ("a", "one") and following == "of")):
            found[Fraction(_value(spelt or ["one"]), _PARTS[word.removesuffix("s")])] += 1
            spelt = []
            continue
        if spelt and spelt != ["one"]:
            percent = word == "percent" or (word, following) == ("per", "cent")
            found[Fraction(_value(spelt), 100 if percent else 1)] += 1
        spelt = [word] if word in _SMALL else []
        if word in _SCALES and not (k and tokens[k - 1]["digits"]):  # "a hundred"
            spelt = ["one", word]
        if token["slash"]:
            top, bottom = token["slash"].split("/")
            found[Fraction(int(top), int(bottom))] += 1
        elif token["digits"]:
            value = Fraction(token["digits"].replace(",", ""))
            found[value / 100 if token["percent"] else value * _SCALES.get(following, 1)] += 1  # "3 million"
        elif word in _WORDS:
            found[_WORDS[word]] += 1
    if spelt and spelt != ["one"]:
        found[Fraction(_value(spelt))] += 1
    return found


def _continues(spelt: list[str], word: str, following: str) -> bool:
    """Whether a word goes on with the number before it: "twenty" + "five", "two" + "hundred" (+ "and" five)."""
    if not spelt:
        return False
    last = spelt[-1]
    if word == "and":
        return last in _SCALES and following in _SMALL
    if word in _SCALES or last in _SCALES or last == "and":
        return word in _SCALES or word in _SMALL
    return last in _TENS and 0 < _SMALL.get(word, 0) < 10


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
