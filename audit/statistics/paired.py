"""Hold the outcomes of one cell, paired by question.

Every paired statistic reads these records; `shards.cells` pairs the outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from audit.core.errors import DataError
from audit.core.records import Setting

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class State(IntEnum):
    """Name the outcome of one question under one setting. Only CORRECT and WRONG are answers."""

    CORRECT = 1
    WRONG = 0
    UNPARSED = -1  # the worker replied, but no answer could be read
    TRUNCATED = -2  # unparsed because the reply was cut off at max_tokens
    ERROR = -3  # the engine gave no reply
    ABSENT = -4  # no row


# The question was put, but its score is not known.
UNANSWERED = (
    State.UNPARSED,
    State.TRUNCATED,
    State.ERROR,
)


@dataclass(frozen=True)
class CellOutcomes:
    """Hold one cell (model x benchmark): n questions under S settings, paired by question.

    Attributes
    ----------
    model, benchmark, draws, reading : str
        Names of what was run, and how replies were read.
    question_ids : tuple of str
        n ids, sorted.
    cluster : (n,) array
        Cluster index 0..G-1 that resampling keeps together.
    n_options : (n,) array
        Options of each question (chance is the mean of 1/n_options).
    settings : tuple of Setting
        S settings, sorted.
    state : (S, n) int8 array
        `State` of each question under each setting.
    answer : (S, n) array or None
        Index of the option that was answered, -1 if none; read by `cell_columns(answers=True)`.
    gold : (n,) array or None
        Index of the right option, read in the same way.
    """

    model: str
    benchmark: str
    draws: str
    reading: str
    question_ids: tuple[str, ...]
    cluster: IntArray
    n_options: IntArray
    settings: tuple[Setting, ...]
    state: NDArray[np.int8]
    answer: NDArray[np.int16] | None = None
    gold: IntArray | None = None

    @property
    def n(self) -> int:
        """Return the number of questions."""
        return len(self.question_ids)

    def row(self, setting: Setting) -> NDArray[np.int8]:
        """Return the states under one setting.

        Parameters
        ----------
        setting : Setting
            A setting of the cell.

        Returns
        -------
        (n,) int8 array
            `State` of each question.

        Raises
        ------
        DataError
            If the setting was not run.
        """
        if setting not in self.settings:
            raise DataError(f"{self.model} on {self.benchmark} was not run under {setting}.")
        return self.state[self.settings.index(setting)]

    def kept(self, keep: BoolArray) -> CellOutcomes:
        """Return the cell with the questions of a mask only.

        Parameters
        ----------
        keep : (n,) bool array
            True for the questions that stay.

        Returns
        -------
        CellOutcomes
            The same settings, without answers and gold.
        """
        kept_ids = []
        for q, kept in zip(self.question_ids, keep, strict=True):
            if kept:
                kept_ids.append(q)
        return replace(
            self,
            question_ids=tuple(kept_ids),
            cluster=self.cluster[keep],
            n_options=self.n_options[keep],
            state=self.state[:, keep],
            answer=None,
            gold=None,
        )

    def without(self, arm: str) -> CellOutcomes:
        """Return the cell without the settings of an arm.

        Parameters
        ----------
        arm : str
            Name of the arm.

        Returns
        -------
        CellOutcomes
            The same questions under the other settings.
        """
        keep = []
        for k, s in enumerate(self.settings):
            if s.arm != arm:
                keep.append(k)
        answer = None if self.answer is None else self.answer[keep]
        return replace(
            self,
            settings=tuple(self.settings[k] for k in keep),
            state=self.state[keep],
            answer=answer,
        )

    def settings_of(self, arm: str) -> tuple[Setting, ...]:
        """Return the settings of an arm.

        Parameters
        ----------
        arm : str
            Name of the arm.

        Returns
        -------
        tuple of Setting
            Empty if the arm was not run.
        """
        return tuple(s for s in self.settings if s.arm == arm)


def checked_pair(
    clean: FloatArray, noisy: FloatArray, cluster: IntArray | None
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return paired outcomes as arrays of checked shapes and values.

    Parameters
    ----------
    clean : (n,) array
        Values in [0, 1], NaN without an answer.
    noisy : (R, n) or (n,) array
        Values of the same items under R conditions.
    cluster : (n,) array or None
        Cluster of each item; None makes every item its own cluster.

    Returns
    -------
    tuple of arrays
        clean (n,), noisy (R, n) and cluster (n,).

    Raises
    ------
    DataError
        If the shapes do not fit, there is no item, or a value lies outside [0, 1].
    """
    clean, noisy = np.asarray(clean, dtype=float), np.atleast_2d(np.asarray(noisy, dtype=float))
    n = clean.size
    groups = np.arange(n) if cluster is None else np.asarray(cluster)
    if clean.ndim != 1 or n == 0 or noisy.shape[1] != n or groups.shape != (n,):
        raise DataError(
            f"Paired outcomes need clean (n,), noisy (R, n) and cluster (n,) with n >= 1; "
            f"found {clean.shape}, {noisy.shape}, {groups.shape}."
        )
    for name, values in (("clean", clean), ("noisy", noisy)):
        # Fmin leaves NaN out without a copy of a million items.
        low = np.fmin.reduce(values, axis=None, initial=np.inf)
        high = np.fmax.reduce(values, axis=None, initial=-np.inf)
        if low < 0 or high > 1:
            raise DataError(f"Outcomes lie in [0, 1] (NaN: no answer); {name} has {low} to {high}.")
    return clean, noisy, groups
