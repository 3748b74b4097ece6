"""How much of a score is the item, how much the wording, the seed, the system prompt: G-studies (Brennan 2001)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import scipy

from audit.errors import DataError
from audit.statistics.paired import FloatArray

_ALPHA = 0.05
WANTED = 0.8  # dependability


@dataclass(frozen=True)
class GStudy:
    """Variance components of 0-1 scores over n items x t templates (none below 0), and what follows from them.

    item, template: of the main effects; residual: item x template with what is left. seed: between replays of one
    request, part of the residual; None without replays. dependability: Phi of the mean over these t templates (absolute
    decisions). needed: templates for Phi of at least WANTED; None where items are not shown to differ (F test, 5 %).
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
    """scores (t, n): complete rows of the same items under t templates; items with a NaN are left out.

    replays (K, n): the same request again, for the seed's component. Raises DataError with fewer than two templates or
    two complete items.
    """
    complete = scores[:, ~np.isnan(scores).any(axis=0)]
    t, n = complete.shape
    if t < 2 or n < 2:
        raise DataError(f"A G-study needs two templates and two items that have all of them; found {t} and {n}.")
    found = components(complete, ("template", "item"))
    template, item, residual = found["template",], found["item",], found["template", "item"]
    error = template + residual
    phi = item / (item + error / t) if item + error > 0 else float("nan")
    needed = None
    differ = 1 + t * item / residual if residual > 0 else math.inf  # mean square of items over that of what is left
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
    """Variance components of one score in each cell of a complete random design (ANOVA estimates, none below 0).

    table: one axis a factor, each of two or more levels. within: {"item": "seed"} where every seed has items of its
    own, so that an effect of items is one of items within seeds. The last component is also what is left.
    """
    levels = dict(zip(axes, table.shape, strict=True))
    effects = _effects(axes, within or {})
    centred = table - table.mean()
    squares: dict[tuple[str, ...], float] = {}
    freedom: dict[tuple[str, ...], int] = {}
    for effect in effects:  # each loses what its parts explain
        mean = centred.mean(axis=tuple(i for i, axis in enumerate(axes) if axis not in effect), keepdims=True)
        parts = [e for e in squares if set(e) < set(effect)]
        squares[effect] = float(np.sum(np.broadcast_to(mean, table.shape) ** 2)) - sum(squares[e] for e in parts)
        freedom[effect] = math.prod(levels[axis] for axis in effect) - 1 - sum(freedom[e] for e in parts)
    found: dict[tuple[str, ...], float] = {}
    for effect in reversed(effects):  # a mean square holds its own component and those of all that contain it
        larger = sum(_repeats(e, levels) * found[e] for e in found if set(e) > set(effect))
        found[effect] = (squares[effect] / freedom[effect] - larger) / _repeats(effect, levels)
    rounding = 1e-12 * float(np.mean(table**2))
    return {effect: found[effect] if found[effect] > rounding else 0.0 for effect in effects}


def _effects(axes: Sequence[str], within: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Main effects and interactions, small ones first; an axis that is within another only together with that one."""
    every = [e for k in range(1, len(axes) + 1) for e in combinations(axes, k)]
    return [e for e in every if all(inner not in e or outer in e for inner, outer in within.items())]


def _repeats(effect: Sequence[str], levels: Mapping[str, int]) -> int:
    return math.prod(count for axis, count in levels.items() if axis not in effect)
