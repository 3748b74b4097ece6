"""Tables as csv: the paper's three under the column names of its published data, and ours (pure: rows in, text out)."""

from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields

from audit.sweep.accuracy import Dose, SettingAccuracy
from audit.sweep.messages import ByRouters
from audit.sweep.paper import SettingRow, model_summary, router_summary
from audit.sweep.result import RunVerdict
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


def _columns(rows: Iterable[object], *names: str) -> str:
    """These attributes of each row, under their own names."""
    return write(names, ([getattr(row, name) for name in names] for row in rows))


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
    header = (
        "model", "benchmark", "arm", "routers", "replicate", "questions", "answered", "correct", "accuracy", "ci_low",
        "ci_high", "unparsed", "truncated", "errors", "absent",
    )  # fmt: skip
    return write(
        header,
        (
            (a.model, a.benchmark, a.setting.arm, a.setting.level, a.setting.replicate, a.n, a.answered,
             a.correct, a.accuracy, a.low, a.high, a.unparsed, a.truncated, a.errors, a.absent)
            for a in rows
        ),
    )  # fmt: skip


def verdicts(run: RunVerdict) -> str:
    """One row per cell: the verdict with effect, interval, p and the 2-D table's score and credibility."""
    header = (
        "model", "benchmark", "verdict", "score", "chance", "share_beyond_gains", "credibility", "credibility_category",
        "questions",
        "largest_gain", "at_routers", "ci_low", "ci_high", "mean_gain", "mean_ci_low", "mean_ci_high", "p_adjusted",
        "largest_compatible_gain", "run_sd", "run_sd_df", "noisy_run_sd", "noisy_run_sd_df",
        "slope", "slope_ci_low", "slope_ci_high", "watermark",
        "headline",
    )  # fmt: skip
    body = []
    for c in run.marked:
        e = c.effect
        effect: tuple[Cell, ...] = (
            (e.gain, e.routers, e.ci_low, e.ci_high, e.mean_gain, e.mean_ci_low, e.mean_ci_high) if e else (None,) * 7
        )
        slope: tuple[Cell, ...] = (c.slope.estimate, c.slope.ci_low, c.slope.ci_high) if c.slope else (None,) * 3
        body.append(
            (c.model, c.benchmark, c.verdict.value, c.score, c.chance, c.share_beyond_gains, c.credibility,
             c.credibility_category, c.n_questions, *effect, c.p_adjusted, c.largest_compatible_gain, c.run_sd,
             c.run_sd_df, c.noisy_run_sd, c.noisy_run_sd_df, *slope, c.watermark, c.headline)
        )  # fmt: skip
    return write(header, body)


def gates(run: RunVerdict) -> str:
    """One row per cell and gate."""
    header = (
        "model", "benchmark", "gate", "status", "number", "threshold", "withholds", "questions_behind", "detail",
        "advice", "source",
    )  # fmt: skip
    return write(
        header,
        (
            (c.model, c.benchmark, g.name, g.status.value, g.number, g.threshold, g.withholds, g.item_count, g.detail,
             g.advice, g.source)
            for c in run.marked
            for g in c.gates
        ),
    )  # fmt: skip


def mechanism(run: RunVerdict) -> str:
    """One row per cell and number of routers: shares of words, and accuracy of the noisy arm."""
    header = ("model", "benchmark", *(field.name for field in fields(ByRouters)))
    return write(header, ((c.model, c.benchmark, *astuple(row)) for c in run.marked for row in c.by_routers))


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


def contrasts(run: RunVerdict) -> str:
    """One row per cell and contrast. p asks whether the first condition is better; ci_low, ci_high are two-sided."""
    header = (
        "model", "benchmark", "contrast", "label", "routers", "n", "estimate", "ci_low", "ci_high", "p (one-sided)",
        "p_adjusted (one-sided)", "improve", "degrade", "note",
    )  # fmt: skip
    return write(
        header,
        (
            (c.model, c.benchmark, k.name, k.label, k.routers, k.n, k.estimate, k.ci_low, k.ci_high, k.p, k.p_adjusted,
             k.improve, k.degrade, k.note)
            for c in run.marked
            for k in c.contrasts
        ),
    )  # fmt: skip
