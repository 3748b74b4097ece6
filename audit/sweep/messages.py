"""Measure what the routers did to the question and what reached the worker, in one pass over the
texts.

Runs have millions of long rows. Once all rows of a question have been read, only its counts are
kept, and each distinct message is read once. Texts are compared after normalisation: Unicode NFKC,
case folded, punctuation and white space replaced by one space.
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

from audit.core.errors import DataError
from audit.statistics.information import InformationSlope, information_slope
from audit.sweep.design import Aggregator, Arm

_WORD = re.compile(r"[^\W_]+")
_ASCII = "".join(chr(i).lower() if chr(i).isalnum() else " " for i in range(128))
_LISTED = re.compile(r"(?m)^[^\S\n]*[*(\[]*([A-J])[.):\]]\**\s*(\S.*)$")
# This matches "the correct answer is B", "Answer: (B)" and "best option would be B"; _stated_option
# reads the rest. After "is" the option may stand on the next line. After a bare colon it may not
# ("Choose the best answer:", a list).
_VERB = r"(?:\s*(?:is|was|would\s+be|should\s+be|must\s+be)\b[\s*\"'“(:]*|\s*[:=→-][ \t*\"'“(]*)"
_STATED = re.compile(
    r"\b(?:(?:(?:correct|right|best|true|final)\s+)?(?:answer|solution)|(?:correct|right|best)\s+(?:option|choice|response))"
    + r"(?:\s+(?:to|for)\s+(?:the|this|that)(?:\s+question)?)?[*\"'”]*"
    + _VERB
    + r"(?P<statement>[^\n]{0,200})",
    re.IGNORECASE,
)
# This matches "B is the correct answer" and "Paris is correct". No part can backtrack into another:
# a message of endless blanks or asterisks would take quadratic time. For the same reason the match
# begins with neither.
_STATED_AFTER = re.compile(
    r"(?P<statement>[^\n.;!?\s*\"'”)](?:[^\n.;!?]{0,198}?[^\n.;!?\s*\"'”)])??)[\s*\"'”)]++(?<=\s)(?:is|was)\s+(?:the\s+)?(?:correct|right|best)(?:\s+(?:answer|option|choice)|\s*[.!]|\s*$)",
    re.IGNORECASE | re.MULTILINE,
)
# A and I are words too ("the answer is A number"). As letters they stand alone, or a mark or a
# reason follows.
_LETTER_FIRST = re.compile(
    r"(?:(?:option|choice|letter)\s+)?[(\[\"'*$]*(?:\\boxed\{)?"
    r"([B-HJ](?!\w|['’]\w)|[AI](?=[)\].,:;*\"}]|['’](?!\w)|\s+(?:because|since|as|-)|$))"
    # "A, B or C" names no option.
    r"(?![)\]\"'*]*\s*(?:[,/|]|or\b|and\b)\s*(?:(?:or|and)\s+)?[(\[\"'*]*[A-HJ](?![\w'’]))"
)
_LETTER_LAST = re.compile(r"(?:^|\s)[(\[\"'*]*([A-J])[)\].,:;*\"']*$")


def fold(text: str) -> str:
    """Return case-folded words joined by one space; text without a word keeps its stripped
    characters.

    >>> fold("  The answer --- is: B!")
    'the answer is b'
    """
    # This gives the same result four times as fast; a report reads every text of a run.
    if text.isascii():
        words = text.translate(_ASCII).split()
    else:
        words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return " ".join(words) or unicodedata.normalize("NFKC", text).casefold().strip()


# Caches options and messages of the current questions; prompts use `fold`.
normalise = lru_cache(maxsize=4096)(fold)


def holds(message: str, part: str) -> bool:
    """Return whether a message transmits a part of the question.

    Parameters
    ----------
    message, part : str
        The router message; the stem or an option.

    Returns
    -------
    bool
        True if the message has the part word for word, or KEPT_SHARE of its words (multiset
        overlap).
    """
    text, wanted = normalise(message), normalise(part)
    if not wanted:
        return True
    if f" {wanted} " in f" {text} " or (not _WORD.search(wanted) and wanted in message):
        return True
    words = Counter(wanted.split())
    kept = words & Counter(text.split())
    return kept.total() >= KEPT_SHARE * words.total() and words.total() > 1


def states_answer(message: str, options: Sequence[str], gold: int) -> bool | None:
    """Return whether a message states the gold option as the answer.

    Parameters
    ----------
    message : str
        The router message.
    options : sequence of str
        The options as shown.
    gold : int
        Index of the right option.

    Returns
    -------
    bool or None
        True: the message states the gold option; False: it states another one; None: it states
        none.

    Notes
    -----
    A letter is read from the list in the message itself if it has one, as a router may have
    reordered it.

    Examples
    --------
    >>> states_answer("The correct answer is B.", ["3", "4"], gold=1)
    True
    >>> states_answer("Options: A. 3 B. 4", ["3", "4"], gold=1) is None
    True
    """
    lowered = message.casefold()
    if not any(word in lowered for word in ("answer", "correct", "right", "best", "solution")):
        return None  # almost every message ends here, without the slow patterns
    named: set[int | None] = set()
    for pattern in (_STATED, _STATED_AFTER):
        for match in pattern.finditer(message):
            named.add(
                _stated_option(match["statement"], message, options, first=pattern is _STATED)
            )
    named.discard(None)
    return gold in named if named else None


def gives_answer(message: str, question: str, options: Sequence[str], gold: int) -> bool | None:
    """Return whether a message adds an option to a question that was sent without options (a
    cloze).

    Parameters
    ----------
    message : str
        The router message; it can name an option only by answering.
    question : str
        The question.
    options : sequence of str
        The options, which the router did not see.
    gold : int
        Index of the right option.

    Returns
    -------
    bool or None
        True: the message holds the gold option's text and the question does not; False: it holds
        other options only; None: it holds none.

    Examples
    --------
    >>> gives_answer("Question: What barks? The dog.", "What barks?", ["dog", "cat"], 0)
    True
    """
    original = f" {normalise(question)} "
    added = f" {normalise(message)} ".replace(original, " ")
    named = []
    for k, option in enumerate(options):
        text = f" {normalise(option)} "
        if text in added and text not in original:
            named.append(k)
    return gold in named if named else None


def _stated_option(
    statement: str, message: str, options: Sequence[str], *, first: bool
) -> int | None:
    """Return the index of the option that a statement begins (or ends) with; None for "not B" or
    "one of these".
    """
    near = statement[:24] if first else statement[-40:]
    if re.search(r"\b(?:not|n't|whether|if|which|unknown|one of)\b", near, re.IGNORECASE):
        return None
    words = normalise(statement).split()
    best, best_length = None, 0
    skips = (0, 1, 2) if first else (0,)  # "the answer is the (option) Paris"
    # The longest matching option counts: "red wine" does not state "red".
    for k, option in enumerate(options):
        wanted = normalise(option).split()
        for skip in skips:
            end = skip + len(wanted)
            matched = words[skip:end] if first else words[-len(wanted) :]
            if (
                matched != wanted
                or len(wanted) <= best_length
                or (skip and words[0] not in _FILLERS)
            ):
                continue
            if not first or not _of_several(words[end:], options):
                best, best_length = k, len(wanted)
    letter = (
        _LETTER_FIRST.match(statement.strip()) if first else _LETTER_LAST.search(statement.strip())
    )
    if letter is None or best_length > 1:
        return best
    return _option_of_letter(letter.group(1), message, options)


def _of_several(rest: Sequence[str], options: Sequence[str]) -> bool:
    """Return whether another option follows, as in "Rome, Paris or Oslo", which states none of them
    as right.
    """
    if rest[:1] in (["or"], ["and"]):
        rest = rest[1:]
    listed = " ".join([*rest, ""])
    return any(listed.startswith(f"{normalise(option)} ") for option in options)


_FILLERS = frozenset(
    {
        "boxed",
        "the",
        "option",
        "choice",
        "letter",
        "a",
        "an",
        "that",
        "clearly",
        "simply",
        "definitely",
    }
)


def _option_of_letter(letter: str, message: str, options: Sequence[str]) -> int | None:
    listed = {m.group(1): normalise(m.group(2)) for m in _LISTED.finditer(message)}
    if letter in listed:
        for k, option in enumerate(options):
            if normalise(option) == listed[letter]:
                return k
    index = ord(letter) - ord("A")
    return index if index < len(options) else None


KEPT_SHARE = (
    0.8  # share of the words of the stem or an option that a message must hold to transmit it
)


class TextRow(NamedTuple):
    """The texts of one row of the sweep."""

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
        """Return the messages that the worker read: the summary alone if there is one."""
        return (
            self.router_messages[-1:]
            if self.aggregator == Aggregator.SUMMARY
            else self.router_messages
        )

    @property
    def written(self) -> tuple[str, ...]:
        """Return the routers' own messages, without a summary."""
        return (
            self.router_messages[:-1]
            if self.aggregator == Aggregator.SUMMARY
            else self.router_messages
        )


