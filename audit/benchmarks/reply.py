r"""Read the number that a reply gives as its answer, or nothing.

A reply declares its answer after `####` (openai/grade-school-math, dataset.py), in a box
(`\boxed{}`), or in words ("The answer is 18", "Answer: 18", `"answer": "18"`). The last declaration
counts if the reply corrects itself, or if its form is stronger than the forms of the declarations
that it contradicts. In all other cases, a reply with two different declarations is unparsed.

Without a declaration, the last sentence with a number is read: the result of its last equation, or
its only number. Thinking, and a further question that a base model invents, are removed first. A
reply that reached its token limit is read only if it has a marker, a box or a "final answer", and
text follows it.

A reply is unparsed if it has two candidates, a range, a number in words, an open block of thinking,
or a doubt after the answer. An unparsed reply is counted separately, and never as "wrong". The time
is linear in the length of the text. The module does no I/O.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from audit.benchmarks.number import (
    Written,
    closing,
    decimal_mark,
    numbers_in,
    one_number,
    prepared,
    same_number,
)
from audit.core.prompting import strip_thinking

MARKER = "####"
NUMBER_ALONE = re.compile(r"-?\$?[\d,]*\d(\.\d+)?")
MAX_END = 3_000  # the last sentence is searched in this number of characters at the end of a reply
MAX_DECLARATIONS = 50  # If a reply has more declarations, only the last ones are read.
MAX_CHARS = 50_000  # If a reply has more characters, only its end is read.


class NumberAnswer(NamedTuple):
    """Hold the number that was read from a reply, and the form in which the reply stated it.

    Parameters
    ----------
    value : float or None
        The number; None if no number could be read.
    form : str
        "marked" (after ####), "declared" (in a box or in words), "last" (in the last sentence), or
        "none".
    """

    value: float | None
    form: str


UNREAD = NumberAnswer(None, "none")

_NEXT_QUESTION = re.compile(
    r"(?:\n|^)[ \t>*#]{0,8}(?:(?:next |new |another )?(?:question|problem|exercise|instruction|input|example)"
    r"(?: ?#?\d{1,4})?|Q ?\d{0,4}|user|human)(?:\*\*)? ?[:.](?!\d)|\n[ \t]{0,4}(?:#{1,5}|\*\*) ?"
    r"(?:(?:next |new )?(?:question|problem|exercise|instruction|input|user)(?: ?#?\d{1,4})?)[ *:]{0,4}(?=\n)"
    r"|<\|im_(?:start|end)\|>|<\|(?:eot_id|endoftext|end)\|>|</s>",
    re.IGNORECASE,
)
_WORDS = (
    r"(?:zero|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w{3,5}teen|twenty|thirty|forty|fifty|sixty"
    r"|seventy|eighty|ninety|hundreds?|thousands?|millions?|billions?|dozens?|half|twice|thrice|none|nothing)"
)
_NUMBER_WORD = re.compile(rf"\b{_WORDS}\b", re.IGNORECASE)
_DECLARES = re.compile(
    r"(?P<final>\bfinal (?:numerical |numeric )?(?:answer|result)|<(?:final_?)?answer>)?"
    r"(?:(?P<box>\\(?:boxed|fbox)\s?\{|\\boxed (?=[-\d]))"
    r"|(?P<json>\"(?:final_?)?answer\"\s?:\s?)"
    r"|(?P<words>(?:(?<=answer)|(?<=result)|\banswer)(?: (?!is\b)[^.:=\n\d]{1,40}?)??"
    r"(?:\s?[:=]| (?:is|was|would be|should be"
    r"|must be|equals|comes to|will be)\b:?))"
    r"|(?P<tag>(?<=<answer>)|(?<=<final_answer>)|(?<=<finalanswer>))"
    r"|(?P<line>(?<=\n)A(?: ?\d{1,3})?:(?=\s)|^A:(?=\s))"
    r"|(?P<foreign>(?:答案|الجواب|إجابة|antwort|ergebnis|respuesta|réponse|resposta|risposta|ответ)\b"
    r"(?: ?(?:是|为|ist|lautet|es|est|è|é|هو|هي))? ?:?))",
    re.IGNORECASE,
)
_MARKED = re.compile(r"#### ?")
_UNSURE_BEFORE = re.compile(
    r"\b(?:if|whether|suppose|assume|assuming|not|n't|maybe|perhaps|check that|is|might|could|think|thought|guess"
    r"|wrong|incorrect|that|previous|initial|first) (?:the |your |my |an? |this |that )?"
    r"(?:correct |right |final |true |wrong |initial |first )?$",
    re.IGNORECASE,
)
_NO_ANSWER = re.compile(
    r"[\s,]*(?:correct|right|reasonable|consistent|as follows|above|below|shown|given|clear|simple"
    r"|in|on|confirmed|verified)\b",
    re.IGNORECASE,
)
_CORRECTS = re.compile(
    r"\b(?:wait|actually|correction|corrected|mistake|sorry|oops|re-?check|hmm|instead|wrong|incorrect|error"
    r"|double[- ]check|however|on second thought|let me re|not quite|rather|should be|should have been|no,)",
    re.IGNORECASE,
)
_DOUBTS = re.compile(
    r"\b(?:wait|actually|correction|mistake|sorry|oops|hmm|wrong|incorrect|not quite|should be|should have been"
    r"|on second thought|no(?=[,.])|or (?:maybe|perhaps|possibly)|alternatively|but)\b",
    re.IGNORECASE,
)
_REASONS = re.compile(
    r"(?:[;,]|\s[-–—])?\s(?:because|since|as|so|given|which|where|that|when|if|assuming|according|after|using|while"
    r"|therefore|thus|hence)\b|;|\s[—–]\s",
    re.IGNORECASE,
)
_GROUND = re.compile(r"[\s>*(-]{0,6}(?:[Bb]ecause|[Ww]here|[Ww]hich|since|as|for|if|when|given)\b")
_CONCLUDES = re.compile(
    r"\b(?:so|therefore|thus|hence|consequently|finally|giving|which (?:gives|makes|is))\b", re.I
)
_SENTENCE_END = re.compile(
    r"(?=</)|(?<!\bi\.e)(?<!\be\.g)(?<!\bapprox)(?<!\bMr)(?<!\bMrs)(?<!\bDr)(?<!\bvs)[.!?][\"')\]]{0,2}(?=\s+|$)|\n+"
)
_ASIDE = re.compile(r"(?<![-+−×*/÷=^])(?<![-+−×*/÷=^] )\s?\([^()\n]{0,300}\)")
_BESIDE_POINT = re.compile(
    r"^\n|\((?:since|because|as|i\.e|that is)\b|\([A-Z][^()]*[.!?]\)|\b(?:see|steps?|equation|eq|checked|step)\b",
    re.IGNORECASE,
)
_NOTE = re.compile(
    r"[\s>*_-]{0,6}(?:note|confidence|p\.?s\.?|explanation|sources?|check|verification|hint|tip|reference|remark|score"
    r"|tokens?|rating)\s?:",
    re.IGNORECASE,
)
# A sentence with one of these phrases is about a step of the calculation, or about the reply
# itself, so it states no answer.
_SPEAKER = re.compile(
    r"\b(?:I|I'm|I've|me|my|[Ss]teps?|confiden\w+|sure|certain\w*|version|sources?|tokens?|examples?|hint|note)\b|\?$|✓|✔"
)
_PLANS = re.compile(
    r"\b(?:multipl(?:y|ied|ying)|divid(?:e|ed|ing)|subtract(?:ed|ing)?|add(?:ed|ing)?|calculat\w+|comput(?:e|ed|ing)"
    r"|convert\w*|to (?:find|get|determine|figure)|(?:need|want|try|have) to|find|consider\w*|verify|check\w*"
    r"|let's|let us|given|exceeds?|turns|gives? us|adding|can(?:not|'t)|unknown|unclear|not enough"
    r"|factor of|initial|original|matching|says?|said|told|if|would)\b",
    re.IGNORECASE,
)
# After these words, a number states a time or the basis of a comparison, not the answer.
_BESIDE = re.compile(
    r"\b(?:in|over|after|within|during|from|than|with|the) (?:the )?(?:(?:last|next|first) )?$",
    re.I,
)
_OPERATOR = re.compile(
    r"[-+−–×÷*/^<>±~]|\b(?:to|or|and|by|through|versus|vs|of|nor|times|plus|minus)\b", re.I
)
_ALGEBRA = re.compile(
    r"[+×÷√π±^]|\\[A-Za-z]{2,20}|(?<![\w'/])[b-hj-z] ?[-−–*] |[-−–*] ?[b-z](?![\w'])"
)


@dataclass(frozen=True, slots=True)
class _Declared:
    """Hold one declaration of an answer: its position, the strength of its form, and its number.

    The strength is 1 (weakest) to 3 (strongest), or 0 for a doubt. The number is None if its
    spelling is ambiguous.
    """

    start: int
    end: int
    strength: int
    number: Written | None
    marked: bool = False


def _read(text: str, truncated: bool) -> tuple[Written | None, str]:
    visible = strip_thinking(text)
    if not visible.closed:
        return None, "none"
    plain = prepared(_before_next_question(visible.text)[-MAX_CHARS:])
    mark = decimal_mark(plain)
    declared = list(_declarations(plain, mark))
    if truncated:
        declared = [each for each in declared if each.strength > 1 and each.end < len(plain)]
    if declared:
        last = _decided(plain, declared)
        if last is None:
            return None, "none"
        return last.number, "marked" if last.marked else "declared"
    return (None, "none") if truncated else (_last_sentence(plain, mark), "last")


def score_number(
    text: str, target: float, *, truncated: bool = False
) -> tuple[NumberAnswer, bool | None]:
    r"""Read a reply's number and compare it with the target.

    Parameters
    ----------
    text : str
        The reply.
    target : float
        The right number.
    truncated : bool
        True if the reply reached its token limit.

    Returns
    -------
    tuple of NumberAnswer and bool or None
        The answer, and whether it is right. The second value is None if no number could be read. It
        is also None if the reply is a percentage and its hundredth is the target ("25%" and .25),
        because the units differ.

    Examples
    --------
    >>> score_number("9 * 2 = $18 a day.\n#### 1,018", 1018.0)
    (NumberAnswer(value=1018.0, form='marked'), True)
    >>> score_number("So she makes $18.50 a day.", 20.0)[1]
    False
    >>> score_number("It is between 3 and 5.", 4.0)[1] is None
    True
    """
    number, form = _read(text, truncated)
    if number is None or number.value is None:
        return UNREAD, None
    value = float(number.value)
    if number.percent and target and same_number(value / 100, target):
        return UNREAD, None
    return NumberAnswer(value, form), same_number(value, target)


def read_key(text: str) -> float | None:
    """Return the number of a key: the text after its last `####`, or the whole text.

    Return None if this text is not a single number. Keys are written by programs, so a single point
    is a decimal point, and a single comma is a thousands mark.
    """
    value = one_number(text.rpartition(MARKER)[2], decimal_point=True)
    return None if value is None else float(value)


def corrects(rest: str) -> bool:
    """Return whether the text after an answer withdraws or doubts the answer."""
    return _DOUBTS.search(_before_next_question(rest)) is not None


def _before_next_question(text: str) -> str:
    """Return a reply without the further question that a base model invents after it.

    A question at the beginning of the reply is a repetition and is kept.
    """
    for question in _NEXT_QUESTION.finditer(text):
        if re.search(r"\w", text[: question.start()]):
            return text[: question.start()]
    return text


def _declarations(plain: str, mark: str | None) -> Iterator[_Declared]:
    """Yield the declarations of an answer in a prepared reply, in order.

    Headings, doubts and hypotheses are left out.
    """
    matches = [*_MARKED.finditer(plain), *_DECLARES.finditer(plain)]
    matches = sorted(matches, key=re.Match.start)[-MAX_DECLARATIONS:]
    # If a reply has no declaration, `ends` still has one entry, so the two lists differ in length.
    ends = [match.start() for match in matches[1:]] + [len(plain)]
    for match, following in zip(matches, ends, strict=False):
        if match[0].startswith("#"):
            declared = _of_marker(plain, match, mark, following)
        elif match["box"]:
            declared = _of_box(plain, match, mark, following)
        else:
            declared = _of_words(plain, match, mark, following)
        if declared:
            yield declared


def _of_marker(
    plain: str, match: re.Match[str], mark: str | None, following: int
) -> _Declared | None:
    """Return the answer that a line with the marker #### declares.

    Return None if the line is a heading, or if another declaration follows on the same line.
    """
    line = plain[match.end() :].split("\n", 1)[0]
    end = match.end() + len(line)
    if following < end:
        return None
    cut = _REASONS.search(line)
    line = line[: cut.start()] if cut and re.search(r"\d", line[: cut.start()]) else line
    body = _right_side(line)
    first = re.search(r"[\w.]", body)
    numbers = list(numbers_in(body, mark, alone=True))
    heading = first is not None and not re.match(r"[-−–\d.]", body[first.start() :])
    if heading and "=" not in line and (numbers or re.search(r"\d", line)):
        return None
    if re.match(r"\s*\d{1,3}[.:)]\s+[A-Za-z]", line) or (
        heading and plain[match.start() - 1 : match.start()] == "#"
    ):
        return None
    return _Declared(match.start(), end, 3, _one_of(body, numbers), marked=True)


def _of_box(plain: str, match: re.Match[str], mark: str | None, following: int) -> _Declared | None:
    start, end = match.end(), match.end()
    if match["box"].endswith("{"):
        end = closing(plain, start)
        if end < 0:
            return None
    else:
        end = start + len(re.match(r"\S*", plain[start:])[0])  # type: ignore[index]
    body = _right_side(plain[start:end])
    numbers = list(numbers_in(body, mark, alone=True))
    number = (
        None if re.search(r"\d!|[(\[]\s?-?\d{1,3},\d{3}\s?[)\]]", body) else _one_of(body, numbers)
    )
    return _Declared(match.start(), end + 1, 3 if match["final"] else 2, number)


def _right_side(text: str) -> str:
    """Return the text after the last equals sign. There, a dash before a number is its sign.

    Without an equals sign, or with several equations, return the whole text.
    """
    left, equals, right = text.rpartition("=")
    if re.search(r"=[^=]*(?:[,;]|\band\b)[^=]*$", left):
        return text  # The text contains several equations.
    return _signed(right) if equals else text


def _signed(right: str) -> str:
    return re.sub(r"^\s?-\s(?=[\d.])", "-", right)


def _of_words(
    plain: str, match: re.Match[str], mark: str | None, following: int
) -> _Declared | None:
    before = plain[max(0, match.start() - 40) : match.start()]
    unsure = match["words"] is not None and _UNSURE_BEFORE.search(before) is not None
    start = match.end() + len(re.match(r"[\s:\"'>]*", plain[match.end() :])[0])  # type: ignore[index]
    strength = 2 if match["json"] or match["tag"] else 1
    if match["final"]:
        strength = 3
    clause, asks = _clause(plain, start)
    if start + len(clause) > following or _NO_ANSWER.match(clause):
        return None
    if unsure or asks:
        return (
            _Declared(match.start(), start + len(clause), 0, None)
            if re.search(r"\d", clause)
            else None
        )
    cut = _REASONS.search(clause)
    claim = clause[: cut.start()] if cut and re.search(r"\d", clause[: cut.start()]) else clause
    # In "(18) (in 3 steps)" the first bracket is the answer.
    bare = claim[:1] + _without_asides(claim[1:])
    claim = bare if re.search(r"\d", bare) else claim
    body = _right_side(claim)
    return _Declared(
        match.start(),
        start + len(clause),
        strength,
        _one_of(body, list(numbers_in(body, mark, alone=True))),
    )


def _clause(plain: str, start: int) -> tuple[str, bool]:
    """Return the sentence that begins at a position, and whether it is a question."""
    end = _SENTENCE_END.search(plain, start)
    if end is None:
        return plain[start:], False
    return plain[start : end.start()], end[0].startswith("?")


def _one_of(body: str, numbers: list[Written]) -> Written | None:
    """Return the only number of a text.

    Return None if the text has several numbers, an expression, or a number in words.
    """
    if not numbers or any(number.value is None for number in numbers) or _in_words(body, numbers):
        return None
    if re.search(r"\b(?:or|and)\s*$", body):
        return None
    if _ALGEBRA.search(body[: numbers[0].start]) or _ALGEBRA.search(body[numbers[-1].end :]):
        return None
    for left, right in pairwise(numbers):
        if left.value != right.value or _OPERATOR.search(body[left.end : right.start]):
            return None
    return numbers[0]


def _in_words(body: str, numbers: list[Written]) -> bool:
    """Return whether a text has a number in words that is not part of its numbers.

    "million" in "2.5 million" is part of a number.
    """
    for word in _NUMBER_WORD.finditer(body):
        if not any(number.start <= word.start() < number.end for number in numbers):
            return True
    return False


def _decided(plain: str, declared: list[_Declared]) -> _Declared | None:
    """Return the declaration that counts; None if the reply contradicts or doubts this
    declaration."""
    last = declared[-1]
    if last.number is None:
        return None
    for earlier in reversed(declared[:-1]):
        if earlier.number is None and earlier.strength < 2:
            # The matched words declare no number, as in "give the answer as a percentage: ...".
            continue
        if earlier.number is not None and earlier.number.value == last.number.value:
            continue
        between = plain[earlier.end : last.start]
        both_marked = last.marked and earlier.marked
        if earlier.strength >= last.strength and not both_marked and not _CORRECTS.search(between):
            return None
        if not last.marked and re.fullmatch(r"[\s$]*|[\s$,.]*(?:or|and|,|/)[\s$]*", between):
            return None
    rest = plain[last.end :]
    return None if _DOUBTS.search(rest) else last


def _last_sentence(plain: str, mark: str | None) -> Written | None:
    """Return the answer in the last sentence with a number; None if this sentence states no
    answer."""
    without_notes = []
    for sentence in _sentences(plain[-MAX_END:]):
        if not _NOTE.match(sentence):
            without_notes.append(sentence)
    sentences = _to_last_number(without_notes)
    if not sentences or _SPEAKER.search(sentences[-1]) or _DOUBTS.search(sentences[-1]):
        return None
    if any(re.search(r"\b(?:verify|check)", sentence) for sentence in sentences[-4:]):
        return None
    return None if _beside_another(sentences) else _concluded(sentences[-1], mark)


def _to_last_number(sentences: list[str]) -> list[str]:
    """Return the sentences up to the last sentence with a number.

    The result is empty if the following text is long, doubts the number or continues the solution.
    """
    end = len(sentences)
    while end and not re.search(r"\d", sentences[end - 1]):
        end -= 1
    after = sentences[end:]
    unsure = (_NUMBER_WORD, _DOUBTS, _PLANS, _SPEAKER)
    doubtful = any(pattern.search(sentence) for sentence in after for pattern in unsure)
    return [] if doubtful or len(after) > 2 else sentences[:end]


def _beside_another(sentences: list[str]) -> bool:
    """Return whether the last line is no sentence, but a signature or another number alone."""
    last = sentences[-1]
    if re.search(r"[=:]|\b[a-z]{2,}\b", last):
        return False
    alone = re.search("[A-Za-z]", last) is None
    earlier = []
    for sentence in sentences[:-1]:
        if re.search(r"\d", sentence):
            earlier.append(sentence)
    return any(not alone or re.search("[A-Za-z]", sentence) is None for sentence in earlier)


def _without_asides(text: str) -> str:
    """Return a text without asides in brackets.

    An aside with another candidate is kept ("(20 with tax)").
    """
    return _ASIDE.sub(
        lambda aside: (
            "" if _BESIDE_POINT.search(aside[0]) or not re.search(r"\d", aside[0]) else aside[0]
        ),
        text,
    )


def _sentences(plain: str) -> list[str]:
    """Return the sentences of a text, without asides in brackets if numbers remain without them."""
    bare = _without_asides(plain)
    text = bare if re.search(r"\d", bare) else plain
    sentences, start = [], 0
    for end in _SENTENCE_END.finditer(text):
        sentences.append(text[start : end.end()].strip())
        start = end.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if re.search(r"\w", sentence)]


def _concluded(sentence: str, mark: str | None) -> Written | None:
    if _GROUND.match(sentence):
        return None
    parts = _CONCLUDES.split(sentence)
    claim = parts[-1] if re.search(r"\d", parts[-1]) else sentence
    cut = re.search(r",? (?:because|since)\b|, (?:as|matching|where|which)\b", claim)
    if cut and re.search(r"\d", claim[: cut.start()]):
        if "=" in claim[cut.start() :] and "=" not in claim[: cut.start()]:
            return None
        claim = claim[: cut.start()]
    left, equals, _ = claim.rpartition("=")
    right = _signed(claim.rpartition("=")[2])
    number = _one_of(right, list(numbers_in(right, mark)))
    if number is None or number.value is None:
        return None
    if not equals:
        aside = _BESIDE.search(claim[: number.start])
        return None if aside or _PLANS.search(claim) else number
    return number if _is_chain(left, number.value, mark) else None


def _is_chain(left: str, value: Fraction, mark: str | None) -> bool:
    """Return whether the result of each equation, except the last, is used in the next equation.

    "16 - 3 = 13, 13 * 2 = 26" is a chain of steps, "x = 3, y = 4" is not.
    """
    _, equals, side = left.rpartition("=")
    if re.search(r"\d ?[b-z]\b|[-+−×*/] ?[b-z]\b|(?<![\w'])[b-z] ?[-+−×*/]", side) and re.search(
        r"\d", side
    ):
        return False  # The equation contains an unknown, and must be solved first.
    if not equals or not re.search(r"[,;]|\band\b", side):
        return True
    head, _, use = re.split(r"([,;]|\band\b)", side, maxsplit=1)
    results = [number.value for number in numbers_in(head, mark)]
    used = [number.value for number in numbers_in(use, mark)]
    return bool(results) and results[-1] in (*used, value)
