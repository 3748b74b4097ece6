"""Convert the states of answers into numbers, from which every paired statistic is computed.

A value is 1 (correct), 0 (wrong) or NaN (no answer: unparsed, truncated, error or absent). If a
setting was run with several replicates, the value of an item is the mean over its answered
replicates, which lies in [0, 1].

By default, a missing answer is left out, not scored as wrong. Two bounds can be computed:
`unparsed="right"` scores every missing answer as right, and `unparsed="wrong"` scores every missing
answer as wrong. Errors count as missing answers, because a failure may depend on the answer (a long
prompt, a filtered word). Absent rows were not run and are always left out.
"""

import warnings
from collections.abc import Sequence
from itertools import chain
from typing import Literal

import numpy as np

from audit.core.errors import DataError
from audit.core.records import Setting
from audit.statistics.drawing import ITEMS
from audit.statistics.paired import UNANSWERED, CellOutcomes, FloatArray, State

Unparsed = Literal["left_out", "wrong", "right"]


def to_values(state: np.ndarray, unparsed: Unparsed = "left_out") -> FloatArray:
    """Convert the states of answers to the values 1, 0 and NaN.

    Parameters
    ----------
    state : array of State
        States, in any shape.
    unparsed : {"left_out", "wrong", "right"}
        Value of missing answers: NaN, 0 or 1.

    Returns
    -------
    array
        Values, in the shape of `state`. Absent rows are always NaN.
    """
    out = state.astype(np.float64)  # The codes of WRONG and CORRECT are 0 and 1.
    np.copyto(out, np.nan, where=state < State.WRONG)
    if unparsed != "left_out":
        out[np.isin(state, UNANSWERED)] = 1.0 if unparsed == "right" else 0.0
    return out


def average(values: FloatArray) -> FloatArray:
    """Return the mean over replicates, leaving out NaN.

    Parameters
    ----------
    values : (K, ...) array
        Values of K replicates.

    Returns
    -------
    array
        Means over axis 0; NaN if every replicate is missing. If there is one replicate, the result
        is a view of it, not a copy.
    """
    if len(values) == 1:
        return np.asarray(values[0])
    with warnings.catch_warnings():
        # NumPy would warn "Mean of empty slice", but NaN is the intended result here.
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nanmean(values, axis=0)


def mean_of(values: FloatArray) -> float:
    """Return the mean of the values that are not NaN.

    Parameters
    ----------
    values : array
        Values.

    Returns
    -------
    float
        The mean; NaN without values.
    """
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


def settings_values(cell: CellOutcomes, settings: Sequence[Setting]) -> FloatArray:
    """Return each question's value, averaged over some settings.

    Parameters
    ----------
    cell : CellOutcomes
        Outcomes of one model on one benchmark.
    settings : sequence of Setting
        Settings to average over, usually the replicates of one arm and level.

    Returns
    -------
    (n,) array
        Values 0-1, NaN without an answer.

    Raises
    ------
    DataError
        If `settings` is empty, or if one of the settings was not run.
    """
    if not settings:
        raise DataError(
            f"The number of settings to average is 0 for {cell.model} on {cell.benchmark}. "
            f"Expected one or more of the settings that were run: {cell.settings}."
        )
    state = np.stack([cell.row(s) for s in settings])
    values = np.empty(cell.n)
    # Questions are processed in blocks to save memory, because a value needs eight bytes and a
    # state only one byte.
    for start in range(0, cell.n, ITEMS):
        values[start : start + ITEMS] = average(to_values(state[:, start : start + ITEMS]))
    return values


def runs_of(
    cell: CellOutcomes, arm: str, levels: Sequence[int], values: FloatArray | None = None
) -> FloatArray:
    """Return the values of every replicate of an arm at each of R levels.

    Parameters
    ----------
    cell : CellOutcomes
        Outcomes of one model on one benchmark.
    arm : str
        Name of the arm.
    levels : sequence of int
        R levels of the arm.
    values : (S, n) array or None
        Values of all S settings, with unparsed answers imputed. If None, the values are computed
        from the states, and unparsed answers are NaN.

    Returns
    -------
    (L, R, n) array
        Values (0, 1 or NaN) of L replicates. The values of a replicate are NaN at a level at which
        it was not run.

    Raises
    ------
    DataError
        If the arm was not run at one of the levels.
    """
    runs = [replicates_of(cell, arm, level) for level in levels]
    if not any(runs):
        raise DataError(
            f"{cell.model} on {cell.benchmark}: {arm} was not run, so there is nothing to compare."
        )
    if not all(runs):
        raise DataError(
            f"{cell.model} on {cell.benchmark}: {arm} was not run at every level of {list(levels)}."
        )
    numbers = sorted({s.replicate for s in chain.from_iterable(runs)})
    stacked = np.full((len(numbers), len(runs), cell.n), np.nan)
    for k, settings in enumerate(runs):
        for s in settings:
            row = to_values(cell.row(s)) if values is None else values[cell.settings.index(s)]
            stacked[numbers.index(s.replicate), k] = row
    return stacked


def replicates_of(cell: CellOutcomes, arm: str, level: int) -> tuple[Setting, ...]:
    """Return the settings that repeat one arm at one level, sorted by replicate.

    Parameters
    ----------
    cell : CellOutcomes
        Outcomes of one model on one benchmark.
    arm : str
        Name of the arm.
    level : int
        Level of the arm.

    Returns
    -------
    tuple of Setting
        The settings; empty if the arm was not run at this level.
    """
    return tuple(s for s in cell.settings if s.arm == arm and s.level == level)


def levels_of(cell: CellOutcomes, arm: str) -> tuple[int, ...]:
    """Return the levels at which an arm was run, in rising order.

    Parameters
    ----------
    cell : CellOutcomes
        Outcomes of one model on one benchmark.
    arm : str
        Name of the arm.

    Returns
    -------
    tuple of int
        The levels; empty if the arm was not run.
    """
    return tuple(sorted({s.level for s in cell.settings_of(arm)}))


def is_binary(*values: FloatArray) -> bool:
    """Return whether every value is 0, 1 or NaN.

    Values are binary if there is one replicate, or if all replicates agree.

    Parameters
    ----------
    *values : array
        Values, NaN without an answer.

    Returns
    -------
    bool
        True if no value lies strictly between 0 and 1.
    """
    return all(bool(np.all(np.isnan(v) | (v == 0) | (v == 1))) for v in values)
