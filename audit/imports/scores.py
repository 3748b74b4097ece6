"""Choose the score of a log that holds several: one is read by its name, and two that disagree are
named."""

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import combinations
from typing import Any

from audit.core.errors import DataError
from audit.imports.record import outcome
from audit.statistics.mcnemar import mcnemar_exact

_ROUNDED = 1e-3  # share by which a reported total may differ, as it may be rounded
Outcome = tuple[int | None, int]  # k of n trials were right; k is None if the item has no score
Column = dict[str, Outcome]  # outcomes by item


def share(value: Any) -> Outcome | None:
    """Return a score as an outcome, (None, 1) for NaN, and None for what is no share of right
    trials.

    >>> share(True), share(0.3), share(float("nan")), share(41.7), share("C")
    ((1, 1), (3, 10), (None, 1), None, None)
    """
    if not isinstance(value, int | float):
        return None
    if math.isnan(value):
        return None, 1
    return outcome(value, "") if 0 <= value <= 1 else None


def shares(values: Mapping[str, Any]) -> dict[str, Outcome]:
    """Return the outcomes of the values that are shares of right trials."""
    read = {name: share(value) for name, value in values.items()}
    return {name: one for name, one in read.items() if one is not None}


def mean_of(outcomes: Iterable[Outcome]) -> Fraction | None:
    """Return the mean share over the items that have a score, and None if no item has one."""
    shares = [Fraction(k, n) for k, n in outcomes if k is not None]
    return sum(shares, Fraction(0)) / len(shares) if shares else None


def pooled(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the mean share of several trials of an item as one outcome."""
    mean = mean_of(outcomes)
    return (None, 1) if mean is None else outcome(float(mean), "")


def check_total(total: Any, column: Column, score: str, where: str) -> None:
    """Raise DataError if a log gives another total, as a share, than its items have in the mean."""
    mean = mean_of(column.values())
    if mean is not None:
        check_means(total, float(mean), score, where)


def check_means(total: Any, mean: float, of: str, where: str) -> None:
    """Raise DataError if a recorded mean, where there is one, is not the mean of the samples."""
    if isinstance(total, int | float) and abs(total - mean) > _ROUNDED:
        both = f"The total of {where} is {total:.4f} and the mean of {of} is {mean:.4f}"
        raise DataError(f"{both}. Expected one value. Evaluate the samples again.")


def choose_score(columns: Mapping[str, Column], asked: str, where: str) -> str:
    """Return the name of the score to read: the one that is asked for, or the one that all others
    agree with.

    Raises DataError if there is no such score, or if two scores disagree on an item and none is
    asked for."""
    listed = ", ".join(f"{name} {shown(mean_of(one.values()))}" for name, one in columns.items())
    if asked in columns:
        return asked
    if asked or not columns:
        expected = f"The metric is {asked or 'missing'}. Expected a score of {where}: {listed or 'it has no score'}"
        raise DataError(f"{expected}. Example: --metric {next(iter(columns), 'acc')}")
    for one, other in combinations(columns, 2):
        if _disagree(columns[one], columns[other]):
            raise DataError(
                f"The scores of {where} differ: {listed}. Expected one. Example: --metric {one}"
            )
    return next(iter(columns))


def _disagree(one: Column, other: Column) -> bool:
    return (
        any(other[item] != value for item, value in one.items() if item in other)
        or one.keys() != other.keys()
    )


def differ_by_more_than_chance(one: Column, other: Column, alpha: float = 0.05) -> bool:
    """Return whether two scores of the same items differ: McNemar's exact test, two-sided, of the
    items that do."""
    better = worse = 0
    for item, (right, of) in one.items():
        other_right, other_of = other.get(item, (None, 1))
        if right is not None and other_right is not None:
            better += right * other_of > other_right * of
            worse += right * other_of < other_right * of
    return float(mcnemar_exact(better, worse, two_sided=True)) <= alpha


def shown(mean: Fraction | None) -> str:
    return "without a value" if mean is None else f"{float(mean):.3f}"
