"""What a run would ask, from the edits themselves, the smallest difference that it detects, and thresholds
from the error rates that a reader tolerates; nothing is started.

li2026, App. E, asks that each threshold come from what its reader can bear. The level, G2 and the margin can: they are
below. Nothing that a reader would call an error hangs on G3's floor or on the mass of labels alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

from scipy.special import stdtrit

from audit.dry_run import Asked, Planned, called, reach
from audit.errors import ConfigError
from audit.validity.analyse import JUDGE, nearest
from audit.validity.config import ValidityConfig
from audit.validity.design import ValidityThresholds
from audit.validity.edits.plan import ItemPlan
from audit.validity.edits.record import Family, context_of
from audit.validity.resolve import ValidityRun, resolve_validity
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
    return shown + lines(found, shipped_table(JUDGE.shipped))


PLANNED_CHANGE = 0.1  # share of the surface edits that change an answer: between the calibrated .03 and .25
_ADDED = 2  # clusters that `statistics.selectivity` adds to each test


@dataclass(frozen=True)
class Tolerated:
    """items: independent ones. attribute, surface: edits of an item. false_alarms, misses: tolerated shares, 0-1, the
    first of each direction over all cells together. cells: of the panel.

    >>> round(Tolerated(200, 1, 3, 0.025, 0.2).detectable(), 3)
    0.103
    """

    items: int
    attribute: float
    surface: float
    false_alarms: float
    misses: float
    cells: int = 1

    def __post_init__(self) -> None:
        for name in ("false_alarms", "misses"):
            if not 0 < getattr(self, name) < 0.5:
                raise ConfigError(f"Invalid {name}: {getattr(self, name)}. Expected a share below .5, such as 0.025.")

    def detectable(self) -> float:
        """The smallest difference attr - max(fmt, sem), 0-1, that is found but for the misses at most; NaN where none
        is. Two tests have to find it, and each may miss half."""
        low, high = 0.0, 1 - PLANNED_CHANGE
        level = self.false_alarms / self.cells
        if self._needed(high, level, self.misses / 2) > high:
            return math.nan
        while high - low > 1e-5:
            middle = (low + high) / 2
            low, high = (middle, high) if self._needed(middle, level, self.misses / 2) > middle else (low, middle)
        return high

    def margin(self) -> float:
        """The least margin within which attribute edits that move as many as surface edits are shown to stay."""
        level = self.false_alarms / self.cells / 2  # below one of two: Bonferroni
        return self._needed(0.0, level, self.misses) * self.items / (self.items + _ADDED)

    def needed(self, margin: float) -> int:
        """Independent items that find a difference of the margin, and show that there is none."""
        few, many = 2, 4
        while not replace(self, items=many).tells(margin):
            few, many = many, 2 * many
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (few, middle) if replace(self, items=middle).tells(margin) else (middle, many)
        return many

    def tells(self, margin: float) -> bool:
        return self.detectable() <= margin and self.margin() <= margin

    def _needed(self, difference: float, level: float, missed: float) -> float:
        if self.items < 2:
            return math.inf
        c, a = PLANNED_CHANGE, PLANNED_CHANGE + difference
        variance = a * (1 - a) / self.attribute + c * (1 - c) / self.surface
        reach = float(stdtrit(self.items - 1, 1 - level)) + _z(1 - missed)
        return reach * math.sqrt(variance / self.items + _ADDED / self.items**2)

    def baseline_standard_errors(self) -> float:
        """G2: a model that only knows the answer-only rule passes in the tolerated share."""
        return _z(1 - self.false_alarms)

    def above_baseline(self) -> float:
        """The score above the baseline, 0-1 and near .5, that passes G2 but for the misses."""
        return (self.baseline_standard_errors() + _z(1 - self.misses)) * math.sqrt(0.25 / self.items)


def _z(share: float) -> float:
    return NormalDist().inv_cdf(share)


def lines(plan: Tolerated, table: Mapping[str, Any] | None) -> list[str]:
    """What the plan prints. table: of the shipped calibration."""
    found = plan.detectable()
    shown = "none" if math.isnan(found) else f"{100 * found:.1f} points"
    rates = f"false alarms {plan.false_alarms:.1%}, misses {plan.misses:.0%}"
    measured = nearest(table, clusters=plan.items, change=PLANNED_CHANGE)
    said = ""
    if measured is not None:
        said = (
            f"  measured at .05: selective {measured['selective']:.1%}, non-selective {measured['non_selective']:.1%}"
        )
    return [
        f"  detectable difference  {shown} of attribute over surface edits ({rates};",
        f"    smallest of {plan.cells} cells: {plan.items:,} independent items, {plan.attribute:.1f} attribute edits"
        f" each; surface edits change {PLANNED_CHANGE:.0%} of the answers)",
        "  thresholds for these rates (others: false_alarms=0.01 misses=0.1):",
        f"    verdict.alpha={2 * plan.false_alarms:g}{said}",
        f"    verdict.baseline_standard_errors={plan.baseline_standard_errors():.2f}  G2 passes a score "
        f"{100 * plan.above_baseline():.1f} points above the baseline in {1 - plan.misses:.0%}",
        f"    verdict.margin={plan.margin():.3f}  the least within which answers that stay are shown to stay",
        "    no rate hangs on denominator_min, label_mass_min, parse_share_min and noop_share_max: floors.",
    ]
