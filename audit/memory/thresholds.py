"""The thresholds of the gates and verdicts of this audit."""

from dataclasses import dataclass

from audit.verdict.thresholds import Thresholds


@dataclass(frozen=True)
class MemoryThresholds(Thresholds):
    """matched_*, drawn_alpha: see `gates`. kind_auc_max: see `gates.same_kind`. *_min: fewer carry no test."""

    answered_share_min: float = 0.95
    noop_share_max: float = 0.2
    matched_alpha: float = 0.01
    matched_share_min: float = 0.80
    drawn_alpha: float = 0.001
    kind_auc_max: float = 0.80
    exchangeable_alpha: float = 0.05
    references_min: int = 3
    shards_min: int = 10
    items_min: int = 20
