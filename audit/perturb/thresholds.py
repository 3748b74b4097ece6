"""The thresholds of the gates and verdicts of this audit."""

from __future__ import annotations

from dataclasses import dataclass

from audit.verdict.thresholds import Thresholds


@dataclass(frozen=True)
class PerturbThresholds(Thresholds):
    """broken_share_max: upper limit of the share of broken variants above which no verdict is given.
    curve_references_min: from so many reference models on, ConStat's curve must agree too. order_*: see
    `gates.order_of_items`.
    """

    above_chance_standard_errors: float = 2.0
    answered_share_min: float = 0.95
    noop_share_max: float = 0.01
    noise_floor_alpha: float = 0.001
    broken_share_max: float = 0.10
    order_z_min: float = 2.5
    order_items_min: int = 30
    curve_references_min: int = 10
