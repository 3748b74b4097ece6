"""Hold the outcomes of one cell (one model on one benchmark), paired by question.

Every paired statistic reads these records. The function that pairs the outcomes is in
`shards.cells`.
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
    """Classify the outcome of one question under one setting.

    Only CORRECT and WRONG are answers.
    """

    CORRECT = 1
    WRONG = 0
    UNPARSED = -1  # The worker replied, but no answer could be read from its reply.
    TRUNCATED = -2  # No answer could be read because the reply was cut off at max_tokens.
    ERROR = -3  # The engine gave no reply.
    ABSENT = -4  # The run stored no row for the question.


# States of questions that were put to the model but have no known score.
UNANSWERED = (
    State.UNPARSED,
    State.TRUNCATED,
    State.ERROR,
)


@dataclass(frozen=True)
class CellOutcomes:
    """Hold the outcomes of one cell (model x benchmark): n questions under S settings.

    Attributes
    ----------
    model, benchmark, draws, reading : str
        Names of the model, of the benchmark, of the way in which messages were drawn, and of the
        method that read the replies.
    question_ids : tuple of str
        The n question ids, sorted.
    cluster : (n,) array
        Index of each question's cluster, 0..G-1. The bootstrap resamples whole clusters.
    n_options : (n,) array
        Number of options of each question. The accuracy of guessing is the mean of 1/n_options.
    settings : tuple of Setting
        The S settings, sorted.
    state : (S, n) int8 array
        `State` of each question under each setting.
    answer : (S, n) array or None
        Index of the chosen option of each question under each setting, -1 if there is no answer.
        None unless the answers were requested by `cell_columns(answers=True)`.
    gold : (n,) array or None
        Index of the right option of each question; None if `answer` is None.
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
        """Return the number of questions.

        Returns
        -------
        int
            Number of questions, and thus the length of the second axis of `state`.
        """
        return len(self.question_ids)

    def row(self, setting: Setting) -> NDArray[np.int8]:
        """Return the states of all questions under one setting.

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

    def subset(self, keep: BoolArray) -> CellOutcomes:
        """Return a copy of the cell with a subset of its questions.

        Parameters
        ----------
        keep : (n,) bool array
            True for the questions that are kept.

        Returns
        -------
        CellOutcomes
            The kept questions under all settings. `answer` and `gold` are None.
        """
        kept_ids = []
        for q, is_kept in zip(self.question_ids, keep, strict=True):
            if is_kept:
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
        """Return a copy of the cell without the settings of one arm.

        Parameters
        ----------
        arm : str
            Name of the arm that is removed.

        Returns
        -------
        CellOutcomes
            All questions under the remaining settings.
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
            The settings; empty if the arm was not run.
        """
        return tuple(s for s in self.settings if s.arm == arm)


def checked_pair(
    clean: FloatArray, noisy: FloatArray, cluster: IntArray | None
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return paired outcomes as arrays whose shapes and values have been checked.

    Parameters
    ----------
    clean : (n,) array
        Values in [0, 1], NaN without an answer.
    noisy : (R, n) or (n,) array
        Values of the same n items under R conditions. Shape (n,) means a single condition.
    cluster : (n,) array or None
        Cluster of each item; If None, each item is a separate cluster.

    Returns
    -------
    tuple of arrays
        `clean` with shape (n,), `noisy` with shape (R, n) and `cluster` with shape (n,).

    Raises
    ------
    DataError
        If the shapes do not fit, if there is no item, or if a value lies outside [0, 1].
    """
    clean, noisy = np.asarray(clean, dtype=float), np.atleast_2d(np.asarray(noisy, dtype=float))
    n = clean.size
    groups = np.arange(n) if cluster is None else np.asarray(cluster)
    if clean.ndim != 1 or n == 0 or noisy.shape[1] != n or groups.shape != (n,):
        raise DataError(
            f"The shapes of clean, noisy and cluster are {clean.shape}, {noisy.shape} and "
            f"{groups.shape}. Expected (n,), (R, n) and (n,) with n >= 1."
        )
    for name, values in (("clean", clean), ("noisy", noisy)):
        # np.fmin ignores NaN without copying a million items.
        low = np.fmin.reduce(values, axis=None, initial=np.inf)
        high = np.fmax.reduce(values, axis=None, initial=-np.inf)
        if low < 0 or high > 1:
            raise DataError(
                f"The {name} outcomes range from {low} to {high}. Expected values in [0, 1], or "
                "NaN for a missing answer."
            )
    return clean, noisy, groups