@dataclass(frozen=True)
class ByRouters:
    """Effect of so many routers together on a question: shares of words, averaged over noisy
    presentations.

    one_kept: share of the question's words in one message. kept: share in what the worker read (in
    a vote: in one message). restored: kept minus one_kept. added: share of the messages' words that
    the question does not have. cues: share of the question's neighbouring pairs of words that some
    message has too (kappa of song2026, eq. 14). accuracy: over answered presentations.
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
    """Measures of the texts of one cell. Counts are of messages or presentations; ids are of
    questions.

    clean_*: messages of forward_full with r=1. noisy_*: presentations of noisy_rewrite. deleted:
    share of the question's distinct words that no message kept; deleted_per_message: that one
    message did not keep. added: share of the messages' distinct words that the question does not
    have. The three are averages over noisy presentations.

    leaks: (routers, question_id) of noisy presentations in which a message states the gold option
    as the answer. aided: (routers, question_id) of forward_full in which a message names any
    option; leaving out only right ones would lower the controls.

    messages, leaking: over the whole cell. gold_only_kept: noisy messages that kept the gold option
    alone, of options_to_keep. noops: noisy presentations that reached the worker as the clean text.
    same_requests: noops with the very request of the clean baseline (`request_sha256`). lost: noisy
    presentations whose messages are not in the prompt that was sent. mixed_ids: questions whose
    text, options or right answer differ between rows.

    slope: accuracy by the share of a question's words that arrived; None if the run cannot show it.
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
    # Shares are summed as whole billionths, so that the order of the rows does not change the
    # result.
    by_routers: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    # For each set of router counts: each question's share of arrived words, then its score, at each
    # count.
    information: defaultdict[tuple[int, ...], array[float]] = field(
        default_factory=lambda: defaultdict(lambda: array("d"))
    )


