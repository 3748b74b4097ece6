"""What a run would ask, from the edits themselves; nothing is started."""

from __future__ import annotations

from collections.abc import Sequence

from audit.dry_run import Asked, planned_calls, show_plan
from audit.plan_cost import PlannedCalls
from audit.validity.config import ValidityConfig
from audit.validity.resolve import ValidityRun, resolve_validity


def show(config: ValidityConfig) -> int:
    """Print the plan; the exit code."""
    run = resolve_validity(config)
    return show_plan(run.resolved, lambda asked: describe(run, asked))


def calls_of(config: ValidityConfig) -> list[PlannedCalls]:
    """What the audit would ask of each model. Raises AuditError, as the audit would; starts nothing."""
    return planned_calls(resolve_validity(config).resolved)


def describe(run: ValidityRun, asked: Sequence[Asked]) -> list[str]:
    """The plan in lines that a person reads. Tokens are before prefix caching; edits that no item has are left out."""
    lines = [f"scorer         {run.scorer.name}"]
    for one in asked:
        lines += [
            f"{one.planned.model} on {one.planned.benchmark}",
            f"  items              {one.questions:>12,}",
            f"  calls              {one.planned.calls:>12,}",
            *one.planned.lines(),
        ]
    return lines
