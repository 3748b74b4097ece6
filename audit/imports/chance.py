"""Compare the imported scores with the score of guessing (pure).

A score far below guessing is refused. It almost always means that keys and answers are written in
different forms, such as letters and numbers. The module also reports items whose number of options
is unknown.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import scipy

from audit.benchmarks.answers import LETTERS
from audit.core.errors import ConfigError, DataError
from audit.imports.join import Answered, Joined
from audit.imports.record import Imported
from audit.imports.typed import ROWS_AN_OPTION, undressed

BELOW_ALPHA = 0.001  # one-sided significance level, before the Bonferroni correction
_SHOWN = 3
# Largest share of a benchmark's items whose key or answer may name an option, if the benchmark has
# free answers. A guess is right for at most half of such items, which is at most 5 % of all items.
# This is the rate at which free answers may be guessed (`audit.memory.gates.FREE_ANSWER`).
_LABELS_MAX = 0.1
_WORDS_MAX = 10  # largest number of distinct keys that are taken for labels
# These keys name an option, perhaps one beyond the given number of options. F is left out, since it
# may mean false.
_LATER = frozenset("CDEGHIJ")
_YES_NO = frozenset(("yes", "no", "true", "false"))
_LISTED = re.compile(r"(?:^|\n)[ \t]*\(?A[).:][ \t].{0,2000}?\n[ \t]*\(?B[).:][ \t]", re.DOTALL)
_TEXT_MAX = 20_000  # number of characters at the end of a text that are searched for options
_LETTER = re.compile(r"\W*(?:the )?(?:correct )?(?:answer(?: is)?)?\W*([A-J])\W*", re.IGNORECASE)


def check_above_guessing(joined: Joined, benchmarks: Sequence[str]) -> None:
    """Check that no score is significantly below guessing.

    Scores of free answers, and of items whose number of options is unknown, are not checked.

    Raises
    ------
    DataError
        If a score is significantly below guessing. The message shows the first three wrong answers.
    """
    scores = [(cell, answers) for cell, answers in joined.answers.items() if cell[1] in benchmarks]
    for (model, benchmark), answers in scores:
        items = joined.items[benchmark]
        read, chances, total = [], [], Fraction(0)
        for key, epochs in answers.items():
            options = len(items[key].options)
            first = epochs[0] if epochs else None
            if options > 1 and first is not None and first.right is not None:
                read.append((items[key], first))
                chances.append(1 / options)
                total += Fraction(first.right, first.of)
        right = float(total)
        if read and _below(right, chances) <= BELOW_ALPHA / len(scores):
            guessing, score = sum(chances) / len(read), right / len(read)
            shown = "; ".join(_wrong(read))
            raise DataError(
                f"The score of {model} on {benchmark} is {score:.3f}, and guessing gives {guessing:.3f}: "
                f"keys and answers are probably in different forms ({shown}). Expected one form. "
                "If the score is real: --below-chance-is-real"
            )


def _below(right: float, chances: Sequence[float]) -> float:
    """Return a one-sided p-value: the probability that guessing gives at most `right` right
    answers.

    If all items have the same chance of a right guess, the test is the exact binomial test.
    Otherwise it is a normal approximation with continuity correction.
    """
    if len(set(chances)) == 1:
        return float(scipy.stats.binom.cdf(right, len(chances), chances[0]))
    mean, variance = sum(chances), sum(p * (1 - p) for p in chances)
    return float(scipy.stats.norm.cdf((right + 0.5 - mean) / variance**0.5)) if variance else 1.0


def _wrong(read: Sequence[tuple[Imported, Answered]]) -> Iterator[str]:
    """Describe the first wrong answers and their keys, with one sentence for each answer."""
    wrong = [pair for pair in read if not pair[1].right]
    for item, first in wrong[:_SHOWN]:
        key = "not told"
        if item.gold is not None:
            key = f"{LETTERS[item.gold]} {item.options[item.gold]!r:.40}"
        yield f"item {item.sample[:40]!r}: answer {first.answer!r:.40}, key {key}"


def unknown_chance(joined: Joined, benchmarks: Sequence[str]) -> str:
    """Return evidence that answers were chosen among options that no log lists.

    Returns
    -------
    str
        The evidence in words; "" if the chance of guessing right is known.

    Notes
    -----
    An item is taken to have options in these cases:

    - Its key is a letter, or a truth value such as yes.
    - Its text lists options with letters.
    - Many items share a few keys, which are then taken for labels.

    For an item without a key, a model's answer is used in place of the key.
    """
    for benchmark in benchmarks:
        items = joined.items[benchmark]
        labels = []
        words: Counter[str] = Counter()
        for key, item in items.items():
            if item.options:
                continue
            word = item.target or _answer(joined, benchmark, key)
            if _LISTED.search((item.text or "")[-_TEXT_MAX:]) or is_label(word):
                labels.append(word)
            if word:
                words[undressed(word).casefold()] += 1
        if len(labels) > _LABELS_MAX * len(items):
            return (
                f"{len(labels):,} of {len(items):,} items of {benchmark} have a key or an answer that names an option, "
                f"such as {labels[0]!r:.40}, and no log lists the options."
            )
        if 1 < len(words) <= _WORDS_MAX and words.total() >= ROWS_AN_OPTION * len(words):
            listed = ", ".join(sorted(words)[:_SHOWN])
            return (
                f"{words.total():,} items of {benchmark} have {len(words)} keys alone "
                f"({listed:.60}): labels, perhaps."
            )
    return ""


def is_label(word: str) -> bool:
    """Return whether a key or an answer names an option: by a letter, or by yes, no, true or false.

    Examples
    --------
    >>> [is_label(word) for word in ("(B)", "Answer: c.", "yes", "18", "Paris", "")]
    [True, True, True, False, False, False]
    """
    base = undressed(word).casefold() if word else ""
    return _LETTER.fullmatch(base) is not None or base in _YES_NO


def _answer(joined: Joined, benchmark: str, key: str) -> str:
    """Return the first answer of any model to an item; "" if no model answered the item."""
    for (_, name), answers in joined.answers.items():
        for epoch in answers.get(key, ()) if name == benchmark else ():
            if epoch.answer:
                return epoch.answer
    return ""


def with_options(outcomes: Iterator[Imported], many: int) -> Iterator[Imported]:
    """Yield the outcomes. If the log of an outcome lists no options, the options A, B, ... are
    added.

    Parameters
    ----------
    outcomes : iterator of Imported
        Outcomes of one model on one item each.
    many : int
        Number of options.

    Raises
    ------
    ConfigError
        If the right answer of an outcome is an option beyond this number.
    """
    letters = tuple(LETTERS[:many])
    for outcome in outcomes:
        key = outcome.target
        if not outcome.options and key in _LATER and key not in letters:
            raise ConfigError(
                f"--options is {many}, and the key of item {outcome.sample!r:.60} is {key}. Expected at least "
                f"{LETTERS.index(key) + 1}, or a column of options. Example: --map options=choices"
            )
        yield outcome if outcome.options else replace(outcome, options=letters)
