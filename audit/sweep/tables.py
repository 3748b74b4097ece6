"""Tables as csv: the paper's three under the column names of its published data, and ours (pure: rows in, text out)."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from audit.sweep.accuracy import Dose, SettingAccuracy
from audit.sweep.messages import ByRouters
from audit.sweep.paper import SettingRow, model_summary, router_summary
from audit.sweep.result import RunVerdict, SweepResult
from audit.verdict.tables import csv_text

Cell = str | int | float | bool | None


def write(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A csv document; strings made safe, floats with up to ten digits, None empty."""
    return csv_text(header, ([_cell(value) for value in row] for row in rows))


def _cell(value: Cell) -> str | int:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        value = value + 0.0  # no negative zero
        return int(value) if value.is_integer() and abs(value) >= 1 else f"{value:.10g}"
    return value


def _read(one: Any, path: str) -> Cell:
    """The attribute at a dotted path; None where the path ends before."""
    for name in path.split("."):
        one = None if one is None else getattr(one, name)
    return one


def _columns(rows: Iterable[Any], *names: str) -> str:
    """These attributes of each row, under their own names or as "name=path"."""
    paths = [name.rpartition("=")[2] for name in names]
    return write([name.partition("=")[0] for name in names], ([_read(row, path) for path in paths] for row in rows))


def _of_cells(run: RunVerdict, part: str, *names: str) -> str:
    """One row for each of a cell's own (the cell itself where part is empty), behind its model and benchmark."""
    pairs = [_Pair(c, one) for c in run.marked for one in (getattr(c, part) if part else [c])]
    named = (name if "=" in name else f"{name}={name}" for name in names)
    return _columns(pairs, "model=cell.model", "benchmark=cell.benchmark", *(n.replace("=", "=one.") for n in named))


class _Pair(NamedTuple):
    cell: SweepResult
    one: Any


def table1(rows: Sequence[SettingRow]) -> str:
    """Model-level summary (song2026, Table 1): of replicate 0 alone, as `analyse` gives its rows."""
    return _columns(
        model_summary(rows), "model", "violation_count", "violation_rate", "max_positive_excess",
        "mean_positive_excess", "mean_gain", "benchmark",
    )  # fmt: skip


def table2(rows: Sequence[SettingRow]) -> str:
    """Model by router (song2026, Table 2)."""
    return _columns(
        rows, "model", "routers", "clean_accuracy", "noisy_accuracy", "gain", "improve", "degrade", "benchmark", "n",
        "left_out",
    )  # fmt: skip


def table3(rows: Sequence[SettingRow]) -> str:
    """Router-level summary (song2026, Table 3)."""
    return _columns(
        router_summary(rows), "routers", "violating_models", "violation_rate", "mean_positive_excess", "improve",
        "degrade", "net_improve", "models",
    )  # fmt: skip


def settings(rows: Sequence[SettingAccuracy]) -> str:
    """Accuracy of every setting with its 95 % interval and what could not be answered."""
    return _columns(
        rows, "model", "benchmark", "arm=setting.arm", "routers=setting.level", "replicate=setting.replicate",
        "questions=n", "answered", "correct", "accuracy", "ci_low=low", "ci_high=high", "unparsed", "truncated",
        "errors", "absent",
    )  # fmt: skip


def verdicts(run: RunVerdict) -> str:
    """One row per cell: the verdict with effect, interval, p and the 2-D table's score and credibility."""
    return _of_cells(
        run, "", "verdict=verdict.value", "score", "chance", "share_beyond_gains", "credibility",
        "credibility_category", "questions=n_questions", "largest_gain=effect.gain", "at_routers=effect.routers",
        "ci_low=effect.ci_low", "ci_high=effect.ci_high", "mean_gain=effect.mean_gain",
        "mean_ci_low=effect.mean_ci_low", "mean_ci_high=effect.mean_ci_high", "p_adjusted", "largest_compatible_gain",
        "run_sd", "run_sd_df", "noisy_run_sd", "noisy_run_sd_df", "slope=slope.estimate", "slope_ci_low=slope.ci_low",
        "slope_ci_high=slope.ci_high", "watermark", "headline",
    )  # fmt: skip


def gates(run: RunVerdict) -> str:
    """One row per cell and gate."""
    return _of_cells(
        run, "gates", "gate=name", "status=status.value", "number", "threshold", "withholds",
        "questions_behind=item_count", "detail", "advice", "source",
    )  # fmt: skip


def mechanism(run: RunVerdict) -> str:
    """One row per cell and number of routers: shares of words, and accuracy of the noisy arm."""
    return _of_cells(run, "by_routers", *(field.name for field in fields(ByRouters)))


def contrasts(run: RunVerdict) -> str:
    """One row per cell and contrast. p asks whether the first condition is better; ci_low, ci_high are two-sided."""
    return _of_cells(
        run, "contrasts", "contrast=name", "label", "routers", "n", "estimate", "ci_low", "ci_high", "p (one-sided)=p",
        "p_adjusted (one-sided)=p_adjusted", "improve", "degrade", "note",
    )  # fmt: skip


def doses(found: Sequence[Dose]) -> str:
    """One row per cell and share of words deleted; the slope at 0 is of the whole cell."""
    header = (
        "model", "benchmark", "deleted", "questions", "answered", "accuracy", "ci_low", "ci_high", "slope_at_zero",
        "slope_low", "slope_high", "slope_p (two-sided)",
    )  # fmt: skip
    body: list[tuple[Cell, ...]] = []
    for one in found:
        slope = (s.slope, s.low, s.high, s.pvalue) if (s := one.slope) else (None,) * 4
        body += [(a.model, a.benchmark, a.setting.level / 100, a.n, a.answered, a.accuracy, a.low, a.high, *slope)
                 for a in one.rows]  # fmt: skip
    return write(header, body)
