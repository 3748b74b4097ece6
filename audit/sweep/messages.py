"""What the routers did to the question and what reached the worker: one pass of O(rows) over the texts.

Runs have millions of long rows: once all rows of a question have been seen, only counts are kept of it, and each
distinct message is read once. Comparison is on normalised text: Unicode NFKC, case folded, punctuation and white space
to one space.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from audit.errors import DataError
from audit.statistics.information import InformationSlope, information_slope
from audit.sweep.design import Aggregator, Arm

_WORD = re.compile(r"[^\W_]+")
_ASCII = "".join(chr(i).lower() if chr(i).isalnum() else " " for i in range(128))
_LISTED = re.compile(r"(?m)^[^\S\n]*[*(\[]*([A-J])[.):\]]\**\s*(\S.*)$")
# "the correct answer is B", "Answer: (B)", "best option would be B"; what follows is judged by _names_gold
# After "is" the option may stand on the next line; after a bare colon it may not ("Choose the best answer:", a list).
_VERB = r"(?:\s*(?:is|was|would\s+be|should\s+be|must\s+be)\b[\s*\"'“(:]*|\s*[:=→-][ \t*\"'“(]*)"
_STATED = re.compile(
    r"\b(?:(?:(?:correct|right|best|true|final)\s+)?(?:answer|solution)|(?:correct|right|best)\s+(?:option|choice|response))"
    + r"(?:\s+(?:to|for)\s+(?:the|this|that)(?:\s+question)?)?[*\"'”]*"
    + _VERB
    + r"(?P<said>[^\n]{0,200})",
    re.IGNORECASE,
)
# "B is the correct answer", "Paris is correct". No part can give back what another takes: a model that repeats a blank
# or an asterisk for ever would hold the report up as long. For the same reason it begins with neither.
_STATED_AFTER = re.compile(
    r"(?P<said>[^\n.;!?\s*\"'”)](?:[^\n.;!?]{0,198}?[^\n.;!?\s*\"'”)])??)[\s*\"'”)]++(?<=\s)(?:is|was)\s+(?:the\s+)?(?:correct|right|best)(?:\s+(?:answer|option|choice)|\s*[.!]|\s*$)",
    re.IGNORECASE | re.MULTILINE,
)
# A and I are words too ("the answer is A number"): as letters they stand alone, or a mark or a reason follows.
_LETTER_FIRST = re.compile(
    r"(?:(?:option|choice|letter)\s+)?[(\[\"'*$]*(?:\\boxed\{)?"
    r"([B-HJ](?!\w|['’]\w)|[AI](?=[)\].,:;*\"}]|['’](?!\w)|\s+(?:because|since|as|-)|$))"
    r"(?![)\]\"'*]*\s*(?:[,/|]|or\b|and\b)\s*(?:(?:or|and)\s+)?[(\[\"'*]*[A-HJ](?![\w'’]))"  # "A, B or C" names none
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


def holds(message: str, part: str) -> bool:
    """Whether a message transmits a part: word for word, or KEPT_SHARE of its words (multiset overlap)."""
    text, wanted = normalise(message), normalise(part)
    if not wanted:
        return True
    if f" {wanted} " in f" {text} " or (not _WORD.search(wanted) and wanted in message):
        return True
    need, have = Counter(wanted.split()), Counter(text.split())
    return sum((need & have).values()) >= KEPT_SHARE * sum(need.values()) and sum(need.values()) > 1


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
    named = {
        _option_said(found["said"], message, options, first=pattern is _STATED)
        for pattern in (_STATED, _STATED_AFTER)
        for found in pattern.finditer(message)
    } - {None}
    return gold in named if named else None


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
        for skip in range(1 + 2 * first):  # "the answer is the (option) Paris"
            end = skip + len(wanted)
            found = words[skip:end] if first else words[-len(wanted) :]
            if found != wanted or len(wanted) <= best_length or (skip and words[0] not in _FILLERS):
                continue
            if not first or not _of_several(words[end:], options):
                best, best_length = k, len(wanted)
    letter = _LETTER_FIRST.match(said.strip()) if first else _LETTER_LAST.search(said.strip())
    if letter is None or best_length > 1:
        return best
    return _option_of_letter(letter.group(1), message, options)


def _of_several(rest: Sequence[str], options: Sequence[str]) -> bool:
    """Whether another option follows at once, as in "Rome, Paris or Oslo": then none of them is said to be right."""
    listed = " ".join([*rest[rest[:1] in (["or"], ["and"]) :], ""])
    return any(listed.startswith(f"{normalise(option)} ") for option in options)


_FILLERS = frozenset(
    {"boxed", "the", "option", "choice", "letter", "a", "an", "that", "clearly", "simply", "definitely"}
)


def _option_of_letter(letter: str, message: str, options: Sequence[str]) -> int | None:
    listed = {m.group(1): normalise(m.group(2)) for m in _LISTED.finditer(message)}
    if letter in listed:
        for k, option in enumerate(options):
            if normalise(option) == listed[letter]:
                return k
    index = ord(letter) - ord("A")
    return index if index < len(options) else None


KEPT_SHARE = 0.8  # of the words of the stem, or of an option, that a message must hold to have transmitted it


class TextRow(NamedTuple):
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
    correct: bool | None = None
    aggregator: Aggregator = Aggregator.CONCATENATE

    @property
    def seen(self) -> tuple[str, ...]:
        """What the worker saw of the messages: the summary alone where there is one."""
        return self.router_messages[-1:] if self.aggregator == Aggregator.SUMMARY else self.router_messages

    @property
    def written(self) -> tuple[str, ...]:
        """The routers' own messages."""
        return self.router_messages[:-1] if self.aggregator == Aggregator.SUMMARY else self.router_messages


