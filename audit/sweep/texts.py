"""What the routers did to the question and what reached the worker: one pass of O(rows) over the texts.

Texts are hostile and long; nothing here keeps more than the clean text of each question and small counts.
Comparison is on normalised text: Unicode NFKC, case folded, punctuation and white space to one space.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from audit.sweep.design import Arm

STEM_KEPT_SHARE = 0.8  # of the stem's words that a message must hold to have transmitted it
OPTION_KEPT_SHARE = 0.8  # of an option's words, when it is not there word for word

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


@dataclass(frozen=True, slots=True)
class TextRow:
    """The part of a row of the sweep that holds texts."""

    model: str
    benchmark: str
    question_id: str
    arm: str
    routers: int
    replicate: int
    question: str
    options: tuple[str, ...]
    router_messages: tuple[str, ...]
    prompt: str
    request_sha256: str | None
    gold: int
    options_shown: bool


@dataclass(frozen=True)
class TextMeasures:
    """What was measured on the texts of one cell. Counts are of messages or presentations, ids are of questions.

    clean_*: messages of forward_full with r=1. noisy_*: presentations of noisy_rewrite. deleted: share of the
    question's distinct words that no message kept (deleted_per_message: that one message did not keep); added: share of
    the messages' distinct words that the question does not have; all averaged over noisy presentations.
    leaks: (routers, replicate, question_id) of the noisy presentations with at least one
    message that states the gold option as the answer. messages, leaking: over all router messages of the cell.
    gold_only_kept: noisy messages that kept the gold option while dropping every other one: a hint, not a statement; of
    options_to_keep messages, none of them in a cloze, which shows no options.
    noops: of noisy_presentations, those that reached the worker as the clean text; same_requests: of these, those whose
    request was the very one of the clean baseline (`request_sha256`: the token ids that the worker consumed).
    lost: noisy presentations whose router messages are not in the prompt that was really sent.
    mixed_ids: questions whose text, options or right answer is not the same in all rows.
    """

    clean_messages: int = 0
    clean_lossy: int = 0
    clean_without_stem: int = 0
    clean_without_option: int = 0  # 0 for a cloze, which shows none
    lossy_ids: tuple[str, ...] = ()
    noisy_presentations: int = 0
    noops: int = 0
    same_requests: int = 0
    noop_ids: tuple[str, ...] = ()
    lost: int = 0
    deleted: float | None = None
    deleted_per_message: float | None = None
    added: float | None = None
    messages: int = 0
    leaking: int = 0
    leaking_noisy: int = 0
    messages_noisy: int = 0
    stated_wrong: int = 0
    gold_only_kept: int = 0
    options_to_keep: int = 0
    leak_ids: tuple[str, ...] = ()
    mixed_ids: tuple[str, ...] = ()
    leaks: frozenset[tuple[int, int, str]] = frozenset()


@lru_cache(maxsize=65536)
def normalise(text: str) -> str:
    """Case-folded words joined by one space. Text without a single word is kept as its own stripped characters.

    >>> normalise("  The answer --- is: B!")
    'the answer is b'
    """
    if text.isascii():  # the same, four times as fast: a report reads every text of a run
        return " ".join(text.translate(_ASCII).split()) or text.lower().strip()
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(_WORD.findall(folded)) or folded.strip()


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


@dataclass
class _Tally:
    counts: Counter[str] = field(default_factory=Counter)
    lossy: set[str] = field(default_factory=set)
    noop: set[str] = field(default_factory=set)
    leak: set[str] = field(default_factory=set)
    leaks: set[tuple[int, int, str]] = field(default_factory=set)
    asked: dict[str, int] = field(default_factory=dict)  # question id -> hash of what it means
    mixed: set[str] = field(default_factory=set)
    deleted: int = 0  # sums of shares in billionths: whole numbers, so that the order of the rows cannot show
    deleted_per_message: int = 0
    added: int = 0


Clean = dict[tuple[str, str, str], tuple[str, frozenset[str], str | None]]
"""Model, benchmark, question id -> prompt and messages (normalised) and request of the clean baseline's first run."""


@dataclass(frozen=True)
class Texts:
    """Measures by (model, benchmark). clean_sent: those of the probed questions, had the worker been sent the clean
    prompt in place of every noisy one."""

    measures: dict[tuple[str, str], TextMeasures] = field(default_factory=dict)
    clean_sent: dict[tuple[str, str], TextMeasures] = field(default_factory=dict)


def clean_texts(rows: Iterable[TextRow]) -> Clean:
    """What `measure_texts` compares noisy texts with; the other rows are left out."""
    return {
        (row.model, row.benchmark, row.question_id): (
            normalise(row.prompt),
            frozenset(normalise(m) for m in row.router_messages),
            row.request_sha256,
        )
        for row in rows
        if row.arm == Arm.FORWARD_FULL and row.routers == 1 and row.replicate == 0
    }


