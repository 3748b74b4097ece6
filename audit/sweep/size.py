"""How many questions a sweep needs to find, and to rule out, the smallest effect that matters (pure)."""

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import scipy

from audit.records import Design, Setting
from audit.statistics.power import minimum_detectable_gain, questions_needed
from audit.sweep.design import Arm, SweepThresholds

PLANNED_DISCORDANCE = 0.20  # song2026, Table 2: (improve + degrade) / n has a median of 0.2 over its 108 cells
SIDES = 2  # an excess is tested one-sided at alpha / 2: its two-sided interval must lie above zero too
REPEATED = 2  # runs of a side from which on what a whole run shifts by is measured, and not assumed
_MOST = 10_000_000


@lru_cache
def needed(limits: SweepThresholds, tests: int) -> int:
    """Questions to detect the smallest effect that matters. tests: router counts times cells of the panel.

    >>> needed(SweepThresholds(), 1), needed(SweepThresholds(), 9)
    (658, 1070)
    """
    effect, level = limits.effect_of_interest, limits.alpha / SIDES
    return questions_needed(effect, PLANNED_DISCORDANCE, alpha=level, n_tests=tests, power=limits.power)


@lru_cache
def needed_of(limits: SweepThresholds, tests: int, runs: tuple[int, int]) -> int | None:
    """The same for so many clean and noisy runs; None where no number of questions would do.

    >>> [needed_of(SweepThresholds(), 1, runs) for runs in ((3, 2), (3, 1), (1, 1))]
    [658, 1780, None]
    """
    first, effect = needed(limits, tests), limits.effect_of_interest
    if _shifted(limits, _MOST, tests, runs) > effect:
        return None
    enough = range(first, _MOST)
    return enough[bisect_left(enough, True, key=lambda n: _shifted(limits, n, tests, runs) <= effect)]


def router_counts(design: Design) -> int:
    """The tests of a cell: router counts of the noisy arm, at least 1."""
    return max(1, len({s.level for s in design.settings if s.arm == Arm.NOISY_REWRITE}))


def runs_of(settings: Sequence[Setting]) -> tuple[int, int]:
    """How often the clean baseline and the noisy arm are run."""
    clean = {s.replicate for s in settings if s.arm == Arm.FORWARD_FULL and s.level == 1}
    noisy = {s.replicate for s in settings if s.arm == Arm.NOISY_REWRITE}
    return max(1, len(clean)), max(1, len(noisy))


def repeated(settings: Sequence[Setting]) -> str:
    """What to type so that no arm is run once, as ` with noisy_replicates=2`; empty where none is."""
    words = zip(("clean_replicates=3", "noisy_replicates=2"), runs_of(settings), strict=True)
    once = [word for word, number in words if number < REPEATED]
    return f" with {' '.join(once)}" if once else ""


def detectable(
    limits: SweepThresholds, questions: int, tests: int, runs: tuple[int, int] = (REPEATED, REPEATED)
) -> float:
    """The smallest gain (0-1) over clean that so many questions find; NaN where they find none. A side that is run once
    adds the largest plausible shift to the test's variance, which no number of questions lessens."""
    level = limits.alpha / SIDES
    found = minimum_detectable_gain(questions, PLANNED_DISCORDANCE, alpha=level, n_tests=tests, power=limits.power)
    return found if np.isnan(found) else max(found, _shifted(limits, questions, tests, runs))


def _shifted(limits: SweepThresholds, questions: int, tests: int, runs: tuple[int, int]) -> float:
    """The smallest gain that is found above the shifts of sides that are run once; 0 where there is none."""
    once = sum(number < REPEATED for number in runs)
    items = np.sqrt(PLANNED_DISCORDANCE / 2 * sum(1 / number for number in runs) / questions)
    level = scipy.stats.norm.isf(limits.alpha / SIDES / tests)
    limit = level * np.hypot(items, limits.run_sd_plausible * np.sqrt(once))
    return float(limit + scipy.stats.norm.ppf(limits.power) * items) if once else 0.0