@dataclass(frozen=True)
class ByRouters:
    """What so many routers did to a question together, averaged over noisy presentations: shares of words.

    one_kept: of the question's words, in one message; kept: in what the worker saw (of a vote: in one message);
    restored: kept less one_kept. added: of the messages' words, those that the question does not have. cues: of the
    question's neighbouring pairs of words, those that some message has too (kappa of song2026, eq. 14). accuracy: of
    answered ones.
    """

    routers: int
    presentations: int
    one_kept: float
    kept: float
    restored: float
    added: float
    cues: float
    accuracy: float | None


@dataclass(frozen=True)
class TextMeasures:
    """What was measured on the texts of one cell. Counts are of messages or presentations, ids are of questions.

    clean_*: messages of forward_full with r=1. noisy_*: presentations of noisy_rewrite. deleted: share of the
    question's distinct words that no message kept (deleted_per_message: that one message did not keep); added: share of
    the messages' distinct words that the question does not have; averaged over noisy presentations.
    leaks: (routers, question_id) of noisy presentations in which a message states the gold option as the answer.
    aided: the same of forward_full, in which one names any option: to leave out the right ones alone would lower the
    controls. messages, leaking: of the whole cell. gold_only_kept: noisy messages that kept the gold option alone, of
    options_to_keep. noops: noisy presentations that reached the worker as the clean text; same_requests: of these, by
    the very request of the clean baseline (`request_sha256`). lost: noisy presentations whose messages are not in the
    prompt that was sent. mixed_ids: questions whose text, options or right answer differ between rows.
    slope: accuracy by the share of a question's words that arrived; None where none can be told.
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
    leaks: frozenset[tuple[int, str]] = frozenset()
    aided: frozenset[tuple[int, str]] = frozenset()
    by_routers: tuple[ByRouters, ...] = ()
    slope: InformationSlope | None = None


@dataclass
class _Tally:
    counts: Counter[str] = field(default_factory=Counter)
    lossy: set[str] = field(default_factory=set)
    noop: set[str] = field(default_factory=set)
    leak: set[str] = field(default_factory=set)
    leaks: set[tuple[int, str]] = field(default_factory=set)
    aided: set[tuple[int, str]] = field(default_factory=set)
    mixed: set[str] = field(default_factory=set)
    # Sums of shares in billionths: whole numbers, so that the order of the rows cannot show.
    by_routers: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    # By the numbers of routers: of each question what arrived, then its score, at each number. Eight bytes each.
    information: defaultdict[tuple[int, ...], array[float]] = field(
        default_factory=lambda: defaultdict(lambda: array("d"))
    )


@dataclass(frozen=True)
class MeasuredTexts:
    """Measures by (model, benchmark). clean_sent: those of the probed questions, had the worker been sent the clean
    prompt in place of every noisy one."""

    measures: dict[tuple[str, str], TextMeasures] = field(default_factory=dict)
    clean_sent: dict[tuple[str, str], TextMeasures] = field(default_factory=dict)


class _Message(NamedTuple):
    """A router message of a question. pairs: those of the question's neighbouring words that it has too."""

    text: str  # normalised
    words: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    stated: bool | None
    gold_only: bool


