"""Score rules that never read the question: what a model has to beat before its score means
anything (pure).

Guessing is too low a bar: on TruthfulQA a rule that picks an option with a negation word reaches
.505 where guessing reaches .2225, on BBQ "unknown" is right in half of the rows by design. No rule
here is trained.
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
    """Report a rule that never reads the question.

    Attributes
    ----------
    name : str
        The rule.
    score : float
        Mean over the items of the chance (0-1) that the rule picks the key. If it picks several,
        one of them is drawn; if it picks none, one of all.
    """

    name: str
    score: float


def _by_length(best: Callable[[list[int]], int]) -> Callable[[Item], list[int]]:
    """Return the rule that picks the longest options (max), or the shortest (min)."""

    def rule(item: Item) -> list[int]:
        """Return the positions of these options."""
        sizes = [len(text) for text in item.published]
        return [i for i, size in enumerate(sizes) if size == best(sizes)]

    return rule


def _negated(item: Item) -> list[int]:
    return [i for i, text in enumerate(item.published) if _NEGATION.search(text)]


def _always(response: int) -> Callable[[Item], list[int]]:
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
    """Return every rule's score on some items, the best first, guessing among them.

    Parameters
    ----------
    benchmark : str
        Name.
    items : sequence of Item
        Items.

    Returns
    -------
    list of Shortcut
        Scores.

    Raises
    ------
    DataError
        If there are no items.
    """
    if not items:
        raise DataError(f"No items of {benchmark}: a shortcut's score needs some.")
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
    """Return the chance that an option with a negation word is the key, for each item.

    Parameters
    ----------
    items : sequence of Item
        Items.

    Returns
    -------
    list of float
        Chances (0-1): the scores of TruthfulQA's best blind rule.
    """
    return [_chance(_negated, item) for item in items]


def _chance(rule: Callable[[Item], list[int]], item: Item) -> float:
    picked = rule(item) or list(range(len(item.options)))
    return (item.key in picked) / len(picked)