@dataclass(frozen=True)
class MeasuredTexts:
    """Measures by (model, benchmark).

    clean_sent: measures of the probed questions as if the worker had received the clean prompt in
    place of every noisy one.
    """

    measures: dict[tuple[str, str], TextMeasures] = field(default_factory=dict)
    clean_sent: dict[tuple[str, str], TextMeasures] = field(default_factory=dict)


class _Message(NamedTuple):
    """A router message of a question; pairs are the question's neighbouring words that it has
    too."""

    text: str  # the normalised text
    words: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    stated: bool | None
    gold_only: bool


class _Clean(NamedTuple):
    """The first clean run's prompt and messages (normalised), and its request."""

    prompt: str = ""
    messages: frozenset[str] = frozenset()
    request: str | None = None


class _Question:
    """The state of a question until its last row; noisy rows that come before the clean one
    wait."""

    def __init__(self, row: TextRow) -> None:
        self.first = row
        self.rows = 0
        self.clean: _Clean | None = None
        self.waiting: list[TextRow] = []
        self.messages: dict[str, _Message] = {}
        # Routers -> answers, and sums of what arrived and of scores.
        self.information: dict[int, list[float]] = {}
        self.original = normalise(
            "\n".join([row.question, *(row.options if row.options_shown else ())])
        )
        words = self.original.split()
        self.words, self.pairs = frozenset(words), frozenset(pairwise(words))

    def read(self, raw: Sequence[str]) -> list[_Message]:
        """Return the properties of router messages; each distinct message is read once."""
        for message in set(raw) - self.messages.keys():
            self.messages[message] = self._read(message)
        return [self.messages[message] for message in raw]

    def _read(self, raw: str) -> _Message:
        q, text = self.first, fold(raw)
        words, padded = text.split(), f" {text} "
        stated, gold_only = None, False
        if q.options and q.options_shown:
            stated = states_answer(raw, q.options, q.gold)
            kept = [f" {normalise(option)} " in padded for option in q.options]
            gold_only = kept[q.gold] and sum(kept) == 1
        elif q.options:
            stated = gives_answer(raw, q.question, q.options, q.gold)
        return _Message(
            text, frozenset(words), self.pairs.intersection(pairwise(words)), stated, gold_only
        )


