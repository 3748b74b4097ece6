"""The thresholds of the gates and statuses of this audit."""

from dataclasses import dataclass

from audit.verdict.thresholds import Limits


@dataclass(frozen=True)
class ValidityThresholds(Limits):
    """Shares, scores and changes are 0-1.

    alpha: of both directions together, over the panel. noop_share_max, parse_share_min, baseline_standard_errors,
    denominator_min: the paper's G1, G1, G2, G3. applicable_share_min: below it a family is withheld.
    margin: how much more than a surface edit an invariant attribute edit may move answers. follow_min: rate of followed
    contracts below which a cell that moves more under attribute edits is not selective. wrong_to_right_max: F5.
    """

    noop_share_max: float = 0.2
    parse_share_min: float = 0.95
    parse_drop_alpha: float = 0.001
    applicable_share_min: float = 0.8
    baseline_standard_errors: float = 2.0
    denominator_min: float = 0.02
    margin: float = 0.05
    follow_min: float = 0.5
    wrong_to_right_max: float = 0.9
    position_alpha: float = 0.001
    label_mass_min: float = 0.1
    replay_change_max: float = 0.05
