"""Accuracy of every setting with a 95 % interval: what the tables and the small multiples show (pure)."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from audit.errors import DataError
from audit.records import Setting
from audit.statistics.chance import chance_level, interval
from audit.statistics.information import InformationSlope, slope_at_zero
from audit.statistics.paired import CellOutcomes, State
from audit.statistics.values import levels_of, replicates_of, settings_values, to_values
from audit.sweep.design import DELETED, Arm
from audit.sweep.figures import ModelScores, Score
from audit.sweep.paper import SettingRow, model_summary, setting_rows
from audit.sweep.record import sweep_of


@dataclass(frozen=True)
class SettingAccuracy:
    """One setting of one cell. n: questions; answered: those with an answer, over which accuracy (0-1) is taken.

    accuracy, low, high are None where nothing was answered.
    """

    model: str
    benchmark: str
    setting: Setting
    n: int
    answered: int
    correct: int
    unparsed: int
    truncated: int
    errors: int
    absent: int
    accuracy: float | None
    low: float | None
    high: float | None


def setting_accuracies(cell: CellOutcomes) -> list[SettingAccuracy]:
    """One row per setting of a cell, in the order of its settings."""
    rows = []
    for setting in cell.settings:
        state = cell.row(setting)
        accuracy, low, high = interval(to_values(state), cell.cluster) or (None, None, None)
        count = {s: int(np.count_nonzero(state == s)) for s in State}
        rows.append(
            SettingAccuracy(
                model=cell.model,
                benchmark=cell.benchmark,
                setting=setting,
                n=cell.n,
                answered=count[State.CORRECT] + count[State.WRONG],
                correct=count[State.CORRECT],
                unparsed=count[State.UNPARSED],
                truncated=count[State.TRUNCATED],
                errors=count[State.ERROR],
                absent=count[State.ABSENT],
                accuracy=accuracy,
                low=low,
                high=high,
            )
        )
    return rows


@dataclass(frozen=True)
class Dose:
    """Accuracy by the share of words deleted, and its slope at 0; None where too few questions carry one."""

    rows: tuple[SettingAccuracy, ...]
    slope: InformationSlope | None


def dose_of(cell: CellOutcomes) -> Dose | None:
    """What deleting words costs a cell; None where nothing was deleted."""
    rows = tuple(row for row in setting_accuracies(cell) if row.setting.arm == DELETED)
    if not rows:
        return None
    doses = [row.setting.level / 100 for row in rows]
    values = np.stack([to_values(cell.row(row.setting)) for row in rows], axis=1)
    try:
        return Dose(rows, slope_at_zero(doses, values, cell.cluster))
    except DataError:
        return Dose(rows, None)


def labels(cells: list[CellOutcomes]) -> dict[tuple[str, str], str]:
    """What each cell is called: the model, with its benchmark where the panel holds several."""
    several = len({c.benchmark for c in cells}) > 1
    return {(c.model, c.benchmark): f"{c.model} · {c.benchmark}" if several else c.model for c in cells}


def model_scores(cell: CellOutcomes, label: str) -> ModelScores:
    """Accuracies with intervals, replicates averaged."""

    def score(arm: Arm, routers: int) -> Score | None:
        settings = replicates_of(cell, arm, routers)
        found = interval(settings_values(cell, settings), cell.cluster) if settings else None
        return Score(routers, *found) if found else None

    def scores(arm: Arm, least: int) -> tuple[Score, ...]:
        found = (score(arm, r) for r in levels_of(cell, arm) if r >= least)
        return tuple(s for s in found if s is not None)

    return ModelScores(
        label=label,
        clean=score(Arm.FORWARD_FULL, 1),
        noisy=scores(Arm.NOISY_REWRITE, 1),
        ensemble=scores(Arm.FORWARD_FULL, 2),
        direct=score(Arm.DIRECT, 0),
        chance=chance_level(cell.n_options),
    )


def pooled_rows(cell: CellOutcomes) -> list[SettingRow]:
    """Noisy against clean at each r, replicates averaged: the gains of the verdict, in the form of the paper's Table 2.

    Without the router counts that share no answered question with clean; empty where clean or noisy was not run.
    """
    if not replicates_of(cell, Arm.FORWARD_FULL, 1) or not levels_of(cell, Arm.NOISY_REWRITE):
        return []
    return setting_rows(sweep_of(cell).answered())


def breadths(rows: list[SettingRow], names: dict[tuple[str, str], str]) -> list[tuple[str, int, int]]:
    """Table 1's violation counts as Figure 5 reads them."""
    settings = Counter((row.model, row.benchmark) for row in rows)
    summaries = ((s.model, s.benchmark, s.violation_count) for s in model_summary(rows))
    return [(names[model, benchmark], count, settings[model, benchmark]) for model, benchmark, count in summaries]
