"""Questions are paired across settings here and nowhere else: the single source of truth for paired statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.errors import DataError
from audit.records import Setting
from audit.sweep.design import Arm

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


@dataclass(frozen=True)
class CellOutcomes:
    """One cell (model x benchmark): n questions under S settings, paired by question.

    question_ids: n ids, sorted. cluster: (n,) cluster index 0..G-1 that resampling keeps together.
    n_options: (n,) options per question (chance is the mean of 1/n_options). settings: S settings, sorted.
    state: (S, n) int8 of `State`.
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

    @property
    def n(self) -> int:
        return len(self.question_ids)

    def row(self, setting: Setting) -> NDArray[np.int8]:
        """States (n,) under one setting; DataError when the setting was not run."""
        if setting not in self.settings:
            raise DataError(f"{self.model} on {self.benchmark} was not run under {setting}.")
        return self.state[self.settings.index(setting)]

    def settings_of(self, arm: Arm) -> tuple[Setting, ...]:
        return tuple(s for s in self.settings if s.arm == arm)


def pair_outcomes(columns: Mapping[str, Sequence[Any]]) -> list[CellOutcomes]:
    """Shard columns -> one CellOutcomes per (model, benchmark), sorted.

    columns: equally long sequences `model, benchmark, draws, reading, question_id, group, n_options, arm, routers,
    replicate, correct (bool or None), parsed, finish_reason, error (str or None)`.
    Raises DataError when a key occurs twice, or when one question has different groups or option counts.
    """
    length = len(columns["model"])
    by_cell: dict[tuple[str, str], list[int]] = {}
    for i in range(length):
        by_cell.setdefault((columns["model"][i], columns["benchmark"][i]), []).append(i)
    return [_pair_cell(columns, model, benchmark, by_cell[model, benchmark]) for model, benchmark in sorted(by_cell)]


def _pair_cell(columns: Mapping[str, Sequence[Any]], model: str, benchmark: str, rows: list[int]) -> CellOutcomes:
    item: dict[str, tuple[str, int]] = {}
    outcome: dict[tuple[Setting, str], State] = {}
    for i in rows:
        qid = columns["question_id"][i]
        facts = (columns["group"][i], int(columns["n_options"][i]))
        if item.setdefault(qid, facts) != facts:
            raise DataError(f"Question {qid!r} of {benchmark} has two groups or option counts: {item[qid]}, {facts}.")
        setting = Setting(Arm(columns["arm"][i]), int(columns["routers"][i]), int(columns["replicate"][i]))
        if (setting, qid) in outcome:
            raise DataError(f"Two rows for {model}, {benchmark}, {qid}, {setting}: every key must occur once.")
        outcome[setting, qid] = _state(columns, i)
    ids = sorted(item)
    settings = sorted({s for s, _ in outcome})
    groups = {g: k for k, g in enumerate(sorted({g for g, _ in item.values()}))}
    state = np.array([[outcome.get((s, q), State.ABSENT) for q in ids] for s in settings], dtype=np.int8)
    return CellOutcomes(
        model=model,
        benchmark=benchmark,
        draws=_only(columns["draws"], rows, "draws", model),
        reading=_only(columns["reading"], rows, "reading", model),
        question_ids=tuple(ids),
        cluster=np.array([groups[item[q][0]] for q in ids], dtype=np.int64),
        n_options=np.array([item[q][1] for q in ids], dtype=np.int64),
        settings=tuple(settings),
        state=state,
    )


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
        outside = values[~np.isnan(values)]
        if outside.size and (outside.min() < 0 or outside.max() > 1):
            raise DataError(f"Outcomes lie in [0, 1] (NaN: no answer); {name} has {outside.min()} to {outside.max()}.")
    return clean, noisy, groups


def _state(columns: Mapping[str, Sequence[Any]], i: int) -> State:
    if columns["error"][i] is not None:
        return State.ERROR
    if not columns["parsed"][i]:
        return State.TRUNCATED if columns["finish_reason"][i] == "length" else State.UNPARSED
    return State.CORRECT if columns["correct"][i] else State.WRONG


def _only(column: Sequence[Any], rows: list[int], name: str, model: str) -> str:
    values = {column[i] for i in rows}
    if len(values) != 1:
        raise DataError(f"Rows of {model} mix {name}: {sorted(values)}. Analyse them as separate runs.")
    return str(values.pop())
