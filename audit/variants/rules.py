"""Detect changes of numbers, units, negations, quantifiers, quotations and named options.

A detected change (a finding) is stored with the candidate, and a judge then votes on the candidate.
A rule rejects a text without a judge only if the original has two or more numbers and the text has
none of these numbers.

Of 51 GSM8K rewordings with a "new number", 17 were read. Nearly all of the 17 rewordings were
legitimate ("minute and a half" -> "90 seconds"). The rules detect about half of the changes of
meaning that people wrote by hand as a test.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from operator import itemgetter

from audit.core.package_data import shipped_table
from audit.variants.config import Policy
from audit.variants.record import Judgement, State, Variant

# The packages text2num and quantulum3 do not read fractions, "twice" and "a dozen" together with
# digits, so this module reads numbers itself. A number that it misses can hide a finding or cause a
# false finding.
_TABLE = shipped_table("rewording_rules.json")
_ONES, _TENS, _SCALES, _PARTS = itemgetter("ones", "tens", "scales", "parts")(_TABLE)
_SMALL = {word: value for value, word in enumerate(_ONES)} | _TENS
_WORDS = {word: Fraction(value) for word, value in _TABLE["words"].items()}
_BETWEEN, _END = r"[\s-]+", "(?![a-z])"


def _any_of(words: Iterable[str]) -> str:
    """Return a pattern that matches any of the words. Longer words are tried first."""
    return f"(?:{'|'.join(sorted(words, key=len, reverse=True))})"


_SCALE, _ONE, _UNIT = _any_of(_SCALES), _any_of(_ONES), _any_of(_ONES[1:10])
_TEN, _PART, _WORD = _any_of(_TENS), _any_of(_PARTS), _any_of(_WORDS)
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
    """Count the numbers in a text.

    Parameters
    ----------
    text : str
        The text. For example, "50 %" counts as 1/2, "two thirds" as 2/3, "twenty-three" as 23, and
        "twice" as 2.

    Returns
    -------
    Counter of Fraction
        Maps each number in the text to how often it occurs.

    Notes
    -----
    The word "one" is ignored, because it is often a pronoun ("which one"). Ordinals such as "the
    third day" are ignored too. But a word such as "third" counts as a fraction after a number ("two
    thirds") or in "a ... of" ("a third of").

    Examples
    --------
    >>> sorted(numbers_in("Two hundred and five eggs, 1/4 of a dozen, 1,000.5"))
    [Fraction(1, 4), Fraction(12, 1), Fraction(205, 1), Fraction(2001, 2)]
    """
    numbers: Counter[Fraction] = Counter()
    for token in _TOKEN.finditer(text):
        matches = token.groupdict().items()
        groups = {name: matched.casefold() for name, matched in matches if matched}
        if "top" in groups:
            value = Fraction(int(groups["top"]), int(groups["bottom"]))
        elif "digits" in groups:
            scale = Fraction(_SCALES.get(groups.get("scale", ""), 1))  # as in "3 million"
            if "percent" in groups:
                scale = Fraction(1, 100)
            value = Fraction(groups["digits"].replace(",", "")) * scale
        elif "spelt" in groups and groups["spelt"] == "one" and "part" not in groups:
            continue
        elif "spelt" in groups:
            value = Fraction(_value(re.split(_BETWEEN, groups["spelt"])))
            value /= 100 if "cent" in groups else 1
            value /= _PARTS.get(groups.get("part", ""), 1)
        elif "word" in groups:
            value = _WORDS[groups["word"]]
        else:
            value = Fraction(1, _PARTS[groups["of"]])
        numbers[value] += 1
    return numbers


def _value(words: list[str]) -> int:
    """Return the value of a sequence of number words, such as 205 for two hundred and five."""
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
_EDGES = ".,;:?\"'“”‘’"  # marks around a word; "!" is not among them, as it can be a factorial

WINDOW_NOTE = (
    "The distance window is a novelty filter: it measures how much the words differ. It does not "
    "measure whether the meaning is the same (docs/do/variants.md)."
)


def same_words(text: str) -> str:
    """Return the normal form of a text, for comparing the words of two texts.

    Two texts have the same normal form if they differ only in case, spacing, and the punctuation
    around words.

    Parameters
    ----------
    text : str
        The text.

    Returns
    -------
    str
        The normal form.

    Examples
    --------
    >>> same_words("Which animal  barks?") == same_words("which animal barks")
    True
    >>> same_words("f(x) = x - 1") == same_words("f(x) = x + 1")
    False
    """
    words = unicodedata.normalize("NFKC", text).casefold().split()
    stripped = [word.strip(_EDGES) for word in words]
    return " ".join(filter(None, stripped))


def repeats(text: str, original: str, earlier: Mapping[str, str]) -> str | None:
    """Return the name of the earlier text that a rewording repeats, if there is one.

    Parameters
    ----------
    text, original : str
        The rewording, and the original.
    earlier : mapping of str to str
        Maps the normal form of each earlier variant to its id.

    Returns
    -------
    str or None
        "original", or the id of an earlier variant. None if the words are new.
    """
    words = same_words(text)
    return ORIGINAL if words == same_words(original) else earlier.get(words)


MIN_OPTION_CHARS = 4  # A shorter option ("4", "no") can occur in any text.

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


def _patterns(kind: str) -> dict[str, re.Pattern[str]]:
    """Map each word or unit of a kind (its name) to a pattern that matches all forms of the word
    or unit.
    """
    patterns = {}
    for name, words in _TABLE[kind].items():
        patterns[name] = re.compile(rf"(?<![a-z])(?:{words})(?![a-z])", re.IGNORECASE)
    return patterns


_UNIT_WORDS, _QUANTIFIER_WORDS = _patterns("units"), _patterns("quantifiers")


def rule_findings(original: str, text: str, options: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the changes in a rewording that the rules detect.

    Parameters
    ----------
    original, text : str
        The original and the reworded part.
    options : sequence of str
        The options of the item. A free-form answer has no options.

    Returns
    -------
    tuple of str
        The findings, such as "numbers: 3 -> 4".

    Notes
    -----
    The rules compare the sets of numbers, units, quantifiers, quotations and named options, without
    their frequencies. For negations, the rules compare how many negations each text has.
    """
    before, after = _facts(original, text, options), _facts(text, original, options)
    findings = []
    for kind in before:
        lost, new = before[kind] - after[kind], after[kind] - before[kind]
        if lost or new:
            lost_words = ", ".join(sorted(lost)) or "nothing"
            findings.append(f"{kind}: {lost_words} -> {', '.join(sorted(new)) or 'nothing'}")
    negations, new_negations = len(_NEGATION.findall(original)), len(_NEGATION.findall(text))
    if negations != new_negations:
        findings.append(f"negations: {negations} -> {new_negations}")
    if _ANSWERS.search(text) and not _ANSWERS.search(original):
        findings.append("states an answer")
    return tuple(findings)


