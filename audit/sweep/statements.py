"""What one router's message holds and states: parts of the question word for word or nearly, and an answer (pure).

Comparison is on normalised text: Unicode NFKC, case folded, punctuation and white space to one space.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

_WORD = re.compile(r"[^\W_]+")
_ASCII = "".join(chr(i).lower() if chr(i).isalnum() else " " for i in range(128))
_LISTED = re.compile(r"(?m)^\s*[*(\[]*([A-J])[.):\]]\**\s*(\S.*?)\s*$")
# "the correct answer is B", "Answer: (B)", "best option would be B"; what follows is judged by _names_gold
# After "is" the option may stand on the next line; after a bare colon it may not ("Choose the best answer:", a list).
_VERB = r"(?:\s*(?:is|was|would\s+be|should\s+be|must\s+be)\b[\s*\"'“(:]*|\s*[:=→-][ \t*\"'“(]*)"
_STATED = re.compile(
    r"\b(?:(?:(?:correct|right|best|true|final)\s+)?(?:answer|solution)|(?:correct|right|best)\s+(?:option|choice|response))"
    + r"[*\"'”]*"
    + _VERB
    + r"(?P<said>[^\n]{0,200})",
    re.IGNORECASE,
)
# "B is the correct answer", "Paris is correct"
_STATED_AFTER = re.compile(
    r"(?P<said>[^\n.;!?]{1,200}?)[\s*\"'”)]*\s+(?:is|was)\s+(?:the\s+)?(?:correct|right|best)(?:\s+(?:answer|option|choice)|\s*[.!]|\s*$)",
    re.IGNORECASE | re.MULTILINE,
)
_LETTER_FIRST = re.compile(
    r"(?:(?:option|choice|letter)\s+)?[(\[\"'*]*([A-J])(?![\w'’])([)\].,:;*\"']|\s*$|\s+(?:because|since|as|-))?"
)
_LETTER_LAST = re.compile(r"(?:^|\s)[(\[\"'*]*([A-J])[)\].,:;*\"']*$")


def fold(text: str) -> str:
    """Case-folded words joined by one space. Text without a single word is kept as its own stripped characters.

    >>> fold("  The answer --- is: B!")
    'the answer is b'
    """
    if text.isascii():  # the same, four times as fast: a report reads every text of a run
        words = text.translate(_ASCII).split()
    else:
        words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return " ".join(words) or unicodedata.normalize("NFKC", text).casefold().strip()


normalise = lru_cache(maxsize=4096)(fold)  # the options and messages of the questions at hand; prompts are not kept


def holds(message: str, part: str, share: float) -> bool:
    """Whether a message transmits a part: word for word, or at least `share` of its words (multiset overlap)."""
    text, wanted = normalise(message), normalise(part)
    if not wanted:
        return True
    if f" {wanted} " in f" {text} " or (not _WORD.search(wanted) and wanted in message):
        return True
    need, have = Counter(wanted.split()), Counter(text.split())
    return sum((need & have).values()) >= share * sum(need.values()) and sum(need.values()) > 1


def states_answer(message: str, options: Sequence[str], gold: int) -> bool | None:
    """True: it states the gold option as the answer; False: it states another one; None: it states none.

    A letter is read against the list in the message itself where it has one (a router may have reordered it).

    >>> states_answer("The correct answer is B.", ["3", "4"], gold=1)
    True
    >>> states_answer("Options: A. 3 B. 4", ["3", "4"], gold=1) is None
    True
    """
    lowered = message.casefold()
    if not any(word in lowered for word in ("answer", "correct", "right", "best", "solution")):
        return None  # the cheap way out for almost every message
    verdicts = [_option_said(m.group("said"), message, options, first=True) for m in _STATED.finditer(message)]
    verdicts += [_option_said(m.group("said"), message, options, first=False) for m in _STATED_AFTER.finditer(message)]
    named = [v for v in verdicts if v is not None]
    return None if not named else gold in named


def gives_answer(message: str, question: str, options: Sequence[str], gold: int) -> bool | None:
    """`states_answer` where no option was shown (a cloze): a router can name an option only by answering.

    True: the message holds the gold option's text and the question does not; False: it holds other options' only.

    >>> gives_answer("Question: What barks? The dog.", "What barks?", ["dog", "cat"], 0)
    True
    """
    text, asked = f" {normalise(message)} ", f" {normalise(question)} "
    named = [k for k, option in enumerate(options) if f" {normalise(option)} " in text.replace(asked, " ")]
    named = [k for k in named if f" {normalise(options[k])} " not in asked]
    return gold in named if named else None


def _option_said(said: str, message: str, options: Sequence[str], *, first: bool) -> int | None:
    """Index of the option that `said` begins (or ends) with; None for none, as in "not B" or "one of these"."""
    if re.search(r"\b(?:not|n't|whether|if|which|unknown|one of)\b", said[:24] if first else said[-40:], re.IGNORECASE):
        return None
    words = normalise(said).split()
    best, best_length = None, 0
    for k, option in enumerate(options):  # the longest option that fits, so that "red" is not read out of "red wine"
        wanted = normalise(option).split()
        for skip in range(3 if first else 1):  # "the answer is the (option) Paris"
            found = words[skip : skip + len(wanted)] if first else words[-len(wanted) :]
            if wanted and found == wanted and len(wanted) > best_length and not (skip and words[0] not in _FILLERS):
                best, best_length = k, len(wanted)
    letter = _LETTER_FIRST.match(said.strip()) if first else _LETTER_LAST.search(said.strip())
    if letter is None or best_length > 1:
        return best
    if first and letter.group(1) in "AI" and not (letter.group(2) or "").strip(" ") and said.strip() != letter.group(1):
        return best  # "the answer is A number": an article, not a letter
    return _option_of_letter(letter.group(1), message, options)


_FILLERS = frozenset({"the", "option", "choice", "letter", "a", "an", "that", "clearly", "simply", "definitely"})


def _option_of_letter(letter: str, message: str, options: Sequence[str]) -> int | None:
    listed = {m.group(1): normalise(m.group(2)) for m in _LISTED.finditer(message)}
    if letter in listed:
        for k, option in enumerate(options):
            if normalise(option) == listed[letter]:
                return k
    index = ord(letter) - ord("A")
    return index if index < len(options) else None
