"""The design of the construct-validity audit and its thresholds (pure). The arm of a setting is a family of edits, its
level which edit; 0: none.
"""

from dataclasses import dataclass

from audit.errors import check_counts
from audit.records import Design, Part
from audit.validity.edits.record import ORIGINAL, Family
from audit.verdict.thresholds import Limits


def make_design(edits_per_family: int, spare_edits: int, replays: int) -> Design:
    """The original `replays` times (the same request again: the noise floor), each family's edits, one placebo.

    Each is a part of its own, so each is run again alone. Format has `spare_edits` more, which take the place of those
    that turn out to change nothing.
    """
    check_counts(edits_per_family=edits_per_family, replays=replays)
    check_counts(0, spare_edits=spare_edits)
    parts = [Part(ORIGINAL, (0,), k) for k in range(replays)]
    levels = {Family.FORMAT: edits_per_family + spare_edits, Family.PLACEBO: 1}
    for family in Family:
        parts += [Part(family.value, (j,)) for j in range(1, levels.get(family, edits_per_family) + 1)]
    return Design(tuple(parts))


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
