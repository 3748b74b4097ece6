"""Measure what the routers did to each question, and which texts reached the worker.

A run has millions of long rows. To save time and memory, the module reads the rows once, and
analyses each distinct message once. After the last row of a question, only the question's counts
are kept. Texts are compared after normalisation: Unicode NFKC, case folded, punctuation and white
space replaced by one space.
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
# This matches "the correct answer is B", "Answer: (B)" and "best option would be B". The function
# `_stated_option` then reads the statement that follows. After "is", the option may be on the next
# line. After a bare colon it may not, since "Choose the best answer:" begins a list.
_VERB = r"(?:\s*(?:is|was|would\s+be|should\s+be|must\s+be)\b[\s*\"'“(:]*|\s*[:=→-][ \t*\"'“(]*)"
_STATED = re.compile(
    r"\b(?:(?:(?:correct|right|best|true|final)\s+)?(?:answer|solution)|(?:correct|right|best)\s+(?:option|choice|response))"
    + r"(?:\s+(?:to|for)\s+(?:the|this|that)(?:\s+question)?)?[*\"'”]*"
    + _VERB
    + r"(?P<statement>[^\n]{0,200})",
    re.IGNORECASE,
)
# This matches "B is the correct answer" and "Paris is correct". Two parts of the pattern can never
# match the same characters. Otherwise, a message of many blanks or asterisks would take quadratic
# time. For the same reason, a match cannot begin with a blank or an asterisk.
_STATED_AFTER = re.compile(
    r"(?P<statement>[^\n.;!?\s*\"'”)](?:[^\n.;!?]{0,198}?[^\n.;!?\s*\"'”)])??)[\s*\"'”)]++(?<=\s)(?:is|was)\s+(?:the\s+)?(?:correct|right|best)(?:\s+(?:answer|option|choice)|\s*[.!]|\s*$)",
    re.IGNORECASE | re.MULTILINE,
)
# "A" and "I" are words too ("the answer is A number"). So "A" and "I" count as letters of options
# only at the end, or before a punctuation mark or a reason.
_LETTER_FIRST = re.compile(
    r"(?:(?:option|choice|letter)\s+)?[(\[\"'*$]*(?:\\boxed\{)?"
    r"([B-HJ](?!\w|['’]\w)|[AI](?=[)\].,:;*\"}]|['’](?!\w)|\s+(?:because|since|as|-)|$))"
    # An enumeration such as "A, B or C" does not state a single option.
    r"(?![)\]\"'*]*\s*(?:[,/|]|or\b|and\b)\s*(?:(?:or|and)\s+)?[(\[\"'*]*[A-HJ](?![\w'’]))"
)
_LETTER_LAST = re.compile(r"(?:^|\s)[(\[\"'*]*([A-J])[)\].,:;*\"']*$")


def fold(text: str) -> str:
    """Return the words of a text, case-folded and joined by one space.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str
        The folded text. If the text has no word, its other characters are kept.

    Examples
    --------
    >>> fold("  The answer --- is: B!")
    'the answer is b'
    """
    # A report folds every text of a run. For ASCII texts, this shortcut gives the same result four
    # times as fast.
    if text.isascii():
        words = text.translate(_ASCII).split()
    else:
        words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return " ".join(words) or unicodedata.normalize("NFKC", text).casefold().strip()


# Options and messages occur repeatedly, so their folded texts are cached. Prompts occur once and
# are folded by `fold`.
normalise = lru_cache(maxsize=4096)(fold)


def holds(message: str, part: str) -> bool:
    """Return whether a message contains a part of the question (the stem or an option).

    Parameters
    ----------
    message : str
        The router message.
    part : str
        The stem of the question, or an option.

    Returns
    -------
    bool
        True if the message contains the part word for word, or if it contains at least the share
        KEPT_SHARE of the part's words. A repeated word counts as often as it occurs.
    """
    text, wanted = normalise(message), normalise(part)
    if not wanted:
        return True
    if f" {wanted} " in f" {text} " or (not _WORD.search(wanted) and wanted in message):
        return True
    words = Counter(wanted.split())
    shared = words & Counter(text.split())
    return shared.total() >= KEPT_SHARE * words.total() and words.total() > 1


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
        True if the message states the gold option, False if it states another option, and None if
        it states no option.

    Notes
    -----
    If the message lists options, a stated letter refers to the list in the message, since a router
    may have reordered the options.

    Examples
    --------
    >>> states_answer("The correct answer is B.", ["3", "4"], gold=1)
    True
    >>> states_answer("Options: A. 3 B. 4", ["3", "4"], gold=1) is None
    True
    """
    lowered = message.casefold()
    if not any(word in lowered for word in ("answer", "correct", "right", "best", "solution")):
        return None  # This quick check avoids the slow patterns for almost every message.
    named: set[int | None] = set()
    for pattern in (_STATED, _STATED_AFTER):
        for match in pattern.finditer(message):
            named.add(
                _stated_option(match["statement"], message, options, first=pattern is _STATED)
            )
    named.discard(None)
    return gold in named if named else None


