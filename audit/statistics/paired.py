"""The outcomes of one cell, paired by question: what every paired statistic reads (`shards.cells` does the pairing)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from audit.errors import DataError
from audit.records import Setting

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class State(IntEnum):
    """What became of one question under one setting. Only CORRECT and WRONG are answers."""

    CORRECT = 1
    WRONG = 0
    UNPARSED = -1  # the worker replied, but no answer could be read
    TRUNCATED = -2  # unparsed because the reply was cut off at max_tokens
    ERROR = -3  # the engine gave no reply
    ABSENT = -4  # no row


UNANSWERED = (State.UNPARSED, State.TRUNCATED, State.ERROR)  # was asked; what the answer was worth is not known


@dataclass(frozen=True)
class CellOutcomes:
    """One cell (model x benchmark): n questions under S settings, paired by question.

    question_ids: n ids, sorted. cluster: (n,) cluster index 0..G-1 that resampling keeps together.
    n_options: (n,) options per question (chance is the mean of 1/n_options). settings: S settings, sorted.
    state: (S, n) int8 of `State`. answer, gold: (S, n) index of the option answered, -1 for none, and (n,) of the right
    one, where they were read (`cell_columns(answers=True)`).
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
        return len(self.question_ids)

    def row(self, setting: Setting) -> NDArray[np.int8]:
        """States (n,) under one setting; DataError when the setting was not run."""
        if setting not in self.settings:
            raise DataError(f"{self.model} on {self.benchmark} was not run under {setting}.")
        return self.state[self.settings.index(setting)]

    def kept(self, keep: BoolArray) -> CellOutcomes:
        """The same cell, its questions those of a mask (n,); without answers and gold."""
        return replace(
            self,
            question_ids=tuple(q for q, kept in zip(self.question_ids, keep, strict=True) if kept),
            cluster=self.cluster[keep],
            n_options=self.n_options[keep],
            state=self.state[:, keep],
            answer=None,
            gold=None,
        )

    def without(self, arm: str) -> CellOutcomes:
        """The same cell without the settings of an arm."""
        keep = [k for k, s in enumerate(self.settings) if s.arm != arm]
        answer = None if self.answer is None else self.answer[keep]
        return replace(self, settings=tuple(self.settings[k] for k in keep), state=self.state[keep], answer=answer)

    def settings_of(self, arm: str) -> tuple[Setting, ...]:
        return tuple(s for s in self.settings if s.arm == arm)


def checked_pair(
    clean: FloatArray, noisy: FloatArray, cluster: IntArray | None
) -> tuple[FloatArray, FloatArray, IntArray]:
    """clean (n,), noisy (R, n) and cluster (n,; every item its own where None) as arrays, or a DataError."""
    clean, noisy = np.asarray(clean, dtype=float), np.atleast_2d(np.asarray(noisy, dtype=float))
    n = clean.size
    groups = np.arange(n) if cluster is None else np.asarray(cluster)
    if clean.ndim != 1 or n == 0 or noisy.shape[1] != n or groups.shape != (n,):
        raise DataError(
            f"Paired outcomes need clean (n,), noisy (R, n) and cluster (n,) with n >= 1; "
            f"found {clean.shape}, {noisy.shape}, {groups.shape}."
        )
    for name, values in (("clean", clean), ("noisy", noisy)):
        low = np.fmin.reduce(values, axis=None, initial=np.inf)  # NaN left out, and no copy of a million items made
        high = np.fmax.reduce(values, axis=None, initial=-np.inf)
        if low < 0 or high > 1:
            raise DataError(f"Outcomes lie in [0, 1] (NaN: no answer); {name} has {low} to {high}.")
    return clean, noisy, groups
