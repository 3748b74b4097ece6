"""How much of a score is the item, how much the wording: a one-facet G-study (items x templates, Brennan 2001)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from audit.errors import DataError
from audit.statistics.paired import FloatArray


@dataclass(frozen=True)
class GStudy:
    """Variance components of 0-1 scores over n items x t templates (none below 0), and what follows from them.

    item, template: of the main effects; residual: item x template with what is left. seed: between replays of one
    request, part of the residual; None without replays. dependability: Phi of the mean over these t templates (absolute
    decisions). needed: templates for Phi of at least `wanted`; None where items do not differ.
    """

    items: int
    templates: int
    item: float
    template: float
    residual: float
    seed: float | None
    dependability: float
    wanted: float
    needed: int | None


def gstudy(scores: FloatArray, replays: FloatArray | None = None, wanted: float = 0.8) -> GStudy:
    """scores (t, n): complete rows of the same items under t templates; items with a NaN are left out.

    replays (K, n): the same request again, for the seed's component. Raises DataError with fewer than two templates or
    two complete items.
    """
    complete = scores[:, ~np.isnan(scores).any(axis=0)]
    t, n = complete.shape
    if t < 2 or n < 2:
        raise DataError(f"A G-study needs two templates and two items that have all of them; found {t} and {n}.")
    grand = complete.mean()
    ss_item = t * float(np.sum((complete.mean(axis=0) - grand) ** 2))
    ss_template = n * float(np.sum((complete.mean(axis=1) - grand) ** 2))
    ss_rest = float(np.sum((complete - grand) ** 2)) - ss_item - ss_template
    ms_item, ms_template = ss_item / (n - 1), ss_template / (t - 1)
    residual = max(0.0, ss_rest / ((n - 1) * (t - 1)))
    item, template = max(0.0, (ms_item - residual) / t), max(0.0, (ms_template - residual) / n)
    error = template + residual
    phi = item / (item + error / t) if item + error > 0 else float("nan")
    needed = None
    if item > 0:
        needed = max(1, math.ceil(wanted / (1 - wanted) * error / item - 1e-9))
    seed = None
    if replays is not None and len(replays) > 1:
        known = replays[:, ~np.isnan(replays).any(axis=0)]
        seed = float(known.var(axis=0, ddof=1).mean()) if known.shape[1] else None
    return GStudy(n, t, item, template, residual, seed, phi, wanted, needed)
