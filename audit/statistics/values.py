"""Turn states into numbers, from which every paired statistic starts.

A value is 1 (correct), 0 (wrong) or NaN (no answer: unparsed, truncated, error or absent). A
setting that was run with several replicates gets, per item, the mean over its answered replicates:
a value in [0, 1].

A missing answer is never scored as wrong. `unparsed="right"` and `"wrong"` give the two bounds
instead, errors included, as what fails may depend on the answer (a long prompt, a filtered word).
Absent rows were not run, and are left out in any case.
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
    """Return 1, 0 or NaN for states of any shape.

    Parameters
    ----------
    state : array of State
        States of any shape.
    unparsed : {"left_out", "wrong", "right"}
        Value of answers that are missing: NaN, 0 or 1.

    Returns
    -------
    array
        Values of the same shape. Absent rows are NaN in any case.
    """
    out = state.astype(np.float64)  # WRONG is 0, CORRECT is 1
    np.copyto(out, np.nan, where=state < State.WRONG)
    if unparsed != "left_out":
        out[np.isin(state, UNANSWERED)] = 1.0 if unparsed == "right" else 0.0
    return out


def average(values: FloatArray) -> FloatArray:
    """Return the mean over replicates of the values that are not NaN.

    Parameters
    ----------
    values : (K, ...) array
        Values of K replicates.

    Returns
    -------
    array
        Means over axis 0; NaN if every replicate is missing. A single replicate is not copied.
    """
    if len(values) == 1:
        return np.asarray(values[0])
    with warnings.catch_warnings():
        # "Mean of empty slice": NaN is the answer we want.
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
        The cell.
    settings : sequence of Setting
        Usually the replicates of one arm and level.

    Returns
    -------
    (n,) array
        Values 0-1, NaN without an answer.

    Raises
    ------
    DataError
        If there is no setting, or one was not run.
    """
    if not settings:
        raise DataError(
            f"{cell.model} on {cell.benchmark}: no setting to read. It was run under {cell.settings}."
        )
    state = np.stack([cell.row(s) for s in settings])
    values = np.empty(cell.n)
    for start in range(0, cell.n, ITEMS):  # in blocks, as a number has eight bytes and a state one
        values[start : start + ITEMS] = average(to_values(state[:, start : start + ITEMS]))
    return values


def runs_of(
    cell: CellOutcomes, arm: str, levels: Sequence[int], values: FloatArray | None = None
) -> FloatArray:
    """Return the values of every replicate of an arm at each of R levels.

    Parameters
    ----------
    cell : CellOutcomes
        The cell.
    arm : str
        Name of the arm.
    levels : sequence of int
        R levels.
    values : (S, n) array or None
        Values of all settings with unparsed answers imputed; None leaves unparsed answers out.

    Returns
    -------
    (L, R, n) array
        Values in {0, 1, NaN}. A replicate is NaN at a level at which it was not run.

    Raises
    ------
    DataError
        If a level was not run at all.
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
    """Return the settings that repeat one arm and level, by replicate.

    Parameters
    ----------
    cell : CellOutcomes
        The cell.
    arm : str
        Name of the arm.
    level : int
        The level.

    Returns
    -------
    tuple of Setting
        Empty if it was not run.
    """
    return tuple(s for s in cell.settings if s.arm == arm and s.level == level)


def levels_of(cell: CellOutcomes, arm: str) -> tuple[int, ...]:
    """Return the levels at which an arm was run, rising.

    Parameters
    ----------
    cell : CellOutcomes
        The cell.
    arm : str
        Name of the arm.

    Returns
    -------
    tuple of int
        Empty if the arm was not run.
    """
    return tuple(sorted({s.level for s in cell.settings_of(arm)}))


def is_binary(*values: FloatArray) -> bool:
    """Return whether every answered value is 0 or 1 (one replicate, or replicates that agree).

    Parameters
    ----------
    *values : array
        Values, NaN without an answer.

    Returns
    -------
    bool
        True if no value lies between.
    """
    return all(bool(np.all(np.isnan(v) | (v == 0) | (v == 1))) for v in values)