class _Clean(NamedTuple):
    """What noisy texts are compared with: the first clean run's prompt and messages (normalised), and its request."""

    prompt: str = ""
    messages: frozenset[str] = frozenset()
    request: str | None = None


class _Question:
    """What is known of a question until its last row: noisy rows that came before the clean one wait for it."""

    def __init__(self, row: TextRow) -> None:
        self.first = row
        self.rows = 0
        self.clean: _Clean | None = None
        self.waiting: list[TextRow] = []
        self.messages: dict[str, _Message] = {}
        self.information: dict[int, list[float]] = {}  # routers -> answers, and sums of what arrived and of scores
        self.original = normalise("\n".join([row.question, *(row.options if row.options_shown else ())]))
        words = self.original.split()
        self.words, self.pairs = frozenset(words), frozenset(pairwise(words))

    def read(self, raw: Sequence[str]) -> list[_Message]:
        """What there is to know of router messages; each is read once."""
        self.messages |= {one: self._read(one) for one in set(raw) - self.messages.keys()}
        return [self.messages[one] for one in raw]

    def _read(self, raw: str) -> _Message:
        q, text = self.first, fold(raw)
        words, padded = text.split(), f" {text} "
        stated, gold_only = None, False
        if q.options and q.options_shown:
            stated = states_answer(raw, q.options, q.gold)
            there = [f" {normalise(option)} " in padded for option in q.options]
            gold_only = there[q.gold] and sum(there) == 1
        elif q.options:
            stated = gives_answer(raw, q.question, q.options, q.gold)
        return _Message(text, frozenset(words), self.pairs.intersection(pairwise(words)), stated, gold_only)


def measure_texts(
    rows: Iterable[TextRow],
    settings: Mapping[tuple[str, str], int] | None = None,
    probed: Mapping[tuple[str, str], Collection[str]] | None = None,
) -> MeasuredTexts:
    """One pass over the rows, in any order.

    settings: rows a question of each (model, benchmark); after the last of them it is let go (at the end where None).
    probed: ids of questions by (model, benchmark), for the self-test.
    """
    reading = _Pass(settings, probed or {})
    for row in rows:
        reading.take(row)
    return reading.texts()


