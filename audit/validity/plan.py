"""What a run would ask, from the edits themselves; nothing is started."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from statistics import NormalDist

from audit.dry_run import Asked, Planned, reach
from audit.validity.config import ValidityConfig
from audit.validity.resolve import ValidityRun, resolve_validity
from audit.validity.thresholds import ValidityThresholds

PLANNED_CHANGE, POWER = 0.1, 0.8  # share of answers that an edit changes, as in the docs' second world; Cohen 1988


def planned(config: ValidityConfig) -> Planned:
    run = resolve_validity(config)
    wanted = needed(ValidityThresholds.from_mapping(config.verdict))
    return Planned(run.resolved, lambda asked: describe(run, asked) + reach(run.resolved, asked, wanted))


def needed(thresholds: ValidityThresholds) -> int:
    """Items that tell a difference of the margin, or that there is none: of two changes, each with its own test.

    >>> needed(ValidityThresholds())
    566
    """
    z = NormalDist().inv_cdf
    each = 2 * PLANNED_CHANGE * (1 - PLANNED_CHANGE)
    return ceil(each * ((z(1 - thresholds.alpha / 2) + z(POWER)) / thresholds.margin) ** 2)


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
