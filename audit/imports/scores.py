"""Choose the score to read in a log with several scores.

The user may choose a score by its name. If the user chose no score and the scores disagree, the log
is refused.
"""

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import combinations
from typing import Any

from audit.core.errors import DataError
from audit.imports.record import outcome
from audit.statistics.mcnemar import mcnemar_exact

# Largest accepted difference between a reported mean and the computed mean. The reported mean may
# be rounded.
_ROUNDED = 1e-3
# (k, n): k of n trials were right; k is None if the item has no score.
Outcome = tuple[int | None, int]
Column = dict[str, Outcome]  # maps each item to its outcome


def share(value: Any) -> Outcome | None:
    """Convert a score to an outcome.

    Returns
    -------
    tuple or None
        (k, n), if k of n trials are right. (None, 1) for NaN. None for a value that is not a share
        of right trials.

    Examples
    --------
    >>> share(True), share(0.3), share(float("nan")), share(41.7), share("C")
    ((1, 1), (3, 10), (None, 1), None, None)
    """
    if not isinstance(value, int | float):
        return None
    if math.isnan(value):
        return None, 1
    return outcome(value, "") if 0 <= value <= 1 else None


def shares(values: Mapping[str, Any]) -> dict[str, Outcome]:
    """Convert scores to outcomes. Values that are not a share of right trials are left out."""
    outcomes = {}
    for name, value in values.items():
        read = share(value)
        if read is not None:
            outcomes[name] = read
    return outcomes


def mean_of(outcomes: Iterable[Outcome]) -> Fraction | None:
    """Return the mean share of right trials over the items that have a score.

    Returns
    -------
    Fraction or None
        The mean; None if no item has a score.
    """
    shares = [Fraction(k, n) for k, n in outcomes if k is not None]
    return sum(shares, Fraction(0)) / len(shares) if shares else None


def pooled(outcomes: Iterable[Outcome]) -> Outcome:
    """Combine several outcomes of an item into one outcome.

    The share of right trials of the returned outcome is the mean of the shares.
    """
    mean = mean_of(outcomes)
    return (None, 1) if mean is None else outcome(float(mean), "")


def check_total(total: Any, column: Column, score: str, where: str) -> None:
    """Compare the total that a log states with the mean of the log's items.

    Parameters
    ----------
    total : Any
        The mean score of all items that the log states (0 to 1). A value that is not a number is
        not checked.
    column : dict
        Outcomes by item.
    score : str
        Name of the score, for errors.
    where : str
        Where the log is, for errors.

    Raises
    ------
    DataError
        If total and mean differ.
    """
    mean = mean_of(column.values())
    if mean is not None:
        check_means(total, float(mean), score, where)


def check_means(total: Any, mean: float, of: str, where: str) -> None:
    """Compare a recorded mean with the mean of the samples.

    Raises
    ------
    DataError
        If the recorded mean is a number and differs from the mean of the samples.
    """
    if isinstance(total, int | float) and abs(total - mean) > _ROUNDED:
        both = f"The total of {where} is {total:.4f} and the mean of {of} is {mean:.4f}"
        raise DataError(f"{both}. Expected one value. Evaluate the samples again.")


def choose_score(columns: Mapping[str, Column], metric: str, where: str) -> str:
    """Return the name of the score to read.

    Parameters
    ----------
    columns : mapping
        Maps each score to its outcomes by item.
    metric : str
        The score that the user chose. It may be "" (no choice) if all scores agree.
    where : str
        Where the log is, for errors.

    Raises
    ------
    DataError
        If the log lacks the chosen score. The error is also raised if two scores disagree on an
        item and the user chose no score.
    """
    means = [f"{name} {shown(mean_of(column.values()))}" for name, column in columns.items()]
    listed = ", ".join(means)
    if metric in columns:
        return metric
    if metric or not columns:
        expected = f"Expected a score of {where}: {listed or 'it has no score'}"
        raise DataError(
            f"The metric is {metric or 'missing'}. {expected}. Example: --metric {next(iter(columns), 'acc')}"
        )
    for first, second in combinations(columns, 2):
        if columns[first] != columns[second]:
            raise DataError(
                f"The scores of {where} differ: {listed}. Expected one. Example: --metric {first}"
            )
    return next(iter(columns))


def differ_by_more_than_chance(first: Column, other: Column, alpha: float = 0.05) -> bool:
    """Return whether two scores differ significantly on the same items.

    Parameters
    ----------
    first, other : dict
        Outcomes by item.
    alpha : float
        Significance level of McNemar's exact test (two-sided), which uses the items on which the
        scores differ.
    """
    better = worse = 0
    for item, (right, of) in first.items():
        other_right, other_of = other.get(item, (None, 1))
        if right is not None and other_right is not None:
            better += right * other_of > other_right * of
            worse += right * other_of < other_right * of
    return float(mcnemar_exact(better, worse, two_sided=True)) <= alpha


def shown(mean: Fraction | None) -> str:
    return "without a value" if mean is None else f"{float(mean):.3f}"
