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
        Each setting is a separate part, so that each setting can be repeated alone.

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
        Probability of any false positive, in either direction and in any cell of the panel.
    noop_share_max : float
        Largest allowed share of edits whose request equals that of the original (G1).
    parse_share_min : float
        Smallest allowed share of parsed answers (G1).
    parse_drop_alpha : float
        Level of the test whose null hypothesis is that an edit does not change the share of parsed
        answers.
    applicable_share_min : float
        Smallest allowed share of the planned edits of a family that could be made.
    baseline_standard_errors : float
        Number of standard errors by which the score must exceed the score of every rule that does
        not read the question (G2).
    denominator_min : float
        The ratio is reported if the lower confidence limit of the change under surface edits is at
        least this large (G3).
    margin : float
        For invariance cells: the largest allowed difference between the share of answers that edits
        of the content change and the share that surface edits change.
    follow_min : float
        A cell is selective only if the lower confidence limit of the rate of followed contracts is
        at least this value.
    wrong_to_right_max : float
        Largest allowed share of wrong answers that edits of the content make right (F5).
    position_alpha : float
        Level of the test whose null hypothesis is that the key is at every position equally often
        (F3b).
    label_mass_min : float
        Smallest allowed total probability of the answer labels (F3c).
    replay_change_max : float
        Largest allowed share of answers that change between replays (noise floor).
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