def gives_answer(message: str, question: str, options: Sequence[str], gold: int) -> bool | None:
    """Return whether a message adds the answer to a question that was sent without options.

    Parameters
    ----------
    message : str
        The router message. As the router did not see the options, its message can name an option
        only by answering the question.
    question : str
        The question.
    options : sequence of str
        The options.
    gold : int
        Index of the right option.

    Returns
    -------
    bool or None
        True if the message contains the text of the gold option and the question does not. False if
        the message contains only texts of other options. None if it contains no option's text.

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
    """Return the index of the option that a statement names at its start.

    If `first` is False, the option at the end of the statement is returned. The result is None for
    statements such as "not B" or "one of these".
    """
    near = statement[:24] if first else statement[-40:]
    if re.search(r"\b(?:not|n't|whether|if|which|unknown|one of)\b", near, re.IGNORECASE):
        return None
    words = normalise(statement).split()
    best, best_length = None, 0
    # Up to two filler words may come first, as in "the answer is the option Paris".
    skips = (0, 1, 2) if first else (0,)
    # The longest matching option is returned: "red wine" does not state the option "red".
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
    """Return whether other options follow a stated option, as in "Rome, Paris or Oslo".

    Such a list does not state that any of its options is right.
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


# A message transmits the stem or an option if it contains at least this share of the words of that
# stem or option.
KEPT_SHARE = 0.8


class TextRow(NamedTuple):
    """Hold the texts, the key and the outcome of one row of a sweep."""

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
        """Return the texts that the worker read: the summary if there is one, else the messages."""
        return (
            self.router_messages[-1:]
            if self.aggregator == Aggregator.SUMMARY
            else self.router_messages
        )

    @property
    def written(self) -> tuple[str, ...]:
        """Return the messages that the routers wrote, without a summary."""
        return (
            self.router_messages[:-1]
            if self.aggregator == Aggregator.SUMMARY
            else self.router_messages
        )


