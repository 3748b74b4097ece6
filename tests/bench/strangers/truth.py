"""What is true of a world, stated before it is judged, and which verdicts are then false."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from audit.judging.ladder import FINDINGS, Grade

Drawn = Callable[[np.random.Generator], Grade]  # draws one model and judges it


class Right(StrEnum):
    """The verdict that is right. `UNKNOWN`: other causes give the same data, so neither a strong
    finding nor a clearance is right."""

    FOUND = "found"
    NOT_FOUND = "not found"
    UNKNOWN = "cannot be known"


FALSE: Mapping[Right, tuple[Grade, ...]] = {
    Right.FOUND: (Grade.CLEARED,),
    Right.NOT_FOUND: FINDINGS,
    Right.UNKNOWN: (Grade.FOUND_STRONG, Grade.CLEARED),
}


@dataclass(frozen=True)
class Stranger:
    """A world: its right verdict, what is true in it, and one of its models, drawn and judged."""

    right: Right
    what: str
    judge: Drawn
