"""What a run would ask, from the edits themselves, and the smallest difference that it detects; nothing is started."""

import math
from collections.abc import Sequence

from audit.dry_run import Asked, Planned, called, reach
from audit.validity.calibrated import SHIPPED
from audit.validity.config import ValidityConfig
from audit.validity.edits.plan import ItemPlan
from audit.validity.edits.record import Family
from audit.validity.edits.table import context_of
from audit.validity.resolve import ValidityRun, resolve_validity
from audit.validity.thresholds import ValidityThresholds
from audit.validity.tolerance import Tolerated, lines
from audit.verdict.shipped import shipped_table


def planned(config: ValidityConfig) -> Planned:
    run = resolve_validity(config)
    found = tolerated(config, run)
    margin = ValidityThresholds.from_mapping(config.verdict).margin
    needed = math.ceil(found.needed(margin) * len(run.plan.items) / found.items)
    facts = {"minimum_detectable_difference": found.detectable(), "questions_needed": needed}

    def described(asked: Sequence[Asked]) -> list[str]:
        return describe(run, found, asked) + reach(run.resolved, asked, needed)

    return Planned(run.resolved, described, lambda one: {**called(one), **facts})


def tolerated(config: ValidityConfig, run: ValidityRun) -> Tolerated:
    """The smallest cell of the design, as each context is one: items of one group (pair, template) count as one."""
    cells: dict[str, list[ItemPlan]] = {}
    for one in run.plan.items:
        if one.edits[Family.ATTRIBUTE]:
            cells.setdefault(context_of(one.item, run.plan.benchmark), []).append(one)
    items = min(cells.values(), key=_independent)
    return Tolerated(
        items=_independent(items),
        attribute=sum(len(one.edits[Family.ATTRIBUTE]) for one in items) / len(items),
        surface=config.edits_per_family,
        false_alarms=config.false_alarms,
        misses=config.misses,
        cells=len(config.model) * len(cells),
    )


def _independent(items: Sequence[ItemPlan]) -> int:
    return len({one.item.group for one in items})


def describe(run: ValidityRun, found: Tolerated, asked: Sequence[Asked]) -> list[str]:
    """The plan in lines that a person reads. Tokens are before prefix caching; edits that no item has are left out."""
    shown = [f"scorer         {run.scorer.name}"]
    for one in asked:
        shown += [
            f"{one.planned.model} on {one.planned.benchmark}",
            f"  items              {one.questions:>12,}",
            f"  calls              {one.planned.calls:>12,}",
            *one.planned.lines(),
        ]
    return shown + lines(found, shipped_table(SHIPPED))
