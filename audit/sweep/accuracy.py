"""Accuracy of every setting with a 95 % interval: what the tables and the small multiples show (pure).

The tables are csv: the paper's three under the column names of its published data, and ours.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from audit.errors import DataError
from audit.records import Setting
from audit.statistics.chance import chance_level, interval
from audit.statistics.information import InformationSlope, slope_at_zero
from audit.statistics.paired import CellOutcomes, State
from audit.statistics.values import levels_of, replicates_of, settings_values, to_values
from audit.sweep.design import DELETED, Arm
from audit.sweep.figures import ModelScores, Score
from audit.sweep.messages import ByRouters
from audit.sweep.paper import SettingRow, model_summary, router_summary, setting_rows
from audit.sweep.record import sweep_of
from audit.sweep.result import RunVerdict
from audit.verdict.tables import columns


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
        count = {s: int(np.count_nonzero(state == s)) for s in State}
        rows.append(
            SettingAccuracy(
                cell.model,
                cell.benchmark,
                setting,
                cell.n,
                count[State.CORRECT] + count[State.WRONG],
                *(count[s] for s in (State.CORRECT, State.UNPARSED, State.TRUNCATED, State.ERROR, State.ABSENT)),
                *(interval(to_values(state), cell.cluster) or (None, None, None)),
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


def _plain(value: Any) -> Any:
    """Floats with up to ten digits."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        value = value + 0.0  # no negative zero
        return int(value) if value.is_integer() and abs(value) >= 1 else f"{value:.10g}"
    return value


write = partial(columns, plain=_plain)


def _of_cells(run: RunVerdict, part: str, *names: str) -> str:
    """One row for each of a cell's own (the cell itself where part is empty), behind its model and benchmark."""
    pairs = ({"cell": c, "one": one} for c in run.marked for one in (getattr(c, part) if part else [c]))
    named = (name if "=" in name else f"{name}={name}" for name in names)
    return write(pairs, "model=cell.model", "benchmark=cell.benchmark", *(n.replace("=", "=one.") for n in named))


def table1(rows: Sequence[SettingRow]) -> str:
    """Model-level summary (song2026, Table 1): of replicate 0 alone, as `analyse` gives its rows."""
    return write(
        model_summary(rows), "model", "violation_count", "violation_rate", "max_positive_excess",
        "mean_positive_excess", "mean_gain", "benchmark",
    )  # fmt: skip


def table2(rows: Sequence[SettingRow]) -> str:
    """Model by router (song2026, Table 2)."""
    return write(
        rows, "model", "routers", "clean_accuracy", "noisy_accuracy", "gain", "improve", "degrade", "benchmark", "n",
        "left_out",
    )  # fmt: skip


def table3(rows: Sequence[SettingRow]) -> str:
    """Router-level summary (song2026, Table 3)."""
    return write(
        router_summary(rows), "routers", "violating_models", "violation_rate", "mean_positive_excess", "improve",
        "degrade", "net_improve", "models",
    )  # fmt: skip


def tables(
    run: RunVerdict, rows: Sequence[SettingRow], accuracies: Sequence[SettingAccuracy], doses: Sequence[Dose]
) -> dict[str, str]:
    """Every table of a report, by the name of its file.

    contrasts: p asks whether the first condition is better; ci_low, ci_high are two-sided. dose: by share of words
    deleted; the slope at 0 is of the whole cell. mechanism: shares of words, and accuracy of the noisy arm.
    """
    found = {
        "table1_models.csv": table1(rows),
        "table2_models_by_router.csv": table2(rows),
        "table3_routers.csv": table3(rows),
        "settings.csv": write(
            accuracies, "model", "benchmark", "arm=setting.arm", "routers=setting.level",
            "replicate=setting.replicate", "questions=n", "answered", "correct", "accuracy", "ci_low=low",
            "ci_high=high", "unparsed", "truncated", "errors", "absent",
        ),
        "verdicts.csv": _of_cells(
            run, "", "verdict=verdict.value", "score", "chance", "share_beyond_gains", "credibility",
            "credibility_category", "questions=n_questions", "largest_gain=effect.gain", "at_routers=effect.routers",
            "ci_low=effect.ci_low", "ci_high=effect.ci_high", "mean_gain=effect.mean_gain",
            "mean_ci_low=effect.mean_ci_low", "mean_ci_high=effect.mean_ci_high", "p_adjusted",
            "largest_compatible_gain", "run_sd", "run_sd_df", "noisy_run_sd", "noisy_run_sd_df",
            "slope=slope.estimate", "slope_ci_low=slope.ci_low", "slope_ci_high=slope.ci_high", "watermark", "headline",
        ),
        "gates.csv": _of_cells(
            run, "gates", "gate=name", "status=status.value", "number", "threshold", "withholds",
            "questions_behind=item_count", "detail", "advice", "source",
        ),
        "contrasts.csv": _of_cells(
            run, "contrasts", "contrast=name", "label", "routers", "n", "estimate", "ci_low", "ci_high",
            "p (one-sided)=p", "p_adjusted (one-sided)=p_adjusted", "improve", "degrade", "note",
        ),
        "mechanism.csv": _of_cells(run, "by_routers", *(field.name for field in fields(ByRouters))),
    }  # fmt: skip
    if doses:
        found["dose.csv"] = write(
            ({"a": a, "deleted": a.setting.level / 100, "s": one.slope} for one in doses for a in one.rows),
            "model=a.model", "benchmark=a.benchmark", "deleted", "questions=a.n", "answered=a.answered",
            "accuracy=a.accuracy", "ci_low=a.low", "ci_high=a.high", "slope_at_zero=s.slope", "slope_low=s.low",
            "slope_high=s.high", "slope_p (two-sided)=s.pvalue",
        )  # fmt: skip
    return found
