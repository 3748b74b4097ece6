"""Define the design of the construct-validity audit and its thresholds (pure).

The arm of a setting is a family of edits, and its level is the number of the edit. Level 0 is the
original.
"""

from dataclasses import dataclass

from audit.core.errors import check_counts
from audit.core.records import Design, Part
from audit.judging.thresholds import Limits
from audit.validity.edits.record import ORIGINAL, Family


def make_design(edits_per_family: int, spare_edits: int, replays: int) -> Design:
    """Return the design: the original `replays` times, the edits of each family, and one placebo.

    Parameters
    ----------
    edits_per_family : int
        The number of edits of each family.
    spare_edits : int
        The number of further format edits. They replace edits that change nothing.
    replays : int
        How often the original is sent, to measure the noise floor.

    Returns
    -------
    Design
        Each setting is a part of its own, so that it can be repeated alone.
    """
    check_counts(edits_per_family=edits_per_family, replays=replays)
    check_counts(0, spare_edits=spare_edits)
    parts = [Part(ORIGINAL, (0,), k) for k in range(replays)]
    levels = {Family.FORMAT: edits_per_family + spare_edits, Family.PLACEBO: 1}
    for family in Family:
        n_edits = levels.get(family, edits_per_family)
        parts += [Part(family.value, (j,)) for j in range(1, n_edits + 1)]
    return Design(tuple(parts))


@dataclass(frozen=True)
class ValidityThresholds(Limits):
    """Define the thresholds. Shares, scores and changes are 0-1.

    Attributes
    ----------
    alpha : float
        Error rate of both directions together, over the panel.
    noop_share_max, parse_share_min, baseline_standard_errors, denominator_min : float
    The thresholds of the paper's gates G1, G1, G2 and G3.
    parse_drop_alpha, position_alpha : float
        The levels of the tests of parseability and of the key's position.
    applicable_share_min : float
        The least share of edits that a family must have.
    margin : float
        The most additional answers, compared with a surface edit, that an invariant attribute edit
        may move.
    follow_min : float
        The least rate of followed contracts in a selective cell.
    wrong_to_right_max : float
        The threshold of F5.
    label_mass_min, replay_change_max : float
        The thresholds of F3c and of the noise floor.
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
