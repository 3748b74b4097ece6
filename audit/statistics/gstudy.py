"""Estimate how much of a score is item, wording, seed or system prompt: G-studies (Brennan
2001)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import scipy

from audit.core.errors import DataError
from audit.statistics.paired import FloatArray

_ALPHA = 0.05
WANTED = 0.8  # dependability that enough templates reach


@dataclass(frozen=True)
class GStudy:
    """Hold variance components of 0-1 scores over items x templates, and what follows from them.

    Attributes
    ----------
    items, templates : int
        Numbers n and t.
    item, template : float
        Components of the main effects; none is below 0.
    residual : float
        Component of item x template with what is left.
    seed : float or None
        Component between replays of one request, part of the residual; None without replays.
    dependability : float
        Phi of the mean over these t templates (absolute decisions).
    needed : int or None
        Templates for Phi of at least WANTED; None if items are not shown to differ (F test, 5 %).
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
        Scores of the same items under t templates; items with a NaN are left out.
    replays : (K, n) array or None
        Scores of the same request repeated, for the seed's component.

    Returns
    -------
    GStudy
        Components, dependability, and the number of templates needed.

    Raises
    ------
    DataError
        If there are fewer than two templates or two complete items.
    """
    complete = scores[:, ~np.isnan(scores).any(axis=0)]
    t, n = complete.shape
    if t < 2 or n < 2:
        raise DataError(
            f"A G-study needs two templates and two items that have all of them; found {t} and {n}."
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
    # Mean square of items over that of what is left.
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
        One score in each cell; one axis a factor, each of two or more levels.
    axes : sequence of str
        Name of each axis.
    within : mapping or None
        {"item": "seed"} if every seed has items of its own, so that an effect of items is one of
        items within seeds.

    Returns
    -------
    dict of tuple to float
        Component of each effect (ANOVA estimates, none below 0). The last one also contains what is
        left.
    """
    levels = dict(zip(axes, table.shape, strict=True))
    effects = _effects(axes, within or {})
    centred = table - table.mean()
    squares: dict[tuple[str, ...], float] = {}
    freedom: dict[tuple[str, ...], int] = {}
    for effect in effects:  # an effect's sum of squares excludes what its parts explain
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
    # A mean square holds its own component and those of all that contain it.
    for effect in reversed(effects):
        larger = sum(_repeats(e, levels) * estimates[e] for e in estimates if set(e) > set(effect))
        estimates[effect] = (squares[effect] / freedom[effect] - larger) / _repeats(effect, levels)
    rounding = 1e-12 * float(np.mean(table**2))
    components = {}
    for effect in effects:
        components[effect] = estimates[effect] if estimates[effect] > rounding else 0.0
    return components


def _effects(axes: Sequence[str], within: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return main effects and interactions, small ones first.

    An axis that is within another occurs only together with that one.
    """
    every: list[tuple[str, ...]] = []
    for k in range(1, len(axes) + 1):
        every += combinations(axes, k)
    for inner, outer in within.items():
        every = [effect for effect in every if inner not in effect or outer in effect]
    return every


def _repeats(effect: Sequence[str], levels: Mapping[str, int]) -> int:
    return math.prod(count for axis, count in levels.items() if axis not in effect)
