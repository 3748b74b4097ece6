"""What a suite would cost, audit by audit: calls, tokens, hours, GPU-hours and money. Starts nothing."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from audit.audits import part_of
from audit.plan_cost import PlannedCalls
from audit.suite.commands import Step

_HEAD = ("audit", "model", "benchmark", "calls", "prompt tokens", "generated at most", "hours", "GPU-hours", "cost")
_LEFT = 3  # columns that are words


def describe(plan: Sequence[Step], run_dir: Path) -> list[str]:
    """A table with a line for each audit and model, their sum, and where the figures come from. Raises AuditError."""
    asked = [(step, one.planned) for step in plan for one in part_of(step.audit, "plan").planned(step.config).asked()]
    rows = [(step.audit, one.model, one.benchmark, *_figures([one])) for step, one in asked]
    rows.append(("all", "", "", *_figures([one for _, one in asked])))
    widths = [max(len(row[k]) for row in (_HEAD, *rows)) for k in range(len(_HEAD))]
    lines = [f"run directory  {run_dir}{'  (exists: it would be resumed)' if run_dir.exists() else ''}"]
    for row in (_HEAD, *rows):
        columns = enumerate(zip(row, widths, strict=True))
        lines.append("  ".join(v.ljust(w) if k < _LEFT else v.rjust(w) for k, (v, w) in columns).rstrip())
    lines += [f"({one})" for one in dict.fromkeys(call.cost.basis for _, call in asked) if one]
    lines += ["", "What each could find: the same words with plan=true, such as"]
    lines += [f"  audit {step.audit} plan=true {shlex.join(step.words)}" for step in plan]
    return lines


def _figures(calls: Sequence[PlannedCalls]) -> tuple[str, ...]:
    """Sums; "?" where one of them is not known."""
    currency = {one.cost.currency for one in calls}
    money = _sum([one.cost.money for one in calls], lambda value: f"{value:,.2f} {'/'.join(sorted(currency))}")
    return (
        f"{sum(one.calls for one in calls):,}",
        f"{sum(one.tokens.prompt for one in calls):,}",
        f"{sum(one.tokens.generated for one in calls):,}",
        _sum([one.cost.hours for one in calls], lambda value: f"{value:,.2g}"),
        _sum([one.cost.gpu_hours for one in calls], lambda value: f"{value:,.2g}"),
        money,
    )


def _sum(values: Sequence[float | None], shown: Callable[[float], str]) -> str:
    known = [value for value in values if value is not None]
    return shown(sum(known)) if len(known) == len(values) else "?"