def measure_texts(
    rows: Iterable[TextRow],
    settings: Mapping[tuple[str, str], int] | None = None,
    probed: Mapping[tuple[str, str], Collection[str]] | None = None,
) -> MeasuredTexts:
    """Measure all texts in one pass over the rows, in any order.

    Parameters
    ----------
    rows : iterable of TextRow
        The texts.
    settings : mapping, optional
        Rows per question by (model, benchmark); a question is released after its last row. At the
        end of the pass if None.
    probed : mapping, optional
        Question ids by (model, benchmark), for the self-test.

    Returns
    -------
    MeasuredTexts
        Independent of the order of the rows.
    """
    reading = _Pass(settings, probed or {})
    for row in rows:
        reading.take(row)
    return reading.texts()


class _Pass:
    """The state of one pass: tallies by (model, benchmark), and the questions with rows to come."""

    def __init__(
        self,
        settings: Mapping[tuple[str, str], int] | None,
        probed: Mapping[tuple[str, str], Collection[str]],
    ) -> None:
        self.settings, self.probed = settings, probed
        self.tallies: defaultdict[tuple[str, str], _Tally] = defaultdict(_Tally)
        self.sent: dict[tuple[str, str], _Tally] = {cell: _Tally() for cell in probed}
        self.open: dict[tuple[str, str, str], _Question] = {}

    def take(self, row: TextRow) -> None:
        """Count one row."""
        cell, key = (row.model, row.benchmark), (row.model, row.benchmark, row.question_id)
        tally = self.tallies[cell]
        if key not in self.open:
            self.open[key] = _Question(row)
        question = self.open[key]
        question.rows += 1
        first = question.first
        if (row.question, row.options, row.gold) != (first.question, first.options, first.gold):
            tally.mixed.add(row.question_id)  # Mixed messages fail a gate.
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
        """Count a noisy row against the clean one."""
        cell, sent = (row.model, row.benchmark), fold(row.prompt)
        kept = _count_noisy(row, sent, question, self.tallies[cell], clean or _Clean())
        _count_information(row, question, kept, self.tallies[cell])
        if row.question_id in self.probed.get(cell, ()):
            _count_noisy(
                row, clean.prompt if clean else sent, question, self.sent[cell], clean or _Clean()
            )

    def close(self, question: _Question) -> None:
        """Count the noisy rows that waited for the clean one."""
        for row in question.waiting:
            self.count_noisy(row, question, question.clean)
        question.waiting = []

    def finish(self, cell: tuple[str, str], question: _Question) -> None:
        """Count a question after its last row."""
        self.close(question)
        known = sorted(question.information.items())
        counts = tuple(routers for routers, _ in known)
        # The key 1 is the share that arrived at each router count, and 2 the score.
        for k in (1, 2):
            means = [sums[k] / sums[0] if sums[0] else np.nan for _, sums in known]
            self.tallies[cell].information[counts].extend(means)

    def texts(self) -> MeasuredTexts:
        """Return the measures after the last row."""
        for (*cell, _), question in self.open.items():
            self.finish((cell[0], cell[1]), question)
        measures = {cell: _freeze(tally) for cell, tally in sorted(self.tallies.items())}
        clean_sent = {cell: _freeze(tally) for cell, tally in sorted(self.sent.items())}
        return MeasuredTexts(measures, clean_sent)


def _count_leaks(row: TextRow, question: _Question, tally: _Tally) -> None:
    if not row.router_messages:
        return
    noisy = row.arm == Arm.NOISY_REWRITE
    stated = [m.stated for m in question.read(row.seen)]
    leaking = stated.count(True)
    counts = tally.counts
    counts["messages"] += len(stated)
    if noisy:
        counts["messages_noisy"] += len(stated)
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


