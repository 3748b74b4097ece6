"""How many questions a sweep needs to find, and to rule out, the smallest effect that matters (pure)."""

from functools import lru_cache

from audit.records import Design
from audit.statistics.power import minimum_detectable_gain, questions_needed
from audit.sweep.design import Arm
from audit.sweep.thresholds import SweepThresholds

PLANNED_DISCORDANCE = 0.20  # song2026, Table 2: (improve + degrade) / n has a median of 0.2 over its 108 cells
SIDES = 2  # an excess is tested one-sided at alpha / 2: its two-sided interval must lie above zero too


@lru_cache
def needed(thresholds: SweepThresholds, tests: int) -> int:
    """Questions to detect the smallest effect that matters. tests: router counts times cells of the panel.

    >>> needed(SweepThresholds(), 1), needed(SweepThresholds(), 9)
    (658, 1070)
    """
    effect, level = thresholds.effect_of_interest, thresholds.alpha / SIDES
    return questions_needed(effect, PLANNED_DISCORDANCE, alpha=level, n_tests=tests, power=thresholds.power)


def router_counts(design: Design) -> int:
    """The tests of a cell: router counts of the noisy arm, at least 1."""
    return max(1, len({s.level for s in design.settings if s.arm == Arm.NOISY_REWRITE}))


def detectable(thresholds: SweepThresholds, questions: int, tests: int) -> float:
    """The smallest gain (0-1) that so many questions find; NaN where they find none."""
    level = thresholds.alpha / SIDES
    return minimum_detectable_gain(questions, PLANNED_DISCORDANCE, alpha=level, n_tests=tests, power=thresholds.power)