def measure_texts(
    rows: Iterable[TextRow], clean: Clean, probed: Mapping[tuple[str, str], Collection[str]] | None = None
) -> Texts:
    """One pass over the rows. clean: of the same rows. probed: ids of questions by (model, benchmark), for the
    self-test."""
    tallies: dict[tuple[str, str], _Tally] = {}
    sent: dict[tuple[str, str], _Tally] = {cell: _Tally() for cell in probed or {}}
    for row in rows:
        cell = row.model, row.benchmark
        tally = tallies.setdefault(cell, _Tally())
        asked = hash((row.question, tuple(row.options), row.gold))  # within this process: nothing stores it
        if tally.asked.setdefault(row.question_id, asked) != asked:
            tally.mixed.add(row.question_id)
        _count_leaks(row, tally)
        if row.arm == Arm.FORWARD_FULL and row.routers == 1:
            _count_clean(row, tally)
        elif row.arm == Arm.NOISY_REWRITE:
            known = clean.get((*cell, row.question_id))
            prompt = normalise(row.prompt)
            _count_noisy(row, prompt, tally, known)
            if probed and row.question_id in probed.get(cell, ()):
                _count_noisy(row, known[0] if known else prompt, sent[cell], known)
    return Texts(*({cell: _freeze(tally) for cell, tally in sorted(made.items())} for made in (tallies, sent)))


def _count_leaks(row: TextRow, tally: _Tally) -> None:
    noisy = row.arm == Arm.NOISY_REWRITE
    for message in row.router_messages:
        tally.counts["messages"] += 1
        tally.counts["messages_noisy"] += noisy
        if row.options_shown:
            stated = states_answer(message, row.options, row.gold)
        else:
            stated = gives_answer(message, row.question, row.options, row.gold)
        tally.counts["stated_wrong"] += stated is False
        if stated:
            tally.counts["leaking"] += 1
            tally.leak.add(row.question_id)
            if noisy:
                tally.counts["leaking_noisy"] += 1
                tally.leaks.add((row.routers, row.replicate, row.question_id))


def _count_clean(row: TextRow, tally: _Tally) -> None:
    for message in row.router_messages:
        no_stem = not holds(message, row.question, STEM_KEPT_SHARE)
        no_option = row.options_shown and not all(holds(message, option, OPTION_KEPT_SHARE) for option in row.options)
        tally.counts["clean_messages"] += 1
        tally.counts["clean_without_stem"] += no_stem
        tally.counts["clean_without_option"] += no_option
        if no_stem or no_option:
            tally.counts["clean_lossy"] += 1
            tally.lossy.add(row.question_id)


def _count_noisy(row: TextRow, sent: str, tally: _Tally, clean: tuple[str, frozenset[str], str | None] | None) -> None:
    """sent: the prompt that the worker was sent, normalised."""
    original = normalise("\n".join([row.question, *(row.options if row.options_shown else ())]))
    messages = [normalise(m) for m in row.router_messages]
    arrived = [m for m in messages if m and m in sent]
    clean_prompt, clean_messages, clean_request = clean or ("", frozenset(), None)
    same_request = row.request_sha256 is not None and row.request_sha256 == clean_request
    tally.counts["same_requests"] += same_request
    tally.counts["noisy_presentations"] += 1
    if len(arrived) < len(messages):
        tally.counts["lost"] += 1
    unchanged = {*clean_messages, original}
    # The worker got the clean text if it consumed the clean request, if its prompt is the clean prompt, if every
    # message in it is a clean one, or if none of the noisy messages arrived and a clean one did.
    noop = (
        same_request
        or sent == clean_prompt
        or (bool(arrived) and all(m in unchanged for m in arrived))
        or (not arrived and any(text and text in sent for text in unchanged))
    )
    if noop:
        tally.counts["noops"] += 1
        tally.noop.add(row.question_id)
    asked = set(original.split())
    told = set(" ".join(arrived or [sent]).split())
    gone = len(asked - told) / max(len(asked), 1)
    tally.deleted += _billionths(gone)
    if messages:
        missing = sum(len(asked - set(m.split())) for m in messages)
        tally.deleted_per_message += _billionths(missing / len(messages) / max(len(asked), 1))
    tally.added += _billionths(len(told - asked) / max(len(told), 1))
    if not row.options_shown:  # no option to keep or to drop
        return
    tally.counts["options_to_keep"] += len(row.router_messages)
    golds, others = row.options[row.gold], [o for k, o in enumerate(row.options) if k != row.gold]
    for message in row.router_messages:
        padded = f" {normalise(message)} "
        if f" {normalise(golds)} " in padded and not any(f" {normalise(o)} " in padded for o in others):
            tally.counts["gold_only_kept"] += 1


def _billionths(share: float) -> int:
    return round(share * 1e9)


def _freeze(tally: _Tally) -> TextMeasures:
    noisy = tally.counts["noisy_presentations"]
    return TextMeasures(
        **tally.counts,
        lossy_ids=tuple(sorted(tally.lossy)),
        noop_ids=tuple(sorted(tally.noop)),
        deleted=tally.deleted / 1e9 / noisy if noisy else None,
        deleted_per_message=tally.deleted_per_message / 1e9 / noisy if noisy else None,
        added=tally.added / 1e9 / noisy if noisy else None,
        leak_ids=tuple(sorted(tally.leak)),
        leaks=frozenset(tally.leaks),
        mixed_ids=tuple(sorted(tally.mixed)),
    )
