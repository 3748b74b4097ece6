"""The paper's numbers, exactly (song2026: eq. 9, section 4.4, appendix Tables 1-3).

    gain = noisy accuracy - clean accuracy        positive excess = max(gain, 0)        violation = gain > 0
    improve = wrong -> correct                    degrade = correct -> wrong            gain = (improve - degrade) / n

Gains are formed from counts, never from printed accuracies, so that "gain > 0" is exact. The published
`mean_positive_excess` is the mean over the *violating* settings (models) only, while `mean_gain` is over all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.errors import DataError
from audit.sweep.record import Sweep

_TINY_COUNT = 1e-9  # averaged replicates are fractions; a net of this many items is rounding


@dataclass(frozen=True)
class SettingRow:
    """One row of Table 2. n: pairs with both answers; left_out: items without. Accuracies and gain (0-1) are over n.

    improve and degrade are whole numbers, or expected numbers where replicates were averaged.
    """

    model: str
    benchmark: str
    routers: int
    n: int
    left_out: int
    clean_accuracy: float
    noisy_accuracy: float
    gain: float
    positive_excess: float
    violation: bool
    improve: float
    degrade: float


@dataclass(frozen=True)
class ModelSummary:
    """One row of Table 1. Excesses and gains in accuracy (0-1); mean_positive_excess is 0 where nothing violates."""

    model: str
    benchmark: str
    violation_count: int
    violation_rate: float
    max_positive_excess: float
    mean_positive_excess: float
    mean_gain: float


@dataclass(frozen=True)
class RouterSummary:
    """One row of Table 3, over `models` cells."""

    routers: int
    models: int
    violating_models: int
    violation_rate: float
    mean_positive_excess: float
    improve: float
    degrade: float
    net_improve: float


def setting_row(
    model: str, routers: int, clean_correct: float, improve: float, degrade: float, n: int,
    *, benchmark: str = "", left_out: int = 0,
) -> SettingRow:  # fmt: skip
    """A row from counts over n pairs: clean_correct items right under clean, `improve` gained, `degrade` lost."""
    if n < 1:
        raise DataError(f"{model} at r={routers}: no pair with both answers, so no gain can be computed.")
    net = improve - degrade
    if abs(net) < _TINY_COUNT:
        net = 0.0
    gain = net / n
    return SettingRow(
        model=model,
        benchmark=benchmark,
        routers=routers,
        n=n,
        left_out=left_out,
        clean_accuracy=clean_correct / n,
        noisy_accuracy=(clean_correct + net) / n,
        gain=gain,
        positive_excess=max(gain, 0.0),
        violation=net > 0,
        improve=improve,
        degrade=degrade,
    )


def setting_rows(sweep: Sweep) -> list[SettingRow]:
    """Table 2 for one cell: one row per router count, from item-paired outcomes.

    With averaged replicates c, q in [0, 1], improve = sum((1 - c) q) and degrade = sum(c (1 - q)): the expected counts
    for one replicate of each, whose difference is still exactly n times the gain.
    """
    rows = []
    for r, noisy in zip(sweep.routers, sweep.noisy, strict=True):
        both = ~np.isnan(sweep.clean) & ~np.isnan(noisy)
        c, q = sweep.clean[both], noisy[both]
        counts = float(c.sum()), float(((1 - c) * q).sum()), float((c * (1 - q)).sum()), int(both.sum())
        lost = int((~both).sum())
        rows.append(setting_row(sweep.model, r, *counts, benchmark=sweep.benchmark, left_out=lost))
    return rows


def model_summary(rows: Sequence[SettingRow]) -> list[ModelSummary]:
    """Table 1: one row per cell, by falling violation count as printed (ties: first seen)."""
    cells = dict.fromkeys((row.model, row.benchmark) for row in rows)
    out = []
    for model, benchmark in cells:
        mine = [row for row in rows if (row.model, row.benchmark) == (model, benchmark)]
        count = sum(row.violation for row in mine)
        out.append(
            ModelSummary(
                model=model,
                benchmark=benchmark,
                violation_count=count,
                violation_rate=count / len(mine),
                max_positive_excess=max(row.positive_excess for row in mine),
                mean_positive_excess=_mean_excess(mine),
                mean_gain=float(np.mean([row.gain for row in mine])),
            )
        )
    return sorted(out, key=lambda s: -s.violation_count)


def router_summary(rows: Sequence[SettingRow]) -> list[RouterSummary]:
    """Table 3: one row per router count."""
    out = []
    for r in sorted({row.routers for row in rows}):
        mine = [row for row in rows if row.routers == r]
        count = sum(row.violation for row in mine)
        improve, degrade = sum(row.improve for row in mine), sum(row.degrade for row in mine)
        out.append(
            RouterSummary(
                r, len(mine), count, count / len(mine), _mean_excess(mine), improve, degrade, improve - degrade
            )
        )
    return out


def _mean_excess(rows: Sequence[SettingRow]) -> float:
    positive = [row.positive_excess for row in rows if row.violation]
    return float(np.mean(positive)) if positive else 0.0