@dataclass(frozen=True)
class ByRouters:
    """Hold how much of the questions' wording r routers keep, restore and add.

    The shares are averages over noisy presentations, 0-1.

    Attributes
    ----------
    routers : int
        The router count r.
    presentations : int
        The number of noisy presentations.
    one_kept : float
        The share of the question's words that one message contains.
    kept : float
        The share of the question's words that are in the text that the worker read. With the
        aggregator `vote`, this text is a single message.
    restored : float
        `kept` minus `one_kept`: the share of the question's words that are missing from a single
        message but that the worker read in other messages.
    added : float
        Of the words that the worker read, the share that is not in the question.
    cues : float
        The share of the question's pairs of neighbouring words that are also in a message (kappa of
        song2026, eq. 14).
    accuracy : float or None
        The accuracy over answered presentations. None if no presentation was answered.
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
    """Hold the measures of the texts of one cell.

    Attributes
    ----------
    clean_messages, clean_lossy : int
        The number of clean messages (forward_full at r=1), and the number of lossy clean messages.
        A message is lossy if it drops the stem or an option.
    clean_without_stem, clean_without_option : int
        The number of clean messages that drop the stem, and the number that drop an option.
    lossy_ids : tuple of str
        The ids of the questions with a lossy clean message.
    noisy_presentations, lost : int
        The number of noisy presentations (noisy_rewrite), and the number of noisy presentations in
        which a message is missing from the prompt that was sent.
    noops, same_requests : int
        The number of noisy presentations whose text is equal to the clean text. Of these
        presentations, the number whose request is also equal to that of the clean baseline
        (`request_sha256`).
    noop_ids : tuple of str
        The ids of the questions of the presentations that `noops` counts.
    deleted, deleted_per_message : float or None
        The share of the question's distinct words that are in no message, and the share that is
        missing from a single message. Both shares are averages over noisy presentations.
    added : float or None
        The share of the messages' distinct words that are not in the question, averaged over noisy
        presentations.
    messages, leaking : int
        The number of all messages of the cell, and the number of messages that state the gold
        option as the answer (leaks).
    messages_noisy, leaking_noisy : int
        The number of messages and the number of leaks in the noisy arm.
    stated_wrong : int
        The number of messages of the cell that state a wrong option as the answer.
    options_to_keep, gold_only_kept : int
        The number of noisy messages about questions with options, and the number of noisy messages
        that contain the gold option and no other option.
    leak_ids : tuple of str
        The ids of the questions with a message that states the gold option as the answer.
    mixed_ids : tuple of str
        The ids of the questions whose text, options or right answer differ between rows.
    leaks : frozenset of (int, str)
        The (router count, question id) of noisy presentations in which a message states the gold
        option as the answer.
    aided : frozenset of (int, str)
        The (router count, question id) of presentations of forward_full in which a message states
        any option as the answer. Statements of wrong options count too: if only questions with
        right statements were left out, the accuracy of the controls would be lower.
    noisy_stated : frozenset of (int, str)
        The (router count, question id) of noisy presentations in which a message states any option
        as the answer.
    by_routers : tuple of ByRouters
        The effect of the routers on the words, for each router count.
    slope : InformationSlope or None
        The slope of accuracy on the share of a question's words that reached the worker. None if
        the run cannot show this slope.
    """

    clean_messages: int = 0
    clean_lossy: int = 0
    clean_without_stem: int = 0
    clean_without_option: int = 0  # 0 for a cloze question, which shows no options
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
    noisy_stated: frozenset[tuple[int, str]] = frozenset()
    by_routers: tuple[ByRouters, ...] = ()
    slope: InformationSlope | None = None


@dataclass
class _Tally:
    """Hold the counts of one cell while its rows are read."""

    counts: Counter[str] = field(default_factory=Counter)
    lossy: set[str] = field(default_factory=set)
    noop: set[str] = field(default_factory=set)
    leak: set[str] = field(default_factory=set)
    leaks: set[tuple[int, str]] = field(default_factory=set)
    aided: set[tuple[int, str]] = field(default_factory=set)
    noisy_stated: set[tuple[int, str]] = field(default_factory=set)
    mixed: set[str] = field(default_factory=set)
    # Shares are summed as whole numbers of billionths. Unlike a sum of floats, this sum does not
    # depend on the order of the rows.
    by_routers: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    # Maps a tuple of router counts to the data of all questions that have exactly these counts.
    # Each question appends, for every count, the share of its words that reached the worker. Then
    # it appends, for every count, its score.
    information: defaultdict[tuple[int, ...], array[float]] = field(
        default_factory=lambda: defaultdict(lambda: array("d"))
    )


@dataclass(frozen=True)
class MeasuredTexts:
    """Hold the measures of all cells by (model, benchmark).

    Attributes
    ----------
    measures : dict
        The measures of each cell.
    clean_sent : dict
        The measures of the self-test: those that its questions would have if the worker had
        received the clean prompt in place of every noisy prompt.
    """

    measures: dict[tuple[str, str], TextMeasures] = field(default_factory=dict)
    clean_sent: dict[tuple[str, str], TextMeasures] = field(default_factory=dict)


class _Message(NamedTuple):
    """Hold the properties of one router message."""

    text: str  # the normalised text
    words: frozenset[str]
    pairs: frozenset[tuple[str, str]]  # pairs of neighbouring words that are also in the question
    # True: states the gold option as the answer; False: another option; None: no option.
    stated: bool | None
    gold_only: bool  # whether the message contains the gold option and no other option


class _Clean(NamedTuple):
    """Hold a question's first clean run: normalised prompt, normalised messages and request."""

    prompt: str = ""
    messages: frozenset[str] = frozenset()
    request: str | None = None


