"""Are items fresh? What a benchmark holds already is not. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from audit.benchmarks.rows import words_alone
from audit.errors import ConfigError
from audit.records import Question


def check_fresh(benchmark: Iterable[Question], fresh: Iterable[Question], names: tuple[str, str]) -> None:
    """ConfigError where a fresh set shares an item with the benchmark. names: of the two, in this order.

    Give the whole benchmark, not a sample: what a model may have seen is all of it.
    """
    shared = shared_items(benchmark, fresh)
    if shared:
        ours, theirs = shared[0]
        raise ConfigError(
            f"{len(shared)} items of {names[1]} have the same text as one of {names[0]}, such as {theirs} and {ours}: "
            "they are not fresh. Take them out of control_benchmark."
        )


def shared_items(benchmark: Iterable[Question], fresh: Iterable[Question]) -> list[tuple[str, str]]:
    """(id of the benchmark, id of the fresh set) of items with one text, whatever their case, marks and blanks.

    The question decides; where the benchmark asks one question of several lists of options (passages apart), these too.
    """
    known: dict[str, list[Question]] = {}
    for question in benchmark:
        known.setdefault(words_alone(question.text), []).append(question)
    found = []
    for question in fresh:
        same = known.get(words_alone(question.text), [])
        if len(same) > 1:
            same = [one for one in same if _options(one) == _options(question)]
        if same:
            found.append((same[0].id, question.id))
    return found


def _options(question: Question) -> frozenset[str]:
    return frozenset(map(words_alone, question.options))
