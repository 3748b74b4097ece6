"""What a rewording must not touch, by rule: numbers, units, negations, quantifiers, quotations, named options.

A finding does not reject, but for a text that has lost every number of an original with two or more. Of 51 GSM8K
rewordings with a "new number", 17 were read and nearly all were legitimate ("minute and a half" -> "90 seconds"); and
of hand-written changes of meaning the rules see about half. A finding routes the candidate to the judge, and is kept
with it.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

from audit.variants.config import Policy
from audit.variants.record import Judgement, State, Variant
from audit.verdict.shipped import shipped_table

# A reader of numbers of our own: text2num and quantulum3 turn text into numbers or quantities, but neither reads
# fractions, "twice" and "a dozen" together with digits, and a question needs no more than that. What is missed shows as
# a finding too many or too few.
_TABLE = shipped_table("rewording_rules.json")
_ONES, _TENS, _SCALES, _PARTS = (_TABLE[name] for name in ("ones", "tens", "scales", "parts"))
_SMALL = {word: value for value, word in enumerate(_ONES)} | _TENS
_WORDS = {word: Fraction(value) for word, value in _TABLE["words"].items()}
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


ORIGINAL = "original"
_EDGES = ".,;:?\"'“”‘’"  # marks that end or dress a word; "!" is a factorial in some questions, so it stays

WINDOW_NOTE = (
    "The distance window is a novelty filter (is it reworded enough?). It does not see whether the meaning is kept: it "
    "accepts rewordings whose meaning was changed as readily as true ones (docs/do/variants.md)."
)


def same_words(text: str) -> str:
    """What two texts share when they differ in case, spacing and the marks at the ends of words only.

    >>> same_words("Which animal  barks?") == same_words("which animal barks")
    True
    >>> same_words("f(x) = x - 1") == same_words("f(x) = x + 1")
    False
    """
    words = unicodedata.normalize("NFKC", text).casefold().split()
    return " ".join(stripped for word in words if (stripped := word.strip(_EDGES)))


def repeats(text: str, original: str, earlier: Mapping[str, str]) -> str | None:
    """What the text repeats: "original", the id of an earlier variant (`earlier`: same_words -> id), or None."""
    words = same_words(text)
    return ORIGINAL if words == same_words(original) else earlier.get(words)


MIN_OPTION_CHARS = 4  # a shorter option ("4", "no") turns up in any prose

_NEGATION = re.compile(
    r"\b(?:not|no|never|none|neither|nor|nobody|nothing|nowhere|without|except|excluding|cannot|unable|fails?|failed|lacks?|"
    r"false|incorrect(?:ly)?|impossible|unlikely)\b|n['’]t\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"“([^”]{2,200})”|\"([^\"]{2,200})\"|(?<!\w)[‘']([^‘’'\n]{2,200})[’'](?!\w)|`([^`\n]{1,200})`")
_LETTERED = re.compile(
    r"(?i:\b(?:options?|choices?|answers?|statements?)) \(?([A-Z]|[IVX]{1,4}|\d)\b|(?<!\w)\(([A-Z])\)|"
    r"((?i:\b(?:all|none|both|either|neither) of the (?:above|following|these)\b))"
)
_ANSWERS = re.compile(
    r"^[^\S\n]*(?:answer|reply|response|solution)\s*:|\bthe (?:correct |right )?answer (?:is|would be)\b",
    re.IGNORECASE | re.MULTILINE,
)


_UNIT_WORDS, _QUANTIFIER_WORDS = (
    {name: re.compile(rf"(?<![a-z])(?:{one})(?![a-z])", re.IGNORECASE) for name, one in _TABLE[kind].items()}
    for kind in ("units", "quantifiers")
)


def rule_findings(original: str, text: str, options: Sequence[str] = ()) -> tuple[str, ...]:
    """What the rewording changed that a rule watches, such as "numbers: 3 -> 4"; () when nothing.

    original, text: the parts that may change. options: of the item, none for a free-form answer. What is compared is
    which numbers, units, quantifiers, quotations and named options occur, not how often; for negations, how many.
    """
    both = (original, text)
    watched = {
        "numbers": [set(map(_shown, _stated(one))) for one in both],
        "units": [_present(_UNIT_WORDS, one) for one in both],
        "quantifiers": [_present(_QUANTIFIER_WORDS, one) for one in both],
        "quoted": [_quotations(original, text), _quotations(text, original)],
        "options named": [_named(one, options) for one in both],
    }
    found = []
    for what, (before, after) in watched.items():
        if before != after:
            lost, new = (", ".join(sorted(side)) or "nothing" for side in (before - after, after - before))
            found.append(f"{what}: {lost} -> {new}")
    negations = [len(_NEGATION.findall(one)) for one in both]
    if negations[0] != negations[1]:
        found.append(f"negations: {negations[0]} -> {negations[1]}")
    if _ANSWERS.search(text) and not _ANSWERS.search(original):
        found.append("states an answer")
    return tuple(found)


def _stated(text: str) -> set[Fraction]:
    """The numbers but 1, which is in words a pronoun as often as a number."""
    return {number for number in numbers_in(text) if number != 1}


def _shown(number: Fraction) -> str:
    return str(number) if number.denominator in (1, 2, 3, 4) else f"{float(number):g}"


def _present(words: Mapping[str, re.Pattern[str]], text: str) -> set[str]:
    return {name for name, pattern in words.items() if pattern.search(text)}


def _quotations(text: str, other: str) -> set[str]:
    """What the text quotes and the other does not even say: marks put around a word, or taken off, change nothing."""
    said = f" {same_words(other)} "
    quoted = {same_words(next(part for part in match if part)) for match in _QUOTED.findall(text)}
    return {words for words in quoted if words and f" {words} " not in said}


def _named(text: str, options: Sequence[str]) -> set[str]:
    """Options that the text names: by letter or number ("option B", "(B)", "all of the above"), or by their words."""
    by_letter = {next(part for part in match if part) for match in _LETTERED.findall(text)}
    words = f" {same_words(text)} "
    by_words = {option for option in options if len(option) >= MIN_OPTION_CHARS and f" {same_words(option)} " in words}
    return by_letter | by_words


_BY_JUDGEMENT = {
    Judgement.BROKEN: State.JUDGED_BROKEN,
    Judgement.TIE: State.JUDGE_TIE,
    Judgement.UNREADABLE: State.JUDGE_UNREADABLE,
    Judgement.FAILED: State.JUDGE_FAILED,
}


def decide(variant: Variant, policy: Policy, *, nli: bool, judge: bool) -> State:
    """The state that a candidate's values give it, before a panel or a reader saw it. nli, judge: whether one was
    configured for the build."""
    if (stopped := before_judge(variant, policy, nli=nli)) is not None:
        return stopped
    if variant.judgement in _BY_JUDGEMENT:
        return _BY_JUDGEMENT[variant.judgement]
    held = variant.rules and not judge and policy.unjudged == "hold"
    return State.AWAITING_JUDGE if held else State.ACCEPTED


def before_judge(variant: Variant, policy: Policy, *, nli: bool) -> State | None:
    """The gate before the judge that stops a candidate; None when none does: only these are worth a judge's votes."""
    if not variant.text.strip():  # no text: the paraphraser failed, or it returned nothing
        return State.FAILED if variant.error else State.EMPTY
    if variant.same_as is not None:
        return State.NO_OP if variant.same_as == ORIGINAL else State.DUPLICATE
    if variant.distance is None:
        return State.NOT_EMBEDDED
    if variant.distance < policy.low:
        return State.TOO_CLOSE
    if variant.distance > policy.high:
        return State.TOO_FAR
    if facts_lost(variant.original, variant.text):
        return State.FACTS_LOST
    shares = (variant.nli_forward, variant.nli_backward) if nli else ()
    if any(share is None or share < policy.nli_cut for share in shares):
        return State.NOT_ENTAILED
    return None


def facts_lost(original: str, text: str) -> bool:
    """Whether the original states two numbers or more and the text none of them: what is asked is there, what is given
    is gone. Of 1,315 rewordings of GSM8K by LLM-decontaminator 2 are such, both broken.

    >>> facts_lost("Ann has 3 eggs and buys 4. How many has she?", "How many eggs has Ann?")
    True
    """
    numbers = _stated(original)
    return len(numbers) > 1 and not numbers & _stated(text)
