"""Compare joined scores with guessing: a score far below it is an alarm, and an unknown number of options is named.

Pure. A score significantly below guessing means almost always that keys and answers are in different forms.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import scipy

from audit.benchmarks.answers import LETTERS
from audit.errors import DataError
from audit.imports.join import Answered, Joined
from audit.imports.record import Imported

BELOW_ALPHA = 0.001  # one-sided, divided by the number of scores
_SHOWN = 3
_LETTERS_MIN = 0.8  # share of the answers that are letters, from which the items have options
_LETTER = re.compile(r"\W*(?:the )?(?:correct )?(?:answer(?: is)?)?\W*([A-J])\W*", re.IGNORECASE)


def check_above_guessing(joined: Joined, benchmarks: Sequence[str]) -> None:
    """Raise DataError if a score is significantly below guessing; the first three wrong answers are shown.

    Scores of free answers, and of items whose number of options is unknown, are not checked.
    """
    scores = [(cell, answers) for cell, answers in joined.answers.items() if cell[1] in benchmarks]
    for (model, benchmark), answers in scores:
        items = joined.items[benchmark]
        read = [(items[key], epoch) for key, epochs in answers.items() for epoch in epochs[:1]]
        read = [(item, one) for item, one in read if one.right is not None and len(item.options) > 1]
        chances = [1 / len(item.options) for item, _ in read]
        right = float(sum(Fraction(one.right or 0, one.of) for _, one in read))
        if read and _below(right, chances) <= BELOW_ALPHA / len(scores):
            guessing, score = sum(chances) / len(read), right / len(read)
            shown = "; ".join(_wrong(read))
            raise DataError(
                f"The score of {model} on {benchmark} is {score:.3f}, and guessing gives {guessing:.3f}: "
                f"keys and answers are probably in different forms ({shown}). Expected one form. "
                "If the score is real: --below-chance-is-real"
            )


def _below(right: float, chances: Sequence[float]) -> float:
    """Return the one-sided p of so few right answers by guessing, normal with continuity; binomial if chances agree."""
    if len(set(chances)) == 1:
        return float(scipy.stats.binom.cdf(right, len(chances), chances[0]))
    mean, variance = sum(chances), sum(p * (1 - p) for p in chances)
    return float(scipy.stats.norm.cdf((right + 0.5 - mean) / variance**0.5)) if variance else 1.0


def _wrong(read: Sequence[tuple[Imported, Answered]]) -> Iterator[str]:
    """Yield the first wrong answers beside their keys."""
    wrong = [(item, one) for item, one in read if not one.right]
    for item, one in wrong[:_SHOWN]:
        key = "not told" if item.gold is None else f"{LETTERS[item.gold]} {item.options[item.gold]!r:.40}"
        yield f"item {item.sample[:40]!r}: answer {one.answer!r:.40}, key {key}"


def check_options_known(joined: Joined, benchmarks: Sequence[str]) -> None:
    """Raise DataError if the answers to a benchmark are letters of options that no log lists: chance is unknown."""
    for benchmark in benchmarks:
        if any(item.options for item in joined.items[benchmark].values()):
            continue
        cells = [answers for (_, name), answers in joined.answers.items() if name == benchmark]
        answers = [one.answer for cell in cells for epochs in cell.values() for one in epochs if one.answer]
        letters = sum(_LETTER.fullmatch(answer) is not None for answer in answers)
        if letters and letters >= _LETTERS_MIN * len(answers):
            raise DataError(
                f"The number of options of {benchmark} is unknown: answers are letters such as {answers[0]!r:.20}, "
                "and no log lists the options. Expected it, since guessing may make a gap. Example: --options 4"
            )


def with_options(outcomes: Iterator[Imported], many: int) -> Iterator[Imported]:
    """Yield the outcomes with so many options, named by letters, where a log lists none."""
    letters = tuple(LETTERS[:many])
    for one in outcomes:
        yield one if one.options else replace(one, options=letters)
