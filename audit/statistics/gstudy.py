"""Estimate how much of a score's variance is due to items, wordings, seeds or system prompts.

The estimates are those of generalizability studies (G-studies; Brennan 2001).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import scipy

from audit.core.errors import DataError
from audit.statistics.paired import FloatArray

_ALPHA = 0.05
WANTED = 0.8  # the dependability for which the needed number of templates is computed


@dataclass(frozen=True)
class GStudy:
    """Report the variance components of scores, and the dependability of the mean score.

    Each item was scored (0-1) under each template.

    Attributes
    ----------
    items, templates : int
        Number of items n and number of templates t.
    item, template : float
        Variance components of the two main effects, at least 0.
    residual : float
        Variance component of the interaction item x template, together with all remaining variance.
    seed : float or None
        Variance between repetitions of the same request, which is part of the residual; None
        without repetitions.
    dependability : float
        Phi coefficient (the dependability of absolute scores, 0-1) of the mean over these t
        templates.
    needed : int or None
        Number of templates that gives a Phi of at least WANTED. None if the items do not differ
        significantly (F test at the 5 % level).
    """

    items: int
    templates: int
    item: float
    template: float
    residual: float
    seed: float | None
    dependability: float
    needed: int | None


def gstudy(scores: FloatArray, replays: FloatArray | None = None) -> GStudy:
    """Estimate the variance components of items and templates.

    Parameters
    ----------
    scores : (t, n) array
        Scores of the same n items under t templates. Items with a NaN are left out.
    replays : (K, n) array or None
        Scores of K repetitions of the same request, from which the variance between seeds is
        estimated.

    Returns
    -------
    GStudy
        Components, dependability, and the number of templates needed.

    Raises
    ------
    DataError
        If there are fewer than two templates, or fewer than two complete items.
    """
    complete = scores[:, ~np.isnan(scores).any(axis=0)]
    t, n = complete.shape
    if t < 2 or n < 2:
        raise DataError(
            "A G-study needs at least two templates and two items with a score under every "
            f"template. The scores have {t} templates and {n} such items."
        )
    estimates = components(complete, ("template", "item"))
    template, item, residual = (
        estimates["template",],
        estimates["item",],
        estimates["template", "item"],
    )
    error = template + residual
    phi = item / (item + error / t) if item + error > 0 else float("nan")
    needed = None
    # This F statistic is the mean square of items divided by the residual mean square.
    differ = 1 + t * item / residual if residual > 0 else math.inf
    if item > 0 and scipy.stats.f.sf(differ, n - 1, (n - 1) * (t - 1)) <= _ALPHA:
        needed = max(1, math.ceil(WANTED / (1 - WANTED) * error / item - 1e-9))
    seed = None
    if replays is not None and len(replays) > 1:
        known = replays[:, ~np.isnan(replays).any(axis=0)]
        seed = float(known.var(axis=0, ddof=1).mean()) if known.shape[1] else None
    return GStudy(n, t, item, template, residual, seed, phi, needed)


def components(
    table: FloatArray, axes: Sequence[str], within: Mapping[str, str] | None = None
) -> dict[tuple[str, ...], float]:
    """Estimate the variance components of a complete random design.

    Parameters
    ----------
    table : array
        One score for each combination of levels. Each axis is a factor with two or more levels.
    axes : sequence of str
        Name of each axis.
    within : mapping or None
        Maps each nested factor to the factor in which it lies. For example, {"item": "seed"} means
        that every seed has its own items, so the effect of items is an effect within seeds.

    Returns
    -------
    dict of tuple to float
        Variance component of each effect (ANOVA estimates, at least 0). The component of the last
        effect includes the residual variance.
    """
    levels = dict(zip(axes, table.shape, strict=True))
    effects = _effects(axes, within or {})
    centred = table - table.mean()
    squares: dict[tuple[str, ...], float] = {}
    freedom: dict[tuple[str, ...], int] = {}
    # The sum of squares of an effect excludes those of the effects of fewer factors that it
    # contains.
    for effect in effects:
        mean = centred.mean(
            axis=tuple(i for i, axis in enumerate(axes) if axis not in effect), keepdims=True
        )
        parts = []
        for e in squares:
            if set(e) < set(effect):
                parts.append(e)
        total = float(np.sum(np.broadcast_to(mean, table.shape) ** 2))
        squares[effect] = total - sum(squares[part] for part in parts)
        size = math.prod(levels[axis] for axis in effect)
        freedom[effect] = size - 1 - sum(freedom[e] for e in parts)
    estimates: dict[tuple[str, ...], float] = {}
    # The expected mean square of an effect contains the variance component of this effect, and that
    # of every effect that includes it.
    for effect in reversed(effects):
        larger = sum(_repeats(e, levels) * estimates[e] for e in estimates if set(e) > set(effect))
        estimates[effect] = (squares[effect] / freedom[effect] - larger) / _repeats(effect, levels)
    rounding = 1e-12 * float(np.mean(table**2))
    components = {}
    for effect in effects:
        components[effect] = estimates[effect] if estimates[effect] > rounding else 0.0
    return components


def _effects(axes: Sequence[str], within: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return the main effects and the interactions, ordered by their number of factors.

    An effect that contains a nested factor also contains the factor in which the nested factor
    lies.
    """
    every: list[tuple[str, ...]] = []
    for k in range(1, len(axes) + 1):
        every += combinations(axes, k)
    for inner, outer in within.items():
        every = [effect for effect in every if inner not in effect or outer in effect]
    return every


def _repeats(effect: Sequence[str], levels: Mapping[str, int]) -> int:
    return math.prod(count for axis, count in levels.items() if axis not in effect)
