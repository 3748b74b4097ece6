"""Compute how many questions a sweep needs to detect the smallest effect that matters."""

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import scipy

from audit.core.records import Design, Setting
from audit.statistics.power import minimum_detectable_gain, questions_needed
from audit.sweep.design import Arm, SweepThresholds

# In Table 2 of song2026, the median of (improve + degrade) / n over the 108 cells is 0.2.
PLANNED_DISCORDANCE = 0.20
# The two-sided interval of an excess must also be above zero, so its one-sided test has the level
# alpha / 2.
SIDES = 2
# With at least this many runs of the clean or the noisy arm, its run shift is measured, not
# assumed.
REPEATED = 2
_MOST = 10_000_000  # the largest number of questions that is considered


@lru_cache
def needed(limits: SweepThresholds, tests: int) -> int:
    """Return the number of questions that is needed to detect the smallest effect that matters.

    Parameters
    ----------
    limits : SweepThresholds
        The effect, the level and the power.
    tests : int
        The number of tests: the number of router counts multiplied by the number of cells of the
        panel.

    Returns
    -------
    int
        The number of questions of each cell.

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
    """Return the number of questions that is needed to detect the effect, if arms are run a given
    number of times.

    Parameters
    ----------
    limits : SweepThresholds
        The effect, the level and the power.
    tests : int
        The number of tests: the number of router counts multiplied by the number of cells of the
        panel.
    runs : tuple of int
        The numbers of clean and of noisy runs.

    Returns
    -------
    int or None
        The number of questions of each cell; None if no number is enough.

    Examples
    --------
    >>> [needed_of(SweepThresholds(), 1, runs) for runs in ((3, 2), (3, 1), (1, 1))]
    [658, 1780, None]
    """
    first, effect = needed(limits, tests), limits.effect_of_interest
    if _shifted(limits, _MOST, tests, runs) > effect:
        return None
    sizes = range(first, _MOST)
    smallest = bisect_left(sizes, True, key=lambda n: _shifted(limits, n, tests, runs) <= effect)
    return sizes[smallest]


def router_counts(design: Design) -> int:
    """Count the tests of a cell: one test for each router count of the noisy arm.

    Parameters
    ----------
    design : Design
        The settings of the sweep.

    Returns
    -------
    int
        The number of tests, at least 1.
    """
    counts = set()
    for setting in design.settings:
        if setting.arm == Arm.NOISY_REWRITE:
            counts.add(setting.level)
    return max(1, len(counts))


def runs_of(settings: Sequence[Setting]) -> tuple[int, int]:
    """Count the runs of the clean baseline and of the noisy arm.

    Parameters
    ----------
    settings : sequence of Setting
        The settings of a sweep.

    Returns
    -------
    tuple of int
        How often the clean baseline and the noisy arm are run, each at least 1.
    """
    clean = set()
    noisy = set()
    for s in settings:
        if s.arm == Arm.FORWARD_FULL and s.level == 1:
            clean.add(s.replicate)
        if s.arm == Arm.NOISY_REWRITE:
            noisy.add(s.replicate)
    return max(1, len(clean)), max(1, len(noisy))


def repeated(settings: Sequence[Setting]) -> str:
    """Return the options that would repeat the arms that the sweep runs only once.

    Parameters
    ----------
    settings : sequence of Setting
        The settings of a sweep.

    Returns
    -------
    str
        A text such as ` with noisy_replicates=2`; empty if the clean and the noisy arm are both
        repeated.
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
    """Return the smallest gain over the clean baseline that can be detected with a number of
    questions.

    Parameters
    ----------
    limits : SweepThresholds
        The level and the power.
    questions : int
        The number of questions of each cell.
    tests : int
        The number of tests: the number of router counts multiplied by the number of cells of the
        panel.
    runs : tuple of int
        The numbers of clean and of noisy runs.

    Returns
    -------
    float
        The gain, 0-1; NaN if no gain can be detected.

    Notes
    -----
    If the clean or the noisy arm is run once, the largest plausible shift of a run adds to the
    variance of the test. More questions do not reduce this part of the variance.
    """
    level = limits.alpha / SIDES
    gain = minimum_detectable_gain(
        questions, PLANNED_DISCORDANCE, alpha=level, n_tests=tests, power=limits.power
    )
    return gain if np.isnan(gain) else max(gain, _shifted(limits, questions, tests, runs))


def _shifted(limits: SweepThresholds, questions: int, tests: int, runs: tuple[int, int]) -> float:
    """Return the smallest gain that can be detected despite shifts of the arms that are run once.

    The gain is 0 if the clean and the noisy arm are both repeated.
    """
    once = sum(number < REPEATED for number in runs)
    items = np.sqrt(PLANNED_DISCORDANCE / 2 * sum(1 / number for number in runs) / questions)
    level = scipy.stats.norm.isf(limits.alpha / SIDES / tests)
    limit = level * np.hypot(items, limits.run_sd_plausible * np.sqrt(once))
    return float(limit + scipy.stats.norm.ppf(limits.power) * items) if once else 0.0