class _Pass:
    """What one pass over the rows holds: tallies by (model, benchmark), and the questions whose last row is to come."""

    def __init__(
        self, settings: Mapping[tuple[str, str], int] | None, probed: Mapping[tuple[str, str], Collection[str]]
    ) -> None:
        self.settings, self.probed = settings, probed
        self.tallies: defaultdict[tuple[str, str], _Tally] = defaultdict(_Tally)
        self.sent: dict[tuple[str, str], _Tally] = {cell: _Tally() for cell in probed}
        self.open: dict[tuple[str, str, str], _Question] = {}

    def take(self, row: TextRow) -> None:
        cell, key = (row.model, row.benchmark), (row.model, row.benchmark, row.question_id)
        tally = self.tallies[cell]
        if key not in self.open:
            self.open[key] = _Question(row)
        question = self.open[key]
        question.rows += 1
        first = question.first
        if (row.question, row.options, row.gold) != (first.question, first.options, first.gold):
            tally.mixed.add(row.question_id)  # which fails a gate
        _count_leaks(row, question, tally)
        if row.arm == Arm.FORWARD_FULL and row.routers == 1:
            _count_clean(row, tally)
            if row.replicate == 0:
                messages = frozenset(m.text for m in question.read(row.seen))
                question.clean = _Clean(fold(row.prompt), messages, row.request_sha256)
                self.close(question)
        elif row.arm == Arm.NOISY_REWRITE and question.clean is None:
            question.waiting.append(row)
        elif row.arm == Arm.NOISY_REWRITE:
            self.count_noisy(row, question, question.clean)
        if self.settings is not None and question.rows == self.settings[cell]:
            self.finish(cell, self.open.pop(key))

    def count_noisy(self, row: TextRow, question: _Question, clean: _Clean | None) -> None:
        cell, sent = (row.model, row.benchmark), fold(row.prompt)
        kept = _count_noisy(row, sent, question, self.tallies[cell], clean or _Clean())
        _count_information(row, question, kept, self.tallies[cell])
        if row.question_id in self.probed.get(cell, ()):
            _count_noisy(row, clean.prompt if clean else sent, question, self.sent[cell], clean or _Clean())

    def close(self, question: _Question) -> None:
        """Count the noisy rows that waited for the clean one."""
        for row in question.waiting:
            self.count_noisy(row, question, question.clean)
        question.waiting = []

    def finish(self, cell: tuple[str, str], question: _Question) -> None:
        """After a question's last row."""
        self.close(question)
        known = sorted(question.information.items())
        means = [one[k] / one[0] if one[0] else np.nan for k in (1, 2) for _, one in known]
        self.tallies[cell].information[tuple(routers for routers, _ in known)].extend(means)

    def texts(self) -> MeasuredTexts:
        for (*cell, _), question in self.open.items():
            self.finish((cell[0], cell[1]), question)
        made = ({cell: _freeze(tally) for cell, tally in sorted(one.items())} for one in (self.tallies, self.sent))
        return MeasuredTexts(*made)


def _count_leaks(row: TextRow, question: _Question, tally: _Tally) -> None:
    if not row.router_messages:
        return
    noisy = row.arm == Arm.NOISY_REWRITE
    stated = [m.stated for m in question.read(row.seen)]
    leaking = stated.count(True)
    counts = tally.counts
    counts["messages"] += len(stated)
    counts["messages_noisy"] += noisy * len(stated)
    counts["stated_wrong"] += stated.count(False)
    if leaking:
        counts["leaking"] += leaking
        tally.leak.add(row.question_id)
        if noisy:
            counts["leaking_noisy"] += leaking
            tally.leaks.add((row.routers, row.question_id))
    if not noisy and stated.count(None) < len(stated):
        tally.aided.add((row.routers, row.question_id))


def _count_clean(row: TextRow, tally: _Tally) -> None:
    for message in row.seen:
        no_stem = not holds(message, row.question)
        no_option = row.options_shown and not all(holds(message, option) for option in row.options)
        tally.counts["clean_messages"] += 1
        tally.counts["clean_without_stem"] += no_stem
        tally.counts["clean_without_option"] += no_option
        if no_stem or no_option:
            tally.counts["clean_lossy"] += 1
            tally.lossy.add(row.question_id)


def _count_noisy(row: TextRow, sent: str, question: _Question, tally: _Tally, clean: _Clean) -> float:
    """The share of the question's words that arrived. sent: what the worker was sent, normalised."""
    messages = question.read(row.seen)
    arrived = [m for m in messages if m.text and m.text in sent]
    same_request = row.request_sha256 is not None and row.request_sha256 == clean.request
    counts = tally.counts
    counts["same_requests"] += same_request
    counts["noisy_presentations"] += 1
    counts["lost"] += len(arrived) < len(messages)
    if same_request or _is_clean(arrived, sent, question, clean):
        counts["noops"] += 1
        tally.noop.add(row.question_id)
    if row.options_shown and row.options:  # else no option to keep or to drop
        counts["options_to_keep"] += len(messages)
        counts["gold_only_kept"] += sum(m.gold_only for m in messages)
    views = [frozenset[str]().union(*(m.words for m in some)) for some in _views(row, arrived)]
    return _count_words(
        tally.by_routers[row.routers], views or [frozenset(sent.split())], question.words, question.read(row.written)
    )


