"""The arms of the construct-validity audit and its design (pure). The level of a setting is which edit; 0: none."""

from enum import StrEnum

from audit.errors import check_counts
from audit.records import Design, Part
from audit.validity.edits.record import Family


class Arm(StrEnum):
    """Which family of edits an item went through; the four are `edits.record.Family`."""

    ORIGINAL = "original"
    FORMAT = "format"
    SEMANTIC = "semantic"
    ATTRIBUTE = "attribute"
    PLACEBO = "placebo"


def make_design(edits_per_family: int, spare_edits: int, replays: int) -> Design:
    """The original `replays` times (the same request again: the noise floor), each family's edits, one placebo.

    Each is a part of its own, so each is run again alone. Format has `spare_edits` more, which take the place of those
    that turn out to change nothing.
    """
    check_counts(edits_per_family=edits_per_family, replays=replays)
    check_counts(0, spare_edits=spare_edits)
    parts = [Part(Arm.ORIGINAL, (0,), k) for k in range(replays)]
    levels = {Family.FORMAT: edits_per_family + spare_edits, Family.PLACEBO: 1}
    for family in Family:
        parts += [Part(family.value, (j,)) for j in range(1, levels.get(family, edits_per_family) + 1)]
    return Design(tuple(parts))
