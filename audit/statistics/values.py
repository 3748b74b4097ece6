"""States -> numbers: what every paired statistic starts from.

A value is 1 (correct), 0 (wrong) or NaN (no answer: unparsed, truncated, error or absent). A setting that was run with
several replicates gets, per item, the mean over its answered replicates: a value in [0, 1]. No answer is never scored
as wrong; `unparsed="right"` and `"wrong"` give the two bounds instead, and still leave out errors and absent rows,
because there nothing was replied.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from audit.errors import DataError
from audit.records import Setting
from audit.statistics.paired import BoolArray, CellOutcomes, FloatArray, IntArray, State
from audit.sweep.design import Arm

Unparsed = Literal["left_out", "wrong", "right"]


@dataclass(frozen=True)
class Sweep:
    """The clean baseline and the noisy settings of one cell, item by item.

    routers: R router counts, rising. clean: (n,) values. noisy: (R, n) values. cluster: (n,) index of the cluster that
    resampling keeps whole. n_options: (n,) options per item.
    """

    model: str
    benchmark: str
    routers: tuple[int, ...]
    question_ids: tuple[str, ...]
    clean: FloatArray
    noisy: FloatArray
    cluster: IntArray
    n_options: IntArray

    @property
    def n(self) -> int:
        return len(self.question_ids)

    def items(self, keep: BoolArray) -> Sweep:
        """The same sweep over the items where `keep` (n,) is true, such as those without an answer leak."""
        keep = np.asarray(keep, dtype=bool)
        if keep.shape != (self.n,):
            raise DataError(f"A mask of items has shape {keep.shape}; expected ({self.n},), one flag an item.")
        return replace(
            self,
            question_ids=tuple(q for q, k in zip(self.question_ids, keep, strict=True) if k),
            clean=self.clean[keep],
            noisy=self.noisy[:, keep],
            cluster=self.cluster[keep],
            n_options=self.n_options[keep],
        )


def to_values(state: np.ndarray, unparsed: Unparsed = "left_out") -> FloatArray:
    """States of any shape -> 1, 0 or NaN."""
    out = np.full(state.shape, np.nan)
    out[state == State.CORRECT] = 1.0
    out[state == State.WRONG] = 0.0
    if unparsed != "left_out":
        out[(state == State.UNPARSED) | (state == State.TRUNCATED)] = 1.0 if unparsed == "right" else 0.0
    return out


def average(values: FloatArray) -> FloatArray:
    """Mean over replicates (axis 0) of the values that are there; NaN where none is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # "Mean of empty slice": NaN is the answer we want
        mean: FloatArray = np.nanmean(values, axis=0)
    return mean


def settings_values(cell: CellOutcomes, settings: Sequence[Setting], unparsed: Unparsed = "left_out") -> FloatArray:
    """Values (n,) averaged over `settings`, which are usually the replicates of one arm and router count."""
    if not settings:
        raise DataError(f"{cell.model} on {cell.benchmark}: no setting to read. It was run under {cell.settings}.")
    return average(to_values(np.stack([cell.row(s) for s in settings]), unparsed))


def runs_of(cell: CellOutcomes, arm: Arm, routers: Sequence[int], unparsed: Unparsed = "left_out") -> FloatArray:
    """Values (L, R, n) in {0, 1, NaN}: every replicate of `arm` at each of R router counts.

    A replicate that was not run at one of them is NaN there. Raises DataError when a router count was not run at all.
    """
    runs = [replicates_of(cell, arm, r) for r in routers]
    if not runs or not all(runs):
        raise DataError(f"{cell.model} on {cell.benchmark}: {arm} was not run at every r of {list(routers)}.")
    numbers = sorted({s.replicate for settings in runs for s in settings})
    values = np.full((len(numbers), len(runs), cell.n), np.nan)
    for k, settings in enumerate(runs):
        for s in settings:
            values[numbers.index(s.replicate), k] = to_values(cell.row(s), unparsed)
    return values


def replicates_of(cell: CellOutcomes, arm: Arm, routers: int) -> tuple[Setting, ...]:
    """The settings that repeat one arm and router count, by replicate; empty when it was not run."""
    return tuple(s for s in cell.settings if s.arm == arm and s.level == routers)


def router_counts(cell: CellOutcomes, arm: Arm) -> tuple[int, ...]:
    """The router counts that an arm was run with, rising."""
    return tuple(sorted({s.level for s in cell.settings_of(arm)}))


def sweep_of(
    cell: CellOutcomes,
    *,
    baseline: Arm = Arm.FORWARD_FULL,
    arm: Arm = Arm.NOISY_REWRITE,
    unparsed: Unparsed = "left_out",
    first_only: bool = False,
) -> Sweep:
    """The paper's sweep: `noisy_rewrite` at every r against `forward_full` at r=1 (song2026, section 4.2).

    `baseline=Arm.DIRECT` compares with the original question instead; `arm=Arm.FORWARD_FULL` reads the ensemble control
    (its r > 1). `first_only` reads the first replicate of each, as the paper has one run; otherwise replicates
    are averaged. Raises DataError when the baseline or the arm was not run.
    """
    last = 1 if first_only else None
    base = replicates_of(cell, baseline, 0 if baseline is Arm.DIRECT else 1)[:last]
    counts = tuple(r for r in router_counts(cell, arm) if not (arm is Arm.FORWARD_FULL and r == 1))
    if not base or not counts:
        raise DataError(
            f"{cell.model} on {cell.benchmark} cannot be compared: needs {baseline} and {arm}, "
            f"was run under {sorted({(s.arm, s.level) for s in cell.settings})}."
        )
    return Sweep(
        model=cell.model,
        benchmark=cell.benchmark,
        routers=counts,
        question_ids=cell.question_ids,
        clean=settings_values(cell, base, unparsed),
        noisy=np.stack([settings_values(cell, replicates_of(cell, arm, r)[:last], unparsed) for r in counts]),
        cluster=cell.cluster,
        n_options=cell.n_options,
    )


def is_binary(*values: FloatArray) -> bool:
    """Every answered value is 0 or 1 (one replicate, or replicates that agree)."""
    return all(bool(np.all(np.isnan(v) | (v == 0) | (v == 1))) for v in values)