class _Question:
    """Hold the state of one question until its last row has been read.

    Noisy rows are compared with the clean row. Noisy rows that are read before the clean row are
    kept in `waiting`.
    """

    def __init__(self, row: TextRow) -> None:
        self.first = row
        self.rows = 0
        self.clean: _Clean | None = None
        self.waiting: list[TextRow] = []
        self.messages: dict[str, _Message] = {}
        # Maps a router count to the number of answers, the sum of the shares of words that reached
        # the worker, and the sum of the scores.
        self.information: dict[int, list[float]] = {}
        options = row.options if row.options_shown else ()
        self.original = normalise("\n".join([row.question, *options]))
        words = self.original.split()
        self.words, self.pairs = frozenset(words), frozenset(pairwise(words))

    def read(self, raw: Sequence[str]) -> list[_Message]:
        """Analyse router messages of one question.

        Each distinct message is analysed once.

        Parameters
        ----------
        raw : sequence of str
            The messages as the routers wrote them.

        Returns
        -------
        list of _Message
            One result for each message, in the same order.
        """
        for message in set(raw) - self.messages.keys():
            self.messages[message] = self._read(message)
        return [self.messages[message] for message in raw]

    def _read(self, raw: str) -> _Message:
        q, text = self.first, fold(raw)
        words, padded = text.split(), f" {text} "
        stated, gold_only = None, False
        if q.options and q.options_shown:
            stated = states_answer(raw, q.options, q.gold)
            contained = [f" {normalise(option)} " in padded for option in q.options]
            gold_only = contained[q.gold] and contained.count(True) == 1
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
        The number of rows of each question, by (model, benchmark). The texts of a question are
        released from memory after the question's last row. If None, all texts stay in memory until
        every row has been read.
    probed : mapping, optional
        The question ids of the self-test, by (model, benchmark).

    Returns
    -------
    MeasuredTexts
        The measures, which do not depend on the order of the rows.
    """
    reading = _Pass(settings, probed or {})
    for row in rows:
        reading.take(row)
    return reading.texts()


class _Pass:
    """Hold the state while the rows are read.

    The state has the counts of each cell, and the questions with rows that have not been read.
    """

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
        """Add one row to the counts of its cell."""
        cell, key = (row.model, row.benchmark), (row.model, row.benchmark, row.question_id)
        tally = self.tallies[cell]
        if key not in self.open:
            self.open[key] = _Question(row)
        question = self.open[key]
        question.rows += 1
        first = question.first
        if (row.question, row.options, row.gold) != (first.question, first.options, first.gold):
            tally.mixed.add(row.question_id)  # The gate `pairing` fails for such a question.
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
        """Compare a noisy row with the clean row of its question, and add the result to the
        counts."""
        cell, sent = (row.model, row.benchmark), fold(row.prompt)
        baseline = clean or _Clean()
        kept_share = _count_noisy(row, sent, question, self.tallies[cell], baseline)
        _count_information(row, question, kept_share, self.tallies[cell])
        if row.question_id in self.probed.get(cell, ()):
            clean_prompt = clean.prompt if clean else sent
            _count_noisy(row, clean_prompt, question, self.sent[cell], baseline)

    def close(self, question: _Question) -> None:
        """Count the noisy rows that were read before the clean row of their question."""
        for row in question.waiting:
            self.count_noisy(row, question, question.clean)
        question.waiting = []

    def finish(self, cell: tuple[str, str], question: _Question) -> None:
        """Add a question to the counts after its last row."""
        self.close(question)
        known = sorted(question.information.items())
        counts = tuple(routers for routers, _ in known)
        # Sum 0 is the number of answers. Sum 1 is the sum of the shares of words that reached the
        # worker. Sum 2 is the sum of the scores.
        for k in (1, 2):
            means = [sums[k] / sums[0] if sums[0] else np.nan for _, sums in known]
            self.tallies[cell].information[counts].extend(means)

    def texts(self) -> MeasuredTexts:
        """Return the measures of all cells, after the last row has been read."""
        for (*cell, _), question in self.open.items():
            self.finish((cell[0], cell[1]), question)
        measures = {cell: _freeze(tally) for cell, tally in sorted(self.tallies.items())}
        clean_sent = {cell: _freeze(tally) for cell, tally in sorted(self.sent.items())}
        return MeasuredTexts(measures, clean_sent)


def _count_leaks(row: TextRow, question: _Question, tally: _Tally) -> None:
    """Count the messages of a row that state an option as the answer."""
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
    if stated.count(None) < len(stated):
        presentations = tally.noisy_stated if noisy else tally.aided
        presentations.add((row.routers, row.question_id))


def _count_clean(row: TextRow, tally: _Tally) -> None:
    """Count the clean messages of a row, and the clean messages that drop the stem or an option."""
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
    """Count a noisy row, and return the share of the question's words that reached the worker.

    `sent` is the normalised prompt.
    """
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
    if row.options_shown and row.options:
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
    """Add the shares of words of one presentation to the counts.

    Return the share of the question's words that reached the worker. Here, a view is the set of
    words that the worker read in one prompt.
    """
    size = max(len(question), 1)
    deleted = added = arrived = 0.0
    for view in views:
        deleted += len(question - view) / size
        added += len(view - question) / max(len(view), 1)
        arrived += len(question & view) / size
    sums["presentations"] += 1
    sums["deleted"] += _billionths(deleted / len(views))
    sums["added"] += _billionths(added / len(views))
    if written:
        sums["with_messages"] += 1
        missing = sum(len(question - m.words) for m in written)
        sums["deleted_per_message"] += _billionths(missing / len(written) / size)
    return arrived / len(views)


def _views(row: TextRow, messages: Sequence[_Message]) -> list[Sequence[_Message]]:
    """Group the messages of a row by the prompt in which the worker read them.

    The result is a single list of all messages or, in a vote, one list for each message.
    """
    if row.aggregator == Aggregator.VOTE:
        return [(m,) for m in messages]
    return [messages] if messages else []


def _count_information(row: TextRow, question: _Question, kept_share: float, tally: _Tally) -> None:
    """Add a presentation to the sums from which cues and the slope of accuracy are computed.

    These are the question's pairs of neighbouring words, its score, and the share of its words that
    reached the worker (`kept_share`).
    """
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
        for k, value in enumerate((1.0, kept_share, float(row.correct))):
            known[k] += value


def _is_clean(arrived: Sequence[_Message], sent: str, question: _Question, clean: _Clean) -> bool:
    """Return whether the worker read the clean text.

    The result is True if the row's prompt is the clean prompt, or if every message in the prompt is
    a clean message. The result is also True if the prompt contains a clean message and no noisy
    message.
    """
    if sent == clean.prompt:
        return True
    unchanged = {*clean.messages, question.original}
    if arrived:
        return unchanged.issuperset(m.text for m in arrived)
    return any(text and text in sent for text in unchanged)


def _billionths(share: float) -> int:
    """Return a share as a whole number of billionths, which can be summed exactly."""
    return round(share * 1e9)


def _freeze(tally: _Tally) -> TextMeasures:
    """Convert the counts of a cell to its measures, after all rows have been read."""
    noisy = tally.counts["noisy_presentations"]
    counts: dict[str, int] = dict(tally.counts)

    def mean(name: str) -> float | None:
        if not noisy:
            return None
        total = 0
        for sums in tally.by_routers.values():
            total += sums[name]
        return total / 1e9 / noisy

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
        noisy_stated=frozenset(tally.noisy_stated),
        mixed_ids=tuple(sorted(tally.mixed)),
        by_routers=_by_routers(tally),
        slope=_slope(tally),
    )


def _by_routers(tally: _Tally) -> tuple[ByRouters, ...]:
    rows = []
    for routers, sums in sorted(tally.by_routers.items()):
        # A setting without any message is skipped here; the gates report it as a fault.
        if not sums["with_messages"]:
            continue
        n = sums["presentations"]
        accuracy = sums["right"] / sums["answered"] if sums["answered"] else None
        one_kept = 1 - sums["deleted_per_message"] / 1e9 / sums["with_messages"]
        kept_share = 1 - sums["deleted"] / 1e9 / n
        added = sums["added"] / 1e9 / n
        cues = sums["cues"] / 1e9 / n
        rows.append(
            ByRouters(
                routers, n, one_kept, kept_share, kept_share - one_kept, added, cues, accuracy
            )
        )
    return tuple(rows)


def _slope(tally: _Tally) -> InformationSlope | None:
    """Return the slope of accuracy on the share of words that reached the worker.

    The slope is None if the run has fewer than two router counts, or too few answers.
    """
    by_size = sorted(tally.information.items(), key=lambda item: (len(item[1]), item[0]))
    columns, values = by_size[-1] if by_size else ((), array("d"))
    if len(columns) < 2:
        return None
    table = np.array(values).reshape(-1, 2 * len(columns))
    # The table is sorted, because the order of the rows must not change the result.
    table = table[np.lexsort(table.T)]
    try:
        return information_slope(table[:, : len(columns)], table[:, len(columns) :])
    except DataError:
        return None