def _count_noisy(
    row: TextRow, sent: str, question: _Question, tally: _Tally, clean: _Clean
) -> float:
    """Return the share of the question's words that arrived. `sent` is the normalised prompt."""
    messages = question.read(row.seen)
    arrived = []
    for m in messages:
        if m.text and m.text in sent:
            arrived.append(m)
    same_request = row.request_sha256 is not None and row.request_sha256 == clean.request
    counts = tally.counts
    counts["same_requests"] += same_request
    counts["noisy_presentations"] += 1
    counts["lost"] += len(arrived) < len(messages)
    if same_request or _is_clean(arrived, sent, question, clean):
        counts["noops"] += 1
        tally.noop.add(row.question_id)
    if row.options_shown and row.options:  # without options, none can be kept or dropped
        counts["options_to_keep"] += len(messages)
        counts["gold_only_kept"] += sum(m.gold_only for m in messages)
    views: list[frozenset[str]] = []
    for messages_read in _views(row, arrived):
        views.append(frozenset[str]().union(*(m.words for m in messages_read)))
    return _count_words(
        tally.by_routers[row.routers],
        views or [frozenset(sent.split())],
        question.words,
        question.read(row.written),
    )


def _count_words(
    sums: Counter[str],
    views: Sequence[frozenset[str]],
    question: frozenset[str],
    written: Sequence[_Message],
) -> float:
    """Count shares of words of one presentation; return the share of the question's words that
    arrived.
    """
    size = max(len(question), 1)
    sums["presentations"] += 1
    sums["deleted"] += _billionths(sum(len(question - view) / size for view in views) / len(views))
    sums["added"] += _billionths(
        sum(len(view - question) / max(len(view), 1) for view in views) / len(views)
    )
    if written:
        sums["with_messages"] += 1
        missing = sum(len(question - m.words) for m in written)
        sums["deleted_per_message"] += _billionths(missing / len(written) / size)
    return sum(len(question & view) / size for view in views) / len(views)


def _views(row: TextRow, messages: Sequence[_Message]) -> list[Sequence[_Message]]:
    """Return the messages that the worker read at once: all of them, or in a vote each alone."""
    if row.aggregator == Aggregator.VOTE:
        return [(m,) for m in messages]
    return [messages] if messages else []


def _count_information(row: TextRow, question: _Question, kept: float, tally: _Tally) -> None:
    """Count the pairs of words, and the score by the share of words that arrived (`kept`)."""
    sums, n_pairs = tally.by_routers[row.routers], max(len(question.pairs), 1)
    pair_counts = []
    for messages in _views(row, question.read(row.seen)):
        pair_counts.append(len(frozenset().union(*(m.pairs for m in messages))))
    if pair_counts:
        sums["cues"] += _billionths(sum(pair_counts) / len(pair_counts) / n_pairs)
    known = question.information.setdefault(row.routers, [0.0, 0.0, 0.0])
    if row.correct is not None:
        sums["answered"] += 1
        sums["right"] += row.correct
        for k, value in enumerate((1.0, kept, float(row.correct))):
            known[k] += value


def _is_clean(arrived: Sequence[_Message], sent: str, question: _Question, clean: _Clean) -> bool:
    """Return whether the worker read the clean text.

    So it is if its prompt is the clean prompt, if every message in it is a clean one, or if no
    noisy message arrived and a clean one did.
    """
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
        return (
            sum(sums[name] for sums in tally.by_routers.values()) / 1e9 / noisy if noisy else None
        )

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
        # A setting without any message is a fault, and gates name it.
        if not sums["with_messages"]:
            continue
        n, accuracy = (
            sums["presentations"],
            sums["right"] / sums["answered"] if sums["answered"] else None,
        )
        one_kept = 1 - sums["deleted_per_message"] / 1e9 / sums["with_messages"]
        kept, added, cues = (
            1 - sums["deleted"] / 1e9 / n,
            sums["added"] / 1e9 / n,
            sums["cues"] / 1e9 / n,
        )
        rows.append(ByRouters(routers, n, one_kept, kept, kept - one_kept, added, cues, accuracy))
    return tuple(rows)


def _slope(tally: _Tally) -> InformationSlope | None:
    """Return the slope of accuracy on what arrived; None if the run cannot show it."""
    by_size = sorted(tally.information.items(), key=lambda item: (len(item[1]), item[0]))
    columns, values = by_size[-1] if by_size else ((), array("d"))
    if len(columns) < 2:
        return None
    table = np.array(values).reshape(-1, 2 * len(columns))
    table = table[np.lexsort(table.T)]  # The order of the rows must not change the result.
    try:
        return information_slope(table[:, : len(columns)], table[:, len(columns) :])
    except DataError:
        return None