def _count_words(
    sums: Counter[str], views: Sequence[frozenset[str]], asked: frozenset[str], written: Sequence[_Message]
) -> float:
    """Shares of words of one presentation, from what the worker saw at once; the share of those asked that arrived."""
    size = max(len(asked), 1)
    sums["presentations"] += 1
    sums["deleted"] += _billionths(sum(len(asked - told) / size for told in views) / len(views))
    sums["added"] += _billionths(sum(len(told - asked) / max(len(told), 1) for told in views) / len(views))
    if written:
        sums["told"] += 1
        missing = sum(len(asked - m.words) for m in written)
        sums["deleted_per_message"] += _billionths(missing / len(written) / size)
    return sum(len(asked & told) / size for told in views) / len(views)


def _views(row: TextRow, messages: Sequence[_Message]) -> list[Sequence[_Message]]:
    """What the worker saw at once: all messages, or in a vote each by itself."""
    alone = row.aggregator == Aggregator.VOTE
    return [(m,) for m in messages] if alone else [messages] if messages else []


def _count_information(row: TextRow, question: _Question, kept: float, tally: _Tally) -> None:
    """kept: share of the question's words that arrived."""
    sums, of_all = tally.by_routers[row.routers], max(len(question.pairs), 1)
    views = [len(frozenset().union(*(m.pairs for m in some))) for some in _views(row, question.read(row.seen))]
    sums["cues"] += _billionths(sum(views) / len(views) / of_all) if views else 0
    known = question.information.setdefault(row.routers, [0.0, 0.0, 0.0])
    if row.correct is not None:
        sums["answered"] += 1
        sums["right"] += row.correct
        for k, value in enumerate((1.0, kept, float(row.correct))):
            known[k] += value


def _is_clean(arrived: Sequence[_Message], sent: str, question: _Question, clean: _Clean) -> bool:
    """Whether the worker got the clean text: its prompt is the clean prompt, every message in it is a clean one, or
    none of the noisy messages arrived and a clean one did."""
    unchanged = {*clean.messages, question.original}
    if arrived:
        return sent == clean.prompt or all(m.text in unchanged for m in arrived)
    return sent == clean.prompt or any(text and text in sent for text in unchanged)


def _billionths(share: float) -> int:
    return round(share * 1e9)


def _freeze(tally: _Tally) -> TextMeasures:
    noisy = tally.counts["noisy_presentations"]
    counts: dict[str, int] = dict(tally.counts)

    def mean(name: str) -> float | None:
        return sum(one[name] for one in tally.by_routers.values()) / 1e9 / noisy if noisy else None

    return TextMeasures(
        **counts,
        lossy_ids=tuple(sorted(tally.lossy)),
        noop_ids=tuple(sorted(tally.noop)),
        deleted=mean("deleted"),
        deleted_per_message=mean("deleted_per_message"),
        added=mean("added"),
        leak_ids=tuple(sorted(tally.leak)),
        leaks=frozenset(tally.leaks),
        aided=frozenset(tally.aided),
        mixed_ids=tuple(sorted(tally.mixed)),
        by_routers=_by_routers(tally),
        slope=_slope(tally),
    )


def _by_routers(tally: _Tally) -> tuple[ByRouters, ...]:
    rows = []
    for routers, sums in sorted(tally.by_routers.items()):
        if not sums["told"]:  # no message at all: a fault, which gates name
            continue
        n, right = sums["presentations"], sums["right"] / sums["answered"] if sums["answered"] else None
        one, kept = 1 - sums["deleted_per_message"] / 1e9 / sums["told"], 1 - sums["deleted"] / 1e9 / n
        rows.append(
            ByRouters(routers, n, one, kept, kept - one, sums["added"] / 1e9 / n, sums["cues"] / 1e9 / n, right)
        )
    return tuple(rows)


def _slope(tally: _Tally) -> InformationSlope | None:
    """None where the run cannot show one (one number of routers, few questions)."""
    columns, values = max(tally.information.items(), key=lambda one: (len(one[1]), one[0]), default=((), array("d")))
    if len(columns) < 2:
        return None
    table = np.array(values).reshape(-1, 2 * len(columns))
    table = table[np.lexsort(table.T)]  # so that the order of the rows cannot show
    try:
        return information_slope(table[:, : len(columns)], table[:, len(columns) :])
    except DataError:
        return None
