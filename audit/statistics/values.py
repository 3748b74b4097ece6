"""States -> numbers: what every paired statistic starts from.

A value is 1 (correct), 0 (wrong) or NaN (no answer: unparsed, truncated, error or absent). A setting that was run with
several replicates gets, per item, the mean over its answered replicates: a value in [0, 1]. No answer is never scored
as wrong; `unparsed="right"` and `"wrong"` give the two bounds instead, errors included, as what fails may hang on the
answer (a long prompt, a filtered word). Absent rows were not asked, and are left out in any case.
"""

import warnings
from collections.abc import Sequence
from typing import Literal

import numpy as np

from audit.errors import DataError
from audit.records import Setting
from audit.statistics.drawing import ITEMS
from audit.statistics.paired import UNANSWERED, CellOutcomes, FloatArray, State

Unparsed = Literal["left_out", "wrong", "right"]


def to_values(state: np.ndarray, unparsed: Unparsed = "left_out") -> FloatArray:
    """States of any shape -> 1, 0 or NaN."""
    out = state.astype(np.float64)  # WRONG is 0, CORRECT is 1
    np.copyto(out, np.nan, where=state < State.WRONG)
    if unparsed != "left_out":
        out[np.isin(state, UNANSWERED)] = 1.0 if unparsed == "right" else 0.0
    return out


def average(values: FloatArray) -> FloatArray:
    """Mean over replicates (axis 0) of the values that are there; NaN where none is. A single one is not copied."""
    if len(values) == 1:
        return np.asarray(values[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # "Mean of empty slice": NaN is the answer we want
        return np.nanmean(values, axis=0)


def mean_of(values: FloatArray) -> float:
    """Mean of the values that are there; NaN where none is."""
    there = values[~np.isnan(values)]
    return float(there.mean()) if there.size else float("nan")


def settings_values(cell: CellOutcomes, settings: Sequence[Setting]) -> FloatArray:
    """Values (n,) averaged over `settings`, which are usually the replicates of one arm and level."""
    if not settings:
        raise DataError(f"{cell.model} on {cell.benchmark}: no setting to read. It was run under {cell.settings}.")
    state = np.stack([cell.row(s) for s in settings])
    values = np.empty(cell.n)
    for start in range(0, cell.n, ITEMS):  # some items at a time: a number is eight bytes, a state one
        values[start : start + ITEMS] = average(to_values(state[:, start : start + ITEMS]))
    return values


def runs_of(cell: CellOutcomes, arm: str, levels: Sequence[int], values: FloatArray | None = None) -> FloatArray:
    """Values (L, R, n) in {0, 1, NaN}: every replicate of `arm` at each of R levels.

    values: (S, n) of all settings, where unparsed answers were imputed; None: as read, without them. A replicate that
    was not run at one of them is NaN there. Raises DataError when a level was not run at all.
    """
    runs = [replicates_of(cell, arm, level) for level in levels]
    if not any(runs):
        raise DataError(f"{cell.model} on {cell.benchmark}: {arm} was not run, so there is nothing to compare.")
    if not all(runs):
        raise DataError(f"{cell.model} on {cell.benchmark}: {arm} was not run at every level of {list(levels)}.")
    numbers = sorted({s.replicate for settings in runs for s in settings})
    found = np.full((len(numbers), len(runs), cell.n), np.nan)
    for k, settings in enumerate(runs):
        for s in settings:
            row = to_values(cell.row(s)) if values is None else values[cell.settings.index(s)]
            found[numbers.index(s.replicate), k] = row
    return found


def replicates_of(cell: CellOutcomes, arm: str, level: int) -> tuple[Setting, ...]:
    """The settings that repeat one arm and level, by replicate; empty when it was not run."""
    return tuple(s for s in cell.settings if s.arm == arm and s.level == level)


def levels_of(cell: CellOutcomes, arm: str) -> tuple[int, ...]:
    """The levels that an arm was run at, rising."""
    return tuple(sorted({s.level for s in cell.settings_of(arm)}))


def is_binary(*values: FloatArray) -> bool:
    """Every answered value is 0 or 1 (one replicate, or replicates that agree)."""
    return all(bool(np.all(np.isnan(v) | (v == 0) | (v == 1))) for v in values)
