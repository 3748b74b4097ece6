"""Detect what a rewording must not touch: numbers, units, negations, quantifiers, quotations, named
options.

A finding does not reject, except a text that has lost every number of an original with two or more.
Of 51 GSM8K rewordings with a "new number", 17 were read and nearly all were legitimate ("minute and
a half" -> "90 seconds"); and of hand-written changes of meaning the rules see about half. A finding
routes the candidate to the judge, and is kept with it.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

from audit.core.package_data import shipped_table
from audit.variants.config import Policy
from audit.variants.record import Judgement, State, Variant

# This module reads numbers itself: text2num and quantulum3 turn text into numbers or quantities,
# but neither reads fractions, "twice" and "a dozen" together with digits, and a question needs no
# more than that. What is missed shows as a finding too many or too few.
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
_FROM_100 = (
    f"{_SCALE}{_END}(?:{_BETWEEN}{_SCALE}{_END})*(?:{_BETWEEN}(?:and{_BETWEEN})?{_BELOW_100})?"
)
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
    """Return every number with how often it is stated.

    Parameters
    ----------
    text : str
        The text. "50 %" is 1/2, "two thirds" 2/3, "twenty-three" 23, "twice" 2.

    Returns
    -------
    Counter of Fraction
        Numbers.

    Notes
    -----
    "one" in words is left out, being a pronoun as often as a number ("which one"). Ordinals of rank
    ("the third day") are left out too: they are parts only after a number or "a ... of" ("two
    thirds", "a third of").

    Examples
    --------
    >>> sorted(numbers_in("Two hundred and five eggs, 1/4 of a dozen, 1,000.5"))
    [Fraction(1, 4), Fraction(12, 1), Fraction(205, 1), Fraction(2001, 2)]
    """
    numbers: Counter[Fraction] = Counter()
    for token in _TOKEN.finditer(text):
        groups = {
            name: matched.casefold() for name, matched in token.groupdict().items() if matched
        }
        if "top" in groups:
            value = Fraction(int(groups["top"]), int(groups["bottom"]))
        elif "digits" in groups:
            # "3 million".
            scale = (
                Fraction(1, 100) if "percent" in groups else _SCALES.get(groups.get("scale", ""), 1)
            )
            value = Fraction(groups["digits"].replace(",", "")) * scale
        elif "spelt" in groups and groups["spelt"] == "one" and "part" not in groups:
            continue
        elif "spelt" in groups:
            value = Fraction(
                _value(re.split(_BETWEEN, groups["spelt"])), 100 if "cent" in groups else 1
            )
            value /= _PARTS.get(groups.get("part", ""), 1)
        else:
            value = (
                _WORDS[groups["word"]] if "word" in groups else Fraction(1, _PARTS[groups["of"]])
            )
        numbers[value] += 1
    return numbers


def _value(words: list[str]) -> int:
    """Return the value of number words in order: two hundred and five -> 205."""
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
_EDGES = ".,;:?\"'“”‘’"  # marks around a word; "!" is a factorial in some questions, so it stays

WINDOW_NOTE = (
    "The distance window is a novelty filter (is it reworded enough?). It does not see whether the meaning is kept: it "
    "accepts rewordings whose meaning was changed as readily as true ones (docs/do/variants.md)."
)


def same_words(text: str) -> str:
    """Return the normal form of texts that differ in case, spacing and the marks at the ends of
    words only.

    Parameters
    ----------
    text : str
        The text.

    Returns
    -------
    str
        Normal form.

    Examples
    --------
    >>> same_words("Which animal  barks?") == same_words("which animal barks")
    True
    >>> same_words("f(x) = x - 1") == same_words("f(x) = x + 1")
    False
    """
    words = unicodedata.normalize("NFKC", text).casefold().split()
    return " ".join(filter(None, (word.strip(_EDGES) for word in words)))


def repeats(text: str, original: str, earlier: Mapping[str, str]) -> str | None:
    """Return what the text repeats: "original", the id of an earlier variant, or None.

    Parameters
    ----------
    text, original : str
        The rewording, and the original.
    earlier : mapping of str to str
        Ids of earlier variants by `same_words`.

    Returns
    -------
    str or None
        The repeated text.
    """
    words = same_words(text)
    return ORIGINAL if words == same_words(original) else earlier.get(words)


MIN_OPTION_CHARS = 4  # a shorter option ("4", "no") turns up in any prose

_NEGATION = re.compile(
    r"\b(?:not|no|never|none|neither|nor|nobody|nothing|nowhere|without|except|excluding|cannot|unable|fails?|failed|lacks?|"
    r"false|incorrect(?:ly)?|impossible|unlikely)\b|n['’]t\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(
    r"“([^”]{2,200})”|\"([^\"]{2,200})\"|(?<!\w)[‘']([^‘’'\n]{2,200})[’'](?!\w)|`([^`\n]{1,200})`"
)
_LETTERED = re.compile(
    r"(?i:\b(?:options?|choices?|answers?|statements?)) \(?([A-Z]|[IVX]{1,4}|\d)\b|(?<!\w)\(([A-Z])\)|"
    r"((?i:\b(?:all|none|both|either|neither) of the (?:above|following|these)\b))"
)
_ANSWERS = re.compile(
    r"^[^\S\n]*(?:answer|reply|response|solution)\s*:|\bthe (?:correct |right )?answer (?:is|would be)\b",
    re.IGNORECASE | re.MULTILINE,
)


_UNIT_WORDS, _QUANTIFIER_WORDS = (
    {
        name: re.compile(rf"(?<![a-z])(?:{one})(?![a-z])", re.IGNORECASE)
        for name, one in _TABLE[kind].items()
    }
    for kind in ("units", "quantifiers")
)


def rule_findings(original: str, text: str, options: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the changes of a rewording that a rule watches.

    Parameters
    ----------
    original, text : str
        The parts that may change.
    options : sequence of str
        Options of the item, none for a free-form answer.

    Returns
    -------
    tuple of str
        Findings, such as "numbers: 3 -> 4"; empty without any.

    Notes
    -----
    The rules compare which numbers, units, quantifiers, quotations and named options occur, not how
    often; for negations, how many.
    """
    both = (original, text)
    watched = {
        "numbers": [set(map(_shown, _stated(part))) for part in both],
        "units": [_present(_UNIT_WORDS, part) for part in both],
        "quantifiers": [_present(_QUANTIFIER_WORDS, part) for part in both],
        "quoted": [_quotations(original, text), _quotations(text, original)],
        "options named": [_named(part, options) for part in both],
    }
    findings = []
    for watched_kind, (before, after) in watched.items():
        if before != after:
            lost, new = (
                ", ".join(sorted(side)) or "nothing" for side in (before - after, after - before)
            )
            findings.append(f"{watched_kind}: {lost} -> {new}")
    negations = [len(_NEGATION.findall(part)) for part in both]
    if negations[0] != negations[1]:
        findings.append(f"negations: {negations[0]} -> {negations[1]}")
    if _ANSWERS.search(text) and not _ANSWERS.search(original):
        findings.append("states an answer")
    return tuple(findings)


def _stated(text: str) -> set[Fraction]:
    """Return the numbers except 1, which is in words a pronoun as often as a number."""
    return {number for number in numbers_in(text) if number != 1}


def _shown(number: Fraction) -> str:
    return str(number) if number.denominator in (1, 2, 3, 4) else f"{float(number):g}"


def _present(words: Mapping[str, re.Pattern[str]], text: str) -> set[str]:
    return {name for name, pattern in words.items() if pattern.search(text)}


def _matched(groups: Sequence[str]) -> str:
    """Return the group of a match that is not empty."""
    return next(filter(None, groups))


def _quotations(text: str, other: str) -> set[str]:
    """Return what the text quotes and the other text does not contain.

    Adding or removing quotation marks around a word changes nothing.
    """
    other_words = f" {same_words(other)} "
    quoted = {same_words(_matched(groups)) for groups in _QUOTED.findall(text)}
    return {words for words in quoted if words and f" {words} " not in other_words}


def _named(text: str, options: Sequence[str]) -> set[str]:
    """Return the options that the text names.

    An option is named by letter or number ("option B", "(B)", "all of the above"), or by its words.
    """
    by_letter = set(map(_matched, _LETTERED.findall(text)))
    words = f" {same_words(text)} "
    by_words = {
        option
        for option in options
        if len(option) >= MIN_OPTION_CHARS and f" {same_words(option)} " in words
    }
    return by_letter | by_words


_BY_JUDGEMENT = {
    Judgement.BROKEN: State.JUDGED_BROKEN,
    Judgement.TIE: State.JUDGE_TIE,
    Judgement.UNREADABLE: State.JUDGE_UNREADABLE,
    Judgement.FAILED: State.JUDGE_FAILED,
}


def decide(variant: Variant, policy: Policy, *, nli: bool, judge: bool) -> State:
    """Return the state that a candidate's values give it, before a panel or a reader saw it.

    Parameters
    ----------
    variant : Variant
        The candidate.
    policy : Policy
        Thresholds.
    nli, judge : bool
        True if the gate was configured for the build.

    Returns
    -------
    State
        The state.
    """
    if (stopped := before_judge(variant, policy, nli=nli)) is not None:
        return stopped
    if variant.judgement in _BY_JUDGEMENT:
        return _BY_JUDGEMENT[variant.judgement]
    held = variant.rules and not judge and policy.unjudged == "hold"
    return State.AWAITING_JUDGE if held else State.ACCEPTED


def before_judge(variant: Variant, policy: Policy, *, nli: bool) -> State | None:
    """Return the gate before the judge that stops a candidate.

    Parameters
    ----------
    variant : Variant
        The candidate.
    policy : Policy
        Thresholds.
    nli : bool
        True if NLI was configured.

    Returns
    -------
    State or None
        None if no gate does; only such candidates get a judge's votes.
    """
    # An empty text means that the paraphraser failed or returned nothing.
    if not variant.text.strip():
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
    """Return whether the original states two numbers or more and the text none of them.

    Parameters
    ----------
    original, text : str
        The original, and the rewording.

    Returns
    -------
    bool
        True if the question is left and its facts are gone. Of 1,315 rewordings of GSM8K by
        LLM-decontaminator 2 are such, both broken.

    Examples
    --------
    >>> facts_lost("Ann has 3 eggs and buys 4. How many has she?", "How many eggs has Ann?")
    True
    """
    numbers = _stated(original)
    return len(numbers) > 1 and not numbers & _stated(text)
