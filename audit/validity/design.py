"""Define the design of the construct-validity audit and its thresholds (pure).

The arm of a setting is a family of edits, its level which edit; 0 is the original.
"""

from dataclasses import dataclass

from audit.core.errors import check_counts
from audit.core.records import Design, Part
from audit.judging.thresholds import Limits
from audit.validity.edits.record import ORIGINAL, Family


def make_design(edits_per_family: int, spare_edits: int, replays: int) -> Design:
    """Return the original `replays` times (the noise floor), each family's edits, and one placebo.

    Parameters
    ----------
    edits_per_family : int
        Edits of each family.
    spare_edits : int
        Further format edits, which replace those that turn out to change nothing.
    replays : int
        Number of times that the original is sent.

    Returns
    -------
    Design
        Each setting is a part of its own, so each is run again alone.
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
    """Define thresholds; shares, scores and changes are 0-1.

    Attributes
    ----------
    alpha : float
        Level of both directions together, over the panel.
    noop_share_max, parse_share_min, baseline_standard_errors, denominator_min : float
        The paper's G1, G1, G2 and G3.
    parse_drop_alpha, position_alpha : float
        Levels of tests of parseability, and of the key's position.
    applicable_share_min : float
        Share below which a family is withheld.
    margin : float
        How much more than a surface edit an invariant attribute edit may move answers.
    follow_min : float
        Rate of followed contracts below which a cell that moves more under attribute edits is not
        selective.
    wrong_to_right_max : float
        F5.
    label_mass_min, replay_change_max : float
        F3c, and the noise floor.
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