def _facts(text: str, other: str, options: Sequence[str]) -> dict[str, set[str]]:
    """Map each kind of fact (such as numbers) to the facts of this kind in a text.

    The original and its rewording should have the same facts.
    """
    return {
        "numbers": set(map(_shown, _stated(text))),
        "units": _present(_UNIT_WORDS, text),
        "quantifiers": _present(_QUANTIFIER_WORDS, text),
        "quoted": _quotations(text, other),
        "options named": _named(text, options),
    }


def _stated(text: str) -> set[Fraction]:
    """Return the numbers in a text except 1, because the word "one" is often a pronoun."""
    return set(numbers_in(text)) - {Fraction(1)}


def _shown(number: Fraction) -> str:
    return str(number) if number.denominator in (1, 2, 3, 4) else f"{float(number):g}"


def _present(words: Mapping[str, re.Pattern[str]], text: str) -> set[str]:
    return {name for name, pattern in words.items() if pattern.search(text)}


def _matched(groups: Sequence[str]) -> str:
    """Return the first group of a match that is not empty."""
    return next(filter(None, groups))


def _quotations(text: str, other: str) -> set[str]:
    """Return the quotations in a text whose words the other text does not contain.

    Thus a rewording that only adds or removes quotation marks causes no finding.
    """
    other_words = f" {same_words(other)} "
    quoted = set(map(same_words, map(_matched, _QUOTED.findall(text))))
    return {words for words in quoted if words and f" {words} " not in other_words}


def _named(text: str, options: Sequence[str]) -> set[str]:
    """Return the answer options that a text mentions.

    A text can mention an option by its letter or number ("option B", "(B)"), by a phrase such as
    "all of the above", or by the words of the option.
    """
    named = set(map(_matched, _LETTERED.findall(text)))
    words = f" {same_words(text)} "
    for option in options:
        if len(option) >= MIN_OPTION_CHARS and f" {same_words(option)} " in words:
            named.add(option)
    return named


_BY_JUDGEMENT = {
    Judgement.BROKEN: State.JUDGED_BROKEN,
    Judgement.TIE: State.JUDGE_TIE,
    Judgement.UNREADABLE: State.JUDGE_UNREADABLE,
    Judgement.FAILED: State.JUDGE_FAILED,
}


def decide(variant: Variant, policy: Policy, *, nli: bool, judge: bool) -> State:
    """Return the state of a candidate after all gates: accepted, or the gate that stopped it.

    Parameters
    ----------
    variant : Variant
        The candidate.
    policy : Policy
        The thresholds of the gates.
    nli, judge : bool
        Whether the build has a gate by entailment (NLI), and a gate by a judge's votes.

    Returns
    -------
    State
        The state.
    """
    stopped = before_judge(variant, policy, nli=nli)
    if stopped is not None:
        return stopped
    if variant.judgement in _BY_JUDGEMENT:
        return _BY_JUDGEMENT[variant.judgement]
    waiting = variant.rules and not judge and policy.unjudged == "hold"
    return State.AWAITING_JUDGE if waiting else State.ACCEPTED


def before_judge(variant: Variant, policy: Policy, *, nli: bool) -> State | None:
    """Return the first gate that stops a candidate, without the gate of the judge.

    Parameters
    ----------
    variant : Variant
        The candidate.
    policy : Policy
        The thresholds.
    nli : bool
        Whether the build has a gate by entailment (NLI).

    Returns
    -------
    State or None
        The state that names this gate; None if every gate before the judge accepts the candidate.
        The judge votes only on accepted candidates.
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
    """Return whether a rewording contains none of the numbers of its original.

    The rule applies only if the original has two or more numbers.

    Parameters
    ----------
    original, text : str
        The original, and the rewording.

    Returns
    -------
    bool
        True if the rule applies and all numbers are lost.

    Notes
    -----
    Among 1,315 rewordings of GSM8K that LLM-decontaminator made, the rule rejects 2 rewordings.
    Both rejected rewordings are broken.

    Examples
    --------
    >>> facts_lost("Ann has 3 eggs and buys 4. How many has she?", "How many eggs has Ann?")
    True
    """
    numbers = _stated(original)
    return len(numbers) > 1 and not numbers & _stated(text)
