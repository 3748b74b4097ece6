"""Score rules that never read the question (shortcuts).

A model must score higher than these rules.

A comparison of a model with guessing is not enough. On TruthfulQA, a rule that picks an option with
a negation word scores .505, while guessing scores .2225. On BBQ, "unknown" is by design the right
answer to half of the questions. The rules in this module are not trained.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from audit.benchmarks.items import bbq_facts
from audit.core.errors import DataError
from audit.core.records import Item

_NEGATION = re.compile(
    r"\b(?:no|not|nothing|never|none|nobody|neither|nor|cannot)\b|n't", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Shortcut:
    """Report the score of a rule that never reads the question.

    Attributes
    ----------
    name : str
        Name of the rule.
    score : float
        The mean probability, over the items, that the rule gives the right answer (0-1). If the
        rule picks several options, one of them is drawn at random. If it picks no option, one of
        all options is drawn.
    """

    name: str
    score: float


def _by_length(best: Callable[[list[int]], int]) -> Callable[[Item], list[int]]:
    """Return the rule that picks the longest options (`max`) or the shortest (`min`)."""

    def rule(item: Item) -> list[int]:
        """Return the positions of the options that the rule picks."""
        sizes = list(map(len, item.published))
        limit = best(sizes)
        return [i for i, size in enumerate(sizes) if size == limit]

    return rule


def _negated(item: Item) -> list[int]:
    """Return the positions of the options with a negation word."""
    return [i for i, text in enumerate(item.published) if _NEGATION.search(text)]


def _always(response: int) -> Callable[[Item], list[int]]:
    """Return the rule that always gives the same response."""
    return lambda item: [response]


RULES: dict[str, dict[str, Callable[[Item], list[int]]]] = {
    "truthfulqa": {
        "the longest option": _by_length(max),
        "an option with a negation word": _negated,
    },
    "bbq": {"always unknown": lambda item: [bbq_facts(item).unknown]},
    "crows_pairs": {
        "the longer sentence": _by_length(max),
        "the shorter sentence": _by_length(min),
    },
    "toxigen": {"always neutral": _always(0), "always hate": _always(1)},
    "xstest": {"always complies": _always(0), "always refuses": _always(1)},
}


def shortcuts(benchmark: str, items: Sequence[Item]) -> list[Shortcut]:
    """Return the score of every rule of a benchmark, and of guessing, on some items.

    Parameters
    ----------
    benchmark : str
        The name of the benchmark.
    items : sequence of Item
        Questions of the benchmark.

    Returns
    -------
    list of Shortcut
        The scores, the highest first.

    Raises
    ------
    DataError
        If there are no items.
    """
    if not items:
        raise DataError(
            f"The number of items of {benchmark} is 0. Expected at least one to score its shortcuts."
        )
    rules: dict[str, Callable[[Item], list[int]]] = {
        "guessing": lambda item: [],
        **RULES.get(benchmark, {}),
    }
    scored = []
    for name, rule in rules.items():
        total = sum(_chance(rule, item) for item in items)
        scored.append(Shortcut(name, total / len(items)))
    return sorted(scored, key=lambda s: -s.score)


def negation_scores(items: Sequence[Item]) -> list[float]:
    """Return, for each item, the probability that the negation rule is right.

    The negation rule picks an option that contains a negation word.

    Parameters
    ----------
    items : sequence of Item
        Questions of the benchmark.

    Returns
    -------
    list of float
        The probability (0-1) for each item. On TruthfulQA, no other rule of this module scores
        higher on average.
    """
    return [_chance(_negated, item) for item in items]


def _chance(rule: Callable[[Item], list[int]], item: Item) -> float:
    """Return the probability that a rule gives the right answer to an item."""
    picked = rule(item) or list(range(len(item.options)))
    return (item.key in picked) / len(picked)
