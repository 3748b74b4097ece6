"""Define the design of the validity audit and its thresholds.

The arm of a setting is a family of edits, and its level is the number of the edit; level 0 is the
original. This module does no I/O.
"""

from dataclasses import dataclass

from audit.core.errors import check_counts
from audit.core.records import Design, Part
from audit.judging.thresholds import Limits
from audit.validity.edits.record import ORIGINAL, Family


def make_design(edits_per_family: int, spare_edits: int, replays: int) -> Design:
    """Return the design: replays of the original, the edits of each family, and one placebo.

    Parameters
    ----------
    edits_per_family : int
        Number of edits of each family.
    spare_edits : int
        Number of further format edits, which replace edits that change nothing.
    replays : int
        How often the original is sent, to measure the noise floor.

    Returns
    -------
    Design
        Each setting is a separate part, so that it can be run again alone.

    Raises
    ------
    ConfigError
        If a number is out of range.
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
    """Define the thresholds of the validity audit. Shares, scores and changes are 0-1.

    Attributes
    ----------
    alpha : float
        Error rate of both directions together, over the panel.
    noop_share_max : float
        Largest share of edits whose request equals that of the original (G1).
    parse_share_min : float
        Least share of parsed answers (G1).
    parse_drop_alpha : float
        Level of the test that an edit does not change the share of parsed answers.
    applicable_share_min : float
        Least share of the wanted edits that a family must have.
    baseline_standard_errors : float
        Number of standard errors by which the score must exceed the score of every rule that does
        not read the question (G2).
    denominator_min : float
        Least lower limit of the change under surface edits, for the ratio to be reported (G3).
    margin : float
        Largest share of answers (beyond the share under surface edits) that edits of the content
        may change in an invariance cell.
    follow_min : float
        Least rate of followed contracts for a selective cell.
    wrong_to_right_max : float
        Largest share of wrong answers that edits of the content may make right (F5).
    position_alpha : float
        Level of the test that the key is at every position equally often (F3b).
    label_mass_min : float
        Least total probability of the answer labels (F3c).
    replay_change_max : float
        Largest share of answers that may change between replays (noise floor).
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
