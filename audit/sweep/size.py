"""Compute how many questions a sweep needs to detect, or rule out, the smallest effect that
matters.
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import scipy

from audit.core.records import Design, Setting
from audit.statistics.power import minimum_detectable_gain, questions_needed
from audit.sweep.design import Arm, SweepThresholds

PLANNED_DISCORDANCE = (
    0.20  # song2026, Table 2: (improve + degrade) / n has a median of 0.2 over its 108 cells
)
SIDES = 2  # an excess is tested one-sided at alpha / 2, as its two-sided interval must lie above zero too
REPEATED = 2  # runs of a side from which the shift of a whole run is measured, not assumed
_MOST = 10_000_000


@lru_cache
def needed(limits: SweepThresholds, tests: int) -> int:
    """Return the number of questions that detects the smallest effect that matters.

    Parameters
    ----------
    limits : SweepThresholds
        The effect, the level and the power.
    tests : int
        Router counts times cells of the panel.

    Returns
    -------
    int
        Questions of each cell.

    Examples
    --------
    >>> needed(SweepThresholds(), 1), needed(SweepThresholds(), 9)
    (658, 1070)
    """
    effect, level = limits.effect_of_interest, limits.alpha / SIDES
    return questions_needed(
        effect, PLANNED_DISCORDANCE, alpha=level, n_tests=tests, power=limits.power
    )


@lru_cache
def needed_of(limits: SweepThresholds, tests: int, runs: tuple[int, int]) -> int | None:
    """Return the number of questions that detects the effect with these numbers of runs.

    Parameters
    ----------
    limits : SweepThresholds
        The effect, the level and the power.
    tests : int
        Router counts times cells of the panel.
    runs : tuple of int
        Clean and noisy runs.

    Returns
    -------
    int or None
        None if no number of questions is enough.

    Examples
    --------
    >>> [needed_of(SweepThresholds(), 1, runs) for runs in ((3, 2), (3, 1), (1, 1))]
    [658, 1780, None]
    """
    first, effect = needed(limits, tests), limits.effect_of_interest
    if _shifted(limits, _MOST, tests, runs) > effect:
        return None
    enough = range(first, _MOST)
    return enough[
        bisect_left(enough, True, key=lambda n: _shifted(limits, n, tests, runs) <= effect)
    ]


def router_counts(design: Design) -> int:
    """Return the number of router counts of the noisy arm, at least 1; each is a test of the
    cell."""
    counts = set()
    for setting in design.settings:
        if setting.arm == Arm.NOISY_REWRITE:
            counts.add(setting.level)
    return max(1, len(counts))


def runs_of(settings: Sequence[Setting]) -> tuple[int, int]:
    """Return how often the clean baseline and the noisy arm are run."""
    clean = set()
    noisy = set()
    for s in settings:
        if s.arm == Arm.FORWARD_FULL and s.level == 1:
            clean.add(s.replicate)
        if s.arm == Arm.NOISY_REWRITE:
            noisy.add(s.replicate)
    return max(1, len(clean)), max(1, len(noisy))


def repeated(settings: Sequence[Setting]) -> str:
    """Return the options that repeat every arm, such as ` with noisy_replicates=2`; empty if all
    are repeated.
    """
    options = zip(("clean_replicates=3", "noisy_replicates=2"), runs_of(settings), strict=True)
    once = []
    for option, number in options:
        if number < REPEATED:
            once.append(option)
    return f" with {' '.join(once)}" if once else ""


def detectable(
    limits: SweepThresholds,
    questions: int,
    tests: int,
    runs: tuple[int, int] = (REPEATED, REPEATED),
) -> float:
    """Return the smallest gain over clean that a number of questions detects.

    Parameters
    ----------
    limits : SweepThresholds
        The level and the power.
    questions : int
        Questions of each cell.
    tests : int
        Router counts times cells of the panel.
    runs : tuple of int
        Clean and noisy runs. A side that is run once adds the largest plausible shift to the
        variance of the test, which more questions do not reduce.

    Returns
    -------
    float
        0-1; NaN if no gain can be detected.
    """
    level = limits.alpha / SIDES
    gain = minimum_detectable_gain(
        questions, PLANNED_DISCORDANCE, alpha=level, n_tests=tests, power=limits.power
    )
    return gain if np.isnan(gain) else max(gain, _shifted(limits, questions, tests, runs))


def _shifted(limits: SweepThresholds, questions: int, tests: int, runs: tuple[int, int]) -> float:
    """Return the smallest gain detected despite shifts of sides that are run once; 0 without such
    sides.
    """
    once = sum(number < REPEATED for number in runs)
    items = np.sqrt(PLANNED_DISCORDANCE / 2 * sum(1 / number for number in runs) / questions)
    level = scipy.stats.norm.isf(limits.alpha / SIDES / tests)
    limit = level * np.hypot(items, limits.run_sd_plausible * np.sqrt(once))
    return float(limit + scipy.stats.norm.ppf(limits.power) * items) if once else 0.0
